"""The page: everything in it is text, it needs nothing else, and a browser shows and filters it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import UNSAFE

from wherelint import __version__
from wherelint.cli import main
from wherelint.finding import Finding, Location, Problem, Witness
from wherelint.io.config import Settings
from wherelint.report import plot
from wherelint.report.formats import FORMATS
from wherelint.rules import RULES
from wherelint.run.check import check_source

#: What would run, or end an element, or a template, or a string, if it were anything but text.
EVIL = "</script><script>pwned=1</script><img src=x onerror=pwned=1>'\"`{{ 7*7 }}{% raw %}\u2028]]>-->&lt;"
THREE = UNSAFE + "".join(
    f"\n\ndef {name}(x):\n    return jnp.where(x > 0, {what}, 0.0)\n"
    for name, what in (("g", "jnp.log(x)"), ("h", "1 / x"))
)


def findings(text: str = UNSAFE) -> Sequence[Finding]:
    return check_source(text.encode(), "a.py", Settings(), "offer").findings


def rendered(found: Sequence[Finding], text: str = UNSAFE, problems: Sequence[Problem] = ()) -> str:
    return FORMATS["html"](found, problems, RULES, __version__, {f.filename: text for f in found})


def evil() -> tuple[Finding, str]:
    """A finding with strange text wherever there may be some, and the text of its file."""
    (finding,) = findings()
    assert finding.plot is not None
    assert finding.fix is not None
    fix = replace(finding.fix, edits=tuple(replace(edit, content=EVIL) for edit in finding.fix.edits))
    witness = Witness({EVIL: 0.0}, 0.0, {EVIL: float("nan")})
    strange = replace(
        finding, filename=f"{EVIL}.py", message=EVIL, function=EVIL, name=EVIL, code=EVIL, witness=witness, fix=fix,
        select=replace(finding.select, kind=EVIL), plot=replace(finding.plot, wrt=EVIL, moved=(EVIL,)),
    )  # fmt: skip
    return replace(strange, also=(strange,)), UNSAFE.replace("x > 0", f"x > 0 or {EVIL!r}")


class Elements(HTMLParser):
    """The elements of a page with their attributes, and what text is in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Mapping[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_what_is_known() -> None:
    (finding,) = findings()
    shown = Elements(rendered([finding], problems=[Problem("b.py", "does not parse", Location(3, 1))]))
    assert finding.witness is not None
    for text in (
        "1 finding in 1 file", "WL101 unmasked-sqrt", "a.py:5:29", finding.message.replace("`", ""),
        "jnp.where(x > 0, jnp.sqrt(x), 0.0)",
        "^^^^^^^^^^^", "at x = 0.0 the value is 0.0", "direct +0.3", "why an error", "score 0.82",
        "jnp.sqrt(jnp.where(x > 0, x, 1.0))", "gradient with respect to x", "Only x changes; at the witness it is 0.",
        "b.py:3:1", "does not parse",
    ):  # fmt: skip
        assert text in shown.text, text
    assert "not confirmed" not in shown.text


@pytest.mark.parametrize("error", [True, False])
def test_what_was_given_up_is_folded(error: bool) -> None:
    problems = [Problem("a.py", "gave up on f", error=False), Problem("b.py", "does not parse", error=error)]
    assert ('<details class="problems" open>' in rendered(findings(), problems=problems)) == error


def test_a_narrow_screen_has_the_second_half_of_a_picture_below_the_first() -> None:
    page = rendered(findings(THREE), THREE)
    pictures = re.findall(r'<svg id="(f\d-plot)" [^>]*viewBox="([^"]+)"', page)
    assert len(pictures) == 3
    assert pictures == [
        (name, box)
        for box, name in re.findall(r'<svg viewBox="([^"]+)"><use href="#([^"]+)" width="518.4" height="158.4"/>', page)
    ]


def test_why_there_is_no_curve_after_the_fix() -> None:
    (finding,) = findings()
    assert finding.plot is not None
    without = replace(finding, plot=replace(finding.plot, after=None))
    assert "wherelint could not follow the fixed program to this selection" in rendered([without])
    assert "no fix is offered" in rendered([replace(without, fix=None)])
    assert "<figure>" not in rendered([replace(finding, plot=None)])


def test_the_page_needs_nothing_else_and_its_ids_are_unique() -> None:
    text = rendered(findings(THREE), THREE)
    elements = Elements(text).found
    ids = [values["id"] for _, values in elements if "id" in values]
    assert len(ids) == len(set(ids)) > 10
    leads = [value for _, values in elements for name in ("href", "src", "xlink:href") if (value := values.get(name))]
    assert leads
    assert all(value.startswith("#") and value[1:] in ids for value in leads)
    assert all(name[1:-1].partition("#")[2] in ids for name in re.findall(r"url(\([^)]+\))", text))
    assert "@import" not in text


def test_what_comes_from_files_is_text() -> None:
    finding, text = evil()
    shown = Elements(rendered([finding], text, [Problem(f"{EVIL}.py", EVIL)]))
    tags = [tag for tag, _ in shown.found]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not any(name.startswith("on") for _, values in shown.found for name in values)
    spelled = EVIL.replace("\u2028", "\\u2028")
    assert shown.text.count(spelled) > 12
    (keys,) = [values for tag, values in shown.found if tag == "tr" and "data-for" in values]
    assert keys["data-file"] == f"{spelled}.py"


def test_the_command_writes_the_page(project: Path) -> None:
    (project / "a.py").write_text(UNSAFE)
    assert main(["check", "--report", "html=a.html", "--quiet"]) == 1
    text = (project / "a.html").read_text("utf-8")
    assert text == rendered(findings()) + "\n"
    assert main(["check", "--report", "html=b.html", "--quiet"]) == 1  # from the cache
    assert (project / "b.html").read_text("utf-8") == text
    (project / "a.py").write_text("")
    assert main(["check", "--output-format", "html", "-o", "c.html"]) == 0
    assert "There is nothing to show." in (project / "c.html").read_text("utf-8")


# In a browser.


#: What is asked of the page, and becomes an attribute of it: the browser prints how the page is in the end.
ASKING = """
<script>
const said = {};
const visible = () => rows.filter(row => row.offsetHeight > 0).length;
addEventListener("load", () => {
  document.body.offsetHeight;
  said.seconds = performance.now() / 1000;
  said.all = visible();
  said.pwned = typeof pwned;
  const choose = (key, value) => {
    const choice = choices.find(each => each.dataset.key === key);
    choice.value = value;
    choice.dispatchEvent(new Event("input", {bubbles: true}));
  };
  choose("rule", "WL101 unmasked-sqrt");
  said.rule = visible();
  said.shown = document.getElementById("shown").textContent;
  said.articles = [...document.querySelectorAll("article")].filter(each => !each.hidden).length;
  choose("rule", "");
  search.value = "a.py:5";
  search.dispatchEvent(new Event("input", {bubbles: true}));
  said.search = visible();
  const press = key => document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  press("Escape");
  said.reset = visible();
  press("j");
  said.next = document.activeElement.id;
  press("/");
  said.focus = document.activeElement.id;
  document.activeElement.blur();
  const color = () => getComputedStyle(document.documentElement).backgroundColor;
  const before = color();
  press("t");
  said.theme = before !== color();
  shortcuts[0].click();
  said.shortcut = visible();
  document.documentElement.dataset.said = JSON.stringify(said);
});
</script></body>"""


def asked(chromium: str, tmp_path: Path, text: str, asking: str = ASKING) -> tuple[dict[str, Any], str]:
    """What a page answers in a browser, and what the browser says to it."""
    # Our questions are a script too: for them alone the policy goes, and escaping has to do without it.
    policy = r'<meta http-equiv="Content-Security-Policy"[^>]*>'
    (tmp_path / "page.html").write_text(re.sub(policy, "", text.replace("</body>", asking)) if asking else text)
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
        "--dump-dom", f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "page.html").as_uri(),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    said = next(values.get("data-said") for tag, values in Elements(ran.stdout[:20_000]).found if tag == "html")
    return json.loads(said or "{}"), "\n".join(line for line in ran.stderr.splitlines() if "CONSOLE" in line)


