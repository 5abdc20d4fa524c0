"""The last lines of a run: text with a colour each, which the caller writes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Names
from pytest_accel.core.reasons import AllAlike
from pytest_accel.core.run import SamplingCost
from pytest_accel.core.sentences import details
from pytest_accel.core.verdict import Closing, Result, Status, Verdict
from pytest_accel.judging.closing.parts import backings_by_part, bases
from pytest_accel.run.phases import PHASES

COLOURS = {
    Status.FAIL: "red",
    Status.UNMEASURED: "red",
    Status.INCONCLUSIVE: "yellow",
    Status.MARGINAL: "yellow",
    Status.PASS: "green",
}
MOST_WHY = 3
"""The most devices whose details are shown without -v."""
INDENT = "  "
"""The beginning of a line that continues another one."""
BETWEEN = (0, 0)
"""The rank of a break behind a semicolon that is in no bracket: the best one."""
Line = tuple[str, str]
"""Text and colour; the colour may be empty."""


def time_line(seconds: Mapping[str, float]) -> Line:
    """Return the line that shows the seconds of the run, in all and by phase."""
    names = [name for name in PHASES if name in seconds and (name != "silent" or seconds[name] >= 1)]
    parts = [f"{name.replace('_', '-')} {round(seconds[name])}" for name in names]  # few wait for a device that hangs
    return f"time: {seconds['wall']:.0f} s: {', '.join(parts)}", ""


def sampling_line(cost: SamplingCost) -> Line:
    """Return the line that shows what the sensor's readings cost."""
    ms = 1000 * cost["seconds_per_reading"]
    text = f"sampling: {cost['readings']} readings of {ms:.3g} ms, {cost['cpu_share']:.2%} of the processors' time"
    return text, ""


def closing_lines(closing: Closing, verdicts: Sequence[Verdict], width: int | None = None) -> list[Line]:
    """Return the closing line in its colour: yellow for an acceptance with marginal or waived verdicts.

    A line that is longer than `width` is broken between devices and reasons; figures stay with their metrics as far as
    there is another place to break it.
    """
    colour = "green" if closing.exit == 0 else "red"
    if closing.exit == 0 and any(verdict.status is Status.MARGINAL or verdict.waiver for verdict in verdicts):
        colour = "yellow"
    return [(text, colour) for text in by_phrases(closing.line, width)]


def next_lines(closing: Closing, width: int | None = None) -> list[Line]:
    """Return the lines on what to do for an acceptance; nothing where none can follow."""
    return folded([(f"next: {closing.next_step}", "")], width) if closing.next_step else []


def why_lines(closing: Closing, names: Names, width: int | None = None, *, full: bool = False) -> list[Line]:
    """Return the details of the failures that the closing line names, a line for each device.

    Without `full` the first `MOST_WHY` devices have one, and of devices that fall short alike the first.
    """
    failures = [verdict for verdict in closing.verdicts if details(verdict)]
    alike = {verdict.key for verdict in failures if any(isinstance(reason, AllAlike) for reason in verdict.reasons)}
    groups = grouped(failures, lambda verdict: verdict.metric if verdict.key in alike else verdict.key)
    verdicts = failures if full else [group[0] for group in groups.values()][:MOST_WHY]
    lines = [(f"why: {names[verdict.culprit]} {verdict.metric}: {details(verdict)}", "") for verdict in verdicts]
    return folded(
        [*lines, *([("why: -v shows the other devices", "")] if not full and len(groups) > MOST_WHY else [])], width
    )


def sensitivity_lines(closing: Closing, verdicts: Sequence[Verdict], width: int | None, *, full: bool) -> list[Line]:
    """Return the sensitivity of a run; without `full`, only where an acceptance says nothing else on its worth."""
    deciding = [verdict for verdict in verdicts if verdict.decides]
    worth = bases(backings_by_part(deciding), deciding)
    visible = closing.sensitivity and (full or (closing.result is Result.ACCEPTED and not worth))
    return [(text, "") for text in by_phrases(f"sensitivity: {closing.sensitivity}", width)] if visible else []


def record_lines(file: Path | None, instead_of: str | None = None, *, lost: bool = False) -> list[Line]:
    """Return the line with the path of the record; nothing if there is none.

    `instead_of` says which place could not be written, if the record had to be written to another one. If it is `lost`,
    it could be written nowhere, and the file is an older one.
    """
    if file is None:
        return []
    if lost:
        return [(f"record: lost ({instead_of}); {file} ends before the run did", "yellow")]
    return [(f"record: {file}{f' ({instead_of})' if instead_of else ''}", "")]


def hash_lines(sha256: str, width: int | None = None, *, signed: bool = False) -> list[Line]:
    """Return the hash of a record, and whether a signature lies beside it. In 80 columns that takes two lines."""
    signature = "signed: 'pytest-accel verify' says by whom" if signed else "unsigned"
    text = f"sha256: {sha256}, {signature}"
    if width is None or len(text) <= width:
        return [(text, "")]
    return [(f"sha256: {sha256},", ""), (f"{INDENT}{signature}", "")]


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines of at most `width` columns, broken between words; all but the first are indented."""
    return textwrap.wrap(text, width, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)


def by_phrases(text: str, width: int | None) -> list[str]:
    """Return a text as lines that end behind a semicolon, else between phrases, or words where that is too early.

    All but the first are indented. Without a `width` it is one line.
    """
    text, lines, indent = text.strip(), [], ""
    while width and len(indent) + len(text) > width:
        breaks = _breaks(text)
        fitting = [position for position in breaks if len(indent) + position <= width] or sorted(breaks)[:1]
        if not fitting:
            break
        # A break in the first half of a line is too early; behind a semicolon only one in the first quarter.
        enough = {position: width // (4 if breaks[position] == BETWEEN else 2) for position in fitting}
        candidates = [position for position in fitting if position >= enough[position]] or [max(fitting)]
        position = min(candidates, key=lambda position: (breaks[position], -position))
        lines.append(indent + text[:position].rstrip())
        text, indent = text[position:].lstrip(), INDENT
    return [*lines, indent + text]


def _breaks(text: str) -> dict[int, tuple[int, int]]:
    """Return the positions at which a line may end, each with the depth in brackets and the badness of the break."""
    breaks, depth = {}, 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == " ":
            before, after = text[position - 1], text[position + 1 : position + 2]
            breaks[position] = depth, 0 if before == ";" else 1 if before in ",:" else 2 if after == "(" else 3
    return breaks


def folded(lines: Sequence[Line], width: int | None) -> list[Line]:
    """Return lines with those that are longer than `width` broken between words; without a width as they are."""
    return [
        (part, colour)
        for text, colour in lines
        for part in (wrapped(text, width) if width and len(text) > width else [text])
    ]  # fmt: skip
