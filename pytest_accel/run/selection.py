"""The choice of SKU, platform and devices, from the options and from the devices that were discovered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.core.measurement import Device
from pytest_accel.core.node_name import node_name
from pytest_accel.core.sku import Platform, Sku, expected_platform
from pytest_accel.core.yaml_lines import BadFile
from pytest_accel.drivers import registry
from pytest_accel.judging import partitions
from pytest_accel.run.options import Refused
from pytest_accel.skus import contract, loader, packing_list, products
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.skus.products import Product
from pytest_accel.skus.waivers import Waivers, load


class Unrecognised(Refused):
    """An error for devices that no shipped SKU, or more than one, matches as a whole."""


def named(name: str) -> Sku | None:
    """Return the SKU that --accel-sku names, None for "auto". Raises Refused for an unknown name or a wrong file."""
    try:
        return None if name == "auto" else loader.load(name)
    except BadFile as bad:
        raise Refused(f"--accel-sku: {bad}") from None


def refuse_contradictions(sku: Sku | None, platform: str | None, level: str | None) -> None:
    """Raise Refused if the contract of a SKU is for another platform or level than the one given (None: not given)."""
    for option, key, given in (("--accel-platform", "platform", platform), ("--accel-level", "level", level)):
        if why := contract.contradiction(sku, option, key, given):
            raise Refused(why)


def refuse_rehearsed(sku: Sku) -> None:
    """Raise Refused for a SKU with limits that were calibrated from simulated nodes: they say nothing of hardware."""
    if sku.rehearsed:
        raise Refused(
            f"--accel-sku: {sku.rehearsed} was calibrated from simulated nodes and cannot judge hardware; "
            "calibrate from records of hardware, or rehearse with --accel-simulate"
        )


def waivers(path: Path | None) -> Waivers:
    """Return the waivers of the file of --accel-waivers, for this host and today. Raises Refused for a wrong file."""
    try:
        return load(path, node_name(), datetime.now(timezone.utc).date()) if path else Waivers()
    except BadFile as bad:
        raise Refused(f"--accel-waivers: {bad}") from None


def boards(path: Path | None) -> PackingList | None:
    """Return the packing list of --accel-expect, None without one. Raises Refused for a wrong file."""
    try:
        return packing_list.load(path) if path else None
    except BadFile as bad:
        raise Refused(f"--accel-expect: {bad}") from None


def sku_of(devices: Sequence[Device]) -> Sku | None:
    """Return the shipped SKU that all `devices` match, None if there is no device.

    Raises Unrecognised if no SKU matches or more than one does.
    """
    if not devices:
        return None
    found = products_of(devices)
    if len(found) == 1 and len(found[0].skus) == 1:
        return found[0].skus[0]
    if not any(each.skus for each in found):
        refuse_divided(devices, Platform("unknown", None))  # a part of a device is no product of its own
    raise Unrecognised(f"--accel-sku=auto: {_unrecognised(found)}")


def sku_soon(devices: Sequence[Device]) -> Sku | None:
    """Return what `sku_of` does, but load only the shipped files that name the devices, if that is enough."""
    words = {word for each in devices for word in (each.model, each.pci_id or "")}
    words |= {f"vendor: {each.driver}" for each in devices if not registry.vendor(each.driver).accelerator}
    try:
        found = products.products(devices, loader.load_naming(words))
    except BadFile as bad:
        raise Refused(f"a shipped threshold file is broken: {bad}") from None
    if len(found) == 1 and len(found[0].skus) == 1:
        return found[0].skus[0]
    return sku_of(devices)


def products_of(devices: Sequence[Device]) -> list[Product]:
    """Return the products among the devices, by the shipped SKUs. Raises Refused if one of their files is broken."""
    try:
        return products.products(devices, loader.load_shipped())
    except BadFile as bad:
        raise Refused(f"a shipped threshold file is broken: {bad}") from None


def _unrecognised(found: Sequence[Product]) -> str:
    """Return why the devices are not of one shipped SKU, and what to do."""
    most = found[0]
    if len(found) > 1:
        return f"the devices are not one product: {products.not_one_product(found)}; name the SKU that they should be"
    if most.skus:
        return f"{most.stated} matches several SKUs: {', '.join(sku.name for sku in most.skus)}; name one of them"
    remedy = "'pytest-accel discover' prints a threshold file to fill in"
    return f"no shipped SKU matches {most.stated}; {most.unknown}; {remedy}"


def platform_of(sku: Sku, wanted: str, devices: Sequence[Device]) -> tuple[Platform, str | None]:
    """Return the platform, and why it is uncertain (None if it was named or is the usual one).

    Raises Refused for a platform that the SKU's file does not define.
    """
    if wanted == "auto":
        platform, usual = expected_platform(sku, devices)
        return platform, None if usual else f"platform {platform.name} was recognised by its device count, not named"
    named = sku.platform_named(wanted)
    if named is None:
        names = ", ".join(sku.platform_names)
        raise Refused(f"--accel-platform: {sku.name} has no platform '{wanted}'; choose from {names}")
    return named, None


def refuse_divided(devices: Sequence[Device], platform: Platform) -> None:
    """Raise Refused if a device is not partitioned as the platform states: whole, unless it says otherwise."""
    if why := partitions.refusal(devices, platform):
        raise Refused(why)


def choices(devices: Sequence[str], found: Sequence[Device]) -> dict[str, list[str]]:
    """Return the entries that select devices, by the name of the option or environment variable that holds them.

    Raises Refused for a variable that hides every device.
    """
    narrowing = registry.vendor(found[0].driver).visibility.narrowing(found, os.environ) if found else {}
    for name, entries in narrowing.items():
        if entries in ([], ["-1"], ["NoDevFiles"]):
            raise Refused(f"{name}={os.environ[name]} hides every device: unset it")
    if devices:
        narrowing["--accel-devices"] = list(devices)
    return narrowing


def chosen(found: Sequence[Device], entries: Sequence[str], by: str) -> list[Device]:
    """Return the devices that the entries name: by index, by name, or by the beginning of a UUID.

    `by` is the option or variable that holds the entries. Raises Refused for an entry that names no device, more than
    one, or a MIG slice.
    """
    kept: list[Device] = []
    for entry in entries:
        if entry.upper().startswith("MIG-"):
            raise Refused(f"{by}: {entry} is a slice of a device; slices are not accepted, name whole devices")
        matching = [
            device
            for device in found
            if entry in (str(device.index), device.name) or (len(entry) > 4 and device.uuid.startswith(entry))
        ]
        if len(matching) != 1:
            names = ", ".join(f"{device.index} ({device.uuid})" for device in found)
            known = f"the devices are {names}" if names else "no device was found here at all"
            raise Refused(f"{by}: no device {entry!r}; {known}")
        kept += [device for device in matching if device not in kept]
    return kept
