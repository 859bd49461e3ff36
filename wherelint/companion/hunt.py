"""The search for inputs that poison a gradient, near given ones: where programs tend to be singular."""

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product, zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from wherelint.companion.report import Poison, Report
from wherelint.evidence.pieces import Level

Array = npt.NDArray[Any]

_SPECIAL = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 100.0, -100.0, 1e-9, 1e4, -1e4, 1e10, -1e10)
#: How many elements, rows, rows in pairs and literals are tried.
_ELEMENTS, _ROWS, _PAIRED, _LITERALS = 16, 8, 6, 12
#: Why not everything was tried.
TIME = "The time limit was reached."
#: Beyond that an input is an extreme one.
_EXTREME = 1e3

#: By number or parameter, the least and the greatest element.
Bounds = Mapping[Any, tuple[float | None, float | None]]


@dataclass(frozen=True)
class Domain:
    """What may occur: for arguments by their number the bounds of all their elements, both ends included."""

    bounds: Mapping[int, tuple[float | None, float | None]]
    positive: frozenset[int] = frozenset()

    @classmethod
    def of(cls, f: Callable[..., Any], count: int, bounds: Bounds | None, positive: Sequence[int | str]) -> "Domain":
        """What ``hunt`` is told of so many arguments of ``f``; TypeError or ValueError if that cannot be meant."""
        bounds = {} if bounds is None else bounds
        numbers = _numbers(f, count)
        for name in (*bounds, *positive):
            if name not in numbers:
                raise ValueError(f"there is no argument {name!r}; choose from {', '.join(map(repr, numbers))}")
        for name, pair in bounds.items():
            if not isinstance(pair, Iterable) or len(list(pair)) != 2:
                raise TypeError(f"the bounds of argument {name!r} must be a pair (low, high), not {pair!r}")
            low, high = pair
            if low is not None and high is not None and low > high:
                raise ValueError(f"the bounds of argument {name!r} are reversed: write ({high}, {low})")
        return cls({numbers[name]: bounds[name] for name in bounds}, frozenset(numbers[name] for name in positive))

    def allows(self, argument: int, values: Array) -> bool:
        """Whether the argument of that number may have these values."""
        low, high = self.bounds.get(argument, (None, None))
        return bool(
            (argument not in self.positive or (values > 0).all())
            and (low is None or (values >= low).all())
            and (high is None or (values <= high).all())
        )


