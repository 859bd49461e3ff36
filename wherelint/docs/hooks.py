"""What MkDocs does not know: a page for each rule, the generated parts of pages, and the pictures of ``examples``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wherelint import rules
from wherelint.cli.commands import cli
from wherelint.cli.reference import complete, rule_page
from wherelint.io.config import Settings
from wherelint.run.check import check_source

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_EXAMPLES = Path(__file__).parents[2] / "examples"


def on_config(config: MkDocsConfig) -> None:
    """List the rules in the navigation."""
    for section in config.nav or ():
        if "Rules" in section:
            section["Rules"] += [{f"{rule.code} {rule.name}": f"rules/{rule.code}.md"} for rule in rules.RULES]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the rules, each with a plot of its example, and the pictures."""
    from mkdocs.structure.files import File

    for rule in rules.RULES:
        page = rule_page(rule)
        if (picture := _plot(rule)) is not None:
            files.append(File.generated(config, f"rules/{rule.code}.svg", content=picture))
            shown = f"![The value and the gradient of the example, before and after the fix]({rule.code}.svg)"
            page = page.replace("\n## Use instead\n", f"\n{shown}\n\n## Use instead\n")
        files.append(File.generated(config, f"rules/{rule.code}.md", content=page))
    for path in _EXAMPLES.glob("*.svg"):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Fill in what is generated. The pages name pictures by their place in the repository."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    return complete(markdown.replace("../../../examples/", "examples/"), cli)


def _plot(rule: rules.Rule) -> str | None:
    """The plot of a rule's example, as an SVG; None where no gradient is nan."""
    from wherelint.report.plot import svg

    example = rule.sections()["Example"].removeprefix("```python\n").removesuffix("```")
    report = check_source(example.encode(), "a.py", Settings(select=(rule.code,), level="note"), "offer")
    plots = [finding.plot for finding in report.findings if finding.plot is not None]
    return svg(plots[0]) if plots else None
