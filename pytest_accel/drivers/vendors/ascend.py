"""Huawei Ascend: known by the PCI bus alone, driven by torch.npu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_accel.core.measurement import Device
from pytest_accel.drivers.interface import Driver, Hint
from pytest_accel.drivers.vendor import PROCESSING, TorchKind, Vendor
from pytest_accel.drivers.visibility import Visibility, entries, indices

CANN = "ASCEND_RT_VISIBLE_DEVICES"


class CannVisibility(Visibility):
    """Selection by index, as the runtime of CANN reads it."""

    def narrowing(self, found: Sequence[Device], environment: Mapping[str, str]) -> dict[str, list[str]]:  # noqa: ARG002
        """Return the entries of ASCEND_RT_VISIBLE_DEVICES, if it is set."""
        return {CANN: entries(environment[CANN])} if CANN in environment else {}

    def selecting(self, group: Sequence[Device]) -> dict[str, str | None]:
        """Return the environment in which CANN shows only these devices."""
        return {CANN: indices(group)}


def _open(shown: Sequence[Hint]) -> Driver:
    from pytest_accel.drivers.pci_only import PciOnlyDriver

    return PciOnlyDriver(VENDOR, shown, wanted="DCMI (npu-smi)")


VENDOR = Vendor(
    name="ascend",
    title="Ascend",
    make_driver=_open,
    pci_vendor="0x19e5",
    pci_classes=(PROCESSING,),
    nodes=("davinci[0-9]*",),
    visibility=CannVisibility(),
    torch=TorchKind("npu", "hccl", "torch_npu"),
)
"""Source of the torch names: github.com/Ascend/pytorch."""
