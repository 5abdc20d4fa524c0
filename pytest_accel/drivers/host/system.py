"""Kernel, processor, memory, and how much of them this process may use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pytest_accel.drivers.host import Absent, HostAnswer, Unreadable, cpus_of, fact, maybe, number, shown, some, text

CPU = "sys/devices/system/cpu"
TUNING = (
    "iommu", "amd_iommu", "intel_iommu", "pci", "pcie_aspm", "pcie_acs_override", "numa_balancing", "mitigations",
    "isolcpus", "nohz_full", "idle", "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate", "amd_pstate",
    "transparent_hugepage", "hugepages", "hugepagesz", "default_hugepagesz", "modprobe.blacklist", "preempt",
    "init_on_alloc", "swiotlb", "nosmt", "maxcpus", "mem", "nokaslr", "tsc",
)  # fmt: skip
"""Kernel arguments that move numbers. The others may name whatever their owner put there, and are not recorded."""
TAINTS = {4: "machine check", 5: "bad memory page", 7: "kernel oops", 9: "kernel warning", 14: "soft lockup"}
"""Bits of /proc/sys/kernel/tainted that speak of trouble (kernel documentation, admin-guide/tainted-kernels)."""


def listed(path: Path) -> set[int]:
    """The numbers in a file such as cpulist. Raises Unreadable, Absent."""
    try:
        return cpus_of(text(path))
    except ValueError:
        raise Unreadable(f"{shown(path)} is no list of numbers") from None


@fact()
def numa_balancing(root: Path) -> int:
    path = root / "proc/sys/kernel/numa_balancing"
    if path.parent.is_dir() and not path.exists():
        return 0  # a kernel that was built without it
    return number(path)


@fact(machine="the hypervisor keeps the clocks to itself")
def cpu_governor(root: Path) -> str:
    paths = sorted((root / CPU).glob("cpufreq/policy*/scaling_governor"))
    if not paths:
        raise Absent("no frequency governor: firmware or hypervisor sets the clocks")
    return ", ".join(sorted({text(path) for path in paths}))


@fact(machine="the hypervisor keeps it to itself")
def cpu_clock_cap(root: Path) -> HostAnswer:
    shares = {}
    for policy in sorted((root / CPU).glob("cpufreq/policy*")):
        most = number(policy / "cpuinfo_max_freq")
        if most <= 0:
            raise Unreadable(f"{shown(policy)}/cpuinfo_max_freq: {most} is no clock")
        shares[policy.name] = number(policy / "scaling_max_freq") / most
    if not shares:
        raise Absent("no frequency policy: firmware or hypervisor sets the clocks")
    worst = min(shares, key=lambda name: shares[name])
    return HostAnswer(round(shares[worst], 4), worst if shares[worst] < 1 else "")


@fact(machine="threads of the guest need not be threads of a core")
def smt(root: Path) -> str:
    return text(root / CPU / "smt/control")


@fact()
def kernel_arguments(root: Path) -> str:
    words = text(root / "proc/cmdline").split()
    return " ".join(word for word in words if word.partition("=")[0] in TUNING) or "none"


@fact()
def kernel_taint(root: Path) -> HostAnswer:
    taint = number(root / "proc/sys/kernel/tainted")
    return HostAnswer(
        ", ".join(name for bit, name in TAINTS.items() if taint >> bit & 1) or "none", details={"taint": taint}
    )


@fact(machine="the host takes them")
def machine_checks(root: Path) -> int:
    for line in text(root / "proc/interrupts").splitlines():
        name, _, rest = line.strip().partition(":")
        if name == "MCE":
            return sum(int(word) for word in rest.split() if word.isdigit())
    raise Absent("this processor counts no machine checks in /proc/interrupts")


@fact()
def huge_pages(root: Path) -> str:
    path = root / "sys/kernel/mm/transparent_hugepage/enabled"
    chosen = re.search(r"\[(\w+)\]", text(path))
    if chosen is None:
        raise Unreadable(f"{shown(path)}: nothing is chosen in {text(path)[:40]!r}")
    return chosen.group(1)


@fact()
def huge_pages_reserved(root: Path) -> float:
    folder = root / "sys/kernel/mm/hugepages"
    if not folder.is_dir():
        raise Absent(f"there is no {shown(folder)}")
    sizes = [(path, re.fullmatch(r"hugepages-(\d+)kB", path.name)) for path in folder.iterdir()]
    return sum(number(path / "nr_hugepages") * int(size[1]) * 1024 for path, size in sizes if size) / 1e9


@fact()
def cpus(root: Path) -> int:
    return len(listed(root / CPU / "online"))


@fact(machine="the guest's own")
def numa_nodes(root: Path) -> int:
    return len(listed(root / "sys/devices/system/node/online"))


@fact(machine="the guest's own")
def memory(root: Path) -> float:
    return _memory_bytes(root) / 1e9


def _memory_bytes(root: Path) -> int:
    path = root / "proc/meminfo"
    match = re.search(r"^MemTotal:\s+(\d+) kB", text(path), re.MULTILINE)
    if match is None:
        raise Unreadable(f"{shown(path)} has no MemTotal")
    return int(match[1]) * 1024


# -- what this process may use


def _status(root: Path, key: str) -> set[int]:
    path = root / "proc/self/status"
    match = re.search(rf"^{key}:\s*(\S*)", text(path), re.MULTILINE)
    try:
        return cpus_of(match[1] if match else "?")
    except ValueError:
        raise Unreadable(f"{shown(path)} has no {key}") from None


def usable_cpus(root: Path) -> set[int]:
    """The processors that this process may run on. Raises Unreadable, Absent."""
    return _status(root, "Cpus_allowed_list")


@fact(container="its own cpuset")
def cpus_usable(root: Path) -> int:
    return len(usable_cpus(root))


@fact(container="its own cgroup")
def cpu_quota(root: Path) -> float:
    """cpu.max of cgroup v2, cpu.cfs_quota_us of v1, the tightest up to the top; without one, all that are online."""
    quotas = [float(len(listed(root / CPU / "online")))]
    for folder in _groups(root, "cpu"):
        quota, _, period = maybe(folder / "cpu.max").partition(" ")
        quota = quota or maybe(folder / "cpu.cfs_quota_us")
        period = period or maybe(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas)


@fact(container="its own cgroup")
def memory_usable(root: Path) -> float:
    limits = [_memory_bytes(root)]
    for folder in _groups(root, "memory"):
        limit = maybe(folder / "memory.max") or maybe(folder / "memory.limit_in_bytes")
        limits += [int(limit)] if limit.isdigit() else []
    return min(limits) / 1e9


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The cgroup of this process and those above it, of version 1 and 2; in a container they begin at its own."""
    mount = root / "sys/fs/cgroup"
    for line in maybe(root / "proc/self/cgroup").splitlines():
        number_, _, rest = line.partition(":")
        controllers, _, place = rest.partition(":")
        if number_ == "0" or controller in controllers.split(","):
            top = mount / controllers if controllers else mount
            below = Path(place.lstrip("/"))
            yield from (top / each for each in (below, *below.parents))


