"""Facts of the host that are no file: NVMe drives asked by ioctl, the management controller by ipmitool."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from host_tree import METAL, make, value, why

from pytest_accel.drivers.host import chassis, nvme
from pytest_accel.drivers.host.reading import HOST_READERS, answer

DRIVES = {f"{folder}/nvme{drive}{file}": "live" for drive in (0, 1)
          for folder, file in (("sys/class/nvme", "/state"), ("dev", ""))}  # fmt: skip


def smart(warning: int = 0, used: int = 3) -> bytes:
    """A page of 512 bytes: 315 K, all of the spare, 7 media errors."""
    page = bytearray(512)
    struct.pack_into("<BHBxB", page, 0, warning, 315, 100, used)
    page[160] = 7
    return bytes(page)


@pytest.fixture
def drives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The kernel's side of the ioctl: what each drive answers, by its name; a number is a status."""
    answers: dict[str, Any] = {"nvme0": smart(), "nvme1": smart()}

    def ioctl(file: int, request: int, command: bytearray) -> int:
        opcode, _, _, namespace, *_, address, _, length, cdw10 = nvme._COMMAND.unpack(command)[:11]
        assert (request, opcode, namespace, cdw10) == (0xC0484E41, 0x02, 0xFFFFFFFF, 0x007F0002)
        assert (len(command), length) == (72, 512)
        told = answers[Path(f"/proc/self/fd/{file}").resolve().name]
        if isinstance(told, bytes):
            ctypes.memmove(address, told, length)
            return 0
        if isinstance(told, OSError):
            raise told
        return int(told)

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    make(tmp_path, DRIVES)
    return answers


@pytest.mark.usefixtures("drives")
def test_drives_that_are_well_warn_of_nothing(tmp_path: Path) -> None:
    found = answer(HOST_READERS["nvme_warnings"], tmp_path, METAL)
    assert found["value"] == "none"
    well = {"warning": 0, "celsius": 42, "spare": 1.0, "used": 0.03, "media_errors": 7}
    assert found["details"]["drives"] == {"nvme0": well, "nvme1": well}


def test_a_drive_that_warns_is_named_with_what_it_says(tmp_path: Path, drives: dict[str, Any]) -> None:
    drives["nvme1"] = smart(0b1001)
    assert value(tmp_path, "nvme_warnings") == "nvme1: its spare is used up, nvme1: it is read-only"


@pytest.mark.parametrize(
    ("told", "words"),
    [(OSError(13, "Permission denied"), "/dev/nvme1: Permission denied"), (0x4002, "refused the query: status 0x4002")],
)
def test_a_drive_that_does_not_answer_is_no_healthy_one(
    tmp_path: Path, drives: dict[str, Any], told: Any, words: str
) -> None:
    drives["nvme1"] = told
    assert words in why(tmp_path, "nvme_warnings")


def test_without_a_drive_there_is_nothing_to_warn(tmp_path: Path) -> None:
    assert why(tmp_path, "nvme_warnings") == "there is no NVMe drive"


# -- the management controller

ELIST = """\
Inlet Temp       | 05h | ok  |  7.1 | 24 degrees C
Exhaust Temp     | 01h | ok  |  7.1 | 41 degrees C
GPU1 Temp        | 0Eh | ns  | 11.1 | No Reading
Fan1A            | 30h | ok  | 29.1 | 9840 RPM
Fan2A            | 31h | {fan} | 29.2 | {rpm}
PS1 Status       | C8h | ok  | 10.1 | Presence detected
PS2 Status       | C9h | ok  | 10.2 | {supply}
SEL              | 72h | ns  |  7.1 | No Reading
"""
"""The layout of ipmitool 1.8 (lib/ipmi_sdr.c, ipmi_sdr_print_sensor_fc), names as on a PowerEdge."""


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A node whose ipmitool is this script, and nothing in /sys."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    chassis._ask.cache_clear()
    make(tmp_path, {"dev/ipmi0": ""})

    def says(script: str) -> Path:
        path = folder / "ipmitool"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return tmp_path

    yield says
    chassis._ask.cache_clear()


def elist(fan: str = "ok ", rpm: str = "9720 RPM", supply: str = "Presence detected") -> str:
    return f"test \"$*\" = 'sdr elist' && cat <<'X'\n{ELIST.format(fan=fan, rpm=rpm, supply=supply)}X"


def test_the_controller_tells_what_the_kernel_does_not(controller: Any) -> None:
    root = controller(elist())
    assert value(root, "inlet") == 24.0
    assert value(root, "fan_alarms") == 0
    assert value(root, "power_supplies") == "on"


def test_a_fan_and_a_supply_that_are_not_well_are_named(controller: Any) -> None:
    root = controller(elist("cr ", "0 RPM", "Presence detected, Power Supply AC lost"))
    found = answer(HOST_READERS["fan_alarms"], root, METAL)
    assert (found["value"], found["worst"]) == (1, "Fan2A 0 RPM (cr)")
    assert value(root, "power_supplies") == "PS2 Status: Presence detected, Power Supply AC lost (ok)"


def test_the_controller_is_asked_once_and_not_where_the_kernel_knows(controller: Any) -> None:
    root = controller(f"echo x >> {'$(dirname $0)'}/asked\n{elist()}")
    for name in ("inlet", "fan_alarms", "power_supplies"):
        value(root, name)
    assert (root / "bin/asked").read_text() == "x\n"
    chassis._ask.cache_clear()
    make(root, {"sys/class/hwmon/hwmon3/fan1_input": "9000"})
    assert value(root, "fan_alarms") == 0
    assert (root / "bin/asked").read_text() == "x\n"


def test_a_controller_that_does_not_answer_costs_its_time_limit_once(
    controller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chassis, "SECONDS", 0.3)
    root = controller("exec sleep 60")
    began = time.monotonic()
    for name in ("inlet", "fan_alarms", "power_supplies"):
        assert "ipmitool did not answer within 0.3 s" in why(root, name)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Could not open device at /dev/ipmi0' >&2; exit 1", "ipmitool: Could not open device at /dev/ipmi0"),
        ("echo garbage", "no fan is in /sys/class/hwmon or known to the management controller"),
    ],
)
def test_what_the_controller_does_not_tell_is_said(controller: Any, script: str, words: str) -> None:
    assert words in why(controller(script), "fan_alarms")
