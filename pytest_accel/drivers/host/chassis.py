"""Facts of the chassis: memory modules and their errors, fans, power supplies, air temperature.

The sensors of the management controller are read once for all facts, by `ipmitool` if it is installed.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import struct
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_accel.drivers.host import HiddenFact, HostAnswer, counted, fact, maybe, number, shown, some, text

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


_HOST = "the host sees them"
_BMC = "the host has them"
_FAILED = re.compile(r"fail|lost|out-of-range|error|inactive", re.IGNORECASE)
"""The states of a power supply with a fault (IPMI 2.0, table 42-3, type 08h)."""


def _edac(root: Path, counter: str) -> HostAnswer:
    """Return the sum of a counter, since the EDAC driver was loaded, over all memory controllers, and the worst one."""
    folder = root / "sys/devices/system/edac/mc"
    controllers = sorted(folder.glob("mc[0-9]*"))
    if not controllers:
        raise HiddenFact(f"{shown(folder)} shows no memory controller: its EDAC driver is not loaded")
    return counted({each.name: number(each / counter) for each in controllers})


fact(name="ecc_corrected", machine=_HOST)(partial(_edac, counter="ce_count"))
fact(name="ecc_uncorrected", machine=_HOST)(partial(_edac, counter="ue_count"))


@fact(
    user="only root may read the firmware's tables",
    container="/sys/firmware is masked",
    machine=_HOST,
)
def dimms(root: Path) -> str:
    """Return number, size and speed of the memory modules.

    Read from SMBIOS type 17, one entry per slot (DMTF DSP0134, 7.18); an empty slot has the size 0.
    """
    folder = root / "sys/firmware/dmi/entries"
    slots = sorted(folder.glob("17-*"))
    if not slots:
        raise HiddenFact(f"{shown(folder)} shows no memory module")
    modules = Counter(filter(None, map(_module, slots)))
    return some([f"{count} x {module}" for module, count in sorted(modules.items())]) or "all slots are empty"


def _module(slot: Path) -> str:
    path = slot / "raw"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise HiddenFact(f"{shown(path)}: {error.strerror}") from None
    if len(raw) < 0x17:
        raise HiddenFact(f"{shown(path)}: {len(raw)} bytes are too few for a memory module")
    (size,) = struct.unpack_from("<H", raw, 0x0C)
    if size in (0, 0xFFFF):
        return ""
    mib = size * (1 / 1024 if size & 0x8000 else 1)
    if size == 0x7FFF and len(raw) >= 0x20:
        mib = struct.unpack_from("<I", raw, 0x1C)[0] & 0x7FFFFFFF
    (rated,) = struct.unpack_from("<H", raw, 0x15)
    configured = struct.unpack_from("<H", raw, 0x20)[0] if len(raw) >= 0x22 else 0
    slower = f" (rated {rated})" if configured and configured < rated else ""
    return f"{mib / 1024:g} GiB at {configured or rated} MT/s{slower}"


# -- sensors


@fact(container=_BMC, machine=_BMC)
def inlet(root: Path) -> HostAnswer:
    """Return the temperature of the warmest sensor whose label mentions inlet or ambient air."""
    celsius = {}
    for label in _sensors(root, "temp*_label"):
        if _is_inlet(name := maybe(label)):
            celsius[name] = number(label.with_name(label.name.replace("_label", "_input"))) / 1000
    if not celsius:
        for sensor in _controller(root, "no sensor in /sys/class/hwmon is at the inlet"):
            degrees = re.fullmatch(r"(-?\d+(?:\.\d+)?) degrees C", sensor.reading)
            if degrees and (sensor.entity in INLETS or _is_inlet(sensor.name)):
                celsius[sensor.name] = float(degrees[1])
    if not celsius:
        raise HiddenFact("no sensor in /sys/class/hwmon or of the management controller is at the inlet")
    worst = max(celsius, key=lambda name: celsius[name])
    return HostAnswer(celsius[worst], worst)


def _is_inlet(name: str) -> bool:
    return any(word in name.lower() for word in ("inlet", "ambient"))


@fact(container=_BMC, machine=_BMC)
def fan_alarms(root: Path) -> HostAnswer:
    """Return the number of fans that report an alarm.

    A speed of 0 does not count as an alarm, because headers without a fan show it too.
    """
    if list(_sensors(root, "fan*_input")):
        flags = [*_sensors(root, "fan*_alarm"), *_sensors(root, "fan*_fault")]
        raised = [f"{flag.parent.name} {flag.name}" for flag in flags if maybe(flag) == "1"]
        return HostAnswer(len(raised), some(raised))
    every = _controller(root, "no fan is in /sys/class/hwmon")
    fans = [each for each in every if each.entity == FAN or each.reading.endswith("RPM")]
    if not fans:
        raise HiddenFact("no fan is in /sys/class/hwmon or known to the management controller")
    raised = [f"{each.name} {each.reading} ({each.state})" for each in fans if each.state not in FINE]
    return HostAnswer(len(raised), some(raised))


@fact(container=_BMC, machine=_BMC)
def power_supplies(root: Path) -> str:
    """Return "on", or the states of the power supplies that are not on or report a fault."""
    supplies = sorted((root / "sys/class/power_supply").glob("*"))
    mains = {each.name: text(each / "online") for each in supplies if maybe(each / "type") == "Mains"}
    if mains:
        return some([f"{name} is off" for name, online in mains.items() if online != "1"]) or "on"
    every = _controller(root, "no power supply is in /sys/class/power_supply")
    known = [each for each in every if each.entity == SUPPLY]
    if not known:
        raise HiddenFact("no power supply is in /sys/class/power_supply or known to the management controller")
    faulty = [each for each in known if each.state not in FINE or _FAILED.search(each.reading)]
    return some([f"{each.name}: {each.reading} ({each.state})" for each in faulty]) or "on"


def _sensors(root: Path, pattern: str) -> list[Path]:
    return sorted((root / "sys/class/hwmon").glob(f"hwmon*/{pattern}"))


def _controller(root: Path, lacking: str) -> list[IpmiSensor]:
    """Return the sensors of the management controller.

    Raises HiddenFact with what the files lack (`lacking`) and why the controller could not be asked either.
    """
    try:
        return sensors(root)
    except HiddenFact as why:
        raise HiddenFact(f"{lacking}; {why}") from None
