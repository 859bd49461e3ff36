"""What the companion uses of JAX that is not public: a version that takes it away is named here first."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")
from jax import numpy as jnp  # noqa: E402

from wherelint.companion.patching import wrap  # noqa: E402
from wherelint.jax import (  # noqa: E402
    LOWEST,
    _compat,
    _record,
)

#: Every name of JAX that is not documented, and who needs it.
PRIVATE = {
    "jax._src.core.eval_jaxpr": "mask_gradients runs a traced function",
    "jax._src.interpreters.partial_eval.partial_eval_jaxpr_nounits": "mask_gradients transposes what is checkpointed",
    "jax.interpreters.ad.primitive_transposes": "mask_gradients transposes equations",
    "jax.interpreters.ad.primitive_jvps": "gradient coverage measures operands",
    "jax.interpreters.ad.UndefinedPrimal": "mask_gradients transposes equations",
    "jax.interpreters.ad.Zero": "mask_gradients transposes equations",
    "jax.extend.core.Literal": "everything reads jaxprs",
    "jax.extend.core.ClosedJaxpr": "everything reads jaxprs",
    f"jax._src.api.{_compat.VJP}": "run sees every gradient",
    "jax._src.api.linearize": "run sees gradients of linearized functions",
    "jax._src.api.linear_transpose": "run sees gradients of linearized functions",
    "jax._src.debugging.debug_effect": "run calls compiled functions as fast as without",
    "jax._src.debugging.DebugEffect": "run calls compiled functions as fast as without",
    "jax._src.pjit._get_fastpath_data": "run calls compiled functions as fast as without",
    "jax._src.core.trace_state_clean": "run tells what is traced from what is not",
    "jax._src.linear_util.WrappedFun": "run takes what the private vjp is given",
    "jax._src.linear_util.wrap_init": "run takes what the private vjp is given",
    "jax._src.interpreters.ad.jvp_jaxpr": "mask_gradients knows which factors are differentiated",
    "jax._src.callback.__file__": "run does not stop a program inside of a callback",
    "jax.custom_derivatives.SymbolicZero": "mask_gradients sees what is differentiated",
}


@pytest.mark.parametrize("name", PRIVATE)
def test_it_is_there(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert hasattr(import_module(module), attribute), f"jax {jax.__version__} has no {name}: {PRIVATE[name]}"


def test_equations_have_what_is_read() -> None:
    closed = jax.make_jaxpr(lambda x: jnp.where(x > 0, x, 0))(jnp.ones(3))
    call = closed.jaxpr.eqns[-1]
    (inner,) = _compat.programs(call)
    name, filename = _compat.function(inner)
    assert name == "_where"
    assert filename.endswith("util.py")
    frame = _compat.frames(call)[-1]
    own = [place for place in _compat.frames(call) if place.filename == __file__]
    assert own, f"jax {jax.__version__} does not say where equations come from; the outermost is {frame}"
    assert own[0].line[own[0].column - 5 :].startswith("jnp.where")
    with jax.named_scope("some_name"):
        scoped = jax.make_jaxpr(jax.linearize(jnp.sin, 1.0)[1])(1.0)
    assert all(eqn.primitive.name in ("mul", "jit", "pjit") for eqn in scoped.jaxpr.eqns)


def test_a_scan_says_what_it_carries() -> None:
    def f(x: Any, y: Any, zs: Any) -> Any:
        return jax.lax.scan(lambda c, z: ((c[0] * x + z, c[1] - z), c[0]), (x, y), zs)

    (scan,) = [e for e in jax.make_jaxpr(f)(1.0, 2.0, jnp.ones(3)).jaxpr.eqns if e.primitive.name == "scan"]
    assert _compat.scan_counts(scan) == (1, 2)


def test_a_reverse_rule_gives_cotangents() -> None:
    @jax.custom_vjp
    def twice(x: Any, y: Any) -> Any:
        return 2 * x + y

    twice.defvjp(lambda x, y: (twice(x, y), x), lambda x, ct: (x * ct, 5 * ct))
    (rule,) = [
        e
        for e in jax.make_jaxpr(lambda x, y: jax.linearize(twice, x, y)[1](1.0, 1.0))(3.0, 4.0).jaxpr.eqns
        if e.primitive.name == "custom_lin"
    ]
    assert list(_compat.pull_back(rule, [jnp.float32(7.0)], [jnp.float32(2.0)])) == [14.0, 10.0]


def test_all_of_reverse_mode_passes_one_function() -> None:
    seen: list[str] = []

    def counted(original: Any, *args: Any, **options: Any) -> Any:
        seen.append("vjp")
        return original(*args, **options)

    with _compat.around(_compat.VJP, counted):
        jax.grad(jnp.sin)(1.0)
        jax.value_and_grad(jnp.sin)(1.0)
        jax.jacrev(jnp.sin)(1.0)
        jax.vjp(jnp.sin, 1.0)
    jax.grad(jnp.sin)(1.0)
    assert seen == ["vjp"] * 4, f"jax {jax.__version__} differentiates without {_compat.VJP}"


def test_the_trace_is_known() -> None:
    seen: list[Any] = []
    jax.make_jaxpr(lambda x: seen.append((_compat.is_eager(), _compat.current_trace())))(1.0)
    assert seen[0][0] is False
    assert _compat.is_eager()
    assert seen[0][1] is not None


def test_only_callbacks_that_are_unlisted_are_called_fast() -> None:
    made: list[Any] = []

    def spied(original: Any, *args: Any) -> Any:
        made.append(original(*args))
        return made[-1]

    def f(x: Any) -> Any:
        jax.debug.callback(lambda: None)
        return x

    def g(x: Any) -> Any:
        with _compat.quick_callbacks():
            return f(x)

    with wrap(_compat._pjit, "_get_fastpath_data", spied), _compat.quick_calls():
        jax.jit(f)(1.0)
        jax.jit(g)(1.0)
    assert [each is not None for each in made] == [False, True]


def test_private_names_are_used_in_one_place() -> None:
    package = Path(_compat.__file__).parents[1]
    imports = re.compile(r"(from|import) jax\._src")
    users = {path.name for path in package.rglob("*.py") if imports.search(path.read_text("utf-8"))}
    assert users == {"_compat.py", "_record.py"}


def test_jax_transposes_in_a_function_that_can_be_replaced() -> None:
    private = import_module("jax._src.interpreters.ad")
    found = [name for name in _record._TRANSPOSE if hasattr(private, name)]
    assert found, f"jax {jax.__version__} has none of {_record._TRANSPOSE}: gradient coverage sees nothing"
    given = list(inspect.signature(getattr(private, found[0])).parameters)[:1]
    assert given == ["jaxpr"], f"jax {jax.__version__} hands something else to {found[0]}"


def test_an_old_version_is_refused_by_name(tmp_path: Path) -> None:
    lowest = ".".join(map(str, LOWEST))
    stub = tmp_path / "jax"
    (stub / "interpreters").mkdir(parents=True)
    (stub / "__init__.py").write_text("__version__ = '0.4.20'\n__version_info__ = (0, 4, 20)\n")
    (stub / "interpreters" / "__init__.py").write_text("")
    (stub / "interpreters" / "ad.py").write_text("")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import wherelint.jax"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"ImportError: wherelint.jax needs jax {lowest} or later; this is 0.4.20" in ran.stderr


def test_the_lowest_version_is_that_of_the_extra() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    assert f'"jax>={".".join(map(str, LOWEST))}"' in project
