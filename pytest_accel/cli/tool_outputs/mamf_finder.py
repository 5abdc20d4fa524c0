"""Reader of the output of mamf-finder: the matrix product of one device. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_accel.cli.tool_outputs.output import ToolOutput, number, numbered, on_lines, only
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.untrusted import BadFile, ErrorAt
from pytest_accel.probes.matmul_mamf import VERSION

TOOL = "mamf-finder"
LOOKED_FOR = "mamf-finder, by 'Tried ... shapes => the best outcomes were:' or 'The best outcome was ... (MxNxK)'"
SUBJECT = "gpu0"
FARTHEST = 0.2
"""Distance of mean and median in a row that counts: among 57,375 rows of eight H100 it was 18 % at most."""

_DTYPES = {"bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8"}
_END = re.compile(r"Tried +[0-9]{1,9} shapes => the best outcomes were:|The best outcome was .{1,60}\(MxNxK\).{0,40}")
_VERSION = re.compile(r"(?:- )?benchmark version: ([0-9]{1,4})")
_DTYPE = re.compile(r"\*\* Dtype: torch\.(\w{1,30})")
_TORCH = re.compile(r"(?:- )?torch=([\w.+]{1,60})")
_TUNABLE = re.compile(r"(?:- )?PYTORCH_TUNABLEOP_ENABLED=([01])")
_DEVICE = re.compile(r"(?:- )?_\w{1,20}DeviceProperties\(name='(.{1,80}?)', .*")
_SHAPE = r"([0-9]{1,7}x[0-9]{1,7}x[0-9]{1,7})"
_ROW = re.compile(
    rf"[0-9]+ \| *(\S+)\(mean\) +(\S+)\(median\) +(\S+)\(max\) @ {_SHAPE} *\| best: *(\S+)\(mean\) .* TFLOPS"
)
_BEST = re.compile(rf"mean: +(\S+) TFLOPS @ {_SHAPE} \(MxNxK\)")


def recognises(text: str) -> bool:
    """Return True for an output of mamf-finder, known by the line before its best outcomes."""
    return any(_END.fullmatch(line.strip()) for line in text.splitlines())


def read(text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:  # noqa: ARG001
    """Return the figure of one device, which is named gpu0. Raises BadFile for an output of another version.

    The figure is the mean of the shape that the SKU's limit is for, from its row. Without one it is the best mean of
    the search, which a limit for another shape does not judge. Nothing else in a row states its mean: it counts if it
    is at most the row's maximum and the best mean so far, and near the median.
    """
    lines = numbered(text.replace("\x1b[K", ""))
    version = _first(lines, _VERSION)
    if version is None or version[1] != str(VERSION):
        which = f"version {version[1]}" if version else "version 1, which states none,"
        raise BadFile(
            f"{shown}: output of mamf-finder, but {which} measures otherwise than version {VERSION}: run that"
        )
    stated = only(lines, _DTYPE, "** Dtype:", TOOL, shown)
    if stated not in _DTYPES:
        raise BadFile(f"{shown}: output of mamf-finder for {stated}; judged are {', '.join(_DTYPES)}")
    dtype = _DTYPES[stated]
    shapes = sku.probes.get("matmul_mamf", {}).get("shapes", {})
    ours = "x".join(map(str, shapes.get(dtype, [])))
    value, broken = _row(lines, ours, shown)
    best = _first(lines, _BEST)
    tunable, torch, device = _first(lines, _TUNABLE), _first(lines, _TORCH), _first(lines, _DEVICE)
    conditions: dict[str, object] = {"dtype": dtype, **({"tunable_op": tunable[1] == "1"} if tunable else {})}
    notes = on_lines("not read, because the rates of the row do not agree with each other", broken)
    if value:
        notes += [f"best of the search: mean {best[1]} TFLOPS at {best[2]}; judged is {ours}"] if best else []
    elif best and (value := number(best[1]) or 0.0):
        if best[2] != ours:
            notes += (
                [f"no row of {ours} that counts, which the limit is for: the best of the search is taken"]
                if ours
                else []
            )
            conditions["shapes"] = {dtype: [int(side) for side in best[2].split("x")]}
    else:
        raise BadFile(f"{shown}: output of mamf-finder without a best mean and without a row of {ours or 'a shape'}")
    found = Measurement(f"matmul_mamf.{dtype}", SUBJECT, "TFLOPS", value, conditions=conditions)
    software = {"torch": torch[1]} if torch else {}
    model = printable(device[1], 80) if device else ""
    return ToolOutput(TOOL, [found], [Device(SUBJECT, 0, sku.vendor, model)], notes, software)


def _first(lines: list[tuple[int, str]], pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return the match of the first line that a pattern fits."""
    return next((match for _, line in lines if (match := pattern.fullmatch(line))), None)


def _row(lines: list[tuple[int, str]], shape: str, shown: str) -> tuple[float | None, list[int]]:
    """Return the mean of the row of a shape, and the line of one that does not agree. Raises BadFile for two."""
    found = [(place, match) for place, line in lines if (match := _ROW.fullmatch(line)) and match[4] == shape]
    if not found:
        return None, []
    place, match = found[0]
    if len(found) > 1:
        text = f"{shape} is given twice (first in line {place}); judge the output of each run by itself"
        raise BadFile(ErrorAt(shown, found[1][0], text))
    mean, median, most, best = (number(cell) or 0.0 for cell in match.group(1, 2, 3, 5))
    if not 0 < mean <= min(most, best) or not 0 < median <= most or abs(mean / median - 1) > FARTHEST:
        return None, [place]
    return mean, []
