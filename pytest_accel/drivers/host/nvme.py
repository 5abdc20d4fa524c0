"""Facts of the NVMe drives: number, state and SMART warnings."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from pytest_accel.drivers.host import Absent, HiddenFact, HostAnswer, fact, shown, some, text

_GUEST = "the guest's own"
_COMMAND = struct.Struct("=BBHIIIQQ10I")
"""nvme_passthru_cmd (linux/nvme_ioctl.h): opcode, flags, reserved, namespace, cdw2, cdw3, addresses of metadata and
data, their lengths, cdw10 to 15, timeout in ms, result."""
ADMIN = 0xC0484E41
"""NVME_IOCTL_ADMIN_CMD, that is _IOWR('N', 0x41, struct nvme_passthru_cmd)."""
_GET_LOG, _SMART, _BYTES, _ALL = 0x02, 0x02, 512, 0xFFFFFFFF
"""The command Get Log Page, the log page of SMART and health, its size in bytes, and the namespace for the whole drive
(NVM Express base specification 2.0, 5.16)."""
WARNINGS = (
    "its spare is used up",
    "it is too hot or too cold",
    "it is no longer reliable",
    "it is read-only",
    "the backup of its volatile memory failed",
    "its persistent memory is read-only",
)
"""Bits of the critical warning, from the lowest (NVM Express base specification 2.0, figure 207)."""


@fact(machine=_GUEST)
def nvme(root: Path) -> int:
    """Return the number of NVMe drives."""
    return len(_drives(root))


@fact(machine=_GUEST)
def nvme_state(root: Path) -> str:
    """Return "live", or the states of the drives that are not."""
    states = {drive.name: text(drive / "state") for drive in _some(root)}
    return some([f"{name} {state}" for name, state in states.items() if state != "live"]) or "live"


@fact(
    user="the log requires CAP_SYS_ADMIN",
    container="unless /dev/nvme* is passed in",
    machine=_GUEST,
)
def nvme_warnings(root: Path) -> HostAnswer:
    """Return "none", or the critical warnings of the drives; the details have each drive's SMART values."""
    logs = {drive.name: parse(_smart(root / "dev" / drive.name)) for drive in _some(root)}
    warnings = [f"{name}: {warning}" for name, log in logs.items() for bit, warning in enumerate(WARNINGS)
                if int(log["warning"]) >> bit & 1]  # fmt: skip
    return HostAnswer(some(warnings) or "none", details={"drives": logs})


def parse(page: bytes) -> Mapping[str, float]:
    """Return the values of a SMART page.

    They are the critical warnings (bits), the temperature in C, the remaining spare and the used life as fractions,
    and the number of media errors.
    """
    kelvin, spare, used = struct.unpack_from("<HBxB", page, 1)
    return {
        "warning": page[0],
        "celsius": kelvin - 273,
        "spare": spare / 100,
        "used": used / 100,
        "media_errors": int.from_bytes(page[160:176], "little"),
    }


def _smart(device: Path) -> bytes:
    """Return the SMART page of a drive. Raises HiddenFact.

    The command keeps the kernel's default timeout, because the kernel resets a drive that exceeds it.
    """
    page = ctypes.create_string_buffer(_BYTES)
    length = (_BYTES // 4 - 1) << 16
    fields = (_GET_LOG, 0, 0, _ALL, 0, 0, 0, ctypes.addressof(page), 0, _BYTES, length | _SMART)
    command = bytearray(_COMMAND.pack(*fields, *[0] * 7))
    try:
        file = os.open(device, os.O_RDONLY)
    except OSError as error:
        raise HiddenFact(f"{shown(device)}: {error.strerror}") from None
    try:
        status = fcntl.ioctl(file, ADMIN, command)
    except OSError as error:
        raise HiddenFact(f"{shown(device)}: {error.strerror}") from None
    finally:
        os.close(file)
    if status:
        raise HiddenFact(f"{shown(device)} refused the query: status {status:#x}")
    return page.raw


def _drives(root: Path) -> list[Path]:
    return [path for path in sorted((root / "sys/class/nvme").glob("nvme*")) if (path / "state").exists()]


def _some(root: Path) -> list[Path]:
    """Return the drives. Raises Absent if there is none."""
    if drives := _drives(root):
        return drives
    raise Absent("there is no NVMe drive")
