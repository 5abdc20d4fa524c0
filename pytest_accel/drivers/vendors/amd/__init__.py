"""AMD GPUs, through amdsmi and torch's build for ROCm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.drivers.diagnostic_report import Diagnostic, Program
from pytest_accel.drivers.vendor import DISPLAY_OTHER, PROCESSING, TorchKind, Vendor, importing
from pytest_accel.drivers.vendors.amd import agfhc
from pytest_accel.drivers.visibility import Visibility, address_of, bus_address, entries

ROCR, HIP = "ROCR_VISIBLE_DEVICES", ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""ROCr reads the first, by index or UUID. HIP selects among the remaining devices by the first of the others that is
set."""


class RocmVisibility(Visibility):
    """Selection by ROCr, then by HIP among the remaining devices; indices are in HIP's order."""

    def narrowing(self, devices: Sequence[Device], environment: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the entries of the ROCr variable, then those of the HIP variable, as UUIDs where they are known."""
        order, selection = sorted((_hip_index(device) for device in devices), key=int), {}
        for name in (ROCR, next((variable for variable in HIP if variable in environment), HIP[0])):
            if name in environment:
                words = entries(environment[name])
                order = [order[int(word)] if word.isdigit() and int(word) < len(order) else word for word in words]
                selection[name] = [_uuid(word, devices) for word in order]
        return selection

    def selecting(self, group: Sequence[Device]) -> dict[str, str | None]:
        """Return the environment in which ROCr shows only these devices, and HIP all of them."""
        names = [str(device.facts.get("visible_as", device.index)) for device in group]
        return {ROCR: ",".join(names), **dict.fromkeys((*HIP, "GPU_DEVICE_ORDINAL"))}

    def mistaken(self, properties: Any, device: Device) -> str | None:
        """Compare address and UUID: either may prove the device, if torch reports it."""
        uuid, visible_as = str(getattr(properties, "uuid", "")).lower(), str(device.facts.get("visible_as", "")).lower()
        evidence = {
            address_of(properties): bus_address(device),
            _spelled(uuid): visible_as.removeprefix("gpu-").replace("-", "") if visible_as.startswith("gpu-") else "",
        }
        comparable = {actual: expected for actual, expected in evidence.items() if actual and expected}
        if not comparable or any(actual == expected for actual, expected in comparable.items()):
            return None
        return " ".join(comparable)


def _hip_index(device: Device) -> str:
    """Return the index of the device in HIP's own order."""
    return str(device.facts.get("hip_id", device.index))


def _uuid(entry: str, devices: Sequence[Device]) -> str:
    """Return the UUID of the device for HIP's index or HIP's UUID; any other entry is returned unchanged."""
    for device in devices:
        if entry == _hip_index(device) or entry.lower() == str(device.facts.get("visible_as", "")).lower():
            return device.uuid
    return entry


def _spelled(uuid: str) -> str:
    """Return the UUID that torch prints for a HIP device in HIP's own spelling.

    HIP's 16 bytes are the hexadecimal digits of the number as ASCII characters, which torch prints as if they were
    bytes of a UUID.
    """
    digits = uuid.replace("-", "")
    try:
        letters = bytes.fromhex(digits).decode("ascii")
        int(letters, 16)
    except ValueError:
        return digits
    return letters.lower()


VENDOR = Vendor(
    name="amd",
    title="AMD",
    make_driver=importing("pytest_accel.drivers.vendors.amd.driver", "AmdDriver"),
    library="amdsmi",
    install="pip install 'pytest-accel[amd]'",
    pci_vendor="0x1002",
    pci_classes=(DISPLAY_OTHER, PROCESSING),  # VGA is a display adapter, often part of a processor
    shared_nodes=("kfd",),
    kernel_module="amdgpu",
    visibility=RocmVisibility(),
    # RCCL opens the memory of its peers by HIP's IPC, which fails with "invalid device ordinal", or falls back to the
    # host's memory, if the peer is not visible in the process (ROCm/rocm-systems PR 8136, modelscope/ms-swift PR 9627)
    torch=TorchKind("cuda", "nccl", hip=True, ranks_see_all=True),
    equal_rates=False,
    diagnostic=Diagnostic(
        Program("/opt/amd/agfhc/agfhc", "AMD gives AGFHC to its customers", "agfhc_*/results.json"),
        agfhc.arguments,
        agfhc.read,
        bug_report=Program("rocm_techsupport.sh", "install rocm_techsupport"),
    ),
)
