"""Measurements made of the facts of devices and host, with the reason where a fact has no value. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_accel.core.fact_metrics import FACT_METRICS, sane, shared_request
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.measurement import EVERYTHING_ELSE, NODE, Device, Measurement, Names, Trouble, Value
from pytest_accel.core.messages import Problem
from pytest_accel.core.reasons import Note
from pytest_accel.core.sku_types import Limit, Sku, is_unknown_part
from pytest_accel.drivers import registry
from pytest_accel.skus import implied

Facts = Mapping[str, Any]


UNNAMED = (
    "no platform of {sku} has {count} devices: name the platform, --accel-platform=slice{count} for a part of a node "
    "that a scheduler or a cloud hands out"
)
NO_LIMIT = Trouble("not_applicable", "it states 0 W, which means that it has no power limit of its own")


def read_fact(metric: str, device: Device) -> tuple[str, Value | None, Trouble | None]:
    """Return unit and value of one metric of one device, or the trouble that explains why there is no value.

    The trouble is a need if permissions, the driver or a passing failure hide the fact, and not applicable if the
    device or its driver does not have it.
    """
    figure = FACT_METRICS.get(metric)
    if figure is None:
        return "text", None, Trouble("need", f"this version knows no fact {metric}, so no driver reads it")
    facts = {**device.facts, "memory_bytes": device.memory_bytes or None}
    for name in figure.facts:
        trouble = missing_fact(facts, name) if facts.get(name) is None else None
        if trouble and (name in figure.needs or trouble.kind == "need"):
            return figure.unit, None, trouble
    if figure.unit == "W" and any(facts[name] == 0 for name in figure.needs):
        return figure.unit, None, NO_LIMIT
    try:
        names = figure.facts
        value = figure.compute(*(sane(facts.get(name), figure.unit) for name in names))
        return figure.unit, value, missing_fact(facts, names[-1]) if value is None else None
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        return figure.unit, None, Trouble("need", f"the driver's answer cannot be interpreted: {error}")


def missing_fact(facts: Facts, name: str) -> Trouble:
    """Return the trouble that explains why a fact is missing."""
    unread = facts.get("unread", {})
    if cause := unread.get(name) or unread.get(EVERYTHING_ELSE):
        return Trouble("need", f"{name}: {cause}")
    reason = facts.get("unsupported", {}).get(name, "the driver does not report it")
    return Trouble("not_applicable", f"{name}: {reason}")


def disturbance(metric: str, device: Device, devices: Sequence[Device] = ()) -> str | None:
    """Return the disturbance for which the device is not to blame, such as foreign processes, or None."""
    if metric == "health.recovery_action":
        actions = [other.facts.get("recovery_action") for other in devices]
        return shared_request(device.facts.get("recovery_action"), actions)
    processes = device.facts.get("processes") if metric == "health.foreign_processes" else None
    return f"in use by pid {', '.join(str(process['pid']) for process in processes)}" if processes else None


@dataclass(frozen=True)
class Discovery:
    """The answer of the sensor to a discovery.

    `problems` are drivers that failed, `unclaimed` the accelerators that the PCI bus and /dev show without any driver.
    `expected_by` says what makes the expected number of devices certain, such as a platform that was named; empty if
    nothing does. `part` is True if it is the number of a part of the node, of which the bus shows all devices.
    """

    devices: tuple[Device, ...] = ()
    problems: Sequence[Problem] = ()
    unclaimed: Sequence[dict[str, Any]] = ()
    container: str = ""
    """The kind of the container that the run is in, empty for none."""
    expected_by: str = ""
    part: bool = False

    @property
    def names(self) -> Names:
        """Display name by subject (the UUID of a device, or NODE)."""
        return Names.of(self.devices)

    def unreachable(self, vendor: str | None) -> Trouble | None:
        """Return the trouble with accelerators that the machine shows and no driver can use, or None.

        It is the device's if its driver fails, and a need if the driver or its library is missing here. The driver of
        another vendor that fails, such as that of a processor's own graphics, says nothing about the devices judged.
        """
        failures = [problem for problem in self.problems if problem.kind == "device"]
        failures = [problem for problem in failures if not _of_another(problem.driver, vendor)]
        missing_drivers = [problem for problem in self.problems if problem not in failures]
        if failures:
            return Trouble("device", _listing(failures, {device.driver for device in self.devices}))
        if sentence := self._unseen(vendor, {problem.driver for problem in missing_drivers}):
            # a container sees the bus of its host, but not the devices that it was not given
            hint = f"; this is a container ({self.container}), which may not have been given it"
            hidden = self.container and not self.devices
            return Trouble("need", sentence + hint) if hidden else Trouble("device", sentence)
        return Trouble("need", _listing(missing_drivers)) if missing_drivers else None

    def _unseen(self, vendor: str | None, excluded: set[str]) -> str | None:
        """Return a sentence on devices that the machine shows and their driver does not find, or None.

        Devices of the drivers in `excluded`, which are missing here, are left out.
        """
        drivers = {entry["driver"] for entry in self.unclaimed if vendor in (None, entry["driver"])} - excluded
        for driver in sorted(drivers):
            on_bus = [entry for entry in self.unclaimed if entry["driver"] == driver and entry["pci"]]
            count = sum(device.driver == driver for device in self.devices)
            if not count:
                locations = _listed([entry["where"] for entry in self.unclaimed if entry["driver"] == driver])
                return f"the machine shows {locations}, but the {driver} driver finds no device: check dmesg"
            if len(on_bus) > count and not self.part:
                missing = self._not_found(on_bus, len(on_bus) - count)
                text = f"{len(on_bus)} {driver} devices, but the driver finds {count}{missing}"
                return f"the PCI bus shows {text}: check dmesg"
        return None

    def _not_found(self, on_bus: Sequence[dict[str, Any]], count: int) -> str:
        """Return the addresses at which no device was found, in words; empty unless they are as many as `count`."""
        addresses = {device.pci_address for device in self.devices}
        locations = [entry["where"] for entry in on_bus if entry["pci"] not in addresses]
        return f", none at {_listed(locations)}" if len(locations) == count else ""


def _of_another(driver: str, vendor: str | None) -> bool:
    """Return True for the driver of a vendor that is not the one asked for; False if there is no such vendor."""
    return vendor is not None and driver != vendor and driver in registry.registered().vendors


def _listing(problems: Sequence[Problem], drivers: Collection[str] = ()) -> str:
    return "; ".join(_problem(problem, drivers) for problem in problems)


def _problem(problem: Problem, drivers: Collection[str]) -> str:
    """Return the problem of a driver, with its devices' locations if it is none of the `drivers` that found some."""
    locations = problem.shown if problem.driver not in drivers else ()
    text = f" ({_listed(locations)})" if locations else ""
    return f"{problem.driver}{text}: {problem.reason}"


