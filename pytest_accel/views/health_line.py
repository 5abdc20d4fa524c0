"""The result of a passive check as one line of at most 80 characters, which schedulers cut off: the essence first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_accel.core.measurement import NODE
from pytest_accel.core.printable import printable
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Result, Verdict, show
from pytest_accel.core.words import age
from pytest_accel.judging.causes.findings import Finding
from pytest_accel.judging.closing.parts import as_ranges
from pytest_accel.judging.closing.passive_result import PassiveResult
from pytest_accel.run.passive import Check

WIDTH = 80
"""Characters that node-problem-detector shows of an output. Slurm's `sinfo -R` shows 20 of a reason."""
CUT = "..."
NO_RUN = "; no run found"
LEAST_ROOM = 16
"""Characters from which on the path in which no run was found is shown."""


def line(checked: Check, *, fresh: bool, path: Path | None, width: int = WIDTH) -> str:
    """Return the line, of at most `width` characters.

    `fresh` is False for a last run that is too old; `path` is where one should be, None if none was asked for.
    """
    if checked.last_run and fresh and checked.last_run.rejects and not (checked.result and checked.result.rejections):
        day = f", {checked.last_run.day}"
        return _cut(f"ERROR last run {checked.last_run.line}", width - len(day)) + day
    # Room for the last run is kept free, and the finding is cut instead: its essence comes first.
    last = _last(checked, fresh=fresh) if path else ""
    text = _cut(_essence(checked), width - len(last))
    if path and last == NO_RUN:
        last += _path_part(path, width - len(text) - len(last))
    return printable(f"{text}{last}")[:width]


def refused(error: str) -> str:
    """Return the line of a check that a wrong option or file prevents."""
    return _cut(f"UNKNOWN {error}", WIDTH)


def lines(checked: Check) -> list[str]:
    """Return every verdict with a remark as a line of any length, worst first."""
    result, texts = checked.result or PassiveResult(), []
    for verdict in (*result.rejections, *result.undecided, *result.marginal):
        finding = result.findings.get(verdict.key)
        code = f"{verdict.status.value} {finding.title}" if finding else verdict.status.value
        name = checked.discovery.names[verdict.culprit]
        texts.append(printable(f"{name} {code} {verdict.metric}: {sentence_of(verdict)}"))
    return texts


def _essence(checked: Check) -> str:
    """Return the outcome of the check itself."""
    result = checked.result
    if result and result.rejections:
        return f"ERROR {_worst(checked, result, result.rejections)}"
    if result is None or checked.unknown_reason:
        return f"UNKNOWN {checked.unknown_reason}"
    if result.undecided:
        return f"UNKNOWN {_undecided(checked, result.undecided[0])}"
    warns = f", warns {_worst(checked, result, result.marginal)}" if result.marginal else ""
    absence = f"no accelerator{'' if checked.sku_named else ', and none expected without --sku'}"
    devices = f"{checked.accelerators} x {checked.sku}" if checked.accelerators else absence
    return f"OK {devices}{warns}"


def _undecided(checked: Check, worst: Verdict) -> str:
    """Return the reason why a limit could not be judged, then its metric; a value needs its name before it."""
    sentence = _told(checked, worst)
    subject = "" if worst.culprit == NODE else f"{checked.discovery.names[worst.culprit]} "
    name = worst.metric.partition(".")[2]
    return f"{subject}{sentence} ({worst.metric})" if worst.value is None else f"{subject}{name}: {sentence}"


def _worst(checked: Check, result: PassiveResult, verdicts: Sequence[Verdict]) -> str:
    """Return the first verdict with the devices that share it, and the number of the others."""
    worst = verdicts[0]
    finding = result.findings[worst.key]
    group = [verdict for verdict in verdicts if result.findings[verdict.key].fault_code is finding.fault_code]
    # A value is shorter than a sentence, but there is none if nothing is there.
    worst = next((verdict for verdict in group if verdict.value), worst)
    subjects = list(dict.fromkeys(checked.discovery.names[verdict.culprit] for verdict in group))
    others = len({result.findings[verdict.key].code for verdict in verdicts}) - 1
    more = f" +{others} more" if others else ""
    return f"{as_ranges(subjects)} {finding.code} {finding.fault_code.name}{more}: {_detail(checked, worst, finding)}"


def _told(checked: Check, verdict: Verdict) -> str:
    """Return the sentence of a verdict; for a failed driver its own message, without the places of its devices."""
    text = sentence_of(verdict)
    return next((problem.reason for problem in checked.discovery.problems if problem.reason in text), text)


def _detail(checked: Check, verdict: Verdict, finding: Finding) -> str:
    """Return a finding in a few words: the vendor's own code, a value beside the expected one, or a sentence."""
    if finding.vendor:
        return finding.vendor
    if verdict.value is not None and verdict.limit and verdict.limit.equals is not None:
        return f"{show(verdict.value, verdict.unit)}, not {show(verdict.limit.equals, verdict.unit)}"
    return _told(checked, verdict)


def _path_part(path: Path, room: int) -> str:
    """Return the path without a run, so that a misspelling is seen; the end of a long one; empty without room."""
    if room < LEAST_ROOM:
        return ""
    text, room = printable(str(path)), room - len(" in ")
    return f" in {text if len(text) <= room else CUT + text[len(CUT) - room :]}"


def _last(checked: Check, *, fresh: bool) -> str:
    """Return the result and the age of the newest result, behind a semicolon."""
    if checked.record_problem:
        return "; last run not read"
    if checked.last_run is None:
        return NO_RUN
    date = checked.last_run.day if checked.last_run.rejects else f"{age(checked.age)} ago"
    return f"; last run {Result.words(checked.last_run.result)} {date}{'' if fresh else ', stale'}"


def _cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, of which every one is visible."""
    text = printable(text)
    return text if len(text) <= most else text[: most - len(CUT)].rstrip() + CUT
