"""The passive check of a node: one sensor process reads it, beside whatever runs there, within a time limit.

The check runs in a thread that nobody waits for longer than that: a driver, a file system or the start of a process may
block for ever.
"""

from __future__ import annotations

import math
import os
import stat
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pytest_accel.core import clock, untrusted
from pytest_accel.core.measurement import Names
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.drivers import deadlines, registry
from pytest_accel.drivers.host import system
from pytest_accel.drivers.interface import NoAnswer
from pytest_accel.drivers.kernel_messages import SOURCE
from pytest_accel.judging.closing import passive
from pytest_accel.judging.closing.passive import PassiveResult
from pytest_accel.judging.facts import partitions
from pytest_accel.judging.facts.error_counters import ReadingWindow
from pytest_accel.judging.facts.error_reports import ErrorReports, reported
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.run import folder_summary, simulation, terms
from pytest_accel.run.device_lock import FOLDER
from pytest_accel.run.folder_summary import last_run
from pytest_accel.run.options import AUTO, Refused
from pytest_accel.run.processes.programs import REAL, Processes
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.setup import discovered, is_accelerator
from pytest_accel.run.terms import Wanted
from pytest_accel.skus import requirements
from pytest_accel.skus.waivers import Waivers

PREFIX = "--"
"""The beginning of the options of a health check, which are shorter than those of a run."""
ENDING_SECONDS = 0.6
"""Seconds of the time limit that are kept to end the sensor and to print the result."""
KILL_SECONDS = 0.2
"""Seconds that a killed sensor gets to end, before it counts as one that hangs in its driver."""
AGAIN_SECONDS = 30.0
"""Seconds after which links that are down soon after the boot are read a second time, if the time limit allows."""
RECORD_SHARE = 0.3
"""The share of the time limit in which the newest result has to be read. Its file system may hang, too."""

Logged = tuple[ErrorReports | None, ReadingWindow]
"""What the kernel logged, None if that is left out, and the window of time that counts."""


@dataclass(frozen=True)
class CheckRequest:
    """What a passive check is asked for. `record` is where the results of this node's runs are."""

    node: str
    sku: str = "auto"
    platform: str = "auto"
    waivers: Path | None = None
    record: Path | None = None
    trusts: bool = False
    """True to believe the summaries of the runs, and not to read their records."""
    kernel_log: bool = True
    simulate: str | None = None
    root: Path = Path("/")
    """The folder that the files of the kernel are read below."""


@dataclass
class Checked:
    """What a passive check has found so far."""

    reads: str = "this machine"
    """What it reads at the moment: what blocks a check that does not end in time."""
    sku: Sku | None = None
    discovery: Discovery = field(default_factory=Discovery)
    found: PassiveResult | None = None
    """The verdicts; None where nothing could be judged."""
    unknown: str = ""
    """The reason why nothing could be judged; empty if it was."""
    last: Summary | None = None
    """The newest result of this node, None where there is none or none was asked for."""
    record_problem: str = ""
    """The reason why the newest result could not be read; empty if it could."""
    wrong: Exception | None = None
    """What ended the check: Refused or BadFile for a wrong option or file, anything else for a bug."""

    @property
    def age(self) -> float:
        """The seconds since the newest result began; infinite without one."""
        began = self.last.began if self.last else None
        return max(0.0, clock.now() - began.timestamp()) if began else math.inf

    @property
    def names(self) -> Names:
        """Display name by UUID."""
        return Names.of(self.discovery.devices)

    @property
    def accelerators(self) -> int:
        """The number of devices that are not on every machine."""
        return sum(map(is_accelerator, self.discovery.devices))


def check(asked: CheckRequest, seconds: float) -> Checked:
    """Read and judge this node within so many seconds. Raises Refused or BadFile for a wrong option or file."""
    stuck = None if asked.simulate else stuck_sensor()
    if stuck:
        return Checked(unknown=stuck)
    began = time.monotonic()
    sensor, known = SensorClient(seconds), Checked()
    with tempfile.TemporaryDirectory(prefix="accel-health-", ignore_cleanup_errors=True) as folder:
        work = partial(_until_its_end, _Check(asked, sensor, known, seconds), Path(folder))
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(max(0.0, seconds - ENDING_SECONDS))
        done = replace(known)  # the thread may go on
        if thread.is_alive() and done.found is None and not done.unknown:
            done.unknown = f"{done.reads} silent for {time.monotonic() - began:.0f} s"
        sensor.stop(KILL_SECONDS)
    if sensor.child and sensor.child.left_behind:
        remember_stuck(sensor.child.pid)
    if done.wrong:
        raise done.wrong
    return done


