"""``pytest --watch-gradients``: a test in which a gradient is poisoned fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wherelint.watcher.blocks import TestWatch


class Watcher:
    """A test in which a gradient is poisoned fails with the report."""

    def __init__(self) -> None:
        self._watch = TestWatch()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        __tracebackhide__ = True
        from wherelint.companion import PoisonedGradient

        try:
            with self._watch.test():
                return (yield)
        except PoisonedGradient as error:  # the report is all that matters
            raise error.with_traceback(None) from None

    def pytest_unconfigure(self) -> None:
        self._watch.close()
