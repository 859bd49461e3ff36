"""How a selection is spelled in a file: with the names that the file has, in the way of its framework."""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import chain, count

import libcst as cst

from wherelint.finding import Edit, Location
from wherelint.fix.syntax import (
    SourceNode,
    code,
    default_of,
    last_name,
    operands,
    path_after,
    root_name,
    variables_in,
    walk,
)
from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.frontend.module import Module
from wherelint.frontend.names import canonical, imported
from wherelint.frontend.namespaces import namespaces

#: Namespaces whose ``where`` takes operands of one shape only, and whose ``where_v2`` does not; the one by itself.
_OLD = "tensorflow.compat.v1"
_FIRST = (_OLD, "tensorflow.python.ops")
#: What TensorFlow 2 has no more: a file that calls it runs on TensorFlow 1, where ``!=`` compares no elements either.
_GONE = (
    r"(to_(float|double|int32|int64)|placeholder|get_variable|Session|contrib|diag_part|global_variables_initializer)"
)
#: A condition that calls nothing and is no longer is written again, if its row is as wide as a row of the file may be.
_LONG, _WIDE, _WIDEST = 24, 88, 100
#: The number that a condition compares with: one that is neither 0 nor 1 is written once.
_THRESHOLD = re.compile(r"[<>=] ?-?(\d[\d.]*(?:[eE]-?\d+)?)$")
#: What makes a tensor of a number.
_FILLED = {"zeros_like": 0.0, "zeros": 0.0, "ones_like": 1.0, "ones": 1.0}
#: What namespaces are imported as.
_LOCAL = {"jax.numpy": "jnp", "tensorflow": "tf"}
_CONVERTS = frozenset({"cast", "constant", "tensor", "asarray", "array"})
#: What else an operation is of that is guarded by an operand of such a name.
OTHER = {"denominator": "numerator", "base": "exponent", "x": "y", "adjacent": "opposite"}


def family(module: Module, framework: str, *nearby: SourceNode | None) -> str:
    """The namespace that calls nearby are written in: what runs on every backend has to do so after a fix too."""
    written = [_written(module, place) for place in nearby if place is not None]
    return "keras.ops" if "keras.ops" in written else FRAMEWORKS[framework].namespace


def wheres(module: Module, framework: str, *nearby: SourceNode | None) -> Iterator[str]:
    """Spellings of ``where``, the author's own first."""
    if _is_first(module):
        return
    preferred = family(module, framework, *nearby)
    calls = [(place, place.node.func) for place in nearby if place is not None and isinstance(place.node, cst.Call)]
    old = _old(module)
    bare = [local for local, name in module.imports.items() if name == f"{preferred}.where" and local not in old]
    if any(isinstance(function, cst.Name) and function.value in bare for _, function in calls):
        yield from bare
    for place, function in calls:
        named = module.imports.get(root_name(function), "")  # a backend of the project's
        if named and framework_of(named) is None and last_name(function) == "where" and len(operands(place)) == 3:
            yield place.block.concrete.code(function)
    for place, function in calls:
        base = place.block.concrete.code(function.value) if isinstance(function, cst.Attribute) else ""
        if base in module.once(namespaces) or (base and _written(module, place) == preferred):
            yield f"{base}.where"
    for local, name in sorted(module.imports.items(), key=lambda item: (item[0] in old, item[1] != preferred)):
        if preferred == name or preferred.startswith(f"{name}."):
            yield f"{local}{preferred[len(name) :]}.where{'_v2' if local in old else ''}"
        elif preferred == "keras.ops" and name == "tensorflow.keras":
            yield f"{local}.ops.where"
    yield from bare


def missing(module: Module, framework: str) -> tuple[str, Edit] | None:
    """``where``, and the import that it needs beside those that a file has of its framework; None where it has none."""
    namespace = FRAMEWORKS[framework].namespace
    local = _LOCAL.get(namespace, namespace)
    edit = _importing(module, namespace, local) if not (_old(module) or _is_first(module)) else None
    return (f"{local}.where", edit) if edit is not None else None


