"""Intel Gaudi: known by the PCI bus alone, driven by torch.hpu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pytest_accel.core.measurement import Device
from pytest_accel.drivers.pci_only import PciOnlyDriver
from pytest_accel.drivers.vendor import PROCESSING, TorchKind, Vendor
from pytest_accel.drivers.visibility import Visibility, entries

MODULES, MODULE = "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID"
"""The variables hold modules, which only the kernel driver knows."""


class ModuleVisibility(Visibility):
    """Selection of the one module that a process opens (docs.habana.ai, Gaudi-to-process assignment)."""

    def narrowing(self, devices: Sequence[Device], environment: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the entries of the two variables, if set, with the UUIDs of the modules that they name."""
        values = {name: entries(environment[name]) for name in (MODULES, MODULE) if name in environment}
        return {name: [_module(entry, devices) for entry in modules] for name, modules in values.items()}

    def selecting(self, group: Sequence[Device]) -> dict[str, str | None]:
        """Return the environment of a worker that opens this module only."""
        module = group[0].facts.get("module_id") if len(group) == 1 else None
        # eager mode, because a lazy graph would run after the events that are to time it
        return {MODULE: None if module is None else str(module), MODULES: None, "PT_HPU_LAZY_MODE": "0"}

    def unselectable(self, group: Sequence[Device]) -> str | None:
        """Return why no environment selects these devices, None if one does."""
        if len(group) > 1:
            return "a process can open only one Gaudi, so it cannot copy between two"
        if "module_id" not in group[0].facts and not group[0].facts.get("sole"):
            return f"the module of {group[0].pci_address} is not known: its kernel driver shows no module_id"
        return None


def _module(entry: str, devices: Sequence[Device]) -> str:
    """Return the UUID of a Gaudi module, or "module N" (which matches no device) if the kernel shows no modules."""
    uuids = {str(device.facts.get("module_id")): device.uuid for device in devices}
    return uuids.get(entry, f"module {entry}")


VENDOR = Vendor(
    name="habana",
    title="Gaudi",
    make_driver=partial(PciOnlyDriver, "Gaudi", library="hlml (hl-smi)"),
    pci_vendor="0x1da3",
    pci_classes=(PROCESSING,),
    nodes=("accel/accel*",),
    visibility=ModuleVisibility(),
    torch=TorchKind("hpu", "hccl", "habana_frameworks.torch.core", "habana_frameworks.torch.distributed.hccl"),
)
"""Source of the torch names: docs.habana.ai."""
