"""The messages of the lint of threshold files: as text, one line each with errors first, or as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from pytest_accel.core.words import counted
from pytest_accel.skus.lint import LintMessage, LintReport
from pytest_accel.skus.lint.linted_file import SEVERITIES

COLOURS = {"error": "31", "warning": "33"}


def text(report: LintReport, *, everything: bool = False, colour: bool = False) -> str:
    """Return the open messages and a summary; with `everything` also explained messages and those in extended files."""
    messages = [*report.messages, *report.below] if everything else report.open
    return "\n".join([*(_line(message, colour) for message in messages), summary(report)])


def summary(report: LintReport) -> str:
    """Return the counts, such as "53 files, 412 limits: 0 errors, 0 warnings, 7 explained"."""
    counts = [counted(report.count(severity), severity) for severity in SEVERITIES]
    counts += [f"{len(report.messages) - len(report.open)} explained"]
    return f"{counted(report.files, 'file')}, {counted(report.limits, 'limit')}: {', '.join(counts)}"


def as_json(report: LintReport) -> str:
    """Return the messages of the linted files, explained ones included, and the counts, as JSON."""
    counts = {f"{severity}s": report.count(severity) for severity in SEVERITIES}
    messages = [asdict(message) for message in report.messages]
    return json.dumps({"files": report.files, "limits": report.limits, **counts, "messages": messages}, indent=2)


def _line(message: LintMessage, colour: bool) -> str:
    """Return a message as "FILE:LINE: SEVERITY[RULE] KEY: VALUE, EXPECTED (explained: WHY)"."""
    severity = f"{message.severity}[{message.rule}]"
    if colour:
        severity = f"\033[{COLOURS[message.severity]}m{severity}\033[0m"
    key = f"{message.key}: " if message.key else ""
    text = ", ".join(part for part in (message.value, message.expected) if part)
    explained = f" (explained: {message.explained})" if message.explained else ""
    return f"{message.file}:{message.line}: {severity} {key}{text}{explained}"
