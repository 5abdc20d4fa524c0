"""What several exports say of a verdict: its limits in numbers, and the text from outside that is fit to be shown."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_accel.core.measurement import NODE, finite
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.run import Run
from pytest_accel.core.summary import moment
from pytest_accel.core.verdict import Verdict
from pytest_accel.judging.verdicts.ranking import worst_first

FACTS = ("inventory.", "health.", "host.")
"""Prefixes of the metrics that are facts, not figures."""


def shown(text: object, most: int = SHOWN) -> str:
    """Return a text from outside with every character visible; a longer one is cut off and says its length."""
    return printable(str(text), most)


def is_figure(verdict: Verdict) -> bool:
    """Return True if the value of a verdict is a measured, finite number."""
    return finite(verdict.value) is not None and not verdict.metric.startswith(FACTS)


def seconds_of(time: str | None) -> float | None:
    """Return a time of a record in seconds since the epoch; None for what is no time."""
    found = moment(time or "")
    return found.timestamp() if found else None


def device_names(record: Run) -> dict[str, str]:
    """Return the name of every subject, by UUID or NODE, fit to be shown and different for every subject."""
    names: dict[str, str] = {NODE: NODE}
    for device in record.devices:
        name = shown(device.name)
        names[device.uuid] = f"{name} ({shown(device.uuid)})" if name in names.values() else name
    for verdict in record.verdicts:
        names.setdefault(verdict.subject, shown(verdict.subject))
    return names


def one_each(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the worst verdict of every metric and subject, in the order of the record."""
    worst: dict[tuple[str, str], Verdict] = {}
    for each in worst_first(verdicts):
        worst.setdefault((each.metric, each.subject), each)
    return [each for each in verdicts if worst[each.metric, each.subject] is each]
