"""Does a gradient flow there? What the names of inputs, and the place of a function, say of it.

Most selections with a singular operation stand in code that nobody differentiates: labels, metrics, environments,
optimizers. Their names and folders are conventions of the whole field, and evidence, not proof.
"""

import ast
import re
from collections.abc import Iterable, Iterator

import numpy as np

from wherelint.evidence import names
from wherelint.evidence.carrying import Carrying, Scope
from wherelint.evidence.names import DATA, is_configured, words_of
from wherelint.evidence.pieces import Evidence
from wherelint.evidence.reach import reach
from wherelint.evidence.witness import is_regular_in_double
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef
from wherelint.graph.node import Leaf, Node, leaves, nearest_framework
from wherelint.interpret.values import Origin
from wherelint.search.batch import Hazard
from wherelint.search.probes import LOG_PROBABILITY

#: At the beginning of a line, it is about the file.
_MARK = re.compile(r"#\s*wherelint:\s*not-differentiated\b")
_SETTINGS = frozenset("accuracy drop dropout eps epsilon keep tol tolerance rtol atol rcond".split())
#: Sizes of a model and distances of interest, which are no 0.
_DIMENSIONS = frozenset("channels cutoff d_head d_k d_model d_v dim dims heads r_cut rcut".split())
#: What is not negative, by the words that the field keeps for it.
_SIZES = frozenset(
    """concentration count counts density densities depth dist dists distance distances frac fraction fractions
    length lengths lengthscale lengthscales mass masses norm norms num number pressure prob probs probability
    probabilities radius radii scale scales sigma sigmas std stddev temperature var variance variances volume""".split()
)
#: Data beyond is not what such data are.
_EXTREME = 10.0
#: What code has that compares models, or computes with padded sequences: there probabilities may be anything.
_SEQUENCE = re.compile(r"mask|token|(?<![a-z])ref|base|seq|pad|completion|response", re.IGNORECASE)
#: Gradients, and how far a step follows them.
_GRADIENTS, _RATES = frozenset("grad grads gradient gradients".split()), frozenset({"lr", "learning_rate", "step_size"})
#: What says that the framework computes in float64.
_DOUBLE = (
    'jax_enable_x64", True', "jax_enable_x64', True", 'set_floatx("float64', "set_floatx('float64",
    "set_default_dtype(torch.float64", "set_default_dtype(torch.double",
)  # fmt: skip
#: Parameters of a backward pass that somebody wrote.
_COTANGENTS = ("grad_output", "grad_input", "grad_out", "cotangent")


def gradient_flow(
    hazard: Hazard, inputs: Iterable[Leaf], module: Module, function: tuple[str, ...]
) -> Iterator[Evidence]:
    """What speaks against a gradient through a hazard of a function with such inputs, and against these by name."""
    yield from names.by_surroundings(module, function)
    inputs = list(inputs)
    yield from known_beforehand(hazard.select, inputs)
    if Evidence.LOG_RATIO in hazard.evidence and not any(_SEQUENCE.search(n.name) for n in inputs):
        yield Evidence.OTHER_PURPOSE  # an action is hardly improbable to the policy that it was drawn from
    poisoned = [n for n, g in hazard.gradient.items() if n.differentiable and not np.isfinite(g).all()]
    words = [words_of(n.name) for n in poisoned]
    if poisoned and all(each & DATA for each in words):
        yield Evidence.NOT_LEARNED
    elif poisoned and all(each & _SETTINGS for each in words):
        yield Evidence.SETTING
    if poisoned and (all(is_configured(n.name) for n in poisoned) or all(n.host for n in poisoned)):
        yield Evidence.NOT_LEARNED
    scope = Scope.of(module, function) if poisoned else None
    if scope is not None:
        carrying = Carrying()
        if not any(carrying.may_carry(n.name, scope) for n in poisoned):
            yield Evidence.NOT_CARRIED
    found = module.once(reach, function)
    if found is not None:
        yield found
    if is_regular_in_double(hazard) and module.once(_is_double):
        yield Evidence.UNLIKELY_INPUT  # what float32 overflows at is ordinary for float64
    if any(n.imaginary for n in leaves(hazard.op, hazard.select)):
        yield Evidence.DOUBTFUL  # the model has real numbers
    for leaf in (n for n in leaves(hazard.op) if n in hazard.inputs):
        words_of_leaf, values = words_of(leaf.name), hazard.inputs[leaf]
        if words_of_leaf & _SIZES and (values < 0).any() and not LOG_PROBABILITY.search(leaf.name):
            yield Evidence.DOUBTFUL
        if {*words_of_leaf, leaf.name.rpartition(".")[2].lower()} & _DIMENSIONS and (values == 0).any():
            yield Evidence.DOUBTFUL
        is_extreme = leaf.kind == "float" and bool((np.abs(values) > _EXTREME).any())
        if words_of_leaf & DATA and is_extreme and not LOG_PROBABILITY.search(leaf.name):
            yield Evidence.UNLIKELY_INPUT


def _is_double(module: Module) -> bool:
    """Whether the file or its package has its framework compute in float64."""
    return any(each in module.text or module.project.speaks(each) for each in _DOUBLE)


def known_beforehand(select: Node, inputs: Iterable[Leaf]) -> Iterator[Evidence]:
    """What speaks against a gradient through a selection of a program with such inputs, whatever the hazard."""
    origin = select.origin
    if isinstance(origin, Origin):
        yield from names.by_surroundings(origin.block.module, origin.function.split("."))
        if is_marked(origin):
            yield Evidence.NOT_DIFFERENTIATED
    spelled = [n.name for n in inputs]
    if any(name.startswith(_COTANGENTS) for name in spelled):
        yield Evidence.UNTRAINED_CODE  # a backward pass
    gradients = [name for name in spelled if "(" not in name and _GRADIENTS & words_of(name)]
    if len(gradients) > 1 or (gradients and not _RATES.isdisjoint(name.rpartition(".")[2] for name in spelled)):
        # PyTorch's optimizers step under `no_grad`; what JAX updates may be differentiated.
        is_torch = nearest_framework(select) == "torch"
        yield Evidence.UNTRAINED_CODE if is_torch else Evidence.SELDOM_TRAINED


def is_marked(origin: Origin) -> bool:
    """Whether a comment says that nobody differentiates a place: of the file, or a class or function around it.

    It stands on a line of its own, or in the head of the class or function, or directly above it.
    """
    text = origin.block.module.text
    if not _MARK.search(text):
        return False
    lines = text.split("\n")
    tree = ast.parse(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (*FUNCTION_DEFS, ast.ClassDef))]
    #: The row above each, if a mark stands there: it is of this one alone.
    above = {row for node in nodes if (row := _first(node) - 1) > 0 and _MARK.match(lines[row - 1].strip())}
    if any(_MARK.match(line) and row not in above for row, line in enumerate(lines, 1)):
        return True
    row = origin.block.region(origin.node)[0].row
    for node in nodes:
        first, last = _first(node), max(node.lineno, node.body[0].lineno - 1)
        head = [each for each in range(first, last + 1) if each not in above]
        is_said = first - 1 in above or any(_MARK.search(lines[each - 1]) for each in head)
        if is_said and first <= row <= (node.end_lineno or 0):
            return True
    return False


def _first(node: FunctionDef | ast.ClassDef) -> int:
    """The row at which a function or class begins, with its decorators."""
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])