@fact(container="its own limit")
def memlock(root: Path) -> str:
    path = root / "proc/self/limits"
    match = re.search(r"^Max locked memory\s+(\S+)", text(path), re.MULTILINE)
    if match is None:
        raise Unreadable(f"{shown(path)} has no limit on locked memory")
    return f"{int(match[1]) / 1e6:g} MB" if match[1].isdigit() else match[1]


@fact(container="its own, 64 MB by default")
def shm(root: Path) -> float:
    found = _shm(root)
    return found.f_blocks * found.f_frsize / 1e9


@fact(container="its own")
def shm_free(root: Path) -> float:
    found = _shm(root)
    return found.f_bavail * found.f_frsize / 1e9


def _shm(root: Path) -> os.statvfs_result:
    path = root / "dev/shm"
    try:
        return os.statvfs(path)
    except FileNotFoundError:
        raise Absent(f"there is no {shown(path)}") from None
    except OSError as error:
        raise Unreadable(f"{shown(path)}: {error.strerror}") from None


@fact()
def peer_memory(root: Path) -> str:
    """nvidia_peermem or nv_peer_mem for NVIDIA. Newer drivers do it by DMA-BUF and need neither."""
    there = [name for name in ("nvidia_peermem", "nv_peer_mem", "amdgpu") if (root / "sys/module" / name).is_dir()]
    if not (root / "sys/module").is_dir():
        raise Absent("there is no /sys/module")
    return some(there) or "none"
