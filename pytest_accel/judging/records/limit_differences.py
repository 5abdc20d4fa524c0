"""The differences between two limits on one metric, as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pytest_accel.core.sku import Limit

NUMERIC_FACTS = ("floor", "ceiling", "warn", "reference", "equals")
"""Facts of a limit that are in its unit."""
PLACE = ("metric", "of_unit", "origin", "declared_by", "overridden", "test", "beneath")
"""Fields of a limit that say where it applies and where it was declared, and the floor of its class."""
FACTS = (*NUMERIC_FACTS, *(field.name for field in fields(Limit) if field.name not in (*NUMERIC_FACTS, *PLACE)))
"""Facts of a limit that decide a verdict, or that state where its figures come from."""

UNITLESS = ("", "1", "count", "text", "version")
"""Units that are not printed."""

Facts = Mapping[str, Any]
"""The facts of a limit by name; those that have their default are left out."""


def facts_of(limit: Limit) -> dict[str, Any]:
    """Return the facts of a limit that differ from their defaults, as JSON types."""
    default = Limit("", "")
    found = {name: getattr(limit, name) for name in FACTS if getattr(limit, name) != getattr(default, name)}
    if limit.source:
        found["source"] = {key: each for key, each in vars(limit.source).items() if each}
    found = {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in found.items()}
    return {**found, "unit": limit.unit}


def differences(old: Facts, new: Facts) -> list[str]:
    """Return the differences between two limits on one metric, each as a text: "floor 672 -> 690 TFLOPS (+2.7%)"."""
    unit = str(new.get("unit", ""))
    found = []
    for name in FACTS:
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if name in NUMERIC_FACTS:
            unit_before = unit if after is None else ""
            found.append(f"{name} {_figure(before, unit_before)} -> {_figure(after, unit)}{_percent(before, after)}")
        else:
            found.append(f"{name.replace('_', ' ')} {_format(name, before)} -> {_format(name, after)}")
    return found


def _figure(value: Any, unit: str) -> str:
    """Return a value with its unit, to more digits than a table has: two figures that differ must look different."""
    if value is None:
        return "none"
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    return shown if unit in UNITLESS else f"{shown} {unit}"


def _percent(old: Any, new: Any) -> str:
    numbers = [each for each in (old, new) if isinstance(each, int | float) and not isinstance(each, bool)]
    return f" ({numbers[1] / numbers[0] - 1:+.1%})" if len(numbers) == 2 and numbers[0] else ""


def _format(name: str, value: Any) -> str:
    if value is None:
        return "all" if name == "levels" else "none"
    if name == "source":
        conditions = f"; {value['conditions']}" if value.get("conditions") else ""
        return f"{value.get('kind')}, {value.get('by')} ({value.get('date')}{conditions})"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return " ".join(f"{key} {each}" for key, each in value.items())
    return str(value)
