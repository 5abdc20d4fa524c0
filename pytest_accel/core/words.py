"""Lists and counts in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sized

HOUR, DAY = 3600.0, 86400.0


def listed(things: Collection[str], most: int = 3) -> str:
    """Return the first `most` things, and the number of the others: "gpu0, gpu1, gpu2 and 5 more"."""
    texts = list(things)
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def and_more(things: Sized, count: int = 1) -> str:
    """Return " (and 2 more)" for three things of which one was said, nothing where all were."""
    return f" (and {len(things) - count} more)" if len(things) > count else ""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 waiver", "2 waivers"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def age(seconds: float) -> str:
    """Return an age in whole minutes, hours or days: "9 h"."""
    if seconds < HOUR:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / HOUR:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} d"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return "; did you mean 'h100-nvl' or 'h100-sxm'?" for "H100"; empty if no choice is close."""
    import difflib  # takes long, and few runs hold a mistake

    low, spellings = word[:80].casefold(), {choice.casefold(): choice for choice in choices}
    prefixed = [choice for choice in spellings if low and choice.startswith(low)]
    matches = prefixed[:4] or difflib.get_close_matches(low, spellings, n=3, cutoff=0.5)
    matches = matches or [choice for choice in spellings if choice and low.startswith(choice)]
    return f"; did you mean {' or '.join(repr(spellings[choice]) for choice in matches)}?" if matches else ""
