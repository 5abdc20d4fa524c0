"""The passive check of a node: the facts of a session, without workers, lock and record, within a time limit.

It takes place in a thread that nobody waits for longer than that: a driver, a file system or the start of a process
may block for ever.
"""

from __future__ import annotations

import math
import os
import stat
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pytest_accel.core import clock, untrusted
from pytest_accel.core.measurement import Names
from pytest_accel.core.messages import Problem
from pytest_accel.core.node_name import node_name
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.drivers import deadlines, registry
from pytest_accel.drivers.host import system
from pytest_accel.drivers.interface import NoAnswer
from pytest_accel.judging.closing import passive
from pytest_accel.judging.closing.passive import PassiveResult
from pytest_accel.judging.facts import partitions
from pytest_accel.judging.facts.error_reports import reported
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.run import folder_summary, terms
from pytest_accel.run.device_lock import FOLDER
from pytest_accel.run.folder_summary import last_run
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record_folder import RecordFolder
from pytest_accel.run.session import Session
from pytest_accel.run.setup import Asked, asked_of, discover, is_accelerator, settled
from pytest_accel.skus import requirements

ENDING_SECONDS = 0.6
"""Seconds of the time limit that are kept to end the sensor and to print the result."""
KILL_SECONDS = 0.2
"""Seconds that a killed sensor gets to end, before it counts as one that hangs in its driver."""
AGAIN_SECONDS = 30.0
"""Seconds after which links that are down soon after the boot are read a second time, if the time limit allows."""
RECORD_SHARE = 0.3
"""The share of the time limit in which the newest result has to be read. Its file system may hang, too."""


@dataclass
class Checked:
    """What a passive check has found so far."""

    discovery: Discovery = field(default_factory=Discovery)
    """The devices that were found."""
    sku: str = "unknown"
    """The name of the SKU that they were judged as."""
    named: bool = False
    """True if the SKU was named, so that its devices are expected."""
    reads: str = "this machine"
    """What it reads at the moment: what blocks a check that does not end in time."""
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
    def accelerators(self) -> int:
        """The number of devices that are not on every machine."""
        return sum(map(is_accelerator, self.discovery.devices))

    @property
    def names(self) -> Names:
        """Display name by subject (the UUID of a device, or NODE)."""
        return Names.of(self.discovery.devices)


def check(options: Options, place: Path | None = None, *, kernel_log: bool = True, root: Path = Path("/")) -> Checked:
    """Read and judge this node within the seconds of `options.patience`.

    `place` is where the results of its runs are; the files of the kernel are read below `root`. Raises Refused or
    BadFile for a wrong option or file.
    """
    stuck = None if options.simulate else stuck_sensor()
    if stuck:
        return Checked(unknown=stuck)
    began, work = time.monotonic(), _Check(options, place, kernel_log, root)
    thread = threading.Thread(target=work.run, daemon=True)
    thread.start()
    thread.join(max(0.0, options.patience - ENDING_SECONDS))
    done = replace(work.known)  # the thread may go on
    if thread.is_alive() and done.found is None and not done.unknown:
        done.unknown = f"{done.reads} silent for {time.monotonic() - began:.0f} s"
    work.stop()
    if done.wrong:
        raise done.wrong
    return done


