"""The tables of docs/checks.md: every fact of devices and host, the places that hide it, and needs of other checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.device_facts import GROUPS, DeviceFact
from pytest_accel.core.host_facts import HOST_FACTS, HostFact
from pytest_accel.drivers.host.reading import HOST_READERS
from pytest_accel.drivers.library_query import Table, several
from pytest_accel.drivers.vendors.amd import identity, links, memory, power, throttle
from pytest_accel.drivers.vendors.nvidia import identity as nv_identity
from pytest_accel.drivers.vendors.nvidia import links as nv_links
from pytest_accel.drivers.vendors.nvidia import memory as nv_memory
from pytest_accel.drivers.vendors.nvidia import power as nv_power
from pytest_accel.judging.facts.error_counters import metrics_of
from pytest_accel.views.markdown import table

BEGIN = "## Facts of a device"
"""The heading in docs/checks.md from which on the page is made here."""
RECORD_ONLY = "record only"
_EVENT = "NVML_FI_DEV_CLOCKS_EVENT_REASON"
_BUS = "/sys/bus/pci/devices"


def _asked(*tables: Table) -> dict[str, str]:
    """Return the functions and fields that a driver asks for each fact, as its tables name them."""
    return {
        fact: ", ".join(dict.fromkeys(str(source.name) for source in several(sources)))
        for rows in tables
        for fact, sources in rows.items()
    }


NVML: Mapping[str, str] = {
    **_asked(nv_identity.PRODUCT, nv_identity.POSITION, nv_identity.FIRMWARE, nv_identity.SETTINGS),
    **_asked(nv_memory.ERRORS, nv_memory.REPAIRS, nv_links.PCIE, nv_links.FABRIC, nv_power.LIMITS, nv_power.PROCESSES),
    **_asked(nv_power.reading("")),
    "compute_units": "nvmlDeviceGetNumGpuCores, nvmlDeviceGetCudaComputeCapability",
    **dict.fromkeys(("pci_class", "pcie_path"), _BUS),
    "nvlink_count": "NVML_FI_DEV_NVLINK_LINK_COUNT",
    "nvlink_up": "NVML_FI_DEV_NVLINK_GET_STATE, nvmlDeviceGetNvLinkState",
    "nvlink_gb_per_s": "NVML_FI_DEV_NVLINK_GET_SPEED, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON",
    "nvlinks": "NVML_FI_DEV_NVLINK_*, nvmlDeviceGetNvLink*",
    "sw_thermal_s": f"{_EVENT}_SW_THERM_SLOWDOWN",
    "hw_thermal_s": f"{_EVENT}_HW_THERM_SLOWDOWN",
    "hw_power_brake_s": f"{_EVENT}_HW_POWER_BRAKE_SLOWDOWN",
}
"""The functions and fields that NVIDIA's driver asks for each fact, also for those made of several answers. The
slowdown counters have the names of driver 580.95."""
AMDSMI: Mapping[str, str] = {
    **_asked(identity.PRODUCT, identity.POSITION, identity.FIRMWARE, identity.SETTINGS, memory.ERRORS, memory.REPAIRS),
    **_asked(links.PCIE, links.XGMI, power.LIMITS, power.PROCESSES, power.READING, throttle.NOW),
    "pci_id": "",  # a field of the device alone
    "visible_as": "amdsmi_get_gpu_enumeration_info, amdsmi_get_gpu_asic_info",
    "ecc_blocks": "amdsmi_get_gpu_ecc_count",
    **dict.fromkeys(("pci_class", "pcie_path"), _BUS),
}
"""The functions that AMD's driver asks for each fact."""
FILES: Mapping[str, str] = {
    "cores": "/sys/devices/system/cpu",
    **dict.fromkeys(("pci_subsystem", "kernel_driver", "sole", "module_id", "pcie_path"), _BUS),
    **dict.fromkeys(("pcie_gen", "pcie_width", "pcie_gen_max", "pcie_width_max"), _BUS),
}
"""The files that drivers without a library read."""
NEEDS = (
    ("every probe", "torch 2.6 or newer, built for the vendor", "UNMEASURED"),
    ("NVIDIA: inventory, telemetry", "the kernel module, `libnvidia-ml.so.1` of the same driver, /dev/nvidia*", "FAIL"),
    (
        "`counters.xid_*`",
        (
            "events of NVML, or /dev/kmsg (root, on the host), which alone has the text and the pid of an Xid. The log "
            "of a kernel without NVIDIA's driver, to which another one passes the calls (WSL2, a proxy), says nothing"
        ),
        "UNMEASURED without both",
    ),
    (
        "`counters.log_*`, `host_counters.log_*`",
        "/dev/kmsg (root, on the host): SXids, amdgpu, PCIe, machine checks",
        "left out; counters and Xids show most of it",
    ),
    ("collectives, DDP step", "`nccl` in torch; a /dev/shm of 1 GB", "UNMEASURED, with the error of NCCL"),
    ("one run at a time", "a /tmp that all users of the devices share", "two runs may disturb each other"),
)
"""Checks that are not facts of the host: check, need, and result without it."""


