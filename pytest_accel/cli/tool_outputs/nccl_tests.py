"""Reader of the output of nccl-tests and rccl-tests: bus bandwidths of four operations. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.cli.tool_outputs.output import ToolOutput, entries, json_from, number, numbered, on_lines, several
from pytest_accel.core.measurement import NODE, Device, Measurement, Trouble
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.units import OF_SIZES, in_bytes
from pytest_accel.core.untrusted import NUMBER_CHARACTERS, BadFile, ErrorAt
from pytest_accel.probes.collectives import DIVIDED, OPERATIONS, OUT_OF_PLACE
from pytest_accel.probes.device.collectives import WITH_ACCOUNT, Account

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

BEGINS = re.compile(
    r"# *(?:nThread|Using devices|Rank +\d|size +count|Out of bounds|Avg bus|Collective test)"
    r"|(?:\{\s*)?\"(?:version|args)\"\s*:"
)
"""The beginnings of its lines, and of its JSON."""
_JSON = re.compile(r'\{\s*(?:"version"\s*:\s*\d+\s*,\s*"start_time"|"args"\s*:\s*\[)')
"""The beginning of what `-J FILE` writes, as it stands or with its keys in order."""
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
_UNREDUCED = ("all_gather", "all_to_all")
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
    """Return True for an output of nccl-tests or rccl-tests: its JSON, ranks, the head of its table, or its failure."""
    return bool(_JSON.search(text)) or any(
        pattern.match(line) for _, line in numbered(text) for pattern in (_RANK, _TABLE, _FAILED)
    )


def read(text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:
    """Return the figures of sizes that are LARGE, or that a SKU has limits for. Raises BadFile.

    `shown` is the name of the file in messages. The figure of a row is its bus bandwidth, in place if our probe
    measures the operation in place. A row with wrong values is a device error, whatever its size. Of ranks on several
    nodes the largest size is read, if it is LARGE.
    """
    start = _JSON.search(text)
    text = text if start is None else _as_text(json_from(text, start.start(), shown))
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
    rows = [row for row in parsed.values() if row and row.dtype == "float" and row.redop in ("sum", "none")]
    if not rows:
        raise BadFile(f"{shown}: output of nccl-tests, but {_no_rows(lines, parsed.values())}")
    operation = _operation(text, rows, len(ranks), shown)
    if nodes > 1 and operation != ALL_REDUCE:
        raise BadFile(f"{shown}: {operation} over {nodes} nodes; of several nodes all_reduce_perf alone is read")
    good = [row for row in rows if _fits(row, operation, len(ranks))]
    software = {name.lower(): version for name, version in _VERSION.findall(text)}
    common = {"ranks": len(ranks), "dtype": "fp32", "backend": WITH_ACCOUNT, "environment": settings}
    figures = [
        _measurement(row, metric, operation, {**common, **({"nodes": nodes} if nodes > 1 else {})}, account)
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
        *[f"the output is cut off: its last line, '# Out of bounds values', is missing{_failure(lines)}"] * (not last),
        *["values were not checked by the tool"] * ("validation: 0" in text),
    ]
    first = dict(device for host, device in ranks if host == ranks[0][0])
    devices = [Device(f"gpu{place}", place, sku.vendor, model) for place, model in first.items()]
    return ToolOutput(TOOL, figures, devices, notes, software)


def _as_text(stated: Mapping[str, Any]) -> str:
    """Return the JSON of `-J FILE` as the text that states the same.

    Of the environment, which may hold secrets, the settings of the library are taken.
    """
    program = "".join(entries(stated, "args", str)[:1]).rpartition("/")[2]
    lines: list[Sequence[object]] = [("# Collective test starting:", program)] if program else []
    lines += [(setting,) for setting in entries(stated, "env", str) if _SETTING.match(setting)]
    version = _whole(stated, "nccl_version")
    lines += [(f"NCCL version {version // 10000}.{version % 10000 // 100}.{version % 100}",)] * bool(version)
    config = _part(stated, "config")
    lines += [("# validation:", config.get("validation")), *_listed(config)]
    lines.append(("# size count type redop root", *2 * ("time algbw busbw #wrong",)))
    for row in entries(stated, "results", dict):
        halves = [_half(_part(row, key)) for key in ("out_of_place", "in_place")]
        lines.append([*(row.get(key) for key in ("size", "count", "type", "redop", "root")), *halves[0], *halves[1]])
    lines.append((f"# {_LAST} :", _part(stated, "out_of_bounds").get("count")))
    return "\n".join(" ".join(" ".join(map(str, line)).split()) for line in lines)


def _listed(config: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the line of each rank.

    The JSON lists the first device of each process alone; the others have the next numbers (src/util.cu, v2.19.6).
    """
    processes = entries(config, "devices", dict)
    per_process = (_whole(config, "nthreads") or 1) * (_whole(config, "ngpus") or 1)
    if len(processes) > 1:
        per_process = _whole(processes[1], "rank") - _whole(processes[0], "rank")
    for first in processes[: MOST_RANKS // max(1, per_process) + 1]:
        for n in range(min(per_process, MOST_RANKS)):
            place = ("on", first.get("hostname"), "device", _whole(first, "device") + n, f"[{first.get('device_hex')}]")
            yield "# Rank", _whole(first, "rank") + n, *place, first.get("device_info")


def _half(stated: Mapping[str, Any]) -> Sequence[object]:
    wrong = stated.get("nwrong")
    counted = f"{wrong:g}" if isinstance(wrong, int | float) else "N/A"
    return *(stated.get(key) for key in ("time", "alg_bw", "bus_bw")), counted


def _part(stated: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = stated.get(key)
    return found if isinstance(found, dict) else {}


def _whole(stated: Mapping[str, Any], key: str) -> int:
    """Return a number of the JSON; 0 for what is no count of ranks, and none is there."""
    found = stated.get(key)
    return found if isinstance(found, int) and 0 <= found <= MOST_RANKS else 0


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


def _measurement(row: _Row, metric: str, operation: str, common: Mapping[str, Any], account: Account) -> Measurement:
    """Return the bus bandwidth of a row, or its wrong values as the trouble of a device."""
    in_place = operation not in OUT_OF_PLACE
    stated, details = account.of_call(operation.replace("_", ""), row.size)
    conditions = {**common, "in_place": in_place, **stated}
    conditions |= {"message": _size(row.size)} if "nodes" in common else {}
    said = row.said_wrong
    wrong = Trouble("device", f"{said} values are wrong (line {row.line})", wrong=True) if said else None
    value = None if wrong else row.busbw[in_place]
    return Measurement(metric, NODE, "GB/s", value, conditions=conditions, trouble=wrong, details={"account": details})


def _operation(text: str, rows: Sequence[_Row], ranks: int, shown: str) -> str:
    """Return the operation of an output: of the program that it names, or the only one that has such rows.

    Raises BadFile for another program, for several, and where more than one has such rows. Two programs that are not
    read have the rows of one that is, so these need the name: alltoallv_perf of rccl-tests those of alltoall_perf, and
    sendrecv_perf of two ranks those of all_reduce_perf that were not checked.
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
    if not named and "all_reduce_perf" in common and ranks == 2 and any(row.wrong[0] == "N/A" for row in rows):
        common.add("sendrecv_perf")
    if len(common) > 1:
        either, line = " or ".join(sorted(common)), "# Collective test starting: ..."
        raise BadFile(
            f"{shown}: its rows can be those of {either}, and the line {line!r} of v2.16.7 and later is missing"
        )
    return PROGRAMS[common.pop()]


def _fits(row: _Row, operation: str, ranks: int) -> bool:
    """Return True if a row can be one of the operation's program.

    The rules are those of the GetCollByteCount, GetBw and InitData of the program (NVIDIA/nccl-tests, src, a0b82b2).
    Programs without a result in place check the one out of place alone.
    """
    share = (ranks - 1) / ranks
    factor = 2 * share if operation == ALL_REDUCE else share
    in_place, checked = row.wrong[1] != "N/A", row.wrong[0] != "N/A"
    return (
        row.redop == ("none" if operation in _UNREDUCED else "sum")
        and row.root == "-1"
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
    return f"its rows are of {several(others)}; judged are float and the sum: run it with -d float -o sum"


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
