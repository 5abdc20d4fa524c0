"""Reader of the output of nccl-tests and rccl-tests: bus bandwidths of six operations. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_accel.cli.tool_outputs.output import ToolOutput, number, numbered, on_lines, several
from pytest_accel.core.measurement import NODE, Device, Measurement, Trouble
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.units import OF_SIZES, in_bytes
from pytest_accel.core.untrusted import NUMBER_CHARACTERS, BadFile, ErrorAt
from pytest_accel.probes.collectives import DIVIDED, OPERATIONS, OUT_OF_PLACE

TOOL = "nccl-tests"
LOOKED_FOR = (
    "nccl-tests and rccl-tests, by '# Rank  0 ... device  0 [...]' and a table with the columns algbw and busbw"
)
ALL_REDUCE = OPERATIONS[0]
PROGRAMS = {f"{each.replace('all_to_all', 'alltoall')}_perf": each for each in OPERATIONS}
"""Operation of each program that is read."""
FABRIC = "fabric.all_reduce"
"""The metric of ranks on several nodes: that of the largest size."""
LARGE = 1 << 30
"""Bytes from which on the links bound an operation, and not the latency."""
MOST_RANKS = 1 << 16
"""Ranks of an output at most: more than the accelerators of one fabric."""

_TABLE = re.compile(r"#? *size +count +type +redop .*algbw +busbw")
_RANK = re.compile(
    r"#? *Rank +(\d{1,6}) +(?:Group +\d+ +)?(?:Pid +\d+ +)?(?:on +(\S+) +)?device +(\d{1,3}) +\[[\w:.]+\] *(.*)"
)
_VERSION = re.compile(r"(NCCL|RCCL) version[ :]{1,4}(\d{1,6}(?:\.\d{1,6}){1,4})")
_ROW = re.compile(r"\d+ +\d+ +[a-z]\w* +[a-z]\w* ")
_STARTED = re.compile(r"Collective test starting: (\w{1,40})")
"""The line of nccl-tests since v2.16.7 that names the program."""
_LAST = "Out of bounds values"
_UNREDUCED = ("all_gather", "all_to_all", "broadcast")
"""Operations whose reduction is "none"."""


@dataclass(frozen=True)
class _Row:
    """A row of the table, of pairs what was found out of place and in place.

    Its size is in bytes, its bandwidths are in GB/s. `wrong` has the number of wrong values, "N/A" if none was checked.
    """

    line: int
    size: int
    count: int
    dtype: str
    redop: str
    root: str
    algbw: tuple[float, float]
    busbw: tuple[float, float]
    wrong: tuple[str, str]

    @property
    def said_wrong(self) -> str:
        """The number of wrong values; empty if there are none."""
        return next(filter(_is_wrong, self.wrong), "")


def recognises(text: str) -> bool:
    """Return True for an output of nccl-tests or rccl-tests, known by its list of ranks and the head of its table."""
    lines = [line.strip() for line in text.splitlines()]
    return any(map(_TABLE.match, lines)) and any(map(_RANK.match, lines))


def read(text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:
    """Return the figures of sizes that are LARGE, or that a SKU has limits for. Raises BadFile.

    `shown` is the name of the file in messages. The figure of a row is its bus bandwidth, in place if our probe
    measures the operation in place. A row with wrong values is a device error, whatever its size. Of ranks on several
    nodes the largest size is read, if it is LARGE.
    """
    lines = numbered(text)
    ranks = _ranks(lines, shown)
    if len(ranks) < 2:
        raise BadFile(f"{shown}: an output of one rank, which uses no link")
    nodes = _nodes([host for host, _ in ranks], shown)
    parsed = {place: _row(place, line) for place, line in lines if _ROW.match(line)}
    rows = [row for row in parsed.values() if row and row.dtype == "float" and row.redop in ("sum", "none")]
    if not rows:
        raise BadFile(f"{shown}: output of nccl-tests, but no row of float in it is whole")
    operation = _operation(text, rows, len(ranks), shown)
    if nodes > 1 and operation != ALL_REDUCE:
        raise BadFile(f"{shown}: {operation} over {nodes} nodes; of several nodes all_reduce_perf alone is read")
    good = [row for row in rows if _fits(row, operation, len(ranks))]
    software = {name.lower(): version for name, version in _VERSION.findall(text)}
    figures = [
        _measurement(row, metric, operation, len(ranks), nodes)
        for row, metric in _counting(good, operation, nodes, limits, shown)
    ]
    last = next((line for _, line in lines if _LAST in line), "")
    if re.search(r": *[1-9]", last) and not any(each.trouble for each in figures):
        raise BadFile(f"{shown}: {printable(last, 80)!r}, but no row that can be read has wrong values")
    left_out = [row.line for row in parsed.values() if row and row not in rows]
    notes = [
        *on_lines(
            "not read, because columns are missing or do not agree",
            sorted(parsed.keys() - {row.line for row in good} - {*left_out}),
        ),
        *on_lines("left out, because they are not of float, or of another reduction than the sum", left_out),
        *["the output is cut off: its last line, '# Out of bounds values', is missing"] * (not last),
        *["values were not checked by the tool"] * ("validation: 0" in text),
    ]
    first = dict(device for host, device in ranks if host == ranks[0][0])
    devices = [Device(f"gpu{place}", place, sku.vendor, model) for place, model in first.items()]
    return ToolOutput(TOOL, figures, devices, notes, software)


def _counting(
    rows: Sequence[_Row], operation: str, nodes: int, limits: Mapping[str, Limit], shown: str
) -> list[tuple[_Row, str]]:
    """Return the rows that count and their metrics; of several nodes one row. Raises BadFile for a size given twice."""
    prefix = f"{operation}.busbw@"
    limited = {in_bytes(name.removeprefix(prefix)): name for name in limits if name.startswith(prefix)}
    found: dict[int, tuple[_Row, str]] = {}
    for row in rows:
        if not (row.said_wrong or row.size >= LARGE or (nodes == 1 and row.size in limited)):
            continue
        if row.size in found:
            first = found[row.size][0].line
            raise BadFile(ErrorAt(shown, row.line, f"size {row.size} is given twice (first in line {first})"))
        found[row.size] = row, FABRIC if nodes > 1 else limited.get(row.size, f"{prefix}{_size(row.size)}")
    if nodes > 1 and found:
        return [found[min((size for size, (row, _) in found.items() if row.said_wrong), default=max(found))]]
    return list(found.values())


def _measurement(row: _Row, metric: str, operation: str, ranks: int, nodes: int) -> Measurement:
    """Return the bus bandwidth of a row, or its wrong values as the trouble of a device."""
    in_place = operation not in OUT_OF_PLACE
    conditions = {"ranks": ranks, "dtype": "fp32", "in_place": in_place}
    conditions |= {"nodes": nodes, "message": _size(row.size)} if nodes > 1 else {}
    said = row.said_wrong
    wrong = Trouble("device", f"{said} values are wrong (line {row.line})", wrong=True) if said else None
    value = None if wrong else row.busbw[in_place]
    return Measurement(metric, NODE, "GB/s", value, conditions=conditions, trouble=wrong)


def _operation(text: str, rows: Sequence[_Row], ranks: int, shown: str) -> str:
    """Return the operation of an output: of the program that it names, or the only one that has such rows.

    Raises BadFile for another program, for several, and where more than one has such rows. alltoallv_perf of rccl-tests
    has the rows of alltoall_perf, so these need the name.
    """
    named = {name.removesuffix("_mpi") for name in _STARTED.findall(text)}
    if other := sorted(named - {*PROGRAMS}):
        raise BadFile(f"{shown}: an output of {other[0]}; read are {', '.join(PROGRAMS)}")
    if len(named) > 1:
        raise BadFile(f"{shown}: outputs of {several(sorted(named))}; judge the output of each run by itself")
    possible = [{name for name in named or PROGRAMS if _fits(row, PROGRAMS[name], ranks)} for row in rows]
    common = set.intersection(*filter(None, possible)) if any(possible) else set()
    if not common:
        raise BadFile(f"{shown}: output of nccl-tests, but its rows are not those of {' or '.join(named or PROGRAMS)}")
    if not named and "alltoall_perf" in common:
        common.add("alltoallv_perf")
    if len(common) > 1:
        either, line = " or ".join(sorted(common)), "# Collective test starting: ..."
        raise BadFile(f"{shown}: its rows can be those of {either}, and the line {line!r}, which tells, is missing")
    return PROGRAMS[common.pop()]


def _fits(row: _Row, operation: str, ranks: int) -> bool:
    """Return True if a row can be one of the operation's program.

    The rules are those of the GetCollByteCount, GetBw and InitData of the program (NVIDIA/nccl-tests, src, a0b82b2).
    Programs without a result in place check the one out of place alone.
    """
    share = (ranks - 1) / ranks
    factor = {"all_reduce": 2 * share, "broadcast": 1.0, "sendrecv": 1.0}.get(operation, share)
    in_place, checked = row.wrong[1] != "N/A", row.wrong[0] != "N/A"
    return (
        row.redop == ("none" if operation in _UNREDUCED else "sum")
        and row.root == ("0" if operation == "broadcast" else "-1")
        and row.size == 4 * row.count * (ranks if operation in DIVIDED else 1)
        and (not checked or in_place == (operation not in OUT_OF_PLACE))
        and all(_near(algbw * factor, busbw) for algbw, busbw in zip(row.algbw, row.busbw, strict=True))
    )


def _nodes(hosts: Sequence[str], shown: str) -> int:
    """Return the number of nodes. Raises BadFile unless each has equally many ranks."""
    of_each = set(Counter(hosts).values())
    if len(of_each) > 1:
        raise BadFile(f"{shown}: its nodes have {several(sorted(of_each))} ranks; judge one of nodes with equally many")
    return len(set(hosts))


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


def _row(line: int, text: str) -> _Row | None:
    """Return a row of the table; None if it is not whole, or if its bandwidth does not follow from size and time."""
    size, count, dtype, redop, *rest = text.split()
    root = rest.pop(0) if len(rest) == 9 else "-1"
    if len(rest) != 8 or max(map(len, (size, count))) > NUMBER_CHARACTERS // 2:
        return None
    numbers = [each for cell in (*rest[:3], *rest[4:7]) if (each := number(cell)) is not None]
    if len(numbers) < 6:
        return None
    algbw, busbw = (numbers[1], numbers[4]), (numbers[2], numbers[5])
    for time, rate in zip(numbers[::3], algbw, strict=True):
        if not time or not _near(int(size) / time / 1e3, rate):
            return None
    return _Row(line, int(size), int(count), dtype, redop, root, algbw, busbw, (rest[3], rest[7]))


def _near(one: float, other: float) -> bool:
    """Return True if two bandwidths are the same but for rounding: two decimals, and four digits of the time."""
    return math.isclose(one, other, rel_tol=2e-3, abs_tol=0.02)


def _is_wrong(counted: str) -> bool:
    """Return True for a count of wrong values above zero, or for an error that rccl-tests marks by an asterisk."""
    return "*" in counted or re.fullmatch(r"0*[1-9][\d.]*(e\+\d+)?", counted) is not None


def _size(size: int) -> str:
    """Return a size by the largest unit that it is a whole number of; in bytes where it is of none."""
    units = [unit for unit, factor in OF_SIZES.items() if size and size % factor == 0]
    unit = max(units, key=OF_SIZES.__getitem__, default="")
    return f"{size // OF_SIZES[unit]}{unit}" if unit else f"{size}B"
