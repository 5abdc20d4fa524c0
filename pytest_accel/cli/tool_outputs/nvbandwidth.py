"""Reader of the text and the JSON of nvbandwidth: copies between host and device, and between devices. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.cli.tool_outputs.output import (
    ToolOutput,
    entries,
    json_from,
    number,
    numbered,
    on_lines,
    several,
)
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.untrusted import BadFile, ErrorAt

TOOL = "nvbandwidth"
LOOKED_FOR = (
    "nvbandwidth, by 'Running host_to_device_memcpy_ce.' or another test, and 'memcpy CE ... bandwidth (GB/s)', or by "
    """'{"nvbandwidth": {' of its JSON"""
)

_METRICS = {
    "host_to_device_memcpy_ce": ("host_copy.h2d", "CPU(row) -> GPU(column)"),
    "device_to_host_memcpy_ce": ("host_copy.d2h", "CPU(row) <- GPU(column)"),
    "device_to_device_memcpy_write_ce": ("peer_copy.one_way", "GPU(row) <- GPU(column)"),
}
"""Metric and printed direction of each test that is measured as our probes measure. In the last one the row sends,
whatever the arrow says: testcases_ce.cpp of NVIDIA/nvbandwidth copies from the row's buffer to the column's, in the
context of the row. The read test copies otherwise, and a bidirectional test counts one direction of two."""

DEFAULT_MIB, EARLIER_MIB = 512, 64
"""Size of a copy where no option sets it: since v0.7, and before (common.h of NVIDIA/nvbandwidth)."""

MOST_DEVICES = 256
"""Columns of a table at most: far more than the devices of a node, and few enough to be judged at once."""

_OWN = re.compile(r"nvbandwidth Version:|SUM \w+_(?:ce|sm|copy) ")
BEGINS = re.compile(
    r"nvbandwidth Version:|Running \w+\.$|Device \d+: |memcpy (?:CE|SM) |\bSUM \w|(?:\{\s*)?\"nvbandwidth\"\s*:"
)
_RUNNING = re.compile(r"Running (\w{1,80})\.")
_TITLE = re.compile(r"memcpy (?:CE|SM) (.{1,60}?) bandwidth \(GB/s\)")
_DEVICE = re.compile(r"Device ([0-9]{1,3}): (.{1,120}?)(?: \([0-9A-Fa-f:.]{7,24}\).{0,120})?")
_VERSION = re.compile(r"nvbandwidth Version: v([0-9]{1,3})\.([0-9]{1,3})\b")
_SUM = re.compile(r"&&&& PERF (\w{1,80}) (\S{1,30}) \+GB/s")
"""The sum of a table with --perfFormatter."""
_SAID = re.compile(r"(?:.*\b)?(?:CUDA_ERROR_|NVML_ERROR|ASSERT in|Waiv(?:ed|ing)\b).*")
"""What the tool says of a test without figures."""
_WRONG = "Invalid value when checking the pattern"
_SMALLER = "You have chosen a buffer size that is smaller"
_JSON = re.compile(r'\{\s*"nvbandwidth"\s*:\s*\{')


@dataclass(frozen=True)
class _Table:
    """A table: the test, the lines of its rows, and their cells in GB/s, None where no copy was measured."""

    test: str
    places: list[int]
    rows: list[list[float | None]]


def recognises(text: str) -> bool:
    """Return True for an output of nvbandwidth: its JSON, or a text with its version, a sum, or a test with a title."""
    lines = [line for _, line in numbered(text)]
    return bool(
        _JSON.search(text)
        or any(map(_OWN.match, lines))
        or (any(map(_RUNNING.fullmatch, lines)) and (any(map(_TITLE.fullmatch, lines)) or _WRONG in text))
    )


def read(text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:  # noqa: ARG001
    """Return the copies between host and device, and between devices, of an output. Raises BadFile.

    `limits` are not looked at: each test is one metric. A table counts if its rows are whole and add up to the line
    SUM behind it. Of a sender the slowest pair counts, as for our probe. The output does not state the size of a copy:
    it is taken as the default of the version, if the output states that.
    """
    start = _JSON.search(text)
    lines, said = (numbered(text), []) if start is None else _as_text(text, start.start(), shown)
    found = {int(match[1]): printable(match[2], 80) for _, line in lines if (match := _DEVICE.fullmatch(line))}
    versions = {(int(a), int(b)) for a, b in _VERSION.findall("\n".join(line for _, line in lines))}
    version = min(versions, default=None)
    mib = EARLIER_MIB if version and version < (0, 7) else DEFAULT_MIB
    of_default = version and _SMALLER not in text
    conditions = {"mib": mib if of_default else "not stated"}
    size = (
        f"{mib} MiB is taken, the default of v{version[0]}.{version[1]}" if version and of_default else "none is taken"
    )
    figures: list[Measurement] = []
    seen: dict[str, int] = {}
    broken, unmeasured, others, count = [], [], [], len(found)
    for place, test, body in _tests(lines):
        if test not in _METRICS:
            others.append(test)
            continue
        if test in seen:
            text = f"{test} is given twice (first in line {seen[test]}); judge each run alone"
            raise BadFile(ErrorAt(shown, place, text))
        seen[test] = place
        table = _table(test, body)
        if table is None or (count and len(table.rows[0]) != count):
            broken.append(place)
            continue
        count = len(table.rows[0])
        for name, line, value in _values(table):
            if value is None:
                unmeasured.append(line)
                continue
            figures.append(Measurement(_METRICS[test][0], name, "GB/s", value, conditions=conditions))
    wrong = [place for place, line in lines if _WRONG in line]
    told = [f"line {n}: the tool states: {printable(line, 160)}" for n, line in lines if _SAID.fullmatch(line)]
    notes = [
        *on_lines("the tool found wrong data, and does not say of which device: repeat the test alone", wrong),
        *on_lines("not read, because the table is not whole or does not add up to its line SUM", broken),
        *on_lines("not judged, because a copy has no value", unmeasured),
        *(said or told),
        *[f"left out, because no limit is measured so: {several(others)}"] * bool(others),
        f"the output does not state the size of a copy: {size}",
    ]
    if not figures:
        why = [*(notes[:-1] or ["no test is whole"]), f"judge the whole output of nvbandwidth -t {' '.join(_METRICS)}"]
        raise BadFile(f"{shown}: output of nvbandwidth, but nothing in it can be judged: {'; '.join(why)}")
    return ToolOutput(TOOL, figures, [Device(f"gpu{n}", n, sku.vendor, found.get(n, "")) for n in range(count)], notes)


def _as_text(text: str, start: int, shown: str) -> tuple[list[tuple[int, str]], list[str]]:
    """Return a JSON as the lines of the text that states the same, and notes on what the tool says of itself.

    `start` is where the JSON begins; what the tool printed before it is kept. The lines of a test have the number of
    the line that names it. Raises BadFile.
    """
    before = text[:start]
    whole = json_from(text, start, shown).get("nvbandwidth")
    stated: dict[str, Any] = whole if isinstance(whole, dict) else {}
    head = [f"nvbandwidth Version: {stated.get('version')}"]
    head += [f"Device {each}" for each in entries(stated, "GPU Device list", str)]
    place, lines = start, [*numbered(before), *((before.count("\n") + 1, line) for line in head)]
    said = [f"the tool states: {printable(str(stated[key]), 120)}" for key in ("error", "warning") if stated.get(key)]
    for case in entries(stated, "testcases", dict):
        test, status = str(case.get("name")), str(case.get("status"))
        place = max(place, text.find(f'"{test}"', place))
        rows = entries(case, "bandwidth_matrix", list)
        if test in _METRICS and (status != "Passed" or not rows):
            said.append(f"{test} has no figures; its status is {printable(status, 60)}")
            continue
        columns = " ".join(map(str, range(len(rows[0]) if rows else 0)))
        table = [" ".join(map(str, [n, *row])) for n, row in enumerate(rows)]
        title, total = str(case.get("bandwidth_description")).strip(), f"SUM {test} {case.get('sum')}"
        line = text.count("\n", 0, place) + 1
        lines += [(line, part) for part in (f"Running {test}.", title, columns, *table, total)]
    return lines, said


def _tests(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, list[tuple[int, str]]]]:
    """Yield line and name of each test, and the lines up to the next one but empty ones and those of single samples."""
    starts = [(here, match[1]) for here, (_, line) in enumerate(lines) if (match := _RUNNING.fullmatch(line))]
    ends = [here for here, _ in starts[1:]] + [len(lines)]
    for (here, test), end in zip(starts, ends, strict=False):
        body = [(place, _SUM.sub(r"SUM \1 \2", line)) for place, line in lines[here + 1 : end] if line]
        yield lines[here][0], test, [row for row in body if not row[1].startswith("Sample ")]


def _table(test: str, body: Sequence[tuple[int, str]]) -> _Table | None:
    """Return the table of a test; None if it is not whole, or if its cells do not add up to its sum."""
    title = _TITLE.fullmatch(body[0][1]) if body else None
    if len(body) < 3 or title is None or title[1] != _METRICS[test][1]:
        return None
    columns = body[1][1].split()
    height = len(columns) if test.startswith("device_to_device") else 1
    rows = body[2 : 2 + height]
    last = [line.split() for _, line in body[2 + height : 3 + height]]
    if len(rows) != height or not last or last[0][:2] != ["SUM", test] or len(last[0]) != 3:
        return None
    if len(columns) > MOST_DEVICES or columns != [str(n) for n in range(len(columns))]:
        return None
    cells = [line.split() for _, line in rows]
    if any(row[:1] != [str(n)] or len(row) != len(columns) + 1 for n, row in enumerate(cells)):
        return None
    values = [[0.0 if cell == "N/A" else number(cell) for cell in row[1:]] for row in cells]
    every = [cell for row in values for cell in row]
    total, known = number(last[0][2]), [cell for cell in every if cell is not None]
    if total is None or len(known) < len(every):
        return None
    if abs(sum(known) - total) > max(0.006 * (len(known) + 1), 1e-5 * total):  # two decimals, or six digits
        return None
    return _Table(test, [place for place, _ in rows], [[cell or None for cell in row] for row in values])


def _values(table: _Table) -> Iterator[tuple[str, int, float | None]]:
    """Yield device, line and value: each column of the host's row, or the slowest pair of each sender."""
    if len(table.rows) == 1 and not table.test.startswith("device_to_device"):
        for n, cell in enumerate(table.rows[0]):
            yield f"gpu{n}", table.places[0], cell
        return
    for n, (place, row) in enumerate(zip(table.places, table.rows, strict=True)):
        pairs = [cell for other, cell in enumerate(row) if other != n]
        measured = [cell for cell in pairs if cell is not None]
        yield f"gpu{n}", place, min(measured) if measured and len(measured) == len(pairs) else None
