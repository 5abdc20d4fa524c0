"""The differences between two limits on one metric, as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pytest_accel.core.sku import Limit, Source

PLACE = ("metric", "unit", "of_unit", "origin", "declared_by", "overridden", "test", "beneath")
"""Fields of a limit that say where it applies and where it was declared, and the floor of its class."""


def differences(old: Limit, new: Limit) -> list[str]:
    """Return the differences between two limits on one metric, each as a text: "floor 672 -> 690 TFLOPS (+2.7%)"."""
    pairs = {field.name: (getattr(old, field.name), getattr(new, field.name)) for field in fields(Limit)}
    return [
        f"{name.replace('_', ' ')} {_shown(before)} -> {_shown(after)}{_percent(before, after, new.unit)}"
        for name, (before, after) in pairs.items()
        if before != after and name not in PLACE
    ]


def _shown(value: Any) -> str:
    """Return a value to more digits than a table has: two figures that differ must look different."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Source):
        return f"{value.kind}, {value.by} ({'; '.join(filter(None, [value.date, value.conditions]))})"
    if isinstance(value, Mapping):
        return " ".join(f"{key} {inner}" for key, inner in value.items()) or "none"
    return (" ".join(map(str, value)) or "none") if isinstance(value, tuple) else str(value).lower()


def _percent(old: Any, new: Any, unit: str) -> str:
    numbers = [value for value in (old, new) if isinstance(value, int | float) and not isinstance(value, bool)]
    return f" {unit} ({new / old - 1:+.1%})" if len(numbers) == 2 and old else ""