def _until_its_end(work: _Check, folder: Path) -> None:
    """Run the check, and keep whatever ends it."""
    try:
        work.run(folder)
    except terms.Unrecognised as unknown:
        work.known.unknown = str(unknown)
    except Exception as error:  # noqa: BLE001  raised again in the thread that waits
        work.known.wrong = error


class _Check:
    """One check, step by step; `known` holds what it has found so far."""

    def __init__(self, asked: CheckRequest, sensor: SensorClient, known: Checked, seconds: float) -> None:
        self.asked, self.sensor, self.known, self._seconds = asked, sensor, known, seconds
        self.wanted = Wanted(asked.sku, asked.platform, prefix=PREFIX)
        self._began = time.monotonic()

    def run(self, folder: Path) -> None:
        """Read and judge the node; `folder` is for the state of a simulated one. Raises Refused."""
        node = simulation.node(self.asked.simulate, option=f"{PREFIX}simulate")
        if node and self.asked.sku == AUTO:
            self.wanted = replace(self.wanted, sku=node.asked)
        named = self.wanted.named(on_hardware=node is None)
        waivers = terms.waivers(self.asked.waivers, f"{PREFIX}waivers")
        self._find_last_run(rehearsal=node is not None)
        processes = simulation.processes(node, folder) if node else REAL
        self._discover(processes, named)
        wanted = self._limits(node.platform.name if node else AUTO)
        logged, root = self._logged(wanted), None if node else self.asked.root
        self._judge(wanted, waivers, logged, root)
        spent = time.monotonic() - self._began
        enough = self._seconds - ENDING_SECONDS - spent > AGAIN_SECONDS + spent  # to read again for as long as before
        if self.known.found and self.known.found.training and enough:
            time.sleep(AGAIN_SECONDS)
            self.sensor.stop(KILL_SECONDS)
            self._discover(processes, named)
            self._judge(wanted, waivers, logged, root)

    def _find_last_run(self, *, rehearsal: bool) -> None:
        """Read the newest result of this node in a part of the time, since it may lie on a server that is down.

        Raises Refused for a file that is no record. A folder that is not there yet is legitimate before the first run.
        """
        place = self.asked.record
        if place is None:
            return
        self.known.reads = "--record"
        read = partial(_read_last_run, place, self.asked.node, rehearsal=rehearsal, trusts=self.asked.trusts)
        answer = deadlines.each({"record": read}, RECORD_SHARE * self._seconds)["record"]
        if isinstance(answer, Refused):
            raise answer
        if isinstance(answer, Summary) or answer is None:
            self.known.last = answer
        else:
            late = isinstance(answer, NoAnswer)
            self.known.record_problem = f"{place} does not answer" if late else str(answer)

    def _discover(self, processes: Processes, named: Sku | None) -> None:
        """Read the devices, and settle the SKU. Raises Refused if a shipped file is broken or no SKU matches."""
        self.known.reads = "driver"
        vendor = named.vendor if named else None
        self.sensor.begin(processes, Path(os.devnull))
        found = self._with_vanished(discovered(self.sensor.discover(vendor), vendor), vendor)
        self.known.discovery = found
        self.known.sku = named or terms.sku_soon(found.devices, PREFIX)

    def _with_vanished(self, found: Discovery, vendor: str | None) -> Discovery:
        """Return what was discovered, with a problem if the last run had more accelerators, or may have had some."""
        last = self.known.last
        vendors = registry.registered().vendors
        before = [each.driver for each in last.devices] if last else []
        before = [each for each in before if each in vendors and vendors[each].accelerator]
        now = [device for device in found.devices if is_accelerator(device)]
        if (unread := self.known.record_problem) and vendor is None and not now:
            problem = {"driver": "accelerator", "kind": "need", "reason": f"none found, last run not read: {unread}"}
            return replace(found, devices=(), problems=[*found.problems, problem])
        if last is None or len(before) <= len(now):
            return found
        reason = f"{len(now)} of the {len(before)} devices that the run of {last.day} found"
        kind = "need" if found.container and not now else "device"  # a container may not have been given them
        problem = {"driver": before[0], "kind": kind, "reason": reason}
        return replace(found, devices=tuple(now), problems=[*found.problems, problem])

    def _limits(self, usual: str) -> Mapping[str, Limit]:
        """Return the limits that the terms require. Raises Refused for a platform of another SKU.

        `usual` is the platform if none was asked for: that of a simulated node, else AUTO.
        """
        sku, devices = self.known.sku, self.known.discovery.devices
        settled = self.wanted.settled(sku, devices, platform=usual)
        if sku and {self.wanted.platform, usual} != {AUTO}:
            self.known.discovery = terms.expecting(self.known.discovery, sku, settled.platform)
        if sku and (divided := partitions.refusal(devices, settled.platform)):
            raise terms.Unrecognised(divided)
        return requirements.applying(settled.required, sku, settled.platform)

    def _logged(self, limits: Mapping[str, Limit]) -> Logged:
        """Return what the kernel logged since the boot or since the run that accepted the node, and since when."""
        reports, last = None, self.known.last
        since = ReadingWindow("since boot", 0.0, 0.0)
        if self.asked.kernel_log and any(map(reported, limits)):
            self.known.reads = "kernel log"
            deaf = self.sensor.kernel_past()
            if last and last.began and last.accepts and last.good:
                since = ReadingWindow(f"since the run of {last.day}", last.began.timestamp(), 0.0)
            past = [each for each in self.sensor.reports.heard if each.source == SOURCE and each.at >= since.started]
            reports = ErrorReports(past, {SOURCE: deaf})  # other sources tell only what happens from now on
        return reports, replace(since, ended=clock.now())

    def _judge(self, limits: Mapping[str, Limit], waivers: Waivers, logged: Logged, root: Path | None) -> None:
        """Judge the facts of the devices, and what the kernel logged. `root` is None for a simulated node."""
        known, up, (reports, since) = self.known, system.uptime(root) if root else math.inf, logged
        rails = {each.removeprefix("host."): each for each in passive.RAILS if each in limits}
        answers = self.sensor.host(rails) if rails else {}
        host = {rails[name]: answer for name, answer in answers.items()}
        judged = partial(passive.judged, reports=reports, since=since, waivers=waivers, up=up, host=host)
        known.found = judged(known.discovery, known.sku, limits)