class _Check:
    """One check, step by step; `known` holds what it has found so far."""

    def __init__(self, options: Options, place: Path | None, kernel_log: bool, root: Path) -> None:
        self._options, self._place, self._kernel_log, self._root = options, place, kernel_log, root
        self._began = time.monotonic()
        self._pool = self._new()
        self.known = Checked()

    def _new(self) -> WorkerPool:
        """Return a pool for a session that only reads."""
        sensor = SensorClient(self._options.patience, listens=False)
        return WorkerPool(sensor)

    def run(self) -> None:
        """Read and judge the node, twice if that may help, and keep whatever ends it."""
        try:
            asked = asked_of(self._options)
            self._find_last_run(rehearsal=asked.node is not None)
            self._look(asked)
            spent = time.monotonic() - self._began
            enough = self._options.patience - ENDING_SECONDS - spent > AGAIN_SECONDS + spent  # for as long as before
            if self.known.found and self.known.found.training and enough:
                time.sleep(AGAIN_SECONDS)
                self.stop()
                self._pool = self._new()
                self._look(asked)
        except terms.Unrecognised as unknown:
            self.known.unknown = str(unknown)
        except Exception as error:  # noqa: BLE001  raised again in the thread that waits
            self.known.wrong = error

    def stop(self) -> None:
        """End the sensor, and remember one that cannot be killed."""
        sensor = self._pool.sensor
        sensor.stop(KILL_SECONDS)
        if sensor.child and sensor.child.left_behind:
            remember_stuck(sensor.child.pid)
        self._pool.stop()

    def _find_last_run(self, *, rehearsal: bool) -> None:
        """Read the newest result of this node in a part of the time, since it may lie on a server that is down.

        Raises Refused for a file that is no record. A folder that is not there yet is legitimate before the first run.
        """
        if self._place is None:
            return
        self.known.reads = "--record"
        read = partial(_read_last_run, self._place, node_name(), rehearsal=rehearsal)
        answer = deadlines.each({"record": read}, RECORD_SHARE * self._options.patience)["record"]
        if isinstance(answer, Refused):
            raise answer
        if isinstance(answer, Summary) or answer is None:
            self.known.last = answer
        else:
            late = isinstance(answer, NoAnswer)
            self.known.record_problem = f"{self._place} does not answer" if late else str(answer)

    def _look(self, asked: Asked) -> None:
        """Read the devices and what the kernel logged, and judge both. Raises Refused for terms that cannot be."""
        self.known.reads = "driver"
        self.known.discovery = self._with_vanished(discover(asked, self._pool), asked.vendor)
        node = settled(asked, self.known.discovery)
        self.known.discovery, judged = node.discovery, node.terms
        self.known.sku, self.known.named = judged.sku.name if judged.sku else "unknown", judged.named
        if divided := partitions.refusal(node.devices, judged.platform):
            raise terms.Unrecognised(divided)
        limits = requirements.applying(judged.required, judged.sku, judged.platform)
        metrics = passive.metrics(limits, logged=self._kernel_log)
        if any(map(reported, metrics)):
            self.known.reads, last = "kernel log", self.known.last
            began = last.began if last and last.accepts and last.good else None
            since = f"since the run of {last.day}" if last and began else "since boot"
            self._pool.sensor.look_back(since, began.timestamp() if began else 0.0)
        session = Session(asked, node, self._pool, RecordFolder())
        session.judge_facts(metrics)
        up = math.inf if asked.node else system.uptime(self._root)
        self.known.found = passive.concluded(session.ledger.record, up)

    def _with_vanished(self, found: Discovery, vendor: str | None) -> Discovery:
        """Return what was discovered, with a problem if the last run had more accelerators, or may have had some."""
        last, unread = self.known.last, self.known.record_problem
        vendors = registry.registered().vendors
        known = [vendors[each.driver] for each in last.devices if each.driver in vendors] if last else []
        before = [each.name for each in known if each.accelerator]
        now = tuple(device for device in found.devices if is_accelerator(device))
        if unread and vendor is None and not now:
            problem = Problem("accelerator", "need", f"none found, last run not read: {unread}")
        elif last and len(before) > len(now):
            reason = f"{len(now)} of the {len(before)} devices that the run of {last.day} found"
            # a container may not have been given them
            problem = Problem(before[0], "need" if found.container and not now else "device", reason)
        else:
            return found
        return replace(found, devices=now, problems=[*found.problems, problem])


def _read_last_run(place: Path, node: str, *, rehearsal: bool) -> Summary | BadFile | Refused | None:
    """Return the newest result of a node, or why it cannot be read; Refused for a file that is no record."""
    try:
        found = last_run(place, node, rehearsal=rehearsal)
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
    """Note that a process hangs. Where that fails, the next check starts another sensor.

    The file is always a new one, since another user may have put a link to any file in its place, also a hard one.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with suppress(OSError):
        (folder / STUCK).unlink(missing_ok=True)
        with open(os.open(folder / STUCK, flags, 0o644), "w", encoding="ascii") as file:
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