def _importing(module: Module, namespace: str, local: str) -> Edit | None:
    """The import of a namespace, before the first of its package; None where there is none, or the name is taken."""
    line = f"import {namespace}\n" if local == namespace else f"import {namespace} as {local}\n"
    for statement in module.syntax.imports:
        name = statement.names[0].name if isinstance(statement, ast.Import) else statement.module or ""
        ours = name.partition(".")[0] == namespace.partition(".")[0] and not getattr(statement, "level", 0)
        if ours and not statement.col_offset and local not in {*module.imports, *module.definitions}:
            start = Location(statement.lineno, 1)
            return Edit(line, start, start)
    return None


def _is_first(module: Module) -> bool:
    """Whether a file is written for TensorFlow 1."""
    names = [local for local, name in module.imports.items() if name == "tensorflow"]
    return any(re.search(rf"\b{local}\.{_GONE}\b", module.text) for local in names)


def fills(place: SourceNode | None) -> bool:
    """Whether the selections of the function around a place have tensors where numbers would do, and never a number."""
    function = next((n for n in place.path() if isinstance(n, cst.FunctionDef)), None) if place is not None else None
    arms = [a.value for n in walk(function) if isinstance(n, cst.Call) and last_name(n.func) == "where"
            for a in n.args[1:]] if function is not None else []  # fmt: skip
    made = any(isinstance(arm, cst.Call) and last_name(arm.func) in {*_FILLED, *_CONVERTS} for arm in arms)
    return made and not any(isinstance(arm, cst.BaseNumber) for arm in arms)


def _old(module: Module) -> set[str]:
    """What a file imports from the old namespace, whatever that is read as."""
    named = [item for statement in module.syntax.imports for item in imported(statement, module.package).items()]
    return {local for local, name in named if name.startswith(_FIRST)}


def _written(module: Module, place: SourceNode) -> str:
    """The dotted name of the namespace whose function a call is of; empty where that is not known."""
    function = place.node.func if isinstance(place.node, cst.Call) else None
    if isinstance(function, cst.Name):
        return module.imports.get(function.value, "").rpartition(".")[0]
    base = root_name(function) if isinstance(function, cst.Attribute) else ""
    given = default_of(place, base)  # a namespace may be a parameter: `def f(x, xp=jnp)`
    named = given.value if isinstance(given, cst.Name) else base
    if not isinstance(function, cst.Attribute) or named not in module.imports or named in _old(module):
        return ""
    written = module.imports[named] + path_after(function.value)
    return "" if written == _OLD else canonical(written, module.aliases)


def negated(mask: str, *, atom: bool = False) -> str:
    """The opposite of a mask: of ``a == b`` it is ``a != b``, of ``~m`` the mask itself; in parentheses if need be."""
    try:
        node = cst.parse_expression(mask)
    except cst.ParserSyntaxError:
        return f"~({mask})"
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert) and not node.lpar:
        return code(node.expression)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        first, second = (code(n) for n in (node.left, node.comparisons[0].comparator))
        flipped = {cst.Equal: "!=", cst.NotEqual: "=="}.get(type(node.comparisons[0].operator))
        if flipped is not None:
            return f"({first} {flipped} {second})" if atom else f"{first} {flipped} {second}"
    plain = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    return f"~{mask}" if plain else f"~({mask})"


def is_long(condition: str, place: SourceNode, more: int) -> bool:
    """Whether a condition is better given a name than written again at a place, whose row gets so much longer."""
    threshold = _THRESHOLD.search(condition)
    if len(condition) > _LONG or "(" in condition or (threshold is not None and float(threshold[1]) not in (0, 1)):
        return True
    lines = place.source.lines
    width = len(lines[place.region[0].row - 1].rstrip()) + more
    return width > min(max(_WIDE, *(len(line.rstrip()) for line in lines)), _WIDEST)


