"""Facts of the host, read from a made tree of /proc, /sys and /dev: each also missing, hidden and garbage."""

from __future__ import annotations

import os
import re
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from host_tree import BUS, CPU, FAR_NIC, GPU, MC, METAL, NIC, Tree, make, rdma, value, why

from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.drivers.host import DECLARED, HostReader
from pytest_accel.drivers.host.place import Place, place
from pytest_accel.drivers.host.reading import HOST_READERS, answer, needed, read


def gpu(path: str = GPU, **files: str) -> dict[str, str]:
    """An accelerator on the PCI bus."""
    address = Path(path).name
    group = f"sys/kernel/iommu_groups/{int(address[5:7], 16)}"
    inside = {"vendor": "0x10de", "class": "0x030200", "numa_node": "0", **files}
    return {
        **{f"{path}/{name}": text for name, text in inside.items()},
        f"sys/bus/pci/devices/{address} -> {path}": "",
        f"{group}/type": "identity",
        f"{path}/iommu_group -> {group}": "",
    }


def card(name: str, lost: str = "3", **device: str) -> dict[str, str]:
    """An Ethernet interface; `infiniband` if it is an RDMA NIC's."""
    folder = f"sys/class/net/{name}"
    inside = {f"{folder}/device/{file}/x": text for file, text in {"x": "", **device}.items()}
    return {**inside, f"{folder}/type": "1", f"{folder}/carrier_down_count": lost}


def config(*capabilities: tuple[int, int]) -> bytes:
    """A PCI configuration space with extended capabilities: number and the 16 bits at offset 6 of each."""
    space = bytearray(4096)
    for place_, (number, control) in enumerate(capabilities):
        at, following = 0x100 + 0x40 * place_, 0x140 + 0x40 * place_
        last = place_ == len(capabilities) - 1
        struct.pack_into("<IHH", space, at, number | 1 << 16 | (0 if last else following) << 20, 0xFF, control)
    return bytes(space)


def bridges(root_port: bytes, upstream: bytes = b"", downstream: bytes = b"") -> dict[str, bytes]:
    plain = config()
    return {
        f"{Path(BUS).parent}/config": root_port,
        f"{BUS}/config": upstream or plain,
        f"{BUS}/0000:12:00.0/config": downstream or plain,
    }


def dimm(mib: int, rated: int, configured: int) -> bytes:
    raw = bytearray(0x28)
    raw[0] = 17
    struct.pack_into("<H", raw, 0x0C, min(mib, 0x7FFF))
    struct.pack_into("<H", raw, 0x15, rated)
    struct.pack_into("<I", raw, 0x1C, mib)
    struct.pack_into("<H", raw, 0x20, configured)
    return bytes(raw)


AER = "Undefined 0\nDLP 0\nTLP 0\nTOTAL_ERR_{} {}\n"
"""After the sample in Linux, Documentation/ABI/testing/sysfs-bus-pci-devices-aer."""
AER_ABOVE = {f"{BUS}/aer_dev_fatal": AER.format("FATAL", 2)}
MEMINFO = {"proc/meminfo": "MemTotal:       2113400000 kB\nMemFree: 1 kB\n"}
ALLOWED = {"proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-3\n", "sys/devices/system/node/node0/cpulist": "0-3\n"}
POLICY = f"{CPU}/cpufreq/policy0"
SLOT = "sys/firmware/dmi/entries/17-{}/raw"

FAR_GPU = "sys/devices/pci0000:c0/0000:c0:0{0}.0/0000:c{0}:00.0"
DOWN = {"state": "1: DOWN", "phys_state": "2: Polling"}
VIRTUAL = f"{NIC[:-1]}2"
"""A virtual function of the NIC."""
BONDED = {f"{NIC}/net/eth0/master -> sys/class/net/bond0": "", "sys/class/net/bond0/bonding/mode": "802.3ad 4",
          "sys/class/net/bond0/speed": "400000", "sys/class/net/bond0/operstate": "up"}  # fmt: skip
