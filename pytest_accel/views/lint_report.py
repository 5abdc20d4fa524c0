"""The findings of the lint of threshold files: as text, one line each with errors first, or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from pytest_accel.core.words import counted
from pytest_accel.skus.lint import LintFinding, LintReport

COLOURS = {"error": "31", "warning": "33", "note": "36"}


def text(report: LintReport, *, everything: bool = False, colour: bool = False) -> str:
    """Return the open findings and a summary; with `everything` also explained findings and those in extended files.

    The notes on several files are counted by file and rule, unless `everything` is wanted.
    """
    shown: Iterable[LintFinding] = [*report.findings, *report.below] if everything else report.open
    if everything or report.files == 1:
        return "\n".join([*(_line(finding, colour) for finding in shown), summary(report)])
    lines = [_line(finding, colour) for finding in shown if finding.severity != "note"]
    notes = Counter((finding.file, finding.rule) for finding in shown if finding.severity == "note")
    lines += [
        f"{file}: {_mark('note', rule, colour)} {count} (--all shows them)" for (file, rule), count in notes.items()
    ]
    return "\n".join([*lines, summary(report)])


def summary(report: LintReport) -> str:
    """Return the counts, such as "53 files, 412 limits: 0 errors, 0 warnings, 3 notes, 7 explained"."""
    counts = [counted(report.count(severity), severity) for severity in ("error", "warning", "note")]
    counts += [f"{len(report.findings) - len(report.open)} explained"]
    return f"{counted(report.files, 'file')}, {counted(report.limits, 'limit')}: {', '.join(counts)}"


def as_json(report: LintReport) -> str:
    """Return the findings of the linted files, explained ones included, and the counts, as JSON."""
    counts = {f"{severity}s": report.count(severity) for severity in ("error", "warning", "note")}
    findings = [asdict(finding) for finding in report.findings]
    return json.dumps({"files": report.files, "limits": report.limits, **counts, "findings": findings}, indent=2)


def _line(finding: LintFinding, colour: bool) -> str:
    """Return a finding as "FILE:LINE: SEVERITY[RULE] KEY: VALUE, EXPECTED (explained: WHY)"."""
    severity = _mark(finding.severity, finding.rule, colour)
    key = f"{finding.key}: " if finding.key else ""
    text = ", ".join(part for part in (finding.value, finding.expected) if part)
    explained = f" (explained: {finding.explained})" if finding.explained else ""
    return f"{finding.file}:{finding.line}: {severity} {key}{text}{explained}"


def _mark(severity: str, rule: str, colour: bool) -> str:
    """Return "SEVERITY[RULE]", in colour if that is wanted."""
    shown = f"{severity}[{rule}]"
    return f"\033[{COLOURS[severity]}m{shown}\033[0m" if colour else shown
