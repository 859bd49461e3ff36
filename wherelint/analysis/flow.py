"""Does a gradient flow there? What the names and the place of a function say of it, by the score's table.

Most selections with a singular operation stand in code that nobody differentiates: labels, metrics, environments,
optimizers. Their names and folders are conventions of the whole field, and evidence, not proof.
"""

import ast
import re
from collections.abc import Iterable, Iterator

import numpy as np

from wherelint.analysis import places
from wherelint.analysis.words import words_of
from wherelint.frontend.module import Module
from wherelint.graph.node import Leaf, Node, leaves, nearest_framework
from wherelint.graph.occurrence import is_configured
from wherelint.graph.run import Hazard
from wherelint.interpret.values import Origin

#: At the beginning of a line, it is about the file.
_SAID = re.compile(r"#\s*wherelint:\s*not-differentiated\b")
_SETTINGS = frozenset("accuracy eps epsilon tol tolerance rtol atol rcond".split())
#: What is not negative, by the words that the field keeps for it.
_SIZES = frozenset(
    """concentration count counts density densities depth dist dists distance distances frac fraction fractions
    length lengths lengthscale lengthscales mass masses norm norms num number pressure prob probs probability
    probabilities radius radii scale scales sigma sigmas std stddev temperature var variance variances volume""".split()
)
#: Data beyond is not what such data are.
_EXTREME = 10.0
#: What is true or false of each element, kept as a number or not, and which elements are meant.
_MASKS = frozenset("mask masks valid index indices idx ids".split())
#: Gradients, and how far a step follows them.
_GRADIENTS, _RATES = frozenset("grad grads gradient gradients".split()), frozenset({"lr", "learning_rate", "step_size"})
#: Parameters of a backward pass that somebody wrote.
_COTANGENTS = ("grad_output", "grad_input", "grad_out", "cotangent")


def flow(hazard: Hazard, inputs: Iterable[Leaf], module: Module, function: tuple[str, ...]) -> Iterator[str]:
    """What speaks against a gradient through a hazard of a function with such inputs, and against these by name."""
    yield from places.of(module, function)
    yield from standing(hazard.select, inputs)
    poisoned = [n for n, g in hazard.gradient.items() if n.differentiable and not np.isfinite(g).all()]
    said = [words_of(n.name) for n in poisoned]
    reserved = ((_MASKS, "poisons a mask"), (places.DATA, "poisons data"), (_SETTINGS, "poisons settings"))
    yield from [name for words, name in reserved if said and all(words & each for each in said)][:1]
    if poisoned and all(is_configured(n.name) for n in poisoned):
        yield "poisons a configuration"
    if poisoned and all(map(_is_of_optional, poisoned)):
        yield "moves an optional input"
    if poisoned and all(n.host for n in poisoned):
        yield "NumPy computes with it"
    if any(n.imaginary for n in leaves(hazard.op, hazard.select)):
        yield "complex numbers"
    for leaf in (n for n in leaves(hazard.op) if n in hazard.inputs):
        words, values = words_of(leaf.name), hazard.inputs[leaf]
        if words & _SIZES and (values < 0).any():
            yield "a size below zero"
        if words & places.DATA and leaf.kind == "float" and (np.abs(values) > _EXTREME).any():
            yield "extreme data"


def _is_of_optional(leaf: Leaf) -> bool:
    """Whether a call that is not followed computes an input from an optional one, and else from given data alone."""
    seen, todo = {leaf}, [leaf]
    found = []
    while todo:
        each = todo.pop()
        sources = leaves(*each.given) or ([each.of[0]] if each.of is not None else [])
        if not sources and each.differentiable and each.kind == "float":
            found.append(each)
        todo += [n for n in sources if n not in seen]
        seen.update(sources)
    return any(n.optional for n in found) and all(n.optional or words_of(n.name) & places.DATA for n in found)


def standing(select: Node, inputs: Iterable[Leaf]) -> Iterator[str]:
    """What speaks against a gradient through a selection of a program with such inputs, whatever the hazard."""
    origin = select.origin
    if isinstance(origin, Origin):
        yield from dict.fromkeys(places.of(origin.block.module, origin.function.split(".")))
        if _SAID.search(origin.block.module.text) and _said_of(origin):
            yield "said not to be differentiated"
    names = [n.name for n in inputs]
    if any(name.startswith(_COTANGENTS) for name in names):
        yield "in a backward pass"
    gradients = [name for name in names if "(" not in name and _GRADIENTS & words_of(name)]
    if len(gradients) > 1 or (gradients and not _RATES.isdisjoint(name.rpartition(".")[2] for name in names)):
        # PyTorch's optimizers step under `no_grad`; what JAX updates may be differentiated.
        yield "in an optimizer" if nearest_framework(select) == "torch" else "in an update"


def _said_of(origin: Origin) -> bool:
    """Whether a comment says so of the file, or in the head of a class or function around."""
    text = origin.block.module.text
    lines = text.split("\n")
    if any(_SAID.match(line) for line in lines):
        return True
    row = origin.block.region(origin.node)[0].row
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            head = lines[first - 1 : max(node.lineno, node.body[0].lineno - 1)]
            if first <= row <= node.end_lineno and any(map(_SAID.search, head)):
                return True
    return False
