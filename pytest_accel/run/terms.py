"""The terms of a judgement: SKU, platform, level, limits and devices, for a run, a health check and `judge` alike.

Errors name the options as the command spells them, which is passed in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_accel.core.floor import NOTHING_KNOWN, floor_in_force
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import Device
from pytest_accel.core.node_name import node_name
from pytest_accel.core.run import Circumstances, Objection
from pytest_accel.core.sku_types import Basis, Limit, Platform, Sku, Spread, expected_platform
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.drivers import registry
from pytest_accel.judging.closing.parts import as_ranges
from pytest_accel.judging.facts import diagnostics, packing, partitions
from pytest_accel.judging.verdicts.background import no_spread
from pytest_accel.run.options import AUTO, STANDARD, Refused
from pytest_accel.skus import loader, packing_list, products, readiness, requirements
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.skus.products import Product
from pytest_accel.skus.waivers import Waivers, load


@contextmanager
def refusing(words: str) -> Iterator[None]:
    """Raise Refused with the words before what is wrong with a file."""
    try:
        yield
    except BadFile as bad:
        raise Refused(*bad.prefixed(words)) from None


@dataclass(frozen=True)
class Terms:
    """The terms that a node is judged by, and its devices.

    `packing_list` are the hash of the list that the devices have to be on and whether it names nodes, None without a
    list. `sku_named` is True if the user named the SKU.
    """

    sku: Sku | None = None
    platform: Platform = Platform("unknown", None)  # noqa: RUF009  frozen
    level: str = STANDARD
    devices: tuple[Device, ...] = ()
    """Every device that was found, without display adapters beside accelerators."""
    packing_list: tuple[str, bool] | None = None
    sku_named: bool = False
    doubt: str | None = None
    """The reason why the platform is uncertain, None if it was named or is the usual one."""
    has_diagnostic: bool = False
    """True if the output of the vendor's diagnostic was given."""

    @cached_property
    def limits(self) -> dict[str, Limit]:
        """Every limit of the SKU on the platform, and the limits on the inventory, by metric."""
        emulated = requirements.passed_through(self.devices)
        limits = requirements.limits(self.sku, self.platform, self.expected_devices, emulated_ports=emulated)
        limits = {metric: limit.at_level(self.level) for metric, limit in limits.items()}
        if self.packing_list:
            limits |= packing.limits(self.packing_list[0], self.sku, names_nodes=self.packing_list[1])
        limit = limits.get(diagnostics.METRIC)
        if self.has_diagnostic and self.sku and not (limit and self.level in limit.levels and not limit.warns):
            limits[diagnostics.METRIC] = diagnostics.OF_GIVEN
        return limits

    @cached_property
    def required(self) -> dict[str, Limit]:
        """The limits that the level requires, by metric."""
        return requirements.required_at(self.level, self.limits)

    @property
    def expected_devices(self) -> int:
        """The number of devices that the platform should have."""
        return requirements.device_count(self.platform, len(self.devices))

    @property
    def accelerator(self) -> bool:
        """True if the SKU is one of an accelerator."""
        return self.sku is not None and registry.vendor(self.sku.vendor).accelerator

    @property
    def spread_of(self) -> Callable[[str], Spread | None]:
        """The function that returns the spread of a metric between devices and between runs."""
        return self.sku.spread_of if self.sku else no_spread

    def circumstances(
        self, software: Mapping[str, Any] = NOTHING_KNOWN, of_run: Circumstances | None = None
    ) -> Circumstances:
        """Return the circumstances of a run with software of these versions, and with those that follow from the terms.

        These are the verdicts that the limits require, and what stands against an acceptance by them besides.
        """
        of_run = of_run or Circumstances()
        sku, platform, level, limits = self.sku, self.platform, self.level, self.limits
        count = self.expected_devices
        missing = [f"missing device {index}" for index in range(len(self.devices), count)]
        ready = readiness.Readiness(sku, platform, [level], software) if sku else None
        not_judged = ready.not_judged if ready else []
        floors = [floor_in_force(limit, software) for limit in limits.values() if level in limit.levels]
        parts = {readiness.required_part(floor.bound.metric) for floor in floors if floor.bound.bounded}
        if ready and readiness.HOST_LINK not in parts and ready.floors[readiness.HOST_LINK]:
            not_judged = [readiness.HOST_LINK, *not_judged]  # the devices turned out to be in a virtual machine
        against = [Objection("file", reason)] if (reason := requirements.unfit(sku, platform, level, software)) else []
        calibrated = sku.calibrated_from if sku and any(floor.basis is Basis.OWN for floor in floors) else ()
        if sources := as_ranges([device.name for device in self.devices if device.uuid in calibrated]):
            against.append(Objection("floors", f"floors come from these devices: {sources}"))
        subjects = [*(device.uuid for device in self.devices), *missing]
        return replace(
            of_run,
            required=requirements.required(requirements.applying(limits, sku, platform), level, subjects),
            expected_devices=count,
            sku=sku.name if sku else "",
            level=level,
            against=[*of_run.against, *against],
            not_judged=tuple(not_judged),
            overridden=sum(limit.overridden for limit in limits.values()),
            other_datasheet=sorted(sku.datasheet.overridden) if sku else (),
            own_file=sku.own_file if sku else None,
        )


