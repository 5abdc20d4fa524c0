"""What a run would measure, and how long it would take: --collect-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_accel import probes
from pytest_accel.probes.spec import spec_of
from pytest_accel.views.terminal import Line

if TYPE_CHECKING:
    from pytest_accel.run import Run

STARTING = 5.0
"""Seconds for the processes to start and import torch, as a rule."""


def lines(run: Run, items: Sequence[Any]) -> list[Line]:
    """One line per measurement, with its budget; a test's name says which probe it runs (test_PROBE)."""
    seen: dict[tuple[str, str], float] = {}
    for item in items:
        if "accel_check" not in getattr(item, "fixturenames", ()):
            continue
        probe = item.originalname.removeprefix("test_")
        call = getattr(item, "callspec", None)
        chosen = {key: value for key, value in call.params.items() if key != "_accel_subject"} if call else {}
        variant = ", ".join(str(value) for key, value in chosen.items() if key != "metric")
        excluded = run.sku and run.sku.why_not_applicable(f"{probe}.{variant}", run.platform)
        budget = run.budget(probe, f"{probe}.{variant}")
        if budget and not probe.startswith("inventory") and not excluded:
            in_turn = spec_of(getattr(probes, probe, lines)).runs == "in_turn"  # a test of another name is together
            seen[probe, variant] = budget * (len(run.devices) if in_turn else 1)
    found = [(f"{probe:16} {variant:12} up to {seconds:g} s", "") for (probe, variant), seconds in seen.items()]
    total = sum(seen.values()) + STARTING
    text = f"at most about {total:.0f} s on {len(run.devices)} devices; a value that is known well ends its probe early"
    return [*found, (text, "bold")]
