"""Like devices of a node, and those of their measurements that can be compared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_accel.core.measurement import NODE, Device, Measurement, finite, is_rate, is_time
from pytest_accel.core.metric_name import parse
from pytest_accel.core.sku_types import WHOLE
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
    """The traits that like devices share: the product with its partitioning, and the positions of its links."""

    product: Hashable
    host_link: Hashable = None
    peer_links: Hashable = None

    def neighbour_traits(self, part: str) -> Hashable:
        """Return the traits that neighbours share in a probe of `part`."""
        return self.product, {"host": self.host_link, "link": self.peer_links}.get(part)


def kind_of(device: Device) -> DeviceKind | None:
    """Return the kind of a device; None for a processor.

    Devices reach the host alike if NUMA node, number of PCIe links on the way and width are the same.
    """
    # another load on a processor slows it down, and limits on it are shares of a peak measured at the same time
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
    return [attempt for attempt in attempts if attempt.how == "together"]


Kinds = Mapping[str, "DeviceKind | None"]
"""The kind of each device by UUID; a device without a kind is compared with no other."""
AllAttempts = Mapping[tuple[str, str], Attempts]
"""The attempts at metrics by metric and subject."""


def like(attempts: AllAttempts, kinds: Kinds, metric: str, subject: str) -> list[Attempts]:
    """Return the attempts at a metric of all devices of the subject's kind, its own included."""
    return _of(attempts, kinds, (metric, subject), lambda kind: kind.product)


def neighbours(attempts: AllAttempts, kinds: Kinds, metric: str, subject: str) -> list[Attempts]:
    """Return those of `like` in the same place of the node as the subject, as far as the metric depends on it."""
    part = part_of(metric)
    return _of(attempts, kinds, (metric, subject), lambda kind: kind.neighbour_traits(part))


def _of(
    attempts: AllAttempts, kinds: Kinds, key: tuple[str, str], traits: Callable[[DeviceKind], Hashable]
) -> list[Attempts]:
    """Return the attempts at the metric of a key by the devices that share these traits with the key's subject."""
    own_kind = kinds.get(key[1])
    subjects = {uuid for uuid, kind in kinds.items() if own_kind and kind and traits(kind) == traits(own_kind)}
    return [rounds for (name, subject), rounds in attempts.items() if name == key[0] and subject in subjects]


def part_of(metric: str) -> str:
    """Return the part of a device that limits a metric most (`probes.declare.PARTS`); compute if none is declared."""
    declaration = declaration_of(metric) or finder_of(metric) or finder_of(parse(metric).base)
    return declaration.stresses[0] if declaration and declaration.stresses else "compute"


def family_of(metric: str, unit: str) -> Family:
    """Return the family of a metric in the table of the one comparison (`judging.verdicts.distance.RULES`)."""
    if unit in (LATENCY, POWER):
        return "latency" if unit == LATENCY else "power"
    if is_time(unit):
        return "other"
    declaration = finder_of(metric) or finder_of(parse(metric).base)
    part = part_of(metric)
    if declaration and declaration.node:
        return "collectives"
    if part == "compute":
        return "matmul" if unit in PRODUCTS else "other"
    return _FAMILIES[part]


def is_comparable(measurement: Measurement) -> bool:
    """Return True for a measurement that neighbours can judge: a rate, a time or the power of a device under load.

    Facts are judged by limits.
    """
    base, unit = parse(measurement.metric).base, measurement.unit
    declaration = finder_of(measurement.metric) or finder_of(base)
    if measurement.subject == NODE or (declaration and (declaration.fact or declaration.node)):
        return False
    also_found = declaration is not None and base in declaration.also
    # such a time is a count of seconds, or the tail of a distribution: like devices may show several times as much
    return unit == POWER or is_rate(unit) or (is_time(unit) and not also_found)


def was_slowed(measurement: Measurement) -> bool:
    """Return True if heat, the power brake or the device itself lowered the clock while the samples were taken."""
    return any(measurement.details.get("telemetry", {}).get(name, 0.0) > 0 for name in SLOWDOWNS)


def seldom_read(measurement: Measurement) -> bool:
    """Return True if there are too few readings to tell at which clock a device did its work."""
    enough = ENOUGH_READINGS if was_slowed(measurement) else LEAST_READINGS
    return measurement.details.get("telemetry", {}).get("readings", enough) < enough


def held_clock(measurement: Measurement) -> float | None:
    """Return the mean SM clock (MHz) while the samples were taken; None where the readings do not tell it."""
    gauge = measurement.details.get("telemetry", {}).get("clock_mhz")
    return gauge["mean"] or None if gauge and not seldom_read(measurement) else None


def value_of(measurement: Measurement) -> float:
    """Return the value of a usable measurement as a number."""
    return float(measurement.value or 0)


def usable(measurement: Measurement) -> bool:
    """Return True if a measurement has a number that says something about its device."""
    value = finite(measurement.value)
    # a power of 0 W is no reading: of the two devices of an MI250, the driver states the module's power for the first
    # and 0 for the second, as in aldebaran_get_gpu_metrics of Linux' aldebaran_ppt.c
    is_reading = value is not None and (measurement.unit != POWER or value != 0)
    return is_reading and not measurement.trouble and not measurement.note("disturbed")
