"""What the witness of a finding says, in the names of the author: arrays and parameters, and how the program stands."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from wherelint.finding import Number, Witness
from wherelint.graph.node import Leaf, Node, leaves, topological
from wherelint.ops import Array
from wherelint.ops.numeric import shortest
from wherelint.ops.traits import QUOTIENTS
from wherelint.search.witness import Hazard

_MOST_INPUTS, _MOST_CONDITIONS = 6, 2
#: With no more inputs, all are told; of more, those that are 1 and decide nothing are left out.
_FEW = 3
#: What is longer is no name.
_LONG = 40
_NAME = re.compile(r"[\w.]+(?:\[[^\[\]]*\])*")
_RANK = re.compile(r"(?:len\((?P<shape>.+)\.shape\)|(?P<array>.+)\.ndim)")
_SIZE = re.compile(r"(?P<array>.+)\.(?:shape\[(?P<axis>-?\d+)\]|size\((?P<dim>-?\d+)\))|.+\.shape(?:\[[^\[\]]*\])+")
#: What an array looks like, within a call.
_LOOKS = re.compile(r"\(.*\.(?:dtype|ndim|shape)\b")
_EQUAL = re.compile(r"(?P<negated>not )?`(?P<name>.+) == .+`")
#: What is used only where it is not None.
_OPTIONAL = re.compile(r"(?P<value>.+) if .+ else None")
#: Facts about Python objects, which nobody chooses.
_OF_PYTHON = re.compile(
    r".*(?: is (?:not )?\S+| ?[!=]= ?None|\.(?:weak_type|requires_grad|is_sparse|(?:dtype|ndim|shape)\b.*))"
    r"|[\w.]*\(.*\)"
)


def witness(hazard: Hazard) -> Witness:
    """The inputs that the operation or the condition reads, the value, and the gradients that are not finite."""
    bad = {n for n, g in hazard.gradient.items() if not np.isfinite(g).all()}
    read = leaves(hazard.op, hazard.select)
    shown = [n for n in read if n in hazard.inputs or n in bad]
    passed = (n for n in hazard.inputs if isinstance(n, Leaf) and n not in shown and n.usual is not None)
    shown += [n for n in passed if (hazard.inputs[n] != n.usual).any()]
    facts = [n for n in shown if _is_fact(n)]
    shown = sorted((n for n in shown if n not in facts), key=lambda n: n not in bad)
    shown = [n for n in shown if not _is_unnamed(n)] or shown
    names = spoken(shown)
    deciding = _deciding(hazard)
    if len(shown) > _FEW:
        shown.sort(key=lambda n: (n not in bad, n not in deciding))
    given = [n for n in shown if n in hazard.inputs]
    told = [n for n in given if len(shown) <= _FEW or _is_telling(n, hazard, deciding)] or given
    inputs: dict[str, Number] = {}
    for n in told[:_MOST_INPUTS]:  # a variable of a loop, before it and in it: what matters is what is no 1
        if names[n] not in inputs or (hazard.inputs[n] != 1).any():
            inputs[names[n]] = shortest(hazard.inputs[n], n.kind)
    gradient = {name: shortest(hazard.gradient[n]) for n, name in _wholes(n for n in shown if n in bad).items()}
    unknown = dict.fromkeys(f"{n.name.partition('(')[0]}(...)" for n in told[:_MOST_INPUTS] if n.name.endswith(")"))
    facts = [n for n in facts if n in deciding or n.kind == "bool" or _RANK.fullmatch(n.name)]
    known = dict.fromkeys(filter(None, (_condition(n, hazard.inputs.get(n)) for n in facts)))
    names_shown = {f"`{name}`" for name in (*inputs, *gradient)}
    conditions = [c for c in _consistent(known) if c.partition(" is ")[0] not in names_shown]
    return Witness(
        inputs, shortest(hazard.value), gradient, tuple(conditions[:_MOST_CONDITIONS]), tuple(sorted(unknown))
    )


def _consistent(conditions: Collection[str]) -> Iterator[str]:
    """Some conditions without those that contradict or follow from others: two variables may have one name.

    Of two values of one name the last stands: it is the nearest to the operation.
    """
    values = [found for each in conditions if (found := _EQUAL.fullmatch(each))]
    equal = {found["name"]: found[0] for found in values if not found["negated"]}
    implied = {found[0] for found in values if equal.get(found["name"], found[0]) != found[0]}
    return (each for each in conditions if not {f"not {each}", each[4:]} & {*conditions} and each not in implied)


def spoken(found: Sequence[Leaf]) -> dict[Leaf, str]:
    """What each of some inputs is called: as the author calls the result of a call, if no other has that name."""
    names = [leaf.name for leaf in found]
    return {n: variable(n) if variable(n) not in names else _short(n.name) for n in found}


def variable(leaf: Leaf) -> str:
    """The variable of an input that is a result, or an item by its key; of others their name, such as ``self.x``."""
    return leaf.called if leaf.called and any(each in leaf.name for each in "(\"' ") else _short(leaf.name)


def _is_unnamed(leaf: Leaf) -> bool:
    """Whether an input stands for something that the author gives no name: the state of a loop, what an ``if`` left."""
    return leaf.name.startswith(("(", "if ")) and not leaf.called


def _short(name: str) -> str:
    name = " ".join(name.split())
    optional = _OPTIONAL.fullmatch(name)
    name = optional["value"] if optional else name
    is_long = len(name) > _LONG or _LOOKS.search(name)
    return f"{name.partition('(')[0]}(...)" if is_long and "(" in name else name


def _is_fact(leaf: Leaf) -> bool:
    """Whether an input is how the program stands, and no number that somebody passes: ``f.ndim``, ``mode == "a"``."""
    if leaf.array or leaf.kind == "float":
        return False
    return not _NAME.fullmatch(leaf.name) or any(each.fullmatch(leaf.name) for each in (_RANK, _SIZE, _OF_PYTHON))


def _condition(leaf: Leaf, value: Array | None) -> str:
    """What is told of a fact; nothing where it is what it nearly always is."""
    name = " ".join(leaf.name.split())
    if value is None:
        return ""
    if rank := _RANK.fullmatch(name):
        return f"`{rank['shape'] or rank['array']}` is {int(value.flat[0])}-D"
    if size := _SIZE.fullmatch(name):  # a greater one is like any other
        axis = size["axis"] or size["dim"]
        return f"axis {axis} of `{size['array']}` has size {int(value.flat[0])}" if axis and value.flat[0] <= 1 else ""
    if leaf.kind == "int":  # what a call gives is told by its variable, and the size of a loop is not
        name = variable(leaf)
        return f"`{name}` is {int(value.flat[0])}" if _NAME.fullmatch(name) else ""
    is_usual = leaf.preferred is not None and bool((value == leaf.preferred).all())
    if is_usual or _OF_PYTHON.fullmatch(name) or _is_unnamed(leaf) or len(name) > _LONG:
        return ""
    return f"`{name}`" if value.all() else f"not `{name}`"


def _deciding(hazard: Hazard) -> set[Node]:
    """What the operand that is singular is computed from, and the condition."""
    operands = hazard.op.inputs[1:2] if hazard.op.op in QUOTIENTS else hazard.op.inputs
    condition = hazard.select.inputs[:1] if hazard.select.op in ("where", "cond") else ()
    return set(topological([*operands, *condition]))


def _is_telling(leaf: Leaf, hazard: Hazard, deciding: set[Node]) -> bool:
    """Whether a witness cannot be understood without an input."""
    return leaf in deciding or bool((hazard.inputs[leaf] != 1).any())


def _wholes(found: Iterable[Leaf]) -> dict[Leaf, str]:
    """Some inputs by name, where several elements of an array are that array."""
    groups: dict[Leaf, list[Leaf]] = {}
    for leaf in found:
        outermost = leaf
        while outermost.of is not None:
            outermost = outermost.of[0]
        groups.setdefault(outermost, []).append(leaf)
    first = {group[0]: array if len(group) > 1 else group[0] for array, group in groups.items()}
    names = spoken(list(first.values()))
    return {leaf: names[whole] for leaf, whole in first.items()}
