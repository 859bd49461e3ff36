"""Whether anything in an application differentiates a function: its callers are followed by name.

Who calls a function of a library is known to nobody. An application is all there is: where no chain of calls leads to
a gradient, a module's ``forward`` or a loss, the nan hurts nobody.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from wherelint.evidence.names import inherits
from wherelint.evidence.pieces import Evidence
from wherelint.frameworks import framework_of
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.sources import programs
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, dotted, last_name

#: What differentiates what it is given, or what was computed before.
TAKERS = frozenset(
    """GradientTape backward elbo_grad filter_grad filter_jacfwd filter_jacrev filter_value_and_grad filter_vjp grad
    grad_and_value hessian jacfwd jacobian jacrev least_squares linearize manual_backward minimize value_and_grad vjp
    BFGS GaussNewton GradientDescent HMC LBFGS LevenbergMarquardt NUTS SVI""".split()
)
#: Those of them that differentiate the function that they are given, and nothing else of the code around them.
_OF_FUNCTIONS = frozenset(name for name in TAKERS if re.search("grad|hessian|jac|linearize|vjp", name))
#: Words without one of which a project differentiates nothing; the most frequent first.
_TRAINING = ("backward", "grad", "optim", "fit", "Trainer", *sorted(TAKERS))
#: A project of fewer files may be the beginning of one.
_FEW_FILES = 10
_CUTS = frozenset({"inference_mode", "no_grad"})
_FORWARD = frozenset({"__call__", "call", "forward", "message", "training_step"})
_MODULE = re.compile(r"(?:Module|Layer|Model|Block|Cell|Bijector|Distribution|Transform|Flow|MessagePassing)$")
_LOSS = re.compile(
    r"(?<![a-z])(?:loss(?:es)?|nll|elbo|objective|criterion|likelihood|log_?prob|logpdf|energy)(?![a-z])|[a-z]Loss",
    re.IGNORECASE,
)
_PACKAGING = re.compile(r"^\[(?:project|build-system|tool\.poetry|tool\.flit)", re.MULTILINE)
#: Methods that many classes have: their callers name the class.
_COMMON = frozenset("__init__ apply compute get reset run sample set step update".split()) | _FORWARD
_DEEPEST, _MOST = 5, 80

_Name = tuple[str, ...]


def reach(module: Module, name: _Name) -> Evidence | None:
    """What the project's calls of a function say against a gradient: None where something differentiates it.

    What the calls in an application do not differentiate is not differentiated; a library is called by others, too.
    What nobody calls was written for somebody, unless the other files use the rest of its file. Nothing is known of a
    file on its own.
    """
    if not module.project.scope:
        return None
    known = _known(module, name)
    around = module.once(screen.functions).get(known)
    if around is not None and name != known and not _looped(module, around).isdisjoint(_named(around, name[-1])):
        return Evidence.UNREACHED
    library = module.once(_is_library)
    if not library and module.once(_trains_nothing):
        return Evidence.UNREACHED
    layer, seen, is_called_by_others = [(module, known, "")], set[tuple[str, _Name]](), False
    for _ in range(_DEEPEST):
        callers = []
        for home, each, callee in layer:
            if (home.filename, each) in seen or _is_cut(home, each):
                continue
            seen.add((home.filename, each))
            if _is_differentiated(home, each, callee):
                return None
            found = list(_callers(home, each))
            if not found and len(seen) == 1:
                return None if library or not _is_imported(home) else Evidence.UNSEEN
            is_called_by_others |= library and not found
            callers += [(*caller, _word(each)) for caller, within in found if not within]
        if not callers or len(seen) > _MOST:
            break
        layer = callers
    return Evidence.UNSEEN if callers or is_called_by_others else Evidence.UNREACHED


def is_called_here_alone(module: Module, function: str) -> bool:
    """Whether all callers of a function are in its file: nobody else's, in an application, imports it."""
    if not module.project.scope or "." in function or module.once(_is_library):
        return False
    return not is_used_elsewhere(module, function)


def is_used_elsewhere(module: Module, function: str) -> bool:
    """Whether another file of the project may call a function or a method of a file."""
    word = function.rpartition(".")[2]
    return any(word != function or _may_import(home, word, module) for home in module.project.users(word))


def _trains_nothing(module: Module) -> bool:
    """Whether no file of a project that is no beginning has a word of training."""
    root = module.project.scope
    return len(programs(root)) >= _FEW_FILES and not any(map(module.project.is_spoken, _TRAINING))


def _is_imported(module: Module) -> bool:
    """Whether another file of the project may import a file: it speaks of its name."""
    name = Path(module.filename).stem
    return name.isidentifier() and bool(module.project.users(name))


def _is_library(module: Module) -> bool:
    """Whether a file is packaged for others, as some directory from its own up to the project's says."""
    root = Path(module.project.scope)
    around = [at for at in Path(module.filename).absolute().parents if at.is_relative_to(root)]
    return (root / "__init__.py").is_file() or any(map(_is_packaged, around))


def _is_packaged(directory: Path) -> bool:
    if any((directory / name).is_file() for name in ("setup.py", "setup.cfg")):
        return True
    try:
        return _PACKAGING.search((directory / "pyproject.toml").read_text(encoding="utf-8")) is not None
    except (OSError, UnicodeDecodeError):
        return False


