"""The metrics that are made of the facts of a device: `inventory.*` (its identity) and `health.*` (its state). Pure.

A driver reports facts in its own detail. This module alone decides which of them can have a limit, under which name
and in which unit: fact_metrics.yaml has the tables. A mode reads "enabled" or "disabled", a pending change counts as 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.data_file import read
from pytest_accel.core.device_facts import DEVICE_FACTS
from pytest_accel.core.measurement import Value


@dataclass(frozen=True)
class FactMetric:
    """One metric: its unit, the facts that it needs, and the function that computes it from their values.

    `extras` are facts that it takes into account where the device states them, and None where it does not.
    """

    unit: str
    needs: tuple[str, ...]
    compute: Callable[..., Value | None]
    """Returns None if the device states too little; the last fact that is missing is the reason."""
    extras: tuple[str, ...] = ()

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that it is computed from, needed or not."""
        return (*self.needs, *self.extras)


SLOWDOWNS = {
    ClockEvent.HW_SLOWDOWN: "hardware slowdown",
    ClockEvent.SW_THERMAL: "software thermal",
    ClockEvent.HW_THERMAL: "hardware thermal",
    ClockEvent.HW_POWER_BRAKE: "power brake",
}
LOCKS = {ClockEvent.APPLICATION_CLOCKS: "application clocks", ClockEvent.SYNC_BOOST: "sync boost"}
"""Reasons for a low clock that an idle, healthy device does not have."""
CORRECTED = ("symbol", "effective")
"""Error counters of an NVLink that increase on healthy links too."""


def _clock_lock(mask: int, application: float | None, default: float | None, highest: float | None) -> str:
    """Return the settings that hold the clock down. Telemetry finds a lock that shows only under load.

    Newer drivers have no application clocks.
    """
    if application is not None and highest is not None and application >= highest:
        # set to the highest clock it holds nothing down, though the driver names it as the reason for every clock then
        mask &= ~ClockEvent.APPLICATION_CLOCKS
    locks = [name for bit, name in LOCKS.items() if mask & bit]
    lowered = application is not None and default is not None and application < default
    if lowered and LOCKS[ClockEvent.APPLICATION_CLOCKS] not in locks:
        locks.append(LOCKS[ClockEvent.APPLICATION_CLOCKS])
    return ", ".join(locks) or "none"


def most_errors(total: int, *parts: int | None) -> int:
    """Return the errors of a device: the library's total, or the sum of its parts if that is larger."""
    # the total of some devices leaves out units that have counters of their own
    return max(total, sum(part or 0 for part in parts))


def _lanes_lost(width: int, path: Sequence[Mapping[str, int]]) -> int | None:
    """Return the lanes that both ends of the device's link have and the link does not use; None if one is not known."""
    device, port = (path[end].get("width_max") if end < len(path) else None for end in range(2))
    return max(0, min(device, port) - width) if device and port else None


def _link_errors(links: list[Mapping[str, Any]]) -> int:
    """Return the errors of all links that needed a retransmission or a recovery."""
    # without the symbol errors that the error correction repairs: they are usual on NVLink 5
    return sum(count for link in links for name, count in link.get("errors", {}).items() if name not in CORRECTED)


THERMAL_FACTS = frozenset({"slowdown_c", "slowdown_margin_c"})
"""The facts by which a device states where it slows itself down."""


def thermal_margin(
    temperature_c: float | None,
    margin_c: float | None,
    slowdown_margin_c: float | None,
    slowdown_c: float | None,
) -> float | None:
    """Return the kelvin that are left until the device slows itself down; None if it does not state them."""
    # NVIDIA's parts from Hopper on state a margin that falls with heat, and its value at the slowdown (-2)
    if margin_c is not None and slowdown_margin_c is not None:
        return margin_c - slowdown_margin_c
    if temperature_c is not None and slowdown_c is not None:
        return slowdown_c - temperature_c
    return None


def held_c(facts: Mapping[str, Any]) -> float | None:
    """Return the temperature (C) that the cooling of a device is to hold; None if it states none.

    It is the target of the fans or the highest of operation.
    """
    targets = [facts[name] for name in ("target_c", "gpu_max_c") if facts.get(name)]
    # parts from Hopper on state a margin in its place
    return min(targets) if targets and "slowdown_margin_c" not in facts else None


FUNCTIONS: Mapping[str, Callable[..., Value | None]] = {
    "below": lambda current, default: max(0.0, default - current),
    "changes": lambda current, pending: int(current != pending),
    "clock_lock": _clock_lock,
    "count": len,
    "exhausted": lambda banks: int(banks["none"]),
    "fabric": lambda state, status: f"{state} with error {status}" if state == "completed" and status else state,
    "fabric_faults": lambda faults, health: ", ".join([*faults, *({health} - {None, "healthy"})]) or "none",
    "flag": int,
    "gigabytes": lambda size: size / 1e9,
    "lanes_lost": _lanes_lost,
    "link_errors": _link_errors,
    "mode": lambda enabled: "enabled" if enabled else "disabled",
    "most_errors": most_errors,
    "narrowest": lambda path: min(port["width"] for port in path if "width" in port),
    "share": operator.truediv,
    "slowdown": lambda mask: ", ".join(name for bit, name in SLOWDOWNS.items() if mask & bit) or "none",
    "sum": operator.add,
    "thermal_margin": thermal_margin,
    "versions": lambda firmware: ", ".join(f"{block} {version}" for block, version in sorted(firmware.items())),
}
"""The functions that compute the metrics of fact_metrics.yaml, by the names that it calls them."""
_TABLES = read(__file__)