def _listed(locations: Sequence[str]) -> str:
    return ", ".join(locations[:2]) + (" ..." if len(locations) > 2 else "")


def facts(metric: str, discovery: Discovery, sku: Sku | None, now: float = 0.0) -> list[Measurement]:
    """Return the measurements of one metric `inventory.*` or `health.*`, made at `now` (seconds since the epoch)."""
    vendor, unit = sku.vendor if sku else None, "count" if metric == "inventory.count" else "text"
    devices = sku.accelerators(discovery.devices) if sku else discovery.devices
    if metric == "inventory.driver":
        trouble = discovery.unreachable(vendor)
        values: Mapping[str, tuple[Value, Trouble | None]] = {NODE: ("ok", trouble)}
    elif metric == "inventory.count":
        count = len({device.uuid for device in devices})  # two of one identity would be measured as one
        trouble = None if count else discovery.unreachable(vendor)
        if sku and not discovery.expected_by and is_unknown_part(sku, count):
            trouble = Trouble("need", UNNAMED.format(sku=sku.name, count=count))
        values = {NODE: (count, trouble if trouble and trouble.kind == "need" else None)}
    elif metric == "inventory.sku":
        values = {device.uuid: (_product(device, sku), _nameless(device, sku)) for device in devices}
    else:
        return _stated(metric, devices, now, sku)
    return [
        Measurement(metric, subject, unit, None if trouble else value, trouble=trouble, started=now, ended=now)
        for subject, (value, trouble) in values.items()
    ]


def _nameless(device: Device, sku: Sku | None) -> Trouble | None:
    """Return the need of a device whose library could not be asked for its name, None for any other."""
    unread = device.facts.get("unread", {})
    if not sku or device.model or device.pci_id or EVERYTHING_ELSE not in unread:
        return None
    return Trouble("need", f"the product name is not known: {unread[EVERYTHING_ELSE]}")


