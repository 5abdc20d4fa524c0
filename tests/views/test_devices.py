"""What `discover` says of one device of an unknown node."""

from dataclasses import replace

from pytest_accel.core.measurement import Device
from pytest_accel.views.devices import lines

GPU = Device("GPU-1", 3, "nvidia", "NVIDIA Z9", 80_000_000_000, serial="123", pci_id="10de:2999", numa_node=1)


def of(**facts: object) -> list[str]:
    found = lines([replace(GPU, facts=facts)], in_full=True)
    return found[: found.index("reported by the devices:")]


def test_a_divided_device_says_so() -> None:
    """Its figures are those of a part."""
    assert of(mig=True)[-1] == "  parts  MIG is on"
    parts = of(compute_partition="CPX", memory_partition="NPS4", virtualization="vgpu")[-1]
    assert parts == "  parts  compute partition CPX, memory partition NPS4, virtualization vgpu"
    assert not any(line.startswith("  parts") for line in of(mig=False, virtualization="none"))


def test_what_is_not_known_is_left_out() -> None:
    assert of(mig=False) == [
        "gpu3: NVIDIA Z9, 80 GB, GPU-1, no PCI address, serial 123",
        "  ids    PCI 10de:2999",
        "  links  NUMA node 1",
    ]


def test_links_that_are_down_are_seen() -> None:
    assert of(pcie_gen_max=5, pcie_width=8, nvlink_count=18, nvlink_up=17, nvlink_gb_per_s=26.562)[-1] == (
        "  links  PCIe 5 x8, NUMA node 1, 18 links, 17 up, each 26.562 GB/s"
    )
