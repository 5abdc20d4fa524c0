"""The passive check of a node: the facts of a session, without workers, lock and record, within a time limit."""

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
from pytest_accel.core.messages import Problem
from pytest_accel.core.node_name import node_name
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.drivers import deadlines, registry
from pytest_accel.drivers.host import system
from pytest_accel.drivers.interface import NoAnswer
from pytest_accel.judging.closing import passive_result
from pytest_accel.judging.closing.passive_result import PassiveResult
from pytest_accel.judging.facts import partitions
from pytest_accel.judging.facts.error_reports import counts_reports
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.run import folder_summary, terms
from pytest_accel.run.device_lock import FOLDER
from pytest_accel.run.folder_summary import last_run
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record_folder import RecordFolder
from pytest_accel.run.session import Session
from pytest_accel.run.setup import Inputs, discover, is_accelerator, read_inputs, target_of
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
class Check:
    """The state of a passive check: devices, verdicts and problems so far."""

    discovery: Discovery = field(default_factory=Discovery)
    """The devices that were found."""
    sku: str = "unknown"
    """The name of the SKU that they were judged as."""
    sku_named: bool = False
    """True if the SKU was named, so that its devices are expected."""
    reads: str = "this machine"
    """The source that is being read, which blocks a check that does not end in time."""
    result: PassiveResult | None = None
    """The verdicts; None where nothing could be judged."""
    unknown_reason: str = ""
    """The reason why nothing could be judged; empty if it was."""
    last_run: Summary | None = None
    """The newest result of this node, None where there is none or none was asked for."""
    record_problem: str = ""
    """The reason why the newest result could not be read; empty if it could."""
    error: Exception | None = None
    """The error that ended the check: Refused or BadFile for a wrong option or file, anything else for a bug."""

    @property
    def age(self) -> float:
        """The seconds since the newest result began; infinite without one."""
        start = self.last_run.began if self.last_run else None
        return max(0.0, clock.now() - start.timestamp()) if start else math.inf

    @property
    def accelerators(self) -> int:
        """The number of devices that are not on every machine."""
        return sum(map(is_accelerator, self.discovery.devices))


def check(options: Options, results: Path | None = None, *, kernel_log: bool = True, root: Path = Path("/")) -> Check:
    """Read and judge this node within the seconds of `options.patience`.

    `results` is the folder or record with the results of its runs; the files of the kernel are read below `root`.
    Raises Refused or BadFile for a wrong option or file.
    """
    stuck = None if options.simulate else stuck_sensor()
    if stuck:
        return Check(unknown_reason=stuck)
    start, work = time.monotonic(), _Checker(options, results, kernel_log, root)
    # a driver, a file system or the start of a process may block for ever, so nobody waits for the thread longer
    thread = threading.Thread(target=work.run, daemon=True)
    thread.start()
    thread.join(max(0.0, options.patience - ENDING_SECONDS))
    checked = replace(work.state)  # the thread may go on
    if thread.is_alive() and checked.result is None and not checked.unknown_reason:
        checked.unknown_reason = f"{checked.reads} silent for {time.monotonic() - start:.0f} s"
    work.stop()
    if checked.error:
        raise checked.error
    return checked


