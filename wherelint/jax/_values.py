"""Where a value that is not finite was made: the first operation that makes nan or inf of finite numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from wherelint.companion import Poison, Report
from wherelint.jax._compat import JaxprEqn, Path, bind
from wherelint.jax._tags import Evaluation, Origin


def explain_value(f: Callable[..., Sequence[Any]], values: Sequence[Any]) -> Report:
    """The report of a function whose results are not finite; without a finding if its arguments are not, either."""
    raise NotImplementedError
