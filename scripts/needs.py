"""The page docs/needs.md: what each check needs, and what is lost without it. Made from what the checks declare."""

from __future__ import annotations

from pathlib import Path

from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.drivers.host.reading import HOST_READERS
from pytest_accel.views.markdown import table

DEVICES = (
    ("every probe", "torch 2.6 or newer, built for the vendor", "UNMEASURED"),
    ("NVIDIA: inventory, telemetry", "the kernel module, `libnvidia-ml.so.1` of the same driver, /dev/nvidia*", "FAIL"),
    (
        "`counters.xid_*`",
        "events of NVML, or /dev/kmsg (root, on the host), which alone has the text and the pid of an Xid",
        "UNMEASURED without both",
    ),
    (
        "`counters.log_*`, `host_counters.log_*`",
        "/dev/kmsg (root, on the host): SXids, amdgpu, PCIe, machine checks",
        "left out; counters and Xids show most of it",
    ),
    (
        "inlet, fans, power supplies (`host.inlet` ...)",
        "hwmon, else the management controller: /dev/ipmi0 (root) and `ipmitool`",
        "left out",
    ),
    (
        "running profilers and diagnostic tools",
        "to see the processes of the host, which a container hides",
        "they are not noted",
    ),
    ("collectives, DDP step", "`nccl` in torch; a /dev/shm of 1 GB", "UNMEASURED, with the error of NCCL"),
    ("one run at a time", "a /tmp that all users of the devices share", "two runs may disturb each other"),
)
"""Checks that are not facts of the host: check, what it needs, what happens otherwise."""


def page() -> str:
    """Return the whole page in Markdown."""
    facts = [
        (f"`host.{name}`", HOST_FACTS[name].means, reader.user, reader.container, reader.machine)
        for name, reader in sorted(HOST_READERS.items())
    ]
    return "\n".join(
        [
            "# What a check needs",
            "",
            "Made by `scripts/needs.py` from what the checks declare. `pytest-accel discover` lists the facts that the",
            "current user cannot read on the current machine.",
            "",
            "A fact that cannot be read is UNMEASURED if a limit requires it (a waiver may cover that). Without such a",
            "limit it is left out.",
            "",
            "## The host",
            "",
            "The last three columns say what is missing or different without root, in a container, and in a virtual",
            "machine. An empty cell means no difference.",
            "",
            *table(("fact", "meaning", "without root", "container", "virtual machine"), facts),
            "",
            "## Devices and probes",
            "",
            *table(("check", "needs", "otherwise"), DEVICES),
            "",
        ]
    )


if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs/needs.md").write_text(page(), encoding="utf-8")
