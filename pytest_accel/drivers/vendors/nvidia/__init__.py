"""NVIDIA GPUs, through NVML and torch.cuda."""

from collections.abc import Sequence

from pytest_accel.drivers.interface import Driver, Hint
from pytest_accel.drivers.vendor import DISPLAY_3D, VGA, TorchKind, Vendor
from pytest_accel.drivers.vendors.nvidia.visibility import CudaVisibility


def _open(_shown: Sequence[Hint]) -> Driver:
    from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver

    return NvidiaDriver()


VENDOR = Vendor(
    name="nvidia",
    title="NVIDIA",
    make_driver=_open,
    library="pynvml",
    install="pip install nvidia-ml-py",
    pci_vendor="0x10de",
    pci_classes=(VGA, DISPLAY_3D),
    nodes=("nvidia[0-9]*",),
    unseen=True,
    visibility=CudaVisibility(),
    torch=TorchKind("cuda", "nccl"),
    equal_rates=False,
)