def test_a_browser_shows_and_filters_the_page(chromium: str, tmp_path: Path) -> None:
    said, errors = asked(chromium, tmp_path, rendered(findings(THREE), THREE))
    assert errors == ""
    assert said.pop("seconds") < 10
    assert said == {
        "all": 3, "pwned": "undefined", "rule": 1, "shown": "1 of 3", "articles": 1, "search": 1, "reset": 3,
        "next": "f1", "focus": "search", "theme": True, "shortcut": 1,
    }  # fmt: skip


def test_nothing_of_a_stranger_runs_in_a_browser(chromium: str, tmp_path: Path) -> None:
    finding, text = evil()
    said, errors = asked(chromium, tmp_path, rendered([finding], text))
    assert (said["pwned"], errors) == ("undefined", "")


def test_the_policy_lets_our_script_run_and_no_other(chromium: str, tmp_path: Path) -> None:
    text = rendered(findings())
    _, errors = asked(chromium, tmp_path, text, asking="")
    assert errors == ""
    _, errors = asked(chromium, tmp_path, text.replace("<main>", "<main><script>pwned = 1</script>"), asking="")
    assert "Content Security Policy" in errors


def test_five_hundred_findings_are_there_at_once(
    chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "_picture", lru_cache(plot._picture))  # the browser is what is timed
    some = findings(THREE)
    many = [replace(some[i % 3], filename=f"pack/module_{i // 10}.py") for i in range(500)]
    text = FORMATS["html"](many, (), RULES, __version__, {finding.filename: THREE for finding in many})
    assert text.count("<use href=") == 500
    said, errors = asked(chromium, tmp_path, text)
    assert (said["all"], errors) == (500, "")
    assert said["seconds"] < 20  # about one on an idle machine: a limit for what grows with the square
