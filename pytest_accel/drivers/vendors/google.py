"""Google TPUs: they are neither discovered nor measured."""

from __future__ import annotations

from functools import partial

from pytest_accel.drivers.pci_only import PciOnlyDriver
from pytest_accel.drivers.vendor import NO_XLA, Vendor

VENDOR = Vendor(
    name="google",
    title="TPU",
    make_driver=partial(PciOnlyDriver, "TPU", library="libtpu"),
    no_torch=NO_XLA,
)
