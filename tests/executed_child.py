"""One function before and after a fix, executed: the child of ``executed_fixes.py``, which runs strangers' code."""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import inspect
import itertools
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from differential.fixes import Ran, differences  # noqa: E402
from executed_slices import changed_rows, slices  # noqa: E402

_SHAPES = ((4,), (), (3, 4), (4, 4), (2, 3, 4), (2, 3, 3), (3,), (2,), (5, 2), (1, 3, 8, 8), (2, 4, 3, 3), (0,))
_MOST_SHAPES, _FEW = 2, 6
_TELLING = (0.0, 1.0, -1.0, 100.0, -100.0, 1e-4, np.nan, np.inf, -np.inf)
_INTEGERS = ("int", "n_", "num", "index", "idx", "axis", "dim", "order", "degree", "size", "length")
#: Attributes that are lengths.
_COUNTS = ("n_", "num_", "batch_size")
_OF_ARRAYS = frozenset({*dir(np.ndarray), "at", "device", "detach", "requires_grad", "unsqueeze", "numpy", "new_tensor",
                        "new_zeros", "new_ones", "get_shape", "dim", "clamp", "float", "to", "pow", "exp", "log", "abs",
                        "sqrt", "norm", "size", "type_as", "expand", "view", "cpu", "masked_fill"})  # fmt: skip


class NotRunnableError(Exception):
    """The function cannot be executed, and why."""


class Missing:
    """Stands for what could not be imported: a decorator that does nothing, a base class; not a function."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}")

    def __call__(self, *given: Any, **named: Any) -> Any:
        if len(given) == 1 and callable(given[0]) and not named:
            return given[0]  # a decorator
        if not any(isinstance(v, _arrays()) for v in (*given, *named.values())):
            return Missing(f"{self._name}()")
        raise NotRunnableError(f"it calls {self._name}, which is not installed")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __getitem__(self, key: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


def _arrays() -> tuple[type, ...]:
    found: list[type] = [np.ndarray]
    if "torch" in sys.modules:
        found.append(sys.modules["torch"].Tensor)
    if "jax" in sys.modules:
        found.append(sys.modules["jax"].Array)
    if "tensorflow" in sys.modules:
        found.append(sys.modules["tensorflow"].Tensor)
    return tuple(found)


def names(text: str, file: Path, package: str) -> tuple[dict[str, Any], str]:
    """What a module defines, statement by statement: what fails is left out, what cannot be imported stands in."""
    module = types.ModuleType(f"{package}.{file.stem}" if package else file.stem)
    module.__dict__.update(__file__=str(file), __package__=package)
    sys.modules[f"executed.{file.stem}"] = module
    failed = ""
    for statement in ast.parse(text).body:
        for one in _single(statement):
            tree = ast.Module([one], [])
            try:
                exec(compile(tree, "<fixed>", "exec", dont_inherit=True, flags=_FUTURE), module.__dict__)
            except Exception as error:  # anything may fail in what strangers wrote
                failed = failed or f"{type(error).__name__}: {error}"
                if isinstance(one, (ast.Import, ast.ImportFrom)):
                    for alias in one.names:
                        name = (alias.asname or alias.name).partition(".")[0]
                        module.__dict__.setdefault(name, Missing(alias.name))
    return module.__dict__, failed


_FUTURE = __import__("__future__").annotations.compiler_flag


def _single(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Imports one name at a time, and those that stand in a ``try`` or ``if`` too."""
    if isinstance(statement, ast.ImportFrom) and all(a.name != "*" for a in statement.names):
        for alias in statement.names:
            yield ast.copy_location(ast.ImportFrom(statement.module, [alias], statement.level), statement)
    elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
        for inner in statement.body:
            yield from _single(inner)
    elif not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
        yield statement


