"""Google TPUs: they are neither discovered nor measured."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_accel.drivers.interface import Driver, Hint
from pytest_accel.drivers.vendor import NO_XLA, Vendor


def _open(shown: Sequence[Hint]) -> Driver:
    from pytest_accel.drivers.pci_only import PciOnlyDriver

    return PciOnlyDriver(VENDOR, shown, wanted="libtpu")


VENDOR = Vendor(
    name="google",
    title="TPU",
    make_driver=_open,
    no_torch=NO_XLA,
)
