"""Says the reasons of a verdict in words: the one that decided first, in a short sentence, and the details after it.

No program has to read them: the reasons themselves are in the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_accel.core import reasons
from pytest_accel.core.measurement import is_time
from pytest_accel.core.reasons import NOTES, Note, Reason
from pytest_accel.core.sku import Basis
from pytest_accel.core.verdict import Status, Verdict, show, show_margin
from pytest_accel.core.words import age, counted, listed


def _compared(one: reasons.Compared, of: Verdict) -> str:
    bound = of.floor if one.side == "floor" else of.ceiling
    side = f"class {one.side}" if of.basis is Basis.CLASS else one.side
    margin = f" ({show_margin(of.margin)})" if bound and of.margin is not None else ""
    return f"{show(of.value, of.unit)}, {side} {show(bound, of.unit)}{margin}"


def _derived(one: reasons.Compared) -> str:
    return f"the {one.side} is {one.share:g} of {one.of}{'' if one.base is None else f' {one.base:g}'}"


COUNTED = {
    "health.nvlink_up": "NVLinks up", "health.xgmi_up": "xGMI links up", "health.pcie_width": "PCIe lanes",
    "inventory.count": "devices",
}  # fmt: skip
"""The words for what a fact counts."""


def _expected(one: reasons.Expected, of: Verdict) -> str:
    if one.said and of.metric in COUNTED:
        few = isinstance(of.value, int | float) and isinstance(of.expected, int | float) and of.value < of.expected
        between = f"of {of.expected} {COUNTED[of.metric]}" if few else f"{COUNTED[of.metric]}, expected {of.expected}"
        return f"{show(of.value, '')} {between}"
    version = of.limit is not None and of.limit.version is not None
    shown = str(of.value) if version else show(of.value, of.unit)
    return f"{shown}, expected {of.expected}" if one.said else shown


def _majority(one: reasons.Majority, of: Verdict) -> str:
    most = "as" if of.value == of.expected else f"but {show(of.expected, of.unit)}"
    return f"{show(of.value, of.unit)}, {most} on {one.count} of {one.devices} devices"


def _interval(one: reasons.Interval, _: Verdict) -> str:
    between = f"{one.low:.4g} to {one.high:.4g}" if math.isfinite(one.high) else f"from {one.low:.4g} up"
    return f"the confidence interval {between} includes the {one.side}"


def _other_algorithm(one: reasons.OtherAlgorithm, _: Verdict) -> str:
    said = f" ({one.said})" if one.said else ""
    return f"{one.library} used {one.used}; the limit's reference was measured with {one.wanted}{said}"


def _other_version(one: reasons.OtherVersion, _: Verdict) -> str:
    name = one.name.upper() if one.name in ("nccl", "rccl", "cuda", "hip") else one.name
    if one.version is None:
        return f"the limit was validated on {name} {one.range}; the version in use is not known"
    return f"{name} {one.version} is outside {one.range}, the range of the figures behind the limit"


def _alone(one: reasons.Alone, _: Verdict) -> str:
    shown = show(one.value, one.unit)
    if one.holds:
        return f"passes alone ({shown}): power, cooling or host bandwidth of the node limits it"
    return f"{shown} when measured alone{'' if one.holds is None else ': the device itself falls short'}"


def _repeated(one: reasons.Repeated, _: Verdict) -> str:
    before = "failed once by far, holds on the repeat: " if one.fails else AT_FIRST
    return before + show(one.value, one.unit)


AT_FIRST = "holds only on the repeat, first measured "


def _behind_neighbours(_: reasons.BehindNeighbours, of: Verdict) -> str:
    if (one := of.neighbours) is None:  # a record that was written by other means
        return "behind its neighbours"
    behind = f"{one.lost:.1%} behind its {one.count} neighbours{' at its clock' * one.at_clock}"
    return f"{AT_FIRST * one.at_first}{behind} (median {show(one.middle, '')}), at most {one.allowed:.1%}"


def _behind_past(_: reasons.BehindPast, of: Verdict) -> str:
    if (one := of.past) is None:
        return "behind its own past"
    behind = (
        f"{1 / (1 - one.lost) - 1:.1%} longer than in" if is_time(of.unit) and one.lost < 1 else f"{one.lost:.1%} below"
    )
    run = f"its {one.since} run of {one.day} ({show(one.middle, '')})"
    differs = "".join(f", {term} {then} then and {now} now" for term, (then, now) in one.differs.items())
    return f"{AT_FIRST * one.at_first}{behind} {run}, at most {one.allowed:.1%}{differs}"


def _cause(one: reasons.Cause, of: Verdict) -> str:
    told = f"in an earlier attempt {one.text}" if one.before else one.text
    by_neighbours = of.failed_by is not None and of.failed_by is of.neighbours  # the headline says how far behind
    if one.lost is None or one.expected is None or by_neighbours:
        return told
    slower = "slower" if one.lost > 0 else "faster"
    return f"{abs(one.lost):.1%} {slower} than {one.of} ({show(one.expected, of.unit)}): {told}"


def _below_published(one: reasons.BelowPublished, of: Verdict) -> str:
    otherwise = ", measured otherwise" * bool(one.differs)
    return f"below {show(one.lowest, of.unit)}, the lowest published ({one.by}{otherwise})"


def _behind_nodes(one: reasons.BehindNodes, _: Verdict) -> str:
    rails = f"; slow by itself: device {listed([*map(str, one.rails)], 8)}" if one.rails else ""
    told = f"{one.lost:.1%} behind the median of {one.nodes} nodes ({show(one.middle, one.unit)})"
    return f"{told} with each of {counted(one.partners, 'partner')}{rails}"


WORDS: Mapping[type, Callable[[Any, Verdict], str]] = {
    reasons.Note: lambda one, of: NOTES[one.kind].format(text=one.text, of=of, shown=show(of.value, of.unit)),
    reasons.WrongData: lambda one, _: f"wrong results: {one.text}",
    reasons.Compared: _compared,
    reasons.Expected: _expected,
    reasons.Majority: _majority,
    reasons.NoMajority: lambda one, of: (
        "the devices differ, and no value has a majority: "
        + "; ".join(f"{show(value, of.unit)} on {names}" for value, names in one.values)
    ),
    reasons.OtherRanks: lambda one, _: (
        f"{one.measured or 'an unknown number of'} ranks took part; the limit is for {one.ranks}"
    ),
    reasons.OtherUnit: lambda one, of: f"the limit is in {one.limit}, but the measurement is in {of.unit}",
    reasons.Implausible: lambda one, of: (
        f"{of.value:.4g} {of.unit} is {one.times:.3g} times the {one.of}: implausible, so it was not judged"
    ),
    reasons.Close: lambda one, _: f"within {one.within:.0%} of the {one.side}",
    reasons.FewSamples: lambda one, _: f"only {one.samples} of at least {one.enough} samples",
    reasons.PastWarning: lambda one, of: f"past the warning limit of {show(one.warn, of.unit)}",
    reasons.Interval: _interval,
    reasons.OtherAlgorithm: _other_algorithm,
    reasons.OtherVersion: _other_version,
    reasons.BelowPublished: _below_published,
    reasons.Alone: _alone,
    reasons.Repeated: _repeated,
    reasons.BehindNeighbours: _behind_neighbours,
    reasons.BehindPast: _behind_past,
    reasons.BehindNodes: _behind_nodes,
    reasons.AllAlike: lambda one, _: f"all {one.devices} devices alike",
    reasons.Cause: _cause,
    reasons.DidNotEnd: lambda one, _: f"began and did not end (boot {one.boot or 'unknown'}, last reading {one.last})",
    reasons.NoBudget: lambda one, _: (
        f"level {one.level} has no time budget for this probe; "
        + (f"use --accel-level={one.enough}" if one.enough else "set one under `budgets` in the threshold file")
    ),
    reasons.MayTrain: lambda one, _: f"up {age(one.up)}, may still train",
}
"""The words of a reason, given it and its verdict, by its class."""

BEFORE = {"at": ", ", "during": ", ", "beyond_noise": ", "}
"""The text between a reason of this kind and the one before it, where that is no semicolon."""
AFTER = {"value": ", "}
"""The text between a reason of this kind and the next one."""
BEHIND = reasons.BehindNeighbours, reasons.BehindPast, reasons.BehindNodes
MEASURED = ("compared", "value", "no_limit")
"""The kinds of first reasons that state a value."""
BESIDE = ("shortfall", "alone", "all_alike", "warns", "noticed", "other_algorithm", "below_published", *BEFORE)
"""The kinds of reasons that explain a verdict and do not decide it."""


def words(one: Reason, verdict: Verdict) -> str:
    """Return one reason of a verdict in words."""
    return WORDS[type(one)](one, verdict)


def headline(verdict: Verdict) -> str:
    """Return the value and the reason that decided, in one short sentence; empty without a reason."""
    return "; ".join(_parts(verdict)[0])


def details(verdict: Verdict) -> str:
    """Return the reasons that the headline leaves out: the cause, the repeat, the origin of the floor."""
    return "; ".join(_parts(verdict)[1])


def sentence_of(verdict: Verdict) -> str:
    """Return headline and details as one sentence; empty without a reason."""
    return "; ".join(filter(None, (headline(verdict), details(verdict))))


def _parts(verdict: Verdict) -> tuple[list[str], list[str]]:
    """Return the phrases of the headline and those of the details, without the `note_of` the verdict."""
    told = list(dict.fromkeys(reason for reason in verdict.reasons if reason is not verdict.note))
    head, tail = told[:1], list[Reason]()
    deciding = _deciding(verdict, told[1:])
    holds = verdict.margin is None or verdict.margin >= 0
    if holds and any(isinstance(reason, BEHIND) for reason in deciding) and head[0].kind in MEASURED:
        head = [Note("value")]  # a limit that holds is no reason for a failure
    part = head
    for reason in told[1:]:
        part = head if reason in deciding else part if reason.kind in BEFORE else tail
        part.append(reason)
    derived = [_derived(reason) for reason in head if isinstance(reason, reasons.Compared) and reason.share is not None]
    return _joined(head, verdict), [*_joined(tail, verdict), *derived]


def _deciding(verdict: Verdict, further: Sequence[Reason]) -> list[Reason]:
    """Return the reasons after the first that decided a verdict: a comparison, an excuse, a doubt."""
    by = verdict.failed_by
    kinds: list[type[Reason]] = [reasons.BehindNodes] if verdict.status.fails else []
    kinds += [reasons.BehindNeighbours] if by and by is verdict.neighbours else []
    kinds += [reasons.BehindPast] if by and by is verdict.past else []
    behind = [reason for reason in further if isinstance(reason, tuple(kinds))]
    if verdict.status not in (Status.INCONCLUSIVE, Status.MARGINAL):
        return behind
    # a version that is not known excuses nothing
    unknown = [reason for reason in further if isinstance(reason, reasons.OtherVersion) and reason.version is None]
    other = [reason for reason in further if reason not in (*behind, *unknown) and reason.kind not in BESIDE]
    return [*behind, *other[:1]]


def decider(verdict: Verdict) -> Reason | None:
    """Return the reason that decided a verdict, None without any."""
    return next(iter([*_deciding(verdict, verdict.reasons[1:])[-1:], *verdict.reasons[:1]]), None)


def _joined(told: Sequence[Reason], verdict: Verdict) -> list[str]:
    """Return reasons in words, those together that are one phrase."""
    phrases: list[str] = []
    after = ""
    for reason in told:
        joint = BEFORE.get(reason.kind, after)
        if phrases and joint:
            phrases[-1] += joint + words(reason, verdict)
        else:
            phrases.append(words(reason, verdict))
        after = AFTER.get(reason.kind, "")
    return phrases


def limit_of(verdict: Verdict) -> str:
    """Return the limit that decided a verdict: "class floor 554 TFLOPS", "9.0% behind 7 neighbours"; or empty."""
    of_class = "class " if verdict.basis is Basis.CLASS and not verdict.failed_by else ""
    return of_class + bounds(verdict, verdict.unit)


def bounds(verdict: Verdict, unit: str, floor: str = "floor", ceiling: str = "ceiling", joint: str = ", ") -> str:
    """Return the limit that decided a verdict, with the words for floor and ceiling; empty without one.

    Where a comparison failed the verdict, that is the largest distance that it allows.
    """
    if by := verdict.failed_by:
        return f"{by.allowed:.1%} behind {f'its {by.since} run' if by.since else f'{by.count} neighbours'}"
    warns = "warn " if verdict.limit and verdict.limit.warns else ""
    if verdict.limit and verdict.limit.version and verdict.expected is not None:
        return warns + verdict.limit.version
    if verdict.expected is not None:
        return f"{warns}= {verdict.expected}"
    if verdict.warned:
        return f"warn {show(verdict.warned[0], unit)}"
    both = [(floor, verdict.floor), (ceiling, verdict.ceiling)]
    text = joint.join(f"{word} {show(bound, unit)}" for word, bound in both if bound is not None)
    return text and warns + text


def note_of(verdict: Verdict) -> str:
    """Return the note that a value is below what others published: "below 676 TFLOPS, ..."; empty without one."""
    return words(verdict.note, verdict) if verdict.note else ""
