"""The lines that say what to do next: fault code, devices and next step of each finding."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_accel.core.display_names import Names
from pytest_accel.core.words import listed
from pytest_accel.judging.closing_parts import spanned
from pytest_accel.judging.fault_codes import Severity
from pytest_accel.judging.findings import Finding, Key
from pytest_accel.views.terminal import Line

FEW = 2
"""Up to this number of devices, a line tells where each of them is."""
SHOWN = 4
"""Number of lines that are written unless all are asked for."""
REJECTS = (Severity.CRITICAL, Severity.ERROR)
"""The severities of findings that reject a device."""
COLOURS = {Severity.CRITICAL: "red", Severity.ERROR: "red"}


def by_finding(found: Mapping[Key, Finding]) -> dict[Finding, dict[str, list[str]]]:
    """Return the findings, worst first, with the metrics of every subject that has them.

    `found` has the findings of the worst verdicts first.
    """
    groups: dict[Finding, dict[str, list[str]]] = {}
    for (metric, subject, _), finding in found.items():
        groups.setdefault(finding, {}).setdefault(subject, []).append(metric)
    order = list(Severity)
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0].severity)))


def _named(subject: str, names: Names, places: Mapping[str, str]) -> str:
    """Return the name of a subject, with its place if there is one: "gpu6 (serial 1650, PCI 0000:c1:00.0)"."""
    place = places.get(subject)
    return names[subject] + (f" ({place})" if place else "")


def next_steps(
    found: Mapping[Key, Finding], names: Names, places: Mapping[str, str], *, full: bool = False
) -> list[Line]:
    """Return a line for each code that rejects a device; `full` adds those that warn and those that were not judged.

    `places` tell where to find a device, by UUID. One or two devices are told with theirs.
    """
    lines = []
    for finding, members in by_finding(found).items():
        if not full and finding.severity not in REJECTS:
            continue
        subjects = [subject for subject in names if subject in members]
        subjects += [subject for subject in members if subject not in names]
        who = spanned([_named(each, names, places if len(subjects) <= FEW else {}) for each in subjects])
        metrics = dict.fromkeys(metric for each in members.values() for metric in each)
        text = f"next: {who} {finding.title}, {finding.severity.value}: {finding.do}"
        text += f" ({listed(metrics)})" if full else ""
        lines.append((text, COLOURS.get(finding.severity, "yellow")))
    if full or len(lines) <= SHOWN:
        return lines
    return [*lines[:SHOWN], (f"next: {len(lines) - SHOWN} more fault codes are in the record (-v lists them)", "")]
