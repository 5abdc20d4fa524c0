"""A record as a JUnit file: a test case for every verdict. Also the properties that the plugin adds to pytest's own.

A limit that is broken is a failure, one that could not be judged an error, and a metric that does not apply is skipped.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_accel.core.measurement import NODE
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict, show
from pytest_accel.judging.causes.findings import Finding
from pytest_accel.run.ledger import OF_COUNTERS
from pytest_accel.run.record import findings_of
from pytest_accel.views.exports.figures import device_names
from pytest_accel.views.own_tests import told_apart

SUITE = "pytest-accel"
TAGS = {Status.FAIL: "failure", Status.UNMEASURED: "error", Status.INCONCLUSIVE: "error"}
"""The element of each status that fails."""
COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}
"""The attributes of a suite that count elements of its cases."""

Properties = Mapping[str, object]
"""Values by name, without the prefix `accel.`; those that are None are left out."""


def of_verdict(verdict: Verdict, serial: str | None, finding: Finding | None) -> Properties:
    """Return the properties of a verdict."""
    return {
        "metric": verdict.metric,
        "device": verdict.subject,
        "serial": serial,
        "value": verdict.value,
        "unit": verdict.unit or None,
        "floor": verdict.floor,
        "ceiling": verdict.ceiling,
        "expected": verdict.expected,
        "of_peak": verdict.of_peak,
        "margin": verdict.margin,
        "status": verdict.status.value,
        "cause": sentence_of(verdict) if finding else None,
        "code": finding.code if finding else None,
        "fault": finding.fault.name if finding else None,
        "vendor_code": (finding.vendor or None) if finding else None,
        "severity": finding.severity.value if finding else None,
        "action": finding.action.value if finding else None,
        "next": finding.do if finding else None,
        "attempts": verdict.attempts if verdict.attempts > 1 else None,
        "waived": verdict.waiver.reason if verdict.waiver else None,
        "limit_from": verdict.limit.origin if verdict.limit else None,
    }


def pairs(properties: Properties) -> list[tuple[str, str]]:
    """Return properties as names and texts, with the prefix, and with every character that XML cannot hold escaped."""
    return [(f"accel.{name}", printable(str(value))) for name, value in properties.items() if value is not None]


@dataclass(frozen=True)
class Case:
    """A test case of a JUnit file. Text from outside is printable in `told` and `output`, and may be any elsewhere."""

    classname: str
    name: str
    properties: Properties
    tag: str = ""
    """The element that says that it did not pass: failure, error or skipped; empty if it did."""
    about: Mapping[str, str] = field(default_factory=dict)
    """The attributes of that element."""
    told: str = ""
    """The text of that element."""
    output: str = ""
    seconds: float | None = None


def document(
    properties: Properties, cases: Iterable[Case], attributes: Mapping[str, str], notes: Sequence[str] = ()
) -> str:
    """Return a JUnit file with one suite, its `properties` and `attributes`, its cases, and notes as its output."""
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=SUITE)
    _add_properties(suite, properties)
    for each in cases:
        case = ET.SubElement(
            suite, "testcase", classname=f"{SUITE}.{printable(each.classname)}", name=printable(each.name)
        )
        if each.seconds is not None:
            case.set("time", f"{each.seconds:.3f}")
        _add_properties(case, each.properties)
        if each.tag:
            about = {name: printable(value) for name, value in each.about.items()}
            ET.SubElement(case, each.tag, about).text = each.told or None
        if each.output:
            ET.SubElement(case, "system-out").text = each.output
    if notes:
        ET.SubElement(suite, "system-out").text = "\n".join(notes)
    suite.set("tests", str(len(suite.findall("testcase"))))
    for name, tag in COUNTS.items():
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.attrib.update({name: printable(value) for name, value in attributes.items()})
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def text(record: Run) -> str:
    """Return a record as a JUnit file."""
    run = record.run
    wall = run["seconds"].get("wall", 0.0) if "seconds" in run else 0.0  # the devices are measured at the same time
    about = {"time": f"{wall:.3f}", "timestamp": run.get("started", ""), "hostname": run.get("host", "")}
    return document(of_run(record), _cases(record), about)


def _cases(record: Run) -> Iterator[Case]:
    """Yield a case for every verdict."""
    found, names = findings_of(record), device_names(record)
    serials = {device.uuid: device.serial for device in record.devices}
    seconds, alike = _seconds(record), Counter((each.metric, each.subject) for each in record.verdicts)
    for renamed, verdict in zip(told_apart(record.verdicts), record.verdicts, strict=True):
        place, finding = (verdict.metric, verdict.subject), found.get(verdict.key)
        several = f" ({verdict.limit.origin})" if alike[place] > 1 and verdict.limit else ""
        case = Case(
            names[verdict.subject],
            f"{renamed.metric}{several}",
            of_verdict(verdict, serials.get(verdict.subject), finding),
            seconds=seconds.get(place, 0.0),
        )
        yield _with_outcome(case, verdict, finding)


def of_run(record: Run) -> Properties:
    """Return the properties of the whole run, under the names that the plugin gives them."""
    run, closing = record.run, vars(record.closing) if record.closing.exit >= 0 else {}
    return {
        "closing": closing.get("line"),
        "result": closing.get("word"),
        "exit": closing.get("exit"),
        "sku": record.sku.get("name"),
        "platform": run.get("platform"),
        "level": run.get("level"),
        "simulated": "true" if "simulated" in run else None,
        "host": run.get("host"),
        "devices": " ".join(device.uuid for device in record.devices) or None,
        "serials": " ".join(device.serial for device in record.devices if device.serial) or None,
        "record": run.get("output"),
        "record_sha256": record.sha256 or None,
    }


def _seconds(record: Run) -> dict[tuple[str, str], float]:
    """Return how long the attempts at a metric of a subject took; counters, which count all the time, take none."""
    spent: dict[tuple[str, str], float] = {}
    for each in record.measurements:
        place, counts = (each.metric, each.subject), each.metric.startswith(OF_COUNTERS)
        spent[place] = spent.get(place, 0.0) + (0.0 if counts else max(0.0, each.ended - each.started))
    return spent


def _add_properties(parent: ET.Element, properties: Properties) -> None:
    """Add properties to a suite or a case."""
    group = ET.SubElement(parent, "properties")
    for name, value in pairs(properties):
        ET.SubElement(group, "property", name=name, value=value)


def _with_outcome(case: Case, verdict: Verdict, finding: Finding | None) -> Case:
    """Return the case with what a verdict is beside passed: failed, an error, or skipped; a remark is its output."""
    sentence = printable(sentence_of(verdict))
    said = f"{sentence}\n{finding.title}, {finding.severity.value}: {finding.do}" if finding else sentence
    if verdict.fails:
        subject = "" if verdict.subject == NODE else f"{case.classname}: "
        about = {"type": verdict.status.value, "message": f"{subject}{verdict.metric} {sentence}"}
        return replace(case, tag=TAGS[verdict.status], about=about, told=said)
    if verdict.status is Status.NOT_APPLICABLE and not verdict.information:
        return replace(case, tag="skipped", about={"message": sentence})
    if finding:
        return replace(case, output=f"{verdict.status.value} {printable(show(verdict.value, verdict.unit))}: {said}")
    return case
