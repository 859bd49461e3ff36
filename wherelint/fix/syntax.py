"""What a rewrite has to know of the source: operands, conditions, and where a line of its own can stand."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from wherelint.finding import Edit, Location
from wherelint.fix.layout import flat
from wherelint.frontend.module import Block, Module
from wherelint.frontend.names import canonical
from wherelint.graph.node import Node
from wherelint.interpret.values import Origin
from wherelint.io.edits import Source
from wherelint.ops.purity import is_pure, is_pure_method

#: Calls of a selection whose mask is not the first argument.
_MASK_SECOND = frozenset({"masked_fill", "masked_fill_", "masked_select", "boolean_mask"})
#: What an array says of itself, whatever its elements are.
_MEASURED = frozenset({"shape", "dtype", "ndim", "size", "device"})
_OF_ARRAYS = _MEASURED | {"T", "mT", "real", "imag", "at"}
#: What may not be evaluated, or more than once, wherever it stands.
LAZY = (cst.Lambda, cst.GeneratorExp, cst.ListComp, cst.SetComp, cst.DictComp, cst.IfExp, cst.BooleanOperation)
SUITES = (cst.IndentedBlock, cst.Module)
_MASK_KEYWORDS = frozenset({"condition", "cond", "pred", "predicate", "mask", "where", "which"})


@dataclass(frozen=True, eq=False)
class SourceNode:
    """An expression of the file."""

    block: Block
    node: cst.CSTNode

    @cached_property
    def source(self) -> Source:
        """The text of the file."""
        return self.block.module.source

    @cached_property
    def text(self) -> str:
        """The expression as it is written, without parentheses around it."""
        return self.source.between(*self.block.place(self.node))

    @cached_property
    def region(self) -> tuple[Location, Location]:
        """Where it stands, parentheses included."""
        start, end = (self.source.offset(place) for place in self.block.place(self.node))
        for paren in getattr(self.node, "lpar", ()):
            start -= len(self.block.concrete.tree.code_for_node(paren))
        for paren in getattr(self.node, "rpar", ()):
            end += len(self.block.concrete.tree.code_for_node(paren))
        return self.source.place(start), self.source.place(end)

    @property
    def is_atom(self) -> bool:
        """Whether it needs no parentheses before a ``.`` or beside an operator."""
        return isinstance(self.node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber))

    @property
    def atom(self) -> str:
        """The text on one line, in parentheses if it needs them beside an operator."""
        return self.one_line if self.is_atom else f"({self.one_line})"

    @property
    def one_line(self) -> str:
        """The text on one line, without parentheses around it."""
        return flat(self.text)

    @property
    def moved(self) -> str:
        """The text as it can stand elsewhere: on one line, save where comments stand in it."""
        return self.one_line if "#" not in self.text else self.text if self.is_atom else f"({self.text})"

    def replaced(self, content: str) -> Edit:
        """An edit that puts something else in its place."""
        return Edit(content, *self.region)

    def edited(self, edits: list[Edit]) -> str:
        """The text on one line after some edits inside of it."""
        start, end = map(self.source.offset, self.block.place(self.node))
        text = self.source.edited(edits)
        return flat(text[start : len(text) - len(self.source.text) + end])

    def holds(self, other: SourceNode) -> bool:
        """Whether another expression lies in it."""
        return self.region[0] <= other.region[0] and other.region[1] <= self.region[1]

    def path(self) -> list[cst.CSTNode]:
        """The nodes around it, from the block inwards, itself last."""
        parents = self.block.chunk.once(_parents, self.block.concrete.tree)
        path = [self.node]
        while path[-1] in parents:
            path.append(parents[path[-1]])
        return path[::-1]


def source_node(node: Node) -> SourceNode | None:
    """Where a node of the graph was written; a ``where`` of the project's own, in which there is another, where that is
    called.
    """
    origin = node.origin
    if not isinstance(origin, Origin):
        return None
    call = _written(origin.call) if origin.call is not None and node.selection == "where" else None
    function = call.node.func if call is not None and isinstance(call.node, cst.Call) else None
    return call if function is not None and last_name(function) == "where" else _written(origin)


def _written(origin: Origin) -> SourceNode | None:
    block = origin.block.part(origin.node)
    written = block.written(origin.node)
    return None if written is None else SourceNode(block, written)


def operands(place: SourceNode, count: int = 0) -> list[SourceNode]:
    """The operand expressions of an operation, in the order of the catalogue; keyword arguments come last.

    ``count``: how many the operation has, where that is known; it tells a method from a function of a namespace.
    """
    node = place.node
    found: list[cst.CSTNode] = []
    if isinstance(node, cst.BinaryOperation):
        found = [node.left, node.right]
    elif isinstance(node, cst.AugAssign):
        found = [node.target, node.value]
    elif isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute) and not _is_function(node, place, count):
            found.append(node.func.value)
        found += [a.value for a in node.args if a.keyword is None and not a.star]
        found += [a.value for a in node.args if a.keyword is not None]
    literal = (cst.SimpleString, cst.FormattedString, cst.Lambda, cst.GeneratorExp, cst.List, cst.Tuple, cst.Dict)
    found = [n for n in found if not isinstance(n, literal)]
    return [SourceNode(place.block, n) for n in found if last_name(n) not in ("True", "False", "None")]


def _is_function(call: cst.Call, place: SourceNode, count: int) -> bool:
    """Whether ``a.b.f(...)`` calls a function of a module or an object rather than a method of an operand."""
    base, module = root_name(call.func), place.block.module
    is_parameter = any(
        base == p.name.value for f in place.path() if isinstance(f, cst.FunctionDef) for p in f.params.params
    )
    if (base in module.imports or base in module.definitions) and not is_parameter:
        return True
    if base in ("self", "cls") and isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name):
        return True
    given = [a.value for a in call.args if a.keyword is None]  # `xp.sqrt(x)`, where xp is a parameter
    return 0 < count <= len(given) and not any(isinstance(v, (cst.BaseNumber, cst.UnaryOperation)) for v in given)


def last_name(node: cst.CSTNode) -> str:
    """The last part of a dotted name; empty for anything else."""
    last = node.attr if isinstance(node, cst.Attribute) else node
    return last.value if isinstance(last, cst.Name) else ""


def root_name(node: cst.BaseExpression) -> str:
    """The first name of a dotted one."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def condition(select: Node) -> SourceNode | None:
    """The mask that a selection was given, as the author wrote it; None where it has none."""
    place = source_node(select)
    if place is None:
        return None
    node = place.node
    found: cst.CSTNode | None = None
    if select.selection == "multiply" and isinstance(node, cst.BinaryOperation):
        found = node.left if select.static.operand == 1 else node.right
    elif select.selection == "multiply" and isinstance(node, cst.AugAssign):
        found = node.value if select.static.operand == 0 else None
    elif isinstance(node, cst.Subscript):
        found = _index(node)
    elif isinstance(node, cst.Call):
        found = _mask_argument(node, select)
    return None if found is None else SourceNode(place.block, found)


