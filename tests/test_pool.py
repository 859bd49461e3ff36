"""Processes: the order of the results, dead workers, interruption."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import crashing
import pytest

from wherelint import pool


def crashed(item: int) -> int:
    return -item


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_are_in_the_order_of_the_items(jobs: int) -> None:
    seen: list[int] = []
    items = list(range(20))
    assert pool.run(crashing.square_slowly, items, jobs, crashed, seen.append) == [item * item for item in items]
    assert seen == list(range(1, 21))


def test_no_items() -> None:
    assert pool.run(crashing.square, [], 4, crashed) == []


def test_a_dead_worker_costs_its_own_item_only() -> None:
    items = list(range(20))
    assert pool.run(crashing.die_at_seven, items, 2, crashed) == [-7 if item == 7 else item * item for item in items]
    assert multiprocessing.active_children() == []


def test_every_worker_may_die() -> None:
    assert pool.run(crashing.die_always, [1, 2], 2, crashed) == [-1, -2]


def test_an_exception_comes_through() -> None:
    with pytest.raises(ValueError, match="1"):
        pool.run(crashing.raise_error, [1, 1], 2, crashed)


def test_an_interruption_does_not_wait_for_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "wait", interrupt)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pool.run(crashing.sleep, [1, 2, 3], 2, crashed)
    assert time.monotonic() - start < 20
    assert multiprocessing.active_children() == []


def test_an_item_that_a_broken_pool_refuses_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = ProcessPoolExecutor.submit
    refusals = [1]

    def refusing(self: ProcessPoolExecutor, *args: object) -> object:
        if refusals:
            refusals.pop()
            raise BrokenProcessPool
        return submit(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ProcessPoolExecutor, "submit", refusing)
    assert pool.run(abs, [-1, -2, -3], 2, lambda item: 0) == [1, 2, 3]