class StandIn:
    """An object whose attributes and items are arrays, where its class does not say otherwise."""

    def __init__(self, make: Callable[[str], Any], cls: type | None, called: set[str]) -> None:
        self.__dict__.update(_make=make, _cls=cls, _called=called)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        static = inspect.getattr_static(self._cls, name, None) if self._cls is not None else None
        if isinstance(static, (types.FunctionType, staticmethod, classmethod)):
            return static.__get__(self, self._cls)
        if isinstance(static, property) and static.fget is not None:
            return static.fget(self)
        if static is not None and not inspect.isdatadescriptor(static):
            return static.__get__(self, self._cls) if callable(static) and hasattr(static, "__get__") else static
        made = (lambda *given, **_: given[0]) if name in self._called else self._make(name)
        self.__dict__[name] = made
        return made

    def __getitem__(self, key: Any) -> Any:
        return self.__getattr__(f"item_{key}")

    def __len__(self) -> int:
        return 2

    def __call__(self, *given: Any, **_: Any) -> Any:
        return given[0]


class Target(NamedTuple):
    """The function to call, the class that it is a method of, and its definition."""

    call: Callable[..., Any]
    cls: type | None
    node: ast.FunctionDef
    bound: bool


def target(module: Mapping[str, Any], text: str, function: str) -> Target:
    """The outermost function that holds a finding."""
    parts = function.split(".")
    body: Sequence[ast.stmt] = ast.parse(text).body
    every = [n for s in body for n in ([s] if isinstance(s, (ast.FunctionDef, ast.ClassDef)) else ast.walk(s))]
    defined = {n.name: n for n in every if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    first = defined.get(parts[0])
    if first is None or parts[0] not in module:
        raise NotRunnableError(f"{parts[0]} is not defined:")
    if isinstance(first, ast.FunctionDef):
        return Target(module[parts[0]], None, first, False)
    own = {n.name: n for n in first.body if isinstance(n, ast.FunctionDef)}
    if len(parts) < 2 or parts[1] not in own:
        raise NotRunnableError("it is no function")
    cls = module[parts[0]]
    if not isinstance(cls, type):
        raise NotRunnableError(f"{parts[0]} is no class")
    method = inspect.getattr_static(cls, parts[1])
    if isinstance(method, property):
        method = method.fget
    static = isinstance(method, (staticmethod, classmethod))
    call = getattr(cls, parts[1]) if static else getattr(method, "__get__", lambda *_: method)(None, cls)
    return Target(call, cls, own[parts[1]], not static)


class Arguments:
    """What a function is called with, for a shape: numbers by name, the rest of each framework's arrays."""

    def __init__(self, found: Target, framework: str, witness: Mapping[str, Any]) -> None:
        self.found, self.framework, self.witness = found, framework, witness
        given = found.node.args
        every = [*given.posonlyargs, *given.args]
        defaults = dict(zip([a.arg for a in every][::-1], given.defaults[::-1], strict=False))
        defaults |= {a.arg: d for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None}
        skipped = 1 if found.cls is not None and (found.bound or (every[:1] and every[0].arg == "cls")) else 0
        self.own = every[0].arg if skipped and found.bound else None
        self.positional = [a.arg for a in every[skipped:] if a.arg not in defaults]
        self.keywords = [a.arg for a in given.kwonlyargs if a.arg not in defaults]
        self.defaults = {n: d.value for n, d in defaults.items()
                         if isinstance(d, ast.Constant) and type(d.value) is float}  # fmt: skip
        self.notes = {a.arg: ast.unparse(a.annotation) if a.annotation else "" for a in (*every, *given.kwonlyargs)}
        nodes = list(ast.walk(found.node))
        reads = [n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
        self.opened = {n.value.id for n in reads if n.attr not in _OF_ARRAYS}  # type: ignore[attr-defined]
        items = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)]
        self.opened |= {n.value.id for n in items if _is_text(n.slice)}  # type: ignore[attr-defined]
        inner = [n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Attribute)]
        #: Attributes that are objects, too.
        self.nested = {n.value.attr for n in inner if n.attr not in _OF_ARRAYS}  # type: ignore[attr-defined]
        calls = [n.func for n in nodes if isinstance(n, ast.Call)]
        self.methods = {f.attr for f in calls if isinstance(f, ast.Attribute)}
        self.callables = {f.id for f in calls if isinstance(f, ast.Name)}

    @property
    def arrays(self) -> list[str]:
        """The arguments that are arrays."""
        return [n for n in (*self.positional, *self.keywords) if self.kind(n) == "array"]

    def kind(self, name: str) -> str:
        """What is made up for a parameter."""
        note = self.notes.get(name, "").lower()
        if name in self.callables or "callable" in note:
            return "callable"
        if note == "bool":
            return "bool"
        if note == "str":
            return "str"
        if name in ("key", "rng", "rng_key", "prng_key") or "prngkey" in note:
            return "key"
        if name in self.opened:
            return "object"
        whole = note in ("int", "integer") or (not note and name.startswith(_INTEGERS))
        return "int" if whole else "array"

    def call(self, values: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """Call it, with arrays by name."""
        given = [self._one(name, values, shape) for name in self.positional]
        named = {name: self._one(name, values, shape) for name in self.keywords}
        moved = {name: v for name, v in values.items() if name in self.defaults}
        if self.own is not None:
            made = self._maker(values, shape)
            given.insert(0, StandIn(made, self.found.cls, self.methods - set(self.positional)))
        return self.found.call(*given, **named, **moved)

    def _maker(self, values: Mapping[str, Any], shape: tuple[int, ...]) -> Callable[[str], Any]:
        def make(name: str) -> Any:
            if name in self.nested:
                return StandIn(make, None, self.methods)
            if "dtype" in name:
                return np.float32 if self.framework == "jax" else sys.modules[self.framework].float32
            if name.startswith(_COUNTS):
                return 2
            told = next((v for n, v in self.witness.items() if n.rpartition(".")[2] == name), None)
            if told is not None and values.get("at the witness"):
                return converted(self.framework, np.resize(np.float32(told), shape))
            rng = np.random.default_rng(sum(map(ord, name)))
            return converted(self.framework, np.float32(rng.uniform(0.2, 2.0, shape)))

        return make

    def _one(self, name: str, values: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        kind = self.kind(name)
        if kind == "array":
            return values[name]
        if kind == "object":
            return StandIn(self._maker(values, shape), None, self.methods)
        if kind == "key":
            return importlib.import_module("jax").random.PRNGKey(1) if self.framework == "jax" else 1
        return {"int": 2, "bool": True, "str": "mean", "callable": lambda *v, **_: v[0] if v else 1.0}[kind]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def converted(framework: str, array: Any) -> Any:
    """An array of the framework."""
    if framework == "torch":
        return sys.modules["torch"].tensor(np.asarray(array))
    return sys.modules["jax"].numpy.asarray(array) if framework == "jax" else sys.modules["tensorflow"].constant(array)


def leaves(value: Any) -> Iterator[Any]:
    """The arrays of a result."""
    if isinstance(value, (*_arrays(), float, np.floating)):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from leaves(value[key])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves(each)
    elif hasattr(value, "__dict__"):
        yield from leaves({k: v for k, v in vars(value).items() if isinstance(v, (*_arrays(), float, list, tuple))})


def run(arguments: Arguments, values: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """The arrays of a call, and the gradients of their sum."""
    framework, taken = arguments.framework, {n: v for n, v in values.items() if n in arguments.arrays}
    rest = {n: v for n, v in values.items() if n not in taken}
    if framework == "torch":
        torch = sys.modules["torch"]
        torch.manual_seed(1)
        inputs = {n: torch.tensor(v, requires_grad=True) for n, v in taken.items()}
        found = list(leaves(arguments.call({**inputs, **rest}, shape)))
        floats = [v for v in found if isinstance(v, torch.Tensor) and v.requires_grad and v.is_floating_point()]
        total = sum((v.sum() for v in floats), start=torch.zeros(()))
        every = list(inputs.values())
        gradients = (
            torch.autograd.grad(total, every, allow_unused=True, materialize_grads=True) if floats and every else []
        )
        return [np.asarray(v.detach() if isinstance(v, torch.Tensor) else v) for v in found], [
            g.numpy() for g in gradients
        ]
    if framework == "tensorflow":
        tf = sys.modules["tensorflow"]
        tf.random.set_seed(1)
        inputs = {n: tf.constant(v) for n, v in taken.items()}
        with tf.GradientTape() as tape:
            tape.watch(list(inputs.values()))
            found = [tf.convert_to_tensor(v) for v in leaves(arguments.call({**inputs, **rest}, shape))]
            total = sum((tf.reduce_sum(v) for v in found if v.dtype == tf.float32), start=tf.zeros(()))
        zero = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(total, list(inputs.values()), unconnected_gradients=zero) if inputs else []
        return [v.numpy() for v in found], [tf.convert_to_tensor(g).numpy() for g in gradients]
    jax = sys.modules["jax"]

    def summed(inputs: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        found = [jax.numpy.asarray(v) for v in leaves(arguments.call({**inputs, **rest}, shape))]
        total = sum((v.sum() for v in found if jax.numpy.issubdtype(v.dtype, jax.numpy.floating)), start=0.0)
        return jax.numpy.float32(total), found

    inputs = {n: jax.numpy.asarray(v) for n, v in taken.items()}
    with jax.disable_jit() if arguments.found.node.decorator_list else contextlib.nullcontext():
        (_, found), gradients = jax.value_and_grad(summed, has_aux=True)(inputs)
    return [np.asarray(v) for v in found], [np.asarray(gradients[n]) for n in taken]


def situations(arguments: Arguments, shape: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Ordinary inputs, the witness, every telling number in one argument and in all; parameters off their defaults."""
    rng = np.random.default_rng(1052)
    arrays = arguments.arrays

    def ordinary(low: float = 0.1, high: float = 0.9) -> dict[str, Any]:
        return {n: np.float32(rng.uniform(low, high, shape)) for n in arrays}

    yield ordinary()
    told = {n: np.resize(np.float32(v), shape) for n, v in arguments.witness.items() if n in arrays}
    yield {**ordinary(), **told, "at the witness": True}
    for low, high in ((-2.0, 2.0), (0.5, 20.0), (-100.0, 100.0)):
        yield ordinary(low, high)
    for name, value in itertools.product(arrays, _TELLING):
        yield {**ordinary(), name: np.full(shape, value, np.float32)}
        if shape and np.prod(shape) and (value == 0 or np.isnan(value)):
            mixed = ordinary()
            mixed[name].flat[0] = value
            yield mixed
    for value in _TELLING[:4]:
        yield {n: np.full(shape, value, np.float32) for n in arrays}
    for name, value in itertools.product(arguments.defaults, (0.0, 0.3, 2.5, -1.0)):
        yield {**ordinary(), name: value}


def reaching(rows: set[int], call: Callable[[], Any]) -> tuple[Any, bool]:
    """What a call gives, and whether it executes one of some rows of the fixed file."""
    reached = False

    def line(frame: types.FrameType, event: str, _: Any) -> Any:
        nonlocal reached
        reached = reached or (event == "line" and frame.f_lineno in rows)
        return line

    def enter(frame: types.FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename == "<fixed>" else None

    sys.settrace(enter)
    try:
        return call(), reached
    finally:
        sys.settrace(None)


def compare(request: Mapping[str, Any]) -> tuple[str, str]:
    """What became of a fix: same, changed or not run, and how."""
    file = Path(request["file"])
    sys.path[1:1] = request["paths"]
    version = metadata.version

    def versioned(name: str) -> str:
        """The version of what is installed; what only lies in a folder has none."""
        with contextlib.suppress(metadata.PackageNotFoundError):
            return version(name)
        return "0.0.0"

    metadata.version = versioned
    importlib.import_module(request["framework"])
    package = ".".join(file.parent.relative_to(request["paths"][0]).parts)
    if package:
        with contextlib.suppress(Exception):  # then what it imports from there stands in
            importlib.import_module(package)
    texts = request["before"], request["after"]
    modules, failed = zip(*(names(text, file, package) for text in texts), strict=True)
    rows, why = changed_rows(*texts), ""
    attempts = [(texts, request["function"], ""), *slices(texts, (rows, changed_rows(*texts[::-1])))]
    for both, function, part in attempts:
        try:
            for module, text in zip(modules, both if part else (), strict=bool(part)):
                exec(compile(text, "<statements>", "exec", dont_inherit=True), module)
            found = [target(module, text, function) for module, text in zip(modules, both, strict=True)]
            one = Arguments(found[0], request["framework"], request["witness"])
            other = copy.copy(one)  # the same arguments, whatever the fixed one makes of them
            other.found = found[1]
            result, says = held((one, other), set() if part else rows)
        except (NotRunnableError, SyntaxError) as error:
            result, says = "not run", f"{error} {failed[0]}"[:200]
        if part and result == "changed" and "selection" in request and not _holds(part, request["selection"]):
            result, says = "not run", "the selection is not among the statements that can be executed"
        if result != "not run":
            return result, part + says
        why = why or says
    return "not run", why


def _holds(part: str, row: int) -> bool:
    """Whether a row is among those of a slice: what is dropped later may be anything before."""
    first, last = (int(word) for word in part.removesuffix(": ").split()[1::2])
    return first <= row <= last


def held(sides: Sequence[Arguments], rows: set[int]) -> tuple[str, str]:
    """Hold one side against the other at all situations."""
    ran, healed, reached, shapes, why = 0, 0, False, [], ""
    for shape in _SHAPES:
        if (not shapes) if shape == (0,) else len(shapes) == _MOST_SHAPES:
            continue  # that it keeps what is empty says nothing alone
        for i, values in enumerate(itertools.islice(situations(sides[0], shape), _FEW if shapes else None)):
            try:
                with np.errstate(all="ignore"):
                    (old, slopes), here = reaching(rows, lambda v=values, s=shape: run(sides[0], v, s))  # type: ignore[misc]
            except Exception as error:
                why = why or f"{type(error).__name__}: {str(error)[:150]}"
                if i == 0:
                    break
                continue
            if not old:
                why = why or "it returns no array"
                break
            if i == 0:
                shapes.append(shape)
            reached = reached or here or not rows
            ran += 1
            try:
                new, others = run(sides[1], values, shape)
            except Exception as error:
                if StandIn.__name__ in str(error):  # what was made up as an object is an array there
                    why = why or f"{type(error).__name__}: {str(error)[:150]}"
                    break
                new, others = f"{type(error).__name__}: {str(error)[:150]}", []
            if says := changed(old, slopes, new, others):
                where = f"{shape} { ({n: np.asarray(v).tolist() for n, v in values.items()}) }"
                return "changed", f"{says} at {where}"[:400]
            finite = all(np.isfinite(v).all() for v in old if v.dtype.kind == "f")
            lost = [all(np.isfinite(g).all() for g in each) for each in (slopes, others)]
            healed += finite and lost == [False, True]
    if not ran or not reached:
        return "not run", why if not ran else f"the fix is not reached in {ran} calls"
    return "same", f"{ran} calls, shapes {shapes}, gradient fixed at {healed}"


def changed(old: list[Any], slopes: list[Any], new: list[Any] | str, others: list[Any]) -> str:
    """How two results differ; nothing where they do not."""
    if isinstance(new, str):
        return f"raises {new}"
    if len(old) != len(new):
        return f"{len(old)} arrays, fixed: {len(new)}"
    none = np.zeros(())
    pairs = [(Ran(a, []), Ran(b, [])) for a, b in zip(old, new, strict=True)]
    for a, b in [*pairs, (Ran(none, slopes), Ran(none, others))]:
        for kind, says, _ in differences(a, b):
            return f"{kind}: {says}"
    return ""


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as asked:
        request = json.load(asked)
    try:
        answer = compare(request)
    except NotRunnableError as error:
        answer = "not run", str(error)
    with open(sys.argv[2], "w", encoding="utf-8") as answered:
        json.dump(answer, answered)