def free_name(place: SourceNode, *preferred: str) -> str:
    """The first of some variable names that means nothing in the function around a place, nor in its file."""
    module = place.block.module
    around = next((n for n in place.path()[::-1] if isinstance(n, cst.FunctionDef)), None)
    taken = {*module.imports, *module.definitions}
    if around is not None:  # not what a docstring speaks of
        taken |= place.block.chunk.once(variables_in, around)
    else:
        taken.update(re.findall(r"\w+", module.text))
    numbered = (f"{preferred[0]}_{number}" for number in count(2))
    return next(name for name in chain(preferred, numbered) if name not in taken)


_ORDER = {cst.GreaterThan: "greater", cst.LessThan: "less", cst.GreaterThanEqual: "greater_equal",
          cst.LessThanEqual: "less_equal", cst.Equal: "equal", cst.NotEqual: "not_equal"}  # fmt: skip
_SHORTER = {"gt": "greater", "lt": "less", "ge": "greater_equal", "le": "less_equal", "eq": "equal", "ne": "not_equal"}
_BESIDE_ZERO = {"greater": "positive", "less": "negative", "greater_equal": "nonnegative",
                "less_equal": "nonpositive", "equal": "zero", "not_equal": "nonzero"}  # fmt: skip
_BESIDE = {"greater": "above", "less": "below", "greater_equal": "above", "less_equal": "below"}
_ASKED = {"isnan": "nan", "is_nan": "nan", "isfinite": "finite", "is_finite": "finite", "isinf": "infinite"}
_SUMMARY = re.compile(r"(?:reduce_|vector_|matrix_|nan|a(?=m))?(sum|mean|norm|prod|var|std|max|min|det|trace)")
_ADJECTIVE = re.compile(r"is_([a-z]+)")
CLIP = re.compile(r"(?:clip|clamp)(_by_value)?_?|maximum|minimum")
_OF_SQUARES = {"mean": "mean_square", "sum": "sum_of_squares"}
#: Methods that are called what they give, and variables that are called what they are the logarithm of.
_WORD = re.compile(
    r"(?!(?:detach|clone|contiguous|item|float|double|half|squeeze|flatten|numpy|cpu|cuda|t|r?sqrt|exp|log|abs|square)$)"
    r"[a-z]+"
)
_LOGARITHM = re.compile(r"(?:log|ln)_?([a-z]\w+)")
_LONGEST_NAME = 24
#: What is a little below 0 is negative, to whoever compares with it; what is above a little more, above a threshold.
_TINY, _SMALL = 1e-5, 1e-2


def value_names(place: SourceNode, operand: SourceNode, role: str) -> tuple[str, ...]:
    """What a variable may be called that holds an operand of an operation: by what it is, or what it is for."""
    called = last_name(operand.node.func) if isinstance(operand.node, cst.Call) else ""
    first = operands(operand, 1)[:1]
    summary, word = _SUMMARY.fullmatch(called), "".join(_subject(p.node) for p in first)
    own = [f"_{word}_{summary[1]}"[-1 - _LONGEST_NAME :].partition("_")[2]] if word and summary else []
    if summary and any(_is_square(part.node) for part in first):
        own = [_OF_SQUARES[summary[1]]] if summary[1] in _OF_SQUARES else own
    clipped = [f"clipped_{word}"] if word and CLIP.fullmatch(called) else []
    statement = next((n for n in place.path()[::-1] if isinstance(n, cst.Assign)), None)
    to = statement.targets[0].target if statement is not None and len(statement.targets) == 1 else cst.Tuple([])
    target, whole = _subject(to), statement is not None and statement.value is place.node
    squared = role == "radicand" and whole and target == last_name(to) and "sqrt" not in target
    asked = (
        isinstance(operand.node, cst.Call) and isinstance(operand.node.func, cst.Attribute) and not operand.node.args
    )
    plain = [called] if asked and _WORD.fullmatch(called) else []
    of = [found[1]] if whole and role == "argument" and (found := _LOGARITHM.fullmatch(target)) else []
    angle = [role] if role in ("sine", "cosine") else []
    squares = clipped if "squared" in word else []  # `norms_squared` beside `squared_norms` would say nothing
    said = [*squares, *[f"{target}_squared"] * squared, *own, *clipped, *plain, *of]
    names = [*angle, *said, role, *[f"{target}_{role}"] * bool(target)]
    return tuple(name for name in names if len(name) <= _LONGEST_NAME)


