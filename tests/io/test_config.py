"""Settings: reading, errors, nearest file, selection of codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write

from wherelint import rules
from wherelint.io.config import DEFAULT_EXCLUDE, ConfigError, Configuration, Overrides, Settings, load, parse_codes

DEFAULT_CODES = {rule.code for rule in rules.RULES if rule.default}


def pyproject(root: Path, body: str, name: str = "pyproject.toml") -> Path:
    write(root, {name: body})
    return root / name


def test_every_key_is_read(project: Path) -> None:
    file = pyproject(
        project,
        """
        [tool.wherelint]
        select = ["WL1", "all"]
        extend-select = ["wl401"]
        ignore = ["WL107"]
        level = "note"
        fail-on = "warning"
        exclude = ["old/"]
        extend-exclude = ["gen_*.py"]
        respect-gitignore = false
        per-file-ignores = { "tests/**" = ["WL2"] }
        aliases = { "scico.numpy" = "jax.numpy" }
        differentiated = ["soft/"]
        not-differentiated = ["logs/"]
        """,
    )
    assert load(file) == Settings(
        select=("WL1", ""),
        extend_select=("WL401",),
        ignore=("WL107",),
        level="note",
        fail_on="warning",
        exclude=("old/",),
        extend_exclude=("gen_*.py",),
        respect_gitignore=False,
        per_file_ignores={"tests/**": ("WL2",)},
        aliases={"scico.numpy": "jax.numpy"},
        differentiated=("soft/",),
        not_differentiated=("logs/",),
        root=project,
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("extend_select = []", "has no key 'extend_select'; did you mean 'extend-select'?"),
        ("zzz = 1", "has no key 'zzz'"),
        ("select = 'WL1'", "'select' must be a list of strings, not 'WL1'"),
        ("ignore = [1]", "'ignore' must be a list of strings, not [1]"),
        ("select = ['WL9']", "'select': no rule starts with 'WL9'"),
        ("select = ['WL108x']", "'select': no rule starts with 'WL108x'"),
        ("level = 0.5", "'level' must be 'error', 'warning' or 'note', not 0.5"),
        ("level = 'high'", "'level' must be 'error', 'warning' or 'note', not 'high'"),
        ("fail-on = true", "'fail-on' must be 'error', 'warning' or 'note', not True"),
        ("respect-gitignore = 1", "'respect-gitignore' must be true or false, not 1"),
        (
            "per-file-ignores = ['a']",
            "'per-file-ignores' must be a table of patterns and lists of codes, not ['a']",
        ),
        ("per-file-ignores = {a = 'WL1'}", "'per-file-ignores' 'a' must be a list of strings, not 'WL1'"),
        (
            "aliases = ['a']",
            "'aliases' must be a table of modules of jax, keras, tensorflow, torch, not ['a']",
        ),
        (
            "aliases = {a = 'jaxx.numpy'}",
            "'aliases' must be a table of modules of jax, keras, tensorflow, torch, not {'a': 'jaxx.numpy'}",
        ),
    ],
)
def test_a_bad_setting_is_one_clear_line(project: Path, body: str, message: str) -> None:
    file = pyproject(project, f"[tool.wherelint]\n{body}\n")
    with pytest.raises(ConfigError) as error:
        load(file)
    text = str(error.value)
    assert text.startswith(f"{file}: [tool.wherelint]")
    assert text.endswith(message)
    assert "\n" not in text


def test_a_file_that_is_not_toml(project: Path) -> None:
    file = pyproject(project, "[tool.wherelint\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(file)


def test_a_table_that_is_not_a_table(project: Path) -> None:
    file = pyproject(project, "tool.wherelint = 3\n")
    with pytest.raises(ConfigError, match="must be a table, not 3"):
        load(file)


def test_a_file_of_its_own_has_the_keys_at_the_top(project: Path) -> None:
    file = pyproject(project, "select = ['WL2']\n", "wherelint.toml")
    assert load(file) == Settings(select=("WL2",), root=project)


def test_a_selection_that_is_explicitly_empty_selects_nothing(project: Path) -> None:
    settings = load(pyproject(project, "[tool.wherelint]\nselect = []\n"))
    assert settings is not None
    assert settings.codes == set()
    assert Overrides(select=()).apply(Settings()).codes == set()
    assert Overrides().apply(Settings()).codes == DEFAULT_CODES


def test_the_named_file_must_exist(project: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        Configuration(config=project / "nowhere.toml")


def test_the_nearest_table_wins_as_a_whole(project: Path) -> None:
    pyproject(project, "[tool.wherelint]\nselect = ['WL1']\nignore = ['WL107']\n")
    pyproject(project / "a", "[tool.other]\nselect = 3\n")
    pyproject(project / "a" / "b", "[tool.wherelint]\nselect = ['WL2']\n")
    (project / "a" / "b" / "c").mkdir()
    configuration = Configuration()
    assert configuration.settings(project / "a").select == ("WL1",)
    nearest = configuration.settings(project / "a" / "b" / "c")
    assert (nearest.select, nearest.ignore, nearest.root) == (("WL2",), (), project / "a" / "b")


def test_isolated_and_config_ignore_what_lies_nearer(project: Path) -> None:
    pyproject(project, "[tool.wherelint]\nselect = ['WL1']\n")
    other = pyproject(project / "etc", "select = ['WL3']\n", "other.toml")
    assert Configuration(isolated=True).settings(project).select is None
    assert Configuration(config=other).settings(project).select == ("WL3",)


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        (Settings(), DEFAULT_CODES),
        (Settings(select=()), set()),
        (Settings(select=(), extend_select=("WL101",)), {"WL101"}),
        (Settings(select=("",)), {rule.code for rule in rules.RULES}),
        (Settings(select=("WL30",)), {"WL301", "WL303", "WL305"}),
        (Settings(extend_select=("WL4",)), DEFAULT_CODES | {"WL401", "WL402"}),
        (Settings(ignore=("WL1",)), {code for code in DEFAULT_CODES if not code.startswith("WL1")}),
        (
            Settings(ignore=("WL1",), extend_select=("WL103",)),
            {c for c in DEFAULT_CODES if c[:3] != "WL1" or c == "WL103"},
        ),
        (Settings(select=("WL103",), ignore=("WL103",)), set()),
        (Settings(select=("WL10",), ignore=("",)), {f"WL10{n}" for n in range(1, 10)}),
        (Settings(ignore=("",)), set()),
    ],
    ids=[
        "the default",
        "none",
        "added to none",
        "all",
        "a family",
        "a family is added",
        "a family is ignored",
        "a longer prefix is added",
        "ignored and selected alike",
        "all ignored but a family",
        "all ignored",
    ],
)
def test_the_longest_prefix_wins_and_ignore_wins_a_tie(settings: Settings, codes: set[str]) -> None:
    assert settings.codes == codes


def test_the_command_line_selects_afresh_and_ignores_in_addition() -> None:
    configured = Settings(select=("WL1",), extend_select=("WL401",), ignore=("WL107",), level="note")
    fresh = Overrides(select=("WL2",), ignore=("WL203",)).apply(configured)
    assert (fresh.select, fresh.extend_select, fresh.ignore, fresh.level) == (("WL2",), (), ("WL203",), "note")
    added = Overrides(ignore=("WL108",), extend_select=("WL402",), level="error", fail_on="note").apply(configured)
    assert (added.select, added.extend_select, added.ignore) == (("WL1",), ("WL401", "WL402"), ("WL107", "WL108"))
    assert (added.level, added.fail_on) == ("error", "note")


@pytest.mark.parametrize(
    ("pattern", "path", "ignored"),
    [
        ("tests/**", "tests/deep/a.py", True),
        ("tests/", "tests/a.py", True),
        ("__init__.py", "deep/__init__.py", True),
        ("/a.py", "deep/a.py", False),
        ("!src/", "src/a.py", False),
        ("!src/", "lib/a.py", True),
    ],
)
def test_per_file_ignores(tmp_path: Path, pattern: str, path: str, ignored: bool) -> None:
    settings = Settings(per_file_ignores={pattern: ("WL1",)}, root=tmp_path)
    assert ("WL101" not in settings.codes_for(tmp_path / path)) is ignored
    assert "WL201" in settings.codes_for(tmp_path / path)


def test_where_gradients_matter(tmp_path: Path) -> None:
    settings = Settings(
        differentiated=("logs/soft.py",), not_differentiated=("logs/", "**/callbacks/**"), root=tmp_path
    )
    for path, said in {
        "logs/a.py": ("said not to be differentiated",),
        "src/callbacks/a.py": ("said not to be differentiated",),
        "logs/soft.py": ("said to be differentiated",),
        "src/a.py": (),
    }.items():
        assert settings.evidence_for(tmp_path / path) == said


def test_parse_codes() -> None:
    assert parse_codes([" wl1 ", "ALL", "WL203"], "--select") == ("WL1", "", "WL203")
    with pytest.raises(ConfigError, match=r"--select: no rule starts with ''"):
        parse_codes([""], "--select")


def test_the_default_excludes_are_directories() -> None:
    assert all(pattern.endswith("/") for pattern in DEFAULT_EXCLUDE)


def test_a_file_extends_another(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("ignore = ['WL107']\nlevel = 'note'\n")
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "more.toml").write_text("extend = '../base.toml'\nexclude = ['x/']\n")
    (tmp_path / "pyproject.toml").write_text("[tool.wherelint]\nextend = 'team/more.toml'\nlevel = 'error'\n")
    settings = load(tmp_path / "pyproject.toml")
    assert settings is not None
    assert (settings.ignore, settings.level, settings.exclude) == (("WL107",), "error", ("x/",))
    assert settings.root == tmp_path


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("3", "pyproject.toml: [tool.wherelint] 'extend' must be the path of a file, not 3"),
        ("'none.toml'", "pyproject.toml: [tool.wherelint] 'extend': DIR/none.toml: no such file"),
        ("'pyproject.toml'", "pyproject.toml: [tool.wherelint] 'extend': the files extend each other in a circle"),
        ("'base.toml'", "base.toml: has no key 'levl'; did you mean 'level'?"),
        ("'circle.toml'", "circle.toml: 'extend': the files extend each other in a circle"),
    ],
)
def test_a_file_that_cannot_be_extended(tmp_path: Path, value: str, message: str) -> None:
    (tmp_path / "base.toml").write_text("ignore = []\nlevl = 'note'\n")
    (tmp_path / "circle.toml").write_text("extend = 'pyproject.toml'\n")
    (tmp_path / "pyproject.toml").write_text(f"[tool.wherelint]\nextend = {value}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "pyproject.toml")
    assert str(caught.value).startswith(str(tmp_path))
    assert str(caught.value).endswith(f"/{message.replace('DIR', str(tmp_path))}")


def test_the_settings_as_toml_are_the_settings(tmp_path: Path) -> None:
    settings = Settings(("WL1",), ignore=("WL107",), per_file_ignores={"a b": ("WL2",)}, root=tmp_path)
    (tmp_path / "shown.toml").write_text("\n".join(settings.described(tmp_path / "a.py")))
    assert load(tmp_path / "shown.toml") == settings
