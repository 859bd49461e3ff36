"""Objects of the project's classes, as their constructors leave them."""

import ast

from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Leaf
from wherelint.interpret.builder import Frame
from wherelint.interpret.calls import inline
from wherelint.interpret.constraints import constrain
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.parameters import root_arguments
from wherelint.interpret.resolve import constructor, fields, member
from wherelint.interpret.tables import CALLS
from wherelint.interpret.values import Args, Class, Function, Instance, Kwargs, nodes_in


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
        if args or kwargs or made.cls.instance is None or made is not made.cls.instance:
            inline(low, init, [made, *args], kwargs, at)
        else:
            _construct_unknown(low, made, init, at)
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
    outputs, path_conditions = len(low.outputs), len(low.path_conditions)
    lists = (low.made, low.closures, low.captured, low.measured, low.inlined)
    kept = [list(each) for each in lists]
    try:
        inline(low, init, [], given, at)
    except GiveUp:
        pass  # what it did not come to assign may be anything
    finally:
        # The constructor is a root of its own; here only the attributes it leaves behind matter, and what it checked.
        made.path_conditions = tuple(low.path_conditions[path_conditions:])
        del low.outputs[outputs:], low.path_conditions[path_conditions:]
        for each, before in zip(lists, kept, strict=True):
            each[:] = before  # type: ignore[index]
        init.called = False


def self_of(low: Lowering, cls: Class) -> Instance:
    """The receiver that stands for any object of a class: attributes as its constructor leaves them."""
    if cls.instance is None:
        low.step(4 * sum(1 for _ in cls.ancestry()))  # so often all bases are gone through
        made = cls.instance = Instance(cls, "self")
        known, _ = low.inputs()
        try:
            # The class may be of another file than the method that is called on it.
            with low.inside(Frame(cls.scope, cls.name, cls.block, len(low.path_conditions))):
                construct(low, made, (), {}, cls.definition)
                constrain(low, made)
        except BaseException:
            cls.instance = None  # half of it is no object for the next method to be called on
            raise
        made.initial, made.read = dict(made.attributes), low.inputs(known)
    else:
        low.recall(*cls.instance.read)
    return cls.instance


CALLS[Class] = instantiate
