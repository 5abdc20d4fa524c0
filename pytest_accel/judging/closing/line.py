"""The closing line of a run and its exit status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_accel.core import exits
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE
from pytest_accel.core.run import Circumstances
from pytest_accel.core.verdict import Closing, Result, Status, Verdict
from pytest_accel.core.words import and_more, counted, listed
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
    limits = [verdict for verdict in verdicts if verdict.status is not Status.NOT_APPLICABLE]
    failures = [verdict for verdict in limits if verdict.rejects]
    holding = sum(verdict.status.holds for verdict in limits)
    tally = f"{holding}/{len(limits)} limits" if limits or not around.own_tests else around.own_tests
    if around.interrupted:
        result = Result.INTERRUPTED if around.ended == exits.INTERRUPTED else Result.BROKEN
        text = f"{result.value} ({around.interrupted}) after {len(limits)} limits: nothing was accepted"
        return Closing(text + (f"; {_rejected(failures, [], around)} so far" if failures else ""), around.ended, result)
    if failures:
        shortfalls = closing_parts.unrejected_shortfalls(limits)
        worst = closing_parts.worst_by_subject([*failures, *shortfalls], around.labels)
        return Closing(_rejected(failures, shortfalls, around), exits.REJECTED, Result.REJECTED, verdicts=worst)
    if around.broken_tests:
        text = f"BROKEN {around.broken_tests[0]}: a software error, not a verdict on the hardware; {tally} hold"
        return Closing(text, exits.BROKEN, Result.BROKEN)
    undecided = [verdict for verdict in limits if verdict.fails]
    if unjudged := _not_judged(verdicts, undecided, around):
        worst = () if around.failed_tests else closing_parts.worst_by_subject(undecided, around.labels)
        return Closing(f"NOT JUDGED {tally} hold{unjudged}", exits.NOT_JUDGED, Result.NOT_JUDGED, verdicts=worst)
    if not (limits or around.own_tests) or not around.required or not around.expected_devices:
        next_step = "find out why there is no device: pytest-accel discover" if set(around.names) == {NODE} else ""
        line = "NOT JUDGED nothing was measured against a limit"
        return Closing(line, exits.NOT_JUDGED, Result.NOT_JUDGED, next_step=next_step)
    unfit = around.texts("file")
    gaps = [] if unfit or around.narrowed else _without_floor(verdicts, around)
    deciding = [verdict for verdict in limits if verdict.decides]
    backings = closing_parts.backings_by_part(deciding)
    doubt = readiness.too_few(backings, around.expected_devices)
    gaps += [doubt] if doubt and not unfit else []
    reasons = [*around.narrowed, *around.texts("unasked", "run"), *unfit, *gaps, *around.texts("floors")]
    if reasons:
        text = f"HELD {tally}{_notes(_qualifiers(verdicts, around))}; no acceptance: {'; '.join(reasons)}"
        status = exits.HOLDS if around.unasked else exits.NOT_JUDGED
        return Closing(text, status, Result.HELD, next_step=_next(around))
    count = around.expected_devices
    terms = f" as {around.sku} at {around.level}" if around.sku else ""
    tests = f" with {around.own_tests}" if around.own_tests else ""
    loaded = f"with {listed(around.loaded, MOST_LOADED)}" if around.loaded else ""
    not_judged = f"not judged: {', '.join(around.not_judged)}" if around.not_judged else ""
    evidence = [closing_parts.bases(backings, deciding), readiness.half_not_excluded(backings), not_judged]
    notes = _notes([*evidence, *_qualifiers(verdicts, around), loaded])
    return Closing(f"ACCEPTED {count}/{count} devices{terms}{tests}{notes}", exits.HOLDS, Result.ACCEPTED)


def _not_judged(verdicts: Sequence[Verdict], undecided: Sequence[Verdict], around: Circumstances) -> str:
    """Return the end of the closing line, which names what was asked for and not judged; empty if all was judged."""
    if around.failed_tests:
        reason = "failed by its own assertion, which is not a verdict on the hardware"
        return f"; {around.failed_tests[0]} {reason}{and_more(around.failed_tests)}"
    if undecided:
        return f"; {closing_parts.undecided(undecided, around.labels)}"
    if cut := around.texts("time"):
        return f"; {cut[0]}"
    if (missing := _missing(verdicts, around)) and not around.narrowed:
        return f"; no verdict on {closing_parts.missing(missing, around.labels)}"
    return f", but the record could not be written in full: {around.record_problem}" if around.record_problem else ""


def _next(around: Circumstances) -> str:
    """Return the next step from a run that holds to an acceptance."""
    if around.unasked:
        option = " --accel-with=FILE" if around.texts("tests") else ""
        return f"on a node with accelerators: pytest --accel-sku=NAME{option} ('pytest-accel sku list' shows the names)"
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

    Other conditions than those of a floor's source, such as TunableOp, put it out of force.
    """
    gaps = []
    relevant = (verdict for verdict in verdicts if verdict.information or verdict.status is not Status.NOT_APPLICABLE)
    required = (verdict for verdict in relevant if verdict.limit and verdict.limit.required)
    by_part = grouped(required, lambda verdict: readiness.required_part(verdict.metric))
    for part in (part for part in REQUIRED if part not in (*readiness.READ, *around.not_judged)):
        candidates = by_part.get(part, [])
        candidates = [verdict for verdict in candidates if not readiness.is_plain(verdict.metric)] or candidates
        decided = {verdict.subject for verdict in candidates if verdict.decides}
        labels = (around.labels[verdict.subject] for verdict in candidates if verdict.subject not in decided)
        undecided = list(dict.fromkeys(labels))
        if undecided:
            gaps.append(f"no floor in force judged the {part} of {listed(undecided)}")
    return gaps


def _notes(notes: Sequence[str]) -> str:
    """Return notes in parentheses, empty without any."""
    return f" ({'; '.join(filter(None, notes))})" if any(notes) else ""


def _qualifiers(verdicts: Sequence[Verdict], around: Circumstances) -> list[str]:
    """Return the qualifiers of a result: marginal verdicts, notes, waivers, and limits that the user overrode."""
    count = len({verdict.metric for verdict in verdicts if verdict.note})
    extra = [closing_parts.marginal(verdicts, around.labels), counted(count, "note") if count else ""]
    extra += [closing_parts.waivers(verdicts, around.labels, around.day)]
    extra += [f"{counted(around.overridden, 'limit')} overridden"] if around.overridden else []
    extra += [f"another datasheet: {listed(around.other_datasheet)}"] if around.other_datasheet else []
    extra += [f"by {around.own_file}"] if around.own_file else []
    extra += [f"rejected before: {listed(around.rejected_before)}"] if around.rejected_before else []
    return extra


def _missing(verdicts: Sequence[Verdict], around: Circumstances) -> list[tuple[str, str]]:
    """Return metric and subject of every verdict that an acceptance requires and that was not given."""
    keys = {verdict.key for verdict in verdicts if not _passed_over(verdict)}
    return [(metric, subject) for metric, subject, origin in around.required if (metric, subject, origin) not in keys]


def _passed_over(verdict: Verdict) -> bool:
    """Return True if a required limit was marked not applicable: this does not count as judged."""
    # limits on metrics that cannot exist on the platform are not among the required ones in the first place
    no_value = verdict.status is Status.NOT_APPLICABLE and verdict.value is None
    return no_value and verdict.limit is not None and verdict.limit.required


def _rejected(failures: Sequence[Verdict], shortfalls: Sequence[Verdict], around: Circumstances) -> str:
    return closing_parts.rejected(failures, shortfalls, around.labels, around.expected_devices)
