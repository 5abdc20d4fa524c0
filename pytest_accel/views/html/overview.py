"""The result of a record, and the overview of metrics and devices. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE
from pytest_accel.core.run import Run
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.ranking import worst_first
from pytest_accel.views.html.words import KINDS, is_fact


def word(record: Run) -> str:
    """Return the result of a record in one word."""
    return record.closing.get("word") or "NO RESULT"


def kind(record: Run) -> str:
    """Return the name of the colour of a result: that of an acceptance with a remark is not that of one without."""
    found = KINDS.get(word(record), "not-judged")
    remarked = any(each.status is Status.MARGINAL or each.waiver for each in record.verdicts)
    return "marginal" if found == "pass" and remarked else found  # as the closing line in the terminal


def columns(record: Run) -> list[str]:
    """Return the subjects that have a column in the overview: the judged devices in their order, and the node."""
    judged = dict.fromkeys(each.subject for each in record.verdicts)
    own = [device.uuid for device in record.devices if device.uuid in judged]
    return [*own, *(each for each in judged if each not in {*own, NODE}), *([NODE] if NODE in judged else [])]


Lines = dict[str, dict[str, list[Verdict]]]
"""The verdicts of each row of the overview by subject, worst first."""


def lines(record: Run) -> tuple[Lines, Lines]:
    """Return the rows of measured metrics in the order of the record, and those of the families of facts by name."""
    shown = [each for each in record.verdicts if each.information or each.status is not Status.NOT_APPLICABLE]
    order = list(dict.fromkeys(each.metric for each in shown))
    facts = [each for each in worst_first(shown) if is_fact(each.metric)]
    measured = [each for each in worst_first(shown) if not is_fact(each.metric)]
    rows, families = grouped(measured, lambda each: each.metric), grouped(facts, lambda each: each.metric.split(".")[0])
    return (
        {metric: grouped(rows[metric], _subject) for metric in sorted(rows, key=order.index)},
        {name: grouped(families[name], _subject) for name in sorted(families)},
    )


def _subject(verdict: Verdict) -> str:
    return verdict.subject


def several(texts: Sequence[str]) -> str:
    """Return the text that all have in common, "several" if they differ; empty ones do not count."""
    found = list(dict.fromkeys(filter(None, texts)))
    return "several" if len(found) > 1 else "".join(found)
