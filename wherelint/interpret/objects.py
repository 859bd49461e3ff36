"""Objects of the project's classes, as their constructors leave them, and what the classes declare."""

import ast
from collections.abc import Iterator

from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Leaf, Node
from wherelint.interpret.annotations import last_name
from wherelint.interpret.builder import Frame
from wherelint.interpret.calls import inline, root_arguments
from wherelint.interpret.lowering import CALLS, Lowering
from wherelint.interpret.resolve import constructor, fields, member
from wherelint.interpret.values import MISSING, Args, Class, Function, Instance, Kwargs, Value, nodes_in


def instantiate(low: Lowering, cls: Class, args: Args, kwargs: Kwargs, at: ast.AST) -> Instance:
    """``Class(arguments)``."""
    made = Instance(cls, low.text(at))
    construct(low, made, args, kwargs, at)
    constrain(low, made)
    low.path_conditions += made.path_conditions
    return made


def construct(low: Lowering, made: Instance, args: Args, kwargs: Kwargs, at: ast.AST) -> None:
    """Run the constructor of a class of the project; dataclasses and NamedTuples take their fields in order."""
    init = constructor(made.cls)
    if isinstance(init, Function):
        if made.stands_for_any and not args and not kwargs:
            _construct_unknown(low, made, init, at)
        else:
            inline(low, init, [made, *args], kwargs, at)
        return
    setup = member(made.cls, "setup")
    for name, value in zip(fields(made.cls), args, strict=False):
        made.attributes[name] = value
    made.attributes.update(kwargs)
    if isinstance(setup, Function):
        inline(low, setup, [made], {}, at)


def _construct_unknown(low: Lowering, made: Instance, init: Function, at: ast.AST) -> None:
    """Attributes of an object about which only its class is known."""
    given = root_arguments(low, init)
    for setting in nodes_in(*given.values()):
        if isinstance(setting, Leaf):
            setting.setting = True
    first = next(iter(given), None)
    if first is not None:
        given[first] = made
    try:
        inline(low, init, [], given, at)
    except GiveUp:
        pass  # what it did not come to assign may be anything
    finally:
        init.called = False


def self_of(low: Lowering, cls: Class) -> Instance:
    """The receiver that stands for any object of a class: attributes as its constructor leaves them.

    The constructor is a root of its own: what it computes, and how long that takes, belongs to no method, so that each
    is read in the same way whichever comes first.
    """
    made = cls.receivers.get(low.strict)
    if made is None:
        low.step(4 * sum(1 for _ in cls.ancestry()))  # so often all bases are gone through
        made = cls.receivers[low.strict] = Instance(cls, "self", stands_for_any=True)
        own = Lowering(low.module, low.frameworks, strict=low.strict)
        own.frames.append(Frame(cls.scope, cls.name, cls.block, 0))  # the class may be of another file
        try:
            construct(own, made, (), {}, cls.definition)
            constrain(own, made)
        except BaseException:
            del cls.receivers[low.strict]  # half of it is no object for the next method to be called on
            raise
        finally:
            low.shared_steps += own.steps + own.shared_steps
        made.path_conditions = (*own.path_conditions, *made.path_conditions)
        made.initial = [(part, part.attributes) for part in _parts(made)]
        made.read = own.inputs()
    known: dict[int, Value] = {}
    for part, attributes in made.initial:  # a method may write into what the constructor made
        part.attributes = {name: _copied(value, known) for name, value in attributes.items()}
    low.recall(*made.read)
    return made


def _copied(value: Value, known: dict[int, Value]) -> Value:
    """A list or a dictionary with all of them that are in it, each copied once; anything else as it is."""
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, list):
        parts: list[Value] = []
        known[id(value)] = parts  # it may be in itself
        parts += [_copied(part, known) for part in value]
        return parts
    if isinstance(value, dict):
        entries: dict[str, Value] = {}
        known[id(value)] = entries
        entries.update({key: _copied(part, known) for key, part in value.items()})
        return entries
    return value


def _parts(made: Instance) -> list[Instance]:
    """An object and those that it is made of."""
    found, todo, seen = list[Instance](), list[Value]([made]), set[int]()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Instance):
            found.append(value)
            todo += value.attributes.values()
        elif isinstance(value, (list, tuple, dict)):
            todo += value.values() if isinstance(value, dict) else value
    return found


CALLS[Class] = instantiate


#: Comparisons that a constraint stands for, by the name that PyTorch, Pyro and NumPyro give it.
_COMPARISONS: dict[str, tuple[tuple[str, float], ...]] = {
    "positive": (("greater", 0.0),),
    "softplus_positive": (("greater", 0.0),),
    "nonnegative": (("greater_equal", 0.0),),
    "unit_interval": (("greater_equal", 0.0), ("less_equal", 1.0)),
    "simplex": (("greater_equal", 0.0), ("less_equal", 1.0)),
    "positive_integer": (("greater", 0.0),),
    "nonnegative_integer": (("greater_equal", 0.0),),
}


def constrain(low: Lowering, made: Instance) -> None:
    """Add what the class declares of its parameters to the path conditions of an object."""
    for name, constraint in _declared(made.cls):
        value = made.attributes.get(name, MISSING)
        value = low.opaque(f"{made.name}.{name}", (low.identity(made), name)) if value is MISSING else value
        if isinstance(value, Node):
            made.attributes[name] = value
            comparisons = _COMPARISONS.get(constraint, ())
            made.path_conditions += tuple(
                low.node(op, (value, bound), made.cls.definition) for op, bound in comparisons
            )


def _declared(cls: Class) -> Iterator[tuple[str, str]]:
    """Parameter and constraint, of the nearest class that declares any."""
    for ancestor in cls.ancestry():
        for statement in ancestor.definition.body:
            if isinstance(statement, ast.Assign) and [*map(last_name, statement.targets)] == ["arg_constraints"]:
                yield from _entries(statement.value)
                return


def _entries(declared: ast.expr) -> Iterator[tuple[str, str]]:
    entries = zip(declared.keys, declared.values, strict=True) if isinstance(declared, ast.Dict) else ()
    for key, value in entries:
        if isinstance(key, ast.Constant):
            yield str(key.value), last_name(value)
