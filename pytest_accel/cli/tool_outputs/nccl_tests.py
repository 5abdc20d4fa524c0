"""Reader of the output of nccl-tests and rccl-tests: bus bandwidths of all-reduces. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.cli.tool_outputs.output import ToolOutput, number, numbered, on_lines, several
from pytest_accel.core.measurement import NODE, Device, Measurement, Trouble
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.units import OF_SIZES, in_bytes
from pytest_accel.core.untrusted import NUMBER_CHARACTERS, BadFile, ErrorAt
from pytest_accel.probes.device.collectives import WITH_ACCOUNT, Account

TOOL = "nccl-tests"
LOOKED_FOR = (
    "nccl-tests and rccl-tests, by '# Rank  0 ... device  0 [...]' and a table with the columns algbw and busbw"
)
PROGRAM = "all_reduce_perf"
METRIC = "all_reduce.busbw@"
"""The beginning of a metric, before the size."""
FABRIC = "fabric.all_reduce"
"""The metric of ranks on several nodes: that of the largest size."""
LARGE = 1 << 30
"""Bytes from which on the links bound an operation, and not the latency."""
MOST_RANKS = 1 << 16
"""Ranks of an output at most: more than the accelerators of one fabric."""

BEGINS = re.compile(r"# *(?:nThread|Using devices|Rank +\d|size +count|Out of bounds|Avg bus|Collective test)")
"""The beginnings of its lines."""
_TABLE = re.compile(r"#? *(size +count +type +redop .*algbw +busbw.*)")
_FAILED = re.compile(r".*\b(?:Test )?(?:NCCL|RCCL|CUDA|HIP|MPI) failure .*")
"""The line that ends a run which failed."""
_SETTING = re.compile(r"\b([NR]CCL_[A-Z0-9_]+)(?:=| set by environment to )([^\s,\"']*[^\s,\"'.])")
_STATED = re.compile(
    r"(?:^(?:[$>+] +)?|(?:-x|-e|--env|-genv|export|env)[ =]+)(?:\w+=\S*(?: +|$))+|\b\w+ set by .*", re.MULTILINE
)
"""The settings that NCCL's log, a command line or a list of the environment states."""
_RANK = re.compile(
    r"#? *Rank +(\d{1,6}) +(?:Group +\d+ +)?(?:Pid +\d+ +)?(?:on +(\S+) +)?device +(\d{1,3}) +\[[\w:.]+\] *(.*)"
)
_VERSION = re.compile(r"(NCCL|RCCL) version[ :]{1,4}(\d{1,6}(?:\.\d{1,6}){1,4})")
_ROW = re.compile(r"\d+ +\d+ +[a-z]\w* +[a-z]\w* ")
_CELLS = re.compile(r"[\d.]+(?: |$)")
_STARTED = re.compile(r"Collective test starting: (\w{1,40})")
"""The line of nccl-tests since v2.16.7 that names the program."""
_LAST = "Out of bounds values"


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
    """Return True for an output of nccl-tests or rccl-tests: ranks, the head of its table, or its failure."""
    return any(pattern.match(line) for _, line in numbered(text) for pattern in (_RANK, _TABLE, _FAILED))


