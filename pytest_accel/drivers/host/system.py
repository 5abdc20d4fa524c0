"""Facts of kernel, processor and memory, and of the part that this process may use."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

from pytest_accel.drivers.host import (
    Absent,
    HiddenFact,
    HostAnswer,
    cpus_of,
    fact,
    matched,
    maybe,
    number,
    some,
    text,
    unroot,
)

CPU = "sys/devices/system/cpu"
TUNING = (
    "iommu", "amd_iommu", "intel_iommu", "pci", "pcie_aspm", "pcie_acs_override", "numa_balancing", "mitigations",
    "isolcpus", "nohz_full", "idle", "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate", "amd_pstate",
    "transparent_hugepage", "hugepages", "hugepagesz", "default_hugepagesz", "modprobe.blacklist", "preempt",
    "init_on_alloc", "swiotlb", "nosmt", "maxcpus", "mem", "nokaslr", "tsc",
)  # fmt: skip
"""Kernel arguments that affect performance. The others may hold private data and are not recorded."""
TAINTS = {4: "machine check", 5: "bad memory page", 7: "kernel oops", 9: "kernel warning", 14: "soft lockup"}
"""Bits of /proc/sys/kernel/tainted that indicate trouble (kernel documentation, admin-guide/tainted-kernels)."""


def uptime(root: Path) -> float:
    """Return the seconds since the boot; infinity where the kernel does not state them."""
    try:
        return float(text(root / "proc/uptime").split()[0])
    except (Absent, HiddenFact, ValueError, IndexError):
        return math.inf


def listed(path: Path) -> set[int]:
    """Return the numbers in a file such as cpulist. Raises HiddenFact, Absent."""
    try:
        return cpus_of(text(path))
    except ValueError:
        raise HiddenFact(f"{unroot(path)} is not a list of numbers") from None


@fact()
def numa_balancing(root: Path) -> int:
    """Return the mode of automatic NUMA balancing, 0 if it is off."""
    path = root / "proc/sys/kernel/numa_balancing"
    if path.parent.is_dir() and not path.exists():
        return 0  # a kernel that was built without it
    return number(path)


@fact(machine="the hypervisor hides the clocks")
def cpu_governor(root: Path) -> str:
    """Return the frequency governors in use."""
    paths = sorted((root / CPU).glob("cpufreq/policy*/scaling_governor"))
    if not paths:
        raise Absent("no frequency governor: firmware or hypervisor sets the clocks")
    return ", ".join(sorted({text(path) for path in paths}))


@fact(machine="the hypervisor hides it")
def cpu_clock_cap(root: Path) -> HostAnswer:
    """Return the lowest permitted maximum clock of a core as a fraction of its hardware maximum."""
    shares = {}
    for policy in sorted((root / CPU).glob("cpufreq/policy*")):
        maximum = number(policy / "cpuinfo_max_freq")
        if maximum <= 0:
            raise HiddenFact(f"{unroot(policy)}/cpuinfo_max_freq: {maximum} is not a clock")
        shares[policy.name] = number(policy / "scaling_max_freq") / maximum
    if not shares:
        raise Absent("no frequency policy: firmware or hypervisor sets the clocks")
    slowest = min(shares, key=lambda name: shares[name])
    return HostAnswer(round(shares[slowest], 4), slowest if shares[slowest] < 1 else "")


@fact(machine="threads of the guest need not be threads of a core")
def smt(root: Path) -> str:
    """Return the state of simultaneous multithreading."""
    return text(root / CPU / "smt/control")


@fact()
def kernel_arguments(root: Path) -> str:
    """Return the kernel arguments that affect performance (TUNING)."""
    words = text(root / "proc/cmdline").split()
    return " ".join(word for word in words if word.partition("=")[0] in TUNING) or "none"


@fact()
def kernel_taint(root: Path) -> HostAnswer:
    """Return the troubles (TAINTS) that the kernel's taint flags record, or "none"."""
    taint = number(root / "proc/sys/kernel/tainted")
    return HostAnswer(
        ", ".join(name for bit, name in TAINTS.items() if taint >> bit & 1) or "none", details={"taint": taint}
    )


@fact(machine="the host takes them")
def machine_checks(root: Path) -> int:
    """Return the number of machine check exceptions since boot."""
    for line in text(root / "proc/interrupts").splitlines():
        name, _, counts = line.strip().partition(":")
        if name == "MCE":
            return sum(int(word) for word in counts.split() if word.isdigit())
    raise Absent("this processor counts no machine checks in /proc/interrupts")


@fact()
def huge_pages(root: Path) -> str:
    """Return the mode of transparent huge pages."""
    path = root / "sys/kernel/mm/transparent_hugepage/enabled"
    return matched(path, r"\[(\w+)\]", ": no mode is selected in {!r}")[1]