def _stated(metric: str, devices: Sequence[Device], now: float, sku: Sku | None) -> list[Measurement]:
    """Return one metric of every device, each with the values of all devices for comparison."""
    answers = {device: read_fact(metric, device) for device in devices}
    on_all = {device: value for device, (_, value, _) in answers.items() if value is not None}
    measurements = [
        Measurement(
            metric=metric,
            subject=device.uuid,
            unit=unit,
            value=value,
            trouble=trouble,
            notes=(Note("disturbed", user),) if (user := disturbance(metric, device, devices)) else (),
            started=now,
            ended=now,
            on_all={other.name: on_all[other] for other in on_all if _comparable(metric, device, other)},
        )
        for device, (unit, value, trouble) in answers.items()
    ]
    compared = with_needs(measurements, devices)
    if sku and "watts" not in sku.datasheet.power:  # the limit is a module's, and one of its devices states it
        pairs = zip(measurements, compared, strict=True)
        compared = [raw if raw.trouble == NO_LIMIT else adjusted for raw, adjusted in pairs]
    return compared


FIRMWARE = ("inventory.vbios", "inventory.inforom", "inventory.firmware", "inventory.firmware_bundle")
"""Facts that the maker of a board chooses, so that boards of two makers differ in them."""


def _comparable(metric: str, device: Device, other: Device) -> bool:
    """Return True if the metric has to be the same on both devices: firmware is compared on boards of one maker."""
    return metric not in FIRMWARE or device.facts.get("pci_subsystem") == other.facts.get("pci_subsystem")


def with_needs(measurements: Sequence[Measurement], devices: Sequence[Device]) -> list[Measurement]:
    """Return the measurements, with a need for "not applicable" where another device of the model has a value."""
    models = {device.uuid: device.model for device in devices}
    return [_as_others(measurement, measurements, models) for measurement in measurements]


def _as_others(measurement: Measurement, measurements: Sequence[Measurement], models: Mapping[str, str]) -> Measurement:
    if measurement.trouble is None or measurement.trouble.kind != "not_applicable" or measurement.subject not in models:
        return measurement
    metric, model = measurement.metric, models[measurement.subject]
    same_model = [other for other in measurements if other.metric == metric and models.get(other.subject) == model]
    count = sum(other.trouble is None for other in same_model)
    if not count:
        return measurement
    # a fact that one of them reports exists for the model, so that its absence on another has to be explained
    reason = f"{measurement.trouble.reason}, but {count} of {len(same_model)} devices report it"
    return replace(measurement, trouble=Trouble("need", reason))


def host_fact(metric: str, answer: Mapping[str, Any], now: float = 0.0, limit: Limit | None = None) -> Measurement:
    """Return one fact of the host as a measurement, read at `now` (seconds since the epoch).

    A fact that is hidden from this user is not applicable, which becomes UNMEASURED if a limit requires it. The `limit`
    of the metric is None where it has none.
    """
    name = metric.removeprefix("host.")
    reason = answer.get("absent") or answer.get("unreadable")
    measurement = Measurement(
        metric=metric,
        subject=NODE,
        unit=HOST_FACTS[name].unit,
        value=answer.get("value"),
        trouble=Trouble("not_applicable", reason) if reason else None,
        notes=(Note("at", worst),) if (worst := answer.get("worst")) else (),
        started=now,
        ended=now,
        details=answer.get("details", {}),
    )
    return _at_rate(measurement, limit) if limit and implied.RATE in limit.conditions and not reason else measurement


def _at_rate(nics: Measurement, limit: Limit) -> Measurement:
    """Return the number of active NICs as the number of those that reach the rate of a limit, the others as the worst.

    A container may not see every NIC: where it sees fewer than the limit demands, too few are no finding.
    """
    rates, bad, rate = nics.details["rates"], nics.details["bad"], limit.conditions[implied.RATE]
    slow = [f"{nic} {bad.get(nic) or f'{speed:g} GB/s'}" for nic, speed in rates.items() if speed < rate]
    count, floor = len(rates) - len(slow), limit.floor or 0
    notes, trouble = nics.notes, None
    if slow and count < floor:
        notes = (Note("at", ", ".join(slow)),)
    if len(rates) < floor and nics.details["in_container"]:
        words = f"{len(rates)} of {floor:g} NICs are seen"
        trouble = Trouble("not_applicable", f"{words}; requires the host instead of a container")
    return replace(nics, value=count, conditions={implied.RATE: rate}, notes=notes, trouble=trouble)


def _product(device: Device, sku: Sku | None) -> str:
    """Return the SKU's name if the device is one, else the device's own name and the first difference."""
    difference = sku.mismatch(device) if sku else None
    if sku and difference is None:
        return sku.name
    name = f"{device.model or 'no name'} ({device.pci_id or 'no PCI id'})"
    return f"{name}: {difference}" if difference else name