@dataclass(frozen=True)
class TermOptions:
    """The terms that a user asks for, by options that begin with `prefix`. A `level` of None was not named."""

    sku: str
    platform: str = AUTO
    level: str | None = None
    prefix: str = "--accel-"

    def load_sku(self, *, on_hardware: bool = True) -> Sku | None:
        """Return the SKU that is named, None for "auto".

        Raises Refused for an unknown name, a wrong file, and for limits that were calibrated from simulated nodes, if a
        node of hardware is judged.
        """
        with refusing(f"{self.prefix}sku"):
            sku = None if self.sku == AUTO else loader.load(self.sku)
        if sku and sku.rehearsed and on_hardware:
            raise Refused(
                f"{self.prefix}sku: {sku.rehearsed} was calibrated from simulated nodes and cannot judge hardware; "
                f"calibrate from records of hardware, or rehearse with {self.prefix}simulate"
            )
        return sku

    def terms_for(
        self,
        sku: Sku | None,
        devices: Sequence[Device],
        *,
        level: str | None = STANDARD,
        platform: str = AUTO,
        packing_list: tuple[str, bool] | None = None,
    ) -> Terms:
        """Return the terms by which devices are judged as a SKU. `level` and `platform` hold if none is named.

        Raises Refused where neither names a level, and for a platform that the SKU's file does not define.
        """
        level = self.level or level
        if level not in LEVELS:
            raise Refused(f"{self.prefix}level: the record names no level; choose {', '.join(LEVELS)}")
        if sku is None:
            return Terms(None, level=level, devices=tuple(devices), packing_list=packing_list)
        if self.platform != AUTO:
            platform = self.platform
        devices = sku.accelerators(devices)
        node_platform, doubt = platform_of(sku, platform, devices, f"{self.prefix}platform")
        return Terms(sku, node_platform, level, tuple(devices), packing_list, self.sku != AUTO, doubt)


class Unrecognised(Refused):
    """An error for devices that no shipped SKU, or more than one, matches as a whole."""


def waivers(path: Path | None, option: str = "--accel-waivers") -> Waivers:
    """Return the waivers of the file that an option names, for this host and today. Raises Refused for a wrong file."""
    with refusing(option):
        return load(path, node_name(), datetime.now(timezone.utc).date()) if path else Waivers()


def boards(path: Path | None, option: str = "--accel-packing-list") -> PackingList | None:
    """Return the packing list that an option names, None without one. Raises Refused for a wrong file."""
    with refusing(option):
        return packing_list.load(path) if path else None


def sku_of(devices: Sequence[Device], prefix: str = "--accel-") -> Sku | None:
    """Return the shipped SKU that all `devices` match, None if there is no device.

    Raises Unrecognised if no SKU matches or more than one does.
    """
    if not devices:
        return None
    words = {word for device in devices for word in (device.model, device.pci_id or "")}
    words |= {f"vendor: {device.driver}" for device in devices if not registry.vendor(device.driver).accelerator}
    # first by the shipped files that name the devices: to load all of them takes a second
    if sku := _sole(products_of(devices, words), devices):
        return sku
    matches = products_of(devices)
    if sku := _sole(matches, devices):
        return sku
    if not any(product.skus for product in matches):
        refuse_divided(devices, Platform("unknown", None))  # a part of a device is no product of its own
    raise Unrecognised(f"{prefix}sku=auto: {_unrecognised(matches)}")


