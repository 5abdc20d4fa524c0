"""Huawei Ascend: known by the PCI bus alone, driven by torch.npu."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pytest_accel.core.measurement import Device
from pytest_accel.drivers.pci_only import PciOnlyDriver
from pytest_accel.drivers.vendor import PROCESSING, TorchKind, Vendor
from pytest_accel.drivers.visibility import Visibility, indices

CANN = "ASCEND_RT_VISIBLE_DEVICES"


class CannVisibility(Visibility):
    """Selection by index, as the runtime of CANN reads it."""

    variables = (CANN,)

    def selecting(self, group: Sequence[Device]) -> dict[str, str | None]:
        """Return the environment in which CANN shows only these devices."""
        return {CANN: indices(group)}


VENDOR = Vendor(
    name="ascend",
    title="Ascend",
    make_driver=partial(PciOnlyDriver, "Ascend", library="DCMI (npu-smi)"),
    pci_vendor="0x19e5",
    pci_classes=(PROCESSING,),
    nodes=("davinci[0-9]*",),
    visibility=CannVisibility(),
    torch=TorchKind("npu", "hccl", "torch_npu"),
)
"""Source of the torch names: github.com/Ascend/pytorch."""
