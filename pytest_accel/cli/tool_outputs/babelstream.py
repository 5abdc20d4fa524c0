"""Reader of the text of BabelStream, built with CUDA or HIP: the memory of one device. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_accel.cli.tool_outputs.output import ToolOutput, number, numbered, on_lines, only
from pytest_accel.core.measurement import Device, Measurement, Trouble
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.untrusted import BadFile, ErrorAt
from pytest_accel.probes.stream import TRAFFIC

TOOL = "BabelStream"
LOOKED_FOR = "BabelStream, by 'Using CUDA device ...' or 'Using HIP device ...' and 'Function MBytes/sec Min (sec) ...'"
SUBJECT = "gpu0"

_OPERATIONS = {"Copy": "copy_kernel", "Triad": "triad"}
"""Operation of our probe for each kernel that it has: the fastest call, of bytes read plus written, as there. Our dot
is the kernel of the BLAS library, and Mul and Add are none of ours."""
_HEAD = re.compile(r"Function +MBytes/sec +Min \(sec\) +Max +Average")
_DEVICE = re.compile(r"Using (?:CUDA|HIP) device (.{1,120}?)(?: \(compute_units=[0-9]{1,6}\))?")
_PRECISION = re.compile(r"Precision: (double|float)")
_ARRAY = re.compile(r"Array size: ([0-9]{1,12}\.[0-9]) MB \(.{1,40}\)")
_WRONG = re.compile(r"Validation failed on ([abc])\[\]")
_MIB = 1.048576
"""Megabytes of a MiB."""


def recognises(text: str) -> bool:
    """Return True for a text of BabelStream, known by the device that it uses and the head of its table."""
    lines = [line.strip() for line in text.splitlines()]
    return any(map(_HEAD.fullmatch, lines)) and any(map(_DEVICE.fullmatch, lines))


def read(text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:  # noqa: ARG001
    """Return the figures of one device, which is named gpu0. Raises BadFile unless the text is one whole run.

    `limits` are not looked at: each kernel is one metric. A row counts if its rate follows from the array size and its
    shortest time, and if that is not longer than the mean and the longest. MB are 10^6 bytes. An array that does not
    hold what it should is a device error; the sum of Dot is no array, and in fp32 it is not exact.
    """
    lines = numbered(text)
    device = printable(only(lines, _DEVICE, "Using CUDA device", TOOL, shown), 80)
    dtype = {"double": "fp64", "float": "fp32"}[only(lines, _PRECISION, "Precision:", TOOL, shown)]
    array = float(only(lines, _ARRAY, "Array size:", TOOL, shown))
    whole = round(array / _MIB)
    mib = whole if abs(whole * _MIB - array) <= 0.051 else round(array / _MIB, 1)
    wrong = next(
        (Trouble("device", f"{printable(line, 80)} (line {n})", wrong=True) for n, line in lines if _WRONG.match(line)),
        None,
    )
    figures: list[Measurement] = []
    broken = []
    for place, line in lines:
        kernel, *rest = line.split() or [""]
        if kernel not in _OPERATIONS or len(rest) != 4:
            continue
        operation = _OPERATIONS[kernel]
        metric = f"stream.{operation}"
        if any(each.metric == metric for each in figures):
            raise BadFile(ErrorAt(shown, place, f"{kernel} is given twice; judge the output of each run by itself"))
        rate = _rate(rest, TRAFFIC[operation] * array)
        if rate is None:
            broken.append(place)
            continue
        conditions = {"mib": mib, "dtype": dtype}
        value = None if wrong else rate / 1000
        figures.append(Measurement(metric, SUBJECT, "GB/s", value, conditions=conditions, trouble=wrong))
    if not figures:
        raise BadFile(f"{shown}: output of BabelStream, but no row of Copy or Triad in it agrees with itself")
    notes = on_lines("not read, because the columns do not agree with each other or with the array size", broken)
    return ToolOutput(TOOL, figures, [Device(SUBJECT, 0, sku.vendor, device)], notes)


def _rate(columns: list[str], megabytes: float) -> float | None:
    """Return the rate of a row in MB/s; None if its columns do not agree: times have five decimals."""
    rate, shortest, longest, mean = map(number, columns)
    if not rate or shortest is None or longest is None or mean is None or not shortest <= mean <= longest:
        return None
    return rate if abs(megabytes / rate - shortest) <= 0.6e-5 + 1e-3 * shortest else None
