"""Which calls give the same for the same, and do nothing else.

A call that is not known to is taken to draw a random number, or to have an effect: it is neither repeated nor moved.
"""

import re

from wherelint.frameworks import FRAMEWORKS
from wherelint.ops import SIGNATURES

#: Where functions of arrays live; whatever else a framework has (files, devices, callbacks) may have effects.
_BELOW = tuple(module for framework in FRAMEWORKS.values() for module in framework.arrays_below.split())
_ARRAYS = {"numpy", "math", "builtins", *_BELOW, *(m for f in FRAMEWORKS.values() for m in f.arrays.split())}
_RANDOM = ("numpy.random", "random", *(module for framework in FRAMEWORKS.values() for module in framework.random))
#: Names, or parts of them between underscores, of what draws random numbers from a state that nobody passes.
_DRAWS = frozenset(
    """rand randn randint randperm random bernoulli binomial multinomial normal uniform poisson exponential geometric
    cauchy gamma categorical truncated dropout dropout1d dropout2d dropout3d rrelu gumbel shuffle choice permutation
    sampler sampled fractional attention lstm gru rnn""".split()
)
_EFFECTS = frozenset(
    """print input open exec eval setattr delattr next iter vars seed manual_seed set_seed save load Variable
    py_function numpy_function set_printoptions""".split()
)
#: What draws by a key, or is named like something that draws.
_KEYED = re.compile("|".join([r"math\.gamma\w*$", *(f.keyed for f in FRAMEWORKS.values() if f.keyed)]))
#: Methods of arrays that no table of operations has.
_METHODS = frozenset(
    """abs absolute all any argsort broadcast_to ceil clip dim element_size equal expand_dims eq float floor ge
    get_shape greater gt half int is_contiguous item le long lt masked_fill ne new_full new_ones new_tensor new_zeros
    ndimension nelement norm numel numpy set_shape size sqrt square tolist unbind unsqueeze view_as where""".split()
)
_METHODS_OF = tuple(f"{framework.methods}." for framework in FRAMEWORKS.values() if framework.methods)
_TABLED = frozenset(name.rpartition(".")[2] for name in SIGNATURES if name.startswith(_METHODS_OF))


def draws(name: str) -> bool:
    """Whether a function of a framework, by its dotted name, gives another random number at every call."""
    if name in SIGNATURES or _KEYED.match(name):
        return False
    owner, _, last = name.rpartition(".")
    in_random = owner.startswith(_RANDOM)
    return in_random or not _DRAWS.isdisjoint(re.split("_+", last.lower()))


def is_pure(name: str) -> bool:
    """Whether a function, by its dotted name, may be called twice, or elsewhere."""
    return only_gives(name) and (name in SIGNATURES or not draws(name))


def only_gives(name: str) -> bool:
    """Whether a function, by its dotted name, does nothing but give a value, which may be another at every call."""
    owner, _, last = name.rpartition(".")
    known = owner in _ARRAYS or any(owner.startswith(f"{module}.") for module in _BELOW)
    return not last.endswith("_") and last not in _EFFECTS and (name in SIGNATURES or known)


def is_pure_method(name: str) -> bool:
    """Whether a method of an array may be called twice, or elsewhere."""
    return not name.endswith("_") and (name in _TABLED or name in _METHODS)
