"""A record as metrics for Prometheus, in the text format that node_exporter's textfile collector reads.

The names have base units (seconds, bytes, ratio), and the labels are few: `device`, `metric`, and what a finding is.
UUID, serial number and model are labels of `accel_device_info` alone, to be joined by `device`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_accel.core.run import Run
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.closing.line import WORDS
from pytest_accel.run.record import findings_of
from pytest_accel.views.exports import prometheus_text
from pytest_accel.views.exports.figures import device_names, is_figure, one_each, seconds_of, shown
from pytest_accel.views.exports.prometheus_text import Family

FILES: Final = {
    "alerts": Path(__file__).with_name("alerts.yaml"),
    "dashboard": Path(__file__).with_name("dashboard.json"),
}
"""The shipped alert rules for Prometheus and dashboard for Grafana, which go by these metrics."""
UNITS: Final = {
    "TFLOPS": ("operations_per_second", 1e12),
    "TOPS": ("operations_per_second", 1e12),
    "GB/s": ("bytes_per_second", 1e9),
    "GB": ("bytes", 1e9),
    "s": ("seconds", 1.0),
    "ms": ("seconds", 1e-3),
    "us": ("seconds", 1e-6),
    "W": ("watts", 1.0),
    "K": ("kelvin", 1.0),
    "MHz": ("hertz", 1e6),
    "1": ("ratio", 1.0),
    "count": ("events", 1.0),
    "per s": ("events_per_second", 1.0),
    "per h": ("events_per_second", 1 / 3600),
}
"""The base unit of every unit, and the factor to it. Values in other units, as of a probe of one's own, have none."""
WHAT: Final = {"value": "Measured value", "floor": "Lowest value that holds", "ceiling": "Highest value that holds"}
"""The beginnings of the names of figures, with their help."""
METRICS: Final = {
    "accel_run_info": "The terms of the run; always 1.",
    "accel_run_result": "1 for the result of the run, 0 for the other results.",
    "accel_run_exit_status": "Exit status of the run: 0, 1 rejected, 6 not judged, 2 to 5 no verdict; -1 not ended.",
    "accel_run_end_timestamp_seconds": "Time at which the run ended, in seconds since the epoch.",
    "accel_run_duration_seconds": "Duration of the run.",
    "accel_run_devices": "Devices that were found.",
    "accel_run_devices_expected": "Devices that the platform has.",
    "accel_run_verdicts": "Number of verdicts, by status.",
    "accel_device_info": "UUID, serial number and model of a device; always 1.",
    "accel_device_verdicts": "Number of verdicts on a device, by status.",
    "accel_finding_verdicts": "Number of verdicts with a fault code on a device.",
    "accel_margin_ratio": "Margin of a figure to its limit, as a ratio of the limit; negative if it is broken.",
}
"""The metrics that are not figures, with their help."""

Row = tuple[Sequence[str], float]
"""The values of the labels, and the number."""


def text(record: Run) -> str:
    """Return a record in the text format of Prometheus."""
    return prometheus_text.text(_families(record))


def _families(record: Run) -> Iterator[Family]:
    names = device_names(record)
    yield from _of_run(record)
    yield from _of_devices(record, names)
    figures = [each for each in one_each(record.verdicts) if is_figure(each)]
    margins = [(_place(each, names), each.margin) for each in figures if each.margin is not None]
    yield _family("accel_margin_ratio", ("device", "metric"), margins)
    for unit in dict.fromkeys(unit for unit, _ in UNITS.values()):
        for what, help_text in WHAT.items():
            rows = [row for each in figures for row in _figure(each, what, unit, names)]
            yield _family(f"accel_{what}_{unit}", ("device", "metric"), rows, help_text)


def _of_run(record: Run) -> Iterator[Family]:
    """Return the metrics of the whole run."""
    run, around = record.run, record.circumstances
    terms = {
        "host": run.get("host", ""),
        "sku": record.sku.get("name", ""),
        "platform": run.get("platform", ""),
        "level": run.get("level", ""),
        "version": record.software.get("pytest_accel", ""),
        "simulated": str("simulated" in run).lower(),
    }
    yield _family("accel_run_info", tuple(terms), [([shown(each) for each in terms.values()], 1.0)])
    result = record.closing.word
    yield _family("accel_run_result", ("result",), [((word,), float(word == result)) for word in WORDS])
    yield _family("accel_run_exit_status", (), [((), float(record.closing.exit))])
    ended, started = seconds_of(run.get("ended")), seconds_of(run.get("started"))
    yield _family("accel_run_end_timestamp_seconds", (), [((), ended)] if ended else [])
    yield _family("accel_run_duration_seconds", (), [((), ended - started)] if ended and started else [])
    yield _family("accel_run_devices", (), [((), float(len(record.devices)))])
    yield _family("accel_run_devices_expected", (), [((), float(around.expected_devices))] if around else [])
    count = Counter(each.status for each in record.verdicts)
    yield _family("accel_run_verdicts", ("status",), [((each.value,), float(count[each])) for each in Status])


def _of_devices(record: Run, names: dict[str, str]) -> Iterator[Family]:
    """Return identity, verdicts and findings of the devices and the node."""
    known = [
        (names[each.uuid], shown(each.uuid), shown(each.serial or ""), shown(each.model)) for each in record.devices
    ]
    yield _family("accel_device_info", ("device", "uuid", "serial", "model"), [(each, 1.0) for each in known])
    count = Counter((each.subject, each.status) for each in record.verdicts)
    subjects = dict.fromkeys(each.subject for each in record.verdicts)
    counts = [((names[subject], each.value), float(count[subject, each])) for subject in subjects for each in Status]
    yield _family("accel_device_verdicts", ("device", "status"), counts)
    found = Counter(
        (names[subject], each.code, each.fault.name, each.severity.value, each.action.value)
        for (_, subject, _), each in findings_of(record).items()
    )
    labels = ("device", "code", "name", "severity", "action")
    yield _family("accel_finding_verdicts", labels, [(each, float(number)) for each, number in found.items()])


def _family(name: str, labels: Sequence[str], rows: Iterable[Row], help_text: str = "") -> Family:
    """Return one metric with the labels of each of its rows by name."""
    series = [(tuple(zip(labels, values, strict=True)), number) for values, number in rows]
    return name, help_text or METRICS[name], series


def _place(verdict: Verdict, names: dict[str, str]) -> tuple[str, str]:
    return names[verdict.subject], shown(verdict.metric)


def _figure(verdict: Verdict, what: str, unit: str, names: dict[str, str]) -> list[Row]:
    """Return a figure of a verdict in a base unit; nothing if it has none, or is in another unit."""
    base, factor = UNITS.get(verdict.unit, ("", 0.0))
    number: Any = getattr(verdict, what)
    return [(_place(verdict, names), factor * number)] if base == unit and number is not None else []
