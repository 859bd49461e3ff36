"""``pytest --watch-gradients``: a test in which a gradient is poisoned fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from wherelint.watcher import watching
from wherelint.watcher.blocks import report_at_end
from wherelint.watcher.report import Reporter


class Watcher:
    """Watches the whole run, so that what one test compiles is seen in the next; each test is reported for itself."""

    def __init__(self) -> None:
        self._reporter = Reporter(silent=True)
        self._watch = ExitStack()
        self._watch.enter_context(watching(self._reporter.session))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        __tracebackhide__ = True
        from wherelint.companion import PoisonedGradient

        self._reporter.again()
        try:
            with report_at_end(self._reporter):
                return (yield)
        except PoisonedGradient as error:  # the report is all that matters
            raise error.with_traceback(None) from None

    def pytest_unconfigure(self) -> None:
        self._watch.close()
