"""The closing line of a run and its exit status. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict
from pytest_accel.skus import requirements

NOT_JUDGED = 6
SIMULATED = "SIMULATED"


@dataclass
class Errors:
    """Tests that ended badly without a verdict: by an error (broken), or by an assertion of their own (failed)."""

    broken: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass
class Circumstances:
    """What, besides the verdicts, decides how a run closes."""

    required: Sequence[tuple[str, str, str]] = ()
    """The key that the verdict on every required limit must have: metric, subject, origin of the limit."""
    names: dict[str, str] = field(default_factory=dict)
    """Subject to the name that a person reads."""
    expected_devices: int = 0
    no_acceptance: Sequence[str] = ()
    """Why the run was no acceptance, whatever it found."""
    unfit: str | None = None
    """Why nobody may accept against the threshold file."""
    filtered: Sequence[str] = ()
    """What narrowed the run, so that missing verdicts are no surprise."""
    overridden: int = 0
    own_file: str | None = None
    """The threshold file of the user's own that was judged by."""
    broken_tests: Sequence[str] = ()
    failed_tests: Sequence[str] = ()
    record_problem: str | None = None
    simulated: bool = False
    """True for a simulated node: whatever is found, it says nothing about hardware."""
    interrupted: str | None = None
    """Why pytest ended before its time, and the exit status `ended` that it gives itself."""
    ended: int = 2


def circumstances(
    sku: Sku | None, platform: Platform, level: str, limits: Mapping[str, Limit], found: Sequence[str]
) -> Circumstances:
    """Return the required verdicts and what forbids an acceptance by these limits; `found` are the devices' UUIDs."""
    count = requirements.device_count(platform, len(found))
    missing = [f"missing device {index}" for index in range(len(found), count)]
    return Circumstances(
        required=requirements.required(requirements.applying(limits, sku, platform), level, [*found, *missing]),
        expected_devices=count,
        unfit=requirements.unfit(sku, platform, level),
        overridden=sum(limit.overridden for limit in limits.values()),
        own_file=sku.own_file if sku else None,
    )


@dataclass(frozen=True)
class Closing:
    """`word` is the first word of `line`."""

    line: str
    exit: int
    word: str


def close(verdicts: Sequence[Verdict], around: Circumstances) -> Closing:
    """Say what a run found, worst thing first; of a simulated node, that it is one before all."""
    found = _close(verdicts, around)
    return Closing(f"{SIMULATED} {found.line}", found.exit, SIMULATED) if around.simulated else found


def _close(verdicts: Sequence[Verdict], around: Circumstances) -> Closing:
    judged = [each for each in verdicts if each.limit is not None or each.status is not Status.NOT_APPLICABLE]
    limits = [each for each in judged if each.status is not Status.NOT_APPLICABLE]
    failed = [each for each in limits if each.fails and each.status is Status.FAIL]
    holding = sum(each.status.holds for each in limits)
    tally = f"{holding}/{len(limits)} limits"
    if around.interrupted:
        word = "INTERRUPTED" if around.ended == 2 else "BROKEN"
        text = f"{word} ({around.interrupted}) after {len(limits)} limits: nothing was accepted"
        return Closing(text + (f"; {_rejected(failed, around)} so far" if failed else ""), around.ended, word)
    if failed:
        return Closing(_rejected(failed, around), 1, "REJECTED")
    if around.broken_tests:
        text = f"BROKEN {around.broken_tests[0]}: an error that is no verdict on the hardware; {tally} hold"
        return Closing(text, 3, "BROKEN")
    if around.failed_tests:
        return Closing(f"REJECTED {around.failed_tests[0]}{_more(around.failed_tests)}", 1, "REJECTED")
    open_ = [each for each in limits if each.fails]
    if open_:
        first = _name(open_[0], around)
        text = f"NOT JUDGED {holding}/{len(limits)} limits hold; {first} {open_[0].metric}"
        return Closing(f"{text}: {open_[0].status.value}, {open_[0].sentence}{_more(open_)}", NOT_JUDGED, "NOT JUDGED")
    missing = _missing(verdicts, around)
    if missing and not around.filtered:
        return Closing(f"NOT JUDGED {tally} hold; no verdict on {_listed(missing)}", NOT_JUDGED, "NOT JUDGED")
    if around.record_problem:
        text = f"NOT JUDGED {tally} hold, but the record could not be written: {around.record_problem}"
        return Closing(text, NOT_JUDGED, "NOT JUDGED")
    if not limits or not around.required or not around.expected_devices:
        return Closing("NOT JUDGED nothing was measured against a limit", NOT_JUDGED, "NOT JUDGED")
    reasons = [*around.filtered, *around.no_acceptance, *([around.unfit] if around.unfit else [])]
    notes = _beside(limits, around)
    if reasons:
        return Closing(f"HELD {tally}{notes}; no acceptance: {'; '.join(reasons)}", 0, "HELD")
    count = around.expected_devices
    return Closing(f"ACCEPTED {count}/{count} devices{notes}", 0, "ACCEPTED")


def _beside(limits: Sequence[Verdict], around: Circumstances) -> str:
    """What has to be said beside an acceptance, in parentheses."""
    marginal = sum(each.status is Status.MARGINAL for each in limits)
    waived = len({each.waiver for each in limits if each.waiver})
    extra = [f"{marginal} marginal"] if marginal else []
    extra += [f"{waived} waiver{'s' * (waived > 1)}"] if waived else []
    extra += [f"{around.overridden} limit{'s' * (around.overridden > 1)} overridden"] if around.overridden else []
    extra += [f"by {around.own_file}"] if around.own_file else []
    return f" ({', '.join(extra)})" if extra else ""


def _missing(verdicts: Sequence[Verdict], around: Circumstances) -> list[str]:
    there = {each.key for each in verdicts if not _passed_over(each)}
    return [
        f"{around.names.get(subject, subject)} {metric}"
        for metric, subject, origin in around.required
        if (metric, subject, origin) not in there
    ]


def _passed_over(verdict: Verdict) -> bool:
    """True for a limit that has to be judged, and a verdict that says it need not be: whatever led there, that is no
    verdict on it. What cannot exist on the platform is not among the required."""
    return verdict.status is Status.NOT_APPLICABLE and verdict.limit is not None and verdict.limit.required


def _rejected(failed: Sequence[Verdict], around: Circumstances) -> str:
    worst = sorted(failed, key=lambda each: (each.limit is None, each.margin if each.margin is not None else -9.0))
    first = worst[0]
    return f"REJECTED {_name(first, around)}: {first.metric} {first.sentence}{_more(worst)}"


def _name(verdict: Verdict, around: Circumstances) -> str:
    return around.names.get(verdict.subject, verdict.subject)


def _more(things: Sequence[object]) -> str:
    return f" (and {len(things) - 1} more)" if len(things) > 1 else ""


def _listed(things: Sequence[str]) -> str:
    return ", ".join(things[:3]) + (f" and {len(things) - 3} more" if len(things) > 3 else "")


def worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """By status, then by how little a limit is held."""
    return sorted(
        verdicts,
        key=lambda each: (WORST_FIRST.index(each.status), each.margin if each.margin is not None else 9.0),
    )