def _read_last_run(place: Path, node: str, **how: bool) -> Summary | BadFile | Refused | None:
    """Return the newest result of a node, or why it cannot be read; Refused for a file that is no record."""
    try:
        found = last_run(place, node, **how)
    except BadFile as bad:
        return bad
    if found is None and place.is_file():
        try:
            folder_summary.of_file(place)
        except BadFile as bad:
            return Refused(*bad.behind("--record")) if os.access(place, os.R_OK) else bad
    return found


# -- a sensor that could not be killed, remembered so that the next checks start no other one that would hang as well


STUCK = "pytest-accel-health.stuck"
"""The file that names the process and when it was started."""


def remember_stuck(pid: int, folder: Path = FOLDER) -> None:
    """Note that a process hangs. Where that fails, the next check starts another sensor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError), open(os.open(folder / STUCK, flags, 0o644), "w", encoding="ascii") as file:
        file.write(f"{pid} {_start_of(pid)}\n")


def stuck_sensor(folder: Path = FOLDER) -> str | None:
    """Return a sentence if the sensor of an earlier check still hangs, else None.

    A note of another user counts if that is root: anybody can write into the folder.
    """
    path = folder / STUCK
    try:
        if path.lstat().st_uid not in (0, os.geteuid()) or not stat.S_ISREG(path.lstat().st_mode):
            return None
        pid, start = untrusted.read_text(path, most=100, follow=False).split()
    except (OSError, BadFile, ValueError):
        return None
    if not pid.isdigit() or not start.isdigit() or _start_of(int(pid)) != int(start):
        return None
    return f"driver silent: process {pid} of an earlier check hangs in it"


def _start_of(pid: int) -> int:
    """Return when a process was started, in ticks since the boot; 0 if there is none or it has ended."""
    try:
        stat_line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return 0
    state, *fields = stat_line.rpartition(")")[2].split()
    return 0 if state in ("Z", "X") else int(fields[18])
