"""The processor as a device, through /proc, /sys, psutil and torch on the CPU."""

from collections.abc import Sequence

from pytest_accel.drivers.interface import Driver, Hint
from pytest_accel.drivers.vendor import TorchKind, Vendor


def _open(_shown: Sequence[Hint]) -> Driver:
    from pytest_accel.drivers.vendors.cpu.driver import CpuDriver

    return CpuDriver()


VENDOR = Vendor(
    name="cpu",
    title="CPU",
    make_driver=_open,
    library="psutil",
    install="pip install psutil",
    short_name="cpu",
    accelerator=False,
    torch=TorchKind("cpu", "gloo"),
    readings_per_second=2.0,  # the reading itself runs on the processor
    equal_rates=False,
)