class _Checker:
    """One check, step by step; `state` holds the results so far."""

    def __init__(self, options: Options, results: Path | None, kernel_log: bool, root: Path) -> None:
        self._options, self._results, self._kernel_log, self._root = options, results, kernel_log, root
        self._began = time.monotonic()
        self._pool = self._new()
        self.state = Check()

    def _new(self) -> WorkerPool:
        """Return a pool for a session that only reads."""
        return WorkerPool(SensorClient(self._options.patience, listens=False))

    def run(self) -> None:
        """Read and judge the node, twice if that may help, and keep whatever ends it."""
        try:
            inputs = read_inputs(self._options)
            self._find_last_run(rehearsal=inputs.simulated_node is not None)
            self._look(inputs)
            elapsed = time.monotonic() - self._began
            # a second reading may take as long as the first
            has_time = self._options.patience - ENDING_SECONDS - elapsed > AGAIN_SECONDS + elapsed
            if self.state.result and self.state.result.training and has_time:
                time.sleep(AGAIN_SECONDS)
                self.stop()
                self._pool = self._new()
                self._look(inputs)
        except terms.Unrecognised as refusal:
            self.state.unknown_reason = str(refusal)
        except Exception as error:  # noqa: BLE001  raised again in the thread that waits
            self.state.error = error

    def stop(self) -> None:
        """End the sensor, and remember one that cannot be killed."""
        sensor = self._pool.sensor
        sensor.stop(KILL_SECONDS)
        if sensor.child and sensor.child.unkillable:
            remember_stuck(sensor.child.pid)
        self._pool.stop()

    def _find_last_run(self, *, rehearsal: bool) -> None:
        """Read the newest result of this node in a part of the time, since it may lie on a server that is down.

        Raises Refused for a file that is no record. A folder that is not there yet is legitimate before the first run.
        """
        if self._results is None:
            return
        self.state.reads = "--record"
        task = partial(_read_last_run, self._results, node_name(), rehearsal=rehearsal)
        answer = deadlines.ask({"record": task}, RECORD_SHARE * self._options.patience)["record"]
        if isinstance(answer, Refused):
            raise answer
        if isinstance(answer, Summary) or answer is None:
            self.state.last_run = answer
        else:
            silent = isinstance(answer, NoAnswer)
            self.state.record_problem = f"{self._results} does not answer" if silent else str(answer)

    def _look(self, inputs: Inputs) -> None:
        """Read the devices and what the kernel logged, and judge both. Raises Refused for terms that cannot be."""
        self.state.reads = "driver"
        # a device that has vanished is no longer discovered, and only the last run knows of it
        self.state.discovery = self._with_vanished(discover(inputs, self._pool), inputs.vendor)
        node = target_of(inputs, self.state.discovery)
        self.state.discovery, node_terms = node.discovery, node.terms
        self.state.sku = node_terms.sku.name if node_terms.sku else "unknown"
        self.state.sku_named = node_terms.sku_named
        if refusal := partitions.refusal(node.devices, node_terms.platform):
            raise terms.Unrecognised(refusal)
        limits = requirements.applying(node_terms.required, node_terms.sku, node_terms.platform)
        metrics = passive_result.metrics(limits, logged=self._kernel_log)
        if any(map(counts_reports, metrics)):
            self.state.reads, last = "kernel log", self.state.last_run
            start = last.began if last and last.accepts and last.good else None
            activity = f"since the run of {last.day}" if last and start else "since boot"
            self._pool.sensor.look_back(activity, start.timestamp() if start else 0.0)
        session = Session(inputs, node, self._pool, RecordFolder())
        session.judge_facts(metrics)
        uptime = math.inf if inputs.simulated_node else system.uptime(self._root)
        self.state.result = passive_result.conclude(session.ledger.record, uptime)

    def _with_vanished(self, discovery: Discovery, vendor: str | None) -> Discovery:
        """Return the discovery, with a problem if the last run had more accelerators, or may have had some."""
        last, record_problem = self.state.last_run, self.state.record_problem
        vendors = registry.registered().vendors
        last_vendors = [vendors[device.driver] for device in last.devices if device.driver in vendors] if last else []
        accelerators = [entry.name for entry in last_vendors if entry.accelerator]
        devices = tuple(device for device in discovery.devices if is_accelerator(device))
        if record_problem and vendor is None and not devices:
            problem = Problem("accelerator", "need", f"none found, last run not read: {record_problem}")
        elif last and len(accelerators) > len(devices):
            reason = f"{len(devices)} of the {len(accelerators)} devices that the run of {last.day} found"
            # a container may not have been given them
            problem = Problem(accelerators[0], "need" if discovery.container and not devices else "device", reason)
        else:
            return discovery
        return replace(discovery, devices=devices, problems=[*discovery.problems, problem])


def _read_last_run(results: Path, node: str, *, rehearsal: bool) -> Summary | BadFile | Refused | None:
    """Return the newest result of a node, or why it cannot be read; Refused for a file that is no record."""
    try:
        summary = last_run(results, node, rehearsal=rehearsal)
    except BadFile as bad:
        return bad
    if summary is None and results.is_file():
        try:
            folder_summary.of_file(results)
        except BadFile as bad:
            return Refused(*bad.prefixed("--record")) if os.access(results, os.R_OK) else bad
    return summary


# -- a sensor that could not be killed, remembered so that the next checks start no other one that would hang as well


STUCK = "pytest-accel-health.stuck"
"""The file that names the process and when it was started."""


def remember_stuck(pid: int, folder: Path = FOLDER) -> None:
    """Note that a process hangs. Where that fails, the next check starts another sensor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with suppress(OSError):
        # always a new file: another user may have put a link to any file in its place, also a hard one
        (folder / STUCK).unlink(missing_ok=True)
        with open(os.open(folder / STUCK, flags, 0o644), "w", encoding="ascii") as file:
            file.write(f"{pid} {_start_of(pid)}\n")


def stuck_sensor(folder: Path = FOLDER) -> str | None:
    """Return a sentence if the sensor of an earlier check still hangs, else None."""
    path = folder / STUCK
    try:
        # of another user only root's counts, since anybody can write into the folder
        if path.lstat().st_uid not in (0, os.geteuid()) or not stat.S_ISREG(path.lstat().st_mode):
            return None
        pid, start = untrusted.read_text(path, most=100, follow=False).split()
    except (OSError, BadFile, ValueError):
        return None
    if not pid.isdigit() or not start.isdigit() or _start_of(int(pid)) != int(start):
        return None
    return f"driver silent: process {pid} of an earlier check hangs in it"


def _start_of(pid: int) -> int:
    """Return the start of a process in ticks since the boot; 0 if there is none or it has ended."""
    try:
        stat_line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return 0
    state, *fields = stat_line.rpartition(")")[2].split()
    return 0 if state in ("Z", "X") else int(fields[18])
