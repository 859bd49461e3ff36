"""What a proof compares: the inputs of a program are the same whatever was read of the file before."""

import textwrap

import numpy as np

from wherelint.analysis.programs import programs
from wherelint.fix.opaque import benign, names_of, settle
from wherelint.fix.proof import roots_of
from wherelint.frontend.module import Module
from wherelint.graph.node import Call, leaf

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


def test_an_unknown_call_that_gives_a_bool_gives_one_after_a_rewrite() -> None:
    x, flag = leaf("x"), leaf("is_in(x)", kind="bool")
    flag.given, flag.call = (x,), Call("is_in", None, ())
    values = {("x", "number", 0): np.ones((3, 4), np.float32)}
    before = settle([flag], values)
    assert before is not None
    after = settle([flag], {**values, ("x", "number", 0): 2 * values["x", "number", 0]}, before.calls)
    assert after is not None
    assert before.values[flag].dtype == after.values[flag].dtype == benign(flag, 0).dtype == np.bool_
