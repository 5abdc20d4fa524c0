"""The lines that say what to do next: fault code, devices and next step of each finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_accel.core.fault_codes import Severity
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Names
from pytest_accel.core.verdict import Verdict
from pytest_accel.core.words import listed
from pytest_accel.judging.causes.findings import Finding, Key
from pytest_accel.judging.closing.parts import as_ranges, unrejected_shortfalls, worst_by_subject
from pytest_accel.views.terminal import Line

FEW = 2
"""Up to this number of devices, a line tells where each of them is."""
MISSING = "device-missing"
"""The code whose line names the devices that an earlier run found."""
REJECTS = (Severity.CRITICAL, Severity.ERROR)
"""The severities of findings that reject a device."""
COLOURS = {Severity.CRITICAL: "red", Severity.ERROR: "red"}


def by_finding(
    findings: Mapping[Key, Finding], verdicts: Iterable[Verdict]
) -> Iterator[tuple[Finding, Sequence[str], Sequence[str]]]:
    """Yield each finding, worst first, with the subjects that are blamed for it and the metrics, each once.

    `findings` has the findings of the worst of these verdicts first.
    """
    groups, order = grouped(findings, findings.__getitem__), list(Severity)
    culprits = {verdict.key: verdict.culprit for verdict in verdicts}
    for finding in sorted(groups, key=lambda finding: order.index(finding.severity)):
        blamed = grouped(groups[finding], culprits.__getitem__)
        yield finding, list(blamed), list(dict.fromkeys(metric for keys in blamed.values() for metric, *_ in keys))


def next_steps(
    findings: Mapping[Key, Finding],
    verdicts: Sequence[Verdict],
    names: Names,
    locations: Mapping[str, str],
    *,
    full: bool = False,
) -> list[Line]:
    """Return a line for each code that rejects a device, and for the worst of each device that is short beside it.

    Where nothing rejects, the worst of each subject that was not judged has one. `full` adds those that warn and all
    that were not judged. `locations` tell where to find a device, by UUID, for one or two devices.
    """
    lines = []
    rejected = any(finding.severity in REJECTS for finding in findings.values())
    failures = unrejected_shortfalls(verdicts) if rejected else [verdict for verdict in verdicts if verdict.fails]
    short = {verdict.key for verdict in worst_by_subject(failures, names)}
    steps = {key: finding for key, finding in findings.items() if full or finding.severity in REJECTS or key in short}
    for finding, members, metrics in by_finding(steps, verdicts):
        subjects = [subject for subject in dict.fromkeys((*names, *members)) if subject in members]
        located = {*locations} if finding.fault_code.name == MISSING else {*locations} - {NODE}
        slots = {uuid: f" ({locations[uuid]})" for uuid in located.intersection(subjects) if len(subjects) <= FEW}
        devices = as_ranges([names[subject] + slots.get(subject, "") for subject in subjects])
        severity = "" if finding.severity is Severity.UNKNOWN else f", {finding.severity.value}"
        text = f"next: {devices} {finding.title}{severity}: {finding.next_step}"
        text += f" ({listed(metrics)})" if full else ""
        lines.append((text, COLOURS.get(finding.severity, "yellow")))
    return lines
