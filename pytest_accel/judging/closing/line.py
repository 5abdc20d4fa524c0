"""The closing line of a run and its exit status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_accel.core import exits
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE
from pytest_accel.core.run import Circumstances
from pytest_accel.core.verdict import Closing, Result, Status, Verdict
from pytest_accel.core.words import counted, listed, more
from pytest_accel.judging.closing import parts as closing_parts
from pytest_accel.probes.declare import REQUIRED
from pytest_accel.skus import readiness

SIMULATED = "SIMULATED"
MOST_LOADED = 8
"""The most names of loaded files, plugins and variables that the line of an acceptance shows."""


@dataclass
class Errors:
    """Tests that ended badly without a verdict: with an error (`broken`) or a failed assertion (`failed`)."""

    broken: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def close(verdicts: Sequence[Verdict], around: Circumstances) -> Closing:
    """Return the closing line for the worst finding of a run; the line of a simulated node begins with SIMULATED."""
    closing = _close(verdicts, around)
    return replace(closing, line=f"{SIMULATED} {closing.line}") if around.simulated else closing


def _close(verdicts: Sequence[Verdict], around: Circumstances) -> Closing:
    judged = [each for each in verdicts if each.limit is not None or each.status is not Status.NOT_APPLICABLE]
    limits = [each for each in judged if each.status is not Status.NOT_APPLICABLE]
    failed = [each for each in limits if each.fails and each.status is Status.FAIL]
    holding = sum(each.status.holds for each in limits)
    tally = f"{holding}/{len(limits)} limits" if limits or not around.own_tests else around.own_tests
    if around.interrupted:
        result = Result.INTERRUPTED if around.ended == exits.INTERRUPTED else Result.BROKEN
        text = f"{result.value} ({around.interrupted}) after {len(limits)} limits: nothing was accepted"
        return Closing(text + (f"; {_rejected(failed, [], around)} so far" if failed else ""), around.ended, result)
    if failed:
        beside = closing_parts.short_beside(limits)
        named = closing_parts.named([*failed, *beside], around.called)
        return Closing(_rejected(failed, beside, around), exits.REJECTED, Result.REJECTED, named=named)
    if around.broken_tests:
        text = f"BROKEN {around.broken_tests[0]}: a software error, not a verdict on the hardware; {tally} hold"
        return Closing(text, exits.BROKEN, Result.BROKEN)
    undecided = [each for each in limits if each.fails]
    if unjudged := _not_judged(verdicts, undecided, around):
        named = () if around.failed_tests else closing_parts.named(undecided, around.called)
        return Closing(f"NOT JUDGED {tally} hold{unjudged}", exits.NOT_JUDGED, Result.NOT_JUDGED, named=named)
    if not (limits or around.own_tests) or not around.required or not around.expected_devices:
        missing = "find out why there is no device: pytest-accel discover" if set(around.names) == {NODE} else ""
        line = "NOT JUDGED nothing was measured against a limit"
        return Closing(line, exits.NOT_JUDGED, Result.NOT_JUDGED, next=missing)
    unfit = around.texts("file")
    lacking = [] if unfit or around.narrowed else _without_floor(verdicts, around)
    deciding = [each for each in limits if each.decides]
    backed = closing_parts.backed(deciding)
    few = readiness.too_few(backed, around.expected_devices)
    lacking += [few] if few and not unfit else []
    reasons = [*around.narrowed, *around.texts("unasked", "run"), *unfit, *lacking, *around.texts("floors")]
    if reasons:
        text = f"HELD {tally}{_notes(_qualifiers(verdicts, around))}; no acceptance: {'; '.join(reasons)}"
        status = exits.HOLDS if around.unasked else exits.NOT_JUDGED
        return Closing(text, status, Result.HELD, next=_next(around))
    count = around.expected_devices
    terms = f" as {around.sku} at {around.level}" if around.sku else ""
    own = f" with {around.own_tests}" if around.own_tests else ""
    loaded = f"with {listed(around.loaded, MOST_LOADED)}" if around.loaded else ""
    not_judged = f"not judged: {', '.join(around.not_judged)}" if around.not_judged else ""
    worth = [closing_parts.bases(backed, deciding), readiness.half_not_excluded(backed), not_judged]
    notes = _notes([*worth, *_qualifiers(verdicts, around), loaded])
    return Closing(f"ACCEPTED {count}/{count} devices{terms}{own}{notes}", exits.HOLDS, Result.ACCEPTED)


def _not_judged(verdicts: Sequence[Verdict], undecided: Sequence[Verdict], around: Circumstances) -> str:
    """Return what was not judged although it was asked for, as the end of the closing line; empty if all was."""
    if around.failed_tests:
        own = "failed by its own assertion, which is not a verdict on the hardware"
        return f"; {around.failed_tests[0]} {own}{more(around.failed_tests)}"
    if undecided:
        return f"; {closing_parts.undecided(undecided, around.called)}"
    if cut := around.texts("time"):
        return f"; {cut[0]}"
    if (missing := _missing(verdicts, around)) and not around.narrowed:
        return f"; no verdict on {closing_parts.missing(missing, around.called)}"
    return f", but the record could not be written in full: {around.record_problem}" if around.record_problem else ""


def _next(around: Circumstances) -> str:
    """Return what leads from a run that holds to an acceptance."""
    if around.unasked:
        own = " --accel-with=FILE" if around.texts("tests") else ""
        return f"on a node with accelerators: pytest --accel-sku=NAME{own} ('pytest-accel sku list' shows the names)"
    if around.narrowed:
        return "run all tests on all devices, without the options that the line names"
    if around.texts("floors"):
        return "judge these devices by floors of others: by the shipped file, or calibrated without their records"
    return (
        f"'pytest-accel sku show {around.sku}' says what is lacking; agree on floors, or calibrate them from a "
        "known-good node (docs/thresholds.md)"
    )


def _without_floor(verdicts: Sequence[Verdict], around: Circumstances) -> list[str]:
    """Return a sentence for each part that no floor in force judged on some device.

    Other conditions of the run than those of the source, such as TunableOp, leave a metric without the floor that its
    file states.
    """
    found = []
    shown = (each for each in verdicts if each.information or each.status is not Status.NOT_APPLICABLE)
    required = (each for each in shown if each.limit and each.limit.required)
    of_part = grouped(required, lambda each: readiness.required_part(each.metric))
    for part in (each for each in REQUIRED if each not in (*readiness.READ, *around.not_judged)):
        judged = of_part.get(part, [])
        judged = [each for each in judged if not readiness.is_plain(each.metric)] or judged
        deciding = {each.subject for each in judged if each.decides}
        only = list(dict.fromkeys(around.called[each.subject] for each in judged if each.subject not in deciding))
        if only:
            found.append(f"no floor in force judged the {part} of {listed(only)}")
    return found


def _notes(notes: Sequence[str]) -> str:
    """Return notes in parentheses, empty without any."""
    return f" ({'; '.join(filter(None, notes))})" if any(notes) else ""


def _qualifiers(verdicts: Sequence[Verdict], around: Circumstances) -> list[str]:
    """Return what qualifies a result: marginal verdicts, notes, waivers, and limits that the user overrode."""
    noted = len({each.metric for each in verdicts if each.note})
    extra = [closing_parts.marginal(verdicts, around.called), counted(noted, "note") if noted else ""]
    extra += [closing_parts.waivers(verdicts, around.called, around.day)]
    extra += [f"{counted(around.overridden, 'limit')} overridden"] if around.overridden else []
    extra += [f"another datasheet: {listed(around.other_datasheet)}"] if around.other_datasheet else []
    extra += [f"by {around.own_file}"] if around.own_file else []
    extra += [f"rejected before: {listed(around.rejected_before)}"] if around.rejected_before else []
    return extra


def _missing(verdicts: Sequence[Verdict], around: Circumstances) -> list[tuple[str, str]]:
    """Return metric and subject of every verdict that an acceptance requires and that was not given."""
    judged = {each.key for each in verdicts if not _passed_over(each)}
    return [(metric, subject) for metric, subject, origin in around.required if (metric, subject, origin) not in judged]


def _passed_over(verdict: Verdict) -> bool:
    """Return True if a required limit was marked not applicable: this does not count as judged.

    Limits on metrics that cannot exist on the platform are not among the required ones in the first place.
    """
    unread = verdict.status is Status.NOT_APPLICABLE and verdict.value is None
    return unread and verdict.limit is not None and verdict.limit.required


def _rejected(failed: Sequence[Verdict], beside: Sequence[Verdict], around: Circumstances) -> str:
    return closing_parts.rejected(failed, beside, around.called, around.expected_devices)