KNOWN: list[tuple[str, Tree, Any]] = [
    ("numa_balancing", {"proc/sys/kernel/numa_balancing": "1\n"}, 1),
    ("numa_balancing", {"proc/sys/kernel/ostype": "Linux"}, 0),
    ("cpu_governor", {f"{POLICY}/scaling_governor": "performance\n"}, "performance"),
    (
        "cpu_governor",
        {f"{POLICY}/scaling_governor": "powersave", f"{CPU}/cpufreq/policy1/scaling_governor": "performance"},
        "performance, powersave",
    ),
    ("cpu_clock_cap", {f"{POLICY}/cpuinfo_max_freq": "4000000", f"{POLICY}/scaling_max_freq": "2000000"}, 0.5),
    ("smt", {f"{CPU}/smt/control": "on\n"}, "on"),
    ("kernel_arguments", {"proc/cmdline": "root=/dev/sda iommu=pt token=s3cret numa_balancing=disable\n"},
     "iommu=pt numa_balancing=disable"),
    ("kernel_taint", {"proc/sys/kernel/tainted": str(1 << 4 | 1 << 7 | 1 << 0)}, "machine check, kernel oops"),
    ("kernel_taint", {"proc/sys/kernel/tainted": str(1 << 0 | 1 << 12)}, "none"),  # a proprietary, external module
    ("machine_checks", {"proc/interrupts": "    CPU0 CPU1\nMCE:   1   2   Machine check exceptions\n"}, 3),
    ("huge_pages", {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"}, "madvise"),
    ("huge_pages_reserved", {"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "1000"}, 2.097152),
    ("cpus", {f"{CPU}/online": "0-63,128-191\n"}, 128),
    ("numa_nodes", {"sys/devices/system/node/online": "0-1\n"}, 2),
    ("memory", MEMINFO, pytest.approx(2164.1216)),
    ("cpus_usable", ALLOWED, 4),
    ("cpu_quota", {f"{CPU}/online": "0-7", "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "250000 100000",
                   "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, 2.5),
    ("cpu_quota", {f"{CPU}/online": "0-7", "proc/self/cgroup": "3:cpu,cpuacct:/a\n",
                   "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "150000",
                   "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000"}, 1.5),
    ("cpu_quota", {f"{CPU}/online": "0-7"}, 8.0),
    ("memory_usable", {**MEMINFO, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "64000000000"}, 64.0),
    ("memory_usable", {**MEMINFO, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max"},
     pytest.approx(2164.1216)),
    ("memlock", {"proc/self/limits": "Max locked memory   unlimited   unlimited   bytes\n"}, "unlimited"),
    ("memlock", {"proc/self/limits": "Max locked memory   65536   65536   bytes\n"}, "0.065536 MB"),
    ("peer_memory", {"sys/module/nvidia_peermem/initstate": "live"}, "nvidia_peermem"),
    ("peer_memory", {"sys/module/ext4/initstate": "live"}, "none"),
    ("acs", {**gpu(), **bridges(config())}, "off"),
    ("acs", {**gpu(), **bridges(config((0x000D, 0)))}, "off"),
    ("acs", {**gpu(), **bridges(config((0x0001, 0xFFFF), (0x000D, 0x001D)))}, "on"),
    ("acs", {**gpu(), **bridges(config((0x000D, 0)), downstream=config((0x000D, 0x0001)))}, "on"),
    ("iommu", gpu(), "passthrough"),
    ("iommu", {**gpu(), "sys/kernel/iommu_groups/20/type": "DMA-FQ"}, "passthrough"),  # another device's
    ("iommu", {"sys/kernel/iommu_groups/20/type": "DMA-FQ", "sys/class/iommu/dmar0/x": ""}, "translated"),
    ("iommu", {"sys/kernel/iommu_groups/": "", "sys/class/iommu/": ""}, "off"),
    ("pcie_width", gpu(current_link_width="16", max_link_width="16"), "full"),
    ("pcie_width", gpu(current_link_width="8", max_link_width="16"), "0000:13:00.0 x8 of x16"),
    (
        "pcie_width",
        {
            **gpu(current_link_width="16", max_link_width="16"),
            f"{BUS}/current_link_width": "4", f"{BUS}/max_link_width": "16",
            f"{Path(BUS).parent}/max_link_width": "8",
        },
        "0000:11:00.0 x4 of x8",
    ),
    ("accelerator_numa", {**gpu(), **ALLOWED}, "near"),
    ("accelerator_numa", {**gpu(numa_node="1"), **ALLOWED, "sys/devices/system/node/node1/cpulist": "4-7"},
     "the cpuset excludes every CPU of NUMA node 1, to which 0000:13:00.0 is attached"),
    ("accelerator_numa", {**gpu(numa_node="-1"), **ALLOWED, "sys/devices/system/node/node1/cpulist": "4-7"},
     "the kernel does not know the NUMA node of 0000:13:00.0"),
    ("nic_distance", {**gpu(), **rdma("mlx5_0", {})}, "PIX"),
    ("nic_distance", {**gpu(), **rdma("mlx5_0", {}, FAR_NIC)}, "SYS"),
    ("nics", {**rdma("mlx5_0", {}), **rdma("mlx5_1", {}, FAR_NIC)}, 2),
    ("nics", {}, 0),
    ("nics_active", {}, 0),
    ("nics_active", {**rdma("mlx5_0", {}), **rdma("mlx5_1", {}, VIRTUAL), f"{VIRTUAL}/physfn -> {NIC}": ""}, 1),
    ("nics_active", {**rdma("mlx5_0", DOWN), **rdma("mlx5_1", {}, FAR_NIC)}, 1),
    ("nic_state", rdma("mlx5_0", {}), "active"),
    ("nic_state", {**rdma("mlx5_0", {}), **rdma("mlx5_1", DOWN, FAR_NIC)},
     "mlx5_1/1 DOWN (Polling)"),
    ("nic_rate", {**rdma("mlx5_0", {}), **rdma("mlx5_1", {"rate": "200 Gb/sec (4X HDR)"}, FAR_NIC)}, 25.0),
    ("nic_width", {**rdma("mlx5_0", {}), **rdma("mlx5_1", {"rate": "100 Gb/sec (1X NDR)"}, FAR_NIC)}, "1X, 4X"),
    ("nic_link_layer", rdma("mlx5_0", {"link_layer": "Ethernet"}), "Ethernet"),
    ("nic_firmware", rdma("mlx5_0", {}), "MT_0000000838 28.43.2026"),
    ("nic_link_downed", {**rdma("mlx5_0", {}), **rdma("mlx5_1", {"counters/link_downed": "7"}, FAR_NIC)}, 7),
    ("nic_link_recovery", rdma("mlx5_0", {"counters/link_error_recovery": "2"}), 2),
    ("nic_errors", rdma("mlx5_0", {"counters/symbol_error": "3", "counters/port_rcv_errors": "2"}), 5),
    ("nic_carrier_lost", {**card("rdma0", infiniband="1"), **card("eth0", "9")}, 3),
    ("ethernet_carrier_lost", {**card("rdma0", "9", infiniband="1"), **card("eth0"), **card("eth1", "5")}, 5),
    ("pcie_fatal", {**gpu(aer_dev_fatal=AER.format("FATAL", 0)), **AER_ABOVE}, 2),
    ("pcie_fatal", {**gpu(), **rdma("mlx5_0", {}), f"{NIC}/aer_dev_fatal": AER.format("FATAL", 1)}, 1),
    ("pcie_nonfatal", gpu(aer_dev_nonfatal=AER.format("NONFATAL", 1)), 1),
    ("pcie_corrected", gpu(aer_dev_correctable=AER.format("COR", 40)), 40),
    ("ethernet_rate", {"sys/class/net/eth0/device": "", "sys/class/net/eth0/operstate": "up",
                       "sys/class/net/eth0/type": "1",
                       "sys/class/net/eth0/speed": "100000",
                       # one that is down or no device, where the kernel answers with an error
                       "sys/class/net/ifb0/speed/": "", "sys/class/net/eth1/device": "",
                       "sys/class/net/eth1/speed/": ""}, 12.5),
    ("ecc_corrected", {MC.format(0, "ce"): "0", MC.format(1, "ce"): "12"}, 12),
    ("ecc_uncorrected", {MC.format(0, "ue"): "0"}, 0),
    ("dimms", {SLOT.format(0): dimm(65536, 5600, 4800), SLOT.format(1): dimm(65536, 5600, 4800),
               SLOT.format(2): dimm(0, 0, 0)},
     "2 x 64 GiB at 4800 MT/s (rated 5600)"),
    ("dimms", {SLOT.format(0): dimm(16384, 3200, 3200)}, "1 x 16 GiB at 3200 MT/s"),
    ("product", {"sys/class/dmi/id/sys_vendor": "NVIDIA", "sys/class/dmi/id/product_name": "DGXH100"},
     "NVIDIA DGXH100"),
    ("firmware", {"sys/class/dmi/id/bios_version": "1.2", "sys/class/dmi/id/bios_date": "01/02/2026"},
     "1.2 (01/02/2026)"),
    ("serial", {"sys/class/dmi/id/product_serial": "1664024000123\n"}, "1664024000123"),
    ("machine", {}, "bare metal"),
    ("kernel_log", {"dev/kmsg": ""}, "readable"),
    ("fabric_manager", {**gpu(), "proc/812/comm": "nv-fabricmanage\n"}, "running"),
    ("fabric_manager", {**gpu(), "proc/812/comm": "bash\n"}, "not running"),
    ("imex", {**gpu(), "proc/9/comm": "nvidia-imex"}, "running"),
    ("mps", {**gpu(), "proc/9/comm": "nvidia-cuda-mps"}, "running"),
    ("host_engine", {**gpu(), "proc/9/comm": "nv-hostengine"}, "running"),
]  # fmt: skip
EVERYWHERE = ("shm", "shm_free")
"""Facts of a file system, which a tree has too."""


IDS = [f"{name}-{count}" for count, (name, *_) in enumerate(KNOWN)]


@pytest.mark.parametrize(("name", "tree", "expected"), KNOWN, ids=IDS)
def test_a_fact_is_what_the_files_say(tmp_path: Path, name: str, tree: Tree, expected: Any) -> None:
    assert value(make(tmp_path, tree), name) == expected


def test_every_fact_that_is_declared_is_read() -> None:
    assert set(HOST_FACTS) == set(DECLARED)


def test_every_fact_has_a_test() -> None:
    assert {name for name, *_ in KNOWN} | set(EVERYWHERE) == set(HOST_FACTS)


ANYWAY = {"nics", "nics_active", "machine", "numa_balancing"}
"""Facts that an empty tree has: none."""


@pytest.mark.parametrize("name", sorted(set(HOST_FACTS) - ANYWAY))
def test_what_is_missing_is_said(tmp_path: Path, name: str) -> None:
    assert why(tmp_path, name)


@pytest.mark.parametrize(("name", "tree"), [case[:2] for case in KNOWN], ids=IDS)
def test_what_cannot_be_read_or_is_garbage_breaks_nothing(tmp_path: Path, name: str, tree: Tree) -> None:
    """Each file in turn is empty, garbage, and a folder, which even root cannot read: never an error of ours."""
    for place_, file in enumerate(file for file in tree if " -> " not in file and not file.endswith("/")):
        path = make(tmp_path / str(place_), tree) / file
        for content in (b"", b"\xff\xfe garbage \x00\n", b"-99999999999\n", None):
            if content is None:
                path.unlink()
                path.mkdir()
            else:
                path.write_bytes(content)
            found = answer(HOST_READERS[name], tmp_path / str(place_), METAL)
            reason = str(found.get("unreadable") or found.get("absent") or "")
            assert "value" in found or reason
            assert not re.match(r"\w+Error:", reason), reason


HIDDEN: list[tuple[str, Tree, str]] = [
    ("pcie_width", gpu(current_link_width="8", max_link_width="16"), f"{GPU}/current_link_width"),
    ("memory_usable", {**MEMINFO, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1"},
     "sys/fs/cgroup/memory.max"),
    ("iommu", gpu(), "sys/kernel/iommu_groups/19/type"),
    ("acs", {**gpu(), **bridges(config())}, f"{BUS}/config"),
]  # fmt: skip


def hidden(tree: Tree, file: str) -> Tree:
    """Make a folder of a file, which even root cannot read."""
    return {f"{name}/" if name == file else name: content for name, content in tree.items()}


@pytest.mark.parametrize(
    ("name", "tree", "words"),
    [
        *((name, hidden(tree, file), f"/{file}: Is a directory") for name, tree, file in HIDDEN),
        ("acs", {**gpu(), **bridges(config()[:64])}, "only 64 of 4096 bytes can be read"),
        ("numa_balancing", {"proc/sys/kernel/numa_balancing": "no"},
         "/proc/sys/kernel/numa_balancing: 'no' is not a number"),
        ("nic_rate", rdma("mlx5_0", {"state": "1: DOWN"}), "no RDMA port is active"),
        ("nic_rate", rdma("mlx5_0", {"rate": "fast"}), "class/infiniband/mlx5_0/ports/1/rate: 'fast' is not a rate"),
        ("pcie_width", gpu(current_link_width="0", max_link_width="255"), "0000:13:00.0 reports no link width"),
        ("huge_pages", {"sys/kernel/mm/transparent_hugepage/enabled": "always"}, "no mode is selected"),
        ("cpu_clock_cap", {f"{POLICY}/cpuinfo_max_freq": "0"}, "is not a clock"),
        ("iommu", {"proc/cpuinfo": "flags : fpu hypervisor", "sys/kernel/iommu_groups/": ""}, "IOMMU of its host"),
        ("acs", {**gpu(), **bridges(config()), "proc/cpuinfo": "flags : hypervisor"}, "bridges of its host"),
        ("mps", {**gpu(), ".dockerenv": "", "proc/9/comm": "bash"}, "a container does not show the processes"),
        ("mps", gpu(vendor="0x1002", **{"class": "0x120000"}), "no NVIDIA accelerator"),
    ],
)  # fmt: skip
def test_a_fact_that_is_hidden_says_where_and_why(tmp_path: Path, name: str, tree: Tree, words: str) -> None:
    assert words in why(make(tmp_path, tree), name)


@pytest.mark.parametrize(
    ("name", "tree", "worst"),
    [
        (
            "nic_link_downed",
            {**rdma("mlx5_0", {}), **rdma("mlx5_3", {"counters/link_downed": "7"}, FAR_NIC)},
            "mlx5_3/1",
        ),
        ("nic_link_downed", rdma("mlx5_0", {}), ""),
        ("acs", {**gpu(), **bridges(config((0x000D, 1)))}, "0000:10:01.0"),
    ],
)
def test_the_worst_of_several_is_named(tmp_path: Path, name: str, tree: Tree, worst: str) -> None:
    assert answer(HOST_READERS[name], make(tmp_path, tree), METAL)["worst"] == worst


@pytest.mark.parametrize(
    ("tree", "rates"),
    [
        ({**rdma("mlx5_0", DOWN), **rdma("mlx5_1", {}, FAR_NIC)}, {"mlx5_0": 0.0, "mlx5_1": 50.0}),
        ({**gpu(), **rdma("mlx5_0", DOWN), **rdma("mlx5_1", {}, FAR_NIC)}, {"mlx5_0": 0.0}),
        ({**gpu(), **rdma("mlx5_0", {}, FAR_NIC)}, {"mlx5_0": 50.0}),
        ({**gpu(), **gpu(FAR_GPU.format(1)), **gpu(FAR_GPU.format(2)), **rdma("mlx5_0", {}),
          **rdma("mlx5_1", {}, FAR_NIC)}, {"mlx5_0": 50.0, "mlx5_1": 50.0}),
        ({**rdma("mlx5_0", {}, VIRTUAL), f"{VIRTUAL}/physfn -> {NIC}": "", f"{NIC}/vendor": ""}, {"mlx5_0": 50.0}),
        ({**rdma("bond_0", {"rate": "200 Gb/sec (4X HDR)"}), **BONDED}, {"bond_0": 50.0}),
    ],
    ids=["no accelerator", "near", "far", "far from most", "virtual in a container", "bonded"],
)  # fmt: skip
def test_the_rates_of_the_nics_for_accelerators(tmp_path: Path, tree: Tree, rates: dict[str, float]) -> None:
    """One of a storage network hides none that is down; one below no switch of an accelerator is not left out alone."""
    assert answer(HOST_READERS["nics_active"], make(tmp_path, tree), METAL)["details"]["rates"] == rates


@pytest.mark.parametrize(
    ("tree", "container", "machine"),
    [
        ({}, "", ""),
        ({".dockerenv": ""}, "docker", ""),
        ({"run/.containerenv": ""}, "podman", ""),
        ({"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn", ""),
        ({"proc/1/cgroup": "0::/kubepods.slice/cri-containerd-1.scope\n"}, "kubepods", ""),
        ({"proc/1/cgroup": "0::/init.scope\n"}, "", ""),
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor lahf_lm\n"}, "", "unknown hypervisor"),
        ({"proc/cpuinfo": "flags\t\t: fpu lahf_lm\n"}, "", ""),
        ({"sys/class/dmi/id/product_name": "Virtual Machine\n"}, "", "hyper-v"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n", "proc/cpuinfo": "flags : hypervisor\n"}, "", "qemu"),
        ({"sys/class/dmi/id/product_name": "PowerEdge XE9680\n"}, "", ""),
        ({"sys/hypervisor/type": "xen\n"}, "", "xen"),
    ],
)
def test_container_and_virtual_machine_are_told_apart(tmp_path: Path, tree: Tree, container: str, machine: str) -> None:
    found = place(make(tmp_path, tree))
    assert (found.container, found.machine) == (container, machine)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (Place(root=False, container="", machine=""), "requires root"),
        (Place(root=True, container="docker", machine=""), "requires the host instead of a container"),
        (Place(root=False, container="", machine="kvm"), "requires bare metal and root"),
        (METAL, ""),
    ],
)
def test_what_is_hidden_says_what_it_takes(tmp_path: Path, where: Place, words: str) -> None:
    assert needed(HOST_READERS["acs"], where) == words
    assert why(tmp_path, "acs", where) == "the PCI bus shows no accelerator", "what is absent takes no permission"
    make(tmp_path, {**gpu(), **bridges(config()[:64])})
    assert why(tmp_path, "acs", where).endswith(f"({words})" if words else "can be read")


def test_a_reading_that_hangs_costs_only_itself(tmp_path: Path) -> None:
    """As a file of /sys whose driver is stuck: here a pipe that nobody writes to."""
    make(tmp_path, {"proc/sys/kernel/numa_balancing": "0"})
    os.mkfifo(tmp_path / "proc/cmdline")
    began = time.monotonic()
    chosen: dict[str, HostReader] = {name: HOST_READERS[name] for name in ("kernel_arguments", "numa_balancing")}
    found = read(tmp_path, chosen, 0.5)
    threading.Thread(target=(tmp_path / "proc/cmdline").write_text, args=("x",), daemon=True).start()
    assert time.monotonic() - began < 5
    assert found["numa_balancing"]["value"] == 0
    assert "did not answer within 0.5 s" in found["kernel_arguments"]["unreadable"]


def test_this_machine_is_read() -> None:
    found = read()
    assert list(found) == list(HOST_FACTS)
    assert found["cpus_usable"]["value"] == len(os.sched_getaffinity(0))
    assert found["memory"]["value"] > 0
