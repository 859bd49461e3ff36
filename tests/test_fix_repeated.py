"""What a fix writes several times is written once, wherever that is the same."""

from __future__ import annotations

import textwrap

import pytest

from wherelint.finding import Fix
from wherelint.fix.repeated import written_once
from wherelint.io.edits import Source


def asked_again(between: str, *, named: bool) -> tuple[str, str, str]:
    """A condition on an attribute that is asked again after a statement, by its name or as it was."""
    last = f"{between}\nreturn jnp.where({{}}, y, a)"
    bound = "m = s.x > 0\ny = jnp.where(m, jnp.log(jnp.where(m, s.x, 1.0)), 0.0)\n"
    before = f"y = jnp.where(s.x > 0, jnp.log(s.x), 0.0)\n{last.format('s.x > 0')}"
    return before, bound + last.format("s.x > 0"), bound + last.format("m" if named else "s.x > 0")


#: A function, what a fix made of it, and what is left of that.
WRITTEN = {
    "a masked operand": (
        "y = a / x + b / x",
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0) + b / jnp.where(m, x, 1.0)
        """,
        """
        m = x != 0
        safe_x = jnp.where(m, x, 1.0)
        y = a / safe_x + b / safe_x
        """,
    ),
    "by a mask of the author's, in two statements": (
        """
        m = x > 0
        y = jnp.where(m, a * x**0.5, 0.0)
        z = jnp.where(m, b * x**0.5, 0.0)
        """,
        """
        m = x > 0
        y = jnp.where(m, a * jnp.where(m, x, 1.0)**0.5, 0.0)
        z = jnp.where(m, b * jnp.where(m, x, 1.0)**0.5, 0.0)
        """,
        """
        m = x > 0
        safe_x = jnp.where(m, x, 1.0)
        y = jnp.where(m, a * safe_x**0.5, 0.0)
        z = jnp.where(m, b * safe_x**0.5, 0.0)
        """,
    ),
    "by a mask of the author's, which is another between the two": (
        """
        m = x > 0
        y = jnp.where(m, a * x**0.5, 0.0)
        m = x > 1
        z = jnp.where(m, b * x**0.5, 0.0)
        """,
        """
        m = x > 0
        y = jnp.where(m, a * jnp.where(m, x, 1.0)**0.5, 0.0)
        m = x > 1
        z = jnp.where(m, b * jnp.where(m, x, 1.0)**0.5, 0.0)
        """,
        """
        m = x > 0
        y = jnp.where(m, a * jnp.where(m, x, 1.0)**0.5, 0.0)
        m = x > 1
        z = jnp.where(m, b * jnp.where(m, x, 1.0)**0.5, 0.0)
        """,
    ),
    "a condition that has a name": (
        "y = jnp.where(x > 0, jnp.log(x), 0.0)",
        """
        m = x > 0
        y = jnp.where(x > 0, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        """,
        """
        m = x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        """,
    ),
    "a condition that has a name below": (
        "y = jnp.where(x > 0, jnp.log(x), 0.0)",
        """
        safe_x = jnp.where(x > 0, x, 1.0)
        m = x > 0
        y = jnp.where(m, jnp.log(safe_x), 0.0)
        """,
        """
        m = x > 0
        safe_x = jnp.where(m, x, 1.0)
        y = jnp.where(m, jnp.log(safe_x), 0.0)
        """,
    ),
    "a condition on what is assigned above": (
        "y = jnp.log(x)",
        """
        x = jnp.where(x > 0, x, 1.0)
        m = x > 0
        y = jnp.where(m, jnp.log(x), 0.0)
        """,
        """
        x = jnp.where(x > 0, x, 1.0)
        m = x > 0
        y = jnp.where(m, jnp.log(x), 0.0)
        """,
    ),
    "what is assigned in between is another": (
        """
        y = a / x
        x = y + 1.0
        z = b / x
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0)
        x = y + 1.0
        z = b / jnp.where(m, x, 1.0)
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0)
        x = y + 1.0
        z = b / jnp.where(m, x, 1.0)
        """,
    ),
    "what is written to in between is another": (
        """
        y = a / x
        x[0] = y
        z = b / x
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0)
        x[0] = y
        z = b / jnp.where(m, x, 1.0)
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0)
        x[0] = y
        z = b / jnp.where(m, x, 1.0)
        """,
    ),
    "a variable of a comprehension": (
        "y = a / x + sum(b / x for x in c)",
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0) + sum(b / jnp.where(m, x, 1.0) for x in c)
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0) + sum(b / jnp.where(m, x, 1.0) for x in c)
        """,
    ),
    "a branch": (
        """
        y = a / x
        if b:
            y = b / x
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0)
        if b:
            y = b / jnp.where(m, x, 1.0)
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0)
        if b:
            y = b / jnp.where(m, x, 1.0)
        """,
    ),
    "a condition that is asked again, of attributes, below, and in a branch": (
        """
        s.y = jnp.where(s.x > 0, jnp.log(s.x), 0.0)
        s.z = jnp.where(s.x > 0, s.y, 1.0)
        if b:
            s.z = s.z + jnp.where(s.x > 0, a, 0.0)
        return jnp.where(s.x > 0, s.z, a)
        """,
        """
        m = s.x > 0
        s.y = jnp.where(m, jnp.log(jnp.where(m, s.x, 1.0)), 0.0)
        s.z = jnp.where(s.x > 0, s.y, 1.0)
        if b:
            s.z = s.z + jnp.where(s.x > 0, a, 0.0)
        return jnp.where(s.x > 0, s.z, a)
        """,
        """
        m = s.x > 0
        s.y = jnp.where(m, jnp.log(jnp.where(m, s.x, 1.0)), 0.0)
        s.z = jnp.where(m, s.y, 1.0)
        if b:
            s.z = s.z + jnp.where(m, a, 0.0)
        return jnp.where(m, s.z, a)
        """,
    ),
    "a condition that has the name of another one": (
        """
        m = x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        x = a
        z = jnp.where(x > 0, jnp.log(x), y)
        return jnp.where(x > 0, z, b)
        """,
        """
        m = x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        x = a
        m = x > 0
        z = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), y)
        return jnp.where(x > 0, z, b)
        """,
        """
        m = x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        x = a
        m = x > 0
        z = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), y)
        return jnp.where(m, z, b)
        """,
    ),
    "what is asked of an attribute that is assigned": (
        """
        y = jnp.where(s.x > 0, jnp.log(s.x), 0.0)
        if b:
            s.x = y
        return jnp.where(s.x > 0, y, a)
        """,
        """
        m = s.x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, s.x, 1.0)), 0.0)
        if b:
            s.x = y
        return jnp.where(s.x > 0, y, a)
        """,
        """
        m = s.x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, s.x, 1.0)), 0.0)
        if b:
            s.x = y
        return jnp.where(s.x > 0, y, a)
        """,
    ),
    "what is asked of an object that a method may change": asked_again("s.step()", named=False),
    "what is asked of an object that a function is given": asked_again("step(s)", named=False),
    "what is asked of an object of which a part is given": asked_again("b = step(s.y)", named=True),
    "what is asked of a tensor that a method changes": (
        """
        y = torch.where(x > 0, torch.log(x), 0.0)
        x.add_(1.0)
        return torch.where(x > 0, y, a)
        """,
        """
        m = x > 0
        y = torch.where(m, torch.log(torch.where(m, x, 1.0)), 0.0)
        x.add_(1.0)
        return torch.where(x > 0, y, a)
        """,
        """
        m = x > 0
        y = torch.where(m, torch.log(torch.where(m, x, 1.0)), 0.0)
        x.add_(1.0)
        return torch.where(x > 0, y, a)
        """,
    ),
    "what is asked later, of the same": (
        """
        y = jnp.where(x > 0, jnp.log(x), 0.0)
        return lax.cond(b, lambda _: jnp.where(x > 0, y, 1.0), lambda x: jnp.where(x > 0, x, 0.0), a)
        """,
        """
        m = x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        return lax.cond(b, lambda _: jnp.where(x > 0, y, 1.0), lambda x: jnp.where(x > 0, x, 0.0), a)
        """,
        """
        m = x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        return lax.cond(b, lambda _: jnp.where(m, y, 1.0), lambda x: jnp.where(x > 0, x, 0.0), a)
        """,
    ),
    "what is asked later, of another": (
        """
        y = jnp.where(x > 0, jnp.log(x), 0.0)
        g = lambda: jnp.where(x > 0, y, 1.0)
        x = x + 1.0
        return g()
        """,
        """
        m = x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        g = lambda: jnp.where(x > 0, y, 1.0)
        x = x + 1.0
        return g()
        """,
        """
        m = x > 0
        y = jnp.where(m, jnp.log(jnp.where(m, x, 1.0)), 0.0)
        g = lambda: jnp.where(x > 0, y, 1.0)
        x = x + 1.0
        return g()
        """,
    ),
    "what the author has written twice": (
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0) + b / jnp.where(m, x, 1.0)
        z = jnp.sqrt(y)
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0) + b / jnp.where(m, x, 1.0)
        n = y != 0
        z = jnp.where(n, jnp.sqrt(jnp.where(n, y, 1.0)), 0.0)
        """,
        """
        m = x != 0
        y = a / jnp.where(m, x, 1.0) + b / jnp.where(m, x, 1.0)
        n = y != 0
        z = jnp.where(n, jnp.sqrt(jnp.where(n, y, 1.0)), 0.0)
        """,
    ),
}


def within_function(body: str) -> str:
    return "def f(a, b, c, x):\n" + textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", "    ")


@pytest.mark.parametrize("why", WRITTEN)
def test_it_is_written_once_where_it_is_the_same(why: str) -> None:
    before, after, expected = map(within_function, WRITTEN[why])
    source = Source(before)
    fix = Fix("safe", "", source.difference(after))
    assert source.edited(written_once(source, fix).edits) == expected
