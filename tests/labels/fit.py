"""Fit the weights of the evidence to everything judged, and print what they are worth on draws that come later.

    python tests/labels/fit.py [--cache DIR] [--jobs 2] [--prune]

Findings are those of drawn_judged.jsonl (two verdicts each) and judged.jsonl, in every package or repository of which
the cache has a checkout, as PACKAGE-COMMIT; the others are counted, and never downloaded. What wherelint says of a
checkout is kept beside it, as long as the source of wherelint stays the same.

False is what both judges call false. Repositories that share a function are one group: folds keep a group together,
what is tested has no group that was trained on, and a function that was copied counts once.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from wherelint.evidence.pieces import ERROR, WARNING, Evidence

HERE = Path(__file__).parent
PIECES = {each.label: each for each in Evidence}
#: With these a finding is a warning at most, whatever it scores.
CAPPED = frozenset({Evidence.UNREACHED.label, Evidence.UNSEEN.label})
#: The most that may be false among errors, and among warnings.
GOALS = (0.25, 0.5)
#: Pulls weights to 0: as much as so many findings that contradict them.
RIDGE = 3.0
_NEAR, _ALIKE, _FOLDS, _SECONDS = 3, 0.5, 10, 240
#: Losses a row that differ by no more are the same.
_SAME = 0.001
#: The fewest rows to fit to, and the fewest with a piece.
_ENOUGH, _SEEN = 60, 3
Weights = Mapping[str, float]
Floats = NDArray[np.float64]
Ints = NDArray[np.int_]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Row:
    """A finding, and what the judges said of it."""

    repository: str
    draw: int
    verdicts: tuple[str, ...]
    evidence: frozenset[str]
    #: The lines of the function that it is in.
    function: frozenset[str] = frozenset()

    @property
    def false(self) -> bool:
        """Whether every judge calls it false."""
        return set(self.verdicts) == {"false"}

    @property
    def true(self) -> bool:
        """Whether every judge calls it true."""
        return set(self.verdicts) == {"true"}


# --- What wherelint says of what was judged


@cache
def tool() -> str:
    """The digest of the source of wherelint."""
    files = sorted((HERE.parent.parent / "wherelint").rglob("*.py"))
    return sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def findings(root: Path, paths: Sequence[str]) -> list[dict[str, Any]] | None:
    """What wherelint finds in files of a checkout; None if it takes too long."""
    kept = root.with_name(f"{root.name}.json")
    if kept.is_file():
        known = json.loads(kept.read_text(encoding="utf-8"))
        if (known["tool"], known["paths"]) == (tool(), paths):
            return known["findings"]  # type: ignore[no-any-return]
    command = [sys.executable, "-m", "wherelint", "check", "--isolated", "--exit-zero", "--no-cache", "--jobs", "1"]
    command += ["--level", "note", "--output-format", "json", "--", *paths]
    found = None
    try:
        run = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_SECONDS)
        found = [each for each in json.loads(run.stdout) if each["code"]]
    except (subprocess.TimeoutExpired, ValueError) as error:
        print(f"left out: {root.name}: {error}", file=sys.stderr)
    kept.write_text(json.dumps({"tool": tool(), "paths": paths, "findings": found}), encoding="utf-8")
    return found


def matched(entry: Mapping[str, Any], findings: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The finding that was judged, or the nearest of its code."""

    def far(finding: Mapping[str, Any]) -> tuple[int, int, float]:
        row, select = finding["location"]["row"], finding["select"]["location"]["row"]
        return abs(row - entry["row"]), abs(select - entry["select_row"]), -finding["score"]

    here = (each for each in findings if (each["filename"], each["code"]) == (entry["path"], entry["code"]))
    return min((each for each in here if far(each)[0] <= _NEAR), key=far, default=None)


def lines_of_function(text: str, row: int) -> frozenset[str]:
    """The statements of the innermost function around a row, whatever their layout, comments and documentation."""
    around = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.lineno <= row <= (node.end_lineno or 0)
    ]
    if not around:
        return frozenset()
    body = max(around, key=lambda node: node.lineno).body
    documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    whole = "\n".join(ast.unparse(statement) for statement in body[documented:])
    return frozenset(line.strip() for line in whole.splitlines())


