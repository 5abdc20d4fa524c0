"""Readers of the values of options, such as durations (900, 15m, 1h30m)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_NUMBER = r"(\d{1,6}(?:\.\d{1,3})?)"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s?)?")


def duration(text: str) -> float:
    """Return a duration such as 900, 900s, 15m or 1h30m in seconds. Raises ArgumentTypeError for any other text."""
    parts = _DURATION.fullmatch(text.strip())
    if not text.strip() or not parts:
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: write it as 900 (seconds), 15m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in parts.groups())
    return 3600 * hours + 60 * minutes + seconds


def value_that(fits: Callable[[T], bool], expected: str, read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function that reads a value that `fits`; `expected` says that in words.

    It raises ArgumentTypeError for any other text; `read` raises ValueError for a text that is no number.
    """

    def value(text: str) -> T:
        try:
            result = read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not fits(result):
            raise argparse.ArgumentTypeError(f"{text!r}: {expected}")
        return result

    return value
