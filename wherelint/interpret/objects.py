"""Objects of the project's classes, as their constructors leave them, and what the classes declare."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from wherelint.frontend.syntax import GiveUp, last_name
from wherelint.graph.node import Leaf, Node
from wherelint.interpret.builder import Frame
from wherelint.interpret.calls import inline, root_arguments
from wherelint.interpret.lowering import CALLS, CallSite, Lowering
from wherelint.interpret.resolve import constructor, fields, member
from wherelint.interpret.values import MISSING, Class, Contents, Function, Instance, nodes_in

#: Methods of a probability distribution, whose parameters are computed; those of another object are chosen once.
_OF_DISTRIBUTIONS = ("log_prob", "_log_prob", "cdf", "icdf", "quantile", "_quantile")


def instantiate(low: Lowering, cls: Class, call: CallSite) -> Instance:
    """``Class(arguments)``."""
    made = Instance(cls, low.text(call.at))
    construct(low, made, call)
    constrain(low, made)
    low.path_conditions += made.path_conditions
    return made


def construct(low: Lowering, made: Instance, call: CallSite) -> None:
    """Run the constructor of a class of the project; dataclasses and NamedTuples take their fields in order."""
    init = constructor(made.cls)
    if isinstance(init, Function):
        if made.stands_for_any and not call.values:
            _construct_unknown(low, made, init, call)
        else:
            inline(low, init, call.with_receiver(made))
        return
    setup = member(made.cls, "setup")
    made.attributes.update(zip(fields(made.cls), call.args, strict=False))
    made.attributes.update(call.kwargs)
    if isinstance(setup, Function):
        inline(low, setup, replace(call, args=[made], kwargs={}))


def _construct_unknown(low: Lowering, made: Instance, init: Function, call: CallSite) -> None:
    """Attributes of an object about which only its class is known."""
    arguments = root_arguments(low, init)
    if all(member(made.cls, name) is MISSING for name in _OF_DISTRIBUTIONS):
        for setting in nodes_in(*arguments.values()):
            if isinstance(setting, Leaf):
                setting.setting = True
    arguments.update(dict.fromkeys([*arguments][:1], made))
    try:
        inline(low, init, replace(call, kwargs=arguments))
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
            construct(own, made, CallSite("", (), {}, cls.definition))
            constrain(own, made)
        except BaseException:
            del cls.receivers[low.strict]  # half of it is no object for the next method to be called on
            raise
        finally:
            low.shared_steps += own.steps + own.shared_steps
        made.path_conditions = (*own.path_conditions, *made.path_conditions)
        made.contents = Contents(made)
        made.read = own.inputs()
    elif made.contents is not None:
        made.contents.put_back()
    low.recall(*made.read)
    return made


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
