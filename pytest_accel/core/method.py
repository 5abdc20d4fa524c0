"""The method of a figure: how it was measured, and the comparison of two methods. Pure.

A method is a mapping in the words of a probe's conditions: {"shape": "8192x8192x8192", "data": "normal(0, 1)",
"statistic": "mean"}. A probe declares its own, and the source of a limit states that of its figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AS_FOUND = "as found"
"""The value of a key that only the run knows; the conditions of the measurement hold it."""


def differences(ours: Mapping[str, Any], stated: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the method `stated` differs from `ours`, one text for each key; empty for the same method.

    A key of ours that is not stated is a difference, unless its value is `AS_FOUND`. Keys that ours lacks do not count.
    """
    found = []
    for key, own in ours.items():
        if key not in stated:
            found += [] if own == AS_FOUND else [f"{words(key)} not stated (ours: {own})"]
        elif own != AS_FOUND and _text(own) != _text(stated[key]):
            found.append(f"{words(key)} {stated[key]} (ours: {own})")
    return tuple(found)


def found_differences(conditions: Mapping[str, Any], stated: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the method `stated` differs from the conditions of a measurement, as far as these hold its keys."""
    return differences({key: conditions[key] for key in stated if key in conditions}, stated)


def words(key: str) -> str:
    """Return a key of a method as it is printed: warm_up as "warm-up"."""
    return key.replace("_", "-" if key == "warm_up" else " ")


def _text(value: Any) -> str:
    """Return a value so that 8 and 8.0, "NVLS" and "nvls" compare equal."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).casefold()
