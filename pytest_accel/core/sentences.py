"""Says the reasons of a verdict in words. No program has to read them: the reasons themselves are in the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pytest_accel.core import reasons
from pytest_accel.core.measurement import is_time
from pytest_accel.core.reasons import NOTES, Reason
from pytest_accel.core.sku import Basis
from pytest_accel.core.verdict import Verdict, show, show_margin
from pytest_accel.core.words import age, counted, listed


def _compared(one: reasons.Compared, of: Verdict) -> str:
    bound = of.floor if one.side == "floor" else of.ceiling
    side = f"class {one.side}" if of.basis is Basis.CLASS else one.side
    share = "" if one.share is None else f" = {one.share:g} of {one.of}"
    base = "" if one.base is None else f" {one.base:g}"
    margin = f" ({show_margin(of.margin)})" if bound and of.margin is not None else ""
    return f"{show(of.value, of.unit)}, {side} {show(bound, of.unit)}{share}{base}{margin}"


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
    spread = "" if one.spread is None else f", spread {100 * one.spread:.2g}%"
    told = f"(median {show(one.middle, '')}, healthy up to {one.allowed:.1%}{spread})"
    return f"{AT_FIRST * one.at_first}{behind} {told}"


def _behind_past(_: reasons.BehindPast, of: Verdict) -> str:
    if (one := of.past) is None:
        return "behind its own past"
    behind = f"{1 / (1 - one.lost) - 1:.1%} longer than in" if is_time(of.unit) else f"{one.lost:.1%} below"
    two = f"two runs differ by up to {one.allowed:.1%}"
    differs = "".join(f"; {term} {then} then, {now} now" for term, (then, now) in one.differs.items())
    return (
        f"{AT_FIRST * one.at_first}{behind} its {one.since} run of {one.day} ({show(one.middle, '')}; {two}{differs})"
    )


def _below_published(one: reasons.BelowPublished, of: Verdict) -> str:
    otherwise = ", measured otherwise" * bool(one.differs)
    return f"below {show(one.lowest, of.unit)}, the lowest published ({one.by}{otherwise})"


def _behind_nodes(one: reasons.BehindNodes, _: Verdict) -> str:
    rails = f"; slow by itself: device {listed([*map(str, one.rails)], 8)}" if one.rails else ""
    told = f"{one.lost:.1%} behind the median of {one.nodes} nodes ({show(one.middle, one.unit)})"
    return f"{told} with each of {counted(one.partners, 'partner')}{rails}"


WORDS: Mapping[type, Callable[[Any, Verdict], str]] = {
    reasons.Note: lambda one, of: NOTES[one.kind].format(text=one.text, of=of, shown=show(of.value, of.unit)),
    reasons.WrongData: lambda one, _: one.text,
    reasons.Compared: _compared,
    reasons.Expected: _expected,
    reasons.Majority: _majority,
    reasons.NoMajority: lambda one, of: (
        "the devices differ, and no value has a majority: "
        + "; ".join(f"{show(value, of.unit)} on {names}" for value, names in one.values)
    ),
    reasons.OtherRanks: lambda one, _: (
        f"measured with {one.measured or 'an unknown number of'} ranks; the limit is for {one.ranks}"
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
    reasons.AllAlike: lambda one, _: (
        f"all {one.devices} devices alike: look at what they share (power, cooling, settings, software)"
    ),
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


def words(one: Reason, verdict: Verdict) -> str:
    """Return one reason of a verdict in words."""
    return WORDS[type(one)](one, verdict)


def phrases(verdict: Verdict) -> list[str]:
    """Return the reasons of a verdict in words, those together that are one phrase, without the `note_of` it."""
    found: list[str] = []
    after = ""
    for each in (each for each in verdict.reasons if each is not verdict.note):
        joint = BEFORE.get(each.kind, after)
        if found and joint:
            found[-1] += joint + words(each, verdict)
        else:
            found.append(words(each, verdict))
        after = AFTER.get(each.kind, "")
    return found


def sentence_of(verdict: Verdict) -> str:
    """Return the reasons of a verdict as one sentence, the most important first; empty without a reason."""
    return "; ".join(phrases(verdict))


def note_of(verdict: Verdict) -> str:
    """Return the note that a value is below what others published: "below 676 TFLOPS, ..."; empty without one."""
    return words(verdict.note, verdict) if verdict.note else ""