def page() -> str:
    """Return the chapters in Markdown."""
    return "\n".join(
        [
            BEGIN,
            "",
            "This chapter and the next two are made by `scripts/facts.py`. What a driver states of a device is in the",
            "record under `devices[].facts`: NVIDIA's by functions and fields of NVML, AMD's by those of amdsmi. A",
            "fact that could not be read is named under `unread`, one that device or driver do not have under",
            "`unsupported`, each with the reason.",
            "",
            *(line for title, facts in GROUPS.items() for line in _group(title, facts)),
            "### Clock event reasons",
            "",
            "The bits of `reasons`, with NVML's values (nvml.h). The drivers of other vendors use the same bits.",
            "",
            *table(("bit", "reason"), [(f"`{event.value:#05x}`", name) for name, event in _events()]),
            "",
            "## Facts of the host",
            "",
            "Each is judged as `host.NAME`. The last three columns say what is missing or different without root, in a",
            "container, and in a virtual machine; `pytest-accel discover` lists what this user cannot read on this",
            "machine. A fact that cannot be read is UNMEASURED if a limit requires it, and left out otherwise.",
            "",
            *table(
                ("fact", "unit", "meaning", "read from", "without root", "container", "virtual machine"),
                [_host_row(name, fact) for name, fact in HOST_FACTS.items()],
            ),
            "",
            "These count errors. They are read again after the last probe, and how far they moved is judged as",
            f"`host_counters.NAME`: {', '.join(f'`{name}`' for name, fact in HOST_FACTS.items() if fact.counts)}.",
            "",
            "## What other checks need",
            "",
            *table(("check", "needs", "otherwise"), NEEDS),
            "",
        ]
    )


def _group(title: str, facts: Mapping[str, DeviceFact]) -> list[str]:
    head = ("fact", "unit", "meaning", "read from", "judged as, used for")
    return [f"### {title}", "", *table(head, [_device_row(name, fact) for name, fact in facts.items()]), ""]


def _device_row(name: str, fact: DeviceFact) -> Sequence[str]:
    use = ", ".join([*(f"`{metric}`" for metric in metrics_of(name)), *([fact.used] if fact.used else [])])
    sources = "; ".join(filter(None, (_code(names.get(name, "")) for names in (NVML, AMDSMI, FILES))))
    return f"`{name}`", fact.unit, fact.means, sources, use or RECORD_ONLY


def _host_row(name: str, fact: HostFact) -> Sequence[str]:
    hidden = HOST_READERS[name]
    source = fact.source.replace("*", r"\*")
    return f"`{name}`", fact.unit, fact.means, source, hidden.user, hidden.container, hidden.machine


def _code(sources: str) -> str:
    return ", ".join(f"`{source}`" for source in sources.split(", ") if source)


def _events() -> Sequence[tuple[str, ClockEvent]]:
    return [(name.lower().replace("_", " "), event) for name, event in ClockEvent.__members__.items()]


if __name__ == "__main__":
    path = Path(__file__).parent.parent / "docs/checks.md"
    path.write_text(path.read_text(encoding="utf-8").partition(BEGIN)[0] + page(), encoding="utf-8")
