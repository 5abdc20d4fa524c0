"""The method by which a figure was measured, and the comparison of two methods. Pure.

A method is a mapping in the words of a probe's conditions: {"shape": "8192x8192x8192", "data": "normal(0, 1)",
"statistic": "mean"}. A probe declares its own, and the source of a limit states that of its figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AS_FOUND = "as found"
"""The value of a key that only the run knows; the conditions of the measurement hold it."""


def differences(method: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differences of the method `reference` from `method`, one text for each key; empty for the same method.

    A key that `reference` lacks is a difference, unless its value is `AS_FOUND`. Keys that `method` lacks do not count.
    """
    differs = []
    for key, value in method.items():
        if key not in reference:
            differs += [] if value == AS_FOUND else [f"{words(key)} not stated (ours: {value})"]
        elif value != AS_FOUND and _text(value) != _text(reference[key]):
            differs.append(f"{words(key)} {reference[key]} (ours: {value})")
    return tuple(differs)


def found_differences(conditions: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differences of a method from the conditions of a measurement, as far as these hold its keys."""
    return differences({key: conditions[key] for key in reference if key in conditions}, reference)


def words(key: str) -> str:
    """Return the printed form of a key of a method: "warm-up" for warm_up."""
    return key.replace("_", "-" if key == "warm_up" else " ")


def _text(value: Any) -> str:
    """Return a value so that 8 and 8.0, "NVLS" and "nvls" compare equal."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).casefold()
