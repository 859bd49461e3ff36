"""What the frameworks answer, kept by version, so that a question is asked again only where the answer may differ.

A question holds all that its answer depends on: the program, its inputs, the text of what runs it. What wherelint says
is computed anew each time and compared with the answer. A question that is new goes to the framework, and so does a
tenth of the others, another one each day (``--turn``). ``--live`` asks them all and fails where another answer is kept;
``--record`` keeps the answers.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Answer = Mapping[str, npt.NDArray[Any]]
FOLDER = Path(__file__).parent / "answers"
TURNS = 10
#: What the answers of a framework depend on.
_PACKAGES = {"jax": ("jax", "jaxlib"), "torch": ("torch",), "tensorflow": ("tensorflow-cpu", "keras")}
#: An answer that is an exception has its type and message for a name, and no numbers.
_RAISED = "raised "


class Answers:
    """Those that are kept, and those to what was asked in this process."""

    def __init__(self, folder: Path = FOLDER, *, turn: int = 0, live: bool = False, device: str = "cpu") -> None:
        self.folder, self.turn, self.live = folder, turn, live
        #: Where the frameworks run. What is kept are the answers of the CPU.
        self.device = device
        if device != "cpu":
            self.folder = folder / device
        self.asked: dict[str, dict[str, Answer]] = {}
        #: How many questions were new, were asked again, and had an answer.
        self.counts: Counter[str] = Counter()
        self._kept: dict[str, dict[str, Answer]] = {}

    def to(self, framework: str, question: Iterable[Any], ask: Callable[[], Answer]) -> Answer:
        """The answer to a question; what ``ask`` raises is an answer as well."""
        asked = hashlib.blake2b(b"\0".join(_spelled(question)), digest_size=12).hexdigest()
        if framework not in self._kept:
            self._kept[framework] = read(self.folder / f"{framework}.xz", version(framework))
        kept = self._kept[framework].get(asked)
        again = self.live or int(asked, 16) % TURNS == self.turn % TURNS
        self.counts["new" if kept is None else "asked again" if again else "kept"] += 1
        if kept is None or again:
            found = _answered(ask)
            assert not self.live or kept is None or _same(kept, found), f"{framework} answers {found}, not {kept}"
        else:
            found = kept
        self.asked.setdefault(framework, {})[asked] = found
        for name in found:
            if name.startswith(_RAISED):
                kind, _, message = name.removeprefix(_RAISED).partition(": ")
                raise getattr(builtins, kind)(message)
        return found

    def write(self, suffix: str) -> None:
        """Write what was asked in this process."""
        for framework, found in self.asked.items():
            write(self.folder / f"{framework}{suffix}", version(framework), found)

    def collect(self, suffix: str, *, whole: bool) -> None:
        """Keep what several processes wrote; what nobody asked is dropped if the ``whole`` suite did the asking."""
        for framework in _PACKAGES:
            parts = sorted(self.folder.glob(f"{framework}.*{suffix}"))
            path, now = self.folder / f"{framework}.xz", version(framework)
            every = {} if whole else read(path, now)
            for part in parts:
                every |= read(part, now)
                part.unlink()
            if parts:
                write(path, now, every)


session = Answers()


def to(framework: str, question: Iterable[Any], ask: Callable[[], Answer]) -> Answer:
    """The answer in this session."""
    return session.to(framework, question, ask)


def how(*files: Path) -> list[str]:
    """What runs a question, for the question: some files without what changes no answer, comments and docstrings."""
    found = []
    for file in files:
        tree = ast.parse(file.read_text("utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [s for s in body if not isinstance(s, ast.Expr) or not isinstance(s.value, ast.Constant)]
        found.append(ast.unparse(tree))
    return found


def version(framework: str) -> str:
    """The versions of the packages that answer, without importing them."""
    found = {}
    for package in _PACKAGES[framework]:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # there are several builds of TensorFlow
            found[package] = metadata.version(package.partition("-")[0])
    return " ".join(f"{package} {number}" for package, number in found.items())


def write(path: Path, version: str, answers: Mapping[str, Answer]) -> None:
    """A line of JSON, which says where the numbers of each answer are, and the numbers; equal ones are there once."""
    places: dict[bytes, int] = {}
    size = 0
    index: dict[str, dict[str, tuple[str, list[int], int]]] = {}
    for asked, answer in sorted(answers.items()):
        index[asked] = {}
        for name, array in answer.items():
            numbers = np.ascontiguousarray(array).tobytes()
            if numbers not in places:
                places[numbers] = size
                size += len(numbers)
            index[asked][name] = (array.dtype.str, list(array.shape), places[numbers])
    path.parent.mkdir(exist_ok=True)
    head = json.dumps({"version": version, "answers": index}, separators=(",", ":")).encode()
    path.write_bytes(lzma.compress(head + b"\n" + b"".join(places)))


def read(path: Path, version: str) -> dict[str, Answer]:
    """The answers in a file, by question; none if they are those of another version."""
    if not path.exists():
        return {}
    head, _, numbers = lzma.decompress(path.read_bytes()).partition(b"\n")
    found = json.loads(head)
    if found["version"] != version:
        return {}

    def array(kind: str, shape: list[int], at: int) -> npt.NDArray[Any]:
        return np.frombuffer(numbers, kind, int(np.prod(shape)), at).reshape(shape)

    return {asked: {n: array(*place) for n, place in answer.items()} for asked, answer in found["answers"].items()}


def _answered(ask: Callable[[], Answer]) -> Answer:
    try:
        return {name: np.asarray(array) for name, array in ask().items()}
    except Exception as error:
        kind = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
        return {f"{_RAISED}{kind}: {str(error)[:2000]}": np.zeros(0)}


def _spelled(question: Iterable[Any]) -> Iterator[bytes]:
    for part in question:
        if isinstance(part, np.ndarray):
            yield f"{part.dtype.str}{part.shape}".encode() + part.tobytes()
        elif isinstance(part, (list, tuple)):
            yield from (b"(", *_spelled(part), b")")
        else:
            yield repr(part).encode()


def _same(one: Answer, other: Answer) -> bool:
    """The same but for rounding, or exceptions of one type."""
    if {name.partition(":")[0] for name in one} != {name.partition(":")[0] for name in other}:
        return False
    pairs = [(one[name], other[name]) for name in one if name in other]
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True) for a, b in pairs)
