"""Settings: ``[tool.wherelint]`` of the nearest pyproject.toml, overridden by the command line.

The nearest table wins as a whole, there is no merging unless it extends another file; its patterns are relative to the
directory it lies in.
"""

from __future__ import annotations

import json
import os
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from wherelint import rules
from wherelint.evidence.pieces import LEVELS, Level
from wherelint.frameworks import FRAMEWORKS
from wherelint.io.disk import contents
from wherelint.io.patterns import Patterns

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_EXCLUDE = (
    ".bzr/", ".direnv/", ".eggs/", ".git/", ".hg/", ".ipynb_checkpoints/", ".mypy_cache/", ".nox/", ".pants.d/",
    ".pytest_cache/", ".pytype/", ".ruff_cache/", ".svn/", ".tox/", ".venv/", "__pycache__/", "__pypackages__/",
    "_build/", "build/", "buck-out/", "dist/", "node_modules/", "site-packages/", "venv/",
)  # fmt: skip
#: A configuration is not larger.
_MOST_BYTES = 10_000_000
#: What Black and ruff take unless a table says otherwise.
_USUAL_LENGTH = 88


class ConfigError(Exception):
    """A setting that cannot be used; the message is one line for the user."""


@dataclass(frozen=True)
class Settings:
    """What applies to one file."""

    #: Code prefixes, ``""`` for every rule; None stands for the rules that are on by default.
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    #: Of which rules findings are fixed; None stands for all.
    fixable: tuple[str, ...] | None = None
    unfixable: tuple[str, ...] = ()
    #: Whether a fix comes with a comment that says why.
    fix_comment: bool = False
    #: Whether comments that silence findings count for nothing.
    ignore_noqa: bool = False
    #: The least to show, and the least that makes the exit status 1.
    level: Level = "warning"
    fail_on: Level = "error"
    #: Patterns in the syntax of .gitignore, relative to ``root``.
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: Patterns of the files in which gradients matter, and of those in which none does.
    differentiated: tuple[str, ...] = ()
    not_differentiated: tuple[str, ...] = ()
    #: Files that say which calls gradients passed.
    gradient_coverage: tuple[Path, ...] = ()
    #: The file of the findings that are known.
    baseline: Path | None = None
    root: Path = field(default_factory=Path.cwd)

    @cached_property
    def codes(self) -> frozenset[str]:
        """The codes that are on, before ``per_file_ignores``."""
        own = (*(self.select or ()), *self.extend_select)
        by_default = [("",) if self.select is None and rule.default else () for rule in rules.RULES]
        chosen = zip(rules.codes(), by_default, strict=True)
        return frozenset(code for code, more in chosen if _wins(code, (*own, *more), self.ignore))

    @cached_property
    def fixed_codes(self) -> frozenset[str]:
        """The codes whose findings are fixed."""
        fixable = ("",) if self.fixable is None else self.fixable
        return frozenset(code for code in rules.codes() if _wins(code, fixable, self.unfixable))

    def codes_for(self, path: Path) -> frozenset[str]:
        """The codes that are on in one file."""
        fitting = (prefixes for pattern, prefixes in self.per_file_ignores.items() if self._matches(pattern, path))
        ignored = tuple(chain.from_iterable(fitting))
        return frozenset(code for code in self.codes if not code.startswith(ignored)) if ignored else self.codes

    def evidence_for(self, path: Path) -> tuple[str, ...]:
        """What the settings tell of the gradients in one file, by the labels of ``evidence.pieces.Evidence``."""
        if any(self._matches(pattern, path) for pattern in self.differentiated):
            return ("said to be differentiated",)
        nowhere = any(self._matches(pattern, path) for pattern in self.not_differentiated)
        return ("said not to be differentiated",) if nowhere else ()

    def described(self, path: Path) -> Iterator[str]:
        """The settings as TOML, with the codes that are on for a path."""
        yield f"# {self.root}"
        for key in KEYS:
            if key != "extend" and (value := getattr(self, key.replace("-", "_"))) is not None:
                yield f"{key} = {toml(value)}"
        yield f"# on: {', '.join(sorted(self.codes_for(path))) or 'no rule'}"

    def _matches(self, pattern: str, path: Path) -> bool:
        return Patterns([pattern.removeprefix("!")]).match(relative_to(path, self.root)) != pattern.startswith("!")


def _wins(code: str, chosen: Iterable[str], refused: Iterable[str]) -> bool:
    """Whether the longest prefix of a code is one that is chosen; one that is refused wins a tie."""
    first, second = (max(map(len, filter(code.startswith, each)), default=-1) for each in (chosen, refused))
    return first > second