def rows(entries: Sequence[dict[str, Any]], draws: Mapping[str, int], cache: Path, jobs: int) -> list[Row]:
    """Every judgement of which there is a finding."""
    by_checkout: dict[Path, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        by_checkout[cache / f"{entry['package']}-{entry['version']}"].append(entry)
    there = {root: group for root, group in sorted(by_checkout.items()) if root.is_dir()}

    def found_in(root: Path) -> list[dict[str, Any]] | None:
        paths = sorted({entry["path"] for entry in there[root]})
        return findings(root, [path for path in paths if (root / path).is_file()])

    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(there, pool.map(found_in, there), strict=True))
    made = []
    for root, group in there.items():
        for entry in group:
            finding = matched(entry, found[root] or ())
            if finding is not None:
                name = entry.get("repository", entry["package"])
                said = tuple(entry.get("verdicts", [entry["verdict"]]))
                text = (root / entry["path"]).read_text(encoding="utf-8", errors="replace")
                function = lines_of_function(text, entry["row"])
                made.append(Row(name, draws.get(name, 0), said, frozenset(finding["evidence"]), function))
    count = sum(map(len, there.values()))
    print(f"{len(entries)} judged, {count} in {len(there)} checkouts, {len(made)} of them found today")
    return made


@dataclass(frozen=True)
class Judged:
    """Rows; the group of each; and what each counts: a function in three repositories counts a third in each."""

    rows: tuple[Row, ...]
    group: Ints
    counts: Floats

    def of(self, chosen: Bools) -> Judged:
        """Some of the rows."""
        rows = tuple(row for row, inside in zip(self.rows, chosen, strict=True) if inside)
        return Judged(rows, self.group[chosen], self.counts[chosen])

    @property
    def draw(self) -> Ints:
        """The draw of each row."""
        return np.array([row.draw for row in self.rows])

    @property
    def false(self) -> Bools:
        """Which are false."""
        return np.array([row.false for row in self.rows])

    @property
    def capped(self) -> Bools:
        """Which are no errors, whatever they score."""
        return np.array([not CAPPED.isdisjoint(row.evidence) for row in self.rows])


