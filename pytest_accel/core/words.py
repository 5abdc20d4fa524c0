"""Lists and counts in sentences."""

from __future__ import annotations

from collections.abc import Collection


def listed(things: Collection[str], most: int = 3) -> str:
    """Return the first `most` things, and the number of the others: "gpu0, gpu1, gpu2 and 5 more"."""
    every = list(things)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 waiver", "2 waivers"."""
    return f"{number} {noun}{'s' * (number != 1)}"
