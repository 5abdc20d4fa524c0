"""The findings of the lint of threshold files: as text, one line each with errors first, or as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from pytest_accel.core.words import counted
from pytest_accel.skus.lint import LintFinding, LintReport
from pytest_accel.skus.lint.linted_file import SEVERITIES

COLOURS = {"error": "31", "warning": "33"}


def text(report: LintReport, *, everything: bool = False, colour: bool = False) -> str:
    """Return the open findings and a summary; with `everything` also explained findings and those in extended files."""
    shown = [*report.findings, *report.below] if everything else report.open
    return "\n".join([*(_line(finding, colour) for finding in shown), summary(report)])


def summary(report: LintReport) -> str:
    """Return the counts, such as "53 files, 412 limits: 0 errors, 0 warnings, 7 explained"."""
    counts = [counted(report.count(severity), severity) for severity in SEVERITIES]
    counts += [f"{len(report.findings) - len(report.open)} explained"]
    return f"{counted(report.files, 'file')}, {counted(report.limits, 'limit')}: {', '.join(counts)}"


def as_json(report: LintReport) -> str:
    """Return the findings of the linted files, explained ones included, and the counts, as JSON."""
    counts = {f"{severity}s": report.count(severity) for severity in SEVERITIES}
    findings = [asdict(finding) for finding in report.findings]
    return json.dumps({"files": report.files, "limits": report.limits, **counts, "findings": findings}, indent=2)


def _line(finding: LintFinding, colour: bool) -> str:
    """Return a finding as "FILE:LINE: SEVERITY[RULE] KEY: VALUE, EXPECTED (explained: WHY)"."""
    severity = f"{finding.severity}[{finding.rule}]"
    if colour:
        severity = f"\033[{COLOURS[finding.severity]}m{severity}\033[0m"
    key = f"{finding.key}: " if finding.key else ""
    text = ", ".join(part for part in (finding.value, finding.expected) if part)
    explained = f" (explained: {finding.explained})" if finding.explained else ""
    return f"{finding.file}:{finding.line}: {severity} {key}{text}{explained}"
