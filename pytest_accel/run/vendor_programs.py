"""Runs the programs of a vendor, its diagnostic and its bug report, each with a deadline, and reads their results."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.measurement import Device
from pytest_accel.core.untrusted import BadFile
from pytest_accel.drivers import registry
from pytest_accel.drivers.diagnostic_report import PRINTED, Diagnostic, NoReport, Program, Report
from pytest_accel.run import record
from pytest_accel.run.options import Refused
from pytest_accel.run.processes.supervisor import TICK
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record_folder import RecordFolder, numbered
from pytest_accel.run.setup import Inputs, Target

STOPPING_SECONDS = 30.0
"""Seconds that a program has to end after an interrupt; `dcgmi` waits 25 s for its load to end."""
START = (
    "import ctypes, os, signal, sys; signal.signal(2, signal.SIG_DFL); "
    "ctypes.CDLL(None).prctl(1, 2, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""The program of `python` that has the kernel interrupt what it becomes when pytest ends (PR_SET_PDEATHSIG, SIGINT). A
job in the background of a shell ignores interrupts, and what it starts does, too."""

BUG_REPORT_SECONDS = 900.0
"""Seconds that the vendor's bug report may take; on a sick device it may never end."""

Tick = Callable[[float], None]
"""A function that is called a few times a second with the seconds that a program has run."""


def call(program: Program, arguments: Sequence[str], folder: Path, seconds: float, tick: Tick) -> tuple[bytes, str]:
    """Run a program in a new folder for at most `seconds`; return its results, and how it ended in words.

    Raises NoReport where it is absent, does not end in time, or leaves no results.
    """
    path, command = shutil.which(program.name), " ".join([Path(program.name).name, *arguments])
    if path is None:
        raise NoReport(f"{program.name} is not installed: {program.install}")
    folder.mkdir()
    with (folder / PRINTED).open("xb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", START, path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    start, status = time.monotonic(), None
    try:
        while status is None and (elapsed := time.monotonic() - start) < seconds:
            tick(elapsed)
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(TICK)
    finally:
        _stop(process)
    if status is None:
        raise NoReport(f"{command} did not end within {seconds:.0f} s and was stopped")
    outcome = f"{command} ended with exit status {status}"
    results = sorted(folder.glob(program.results))
    if not results:
        raise NoReport(f"{outcome} and left no {program.results}; see {folder / PRINTED}")
    try:
        return untrusted.read_bytes(results[-1], most=untrusted.LOG_BYTES), outcome
    except BadFile as bad:
        raise NoReport(f"{outcome}: {bad}") from None


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a program that has not ended, and kill it if it does not end by that."""
    # by an interrupt `dcgmi` stops the load that nv-hostengine has begun for it, by a kill it would go on
    # (NVIDIA/DCGM v4.6.0, dcgmi/Diag.cpp, handle_signal_during_diag)
    for end in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                os.killpg(process.pid, end)
                process.wait(STOPPING_SECONDS)


class VendorPrograms:
    """The programs of the vendor of a run's devices. Raises Refused for a given output that is not of these."""

    def __init__(self, inputs: Inputs, target: Target, pool: WorkerPool, folder: RecordFolder) -> None:
        self._pool, self._folder = pool, folder
        self._diagnostic = registry.vendor(target.terms.sku.vendor).diagnostic if target.terms.sku else None
        file, serials = inputs.options.diag, [device.serial or "" for device in target.devices]
        self._output = read_report(self._diagnostic, file, serials) if file and self._diagnostic else None

    def diagnostic_report(self, level: int, devices: Sequence[Device], seconds: float) -> Report:
        """Return the report of the diagnostic at a level, from a given output or by running it. Raises NoReport."""
        if (diagnostic := self._diagnostic) is None:
            raise NoReport("no diagnostic of this vendor is known")
        if self._output:
            report, raw = self._output
        else:
            words = diagnostic.arguments(level, [device.index for device in devices])
            raw, outcome = self._call(diagnostic.program, words, seconds)
            try:
                report = diagnostic.read(raw.decode(errors="replace"))
            except NoReport as error:
                raise NoReport(f"{outcome}: {error}") from None
        self._folder.keep(record.DIAGNOSTIC, raw)
        return report

    def bug_report(self) -> str:
        """Run the vendor's bug report, and return a sentence that says where it is, or why there is none."""
        if self._diagnostic is None:
            return "no bug report of the vendor is known"
        try:
            raw, _ = self._call(self._diagnostic.bug_report, (), BUG_REPORT_SECONDS)
        except (NoReport, OSError) as error:
            return f"no bug report of the vendor: {error}"
        except KeyboardInterrupt:  # the node is rejected all the same
            return "no bug report of the vendor: it was interrupted"
        name = record.BUG_REPORTS[not raw.startswith(b"\x1f\x8b")]  # a packed file begins so (RFC 1952)
        self._folder.keep(name, raw)
        return f"the vendor's bug report is {name} beside the record"

    def _call(self, program: Program, words: Sequence[str], seconds: float) -> tuple[bytes, str]:
        """Call a program with its progress on the screen, while it has the devices to itself. Raises NoReport."""
        name = Path(program.name).name
        seconds = min(seconds, self._pool.deadline.seconds_left)
        with self._pool.workers_ended_for(name):
            paths = numbered((self._pool.logs or self._pool.meeting) / name)
            folder = next(path for path in paths if not path.exists())
            return call(program, words, folder, seconds, partial(self._pool.progress.timed, name, expected=seconds))


def read_report(diagnostic: Diagnostic, file: Path, serials: Sequence[str]) -> tuple[Report, bytes]:
    """Return the report in the output of an earlier run, and the output. Raises Refused if it may be of another node.

    `serials` are those of the devices. A device may have been exchanged before the host was booted last.
    """
    try:
        raw = untrusted.read_bytes(file)
        report = diagnostic.read(raw.decode(errors="replace"))
    except BadFile as bad:
        raise Refused(*bad.prefixed("--accel-diag")) from None
    except NoReport as error:
        raise Refused(f"--accel-diag: {file} holds no results: {error}") from None
    if file.stat().st_mtime < time.time() - time.clock_gettime(time.CLOCK_BOOTTIME):
        raise Refused(f"--accel-diag: {file} was made before this host was booted: run the diagnostic again")
    if not report.serials or not all(serials):
        raise Refused(
            f"--accel-diag: {file}, or a device, states no serial number (AGFHC never does): it may be of other devices"
        )
    if missing := set(serials) - set(report.serials.values()):
        raise Refused(f"--accel-diag: {file} does not hold the device with the serial number {min(missing)}")
    return report, raw
