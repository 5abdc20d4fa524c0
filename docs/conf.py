"""Configuration of the site of the documentation: `make site`. Its source is the whole checkout, for the links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "pytest_accel"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "benchmarks/README.md", "thresholds/CHANGELOG.md"]
html_theme = "furo"
html_title = "pytest_accel"
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 4
"""Headings down to this level get the anchors that GitHub gives them, which the links of the pages use."""
suppress_warnings = ["myst.header"]  # a page that Sphinx includes nowhere may begin below a first heading

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_PAGE = re.compile(r"\]\(([^)]+)\.md\)")


def with_menu(_: Sphinx, name: str, source: list[str]) -> None:
    """Append a menu to the first page: an entry for each page that it links to, under the heading of the section."""
    if name != root_doc:
        return
    parts = ["Begin", *_SECTION.split(source[0])]
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        pages = "\n".join(_PAGE.findall(text))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> None:
    """Connect the hook of the menu."""
    app.connect("source-read", with_menu)
