"""A night of a fleet on a terminal: at most sixty lines, the worst first, made for 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from pytest_accel.core import exits
from pytest_accel.core.printable import printable
from pytest_accel.core.words import counted
from pytest_accel.fleet.nights.night import Night
from pytest_accel.fleet.nights.questions import QUESTIONS, Question, Row

LINES: Final = 60
"""Most lines of the text."""
COLUMNS: Final = 80
"""Columns of a terminal. A line is longer only if its names are."""


def text(night: Night) -> str:
    """Return a night as text."""
    rejected = [run for run in night.runs if run["exit"] == exits.REJECTED]
    unjudged = [run for run in night.runs if run["exit"] not in (exits.HOLDS, exits.REJECTED)]
    sections = [
        (Question("rejected nodes", "", _run, 6), rejected),
        *((question, night.anomalies[name]) for name, question in QUESTIONS.items()),
    ]
    sections.insert(2, (Question("unjudged or unfinished runs", "", _run, 3), unjudged))
    lines = _head(night)
    for question, rows in sections:
        if rows:
            most = question.most
            more = f", the first {most}" if len(rows) > most else ""
            lines += [f"{question.title} ({len(rows)}{more})", *_table(list(map(question.cells, rows[:most])))]
    if titles := [question.title for question, rows in sections if not rows]:
        lines += textwrap.wrap(f"No anomalies for: {', '.join(titles)}", COLUMNS, subsequent_indent="  ")
    return "\n".join(map(printable, lines[:LINES])) + "\n"


def _head(night: Night) -> list[str]:
    """Return the first lines: the night, the results, and the statuses."""
    simulated = "SIMULATED " if night.simulated else ""
    results = ", ".join(f"{number} {result}" for result, number in night.results.items())
    verdicts = ", ".join(f"{number} {status}" for status, number in sorted(night.verdicts.items()))
    comparison = f"compared with {counted(night.nights - 1, 'night')} from {night.first} on"
    size = f"{counted(night.nodes, 'node')}, {counted(night.devices, 'device')}"
    first = f"{simulated}{night.night}: {size}; {comparison if night.nights > 1 else 'no night before it'}"
    return [first, f"runs: {results}", f"verdicts: {verdicts}"]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _run(run: Row) -> tuple[str, ...]:
    """Return node and the beginning of the closing line, which has the result."""
    line = run["line"] if run["result"] in run["line"] else f"{run['result']} {run['line']}"
    return run["node"], textwrap.shorten(line, max(COLUMNS // 2, COLUMNS - len(run["node"]) - 4), placeholder=" ...")
