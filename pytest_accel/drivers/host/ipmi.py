"""The sensors of the management controller, read once for all facts by `ipmitool` if it is installed."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from pytest_accel.drivers.host import HiddenFact

SECONDS = 8.0
"""The time limit of ipmitool, which reads the list of all sensors over a slow bus; some controllers need longer."""
FINE = ("ok", "ns")
"""The states of a sensor that is within its limits or has no reading (ipmitool, lib/ipmi_sdr.c)."""
SUPPLY, FAN, INLETS = 10, 29, (55, 64)
"""Entity ids of sensors (IPMI 2.0, table 43-13)."""
_ROW = re.compile(r"([^|]+?)\s*\|\s*\w+h?\s*\|\s*(\w+)\s*\|\s*(\d+)\.\d+\s*\|\s*(.*?)\s*")
_LOCK = threading.Lock()


@dataclass(frozen=True)
class IpmiSensor:
    """A row of `ipmitool sdr elist`."""

    name: str
    state: str
    entity: int
    reading: str


def sensors(root: Path) -> list[IpmiSensor]:
    """Return all sensors of the management controller. Raises HiddenFact with what is missing."""
    device = root / "dev/ipmi0"
    if not device.exists():
        raise HiddenFact("there is no /dev/ipmi0")
    if not os.access(device, os.R_OK | os.W_OK):
        raise HiddenFact("/dev/ipmi0: permission denied (requires root)")
    program = shutil.which("ipmitool")
    if program is None:
        raise HiddenFact("ipmitool, which reads the management controller, is not installed")
    with _LOCK:  # every fact has a thread of its own
        output, why = _ask(program)
    if why:
        raise HiddenFact(why)
    rows = filter(None, map(_ROW.fullmatch, output.splitlines()))
    return [IpmiSensor(row[1], row[2], int(row[3]), row[4]) for row in rows]


@functools.cache
def _ask(program: str) -> tuple[str, str]:
    """Return the output of ipmitool and an empty text, or an empty text and the reason of the failure."""
    try:
        done = subprocess.run(
            [program, "sdr", "elist"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"ipmitool did not answer within {SECONDS:g} s"
    except OSError as error:
        return "", f"ipmitool: {error.strerror}"
    failed = done.returncode and not done.stdout
    return done.stdout, f"ipmitool: {done.stderr.strip()[:200] or done.returncode}" if failed else ""
