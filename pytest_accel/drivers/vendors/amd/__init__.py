"""AMD GPUs, through amdsmi and torch's build for ROCm."""

from collections.abc import Sequence

from pytest_accel.drivers.interface import Driver, Hint
from pytest_accel.drivers.vendor import DISPLAY_OTHER, PROCESSING, TorchKind, Vendor
from pytest_accel.drivers.vendors.amd.visibility import RocmVisibility


def _open(_shown: Sequence[Hint]) -> Driver:
    from pytest_accel.drivers.vendors.amd.driver import AmdDriver

    return AmdDriver()


VENDOR = Vendor(
    name="amd",
    title="AMD",
    make_driver=_open,
    library="amdsmi",
    install="pip install 'pytest-accel[amd]'",
    pci_vendor="0x1002",
    pci_classes=(DISPLAY_OTHER, PROCESSING),  # VGA is a display adapter, often part of a processor
    shared_nodes=("kfd",),
    visibility=RocmVisibility(),
    # RCCL opens the memory of its peers by HIP's IPC, which fails with "invalid device ordinal", or falls back to the
    # host's memory, if the peer is not visible in the process (ROCm/rocm-systems PR 8136, modelscope/ms-swift PR 9627)
    torch=TorchKind("cuda", "nccl", hip=True, ranks_see_all=True),
    equal_rates=False,
)
