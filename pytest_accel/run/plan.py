"""The planned seconds of a run, from what the probes declare and from estimates of everything else. Pure.

The estimates are for GPUs and are not measured: no run on eight GPUs has been recorded so far. A record states under
`run.seconds` what a run really took.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from pytest_accel.core.sku import Sku
from pytest_accel.judging.preconditions import SETTLE_STEP
from pytest_accel.judging.repeats import REPEAT_SECONDS
from pytest_accel.probes.declare import Declaration
from pytest_accel.skus.budgets import budget

STARTING, STARTING_EACH = 10.0, 2.5
"""Seconds for the processes, and for each device more: import of torch, contexts, the process of all devices, the
process group. Estimated: 30 s for eight."""
AROUND = 0.5
"""Seconds around the samples of one measurement. Estimated: allocating and filling the data, finding the number of
calls in a block, comparing the result."""
CALL = 0.001
"""Seconds of one call to the management library. Estimated; calls for several devices wait for each other."""
COUNTER_CALLS, LINK_CALLS = 48, 99
"""Calls for one reading of an H100's counters and settings, and for that of its 18 NVLinks and its versions, counted
with pynvml on a library that is not there (`tests/drivers/test_nvidia.py`)."""


@dataclass(frozen=True)
class Plan:
    """The planned seconds of a run by what they are for."""

    measuring: float
    """The budgets, each as often as devices take turns."""
    starting: float
    settling: float
    """The idle gate, on devices that are cool."""
    checks: float
    """Preparation of the data before a measurement, comparison of the result after it."""
    counters: float
    """Reading the error counters after every measurement, and those of the links where they were stressed."""
    repeats: float
    """All repeats of what falls short, at most."""

    @property
    def total(self) -> float:
        """The sum in seconds: the longest that a run is planned to take."""
        return float(sum(astuple(self)))


def planned(measurements: Iterable[tuple[Declaration, str]], level: str, sku: Sku | None, devices: int) -> Plan:
    """Return the plan for `devices` devices and for measurements given as declaration and metric, one a probe call.

    What the level has no time for takes none, and neither do facts.
    """
    made = [(each, seconds) for each, metric in measurements if (seconds := budget(each, metric, level, sku))]
    links = sum("link" in each.stresses for each, _ in made)
    calls = (len(made) + 1) * COUNTER_CALLS + (links + 2) * LINK_CALLS
    return Plan(
        measuring=sum(seconds * (devices if each.runs == "in_turn" else 1) for each, seconds in made),
        starting=STARTING + STARTING_EACH * devices,
        settling=SETTLE_STEP,
        checks=AROUND * len(made),
        counters=CALL * calls * devices,
        repeats=REPEAT_SECONDS[level],
    )
