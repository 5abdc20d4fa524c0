"""Text from outside for one line of a terminal: control characters and the like become visible."""

from __future__ import annotations

from typing import Any

SHOWN = 200
"""Length of the longest name that a sentence shows in full."""


def printable(text: str, most: int = 0) -> str:
    r"""Return a text in which every character is visible and keeps its position: "\n" and "\x1b" become escapes.

    A text of more than `most` characters is cut off, and says its length; 0 means no limit.
    """
    if most and len(text) > most:
        text = f"{text[:most]}... ({len(text):,} characters)"
    if text.isprintable():
        return text
    # Control characters and escape sequences would move the cursor or clear the screen, a newline would forge a line,
    # overrides of the writing direction would show text in another order, and a lone surrogate cannot be written.
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_data(value: Any, most: int = 0) -> Any:
    """Return data of JSON with every text in it printable, keys included."""
    if isinstance(value, str):
        return printable(value, most)
    if isinstance(value, dict):
        return {printable(str(key), most): printable_data(item, most) for key, item in value.items()}
    if isinstance(value, list):
        return [printable_data(item, most) for item in value]
    return value