def relative_to(path: Path, root: Path) -> str:
    """The path as patterns see it: relative to the root where it lies below it, with forward slashes."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix().lstrip("/")


class Overrides:
    """The command line's share, by the names of the fields of Settings; None stands for an option that is absent.

    ``inline`` are settings by ``--config "key = value"``; the other options go before them.
    """

    def __init__(self, inline: Mapping[str, Any] | None = None, **options: Any) -> None:
        self._inline = inline or {}
        self._options = {key: value for key, value in options.items() if value is not None}

    def apply(self, settings: Settings) -> Settings:
        """``--select`` starts the selection afresh, ``--ignore`` and ``--extend-select`` add to what is configured."""
        settings, options = replace(settings, **self._inline), dict(self._options)
        if "select" in options:
            settings = replace(settings, extend_select=(), ignore=())
        for key in ("extend_select", "ignore", "unfixable", "extend_exclude"):
            options[key] = (*getattr(settings, key), *options.get(key, ()))
        return replace(settings, **options)


class Configuration:
    """Finds the settings of a directory: the nearest table upward, or the one file that was named."""

    def __init__(self, overrides: Overrides | None = None, config: Path | None = None, isolated: bool = False) -> None:
        self._overrides = overrides or Overrides()
        self._found: dict[Path, Settings | None] = {}
        default = Settings(root=Path.cwd())
        self._fixed = default if isolated else None
        if config is not None:
            self._fixed = load(config, required=True) or default
        self._default = self._overrides.apply(self._fixed or default)

    def settings(self, directory: Path) -> Settings:
        """The settings that apply to the files of a directory (an absolute path)."""
        return self._default if self._fixed is not None else self._nearest(directory) or self._default

    def _nearest(self, directory: Path) -> Settings | None:
        if directory not in self._found:
            found = load(directory / "pyproject.toml")
            if found is not None:
                self._found[directory] = self._overrides.apply(found)
            else:
                parent = directory.parent
                self._found[directory] = None if parent == directory else self._nearest(parent)
        return self._found[directory]


def load(file: Path, *, required: bool = False, extending: tuple[str, ...] = ()) -> Settings | None:
    """The settings of one TOML file: ``[tool.wherelint]`` of a pyproject.toml, the top level of any other file.

    None if the file is absent or has no such table; with ``required`` an absent file is an error. ``extending`` are
    the files that extend it.
    """
    try:
        data = _toml_of(file)
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise ConfigError(f"{file}: no such file") from None
        return None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # of which one is a number of too many digits
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    if file.name == "pyproject.toml" or "tool" in data:
        tool = data.get("tool")
        table = tool.get("wherelint") if isinstance(tool, dict) else None
        where = f"{file}: [tool.wherelint]"
    else:
        table, where = data, f"{file}:"
    if table is None:
        return None
    _read(table, where, isinstance(table, dict), "a table")
    root = file.absolute().parent
    values = _values(table, where, root)
    base = Settings(root=root)
    if "extend" in values:
        other = root / values.pop("extend")
        extending = (*extending, os.path.realpath(file))
        if os.path.realpath(other) in extending:
            raise ConfigError(f"{where} 'extend': the files extend each other in a circle")
        try:
            base = load(other, required=True, extending=extending) or base
        except ConfigError as error:
            raise ConfigError(f"{where} 'extend': {error}") from None
    return replace(base, **values, root=root)


def line_length(directory: Path) -> int:
    """How long the lines of the files in a directory may be, by the nearest table of ruff or Black that says so."""
    for name in (".ruff.toml", "ruff.toml", "pyproject.toml"):
        try:
            data = _toml_of(directory / name)
        except (OSError, ValueError, RecursionError):
            continue
        tables = data.get("tool") if name == "pyproject.toml" else {"ruff": data}
        for tool in ("ruff", "black"):
            table = tables.get(tool) if isinstance(tables, dict) else None
            length = table.get("line-length") if isinstance(table, dict) else None
            if isinstance(length, int) and length > 0:
                return length
    return _USUAL_LENGTH if directory == directory.parent else line_length(directory.parent)


def _toml_of(file: Path) -> dict[str, Any]:
    """The data of a file. Raises OSError, ValueError and RecursionError."""
    return tomllib.loads(contents(file, _MOST_BYTES).decode())


def inline_settings(text: str) -> dict[str, Any]:
    """Settings from ``key = value``. Raises ConfigError."""
    where = f"--config {text!r}:"
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} not a file, and not valid TOML: {error}") from None
    if "extend" in table:
        raise ConfigError(f"{where} 'extend' works only in a file")
    return _values(table, where, Path.cwd())


def _values(table: Mapping[str, Any], where: str, root: Path) -> dict[str, Any]:
    """The values of a table's keys; its files are relative to ``root``."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            raise ConfigError(f"{where} has no key {key!r}{did_you_mean(key, KEYS)}")
        values[key.replace("-", "_")] = KEYS[key].read(value, f"{where} {key!r}")
    if "gradient_coverage" in values:
        values["gradient_coverage"] = tuple(root / each for each in values["gradient_coverage"])
    if "baseline" in values:
        values["baseline"] = root / values["baseline"] if values["baseline"] else None
    return values


