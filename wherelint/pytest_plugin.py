"""The pytest plugin: a fixture that holds gradients to account, and a record of the calls that gradients pass.

No framework is imported here but the one that a test already uses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wherelint.companion import Report

#: The companions, and what installs the hooks of gradient coverage for each.
_COMPANIONS = {"jax": "wherelint.jax", "torch": "wherelint.torch"}
_HOOKS = {"jax": "wherelint.jax._record", "torch": "wherelint.torch.record"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--watch-gradients`` and ``--gradient-coverage[=FILE]``."""
    group = parser.getgroup("wherelint")
    group.addoption(
        "--watch-gradients", action="store_true",
        help="Fail each test in which the value is finite but a gradient is not, and say why.",
    )  # fmt: skip
    group.addoption(
        "--gradient-coverage", nargs="?", const="gradient-coverage.json", metavar="FILE",
        help="Record through which calls a gradient passes, for `wherelint check --gradient-coverage`.",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Watch and record, if that is asked for."""
    if config.getoption("--watch-gradients"):
        from wherelint.watcher.testing import Watcher  # which an old pytest cannot import

        config.pluginmanager.register(Watcher(), "wherelint-watch-gradients")
    if config.getoption("--gradient-coverage"):
        config.pluginmanager.register(_Recorder(config), "wherelint-gradient-coverage")


@pytest.fixture
def gradients() -> Gradients:
    """``check(f, *args)``: the test fails if the gradient of a function is poisoned, and says where."""
    return Gradients()


class Gradients:
    """What the fixture offers."""

    def check(self, f: Callable[..., Any], *args: Any, hunt: bool = False, **options: Any) -> Report:
        """The report on ``f(*args)``; PoisonedGradient unless value and gradient are finite.

        ``hunt``: neither may be lost at inputs nearby; ``options`` are those of the companion's ``hunt``.
        """
        __tracebackhide__ = True
        companion = import_module(_COMPANIONS[framework(f, *args)])
        report: Report = companion.locate(f, *args)
        report.raise_if_poisoned()
        if hunt or options:
            report = companion.hunt(f, *args, **options)
            report.raise_if_poisoned()
        return report


def framework(f: Callable[..., Any], *args: Any) -> str:
    """The framework that a call is about: that of its arguments, of the function, or of a module that it names."""
    code, known = getattr(f, "__code__", None), getattr(f, "__globals__", {})
    owners = [kind.__module__ for each in (*_leaves(args), f) for kind in type(each).__mro__]
    owners += [getattr(f, "__module__", "") or ""]
    owners += [getattr(known.get(name), "__name__", "") for name in getattr(code, "co_names", ())]
    for owner in owners:
        for name in _COMPANIONS:
            if owner.partition(".")[0] in (name, f"{name}lib"):
                return name
    raise TypeError("gradients.check cannot tell the framework: pass JAX arrays or torch tensors")


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict | list | tuple):
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from _leaves(each)
    else:
        yield tree


class _Recorder:
    """Gradient coverage of a session. A worker of xdist writes a file of its own, which the controller merges."""

    def __init__(self, config: pytest.Config) -> None:
        from wherelint.companion.coverage import Marks

        self._path = Path(config.invocation_params.dir, config.getoption("--gradient-coverage"))
        self._worker = getattr(config, "workerinput", {}).get("workerid")
        self._marks = Marks(str(config.rootpath))
        self._hooks: dict[str, ExitStack] = {}
        if self._worker is None:
            self._path.unlink(missing_ok=True)
            for part in self._parts():
                part.unlink()

    def _parts(self) -> list[Path]:
        return sorted(self._path.parent.glob(f"{self._path.name}.gw*"))

    def _install(self) -> None:
        for name in _HOOKS:
            if name in sys.modules and name not in self._hooks:
                self._hooks[name] = ExitStack()
                self._hooks[name].enter_context(import_module(_HOOKS[name]).hook(self._marks))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._install()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        self._install()  # a fixture may have imported one

    def pytest_sessionfinish(self) -> None:
        from wherelint.io.gradient_coverage import Coverage, load

        for hook in self._hooks.values():
            hook.close()
        if self._worker is not None:
            self._marks.coverage().save(self._path.with_name(f"{self._path.name}.{self._worker}"))
            return
        found: Coverage = self._marks.coverage()
        for part in self._parts():
            found.merge(load(part))
            part.unlink()
        found.save(self._path)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._worker is None:
            terminalreporter.write_line(f"gradient coverage written to {self._path}")
