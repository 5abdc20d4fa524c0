"""What the lint of threshold files found: a line each, errors first; or JSON for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from pytest_accel.skus.lint import Finding, LintReport

COLOURS = {"error": "31", "warning": "33", "note": "36"}


def text(report: LintReport, *, everything: bool = False, colour: bool = False) -> str:
    """The findings and a summary; with `everything` also what is explained, and what lies in files below."""
    shown: Iterable[Finding] = [*report.findings, *report.below] if everything else report.open
    return "\n".join([*(_line(each, colour) for each in shown), summary(report)])


def summary(report: LintReport) -> str:
    """Such as "53 files, 412 limits: 0 errors, 0 warnings, 3 notes, 7 explained"."""
    counts = [_plural(report.count(severity), severity) for severity in ("error", "warning", "note")]
    counts += [f"{len(report.findings) - len(report.open)} explained"]
    return f"{_plural(report.files, 'file')}, {_plural(report.limits, 'limit')}: {', '.join(counts)}"


def as_json(report: LintReport) -> str:
    """The findings of the files asked for, explained ones included, with the counts."""
    counts = {f"{severity}s": report.count(severity) for severity in ("error", "warning", "note")}
    found = [asdict(each) for each in report.findings]
    return json.dumps({"files": report.files, "limits": report.limits, **counts, "findings": found}, indent=2)


def _line(finding: Finding, colour: bool) -> str:
    severity = f"{finding.severity}[{finding.rule}]"
    if colour:
        severity = f"\033[{COLOURS[finding.severity]}m{severity}\033[0m"
    key = f"{finding.key}: " if finding.key else ""
    said = ", ".join(part for part in (finding.value, finding.expected) if part)
    explained = f" (explained: {finding.explained})" if finding.explained else ""
    return f"{finding.file}:{finding.line}: {severity} {key}{said}{explained}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
