"""Figures of other tools: their verdicts, their closing line, and the required limits that an output lacks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_accel.cli.rejudge import other_conditions
from pytest_accel.cli.tool_outputs.output import ToolOutput
from pytest_accel.core import exits
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Measurement, Peak
from pytest_accel.core.reasons import Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Sku
from pytest_accel.core.verdict import Closing, Status, Verdict
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.background import Background
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.judging.verdicts.like_devices import Attempt
from pytest_accel.judging.verdicts.references import held
from pytest_accel.probes.declare import declaration_of
from pytest_accel.run.terms import Terms
from pytest_accel.skus import peaks

ONCE = "another tool measured it once"
"""The reason why a device is not rejected for being behind the others."""


def lacking(entries: Sequence[tuple[str, str]], devices: Sequence[str]) -> str:
    """Return the required limits that an output has no figure for, given as metric and device.

    Measured metrics are named, with their devices unless all lack them; of the facts, which only a run on the node
    reads, the number is given.
    """
    by_metric = grouped(entries, lambda entry: entry[0])
    measured = {metric: [name for _, name in some] for metric, some in by_metric.items() if measurable(metric)}
    whole = {metric for metric, names in measured.items() if {*names} >= {*devices} or names == ["node"]}
    texts = [metric if metric in whole else f"{metric} ({', '.join(names)})" for metric, names in measured.items()]
    facts = len(by_metric) - len(measured)
    return "; and ".join(
        [", ".join(texts)] * bool(texts)
        + [f"{facts} facts and counters, which only a run on the node reads"] * bool(facts)
    )


def measurable(metric: str) -> bool:
    """Return True for the main figure of a probe, not for a fact or a counter, which only a run on the node reads."""
    declared = declaration_of(metric)
    return (
        declared is not None
        and metric not in declared.also
        and bool(declared.peak or declared.required)
        and not declared.fact
    )


def not_judged(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each reason that figures were not judged for, with the figures."""
    short = [verdict for verdict in verdicts if verdict.status in (Status.UNMEASURED, Status.INCONCLUSIVE)]
    reasons = grouped(short, lambda verdict: (verdict.metric, sentence_of(verdict)))
    return [
        f"not judged: {metric} of {', '.join(each.subject for each in own)}: {why}"
        for (metric, why), own in reasons.items()
    ]


def judge_output(output: ToolOutput, sku: Sku, terms: Terms) -> tuple[list[Verdict], Closing, list[tuple[str, str]]]:
    """Return the verdicts, the closing line, and metric and device of the required limits that have no figure.

    The result is never an acceptance, since it is not known how the other tool measured. A required figure of a probe
    has to be there: the test of the tool may have failed.
    """
    alike: dict[object, list[Attempt]] = {}  # all devices of an output are judged as one product
    for each in output.figures:
        alike.setdefault(_like(each), []).append([each])
    verdicts = [_verdict(each, output.software, sku, terms, alike[_like(each)]) for each in output.figures]
    around = terms.circumstances(output.software)
    judged = {(verdict.metric, verdict.subject) for verdict in verdicts}
    lacking = [(metric, subject) for metric, subject, _ in around.required if (metric, subject) not in judged]
    around = replace(
        around,
        required=[key for key in around.required if measurable(key[0])],
        wants_acceptance=terms.accelerator,
        no_acceptance=["measured by another tool"],
    )
    return verdicts, close(verdicts, around), lacking


def whatever_platform(output: ToolOutput, sku: Sku, terms: Terms, closing: Closing) -> Closing:
    """Return the closing line of an output whose platform nobody named: that by the one taken, unless another differs.

    An output does not tell platforms of as many devices apart. A figure that one rejects and another one accepts says
    nothing of the hardware until the platform is known.
    """
    alike = (each for each in sku.platforms.values() if each.devices == terms.platform.devices)
    found = {terms.platform.name: closing}
    found |= {each.name: judge_output(output, sku, replace(terms, platform=each))[1] for each in alike}
    if len({each.exit for each in found.values()}) == 1:
        return closing
    ends = "; ".join(f"as {name}: {each.line}" for name, each in found.items())
    return Closing(f"NOT JUDGED the platform decides: name it by --platform; {ends}", exits.NOT_JUDGED, "NOT JUDGED")


def _like(figure: Measurement) -> object:
    """Return the metric of a figure and its conditions: figures of the same ones are compared."""
    return figure.metric, repr(sorted(figure.conditions.items()))


def _verdict(
    figure: Measurement, software: Mapping[str, str], sku: Sku, terms: Terms, alike: Sequence[Attempt]
) -> Verdict:
    """Judge a figure; it is UNMEASURED if it was measured under other conditions than those of the limit.

    Like devices are compared as in a run, where a repeat has to confirm that one is behind: the tool made none.
    """
    limit = terms.limits.get(figure.metric)
    if limit and (other := other_conditions(figure, sku)):
        why = (Note("other_conditions", other),)
        verdict = Verdict(figure.metric, figure.subject, Status.UNMEASURED, why, figure.unit, figure.value, limit=limit)
    else:
        peak = peaks.peak(sku, figure.metric, terms.platform)
        verdict = judge([replace(figure, peak=Peak(*peak) if peak else None)], limit, software)
    once = replace(figure, details={**figure.details, "not_repeated": ONCE})
    return held(verdict, [once], Background(alike, alike, sku.spread_of(figure.metric)))