def _metric(row: str | Mapping[str, Any]) -> FactMetric:
    """Return the metric of a row. One that is a name is the metric that is the fact itself, in its unit."""
    if isinstance(row, str):
        return FactMetric(DEVICE_FACTS[row].unit, (row,), lambda value: value)
    return FactMetric(row["unit"], tuple(row["needs"]), FUNCTIONS[row["by"]], tuple(row.get("also", ())))


FACT_METRICS: Mapping[str, FactMetric] = {metric: _metric(row) for metric, row in _TABLES["metrics"].items()}
"""The metrics by name, in the order in which they are shown."""


# -- values that a device can have

ALL_ONES = (2**32 - 1, 2**64 - 1)
"""Values that libraries leave in a number that they did not fill (NVML_VALUE_NOT_AVAILABLE is -1)."""
NEVER_ZERO = ("W", "MHz", "GB", "GB/s")
"""Units in which zero means that the value is not known: no device has a power limit of 0 W."""
SIGNED = ("K",)
"""Units of values that may be below zero: a device may be hotter than it should be."""


def sane(fact: Any, unit: str) -> Any:
    """Return the fact unchanged. Raises ValueError for a number that no device can have."""
    if isinstance(fact, bool) or not isinstance(fact, int | float):
        return fact
    negative = fact < 0 and unit not in SIGNED  # a placeholder below zero would hold any ceiling
    if not math.isfinite(fact) or negative or fact in ALL_ONES or (fact == 0 and unit in NEVER_ZERO):
        raise ValueError(f"{fact:g} is not a possible value")
    return fact


# -- error counters

HOUR = 3600.0
INACTIVE = "inactive"
"""The state of a link that is down, and so has no counters."""


@dataclass(frozen=True)
class Counter:
    """One error counter: the fact that it is read from, and how it is read.

    `extras` are facts that `total` takes besides, None where the device does not state them.
    If `per` is not zero the metric is a rate per that many seconds, and shorter intervals count as that long.
    """

    fact: str
    total: Callable[..., int] = int
    unit: str = "count"
    per: float = 0.0
    extras: tuple[str, ...] = ()

    def value_over(self, increase: int, seconds: float) -> float:
        """Return the metric's value for an increase in `seconds`: a rate if `per` is set, else the increase."""
        return increase * self.per / max(self.per, seconds) if self.per else increase


def _links(*names: str) -> Callable[[Any], int]:
    """Return a reader that sums the named counters over all NVLinks.

    It raises KeyError if no link has such a counter, or if an active link did not report its own.
    """

    def total(links: Sequence[Mapping[str, Any]]) -> int:
        errors = [link.get("errors", {}).items() for link in links]
        totals = [[sane(count, "count") for name, count in counters if name in names] for counters in errors]
        active = [counts for link, counts in zip(links, totals, strict=True) if link.get("state", INACTIVE) != INACTIVE]
        if not any(totals) or not all(active):  # a sum without that link would look like a counter that was reset
            raise KeyError(names[0])
        return sum(map(sum, totals))

    return total


LINKS = "nvlinks"
"""The fact that is not in every reading."""

OF_SYSTEM = ("node reboot", "system reboot")
"""Requests of NVIDIA's driver that the state of the whole system makes: then every GPU states them."""


def shared_request(action: object, actions: Sequence[object]) -> str | None:
    """Return the reason why a device's request for recovery is not its own fault: others state it too; else None."""
    of_all = action in OF_SYSTEM and actions.count(action) > 1
    return f"the driver asks for a {action} on several devices, whichever of them failed" if of_all else None


XGMI = ("none", "error", "multiple errors")
"""The error states of an AMD device's xGMI links since the last query, in order of severity."""

READERS: Mapping[str, Callable[..., int]] = {
    "asked": lambda action: int(action != "none"),
    "fabric_fault": lambda state, status, faults, health: int(
        state != "completed" or bool(status or faults) or health not in (None, "healthy")
    ),
    "inactive": lambda links: sum(link["state"] == INACTIVE for link in links),
    "most_errors": most_errors,
    "number": int,
    "xgmi_state": XGMI.index,
}
"""The functions that read the counters of fact_metrics.yaml, by the names that it calls them."""


def _counter(
    fact: str, by: str = "number", errors: Sequence[str] = (), also: Sequence[str] = (), **rate: Any
) -> Counter:
    """Return the counter of a row; `errors` are the counters of NVLinks that it sums."""
    return Counter(fact, _links(*errors) if errors else READERS[by], extras=tuple(also), **rate)


ERROR_COUNTERS: Mapping[str, Counter] = {
    name: _counter(row) if isinstance(row, str) else _counter(**row) for name, row in _TABLES["counters"].items()
}
"""The counters by the variant of the metric `counters.*`.

A rate is the highest over any part of the run; a new state counts as 1.
"""