def read(text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:
    """Return the figures of sizes that are LARGE, or that a SKU has limits for. Raises BadFile.

    `shown` is the name of the file in messages. The figure of a row is its bus bandwidth in place, as our probe
    measures. A row with wrong values is a device error, whatever its size. Of ranks on several
    nodes the largest size is read, if it is LARGE.
    """
    lines = numbered(text)
    ranks = _ranks(lines, shown)
    if len(ranks) < 2:
        raise BadFile(f"{shown}: an output of one rank, which uses no link: run it with -g N, or with N processes")
    nodes = _nodes([host for host, _ in ranks], shown)
    account, settings = Account(), dict(_SETTING.findall("\n".join(_STATED.findall(text))))
    account.read(line for _, line in lines if "CCL" in line)
    lines = list(_mended(lines, {host for host, _ in ranks}))
    names = next((match[1].split() for _, line in lines if (match := _TABLE.match(line))), [])
    parsed = {place: _row(place, _cells(names, line.split())) for place, line in lines if _ROW.match(line)}
    rows = [row for row in parsed.values() if row and row.dtype == "float" and row.redop == "sum"]
    good = [row for row in rows if _fits(row, len(ranks))]
    if why := _other_program(text, good, len(ranks)):
        raise BadFile(f"{shown}: {why}")
    if not rows:
        raise BadFile(f"{shown}: output of nccl-tests, but {_no_rows(lines, parsed.values())}")
    if not good:
        raise BadFile(f"{shown}: output of nccl-tests, but its rows are not those of {PROGRAM}, which alone is read")
    software = {name.lower(): version for name, version in _VERSION.findall(text)}
    common = {"ranks": len(ranks), "dtype": "fp32", "backend": WITH_ACCOUNT, "environment": settings}
    figures = [
        _measurement(row, metric, {**common, **({"nodes": nodes} if nodes > 1 else {})}, account)
        for row, metric in _counting(good, nodes, limits, shown)
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
        *[f"the output is cut off: its last line, '# Out of bounds values', is missing{_failure(lines)}"] * (not last),
        *["values were not checked by the tool"] * ("validation: 0" in text),
    ]
    first = dict(device for host, device in ranks if host == ranks[0][0])
    devices = [Device(f"gpu{place}", place, sku.vendor, model) for place, model in first.items()]
    return ToolOutput(TOOL, figures, devices, notes, software)


def _counting(rows: Sequence[_Row], nodes: int, limits: Mapping[str, Limit], shown: str) -> list[tuple[_Row, str]]:
    """Return the rows that count and their metrics; of several nodes one row. Raises BadFile for a size given twice."""
    limited = {in_bytes(name.removeprefix(METRIC)): name for name in limits if name.startswith(METRIC)}
    found: dict[int, tuple[_Row, str]] = {}
    for row in rows:
        if not (row.said_wrong or row.size >= LARGE or (nodes == 1 and row.size in limited)):
            continue
        if row.size in found:
            first = found[row.size][0].line
            raise BadFile(ErrorAt(shown, row.line, f"size {row.size} is given twice (first in line {first})"))
        found[row.size] = row, FABRIC if nodes > 1 else limited.get(row.size, f"{METRIC}{_size(row.size)}")
    if nodes > 1 and found:
        return [found[min((size for size, (row, _) in found.items() if row.said_wrong), default=max(found))]]
    return list(found.values())


def _measurement(row: _Row, metric: str, common: Mapping[str, Any], account: Account) -> Measurement:
    """Return the bus bandwidth of a row, or its wrong values as the trouble of a device."""
    stated, details = account.of_call("allreduce", row.size)
    conditions = {**common, "in_place": True, **stated}
    conditions |= {"message": _size(row.size)} if "nodes" in common else {}
    said = row.said_wrong
    wrong = Trouble("device", f"{said} values are wrong (line {row.line})", wrong=True) if said else None
    value = None if wrong else row.busbw[1]
    return Measurement(metric, NODE, "GB/s", value, conditions=conditions, trouble=wrong, details={"account": details})


def _other_program(text: str, good: Sequence[_Row], ranks: int) -> str:
    """Return which other program an output is of, or may be of; empty for all_reduce_perf.

    Of two ranks, sendrecv_perf has the rows of an all_reduce_perf that was not checked, so this needs the name.
    """
    named = {name.removesuffix("_mpi") for name in _STARTED.findall(text)}
    if other := sorted(named - {PROGRAM}):
        return f"an output of {several(other)}; {PROGRAM} alone is read"
    if not named and ranks == 2 and any(row.wrong[0] == "N/A" for row in good):
        line = "# Collective test starting: ..."
        return f"its rows can be those of sendrecv_perf, and the line {line!r} of v2.16.7 and later is missing"
    return ""


def _fits(row: _Row, ranks: int) -> bool:
    """Return True if a row can be one of all_reduce_perf.

    The rules are those of the GetCollByteCount, GetBw and InitData of the program (NVIDIA/nccl-tests, src, a0b82b2).
    Programs without a result in place check the one out of place alone.
    """
    factor = 2 * (ranks - 1) / ranks
    in_place, checked = row.wrong[1] != "N/A", row.wrong[0] != "N/A"
    return (
        row.root == "-1"
        and row.size == 4 * row.count
        and (in_place or not checked)
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
    if len(found) > 1 and {int(match[1]) for _, match in found} == {0}:
        why = "each process measured its own device alone: build nccl-tests with MPI=1, or run one process with -g N"
        raise BadFile(ErrorAt(shown, found[1][0], why))
    if not found:
        raise BadFile(
            f"{shown}: output of nccl-tests without its list of ranks (# Rank  0 ...): judge the whole output"
            f"{_failure(lines)}"
        )
    for expected, (place, match) in enumerate(found):
        if int(match[1]) != expected:
            text = f"rank {int(match[1])} where rank {expected} is expected; judge the whole output of one run"
            raise BadFile(ErrorAt(shown, place, text))
    return [(match[2] or "", (int(match[3]), printable(match[4], 80))) for _, match in found]


def _mended(lines: Iterable[tuple[int, str]], hosts: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines without those of the library, which it writes between the parts of a row: these are joined.

    Where the list of ranks names no host, such a line is known by its beginning.
    """
    stamp, named = r"(?:\[[\w ,:.-]{1,60}\] ?)?", "|".join(re.escape(host) for host in hosts if host)
    said = re.compile(rf"{f'{stamp}(?:{named})' if named else f'^{stamp}'}[\w.-]{{0,60}}:\d+:\d+ \[\d+\] .*")
    begun: list[str] = []
    for place, line in lines:
        own = said.sub("", line)
        if own == line:
            yield place, " ".join([*begun, line])
            begun = []
        elif _CELLS.match(own):
            begun.append(own)


def _no_rows(lines: Sequence[tuple[int, str]], rows: Iterable[_Row | None]) -> str:
    """Return why none of these rows is judged."""
    others = sorted({row.dtype if row.dtype != "float" else row.redop for row in rows if row})
    if not others:
        return f"no row of float in it is whole{_failure(lines)}"
    return f"its rows are of {several(others)}; judged are those of {PROGRAM} -d float -o sum"


def _failure(lines: Sequence[tuple[int, str]]) -> str:
    """Return the line that ends a run which failed, with its number; empty if there is none."""
    return next((f"; line {place}: {printable(line, 160)}" for place, line in lines if _FAILED.fullmatch(line)), "")


def _cells(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Return the cells of a row by the names in the head of its table, those in place with an apostrophe behind.

    An option of the tool adds a column: `-I 1` behind each half, `-S 1` a date and a time behind both.
    """
    found: dict[str, str] = {}
    if len(cells) == len(names) + ("timestamp" in names):
        for name, cell in zip(names, cells, strict=False):
            found[f"{name}'" if name in found else name] = cell
    return found


def _row(line: int, cells: Mapping[str, str]) -> _Row | None:
    """Return a row of the table; None if it is not whole, or if its bandwidth does not follow from size and time."""
    size, count = (cells.get(name, "") for name in ("size", "count"))
    wrong = [cells.get(name, cells.get(name.replace("#wrong", "error"), "")) for name in ("#wrong", "#wrong'")]
    if not all(wrong) or max(map(len, (size, count))) > NUMBER_CHARACTERS // 2:
        return None
    rates: list[tuple[float, float]] = []
    for half in ("", "'"):
        time, algbw, busbw = (number(cells.get(name + half, "")) for name in ("time", "algbw", "busbw"))
        if not time or algbw is None or busbw is None or not _near(int(size) / time / 1e3, algbw):
            return None
        rates.append((algbw, busbw))
    (algbw, busbw), (algbw_in, busbw_in) = rates
    return _Row(
        line=line,
        size=int(size),
        count=int(count),
        dtype=cells["type"],
        redop=cells["redop"],
        root=cells.get("root", "-1"),
        algbw=(algbw, algbw_in),
        busbw=(busbw, busbw_in),
        wrong=(wrong[0], wrong[1]),
    )


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