def _is_square(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power):
        return _number(node.right) == 2
    return isinstance(node, cst.Call) and last_name(node.func) == "square"


def safe_name(name: str) -> str:
    """What a variable is called that holds another one, masked: ``safe_x``, of ``x_safe`` as well."""
    bare = re.sub(r"^safe_|_safe$", "", name)
    return f"safe_{bare}"


def role(place: SourceNode, name: str) -> str:
    """What an operand of a guard is for: ``x`` beside ``y``, or the sides of an angle where these mean something."""
    free = name != "x" or all(free_name(place, side) == side for side in ("x", "y"))
    return name if free else "adjacent"


def free_safe_name(place: SourceNode, name: str) -> str:
    """The same where it means nothing yet, and nothing means its opposite: beside ``x_safe`` it is ``masked_x``."""
    around = next((n for n in place.path()[::-1] if isinstance(n, cst.FunctionDef)), None)
    known = place.block.chunk.once(variables_in, around) if around is not None else set()
    masked = f"masked_{name}"
    return free_name(place, masked) if f"{name}_safe" in known else free_name(place, safe_name(name), masked)


def condition_names(text: str) -> tuple[str, ...]:
    """What a variable that holds a condition may be called: what it tests, and also of what."""
    try:
        node = cst.parse_expression(text)
    except cst.ParserSyntaxError:
        return ()
    if bounds := _bounds(node):
        return _of("in_range", bounds)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.BitOr, cst.BitAnd)):
        # What both sides say of one thing each: ``any_small`` of ``(x < 1e-5) | (y < 1e-5)``.
        said = [condition_names(code(side)) for side in (node.left, node.right)]
        adjectives = {_ADJECTIVE.fullmatch(names[0]) if names else None for names in said}
        words = {found[1] for found in adjectives if found is not None}
        quantifier = "any" if isinstance(node.operator, cst.BitOr) else "both"
        return (f"{quantifier}_{words.pop()}",) if len(words) == 1 and None not in adjectives else ()
    order, given = "", [node]
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        order = _ORDER.get(type(node.comparisons[0].operator), "")
        given = [node.left, node.comparisons[0].comparator]
    elif isinstance(node, cst.Call):
        last, given = last_name(node.func), [a.value for a in node.args]
        if last in ("any", "reduce_any") and given and isinstance(given[0], cst.Comparison):
            return _of("has_length", [given[0].left])
        if last in _ASKED:
            return _of(_ASKED[last], given[:1])
        if last in ("isclose", "is_close") and len(given) > 1:
            return _of("zero" if _number(given[1]) == 0 else "close", given[:1])
        order = _SHORTER.get(last, last)
    if len(given) != 2 or order not in _BESIDE_ZERO:
        return ()
    number = _number(given[1])
    if number == 0:
        return _of(_BESIDE_ZERO[order], given[:1])
    if order == "equal" and re.search(r"\binf(inity)?\b", code(given[1])):
        return _of("infinite", given[:1])
    if order not in _BESIDE:
        return _of("equal" if order == "equal" else "different", given[:1])
    size = "large" if _BESIDE[order] == "above" else "small"
    if size == "large" and number is not None and 0 < number <= _SMALL:
        return _of("above_threshold", given[:1])
    if size == "small" and number is not None and -_TINY <= number < 0:
        return _of("negative", given[:1])
    if number is not None:
        return _of(f"{_BESIDE[order]}_one" if number == 1 else size, given[:1])
    other = _subject(given[1])
    least = _of(size, given[:1])
    return (f"{_BESIDE[order]}_{other}", *least[::-1]) if 0 < len(other) <= _LONGEST_NAME else least


