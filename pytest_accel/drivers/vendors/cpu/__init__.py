"""The processor as a device, through /proc, /sys, psutil and torch on the CPU."""

from pytest_accel.drivers.vendor import TorchKind, Vendor, importing

VENDOR = Vendor(
    name="cpu",
    title="CPU",
    make_driver=importing("pytest_accel.drivers.vendors.cpu.driver", "CpuDriver"),
    library="psutil",
    install="pip install psutil",
    short_name="cpu",
    accelerator=False,
    torch=TorchKind("cpu", "gloo"),
    readings_per_second=2.0,  # the reading itself runs on the processor
    equal_rates=False,
)
