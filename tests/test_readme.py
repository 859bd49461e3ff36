"""The README and the pages of the documentation show what the command prints; their commands and links work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from real_gradients import require
from rich.console import Console
from rich.text import Text

from wherelint import check_paths, docs, rules
from wherelint.cli import cli, main
from wherelint.io.config import Configuration
from wherelint.report import text

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *map(docs.path, docs.topics())]
#: Console blocks that show a command and its output.
SHOWN = re.compile(r"(?<=```console\n)\$ wherelint (check (?:--diff )?examples/\S+)\n(.+?)(?=```)", re.DOTALL)
REPRO = re.compile(r"\$ wherelint repro (\S+)\n(.+?)\$ wherelint repro \S+ \| python\n(.+?)(?=```)", re.DOTALL)


def test_shown_output_is_the_output(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    found = 0
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for command, shown in SHOWN.findall(text):
            found += 1
            main([*shlex.split(command), "--isolated", "--no-cache"])
            output = capsys.readouterr().out
            if request.config.getoption("--regenerate"):
                text = text.replace(f"{command}\n{shown}", f"{command}\n{output}")
                path.write_text(text, encoding="utf-8")
            assert output == shown or request.config.getoption("--regenerate")
    assert found >= 3


def test_the_readme_is_one_page() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")]
    sections = {f"#{title.lower().replace(' ', '-')}" for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert [link for link in links if link not in sections and not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_are_understood(path: Path) -> None:
    parent = cli.make_context("wherelint", [], resilient_parsing=True)
    for line in re.findall(
        r"^(?:\$|    - run:|      - run:|    -) (wherelint .+)$", path.read_text(encoding="utf-8"), re.MULTILINE
    ):
        name, *arguments = shlex.split(line.partition(" <")[0].partition(" |")[0], comments=True)[1:]
        if command := cli.commands.get(name):
            command.make_context(name, arguments, parent)  # raises UsageError for an option that does not exist
        else:
            assert name.startswith("-"), line


def test_the_script_is_the_one_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    place, shown, printed = REPRO.findall(docs.page("confirm"))[0]
    assert main(["repro", place]) == 0
    script = capsys.readouterr().out
    assert all(part.strip() in script for part in shown.split("...\n"))
    require("jax")
    exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


def test_the_companion_prints_what_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require("jax")
    section = README.read_text(encoding="utf-8").partition("## My gradient is nan right now")[2].partition("\n## ")[0]
    program, shown = re.findall(r"```(?:python|text)\n(.+?)```", section, re.DOTALL)
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT)
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == shown


def test_the_ci_installs_and_tests_as_the_readme_says() -> None:
    pattern = r'^\$ python -m pip install "torch==2\.13\.0" (\S+) && (python -m pytest)$'
    command = re.search(pattern, README.read_text(), re.MULTILINE)
    assert command is not None
    script = (ROOT / ".ci" / "run").read_text()
    assert f"torch==2.13.0 {command[1]}" in script
    assert f"\n{command[2]} || failed=$?\n" in script


def test_the_picture_shows_the_output(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Letter by letter; colours and fonts are rich's."""
    monkeypatch.chdir(ROOT)
    path = ROOT / "examples" / "output.svg"
    (report,) = check_paths(["examples/two_disks.py"], Configuration(isolated=True), fix_mode="offer").reports
    lines = text.full(report, {rule.code: rule.help for rule in rules.RULES}, 80)
    if request.config.getoption("--regenerate"):
        text.write(lines, terminal := StringIO(), color=True)
        console = Console(file=StringIO(), record=True, width=80, highlight=False)
        console.print(Text.from_ansi(terminal.getvalue().rstrip("\n")))
        picture = console.export_svg(title="wherelint check examples/two_disks.py", unique_id="wherelint")
        path.write_text(picture, encoding="utf-8")
    shown = "".join(element.text or "" for element in ElementTree.parse(path).iter() if element.tag.endswith("text"))
    expected = "".join(piece for line in lines for piece, _ in line)
    assert "".join(expected.split()) in "".join(shown.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "examples/output.svg" in docs.page("keep-it-out")


def test_the_plot_is_the_one_drawn(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Letter by letter, and as many curves; the rest is matplotlib's."""
    monkeypatch.chdir(ROOT)
    path = ROOT / "examples" / "angle.svg"
    assert main(["plot", "examples/angle.py:12", "--isolated"]) == 0
    drawn = capsys.readouterr().out
    if request.config.getoption("--regenerate"):
        path.write_text(drawn, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    for pattern in (r">[^<>]+</text>", r"stroke: #\w+; stroke-width: [\d.]+"):
        assert re.findall(pattern, kept) == re.findall(pattern, drawn)
    assert "examples/angle.svg" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("told", [True, False])
def test_ruff_keeps_our_comments_as_the_readme_says(tmp_path: Path, told: bool) -> None:
    (block,) = re.findall(r"(?<=```toml\n)(\[tool\.ruff\]\n.+?)(?=```)", docs.page("suppressing"), re.DOTALL)
    (tmp_path / "a.py").write_text("x = 1 / 2  # noqa: WL103\n")
    (tmp_path / "pyproject.toml").write_text(block if told else "")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--preview", "--select", "RUF100,RUF102", "--fix"]
    subprocess.run([*command, "a.py"], cwd=tmp_path, capture_output=True, check=False)
    assert ("WL103" in (tmp_path / "a.py").read_text()) == told