def _numbers(f: Callable[..., Any], count: int) -> dict[int | str, int]:
    """The numbers of so many arguments, by themselves and by the names of parameters."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):  # of a builtin
        parameters = []
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return {i: i for i in range(count)} | {name: i for i, name in enumerate(names[:count])}


def chosen_arguments(argnums: int | Sequence[int] | None, count: int) -> set[int]:
    """The numbers of the arguments that are differentiated, of so many. Raises ValueError where there is none."""
    numbers = range(count) if argnums is None else [argnums] if isinstance(argnums, int) else argnums
    for k in numbers:
        if not -count <= k < count:
            raise ValueError(f"argnums has {k}, but the function gets {count} positional arguments")
    return {k % count for k in numbers}


def distance(point: Sequence[Array], start: Sequence[Array]) -> tuple[bool, int, float]:
    """How far an input is away: whether it is an extreme one, how many elements have moved, and how far."""
    steps = np.concatenate([np.abs(np.ravel(a).astype(float) - np.ravel(b)) for a, b in zip(point, start, strict=True)])
    steps = np.nan_to_num(steps, nan=1.0, posinf=np.inf)  # a missing number is as good as any other
    return bool((steps > _EXTREME).any()), int((steps != 0).sum()), float(steps.max(initial=0.0))


def chosen(hits: Iterable[list[Array]], start: Sequence[Array], most: int) -> list[list[Array]]:
    """So many of the inputs, the nearest first, in turn of those at which the same arrays have moved."""

    def far(point: list[Array]) -> tuple[bool, int, float]:
        return distance(point, start)

    groups: dict[tuple[bool, ...], list[list[Array]]] = {}
    for point in sorted(hits, key=far):
        groups.setdefault(tuple(map(np.array_equal, point, start)), []).append(point)
    turns = [point for turn in zip_longest(*groups.values()) for point in turn if point is not None]
    return sorted(turns[:most], key=far)


class Search(ABC):
    """Tries inputs, and explains those at which the value is finite and the gradient is not.

    A framework says what happens at some inputs (`judge`), and what `locate` says of an input (`explain`).
    """

    #: How many inputs are explained, and how many are judged at once.
    most, batch = 12, 1
    #: The numbers that the program itself has.
    literals: Sequence[float] = ()

    def __init__(
        self, f: Callable[..., Any], count: int, start: list[Array], owners: Sequence[int], began: float, budget: int,
        seconds: float, seed: int, positive: Sequence[int | str], bounds: Bounds | None,
    ) -> None:  # fmt: skip
        """``owners``: the number of the argument, of ``count``, that each array of ``start`` belongs to."""
        self.start, self.owners = start, owners
        self.began = began
        self.end, self.deadline = self.began + seconds, self.began + 0.75 * seconds
        self._domain, self._budget, self._seed = Domain.of(f, count, bounds, positive), budget, seed
        self.tried = 0
        #: The masked gradient is finite there; no mask makes it finite there.
        self._poisoned, self._lost = list[list[Array]](), list[list[Array]]()

    @abstractmethod
    def judge(self, points: list[list[Array]]) -> Sequence[int]:
        """Of each input 1 if its value is finite and its gradient is only if that is masked, 2 if not even then."""

    @abstractmethod
    def explain(self, point: list[Array]) -> tuple[tuple[Any, ...], Report]:
        """An input as arguments, and what `locate` says of it."""

    def report(self) -> Report:
        """What was found: every pair once, at the inputs that are nearest, or else at the start.

        Each finding has the first input that shows it as its ``witness``; those at an input that no mask repairs are
        the last, and a note says how many such inputs there are.
        """
        notes = [self._try_all()]
        found: dict[tuple[Any, ...], Poison] = {}
        first = None
        for point in chosen(self._poisoned, self.start, self.most):
            if first and time.monotonic() > self.end:
                notes = [TIME]
                break
            arguments, report = self.explain(point)
            if report.poisoned:  # compiled for many inputs at once, a branch is a selection
                first = first or report
                self._add(found, point, arguments, report)
        first = first or self.explain(self.start)[1]
        for point in chosen(self._lost, self.start, 1):
            self._add(found, point, *self.explain(point))
            inputs = f"{len(self._lost)} of the inputs"
            notes.append(
                f"At {inputs} the gradient is not finite, and no selection discards all operations that break it."
            )
        note = " ".join(dict.fromkeys(filter(None, [first.note, *notes])))
        return replace(
            first, findings=tuple(found.values()) or first.findings, note=note,
            tried=self.tried, seconds=time.monotonic() - self.began,
        )  # fmt: skip

    def _try_all(self) -> str:
        """Try everything; a sentence about what was left out, if anything was."""
        self._try([self.start])
        points = self._allowed()
        while some := list(islice(points, min(self.batch, self._budget - self.tried))):
            if time.monotonic() > self.deadline:
                return TIME
            self._try(some)
        return f"The limit of {self._budget} inputs was reached." if self.tried >= self._budget else ""

    def _try(self, points: list[list[Array]]) -> None:
        self.tried += len(points)
        for point, hit in zip(points, self.judge(points), strict=True):
            if hit == 1:
                self._poisoned.append(point)
            elif hit:
                self._lost.append(point)

    def _allowed(self) -> Iterator[list[Array]]:
        """What may occur, once."""
        seen = {b"".join(each.tobytes() for each in self.start)}
        for point in self.points():
            key = b"".join(each.tobytes() for each in point)
            if key not in seen and all(map(self._domain.allows, self.owners, point)):
                seen.add(key)
                yield point

    def points(self) -> Iterator[list[Array]]:
        """Special points, and then their combinations."""
        yield from special_points(self.start, self.literals, self._seed)
        yield from combined_points(self.start, self.literals, self._seed)

    def _add(self, found: dict[tuple[Any, ...], Poison], point: list[Array], arguments: Any, report: Report) -> None:
        level: Level = "warning" if distance(point, self.start)[0] else "error"
        for poison in report.findings:
            key = (poison.op, poison.op_at, poison.op_within, poison.select, poison.select_at)
            found.setdefault(key, replace(poison, witness=arguments, level=level))


def special_points(start: Sequence[Array], literals: Iterable[float] = (), seed: int = 0) -> Iterator[list[Array]]:
    """Inputs with special values in single elements, rows, arguments and everywhere, and with elements that are equal.

    ``start`` are the differentiated arrays; the program's own ``literals`` and their neighbours are special, too. A nan
    is among them where the program asks for missing numbers.
    """
    rng = np.random.default_rng(seed)

    def moved(number: int, change: Mapping[Any, Any]) -> list[Array]:
        return _set(start, {(number, where): value for where, value in change.items()})

    values = _values(literals, start)
    for number, each in enumerate(start):  # equal ones first: the distance of two points is 0
        for i, j in combinations(range(min(len(each), _PAIRED) if each.ndim else 0), 2):
            yield moved(number, {j: each[i]})
            yield moved(number, {i: each[j]})
    for (i, a), (j, b) in combinations(enumerate(start), 2):
        if a.shape == b.shape:
            yield moved(j, {...: a})
            yield moved(i, {...: b})
    for value in values:
        for number, each in enumerate(start):
            yield moved(number, {...: value})
            if each.ndim > 1:
                for row in range(min(len(each), _ROWS)):
                    yield moved(number, {row: value})
            if each.size > 1:
                for element in sorted(rng.permutation(each.size)[:_ELEMENTS]):
                    yield moved(number, {np.unravel_index(element, each.shape): value})
        if len(start) > 1:
            yield [np.full_like(each, value) for each in start]


def combined_points(start: Sequence[Array], literals: Iterable[float] = (), seed: int = 0) -> Iterator[list[Array]]:
    """Inputs with special values in two arrays at once, the likely first. Of one array, in two rows or elements."""
    rng = np.random.default_rng(seed)
    values = _values(literals, start)

    def two(p: int, q: int) -> Iterator[list[Array]]:
        a, b = start[p], start[q]
        for u, v in _likely(values):
            yield _set(start, {(p, ...): u, (q, ...): v})
            if a.ndim and b.ndim and len(a) == len(b) > 1:
                row = int(rng.integers(len(a)))
                yield _set(start, {(p, row): u, (q, row): v})

    def within(i: int, j: int) -> Iterator[list[Array]]:
        return (_set(start, {(0, i): u, (0, j): v}) for u, v in _likely(values))

    if len(start) > 1:
        turns = [two(p, q) for p, q in combinations(range(len(start)), 2)]
    else:
        rows = min(len(start[0]), _PAIRED) if start[0].ndim else 0
        turns = [within(i, j) for i, j in combinations(range(rows), 2)]
    return (point for turn in zip_longest(*turns) for point in turn if point is not None)


def _likely(values: Sequence[float]) -> list[tuple[float, float]]:
    """All pairs; those of two that stand far behind are the last."""
    ranked = sorted(product(enumerate(values, 1), repeat=2), key=lambda pair: pair[0][0] * pair[1][0])
    return [(u, v) for (_, u), (_, v) in ranked]


def _set(start: Sequence[Array], change: Mapping[tuple[int, Any], Any]) -> list[Array]:
    """The arrays with other values at (number, index)."""
    point = [np.array(each) for each in start]
    for (number, where), value in change.items():
        point[number][where] = value
    return point


def _values(literals: Iterable[float], start: Sequence[Array]) -> list[float]:
    return [*_SPECIAL[:4], *_neighbours(literals, start), *_SPECIAL[4:]]


def _neighbours(literals: Iterable[float], start: Sequence[Array]) -> list[float]:
    found: dict[float, None] = {}
    precise = np.float64 if any(each.dtype == np.float64 for each in start) else np.float32
    for literal in list(dict.fromkeys(literals))[:_LITERALS]:
        for near in (precise(literal), -precise(literal)):
            ends = precise(np.inf), -precise(np.inf)
            found |= dict.fromkeys(map(float, (near, *(np.nextafter(near, end) for end in ends))))
    missing = [np.nan] if any(map(np.isnan, found)) else []
    return [*missing, *(value for value in found if np.isfinite(value) and value not in _SPECIAL)]
