"""Which SKU, which platform, which devices: from what was asked for and what was found."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku import Platform, Sku, expected_platform
from pytest_accel.core.yaml_lines import BadFile
from pytest_accel.drivers import registry
from pytest_accel.run.options import Refused
from pytest_accel.skus import loader
from pytest_accel.skus.waivers import Waivers, load


def named(name: str) -> Sku | None:
    """The SKU of --accel-sku, None for "auto". Raises Refused."""
    try:
        return None if name == "auto" else loader.load(name)
    except BadFile as bad:
        raise Refused(f"--accel-sku: {bad}") from None


def waivers(path: Path | None) -> Waivers:
    """The waivers of --accel-waivers, as they stand on this host today. Raises Refused."""
    try:
        return load(path, socket.gethostname(), datetime.now(timezone.utc).date()) if path else Waivers()
    except BadFile as bad:
        raise Refused(f"--accel-waivers: {bad}") from None


def sku_of(devices: Sequence[Device]) -> Sku | None:
    """The one SKU that all `devices` are, None if there is no device. Raises Refused if they are none or several."""
    if not devices:
        return None
    try:
        known = loader.recognise(list(devices), loader.load_shipped())
    except BadFile as bad:
        raise Refused(f"a shipped threshold file is broken: {bad}") from None
    if len(known) == 1:
        return known[0]
    models = ", ".join(sorted({f"{device.model or 'no name'} ({device.pci_id})" for device in devices}))
    if known:
        names = ", ".join(sku.name for sku in known)
        raise Refused(f"--accel-sku=auto: {models} may be {names}; name one")
    raise Refused(f"--accel-sku=auto: no shipped SKU is {models}; give a threshold file of your own")


def platform_of(sku: Sku, wanted: str, devices: Sequence[Device]) -> tuple[Platform, str | None]:
    """The platform, and why it may be doubted. Raises Refused for one that the SKU does not come in."""
    if wanted == "auto":
        platform, usual = expected_platform(sku, devices)
        return platform, None if usual else f"platform {platform.name} was recognised by its device count, not named"
    if wanted not in sku.platforms:
        names = ", ".join(sku.platforms)
        raise Refused(f"--accel-platform: {sku.name} has no platform '{wanted}' (it has: {names})")
    return sku.platforms[wanted], None


def choices(devices: Sequence[str], found: Sequence[Device]) -> dict[str, list[str]]:
    """What narrows the devices, by what says so: the option, and the environment. Raises Refused."""
    narrowing = registry.vendor(found[0].driver).visibility.narrowing(found, os.environ) if found else {}
    for name, entries in narrowing.items():
        if entries in ([], ["-1"], ["NoDevFiles"]):
            raise Refused(f"{name}={os.environ[name]} hides every device: unset it")
    if devices:
        narrowing["--accel-devices"] = list(devices)
    return narrowing


def chosen(found: Sequence[Device], entries: Sequence[str], by: str) -> list[Device]:
    """The devices that the entries name: by index, by name, or by the beginning of a UUID. Raises Refused."""
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
            raise Refused(f"{by}: no device {entry!r}; there are {names}")
        kept += [device for device in matching if device not in kept]
    return kept
