"""What the tests of fixes share: programs, their fixes, and both executed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from executing import load
from real_gradients import require

from wherelint.finding import FileReport
from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: Findings that no fix is offered for, and why.
NOT_FIXED = {
    "keras-2960-std": "it is not found",
    "pytorch-23156-fill-loss": "the mask is computed from the result, and the data that has to be masked is nan",
}
_OPERATIONS = ("jnp.sqrt({})", "jnp.log({})", "1.0 / {}", "{} ** 0.5")
_HEADER = {
    "short": "import jax.numpy as jnp\n\n\n",
    "jax": "import jax\nimport jax.numpy as jnp\n\n\n",
    "torch": "import torch\nimport torch.nn.functional as F\n\n\n",
    "tensorflow": "import tensorflow as tf\n\n\n",
}


def program(framework: str, body: str) -> str:
    return _HEADER[framework] + textwrap.dedent(body).strip("\n") + "\n"


def checked(text: str, fixes: Any = "safe", **settings: Any) -> FileReport:
    return check_source(text.encode(), "f.py", Settings(root=Path("/"), **settings), fixes)


def executed(framework: str, text: str, tmp_path: Path, fixes: str = "safe", **settings: Any) -> tuple[Any, Any, Any]:
    """The report on a program, and its ``f`` before and after the fixes."""
    require(framework)
    report = checked(text, fixes, **settings)
    found = []
    for name, content in (("before", text.encode()), ("after", report.after or text.encode())):
        path = tmp_path / f"{name}.py"
        path.write_bytes(content)
        found.append(load(path).f)
    return report, found[0], found[1]


def functions(count: int, each: int) -> str:
    """A file of some functions with some findings each."""
    found = [_HEADER["short"]]
    for number in range(count):
        names = [f"x{i}" for i in range(each)]
        body = "".join(
            f"    y{i} = jnp.where({x} > 0, {_OPERATIONS[(number + i) % 4].format(x)}, 0.0)\n"
            for i, x in enumerate(names)
        )
        total = " + ".join(f"y{i}" for i in range(each))
        found.append(f"def f{number}({', '.join(names)}):\n{body}    return {total}\n\n\n")
    return "".join(found).rstrip("\n") + "\n"


def chain(length: int) -> str:
    """Functions each of which calls the one before."""
    bodies = [
        f"def f{i}(x):\n    y = jnp.where(x > 0, jnp.sqrt(x), 0.0)\n    return y{f' + f{i - 1}(x)' if i else ''}\n"
        for i in range(length)
    ]
    return _HEADER["short"] + "\n\n".join(bodies)


def tensor(framework: str, value: Any) -> Any:
    if framework == "torch":
        import torch

        return torch.tensor(value)
    if framework == "jax":
        import jax.numpy as jnp

        return jnp.asarray(value)
    import tensorflow as tf

    return tf.constant(value)


def like(value: Any) -> tuple[Any, Any, Any]:
    whole = value.detach().float().numpy() if hasattr(value, "detach") else np.asarray(value, np.float32)
    return str(value.dtype), tuple(value.shape), whole


def gradients(framework: str, f: Any, x: Any) -> Any:
    if framework == "jax":
        import jax

        return np.asarray(jax.grad(lambda v: f(v).sum())(x))
    if framework == "torch":
        x = x.clone().requires_grad_()
        f(x).sum().backward()
        return x.grad.numpy()
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(f(x))
    return np.asarray(tape.gradient(y, x))


def cast(framework: str, x: Any, dtype: str) -> Any:
    if framework == "torch":
        import torch

        return x.to(getattr(torch, dtype))
    if framework == "tensorflow":
        import tensorflow as tf

        return tf.cast(x, dtype)
    return x.astype(dtype) if dtype != "float64" else x  # JAX has none unless it is asked for
