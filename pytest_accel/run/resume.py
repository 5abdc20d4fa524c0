"""Resumes a run at level long from its record: which record that is, whether it can be, and what it keeps.

Complete measurements are kept. Facts and counters are read anew; what was found broken in them stays found.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_accel
from pytest_accel.core import untrusted
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.node_name import node_name
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Circumstances, RequestEntry, Run
from pytest_accel.core.software import torch_version, versions_of
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.rounds import round_of
from pytest_accel.probes.declare import declaration_of
from pytest_accel.run import record
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.record_folder import of_this_node

if TYPE_CHECKING:
    from pytest_accel.run.setup import Setup

EARLIER = "found before the run was resumed"
"""What is noted of a broken fact that was read before."""
EARLIER_NOTES = (Note("before_resumption"), Note("changed", EARLIER))
"""The reasons that say so in a verdict: its own, or one that is made of the note."""
SAME = ("pytest_accel", "driver", "torch", "cuda", "hip", "nccl", "rccl")
"""The software that must be the same throughout a run: the rounds before and after could not be compared."""


@dataclass(frozen=True)
class Resumed:
    """The record of a run that is resumed, in its folder."""

    folder: Path
    old: Run

    @cached_property
    def requests(self) -> list[RequestEntry]:
        """The complete measurements of the first round."""
        return self.old.requests

    @property
    def seconds(self) -> float:
        """The seconds that the run was going so far."""
        return sum(each["seconds"] for each in self.old.run["starts"])

    @cached_property
    def standing(self) -> list[Verdict]:
        """The verdicts that stand whatever is measured from now on: broken facts, and devices that failed.

        All other verdicts follow anew from the measurements.
        """
        later = {(each["metric"], each["subject"], each["limit"]) for each in self.old.rounds.get("found", [])}
        broken = [each for each in self.old.verdicts if each.status is Status.FAIL and each.key not in later]
        return [
            each if any(one in EARLIER_NOTES for one in each.reasons) else each.because(EARLIER_NOTES[0])
            for each in broken
            if _is_fact(each.metric) or each.fault
        ]

    @cached_property
    def _standing_places(self) -> set[tuple[str, str]]:
        return {(each.metric, each.subject) for each in self.standing}

    def record(self) -> Run:
        """Return the record as it is continued: without what is not complete, and without facts that are read anew."""
        run = self.old.run.copy()
        run["starts"] = [each.copy() for each in self.old.run["starts"]]
        run.pop("ended", None)
        run.pop("seconds", None)
        run.pop("probes", None)
        run.pop("sampling", None)
        return Run(
            run=run,
            measurements=[kept for each in self.old.measurements if (kept := self._kept(each))],
            notes=list(self.old.notes),
            requests=list(self.old.requests),
            rounds=self.old.rounds,
        )

    def _kept(self, measurement: Measurement) -> Measurement | None:
        """Return a measurement as the record of the resumed run holds it, None if it is made again."""
        place = measurement.metric, measurement.subject
        if place in self._standing_places and not self._complete(measurement):
            if measurement.trouble or not _is_fact(measurement.metric):
                return measurement
            changed = measurement.details.get("changed", EARLIER)
            return replace(measurement, details={**measurement.details, "changed": changed})
        if _is_fact(measurement.metric):
            return measurement if "changed" in measurement.details else None
        if round_of(measurement) > 1:
            return measurement
        return _to_repeat(measurement) if self._complete(measurement) else None

    def _complete(self, measurement: Measurement) -> bool:
        """Return True for a measurement of a complete attempt at a request."""
        return any(
            measurement.metric in each["metrics"] and measurement.started <= each["until"] for each in self.requests
        )

    def attempts(self, key: tuple[str, str]) -> list[Measurement] | None:
        """Return the measurements of a request (`Request.key`) in the first round, None if it is not complete."""
        entry = next((each for each in self.requests if (each["probe"], each["conditions"]) == key), None)
        if entry is None:
            return None
        kept = [self._kept(each) for each in self.old.measurements if round_of(each) == 1]
        return [each for each in kept if each and each.metric in entry["metrics"]]

    def missing(self, found: Sequence[Device]) -> list[Device]:
        """Return the devices of the record that are not there any more, each under a number that no other has."""
        taken, gone = {each.index for each in found}, []
        for device in self.old.devices:
            if device.uuid not in {each.uuid for each in found}:
                number = device.index if device.index not in taken else max(taken) + 1
                taken.add(number)
                gone.append(replace(device, index=number))
        return gone

    def gone(self, found: Sequence[Device]) -> str | None:
        """Return a sentence on the devices that were there when the run began and are missing now, or None."""
        names = {each.uuid: each.name for each in self.old.devices}
        missing = [f"{names[each.uuid]} ({each.uuid})" for each in self.missing(found)]
        return f"{', '.join(missing)} was there when the run began, and is missing now" if missing else None

    def note(self, at: str, boot: str) -> str:
        """Return what the record says of the resumption."""
        starts = self.old.run["starts"]
        rebooted = ", after another boot of the host" if boots_differ(starts[-1]["boot"], boot) else ""
        rounds = self.old.rounds.get("complete", 0)
        kept = f"{len(self.requests)} measurements" + (f" and {rounds} complete rounds" if rounds else "")
        return f"resumed at {at}{rebooted}: {kept} are kept, {self.seconds / 3600:.3g} h were done"


def boots_differ(one: str, other: str) -> bool:
    """Return True if the ids of two boots are known and differ."""
    return bool(one and other and one != other)


def _is_fact(metric: str) -> bool:
    declared = declaration_of(metric)
    return declared is not None and declared.fact


def _to_repeat(measurement: Measurement) -> Measurement:
    """Return a measurement without the note that there was no time to make it again: now there is."""
    if "not_repeated" not in measurement.details:
        return measurement
    kept = measurement.details.copy()
    del kept["not_repeated"]
    return replace(measurement, details=kept)


# -- which record


def find(options: Options) -> Resumed | None:
    """Return the run that --accel-resume names; None without the option, or if the run is to begin there.

    It begins if --accel-output names the same folder and no record is there, so that one command line can start a run
    and resume it. Raises Refused for a record that cannot be resumed.
    """
    if options.resume is None:
        return None
    folder = options.resume.parent if options.resume.name == record.FILE else options.resume
    folder = folder.absolute()
    if options.output and options.output.absolute() != folder:
        raise Refused(f"--accel-resume: the run goes on in {folder}; leave --accel-output out, or name the same folder")
    folder = of_this_node(folder, node_name(), shared=options.shared)
    file = folder / record.FILE
    try:
        saved = record.read(file) if untrusted.exists(file) else None
    except BadFile as bad:
        raise Refused(*bad.behind("--accel-resume")) from None
    if saved is None:
        if options.output:
            return None
        raise Refused(f"--accel-resume: {folder} holds no record; to begin a run there, add --accel-output={folder}")
    if saved.altered:
        raise Refused(f"--accel-resume: {saved.path} was changed after it was written; begin a new run")
    _refuse_ended(file, saved)
    return Resumed(folder, saved)


def unfinished(around: Circumstances) -> bool:
    """Return True if a run has ended before all was measured: by its time limit, or before its hours were over."""
    return bool(around.cut_short) or around.hours_done < around.hours


def _refuse_ended(path: Path, old: Run) -> None:
    """Raise Refused for a record of which nothing is left to measure, or that states too little to go on."""
    cut = old.circumstances is not None and unfinished(old.circumstances)
    if not old.run.get("starts"):
        why = f"level {old.run.get('level')}" if old.run.get("level") else "a run that never began"
        raise Refused(f"--accel-resume: {path} is of {why}; only a run at level long can be resumed")
    if old.state == "finished" and not cut:
        raise Refused(f"--accel-resume: {path} is of a run that has ended: {old.closing.get('line')}")


# -- whether it can be resumed here


def check(resumed: Resumed, setup: Setup) -> None:
    """Raise Refused if the run cannot go on under these options on these devices."""
    old, sku, options = resumed.old, setup.terms.sku, setup.options
    terms = {
        "SKU": (old.sku.get("name"), sku.name if sku else None),
        "platform": (old.run.get("platform"), setup.terms.platform.name),
        "level": (old.run.get("level"), setup.terms.level),
        "--accel-hours": (old.rounds.get("hours"), options.hours),
        "the simulated node": (
            (old.run.get("simulated") or {}).get("node"),
            setup.node.source if setup.node else None,
        ),
        "the content of the node file": (
            (old.run.get("simulated") or {}).get("sha256"),
            setup.node.sha256 if setup.node else None,
        ),
        "the threshold files": (_hashes(old.sku.get("files", {})), _hashes(sku.files if sku else {})),
    }
    here = {"pytest_accel": pytest_accel.__version__, "torch": torch_version()}
    then, now = old.software, here | versions_of(setup.discovery.devices)
    terms |= {name: (str(then[name]), str(now[name])) for name in SAME if then.get(name) and now.get(name)}
    for name, (before, after) in terms.items():
        if before != after:
            again = shlex.join([*old.run.get("command", [])])
            raise Refused(
                f"--accel-resume: {name} was {before} when the run began, and is {after} now; the measurements before "
                f"and after could not be compared. Begin a new run, or resume it as it was begun: {again}"
            )
    _check_devices(resumed, setup)


def _hashes(files: object) -> str:
    """Return the names and the beginnings of the hashes of threshold files, for a sentence."""
    pairs = files.items() if hasattr(files, "items") else ()
    return ", ".join(f"{name} {digest[:12]}" for name, digest in sorted(pairs)) or "none"


def _check_devices(resumed: Resumed, setup: Setup) -> None:
    """Raise Refused if a device is there that the run did not begin with, or none of those that it began with."""
    then, now = {each.uuid for each in resumed.old.devices}, setup.discovery.devices
    others = [f"{each.name} ({each.uuid})" for each in now if each.uuid not in then]
    if others:
        raise Refused(f"--accel-resume: {', '.join(others)} was not there when the run began; begin a new run")
    if not now:
        raise Refused("--accel-resume: none of the devices is there that the run began with")
