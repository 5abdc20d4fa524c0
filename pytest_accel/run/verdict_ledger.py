"""The measurements and verdicts of a run so far, and the record on disk that holds them."""

from __future__ import annotations

import os
import platform
import pwd
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest_accel
from pytest_accel.core import clock, untrusted
from pytest_accel.core.measurement import Measurement, Names
from pytest_accel.core.node_name import node_name
from pytest_accel.core.paths import writing
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.software import versions_of
from pytest_accel.core.verdict import Closing, Status, Verdict
from pytest_accel.judging.closing import anew, series_result
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.history import History, stored_pasts, terms_of
from pytest_accel.judging.verdicts.judge_attempts import worse
from pytest_accel.judging.verdicts.smallest_losses import of_run
from pytest_accel.run import baseline, earlier_records, record, simulation, telemetry_file
from pytest_accel.run.options import Refused
from pytest_accel.run.processes import environment
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record_folder import RecordFolder
from pytest_accel.run.setup import Inputs, Target


class Ledger:
    """Keeps the measurements and verdicts of a run, and writes its record."""

    def __init__(self, inputs: Inputs, target: Target, pool: WorkerPool, folder: RecordFolder) -> None:
        self.folder = folder
        self.record = Run(info={})
        self.baseline = baseline.Baseline(History((), (), dict), inputs.options.baseline)
        self._inputs, self._target, self._pool = inputs, target, pool
        self._newest: dict[tuple[str, str], Measurement] = {}
        """The newest measurement in the record, by metric and subject."""
        self._verdicts: dict[tuple[str, str, str], Verdict] = {}

    @property
    def begun(self) -> bool:
        """True once the record says how the run was started and holds its devices."""
        return self.folder.path is not None and bool(self.record.info)

    def begin(self) -> None:
        """Write how the run was started into its record, and open the telemetry. Raises Refused if neither can be."""
        folder = self.folder.path
        assert folder
        with writing("--accel-output", folder, Refused):
            self._pool.sensor.telemetry.write_to(folder / record.TELEMETRY)
        self._enter_start(folder)
        self.enter_subjects()
        self._enter_earlier(folder)
        self.save()
        if self.folder.problem:
            raise Refused(f"--accel-output: cannot write to {folder}: {self.folder.problem}")
        output = self._inputs.options.output
        if output and folder != output.absolute() and not self._inputs.options.shares_folder:
            self.record.notes.append(f"{output} holds the record of another host; this one is in {folder}")

    def _enter_start(self, folder: Path) -> None:
        """Enter command, host, environment and time limit of the run."""
        options, node = self._inputs.options, self._inputs.simulated_node
        cleared, kept = environment.user_settings(os.environ)
        self.record.info = {
            "started": clock.iso(clock.now()),
            "epochs": (clock.epoch(), clock.epoch()),
            "host": node_name(),
            "boot": clock.boot_id(),
            "command": list(options.command),
            "level": self._target.terms.level,
            "platform": self._target.terms.platform.name,
            "user": _user(),
            "output": str(folder),
            "environment": {"cleared": cleared, "kept": kept},
        }
        self.record.notes += environment.notes(os.environ)
        if options.launch:
            self.record.info["launcher"] = options.launch
        if options.previous_record:
            self.record.info["follows"] = options.previous_record
        if options.nonce:
            self.record.info["nonce"] = options.nonce
        if options.time_limit is not None:
            self.record.info["time_limit"] = options.time_limit
        if node:
            self.record.info["simulated"] = simulation.for_record(node, self._inputs.elapsed)

    def enter_subjects(self) -> None:
        """Enter the SKU, the devices and the software."""
        sku, devices = self._target.terms.sku, self._target.terms.devices
        if sku:
            self.record.sku = record.sku_entry(sku, self._inputs.options.sku)
        if boards := self._inputs.packing_list:
            self.record.packing_list = record.packing_entry(boards)
            self.record.notes.append(f"packing list {boards.file}, {len(boards.rows)} boards, sha256 {boards.sha256}")
        self.record.notes += self._target.notes
        self.record.devices = list(devices)
        self.record.software = {
            "pytest_accel": pytest_accel.__version__,
            "kernel": platform.release(),
            "python": platform.python_version(),
            **versions_of(devices),
        }

    def _enter_earlier(self, folder: Path) -> None:
        """Enter the earlier records that hold one of the devices."""
        launch, rehearsal = self._inputs.options.launch, self._inputs.simulated_node is not None
        earlier = earlier_records.read(folder, launch, rehearsal=rehearsal)
        self.record.earlier_attempts = earlier.entries_of(device.uuid for device in self._target.devices)
        self.record.notes += earlier.notes()
        # the terms as a function, since the software in them is known only once the workers report it
        self.baseline, notes = baseline.find(self._inputs, self._target, earlier, self._terms)
        self.record.baseline = self.baseline.entry
        self.record.notes += notes

    def _terms(self) -> dict[str, str]:
        """Return the level, platform and software of this run, as far as they are known."""
        software = {**self.record.software, **self._pool.software}
        return terms_of(self._target.terms.level, self._target.terms.platform.name, software)

    # -- measurements and verdicts

    @property
    def names(self) -> Names:
        """Display name by subject (the UUID of a device, or NODE)."""
        return Names({**record.names_of(self.record), **self._target.discovery.names})

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Add measurements to the record."""
        for measurement in measurements:
            measurement = replace(measurement, simulated=self._inputs.simulated_node is not None)  # noqa: PLW2901
            self.record.measurements.append(measurement)
            self._newest[measurement.metric, measurement.subject] = measurement

    def newest(self, metric: str, subject: str) -> Measurement | None:
        """Return the newest measurement of a metric of a subject, None if there is none."""
        return self._newest.get((metric, subject))

    def attempts(self, metric: str, subject: str) -> list[Measurement]:
        """Return all measurements of a metric of a subject, oldest first."""
        return [entry for entry in self.record.measurements if (entry.metric, entry.subject) == (metric, subject)]

    @property
    def verdicts(self) -> list[Verdict]:
        """The worst verdict on each limit so far."""
        return list(self._verdicts.values())

    def status(self, key: tuple[str, str, str]) -> Status | None:
        """Return the status of the verdict with this `Verdict.key`, None if there is none."""
        return self._verdicts[key].status if key in self._verdicts else None

    def keep(self, verdict: Verdict) -> Verdict:
        """Apply the waivers to a verdict, keep the worst one that was given on its limit, and return the new one."""
        serials = [device.serial for device in self._target.devices if device.uuid == verdict.subject and device.serial]
        verdict = self._inputs.waivers.apply(verdict, serials)
        self._verdicts[verdict.key] = worse(self._verdicts.get(verdict.key), verdict)
        self.record.verdicts = self.verdicts
        return verdict

    # -- the file

    def save(self, *, soon: bool = False) -> None:
        """Write the record. A failure is kept for the closing line, and the run goes on.

        If `soon` is set, the record is written only if the last write is about a second ago. That is enough for
        verdicts: there are hundreds, and they can be derived again from the measurements, which are written at once.
        """
        if self.folder.path is None or (soon and not self.folder.is_due()):
            return
        self.record.software.update(self._pool.software)  # workers report theirs after the record has begun
        self.record.info["counted"] = self._pool.sensor.counters.totals
        if host := self._pool.sensor.host_now:
            self.record.info["host_counted"] = host
        self.record.waivers = self._inputs.waivers.summary(self.verdicts)
        self.record.notes += [note for note in self._pool.sensor.notes if note not in self.record.notes]
        self.folder.save(self.record, self._give_up_telemetry)

    def _give_up_telemetry(self) -> bool:
        """Give up the file of the telemetry for the record on a full disk; return False if there is none."""
        self.record.telemetry = {}
        return self._pool.sensor.telemetry.give_up("removed, to make room for the record on a full disk")

    def complete(self, *, interrupted: bool) -> None:
        """Enter what is known once the processes have ended: the telemetry, the waivers that were used, the times."""
        telemetry = self._pool.sensor.telemetry
        telemetry.close()
        if self.folder.path and not telemetry.given_up:
            side = telemetry_file.pack(self.folder.path / record.TELEMETRY)
            self.record.telemetry = {"file": side.name, "sha256": untrusted.sha256(side)}
        if sku := self._target.terms.sku:
            metrics = {measurement.metric for measurement in self.record.measurements}
            self.record.sku = record.sku_entry(sku, self._inputs.options.sku, metrics)
        self.record.notes += self._inputs.waivers.notes(self.verdicts)
        epoch = clock.epoch_now()  # one reading for both, so that they agree
        self.record.info["ended"] = clock.iso(epoch + time.monotonic())
        self.record.info["epochs"] = (clock.epoch(), epoch)
        self.record.info = {**self.record.info, **self._pool.time_spent()}
        if note := series_result.clock_set(self.record):
            self.record.notes.append(f"{note} while the run went on: its hours do not count in a series")
        self.record.state = "interrupted" if interrupted else "finished"

    def close(self, circumstances: Circumstances) -> Closing:
        """Write the closing line into the record and return it; it is another one if the record cannot be written."""
        closing = self._conclude(circumstances)
        problem = self.folder.loss or self._pool.sensor.telemetry.problem  # also what the attempt to write has shown
        if problem and problem != circumstances.record_problem:
            closing = self._conclude(replace(circumstances, record_problem=problem))
        return closing

    def _conclude(self, circumstances: Circumstances) -> Closing:
        """Put the closing line under these circumstances into the record, and write it."""
        sensitivity = of_run(self.record, self._target.terms.spread_of)
        closing = replace(close(self.verdicts, circumstances), sensitivity=sensitivity)
        self.record.circumstances, self.record.closing = circumstances, closing
        self.record.findings = record.finding_entries(self.record)
        self.save()
        return self.checked_closing()

    def checked_closing(self) -> Closing:
        """Return the result: NOT JUDGED, in the record too, if it does not follow from what was measured."""
        run = self.record
        run.objections = run.objections or anew.objections(run, stored_pasts(run.baseline))
        if run.objections:
            run.closing = anew.disbelief(run)
            self.save()
        return run.closing


def _user() -> str:
    """Return the name of the user who runs pytest, its number if it has no name."""
    try:
        return os.environ.get("USER") or os.environ.get("LOGNAME") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a number without an entry in the password file
        return str(os.getuid())
