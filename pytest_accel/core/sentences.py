"""The sentence of a verdict: the reason that decided first, in a short phrase, and the details after it.

No program has to read it: the reasons themselves are in the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_accel.core import reasons
from pytest_accel.core.measurement import is_time
from pytest_accel.core.reasons import NOTES, Note, Reason
from pytest_accel.core.sku_types import Basis
from pytest_accel.core.verdict import Status, Verdict, show, show_margin
from pytest_accel.core.words import age, counted, listed


def _compared(reason: reasons.Compared, verdict: Verdict) -> str:
    bound = verdict.floor if reason.side == "floor" else verdict.ceiling
    side = f"class {reason.side}" if verdict.basis is Basis.CLASS else reason.side
    margin = f" ({show_margin(verdict.margin)})" if bound and verdict.margin is not None else ""
    return f"{show(verdict.value, verdict.unit)}, {side} {show(bound, verdict.unit)}{margin}"


def _derived(reason: reasons.Compared) -> str:
    return f"the {reason.side} is {reason.share:g} of {reason.of}{'' if reason.base is None else f' {reason.base:g}'}"


COUNTED = {
    "health.nvlink_up": "NVLinks up", "health.xgmi_up": "xGMI links up", "health.pcie_width": "PCIe lanes",
    "inventory.count": "devices",
}  # fmt: skip
"""The noun of the things that a fact counts."""


def _expected(reason: reasons.Expected, verdict: Verdict) -> str:
    value, expected = verdict.value, verdict.expected
    if reason.said and verdict.metric in COUNTED:
        noun = COUNTED[verdict.metric]
        fewer = isinstance(value, int | float) and isinstance(expected, int | float) and value < expected
        return f"{show(value, '')} {f'of {expected} {noun}' if fewer else f'{noun}, expected {expected}'}"
    text = str(value) if verdict.limit and verdict.limit.version is not None else show(value, verdict.unit)
    return f"{text}, expected {expected}" if reason.said else text


def _majority(reason: reasons.Majority, verdict: Verdict) -> str:
    relation = "as" if verdict.value == verdict.expected else f"but {show(verdict.expected, verdict.unit)}"
    return f"{show(verdict.value, verdict.unit)}, {relation} on {reason.count} of {reason.devices} devices"


def _interval(reason: reasons.Interval, _: Verdict) -> str:
    interval = f"{reason.low:.4g} to {reason.high:.4g}" if math.isfinite(reason.high) else f"from {reason.low:.4g} up"
    return f"the confidence interval {interval} includes the {reason.side}"


def _other_algorithm(reason: reasons.OtherAlgorithm, _: Verdict) -> str:
    quote = f" ({reason.said})" if reason.said else ""
    return f"{reason.library} used {reason.used}; the limit's reference was measured with {reason.wanted}{quote}"


def _other_version(reason: reasons.OtherVersion, _: Verdict) -> str:
    name = reason.name.upper() if reason.name in ("nccl", "rccl", "cuda", "hip") else reason.name
    if reason.version is None:
        return f"the limit was validated on {name} {reason.range}; the version in use is not known"
    return f"{name} {reason.version} is outside {reason.range}, the range of the figures behind the limit"


def _alone(reason: reasons.Alone, _: Verdict) -> str:
    value = show(reason.value, reason.unit)
    if reason.holds:
        return f"passes alone ({value}): power, cooling or host bandwidth of the node limits it"
    return f"{value} when measured alone{'' if reason.holds is None else ': the device itself falls short'}"


def _repeated(reason: reasons.Repeated, _: Verdict) -> str:
    prefix = "failed once by far, holds on the repeat: " if reason.fails else AT_FIRST
    return prefix + show(reason.value, reason.unit)


AT_FIRST = "holds only on the repeat, first measured "


def _behind_neighbours(_: reasons.BehindNeighbours, verdict: Verdict) -> str:
    if (nodes := verdict.neighbours) is None:  # a record that was written by other means
        return "behind its neighbours"
    loss = f"{nodes.lost:.1%} behind its {nodes.count} neighbours{' at its clock' * nodes.at_clock}"
    return f"{AT_FIRST * nodes.at_first}{loss} (median {show(nodes.middle, '')}), at most {nodes.allowed:.1%}"


def _behind_past(_: reasons.BehindPast, verdict: Verdict) -> str:
    if (past := verdict.past) is None:
        return "behind its own past"
    longer = is_time(verdict.unit) and past.lost < 1  # a loss of all speed has no finite time
    loss = f"{1 / (1 - past.lost) - 1:.1%} longer than in" if longer else f"{past.lost:.1%} below"
    run = f"its {past.since} run of {past.day} ({show(past.middle, '')})"
    differs = "".join(f", {term} {before} then and {after} now" for term, (before, after) in past.differs.items())
    return f"{AT_FIRST * past.at_first}{loss} {run}, at most {past.allowed:.1%}{differs}"


def _cause(reason: reasons.Cause, verdict: Verdict) -> str:
    cause = f"in an earlier attempt {reason.text}" if reason.before else reason.text
    by_neighbours = verdict.failing_comparison is not None and verdict.failing_comparison is verdict.neighbours
    if reason.lost is None or reason.expected is None or by_neighbours:  # the headline says already how far behind
        return cause
    slower = "slower" if reason.lost > 0 else "faster"
    return f"{abs(reason.lost):.1%} {slower} than {reason.of} ({show(reason.expected, verdict.unit)}): {cause}"


def _below_published(reason: reasons.BelowPublished, verdict: Verdict) -> str:
    otherwise = ", measured otherwise" * bool(reason.differs)
    return f"below {show(reason.lowest, verdict.unit)}, the lowest published ({reason.by}{otherwise})"


def _behind_nodes(reason: reasons.BehindNodes, _: Verdict) -> str:
    rails = f"; slow by itself: device {listed([*map(str, reason.rails)], 8)}" if reason.rails else ""
    loss = f"{reason.lost:.1%} behind the median of {reason.nodes} nodes ({show(reason.middle, reason.unit)})"
    return f"{loss} with each of {counted(reason.partners, 'partner')}{rails}"


def _note(reason: Note, verdict: Verdict) -> str:
    return NOTES[reason.kind].format(text=reason.text, verdict=verdict, value=show(verdict.value, verdict.unit))


WORDS: Mapping[type, Callable[[Any, Verdict], str]] = {
    reasons.Note: _note,
    reasons.WrongData: lambda reason, _: f"wrong results: {reason.text}",
    reasons.Compared: _compared,
    reasons.Expected: _expected,
    reasons.Majority: _majority,
    reasons.NoMajority: lambda reason, verdict: (
        "the devices differ, and no value has a majority: "
        + "; ".join(f"{show(value, verdict.unit)} on {names}" for value, names in reason.values)
    ),
    reasons.OtherRanks: lambda reason, _: (
        f"{reason.measured or 'an unknown number of'} ranks took part; the limit is for {reason.ranks}"
    ),
    reasons.OtherUnit: lambda reason, verdict: (
        f"the limit is in {reason.limit}, but the measurement is in {verdict.unit}"
    ),
    reasons.Implausible: lambda reason, verdict: (
        f"{verdict.value:.4g} {verdict.unit} is {reason.times:.3g} times the {reason.of}: implausible, "
        "so it was not judged"
    ),
    reasons.Close: lambda reason, _: f"within {reason.within:.0%} of the {reason.side}",
    reasons.FewSamples: lambda reason, _: f"only {reason.samples} of at least {reason.enough} samples",
    reasons.PastWarning: lambda reason, verdict: f"past the warning limit of {show(reason.warn, verdict.unit)}",
    reasons.Interval: _interval,
    reasons.OtherAlgorithm: _other_algorithm,
    reasons.OtherVersion: _other_version,
    reasons.BelowPublished: _below_published,
    reasons.Alone: _alone,
    reasons.Repeated: _repeated,
    reasons.BehindNeighbours: _behind_neighbours,
    reasons.BehindPast: _behind_past,
    reasons.BehindNodes: _behind_nodes,
    reasons.AllAlike: lambda reason, _: f"all {reason.devices} devices alike",
    reasons.Cause: _cause,
    reasons.DidNotEnd: lambda reason, _: (
        f"began and did not end (boot {reason.boot or 'unknown'}, last reading {reason.last})"
    ),
    reasons.NoBudget: lambda reason, _: (
        f"level {reason.level} has no time budget for this probe; "
        + (f"use --accel-level={reason.enough}" if reason.enough else "set one under `budgets` in the threshold file")
    ),
    reasons.MayTrain: lambda reason, _: f"up {age(reason.up)}, may still train",
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


def words(reason: Reason, verdict: Verdict) -> str:
    """Return one reason of a verdict in words."""
    return WORDS[type(reason)](reason, verdict)


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
    distinct = list(dict.fromkeys(reason for reason in verdict.reasons if reason is not verdict.note))
    head, tail = distinct[:1], list[Reason]()
    deciding = _deciding(verdict, distinct[1:])
    holds = verdict.margin is None or verdict.margin >= 0
    if holds and any(isinstance(reason, BEHIND) for reason in deciding) and head[0].kind in MEASURED:
        head = [Note("value")]  # a limit that holds is no reason for a failure
    part = head
    for reason in distinct[1:]:
        part = head if reason in deciding else part if reason.kind in BEFORE else tail
        part.append(reason)
    derived = [_derived(reason) for reason in head if isinstance(reason, reasons.Compared) and reason.share is not None]
    return _joined(head, verdict), [*_joined(tail, verdict), *derived]


def _deciding(verdict: Verdict, candidates: Sequence[Reason]) -> list[Reason]:
    """Return the reasons after the first that decided a verdict: a comparison, an excuse, a doubt."""
    comparison = verdict.failing_comparison
    kinds: list[type[Reason]] = [reasons.BehindNodes] if verdict.status.fails else []
    kinds += [reasons.BehindNeighbours] if comparison and comparison is verdict.neighbours else []
    kinds += [reasons.BehindPast] if comparison and comparison is verdict.past else []
    behind = [reason for reason in candidates if isinstance(reason, tuple(kinds))]
    if verdict.status not in (Status.INCONCLUSIVE, Status.MARGINAL):
        return behind
    # a version that is not known excuses nothing
    versions = [reason for reason in candidates if isinstance(reason, reasons.OtherVersion) and reason.version is None]
    doubts = [reason for reason in candidates if reason not in (*behind, *versions) and reason.kind not in BESIDE]
    return [*behind, *doubts[:1]]


def decider(verdict: Verdict) -> Reason | None:
    """Return the reason that decided a verdict, None without any."""
    return next(iter([*_deciding(verdict, verdict.reasons[1:])[-1:], *verdict.reasons[:1]]), None)


def _joined(group: Sequence[Reason], verdict: Verdict) -> list[str]:
    """Return reasons in words, those together that are one phrase."""
    phrases: list[str] = []
    next_joint = ""
    for reason in group:
        joint = BEFORE.get(reason.kind, next_joint)
        if phrases and joint:
            phrases[-1] += joint + words(reason, verdict)
        else:
            phrases.append(words(reason, verdict))
        next_joint = AFTER.get(reason.kind, "")
    return phrases


def limit_of(verdict: Verdict) -> str:
    """Return the limit that decided a verdict: "class floor 554 TFLOPS", "9.0% behind 7 neighbours"; empty without."""
    of_class = "class " if verdict.basis is Basis.CLASS and not verdict.failing_comparison else ""
    return of_class + bounds(verdict, verdict.unit)


def bounds(verdict: Verdict, unit: str, floor: str = "floor", ceiling: str = "ceiling", joint: str = ", ") -> str:
    """Return the limit that decided a verdict, with the words for floor and ceiling; empty without one.

    Where a comparison failed the verdict, that is the largest distance that it allows.
    """
    if comparison := verdict.failing_comparison:
        reference = f"its {comparison.since} run" if comparison.since else f"{comparison.count} neighbours"
        return f"{comparison.allowed:.1%} behind {reference}"
    warns = "warn " if verdict.limit and verdict.limit.warns else ""
    if verdict.limit and verdict.limit.version and verdict.expected is not None:
        return warns + verdict.limit.version
    if verdict.expected is not None:
        return f"{warns}= {verdict.expected}"
    if verdict.past_warning:
        return f"warn {show(verdict.past_warning[0], unit)}"
    sides = [(floor, verdict.floor), (ceiling, verdict.ceiling)]
    text = joint.join(f"{word} {show(bound, unit)}" for word, bound in sides if bound is not None)
    return text and warns + text


def note_of(verdict: Verdict) -> str:
    """Return the note that a value is below what others published: "below 676 TFLOPS, ..."; empty without one."""
    return words(verdict.note, verdict) if verdict.note else ""
