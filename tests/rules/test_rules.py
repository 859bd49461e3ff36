"""The rules themselves: codes, names, documentation, messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import code_block

from wherelint import rules
from wherelint.ops import OPERATIONS

ROOT = Path(__file__).parents[2]
SECTIONS = ("What it does", "Why is this bad?", "Example", "Use instead", "Fix safety", "Known problems")
STILL = "but reverse mode still differentiates it"


def test_codes_and_names_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in rules.RULES]
    assert codes == sorted(set(codes))
    assert len({rule.name for rule in rules.RULES}) == len(codes)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.code)
def test_metadata(rule: rules.Rule) -> None:
    assert re.fullmatch(r"WL[0-4]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.doc.startswith(f"{rule.summary}.\n\n")
    assert rules.get(rule.code) is rule


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.code)
def test_documentation_has_the_sections_and_they_say_something(rule: rules.Rule) -> None:
    sections = rule.sections()
    assert tuple(sections) == SECTIONS
    assert all(sections.values())
    for section in ("Example", "Use instead"):
        assert "def f(" in code_block(rule, section)


def test_the_changelog_mentions_every_code() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [rule.code for rule in rules.RULES if rule.code not in text] == []
    assert set(re.findall(r"WL\d\d\d", text)) <= set(rules.codes())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("WL101", "sqrt", "where", "jax"),
            "gradient is nan for sqrt at 0 or below: `where` discards the result, " + STILL,
        ),
        (
            ("WL101", "sqrt", "where", "tensorflow", ("xla",)),
            "under XLA, gradient is nan for sqrt at 0 or below: `where` discards the result, " + STILL,
        ),
        (
            ("WL103", "divide", "where", "tensorflow", ("eager", "xla")),
            "gradient is nan for divide with a zero divisor: `where` discards the result, " + STILL,
        ),
        (
            ("WL102", "log", "masked_fill", "torch"),
            "gradient is nan for log at 0: `masked_fill` overwrites the result, " + STILL,
        ),
        (
            ("WL201", "unheard_of", "index", "jax"),
            "gradient is nan for unheard_of at a singular point: the index leaves out the result, " + STILL,
        ),
        (
            ("WL301", "arccos", "clip", "jax"),
            "gradient is not finite for arccos at the edge of its domain: "
            "`clip` sets every value outside its bound to this point",
        ),
    ],
)
def test_message(arguments: tuple[str, ...], expected: str) -> None:
    assert rules.message(*arguments) == expected


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.code)
def test_message_has_no_open_field(rule: rules.Rule) -> None:
    assert not re.search(r"[{}]", rules.message(rule.code, "sqrt", "where", "jax"))


def test_the_words_are_those_of_the_catalogue() -> None:
    for name, operation in OPERATIONS.items():
        assert (operation.code is None) == (operation.place == ""), name
        assert operation.code is not None or not operation.spoken, name


def test_an_unknown_code_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        rules.get("WL999")
