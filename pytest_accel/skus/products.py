"""Recognition: the SKUs that the devices of a node match, and the nearest one where none does. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import Sku
from pytest_accel.drivers import registry

NAMED_ONE_BY_ONE = 3
"""The number of devices up to which each is named, instead of counting them, where most are meant."""


@dataclass(frozen=True)
class Product:
    """Devices of one node that state the same product.

    `skus` are those that match them. Without any, `nearest` is the SKU of the same vendor that is most like them, None
    if no SKU of the vendor is known.
    """

    devices: tuple[Device, ...]
    skus: tuple[Sku, ...] = ()
    nearest: Sku | None = None

    @property
    def stated(self) -> str:
        """The name and the PCI id that the devices state."""
        device = self.devices[0]
        return f"{device.model} ({device.pci_id or 'no PCI id'})" if device.model else device.product

    @property
    def differences(self) -> list[str]:
        """The differences of the devices from the nearest SKU."""
        return self.nearest.differences(self.devices[0]) if self.nearest else []

    @property
    def is_what(self) -> str:
        """The SKU that the devices are, as a noun: "h100-sxm (NVIDIA H100 80GB HBM3 (10de:2330))"."""
        if self.skus:
            return f"{' or '.join(sku.name for sku in self.skus)}, {self.stated}"
        return f"no shipped SKU, {self.stated}"

    @property
    def unknown(self) -> str:
        """The reason why no SKU matches: the differences from the nearest one."""
        if self.nearest is None:
            return f"no SKU of vendor {self.devices[0].driver} is shipped"
        return f"nearest is {self.nearest.name}: {', '.join(self.differences)}"

    @property
    def names(self) -> str:
        """The names of the devices: "gpu3, gpu5"."""
        return ", ".join(device.name for device in self.devices)

    @property
    def who(self) -> str:
        """The names of the devices, or their number if they are many."""
        return self.names if len(self.devices) <= NAMED_ONE_BY_ONE else f"{len(self.devices)} devices"


def products(devices: Sequence[Device], skus: Sequence[Sku]) -> list[Product]:
    """Return the products among `devices`, that of most devices first.

    Devices that match the same SKUs are one product, however they call themselves.
    """
    matching = {device.uuid: recognise([device], skus) for device in devices}
    names = {uuid: tuple(sku.name for sku in matches) for uuid, matches in matching.items()}

    def key(device: Device) -> tuple[object, ...]:
        identity = device.driver, device.model, device.pci_id, round(device.memory_bytes / 1e9)
        return names[device.uuid] or identity

    result = [
        Product(tuple(group), tuple(matches), None if matches else nearest(group[0], skus))
        for group in grouped(devices, key).values()
        for matches in [matching[group[0].uuid]]
    ]
    return sorted(result, key=lambda product: -len(product.devices))


def recognise(devices: Sequence[Device], skus: Sequence[Sku]) -> list[Sku]:
    """Return the SKUs that match every one of `devices`; none if there is no device or if they differ.

    One without `match` is recognised only if its devices are on every machine.
    """
    candidates = [sku for sku in skus if sku.match or not registry.vendor(sku.vendor).accelerator]
    return [sku for sku in candidates if devices and all(map(sku.recognises, devices))]


def nearest(device: Device, skus: Sequence[Sku]) -> Sku | None:
    """Return the SKU of the device's vendor that is most like it, or None if there is none."""
    candidates = [sku for sku in skus if sku.vendor == device.driver and sku.match]
    return max(candidates, key=lambda sku: _likeness(device, sku), default=None)


def not_one_product(products: Sequence[Product]) -> str:
    """Return a sentence on devices of several products: that of most, and the odd ones with theirs."""
    main, *odd = products
    return "; ".join([f"{main.who}: {main.is_what}", *(f"{product.names}: {product.is_what}" for product in odd)])


def _likeness(device: Device, sku: Sku) -> tuple[int, float]:
    """Return the number of name and PCI id that agree, and the likeness of names and memory sizes."""
    match = sku.match
    agreeing = (device.model in match.get("names", ())) + (device.pci_id in match.get("pci_ids", ()))
    names = [str(name).lower() for name in match.get("names") or [sku.title]]
    likeness = max(SequenceMatcher(None, device.model.lower(), name).ratio() for name in names)
    nominal, actual = float(sku.datasheet.memory.get("gb", 0.0)), device.memory_bytes / 1e9
    return agreeing, likeness + (min(nominal, actual) / max(nominal, actual) if nominal and actual else 0.0)
