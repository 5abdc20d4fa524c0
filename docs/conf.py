"""Configuration of the site of the documentation: `make site`. Its source is the whole checkout, for the links."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "pytest_accel"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "benchmarks/README.md", "thresholds/CHANGELOG.md"]
html_theme = "furo"
html_title = "pytest_accel"
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 4
"""Headings down to this level get the anchors that GitHub gives them, which the links of the pages use."""
suppress_warnings = ["myst.header"]  # a page that Sphinx includes nowhere may begin below a first heading

MENU = {
    "Using it": [
        "running",
        "verdicts",
        "fault-codes",
        "record",
        "own-tests",
        "thresholds",
        "checks",
        "delivery",
        "fleet",
    ],
    "What it is worth": ["status", "/benchmarks/README"],
    "Working on it": ["/CONTRIBUTING", "architecture", "/SECURITY", "/CHANGELOG", "/thresholds/CHANGELOG"],
}
"""The pages of the site, by caption: in docs/, or from the top of the checkout with a slash."""


def with_menu(_: Sphinx, name: str, source: list[str]) -> None:
    """Append the menu to the first page."""
    if name != root_doc:
        return
    for caption, pages in MENU.items():
        lines = "\n".join(page if page.startswith("/") else f"/docs/{page}" for page in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def setup(app: Sphinx) -> None:
    """Connect the hook of the menu."""
    app.connect("source-read", with_menu)