def _index(node: cst.Subscript) -> cst.CSTNode | None:
    whole = node.slice[0].slice if len(node.slice) == 1 else None
    value = whole.value if isinstance(whole, cst.Index) else None
    inverted = isinstance(value, cst.UnaryOperation) and isinstance(value.operator, (cst.BitInvert, cst.Not))
    literal = isinstance(value, (cst.Integer, cst.UnaryOperation, cst.Tuple, cst.List))
    return value if inverted or not literal else None  # `~mask` is a mask; `-1` is a position


def _mask_argument(call: cst.Call, select: Node) -> cst.CSTNode | None:
    at = call.func.value if isinstance(call.func, cst.Attribute) else None
    if isinstance(at, cst.Subscript) and select.selection == "assignment":
        return _index(at)  # x.at[mask].set(value)
    keyword = next((a.value for a in call.args if a.keyword is not None and a.keyword.value in _MASK_KEYWORDS), None)
    if keyword is not None or select.selection == "reduction":
        return keyword
    given = [a.value for a in call.args if a.keyword is None and not a.star]
    last = last_name(call.func)
    if last in _MASK_SECOND:
        # As a method of the masked array, or as a function of both.
        whole = {"masked_fill": 2, "masked_fill_": 2, "masked_select": 1, "boolean_mask": 1}[last]
        return given[len(given) - whole] if len(given) >= whole else None
    if select.static.listed:  # jnp.select([a, b], ...): one of them, if they stand there
        own = source_node(select.inputs[0])
        listed = given[0].elements if given and isinstance(given[0], cst.List) else []
        return next((e.value for e in listed if own is not None and e.value is own.node), None)
    if select.selection in ("where", "select", "cond") or last.startswith("where"):
        return given[0] if given else None
    return None


