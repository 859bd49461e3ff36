"""What a proof compares: the inputs of a program are the same whatever was read of the file before."""

import textwrap

import numpy as np

from wherelint.fix.verify.difference import Baseline
from wherelint.fix.verify.inputs import benign, names_of, roots_of, settle
from wherelint.frontend.module import Module
from wherelint.graph.node import Call, Const, leaf
from wherelint.interpret.programs import Program, lowered, own_programs, programs

_CLASS = """
    import jax.numpy as jnp

    class Liquid:
        def __init__(self, setup):
            self.model = setup.model
            self.simple = self.model == "linear" and setup.flag == "on"
            self.limit = compute(setup.limit)
            self.drift = lambda x: self.limit - x

        def density(self, p):
            if self.simple:
                return p
            return jnp.where(p > self.limit, self.high(p), 1.0)

        def high(self, p):
            return p if self.model == "linear" else jnp.sqrt(p - self.limit)
"""


def test_a_method_reads_the_same_inputs_whichever_method_was_read_before() -> None:
    module = Module("f.py", textwrap.dedent(_CLASS), {})

    def inputs() -> list[object]:
        (program, *_) = programs(module, ("Liquid", "density"), ["jax"])
        return sorted(names_of(roots_of(program)).values())

    first = inputs()
    assert ('self.model == "linear"', "bool", 0) in first
    assert inputs() == first


_SETUP = """
    import jax.numpy as jnp

    class Part:
        def setup(self):
            if self.width is None:
                raise ValueError
            self.scale = jnp.sqrt(self.width)

    class Whole:
        def setup(self):
            self.part = Part()
            self.known = {"rate": [self.power]}
            self.rate = jnp.sqrt(self.power) * self.steps

        def first(self, x):
            self.part.scale = x
            self.known["rate"].append(x)
            self.known["rate"][0] = x
            return sum(x * i for i in range(self.steps)) * self.rate

        def second(self, x):
            return jnp.where(x > self.rate, self.part.scale / x, self.known["rate"][0] * self.steps)
"""


def test_a_method_is_read_in_the_same_way_whichever_comes_first() -> None:
    """What its object is made of belongs to no method, nor what another method left in a part of it."""
    read = []
    for order in (("first", "second"), ("second", "first"), ("second",)):
        module = Module("f.py", textwrap.dedent(_SETUP), {})
        known = {name: programs(module, ("Whole", name), ["jax"])[0] for name in order}
        program = known["second"]
        ops = [node.op for node in program.order], [node.op for node in program.made]
        read.append((ops, sorted(names_of(roots_of(program)).values()), len(program.outputs)))
    assert read[0] == read[1] == read[2]


_LAMBDA = """
    import dataclasses
    import jax.numpy as jnp

    @dataclasses.dataclass
    class Parameters:
        rate: list = dataclasses.field(default_factory=lambda: jnp.ones(3))

    class Model:
        parameters: Parameters

        def first(self, x):
            return x * self.parameters.rate

        def second(self, x):
            return jnp.sqrt(x) * self.parameters.rate + (lambda y: y)(x)
"""


def test_what_the_body_of_a_class_defines_is_no_part_of_the_method_that_read_it_first() -> None:
    read = []
    for order in (("first", "second"), ("second",)):
        module = Module("f.py", textwrap.dedent(_LAMBDA), {})
        everything = [p.name for name in order for p in lowered(module, ("Model", name), ["jax"])]
        assert "Parameters.<lambda>" in everything  # somebody has to look at it
        read.append([program.name for program in own_programs(module, ("Model", "second"), ["jax"])])
    assert read[0] == read[1]


def test_an_unknown_call_that_gives_a_bool_gives_one_after_a_rewrite() -> None:
    x, flag = leaf("x"), leaf("is_in(x)", kind="bool")
    flag.given, flag.call = (x,), Call("is_in", None, ())
    values = {("x", "number", 0): np.ones((3, 4), np.float32)}
    program = Program("f", (flag,), (flag,), (), 0, ())
    before = settle(program, values)
    assert before is not None
    after = settle(program, {**values, ("x", "number", 0): 2 * values["x", "number", 0]}, before.calls)
    assert after is not None
    assert before.values[flag].dtype == after.values[flag].dtype == benign(flag, 0).dtype == np.bool_


_CACHE = """
    import torch

    class Constant:
        def __init__(self, number):
            self.number = torch.tensor(number)
            self.made = {}

        def on(self, device):
            key = str(device)
            made = self.made.get(key)
            if made is None:
                made = self.made[key] = self.number.to(device)
            return made

    ONE, SEEN = Constant(1.0), [0]

    def least(x):
        SEEN.append(x)
        return torch.maximum(ONE.on(x.device), x) + len(SEEN)
"""


def test_what_a_function_writes_into_the_top_level_is_gone_for_the_next() -> None:
    module = Module("f.py", textwrap.dedent(_CACHE), {})

    def inputs() -> list[tuple[object, int]]:
        (program, *_) = programs(module, ("least",), ["torch"])
        return sorted((name, len(leaf.given)) for leaf, name in names_of(roots_of(program)).items())

    first = inputs()
    assert (("self.made.get(key)", "number", 0), 1) in first
    assert inputs() == first
    (program, *_) = programs(module, ("least",), ["torch"])
    assert 2 in [node.value for node in program.order if node.op == "const"]  # what it writes itself, it reads


def test_a_constant_is_known_by_what_it_has_its_shape_of() -> None:
    text = """
        import jax.numpy as jnp

        def quotient(x):
            return jnp.where(x > 0, 1 / x, 2 * jnp.ones_like(x * x))
    """

    module = Module("f.py", textwrap.dedent(text), {})

    def program() -> Program:
        (found, *_) = programs(module, ("quotient",), ["jax"])
        return found

    assert any(isinstance(node, Const) and node.like is not None for node in program().order)
    assert Baseline(module, ["jax"]).changes(program(), program(), ()) == {}
