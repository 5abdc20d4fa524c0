"""The output of all_reduce_perf of nccl-tests and rccl-tests, as figures that `judge` judges. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_accel.cli.tool_outputs.output import ExternalFigure, ToolOutput, number, numbered, on_lines, several
from pytest_accel.core.measurement import NODE, Device, Measurement, Trouble
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.units import OF_SIZES, in_bytes
from pytest_accel.core.untrusted import NUMBER_CHARACTERS, BadFile, ErrorAt

TOOL = "nccl-tests"
LOOKED_FOR = (
    "nccl-tests and rccl-tests, by '# Rank  0 ... device  0 [...]' and a table with the columns algbw and busbw"
)
METRIC = "all_reduce.busbw@"
FABRIC = "fabric.all_reduce"
"""The metric of ranks on several nodes: that of the largest size."""
LARGE = 1 << 30
"""Bytes from which on the links between nodes bound it, and not the latency."""
MOST_RANKS = 1 << 16
"""Ranks of an output at most: more than the accelerators of one fabric."""

_TABLE = re.compile(r"#? *size +count +type +redop .*algbw +busbw")
_RANK = re.compile(
    r"#? *Rank +(\d{1,6}) +(?:Group +\d+ +)?(?:Pid +\d+ +)?(?:on +(\S+) +)?device +(\d{1,3}) +\[[\w:.]+\] *(.*)"
)
_VERSION = re.compile(r"(NCCL|RCCL) version[ :]{1,4}(\d{1,6}(?:\.\d{1,6}){1,4})")
_ROW = re.compile(r"\d+ +\d+ +[a-z]\w* +[a-z]\w* ")
_STARTED = re.compile(r"Collective test starting: (\w{1,40})")
"""The line of newer versions that names the program. Between two ranks sendrecv_perf has the rows of an all-reduce."""
_LAST = "Out of bounds values"


@dataclass(frozen=True)
class _Row:
    """A row of the table: size in bytes, bus bandwidth in place in GB/s, and the number of wrong values, if any."""

    line: int
    size: int
    dtype: str
    redop: str
    busbw: float
    wrong: str


def recognises(text: str) -> bool:
    """Return True for an output of nccl-tests or rccl-tests, known by its list of ranks and the head of its table."""
    lines = [line.strip() for line in text.splitlines()]
    return any(map(_TABLE.match, lines)) and any(map(_RANK.match, lines))


def read(text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:
    """Return what an output states of the sizes that a SKU has limits for. Raises BadFile.

    `shown` is the name of the file in messages. The figure of a row is its bus bandwidth in place, as our probe and our
    limits have it. A row counts if its bandwidths follow from its size, its time and the number of ranks: size / time,
    and that x 2 (n - 1) / n, which no other collective has (nccl-tests, doc/PERFORMANCE.md). A row with wrong values is
    a device error, whatever its size. Of ranks on several nodes the largest size is read, if it is LARGE.
    """
    if (started := _STARTED.search(text)) and started[1] != "all_reduce_perf":
        raise BadFile(f"{shown}: an output of {started[1]}; all_reduce_perf alone is read")
    lines = numbered(text)
    ranks = _ranks(lines, shown)
    hosts = [host for host, _ in ranks]
    devices = [device for host, device in ranks if host == hosts[0]]
    nodes, of_each = len(set(hosts)), set(Counter(hosts).values())
    if len(of_each) > 1:
        raise BadFile(f"{shown}: its nodes have {several(sorted(of_each))} ranks; judge one of nodes with equally many")
    versions = _VERSION.findall(text)
    software = {name.lower(): version for name, version in versions}
    sizes = {in_bytes(name.removeprefix(METRIC)): name for name in limits if name.startswith(METRIC)}
    figures: dict[int, ExternalFigure] = {}
    broken, other = [], []
    for place, line in lines:
        if not _ROW.match(line):
            continue
        row = _row(place, line, len(ranks))
        if row is None:
            broken.append(place)
        elif (row.dtype, row.redop) != ("float", "sum"):
            other.append(place)
        elif row.wrong or (row.size >= LARGE if nodes > 1 else row.size in sizes):
            if row.size in figures:
                first = figures[row.size].line
                raise BadFile(ErrorAt(shown, place, f"size {row.size} is given twice (first in line {first})"))
            conditions = {"ranks": len(ranks), "dtype": "fp32", "in_place": True}
            conditions |= {"nodes": nodes, "message": _size(row.size)} if nodes > 1 else {}
            wrong = Trouble("device", f"{row.wrong} values are wrong (line {place})", wrong=True) if row.wrong else None
            metric = FABRIC if nodes > 1 else sizes.get(row.size, f"{METRIC}{_size(row.size)}")
            value = None if wrong else row.busbw
            found = Measurement(metric, NODE, "GB/s", value, conditions=conditions, trouble=wrong)
            figures[row.size] = ExternalFigure(found, software, place)
    if nodes > 1 and figures:
        wrong_ones = [size for size, each in figures.items() if each.measurement.trouble]
        chosen = min(wrong_ones, default=max(figures))
        figures = {chosen: figures[chosen]}
    last = next((line for _, line in lines if _LAST in line), "")
    if re.search(r": *[1-9]", last) and not any(each.measurement.trouble for each in figures.values()):
        raise BadFile(f"{shown}: {printable(last, 80)!r}, but no row that can be read has wrong values")
    notes = [
        *on_lines("not read, because columns are missing or do not agree", broken),
        *on_lines("left out, because they are no sums of float", other),
        *["the output is cut off: its last line, '# Out of bounds values', is missing"] * (not last),
        *["values were not checked by the tool"] * ("validation: 0" in text),
    ]
    named = [Device(f"gpu{place}", place, sku.vendor, model) for place, model in dict(devices).items()]
    return ToolOutput(TOOL, list(figures.values()), named, notes)


def _ranks(lines: list[tuple[int, str]], shown: str) -> list[tuple[str, tuple[int, str]]]:
    """Return host, index and model of the device of every rank. Raises BadFile unless each rank is there once."""
    found = [(place, match) for place, line in lines if (match := _RANK.match(line))]
    if len(found) > MOST_RANKS:
        raise BadFile(ErrorAt(shown, found[MOST_RANKS][0], f"{len(found):,} ranks; at most {MOST_RANKS:,} are read"))
    for expected, (place, match) in enumerate(found):
        if int(match[1]) != expected:
            text = f"rank {int(match[1])} where rank {expected} is expected; judge each output by itself, uncut"
            raise BadFile(ErrorAt(shown, place, text))
    return [(match[2] or "", (int(match[3]), printable(match[4], 80))) for _, match in found]


def _row(line: int, text: str, ranks: int) -> _Row | None:
    """Return a row of the table; None if it is not whole, or if its columns do not agree with each other."""
    size, _, dtype, redop, *rest = text.split()
    root = rest.pop(0) if len(rest) == 9 else "-1"
    if len(rest) != 8 or root != "-1" or ranks < 2 or len(size) > NUMBER_CHARACTERS // 2:
        return None
    numbers = [number(cell) for cell in (*rest[:3], *rest[4:7])]
    if None in numbers:
        return None
    for time, algbw, busbw in _threes([each for each in numbers if each is not None]):
        factor = 2 * (ranks - 1) / ranks
        if not time or not _near(int(size) / time / 1e3, algbw) or not _near(algbw * factor, busbw):
            return None
    wrong = next((cell for cell in (rest[3], rest[7]) if _is_wrong(cell)), "")
    return _Row(line, int(size), dtype, redop, numbers[-1] or 0.0, wrong)


def _threes(numbers: list[float]) -> Iterator[tuple[float, float, float]]:
    """Yield time, algbw and busbw, out of place and in place."""
    yield numbers[0], numbers[1], numbers[2]
    yield numbers[3], numbers[4], numbers[5]


def _near(one: float, other: float) -> bool:
    """Return True if two bandwidths are the same but for rounding: two decimals, and four digits of the time."""
    return math.isclose(one, other, rel_tol=2e-3, abs_tol=0.02)


def _is_wrong(counted: str) -> bool:
    """Return True for a count of wrong values above zero, or for an error that rccl-tests marks by an asterisk."""
    return "*" in counted or re.fullmatch(r"0*[1-9]\d*", counted) is not None


def _size(size: int) -> str:
    """Return a size by the largest unit that it is a whole number of; in bytes where it is of none."""
    units = [unit for unit, factor in OF_SIZES.items() if size and size % factor == 0]
    unit = max(units, key=OF_SIZES.__getitem__, default="")
    return f"{size // OF_SIZES[unit]}{unit}" if unit else f"{size}B"
