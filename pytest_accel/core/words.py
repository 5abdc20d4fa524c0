"""Lists and counts in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sized

HOUR, DAY = 3600.0, 86400.0


def listed(things: Collection[str], most: int = 3) -> str:
    """Return the first `most` things, and the number of the others: "gpu0, gpu1, gpu2 and 5 more"."""
    every = list(things)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def more(things: Sized, told: int = 1) -> str:
    """Return " (and 2 more)" for three things of which one is told, nothing where all are."""
    return f" (and {len(things) - told} more)" if len(things) > told else ""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 waiver", "2 waivers"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def age(seconds: float) -> str:
    """Return an age in whole minutes, hours or days: "9 h"."""
    if seconds < HOUR:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / HOUR:.0f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} d"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return "; did you mean 'h100-nvl' or 'h100-sxm'?" for "H100"; empty if no choice is close.

    Choices that begin with the word come before those that are spelt like it, and these before one that begins it.
    """
    import difflib  # takes long, and few runs hold a mistake

    low, known = word[:80].casefold(), {choice.casefold(): choice for choice in choices}
    begun = [choice for choice in known if low and choice.startswith(low)]
    near = begun[:4] or difflib.get_close_matches(low, known, n=3, cutoff=0.5)
    near = near or [choice for choice in known if choice and low.startswith(choice)]
    return f"; did you mean {' or '.join(repr(known[choice]) for choice in near)}?" if near else ""