def _sole(matches: Sequence[Product], devices: Sequence[Device]) -> Sku | None:
    """Return the one SKU that all devices match but for display adapters that no SKU matches, None otherwise."""
    candidates = [product.skus for product in matches if product.skus]
    if len(candidates) != 1 or len(candidates[0]) != 1:
        return None
    (sku,) = candidates[0]
    return sku if all(map(sku.recognises, sku.accelerators(devices))) else None


def products_of(devices: Sequence[Device], words: Collection[str] = ()) -> list[Product]:
    """Return the products among the devices, by the shipped SKUs, or by those alone whose files hold one of `words`.

    Raises Refused if one of the files is broken.
    """
    with refusing("a shipped threshold file is broken"):
        return products.products(devices, loader.load_naming(words) if words else loader.load_shipped())


def _unrecognised(matches: Sequence[Product]) -> str:
    """Return the reason why the devices are not of one shipped SKU, and the remedy."""
    product = matches[0]
    if len(matches) > 1:
        return f"the devices are not one product: {products.not_one_product(matches)}; name the SKU that they should be"
    if product.skus:
        return f"{product.stated} matches several SKUs: {', '.join(sku.name for sku in product.skus)}; name one of them"
    remedy = "'pytest-accel discover' prints a threshold file to fill in"
    return f"no shipped SKU matches {product.stated}; {product.unknown}; {remedy}"


def platform_of(sku: Sku, name: str, devices: Sequence[Device], option: str) -> tuple[Platform, str | None]:
    """Return the platform, and why it is uncertain (None if it was named or is the usual one).

    Raises Refused for a platform that the SKU's file does not define.
    """
    if name == AUTO:
        platform, certain = expected_platform(sku, devices)
        if platform.guest:  # whose, and so on which network, nothing tells
            platform = replace(platform, network={})
        return platform, None if certain else f"platform {platform.name} was recognised by its device count, not named"
    choice = sku.platform_named(name)
    if choice is None:
        names = ", ".join(sku.platform_names)
        raise Refused(f"{option}: {sku.name} has no platform '{name}'; choose from {names}")
    if choice.virtual and (whole_devices := partitions.whole_devices(devices, sku)):
        raise Refused(
            f"{option}: {choice.name} is for virtual functions, whose memory the host watches; "
            f"{whole_devices[0].name} is a whole device ({whole_devices[0].pci_id})"
        )
    return choice, None


def refuse_divided(devices: Sequence[Device], platform: Platform) -> None:
    """Raise Refused if a device is not partitioned as the platform states: whole, unless it says otherwise."""
    if reason := partitions.refusal(devices, platform):
        raise Refused(reason)


def choices(devices: Sequence[str], available: Sequence[Device]) -> dict[str, list[str]]:
    """Return the entries that select devices, by the name of the option or environment variable that holds them.

    Raises Refused for a variable that hides every device.
    """
    selections = registry.vendor(available[0].driver).visibility.narrowing(available, os.environ) if available else {}
    for name, entries in selections.items():
        if entries in ([], ["-1"], ["NoDevFiles"]):
            raise Refused(f"{name}={os.environ[name]} hides every device: unset it")
    if devices:
        selections["--accel-devices"] = list(devices)
    return selections


def select(available: Sequence[Device], entries: Sequence[str], source: str) -> list[Device]:
    """Return the devices that the entries name: by index, by name, or by the beginning of a UUID.

    `source` is the option or variable that holds the entries. Raises Refused for an entry that names no device, more
    than one, or a MIG slice.
    """
    selection: list[Device] = []
    for entry in entries:
        if entry.upper().startswith("MIG-"):
            raise Refused(f"{source}: {entry} is a slice of a device; slices are not accepted, name whole devices")
        matches = [
            device
            for device in available
            if entry in (str(device.index), device.name) or (len(entry) > 4 and device.uuid.startswith(entry))
        ]
        if len(matches) != 1:
            names = ", ".join(f"{device.index} ({device.uuid})" for device in available)
            hint = f"the devices are {names}" if names else "no device was found here at all"
            raise Refused(f"{source}: no device {entry!r}; {hint}")
        selection += [device for device in matches if device not in selection]
    return selection
