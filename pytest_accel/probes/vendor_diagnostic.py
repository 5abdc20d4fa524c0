"""The vendor's own diagnostic: NVIDIA's `dcgmi diag`, AMD's `agfhc`."""

from __future__ import annotations

from typing import Any

from pytest_accel.probes.declare import probe

LEVELS = {"quick": 1, "standard": 2, "long": 3}
"""The level of the diagnostic by that of the run."""


@probe(
    "diag.vendor",
    unit="text",
    runs="program",
    stresses=["compute"],
    budgets={"quick": 420.0, "standard": 900.0, "long": 3600.0},
)
def vendor_diagnostic(device: Any, *, level: int | None = None) -> None:
    """Declare the diagnostic, which is a program of its own: `dcgmi diag -r LEVEL`, `agfhc -r all_lvlLEVEL`.

    It is run where a limit on it requires that, after all that loads the devices, and has them to itself. The budget is
    its deadline: `dcgmi diag -r 3` takes about 15 minutes (DCGM 4.6.0, `dcgmi diag --help`), a level of `agfhc` 5, 10
    and 30 minutes (ROCm/device-metrics-exporter, docs/configuration/agfhc.md). Higher levels need another budget in the
    threshold file. Without a level, that of the run counts (`LEVELS`).
    """
