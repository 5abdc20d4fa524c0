"""The page of what every check needs, and what is lost without it: generated from what the checks declare."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.drivers.host.reading import HOST_READERS

DEVICES = (
    ("every probe", "torch 2.6 or newer, built for the vendor", "UNMEASURED"),
    ("NVIDIA: inventory, telemetry", "the kernel module, `libnvidia-ml.so.1` of the same driver, /dev/nvidia*", "FAIL"),
    (
        "`counters.xid_*`",
        "events of NVML, or /dev/kmsg (root, on the host); the text and the pid of an Xid are in the latter only",
        "UNMEASURED where neither can be had",
    ),
    (
        "`counters.log_*`, `host_counters.log_*`",
        "/dev/kmsg (root, on the host): SXids, amdgpu, PCIe, machine checks",
        "left out; counters and Xids tell most of it",
    ),
    (
        "inlet, fans, power supplies (`host.inlet` ...)",
        "hwmon, else the management controller: /dev/ipmi0 (root) and `ipmitool`",
        "left out",
    ),
    ("who profiles or diagnoses", "to see the processes of the host, which a container hides", "nothing is said"),
    ("collectives, DDP step", "`nccl` in torch; a /dev/shm of a gigabyte", "UNMEASURED, with the error of NCCL"),
    ("one run at a time", "a /tmp that is shared with whoever else may measure", "two runs disturb each other"),
)
"""What is no fact of the host: check, what it needs, what becomes of it otherwise."""


def page() -> str:
    """The whole page in Markdown."""
    facts = [
        (f"`host.{name}`", HOST_FACTS[name].means, reader.user, reader.container, reader.machine)
        for name, reader in sorted(HOST_READERS.items())
    ]
    return "\n".join(
        [
            "# What a check needs",
            "",
            "Made by `scripts/needs.py` from what the checks declare. `pytest-accel discover` says what is hidden from",
            "you on the machine that you sit at.",
            "",
            "What cannot be seen is UNMEASURED where a limit requires it (a waiver may name it), and else no news.",
            "",
            "## The host",
            "",
            "What differs or is lost for who is not root, in a container, in a virtual machine.",
            "",
            *_table(("fact", "what", "not root", "container", "virtual machine"), facts),
            "",
            "## Devices and probes",
            "",
            *_table(("check", "needs", "otherwise"), DEVICES),
            "",
        ]
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
