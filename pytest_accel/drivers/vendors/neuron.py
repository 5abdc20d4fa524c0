"""AWS Trainium and Inferentia: known by the PCI bus alone, not measured."""

from __future__ import annotations

from functools import partial

from pytest_accel.drivers.pci_only import PciOnlyDriver
from pytest_accel.drivers.vendor import NO_XLA, PROCESSING, Vendor

VENDOR = Vendor(
    name="neuron",
    title="AWS Neuron",
    make_driver=partial(PciOnlyDriver, "AWS Neuron", library="the Neuron runtime (neuron-ls, neuron-monitor)"),
    pci_vendor="0x1d0f",
    pci_classes=(PROCESSING,),
    nodes=("neuron[0-9]*",),
    no_torch=NO_XLA,
)
