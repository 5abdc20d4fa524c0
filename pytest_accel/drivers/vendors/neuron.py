"""AWS Trainium and Inferentia: known by the PCI bus alone, not measured."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_accel.drivers.interface import Driver, Hint
from pytest_accel.drivers.vendor import NO_XLA, PROCESSING, Vendor


def _open(shown: Sequence[Hint]) -> Driver:
    from pytest_accel.drivers.pci_only import PciOnlyDriver

    return PciOnlyDriver(VENDOR, shown, wanted="the Neuron runtime (neuron-ls, neuron-monitor)")


VENDOR = Vendor(
    name="neuron",
    title="AWS Neuron",
    make_driver=_open,
    pci_vendor="0x1d0f",
    pci_classes=(PROCESSING,),
    nodes=("neuron[0-9]*",),
    no_torch=NO_XLA,
)