def walk(node: cst.CSTNode, *leaves: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """A node and all that is below it, level by level; nothing below nodes of some types."""
    todo = [node]
    for each in todo:
        yield each
        if not isinstance(each, leaves):
            todo += each.children


def code(node: cst.CSTNode) -> str:
    """The text of a node."""
    return cst.Module([]).code_for_node(node)


def calls_within(place: SourceNode) -> Iterator[SourceNode]:
    """The calls inside an expression, the innermost last."""
    return (SourceNode(place.block, node) for node in walk(place.node, cst.Lambda) if isinstance(node, cst.Call))


def names_within(place: SourceNode) -> dict[str, list[SourceNode]]:
    """The variables that an expression reads, with their occurrences; none bound inside, or used as no array is."""
    found: dict[str, list[SourceNode]] = {}
    bound: set[str] = set()
    todo: list[cst.CSTNode] = [place.node]
    while todo:
        node = todo.pop(0)
        if isinstance(node, cst.Name):
            found.setdefault(node.value, []).append(SourceNode(place.block, node))
        elif isinstance(node, cst.Param):
            bound.add(node.name.value)
        elif isinstance(node, cst.CompFor):
            bound.update(n.value for n in (node.target, *node.target.children) if isinstance(n, cst.Name))
            todo += node.children
        elif isinstance(node, cst.Attribute):
            attribute = node.attr.value
            if isinstance(node.value, cst.Name) and not (attribute in _OF_ARRAYS or is_pure_method(attribute)):
                bound.add(node.value.value)
            if attribute not in _MEASURED:
                todo.append(node.value)
        elif isinstance(node, cst.Arg):
            todo.append(node.value)
        elif isinstance(node, cst.Call):
            todo += [node.func, *node.args] if isinstance(node.func, cst.Attribute) else node.args
        else:
            todo += node.children
    return {name: places for name, places in found.items() if name not in bound}


def part_holding(whole: SourceNode, inner: SourceNode) -> SourceNode | None:
    """The argument of a call, or the operand, that holds another expression."""
    path = inner.path() if whole.block is inner.block else []
    at = next((i for i, node in enumerate(path) if node is whole.node), None)
    below = path[at + 1 :] if at is not None else []
    part = next((n.value if isinstance(n, cst.Arg) else n for n in below), None)
    return None if part is None else SourceNode(whole.block, part)


@dataclass(frozen=True)
class Spot:
    """A place for a line of its own before the statement that an expression belongs to."""

    location: Location
    indent: str
    newline: str

    def line(self, name: str, value: str) -> Edit:
        """An assignment there; the rows of a value that has several move with its last one."""
        first, *rows = value.split("\n")
        extra = len(rows[-1]) - len(rows[-1].lstrip()) - len(self.indent) if rows else 0
        value = "\n".join([first, *(row.removeprefix(" " * extra) for row in rows)])
        return Edit(f"{self.indent}{name} = {value}{self.newline}", self.location, self.location)


def spot_before(place: SourceNode) -> Spot | None:
    """Where a variable can be bound that an expression reads; None where it is not evaluated by its statement alone."""
    path = place.path()
    at = next((i for i in range(len(path) - 1, -1, -1) if isinstance(path[i], cst.SimpleStatementLine)), None)
    if at is None or any(isinstance(n, LAZY) for n in path[at:]):
        return None
    start, _ = place.block.place(path[at])
    line = place.block.module.lines[start.row - 1]
    indent = line[: start.column - 1]
    if indent.strip():
        return None  # `if x: return ...` on one line
    ending = line[len(line.rstrip("\r\n")) :]
    return Spot(Location(start.row, 1), indent, ending or "\n")


def suite_around(place: SourceNode) -> cst.CSTNode:
    """The innermost suite in which an expression stands."""
    return next(n for n in place.path()[::-1] if isinstance(n, SUITES))


def assigned(name: str, place: SourceNode) -> SourceNode | None:
    """The value that a variable was last given before a place, alone or as one of several."""
    scope = next((n for n in place.path()[::-1] if isinstance(n, cst.FunctionDef)), place.block.concrete.tree)
    found: list[SourceNode] = []
    for node in walk(scope):
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
        targets += [node.target] if isinstance(node, cst.AnnAssign) else []
        if any(name in names_in(target) for target in targets) and place.block.place(node)[1] <= place.region[0]:
            assert isinstance(node, (cst.Assign, cst.AnnAssign))
            found += [SourceNode(place.block, node.value)] if node.value is not None else []
    return max(found, key=lambda value: value.region, default=None)


def may_be_none(expression: SourceNode, place: SourceNode | None, *, asked: bool) -> bool:
    """Whether an expression reads a parameter whose default is None, and which may be that at an earlier place.

    ``asked``: without an ``if`` around the expression, too.
    """
    parameters = [p for f in expression.path() if isinstance(f, cst.FunctionDef) for p in walk(f.params)]
    none = {p.name.value for p in parameters if isinstance(p, cst.Param) and last_name(p.default or p) == "None"}
    tests = [n for n in expression.path() if isinstance(n, (cst.If, cst.IfExp))]
    within = place.path() if place is not None else []
    unknown = any(not any(test is each for each in within) for test in tests) or (asked and not tests)
    return unknown and any(place is None or assigned(n, place) is None for n in none & names_in(expression.node))


def may_move(expression: SourceNode, place: SourceNode, to: Location) -> bool:
    """Whether an expression reads the same variables at a location of the statement of a place, or before it."""
    scope = next((n for n in expression.path()[::-1] if isinstance(n, cst.FunctionDef)), expression.block.concrete.tree)
    if expression.block is not place.block or not any(n is scope for n in place.path()):
        return False
    own, _ = expression.region
    first, last = min(own, to), max(own, to)
    read = names_in(expression.node)
    bound = expression.block.chunk.once(_bindings, scope)
    return not any(first <= expression.block.place(node)[1] <= last for names, node in bound if names & read)


def _bindings(scope: cst.CSTNode) -> list[tuple[frozenset[str], cst.CSTNode]]:
    """The names that are bound below a node, and what ends where the binding has been made."""
    found: list[tuple[frozenset[str], cst.CSTNode]] = []
    for node in walk(scope):
        if isinstance(node, cst.Assign):
            found += ((names_in(each.target), node) for each in node.targets)
        elif isinstance(node, _NAMED):
            found.append((names_in(node.name), node.name))
        elif isinstance(node, _TARGETED):
            found.append((names_in(node.target), node if isinstance(node, _ASSIGNED) else node.target))
    return found


def names_in(node: cst.CSTNode) -> frozenset[str]:
    """Every name in a node."""
    return frozenset(each.value for each in walk(node) if isinstance(each, cst.Name))


def variables_in(node: cst.CSTNode) -> frozenset[str]:
    """Every name in a node, but for those of attributes."""
    found = list(walk(node))
    attributes = {id(each.attr) for each in found if isinstance(each, cst.Attribute)}
    return frozenset(each.value for each in found if isinstance(each, cst.Name) and id(each) not in attributes)


_NAMED = (cst.AsName, cst.ImportAlias, cst.FunctionDef, cst.ClassDef)
_ASSIGNED = (cst.AugAssign, cst.AnnAssign)
_TARGETED = (*_ASSIGNED, cst.NamedExpr, cst.For, cst.Del)


def has_effects(node: cst.CSTNode, module: Module | None = None) -> bool:
    """Whether evaluating an expression twice, or elsewhere, may do something, or give something else.

    With a module, so may a call of whatever is not known to be pure.
    """
    return any(
        isinstance(each, (cst.NamedExpr, cst.Await, cst.Yield))
        or (isinstance(each, cst.Call) and module is not None and not _is_pure(each.func, module))
        for each in walk(node)
    )


def moves_effects(expression: SourceNode, module: Module) -> bool:
    """Whether evaluating an expression before its statement puts it before a call that may have effects."""
    if not has_effects(expression.node, module):
        return False
    statement = next(n for n in expression.path() if isinstance(n, cst.SimpleStatementLine))
    calls = calls_within(SourceNode(expression.block, statement))
    return any(call.region[1] <= expression.region[0] and has_effects(call.node, module) for call in calls)


def _is_pure(function: cst.BaseExpression, module: Module) -> bool:
    base = root_name(function)
    if base in module.imports:
        return is_pure(canonical(module.imports[base] + path_after(function)))
    if isinstance(function, cst.Name):
        return base not in module.definitions and hasattr(builtins, base) and is_pure(f"builtins.{base}")
    return is_pure_method(last_name(function))


def path_after(node: cst.BaseExpression) -> str:
    """What follows the first name of a dotted one."""
    return f"{path_after(node.value)}.{node.attr.value}" if isinstance(node, cst.Attribute) else ""


def _parents(tree: cst.CSTNode) -> dict[cst.CSTNode, cst.CSTNode]:
    """Which node each node below another one stands in."""
    return {child: node for node in walk(tree) for child in node.children}