def parse_codes(items: Iterable[str], where: str) -> tuple[str, ...]:
    """Code prefixes in upper case, ``ALL`` as the empty prefix; ConfigError for one that matches no rule."""
    prefixes = []
    for item in items:
        prefix = item.strip().upper()
        if prefix != "ALL" and not (prefix and any(code.startswith(prefix) for code in rules.codes())):
            raise ConfigError(f"{where}: no rule starts with {item!r}")
        prefixes.append("" if prefix == "ALL" else prefix)
    return tuple(prefixes)


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``; did you mean ...?`` with the nearest known word, or nothing."""
    from difflib import get_close_matches

    nearest = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml(each)}' for key, each in value.items())}}}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, tuple) else json.dumps(str(value))


def _read(value: object, where: str, fits: bool, wanted: str) -> Any:
    """The value if it fits. Raises ConfigError."""
    if not fits:
        raise ConfigError(f"{where} must be {wanted}, not {reprlib.repr(value)}")
    return value


def _path(value: object, where: str) -> str:
    path: str = _read(value, where, isinstance(value, str) and "\0" not in value, "the path of a file")
    return path


def _strings(value: object, where: str) -> tuple[str, ...]:
    fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return tuple(_read(value, where, fits, "a list of strings"))


def _codes(value: object, where: str) -> tuple[str, ...]:
    return parse_codes(_strings(value, where), where)


def _boolean(value: object, where: str) -> bool:
    return bool(_read(value, where, isinstance(value, bool), "true or false"))


def _level(value: object, where: str) -> Level:
    level: Level = _read(value, where, value in LEVELS, "'error', 'warning' or 'note'")
    return level


def _per_file_ignores(value: object, where: str) -> dict[str, tuple[str, ...]]:
    table = _read(value, where, isinstance(value, dict), "a table of patterns and lists of codes")
    return {pattern: _codes(codes, f"{where} {pattern!r}") for pattern, codes in table.items()}


def _aliases(value: object, where: str) -> dict[str, str]:
    roots = sorted(package for framework in FRAMEWORKS.values() for package in framework.packages)
    fits = isinstance(value, dict) and all(isinstance(v, str) and v.split(".")[0] in roots for v in value.values())
    return dict(_read(value, where, fits, f"a table of modules of {', '.join(roots)}"))


class Key(NamedTuple):
    """A key of the configuration: what reads its value, a value as an example, and what it does."""

    read: Callable[[object, str], Any]
    example: str
    description: str


KEYS = {
    "extend": Key(_path, '"../base.toml"', "Another TOML file. It sets the keys that this table does not set."),
    "select": Key(
        _codes,
        '["WL1", "WL2"]',
        'Use these rules instead of the default ones: codes or prefixes, `"ALL"` for every rule, `[]` for none.',
    ),
    "extend-select": Key(_codes, '["WL401"]', "Also use these rules."),
    "ignore": Key(
        _codes, '["WL107"]', "Do not use these rules. If several prefixes match a code, the longest one decides."
    ),
    "fixable": Key(_codes, '["WL1"]', "Fix findings of these rules only. Without this key, `--fix` fixes all rules."),
    "unfixable": Key(_codes, '["WL107"]', "Do not fix findings of these rules."),
    "fix-comment": Key(_boolean, "true", "Write a comment above each fix that says why."),
    "level": Key(_level, '"note"', 'Show findings of this level or above: `"error"`, `"warning"` or `"note"`.'),
    "fail-on": Key(_level, '"warning"', "Exit with 1 if a finding of this level or above is shown."),
    "exclude": Key(
        _strings, '["old/"]', "Exclude these files instead of the default ones. Patterns are those of `.gitignore`."
    ),
    "extend-exclude": Key(_strings, '["*_pb2.py"]', "Also exclude these files."),
    "respect-gitignore": Key(_boolean, "false", "Exclude the files that `.gitignore` names."),
    "per-file-ignores": Key(
        _per_file_ignores, '{ "tests/" = ["WL2"] }', "Do not use some rules in the files that a pattern matches."
    ),
    "aliases": Key(
        _aliases, '{ "scico.numpy" = "jax.numpy" }', "Treat a module of another package as a module of a framework."
    ),
    "differentiated": Key(
        _strings,
        '["src/soft/"]',
        "Files in which gradients matter, whatever their names say. This key overrides `not-differentiated`.",
    ),
    "not-differentiated": Key(_strings, '["tools/"]', "Files in which nobody takes a gradient."),
    "gradient-coverage": Key(
        _strings, '["gradients.json"]', "Records that `wherelint run --record` or `pytest --gradient-coverage` wrote."
    ),
    "baseline": Key(_path, '"known.json"', "Hide the findings that this file lists. `--write-baseline` writes it."),
}
