"""A loss over measurements some of which are missing (nan).

`loss` is right, and every parameter becomes nan with the first step: the residual of a missing measurement is
differentiated before it is dropped. `loss_safe` replaces the missing measurements first.
"""

import torch


def loss(prediction, measured):
    missing = torch.isnan(measured)
    squared = (prediction - measured) ** 2
    return torch.where(missing, 0.0, squared).sum()


def loss_safe(prediction, measured):
    missing = torch.isnan(measured)
    present = torch.where(missing, 0.0, measured)
    squared = (prediction - present) ** 2
    return torch.where(missing, 0.0, squared).sum()
