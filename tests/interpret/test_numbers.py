"""Python's integers have no end; what is made of them does."""

from __future__ import annotations

import math

import pytest

from wherelint.findings import DetectOptions, detect
from wherelint.interpret.arithmetic import capped


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2**64, 2**64), (True, True), (0.5, 0.5), (10**305, 1e305), (10**400, math.inf), (-(10**400), -math.inf)],
)
def test_an_integer_beyond_the_floats_is_infinite(value: float, expected: float) -> None:
    assert capped(value) == expected
    assert type(capped(value)) is type(expected)


@pytest.mark.parametrize(
    "number",
    ["2**64", "int(2**64)", "int(10**400)", "-10**400", "pow(2, 5000)", "pow(3, 10**9)", "math.prod([10**299] * 50)",
     "bool(10**320)", "int(-9.9e307)", "float(10**350)", "round(1e308)", "max(10**310, 3)", "jnp.array([2**64, 3])"],
)  # fmt: skip
def test_a_huge_integer_is_a_number_like_any_other(number: str) -> None:
    text = f"import math\nimport jax.numpy as jnp\n\n\ndef f(x):\n    n = {number}\n    y = x - n\n"
    text += "    return jnp.where(x > 0, jnp.log(x), 0.0 * jnp.exp(-jnp.abs(y)))\n"
    findings, problems = detect(text, "a.py", DetectOptions())
    assert problems == []
    assert [f.code for f in findings] == ["WL102"]


@pytest.mark.parametrize(
    "number",
    ["math.factorial(3)", "math.comb(4, 2)", "math.isqrt(9)", "int('3')", "np.int32(3)", "jnp.uint8(3)",
     "Size.BIG.value"],
)  # fmt: skip
def test_what_python_computes_is_known(number: str) -> None:
    text = "import math, enum\nimport numpy as np\nimport jax.numpy as jnp\n\nclass Size(enum.Enum):\n    BIG = 3\n\n"
    text += f"def f(x):\n    d = x**2 + {number}\n    return jnp.where(d > 0, 1 / d, 0.0)\n"
    assert detect(text, "a.py", DetectOptions()) == ([], [])


@pytest.mark.parametrize("number", ["math.factorial(10**9)", "math.comb(3)", "int('x')", "np.int32(math.inf)"])
def test_what_python_does_not_compute_ends_nothing(number: str) -> None:
    text = f"import math\nimport numpy as np\nimport jax.numpy as jnp\n\ndef f(x):\n    y = {number}\n"
    findings, problems = detect(text + "    return jnp.where(x > 0, jnp.log(x), 0.0) + y\n", "a.py", DetectOptions())
    assert problems == []
    assert [f.code for f in findings] == ["WL102"]


@pytest.mark.parametrize(
    "empty", ["jnp.array([[], []])", "[][x]", "jnp.stack([[], []])", "([],)[0][1:]", "jnp.concatenate([x, [[]]])"]
)
def test_an_array_without_elements_is_no_number(empty: str) -> None:
    text = f"import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.where(x > 0, jnp.log(x), 0.0) + {empty}\n"
    findings, problems = detect(text, "a.py", DetectOptions())
    assert problems == []
    assert [f.code for f in findings] == ["WL102"]