@fact()
def huge_pages_reserved(root: Path) -> float:
    """Return the memory that is reserved as explicit huge pages in GB."""
    folder = root / "sys/kernel/mm/hugepages"
    if not folder.is_dir():
        raise Absent(f"there is no {unroot(folder)}")
    sizes = [(path, re.fullmatch(r"hugepages-(\d+)kB", path.name)) for path in folder.iterdir()]
    return sum(number(path / "nr_hugepages") * int(size[1]) * 1024 for path, size in sizes if size) / 1e9


@fact()
def cpus(root: Path) -> int:
    """Return the number of processors that are online."""
    return len(listed(root / CPU / "online"))


@fact(machine="the guest's own")
def numa_nodes(root: Path) -> int:
    """Return the number of NUMA nodes."""
    return len(listed(root / "sys/devices/system/node/online"))


@fact(machine="the guest's own")
def memory(root: Path) -> float:
    """Return the memory of the machine in GB."""
    return _memory_bytes(root) / 1e9


@fact(machine="the guest's own")
def nvme(root: Path) -> int:
    """Return the number of NVMe drives on the PCI bus; others are reached over a network."""
    folder = root / "sys/class/nvme"
    if not folder.is_dir():
        raise Absent(f"there is no {unroot(folder)}")
    return sum(maybe(path / "transport") == "pcie" for path in folder.iterdir())


def _memory_bytes(root: Path) -> int:
    return int(matched(root / "proc/meminfo", r"^MemTotal:\s+(\d+) kB", " has no MemTotal")[1]) * 1024


# -- what this process may use


def usable_cpus(root: Path) -> set[int]:
    """Return the processors that this process may run on. Raises HiddenFact, Absent."""
    path, lacks = root / "proc/self/status", " has no Cpus_allowed_list"
    try:
        return cpus_of(matched(path, r"^Cpus_allowed_list:\s*(\S*)", lacks)[1])
    except ValueError:
        raise HiddenFact(f"{unroot(path)}{lacks}") from None


@fact(container="its own cpuset")
def cpus_usable(root: Path) -> int:
    """Return the number of processors that this process may run on."""
    return len(usable_cpus(root))


@fact(container="its own cgroup")
def cpu_quota(root: Path) -> float:
    """Return the number of processors that the CPU quota is worth.

    This is the tightest of cpu.max (cgroup v2) and cpu.cfs_quota_us (v1) in this process's cgroup and those above it;
    without a quota, the number of processors that are online.
    """
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
    """Return the memory that the cgroups of this process permit in GB, at most that of the machine."""
    limits = [_memory_bytes(root)]
    for folder in _groups(root, "memory"):
        limit = maybe(folder / "memory.max") or maybe(folder / "memory.limit_in_bytes")
        limits += [int(limit)] if limit.isdigit() else []
    return min(limits) / 1e9


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and those above it, of version 1 and 2.

    In a container they begin at the container's own cgroup.
    """
    mount = root / "sys/fs/cgroup"
    for line in maybe(root / "proc/self/cgroup").splitlines():
        number_, _, tail = line.partition(":")
        controllers, _, path = tail.partition(":")
        if number_ == "0" or controller in controllers.split(","):
            top = mount / controllers if controllers else mount
            group = Path(path.lstrip("/"))
            yield from (top / folder for folder in (group, *group.parents))


@fact(container="its own limit")
def memlock(root: Path) -> str:
    """Return the memory that a process may lock."""
    match = matched(root / "proc/self/limits", r"^Max locked memory\s+(\S+)", " has no limit on locked memory")
    return f"{int(match[1]) / 1e6:g} MB" if match[1].isdigit() else match[1]


@fact(container="its own, 64 MB by default")
def shm(root: Path) -> float:
    """Return the size of /dev/shm in GB."""
    status = _shm(root)
    return status.f_blocks * status.f_frsize / 1e9


@fact(container="its own")
def shm_free(root: Path) -> float:
    """Return the free space in /dev/shm in GB."""
    status = _shm(root)
    return status.f_bavail * status.f_frsize / 1e9


def _shm(root: Path) -> os.statvfs_result:
    path = root / "dev/shm"
    try:
        return os.statvfs(path)
    except FileNotFoundError:
        raise Absent(f"there is no {unroot(path)}") from None
    except OSError as error:
        raise HiddenFact(f"{unroot(path)}: {error.strerror}") from None


@fact()
def peer_memory(root: Path) -> str:
    """Return the loaded modules for DMA between NICs and accelerators.

    They are nvidia_peermem or nv_peer_mem for NVIDIA; newer drivers use DMA-BUF and need neither.
    """
    loaded = [name for name in ("nvidia_peermem", "nv_peer_mem", "amdgpu") if (root / "sys/module" / name).is_dir()]
    if not (root / "sys/module").is_dir():
        raise Absent("there is no /sys/module")
    return some(loaded) or "none"
