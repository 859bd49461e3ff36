"""The parts of the documentation that are made from the code: for ``wherelint explain`` and for the site."""

from __future__ import annotations

from collections.abc import Iterator

import click

from wherelint import docs, rules
from wherelint.io.config import KEYS, Settings, toml


def page(topic: str, group: click.Group) -> str:
    """The page of a topic with everything in it. Raises KeyError if there is none."""
    return complete(docs.page(topic), group)


def complete(text: str, group: click.Group) -> str:
    """A page with what its comments ask for: the commands of a group, the keys of the configuration, the rules."""
    for name, lines in (("commands", _commands(group)), ("keys", _keys()), ("rules", _rules())):
        if (comment := f"<!-- {name} -->") in text:
            text = text.replace(comment, "\n".join(lines).strip())
    return text


def rule_page(rule: rules.Rule) -> str:
    """The page of a rule."""
    state = "Preview: off by default." if rule.preview else "On by default."
    return f"# {rule.code} {rule.name}\n\n*{state}* {rule.doc.strip()}\n"


def _commands(group: click.Group) -> Iterator[str]:
    root = group.make_context("wherelint", [], resilient_parsing=True, terminal_width=80)
    for name, command in sorted(group.commands.items()):
        if name == command.name:  # no second name of another one
            context = click.Context(command, parent=root, info_name=name)
            yield f"### {name}\n\n```text\n{command.get_help(context)}\n```\n"


def _keys() -> Iterator[str]:
    settings = Settings()
    for name, key in KEYS.items():
        value = getattr(settings, name.replace("-", "_"), None)
        yield f"### {name}\n\n{key.description}\n\n```toml\n{name} = {key.example}\n```\n"
        if value not in (None, ()) and not isinstance(value, dict):
            yield f"The default is `{toml(value)}`.\n"


def _rules() -> Iterator[str]:
    yield "| Code | Name | Default | Finds |\n|---|---|---|---|"
    for rule in rules.RULES:
        state = "preview" if rule.preview else "on"
        yield f"| [{rule.code}](rules/{rule.code}.md) | `{rule.name}` | {state} | {rule.summary} |"
