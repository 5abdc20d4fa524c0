"""Intel data centre GPUs: known by the PCI bus alone, driven by torch.xpu."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pytest_accel.core.measurement import Device
from pytest_accel.drivers.pci_only import PciOnlyDriver
from pytest_accel.drivers.vendor import DISPLAY_OTHER, PROCESSING, TorchKind, Vendor
from pytest_accel.drivers.visibility import Visibility, indices

ZE = "ZE_AFFINITY_MASK"

TILES = {"8086:0bd5": 2, "8086:0bd6": 2}
"""Cards that are several devices to torch: Data Center GPU Max 1550 "(2 Tile)" (pci.ids)."""


class LevelZeroVisibility(Visibility):
    """Selection by index in PCI order, each tile a device (Level Zero specification, environment variables)."""

    variables = (ZE,)

    def selecting(self, group: Sequence[Device]) -> dict[str, str | None]:
        """Return the environment in which Level Zero shows only these devices, and no other variable selects any."""
        order = {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}
        unset = dict.fromkeys(("ONEAPI_DEVICE_SELECTOR", "SYCL_DEVICE_FILTER", "PYTORCH_ENABLE_XPU_FALLBACK"))
        return {ZE: indices(group), **order, **unset}


VENDOR = Vendor(
    name="intel",
    title="Intel",
    make_driver=partial(
        PciOnlyDriver,
        "Intel",
        library="Level Zero sysman (xpu-smi)",
        tiles=TILES,
        why_no_link="an Intel GPU may show the link within its card: Level Zero sysman states the other",
    ),
    pci_vendor="0x8086",
    pci_classes=(DISPLAY_OTHER, PROCESSING),
    visibility=LevelZeroVisibility(),
    torch=TorchKind("xpu", "xccl", device_errors=("ERROR_DEVICE_LOST",)),
)
"""Source of the torch names: docs.pytorch.org (torch.xpu, torch.distributed)."""
