"""The double where, before and after: entropy of a distribution that has zeros.

The `where` around the product drops `0 * log(0)`, but not its derivative. Masking the operand of the logarithm is
enough; the outer `where` is then a matter of taste, since the product with 0 is 0.
"""

import torch


def entropy(p):
    return -torch.where(p > 0, p * torch.log(p), 0.0).sum()


def entropy_safe(p):
    safe_p = torch.where(p > 0, p, 1.0)
    return -(p * torch.log(safe_p)).sum()
