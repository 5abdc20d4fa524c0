"""The inventory as measurements: what the sensor found, against what the machine shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.measurement import EVERYTHING_ELSE, NODE, ON_ALL, Device, Measurement, Trouble
from pytest_accel.core.sku import Sku
from pytest_accel.drivers.host.reading import FACTS
from pytest_accel.judging import factsheet


@dataclass(frozen=True)
class Discovery:
    """What the sensor answered: devices, drivers that failed, accelerators that the machine shows by itself."""

    devices: tuple[Device, ...] = ()
    problems: Sequence[dict[str, Any]] = field(default=())
    shown: Sequence[dict[str, Any]] = field(default=())

    def unreachable(self, vendor: str | None) -> Trouble | None:
        """What the machine shows and no driver can use, with the missing piece; None if there is nothing.

        The device is in trouble where its driver is, a need where we have no driver for it.
        """
        lacking = [each for each in self.problems if each.get("kind") == "need"]
        broken = [each for each in self.problems if each not in lacking]
        why = _listing(broken) or self._unseen(vendor, {each["driver"] for each in lacking})
        if why:
            return Trouble("device", why)
        return Trouble("need", _listing(lacking)) if lacking else None

    def _unseen(self, vendor: str | None, without: set[str]) -> str | None:
        """Devices that the machine shows, beyond those that their driver found; not those `without` a driver."""
        drivers = {each["driver"] for each in self.shown if vendor in (None, each["driver"])} - without
        for driver in sorted(drivers):
            on_bus = [each for each in self.shown if each["driver"] == driver and each["where"].startswith("PCI")]
            found = sum(device.driver == driver for device in self.devices)
            if not found:
                places = _listed([each["where"] for each in self.shown if each["driver"] == driver])
                return f"the machine shows {places}, the {driver} driver finds no device: look at dmesg"
            if len(on_bus) > found:
                return f"the PCI bus shows {len(on_bus)} {driver} devices, the driver {found}: look at dmesg"
        return None


def _listing(problems: Sequence[dict[str, Any]]) -> str:
    return "; ".join(_problem(each) for each in problems)


def _problem(problem: dict[str, Any]) -> str:
    shown = problem.get("shown") or []
    place = f" ({_listed(shown)})" if shown else ""
    return f"{problem['driver']}{place}: {problem['reason']}"


def _listed(places: Sequence[str]) -> str:
    return ", ".join(places[:2]) + (" ..." if len(places) > 2 else "")


def facts(metric: str, discovery: Discovery, sku: Sku | None, now: float = 0.0) -> list[Measurement]:
    """The measurements of one metric of the inventory or of the health, made at `now` (seconds since the epoch)."""
    if metric == "inventory.driver":
        trouble = discovery.unreachable(sku.vendor if sku else None)
        return [Measurement(metric, NODE, "text", None if trouble else "ok", trouble=trouble, started=now, ended=now)]
    if metric == "inventory.count":
        return [_count(discovery, sku, now)]
    if metric == "inventory.sku":
        return [_sku(metric, device, sku, now) for device in discovery.devices]
    return _stated(metric, discovery.devices, now)


def _sku(metric: str, device: Device, sku: Sku | None, now: float) -> Measurement:
    """Which product a device is; nobody knows where no library could be asked for a name."""
    unread = device.facts.get("unread", {})
    if sku and not device.model and not device.pci_id and EVERYTHING_ELSE in unread:
        trouble = Trouble("need", f"the name: {unread[EVERYTHING_ELSE]}")
        return Measurement(metric, device.uuid, "text", trouble=trouble, started=now, ended=now)
    return Measurement(metric, device.uuid, "text", _product(device, sku), started=now, ended=now)


def _count(discovery: Discovery, sku: Sku | None, now: float) -> Measurement:
    """How many devices there are; nobody knows where we have no driver for them."""
    count = len({device.uuid for device in discovery.devices})  # two of one identity would be measured as one
    trouble = None if count else discovery.unreachable(sku.vendor if sku else None)
    if trouble and trouble.kind == "need":
        return Measurement("inventory.count", NODE, "count", trouble=trouble, started=now, ended=now)
    return Measurement("inventory.count", NODE, "count", count, started=now, ended=now)


def _stated(metric: str, devices: Sequence[Device], now: float) -> list[Measurement]:
    """What every device states, each beside what the others do."""
    found = {device: factsheet.read(metric, device) for device in devices}
    on_all = {device.name: value for device, (_, value, _) in found.items() if value is not None}
    stated = [
        Measurement(
            metric=metric,
            subject=device.uuid,
            unit=unit,
            value=value,
            trouble=trouble,
            disturbance=factsheet.disturbance(metric, device),
            started=now,
            ended=now,
            details={ON_ALL: on_all},
        )
        for device, (unit, value, trouble) in found.items()
    ]
    return withheld(stated, devices)


def withheld(found: Sequence[Measurement], devices: Sequence[Device]) -> list[Measurement]:
    """The measurements, with a need in place of "cannot exist" where it does on devices of the same model.

    What one of them has exists: another that has not is no device that cannot have it.
    """
    models = {device.uuid: device.model for device in devices}
    return [_as_others(each, found, models) for each in found]


def _as_others(one: Measurement, found: Sequence[Measurement], models: Mapping[str, str]) -> Measurement:
    if one.trouble is None or one.trouble.kind != "not_applicable" or one.subject not in models:
        return one
    alike = [each for each in found if each.metric == one.metric and models.get(each.subject) == models[one.subject]]
    having = sum(each.trouble is None for each in alike)
    if not having:
        return one
    reason = f"{one.trouble.reason}, while {having} of {len(alike)} devices state it"
    return replace(one, trouble=Trouble("need", reason))


def host_fact(metric: str, answer: Mapping[str, Any], now: float = 0.0) -> Measurement:
    """One fact of the host as the sensor answered. What is hidden from this user here is measured where it is not:
    without a limit that is no news, with one it is UNMEASURED. It was read at `now` (seconds since the epoch)."""
    name = metric.removeprefix("host.")
    why = answer.get("absent") or answer.get("unreadable")
    details = {**answer.get("details", {}), **({"worst": answer["worst"]} if answer.get("worst") else {})}
    return Measurement(
        metric=metric,
        subject=NODE,
        unit=FACTS[name].unit,
        value=answer.get("value"),
        trouble=Trouble("not_applicable", why) if why else None,
        started=now,
        ended=now,
        details=details,
    )


def _product(device: Device, sku: Sku | None) -> str:
    """The SKU's name if the device is one, else what it says it is and what tells it from one."""
    why = sku.why_not(device) if sku else None
    if sku and why is None:
        return sku.name
    shown = f"{device.model or 'no name'} ({device.pci_id or 'no PCI id'})"
    return f"{shown}: {why}" if why else shown
