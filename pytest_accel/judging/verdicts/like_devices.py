"""Which devices of a node are alike, and which of their measurements can be compared. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_accel.core.measurement import NODE, Device, Measurement, is_rate, is_time
from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import WHOLE
from pytest_accel.drivers import registry
from pytest_accel.judging.verdicts.distance import Family
from pytest_accel.probes.declare import declaration_of, finder_of

LATENCY = "us"
"""The unit of latencies. They depend on the place of a device in the node (socket, switch) by more than rates do, so a
device is never marginal for one."""
POWER = "W"
"""The unit of the power under load, which like devices draw alike."""
PRODUCTS = ("TFLOPS", "TOPS")
"""The units of matrix products."""
SLOWDOWNS: tuple[Literal["hw_thermal_s", "hw_power_brake_s", "sw_thermal_s", "hw_slowdown_s"], ...] = (
    "hw_thermal_s", "hw_power_brake_s", "sw_thermal_s", "hw_slowdown_s",
)  # fmt: skip
"""The reasons of a low clock that are no setting and no power limit, as telemetry counts their seconds."""
ENOUGH_READINGS, LEAST_READINGS = 20, 5
"""Readings from which on the mean clock is that of the work: of a device that slowed itself down, and of any other. One
reading before the load may be a third higher."""
_FAMILIES: Mapping[str, Family] = {"memory": "memory", "host": "host link", "link": "peer links"}
Attempts = Sequence[Measurement]
"""The measurements of one metric of one device, oldest first."""


@dataclass(frozen=True)
class DeviceKind:
    """What like devices share: the product with its partitioning, and the places of its links in the node."""

    product: Hashable
    host_link: Hashable = None
    peer_links: Hashable = None

    def near(self, part: str) -> Hashable:
        """Return what devices share that are compared narrowly in a probe of `part`."""
        return self.product, {"host": self.host_link, "link": self.peer_links}.get(part)


def kind_of(device: Device) -> DeviceKind | None:
    """Return the kind of a device; None for a processor.

    Another load on a processor slows it down, and limits on it are shares of a peak measured at the same time. Devices
    reach the host alike if NUMA node, number of PCIe links on the way and width are the same.
    """
    if not registry.vendor(device.driver).accelerator:
        return None
    facts = device.facts
    return DeviceKind(
        (device.driver, device.model, facts.get("virtualization"), *(facts.get(mode) for mode in WHOLE)),
        (device.numa_node, _count(facts.get("pcie_path")), facts.get("pcie_gen_max"), facts.get("pcie_width_max")),
        (facts.get("nvlink_count"), _count(facts.get("xgmi_states"))),
    )


def _count(value: object) -> int:
    """Return the length of a list; 0 for what a record of somebody else has in its place."""
    return len(value) if isinstance(value, list | tuple) else 0


def together(attempts: Attempts) -> Attempts:
    """Return the attempts that were made on all devices together."""
    return [each for each in attempts if each.how == "together"]


Kinds = Mapping[str, "DeviceKind | None"]
"""The kind of each device by UUID; a device without a kind is compared with no other."""
AllAttempts = Mapping[tuple[str, str], Attempts]
"""The attempts at metrics by metric and subject."""


def like(attempts: AllAttempts, kinds: Kinds, metric: str, subject: str) -> list[Attempts]:
    """Return the attempts at a metric of all devices of the subject's kind, its own included."""
    return _of(attempts, kinds, (metric, subject), lambda kind: kind.product)


def near(attempts: AllAttempts, kinds: Kinds, metric: str, subject: str) -> list[Attempts]:
    """Return those of `like` whose place in the node is that of the subject too, as far as the metric depends on it."""
    part = part_of(metric)
    return _of(attempts, kinds, (metric, subject), lambda kind: kind.near(part))


def _of(
    attempts: AllAttempts, kinds: Kinds, of: tuple[str, str], place: Callable[[DeviceKind], Hashable]
) -> list[Attempts]:
    own = kinds.get(of[1])
    subjects = {uuid for uuid, kind in kinds.items() if own and kind and place(kind) == place(own)}
    return [each for (name, subject), each in attempts.items() if name == of[0] and subject in subjects]


def part_of(metric: str) -> str:
    """Return the part of a device that limits a metric most (`probes.declare.PARTS`); compute if none is declared."""
    declared = declaration_of(metric) or finder_of(metric) or finder_of(parse(metric).base)
    return declared.stresses[0] if declared and declared.stresses else "compute"


def family_of(metric: str, unit: str) -> Family:
    """Return the family of a metric in the table of the one comparison (`judging.verdicts.distance.RULES`)."""
    if unit in (LATENCY, POWER):
        return "latency" if unit == LATENCY else "power"
    if is_time(unit):
        return "other"
    declared = finder_of(metric) or finder_of(parse(metric).base)
    part = part_of(metric)
    if declared and declared.node:
        return "collectives"
    if part == "compute":
        return "matmul" if unit in PRODUCTS else "other"
    return _FAMILIES[part]


def compared(metric: str, subject: str, unit: str) -> bool:
    """Return True for a metric that neighbours can judge: a rate, a time or the power of a device under load.

    Facts are judged by limits. A time that a probe finds beside its own metric is a count of seconds, or the tail of a
    distribution, of which like devices may show several times as much.
    """
    declared = finder_of(metric) or finder_of(parse(metric).base)
    if subject == NODE or (declared and (declared.fact or declared.node)):
        return False
    beside = declared is not None and parse(metric).base in declared.also
    return unit == POWER or is_rate(unit) or (is_time(unit) and not beside)


def slowed(one: Measurement) -> bool:
    """Return True if heat, the power brake or the device itself lowered the clock while the samples were taken."""
    return any(one.details.get("telemetry", {}).get(name, 0.0) > 0 for name in SLOWDOWNS)


def seldom_read(one: Measurement) -> bool:
    """Return True if there are too few readings to tell at which clock a device did its work."""
    least = ENOUGH_READINGS if slowed(one) else LEAST_READINGS
    return one.details.get("telemetry", {}).get("readings", least) < least


def held_clock(one: Measurement) -> float | None:
    """Return the mean SM clock (MHz) while the samples were taken; None where the readings do not tell it."""
    gauge = one.details.get("telemetry", {}).get("clock_mhz")
    return gauge["mean"] or None if gauge and not seldom_read(one) else None


def value_of(one: Measurement) -> float:
    """Return the value of a usable measurement as a number."""
    return float(one.value or 0)


def usable(one: Measurement) -> bool:
    """Return whether a measurement has a number that says something about its device.

    A power of 0 W is no reading: of the two devices of an MI250, the driver states the module's power for the first and
    0 for the second (Linux, aldebaran_ppt.c, aldebaran_get_gpu_metrics).
    """
    number = isinstance(one.value, int | float) and not isinstance(one.value, bool) and math.isfinite(one.value)
    stated = one.unit != POWER or one.value != 0
    return number and stated and not one.trouble and not one.noted("disturbed")