def _bounds(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a condition keeps between two bounds, if it does: ``(x >= a) & (x < b)``."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.BitAnd):
        return []
    both = [n for n in (node.left, node.right) if isinstance(n, cst.Comparison) and len(n.comparisons) == 1]
    signs = {_BESIDE.get(_ORDER.get(type(n.comparisons[0].operator), "")) for n in both}
    return [both[0].left] if signs == {"above", "below"} and both[0].left.deep_equals(both[1].left) else []


def _of(adjective: str, operands: Sequence[cst.BaseExpression]) -> tuple[str, ...]:
    subject = "".join(map(_subject, operands))
    short = adjective if "_" in adjective else f"is_{adjective}"
    return (short, *([f"{subject}_{short}"] if 0 < len(subject) <= _LONGEST_NAME else []))


def _subject(node: cst.CSTNode) -> str:
    """The word for a value that is the nearest to its name."""
    while isinstance(node, (cst.Subscript, cst.Call)):
        if isinstance(node, cst.Subscript) and (key := _key(node)):
            return key
        if isinstance(node, cst.Call) and not node.args:  # a method: what it is one of, if that is a variable
            of = node.func.value if isinstance(node.func, cst.Attribute) else node.func
            node = node.func if last_name(of) in ("self", "") else of
        elif isinstance(node, cst.Call):
            called, several = last_name(node.func), len([a for a in node.args if a.keyword is None]) > 1
            of_one = not several or _SUMMARY.fullmatch(called) or CLIP.fullmatch(called) or called == "where"
            node = node.args[0].value if of_one else node.func
        else:
            node = node.value
    return last_name(node).strip("_").removesuffix("_squared")


def _key(node: cst.Subscript) -> str:
    """The word by which a dictionary is asked: ``config["warmup"]``."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    word = value.evaluated_value if isinstance(value, cst.SimpleString) else ""
    return word if isinstance(word, str) and word.isidentifier() and len(word) <= _LONGEST_NAME else ""


def _number(node: cst.BaseExpression) -> float | None:
    if isinstance(node, cst.Call) and (called := last_name(node.func)) in _FILLED:
        return _FILLED[called]
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        number = _number(node.expression)
        return None if number is None else -number
    if isinstance(node, cst.Call) and node.args and last_name(node.func) in _CONVERTS:
        return _number(node.args[0].value)
    if not isinstance(node, (cst.Integer, cst.Float)) or len(node.value) > _LONGEST_NAME:
        return None
    return float(node.evaluated_value)


def without_gradient(text: str, framework: str, module: Module, namespace: str) -> tuple[str, list[Edit]] | None:
    """A value as a constant of reverse mode, as the framework spells it, and what has to be imported for that; None
    where the file has no name for it, nor can have one.
    """
    if framework == "torch":
        plain = re.fullmatch(r"[\w.]+(\[[^\[\]]*\])*", text)
        return (f"{text}.detach()" if plain else f"({text}).detach()"), []
    if framework == "tensorflow":
        return f"{namespace}.stop_gradient({text})", []
    names = ("jax", "jax.lax", "jax.lax.stop_gradient")
    known = [f"{local}{names[-1][len(name) :]}" for local, name in module.imports.items() if name in names]
    if known:
        return f"{min(known, key=len)}({text})", []
    edit = _importing(module, "jax", "jax")
    return (f"jax.lax.stop_gradient({text})", [edit]) if edit is not None else None


def infinity(namespace: str, framework: str) -> str:
    """The number, as a namespace of the framework spells it."""
    return FRAMEWORKS[framework].infinity.format(namespace=namespace) if namespace else 'float("inf")'
