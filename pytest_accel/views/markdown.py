"""Markdown: tables, and text from outside that stays text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_accel.core.printable import printable

LONG = 300
"""Characters of the longest text in a cell."""
MARKS = re.compile(r"([\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_]))")
"""Characters that mean something within a line of Markdown, on GitHub also in formulas. `_` does at the end of a word.
"""
LINKED = re.compile(r"(@|#(?=\d)|(?<=:)//|(?<=www)\.)", re.IGNORECASE)
"""Texts that GitHub turns into a link or a notification, even without brackets: users, issues, addresses."""
NO_LINK = "&#8203;"
"""A space without width, which keeps GitHub from that."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; its cells are Markdown."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def escaped(words: object, most: int = LONG) -> str:
    """Return a text as Markdown that shows it as it is: no markup, no link, no notification, no line break.

    A text of more than `most` characters is cut off; 0 means no limit.
    """
    text = MARKS.sub(r"\\\1", printable(str(words), most))
    # "&" first, since the other entities begin with it.
    text = text.replace("&", "&amp;").replace("<", "&lt;")  # not every renderer knows "\<"
    return LINKED.sub(lambda match: match[0] + NO_LINK if match[0] in "@#" else NO_LINK + match[0], text)
