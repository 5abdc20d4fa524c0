"""The text format of Prometheus: gauges with their help, labels and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pytest_accel.core.printable import printable

Labels = Sequence[tuple[str, str]]
Family = tuple[str, str, Iterable[tuple[Labels, float]]]
"""The name of a metric, its help, and the labels and the number of each series."""


def text(families: Iterable[Family]) -> str:
    """Return metrics in the text format. Numbers that are not finite and metrics without a series are left out."""
    lines: list[str] = []
    for name, help_text, rows in families:
        series = [_line(name, labels, number) for labels, number in rows if math.isfinite(number)]
        if series:
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *series]
    return "\n".join(lines) + "\n"


def _line(name: str, labels: Labels, number: float) -> str:
    pairs = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels)
    return f"{name}{{{pairs}}} {number!r}" if pairs else f"{name} {number!r}"


def _escaped(value: str) -> str:
    return printable(value).replace("\\", "\\\\").replace('"', '\\"')
