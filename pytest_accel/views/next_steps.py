"""The lines that say what to do next: fault code, devices and next step of each finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_accel.core.fault_codes import Severity
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Names
from pytest_accel.core.verdict import Verdict
from pytest_accel.core.words import listed
from pytest_accel.judging.causes.findings import Finding, Key
from pytest_accel.judging.closing.parts import named, short_beside, spanned
from pytest_accel.views.terminal import Line

FEW = 2
"""Up to this number of devices, a line tells where each of them is."""
MISSING = "device-missing"
"""The code whose line names the devices that an earlier run found."""
REJECTS = (Severity.CRITICAL, Severity.ERROR)
"""The severities of findings that reject a device."""
COLOURS = {Severity.CRITICAL: "red", Severity.ERROR: "red"}


def by_finding(
    found: Mapping[Key, Finding], verdicts: Iterable[Verdict]
) -> Iterator[tuple[Finding, Sequence[str], Sequence[str]]]:
    """Yield each finding, worst first, with the subjects that are blamed for it and the metrics, each once.

    `found` has the findings of the worst of these verdicts first.
    """
    groups, order = grouped(found, found.__getitem__), list(Severity)
    culprits = {each.key: each.culprit for each in verdicts}
    for finding in sorted(groups, key=lambda each: order.index(each.severity)):
        own = grouped(groups[finding], culprits.__getitem__)
        yield finding, list(own), list(dict.fromkeys(metric for keys in own.values() for metric, *_ in keys))


def next_steps(
    found: Mapping[Key, Finding],
    verdicts: Sequence[Verdict],
    names: Names,
    places: Mapping[str, str],
    *,
    full: bool = False,
) -> list[Line]:
    """Return a line for each code that rejects a device, and for the worst of each device that is short beside it.

    Where nothing rejects, the worst of each subject that was not judged has one. `full` adds those that warn and all
    that were not judged. `places` tell where to find a device, by UUID, for one or two devices.
    """
    lines = []
    rejected = any(finding.severity in REJECTS for finding in found.values())
    told = short_beside(verdicts) if rejected else [each for each in verdicts if each.fails]
    short = {each.key for each in named(told, names)}
    shown = {key: each for key, each in found.items() if full or each.severity in REJECTS or key in short}
    for finding, members, metrics in by_finding(shown, verdicts):
        subjects = [*(each for each in names if each in members), *(each for each in members if each not in names)]
        located = [each for each in subjects if each in places and (each != NODE or finding.fault.name == MISSING)]
        place = {each: f" ({places[each]})" for each in located if len(subjects) <= FEW}
        who = spanned([names[each] + place.get(each, "") for each in subjects])
        severity = "" if finding.severity is Severity.UNKNOWN else f", {finding.severity.value}"
        text = f"next: {who} {finding.title}{severity}: {finding.do}"
        text += f" ({listed(metrics)})" if full else ""
        lines.append((text, COLOURS.get(finding.severity, "yellow")))
    return lines