def _known(module: Module, name: _Name) -> _Name:
    """The function or method that a qualified name begins with."""
    known = module.once(screen.functions)
    return next((name[:n] for n in (2, 1) if name[:n] in known), name[:1])


def _is_differentiated(module: Module, name: _Name, callee: str) -> bool:
    """Whether a function takes gradients of a callee, is handed to what does, computes a loss or is a ``forward``."""
    function = module.once(screen.functions).get(name)
    if function is None:  # the code of a script, which calls what trains
        return not TAKERS.isdisjoint(module.once(_mentioned))
    words = module.syntax.words(function)
    takers = TAKERS & (words.names | words.attributes)
    is_of_all = not callee or not takers <= _OF_FUNCTIONS
    if (takers and (is_of_all or _is_handed_over(function, callee))) or any(map(_LOSS.search, name)):
        return True
    return name[-1] in _FORWARD and inherits(name[0], module, _MODULE)


def _is_cut(module: Module, name: _Name) -> bool:
    """Whether a decorator keeps gradients out of a function."""
    function = module.once(screen.functions).get(name)
    decorators = getattr(function, "decorator_list", [])
    return any(last_name(each.func if isinstance(each, ast.Call) else each) in _CUTS for each in decorators)


def _callers(module: Module, name: _Name) -> Iterator[tuple[tuple[Module, _Name], bool]]:
    """The functions of the project that mention a function, and the scripts that do at their top level.

    Each with whether it does so within ``no_grad`` or a loop that JAX cannot differentiate alone.
    """
    word = _word(name)
    # A file that defines the name itself speaks of its own function; one that does not import it, of another.
    others = (home for home in module.project.users(word) if word not in home.definitions)
    for home in [module, *(home for home in others if len(name) > 1 or _may_import(home, word, module))]:
        found = [each for each in screen.referring(home, word) if (home, each) != (module, name)]
        for each in found:
            yield (home, each), _is_within_cut(home, home.once(screen.functions)[each], word)
        if word in home.once(_mentioned):
            yield (home, ("",)), False


def _word(name: _Name) -> str:
    """The word by which callers speak of a function or method."""
    return name[0] if name[-1] in _COMMON and len(name) > 1 else name[-1]


def _may_import(home: Module, word: str, module: Module) -> bool:
    """Whether a file imports a function by its name, or the file or folder that it is in."""
    places = Path(module.filename).with_suffix("").parts[-2:]
    targets = [*home.imports.values(), *(target for _, target in home.inner_imports)]
    parts = (target.split(".") for target in targets if framework_of(target) is None)
    return bool(home.stars) or any(each[-1] == word or not set(places).isdisjoint(each) for each in parts)


def _is_handed_over(function: ast.stmt, word: str) -> bool:
    """Whether a function mentions a word within what it hands to ``grad`` and the like: a function, or an argument."""
    called = {id(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}

    def mentions(node: ast.AST, words: set[str], *, called_too: bool = True) -> bool:
        return any(last_name(each) in words and (called_too or id(each) not in called) for each in ast.walk(node))

    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    partials = [node for node in assigned if mentions(node.value, {word}, called_too=False)]
    words = {word, *(last_name(target) for node in partials for target in node.targets)}
    handed = [
        node
        for node in ast.walk(function)
        if (isinstance(node, (*FUNCTION_DEFS, ast.Lambda)) and node is not function)
        or (isinstance(node, ast.Call) and last_name(node.func) in TAKERS)
    ]
    decorators = getattr(function, "decorator_list", [])
    return any(mentions(node, words) for node in handed) or any(mentions(each, {*TAKERS}) for each in decorators)


def _is_within_cut(home: Module, function: ast.stmt, word: str) -> bool:
    """Whether a function mentions a word only inside ``with no_grad()``, or in a loop that JAX cannot differentiate."""
    inside = _looped(home, function)
    for node in ast.walk(function):
        if isinstance(node, ast.With):
            calls = (item.context_expr for item in node.items)
            if any(last_name(each.func) in _CUTS for each in calls if isinstance(each, ast.Call)):
                inside.update(ast.walk(node))
    mentions = [node for node in ast.walk(function) if last_name(node) == word]
    return bool(mentions) and inside.issuperset(mentions)


def _looped(module: Module, function: ast.AST) -> set[ast.AST]:
    """What a function hands to JAX's ``while_loop``, which has no reverse mode, with the functions it names there."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and last_name(node.func) == "while_loop"]
    roots = [dotted(call.func).partition(".")[0] for call in calls]
    of_jax = [
        call for call, root in zip(calls, roots, strict=True) if framework_of(module.imports.get(root, "")) == "jax"
    ]
    handed = [part for call in of_jax for part in (*call.args[:2], *(keyword.value for keyword in call.keywords))]
    named = [each for part in handed if isinstance(part, ast.Name) for each in _named(function, part.id)]
    return {node for part in (*handed, *named) for node in ast.walk(part)}


def _named(function: ast.AST, name: str) -> list[FunctionDef]:
    """The functions of a name within another."""
    return [node for node in ast.walk(function) if isinstance(node, FUNCTION_DEFS) and node.name == name]


def _mentioned(module: Module) -> frozenset[str]:
    """Every name and attribute of a file's top level, what functions and classes hold excluded."""
    found = set[str]()
    for statement, _ in module.blocks:
        if not isinstance(statement, (*FUNCTION_DEFS, ast.ClassDef)):
            words = module.syntax.words(statement)
            found |= words.names | words.attributes
    return frozenset(found)