def grouped(rows: Sequence[Row]) -> Judged:
    """Rows and their groups: repositories that share a function are one."""
    parent = {row.repository: row.repository for row in rows}

    def top(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    functions = list(dict.fromkeys((row.repository, row.function) for row in rows if row.function))
    holders = {each: {each[0]} for each in functions}
    for i, (one, lines) in enumerate(functions):
        for other, others in functions[:i]:
            if one != other and len(lines & others) >= _ALIKE * len(lines | others):
                parent[top(one)] = top(other)
                holders[one, lines].add(other)
                holders[other, others].add(one)
    names = [top(row.repository) for row in rows]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    counts = [1 / len(holders.get((row.repository, row.function), {row.repository})) for row in rows]
    return Judged(tuple(rows), np.array([numbers[name] for name in names]), np.array(counts))


# --- The model


def fit(judged: Judged, names: Sequence[str]) -> Weights:
    """The log-odds of every piece of evidence, and of none (""). A piece stays on the side that its sentence tells."""
    features = np.array([[1.0, *(name in row.evidence for name in names)] for row in judged.rows])
    right = _right(judged)

    def loss(weights: Floats) -> tuple[float, Floats]:
        pulled = RIDGE * np.r_[0.0, weights[1:]]
        slope = features.T @ (judged.counts * (_odds(features @ weights) - right)) + pulled
        return _loss(features @ weights, right, judged.counts) + weights @ pulled / 2, slope

    bounds = [(None, None), *((0, None) if PIECES[name].weight > 0 else (None, 0) for name in names)]
    found = minimize(loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds)
    return dict(zip(["", *names], found.x.tolist(), strict=True))


def _right(judged: Judged) -> Floats:
    return np.array([np.mean([said != "false" for said in row.verdicts]) for row in judged.rows])


def _odds(score: Floats) -> Floats:
    return 1 / (1 + np.exp(-score))


def _loss(score: Floats, right: Floats, counts: Floats) -> float:
    return float(counts @ (np.logaddexp(0, score) - right * score))


def scores(judged: Judged, weights: Weights) -> Floats:
    """The log-odds of rows by some weights."""
    return np.array([fsum([weights[""], *(weights.get(name, 0.0) for name in row.evidence)]) for row in judged.rows])


def folded(judged: Judged, names: Sequence[str]) -> Floats:
    """What rows score by weights that were fitted to other groups."""
    made = np.zeros(len(judged.rows))
    for fold in range(_FOLDS):
        inside = judged.group % _FOLDS == fold
        if inside.any() and not inside.all():
            made[inside] = scores(judged.of(inside), fit(judged.of(~inside), names))
    return made


# --- What it is worth


def auc(score: Floats, right: Bools, counts: Floats) -> float:
    """How often a right one scores more than a wrong one."""
    above = (score[right][:, None] > score[~right]) + 0.5 * (score[right][:, None] == score[~right])
    pairs = counts[right][:, None] * counts[~right]
    return float((above * pairs).sum() / pairs.sum()) if pairs.size else float("nan")


def least(score: Floats, false: Bools, counts: Floats, most: float) -> float:
    """The least score from which at most such a share is false; infinite if there is none."""
    order = np.argsort(-score, kind="stable")
    shares = np.cumsum((false * counts)[order]) / np.cumsum(counts[order])
    last = np.diff(score[order], append=-np.inf) < 0  # equal scores go together
    good = np.flatnonzero(last & (shares <= most))
    return float(score[order][good[-1]]) if good.size else np.inf


def cuts(judged: Judged, score: Floats) -> tuple[float, float]:
    """The scores from which findings are errors, and warnings, so that each level is as often false as it may be."""
    may = ~judged.capped
    error = least(score[may], judged.false[may], judged.counts[may], GOALS[0])
    rest = ~may | (score < error)
    return error, min(error, least(score[rest], judged.false[rest], judged.counts[rest], GOALS[1]))


def as_many(judged: Judged, score: Floats, other: Floats, cuts: tuple[float, float]) -> tuple[float, float]:
    """The scores from which there are as many errors and warnings as by another score and its cuts."""

    def nth(rows: Bools, number: int) -> float:
        return float(np.sort(score[rows])[-number]) if number else np.inf

    may = ~judged.capped
    error = nth(may, ((other >= cuts[0]) & may).sum())
    return error, min(error, nth(may | True, (other >= cuts[1]).sum()))


def told(judged: Judged, score: Floats, cuts: tuple[float, float]) -> str:
    """AUC; then of each level how many there are, how many of them are false, and how many of the true ones it has."""
    error = (score >= cuts[0]) & ~judged.capped
    true, counts = np.array([row.true for row in judged.rows]), judged.counts
    parts = [f"{auc(score, ~judged.false, counts):.2f}"]
    for level in error, (score >= cuts[1]) & ~error:
        size = counts[level].sum()
        false = (counts * judged.false)[level].sum() / size if size else np.nan
        parts.append(f"{size:4.0f} {false:4.0%} {(counts * true)[level].sum() / max((counts * true).sum(), 1e-9):4.0%}")
    return " | ".join(parts)


TODAY = {"": -0.2} | {each.label: each.weight for each in Evidence}
_TODAYS_CUTS = float(np.log(ERROR / (1 - ERROR))), float(np.log(WARNING / (1 - WARNING)))


def ahead(judged: Judged, names: Sequence[str]) -> tuple[float, float]:
    """The loss a row, and the AUC, where each draw is told by those before it."""
    tested, score = np.zeros(len(judged.rows), bool), np.zeros(len(judged.rows))
    for before, after in splits(judged, only=True):
        score[after] = scores(judged.of(after), fit(judged.of(before), names))
        tested |= after
    rest = judged.of(tested)
    loss = _loss(score[tested], _right(rest), rest.counts) / rest.counts.sum()
    return loss, auc(score[tested], ~rest.false, rest.counts)


def splits(judged: Judged, *, only: bool = False) -> Iterator[tuple[Bools, Bools]]:
    """Draws before one, and that one and later ones (or only that one) without what shares a group with the former."""
    for k in sorted(set(judged.draw)):
        before = judged.draw < k
        after = (judged.draw == k if only else judged.draw >= k) & ~np.isin(judged.group, judged.group[before])
        if before.sum() >= _ENOUGH and after.any():
            yield before, after


def prune(judged: Judged, names: list[str]) -> Iterator[tuple[str, float, float]]:
    """Which pieces can go, one after the other, as long as later draws are told as well; with loss and AUC."""
    lowest, _ = ahead(judged, names)
    while names:
        (loss, area), name = min((ahead(judged, [each for each in names if each != name]), name) for name in names)
        if loss > lowest + _SAME:
            return
        lowest = min(lowest, loss)
        names = [each for each in names if each != name]
        yield name, loss, area


# --- Printed


def table(judged: Judged, weights: Weights, cuts: tuple[float, float]) -> str:
    """The weights as pieces.py has them, with how many were true, arguable, false; what was never met stays."""
    lines = [f"_START = {weights['']:.2f}"]
    for each in Evidence:
        said = [row for row in judged.rows if each.label in row.evidence]
        counts = sum(row.true for row in said), sum(not row.true and not row.false for row in said)
        weight = round(weights[each.label], 2) + 0.0 if each.label in weights else each.weight
        line = f'    {each.name} = "{each.label}", {weight}, "{each.sentence}"'
        lines.append(f"{line}  # {(*counts, sum(row.false for row in said))}" if said else line)
    return "\n".join([*lines, "ERROR, WARNING = {:.2f}, {:.2f}".format(*_odds(np.array(cuts)))])


def main() -> None:
    """Print the figures, and the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "wherelint-labels")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--prune", action="store_true", help="which pieces can go (a minute)")
    options = parser.parse_args()
    judged, draws = (
        [json.loads(line) for name in names for line in (HERE / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for names in (["drawn_judged", "judged"], ["drawn_projects"])
    )
    known = {each["repository"]: each["draw"] for each in draws}
    found = grouped(rows(judged, known, options.cache.resolve(), options.jobs))
    if not found.rows:
        parser.error(f"no checkout in {options.cache}; put one there as PACKAGE-COMMIT")
    counted = Counter(name for row in found.rows for name in row.evidence)
    names = sorted(name for name in counted if counted[name] >= _SEEN)
    print(f"{len(set(found.group))} groups, {found.counts.sum():.0f} without copies, {found.false.sum()} false")
    print("\nAUC | errors: number, false, of all true ones | warnings: the same")
    score = folded(found, names)
    print(f"today                    {told(found, scores(found, TODAY), _TODAYS_CUTS)}")
    print(f"fitted to other groups   {told(found, score, cuts(found, score))}")
    print("\nforward in time: fitted to the draws before one, told of that one and later ones")
    for before, after in splits(found):
        _compare(found, before, after, names)
    print("\nlearning curve: fitted to the draws before one, told of the last two")
    last = np.isin(found.draw, sorted(set(found.draw))[-2:])
    for before, _ in splits(found):
        if not (before & last).any():
            _compare(found, before, last & ~np.isin(found.group, found.group[before]), names)
    if options.prune:
        print("\nwhat can go: the loss a row and the AUC without it and those above, each draw told by those before")
        print("{:27} {:.4f} {:.3f}".format("", *ahead(found, names)))
        for name, loss, area in prune(found, names):
            print(f"{name:27} {loss:.4f} {area:.3f}")
    print(f"\n{table(found, fit(found, names), cuts(found, score))}")


def _compare(judged: Judged, before: Bools, after: Bools, names: Sequence[str]) -> None:
    learned, later = judged.of(before), judged.of(after)
    print(f"up to {max(learned.draw):2}: {before.sum():4} rows, tested on {after.sum():4}")
    today, score = scores(later, TODAY), scores(later, fit(learned, names))
    print(f"    today    {told(later, today, _TODAYS_CUTS)}")
    print(f"    fitted   {told(later, score, cuts(learned, folded(learned, names)))}")
    print(f"    as many  {told(later, score, as_many(later, score, today, _TODAYS_CUTS))}")


if __name__ == "__main__":
    main()
