"""The tools of others: how each is called, what it prints, and what it counts. Read in their sources, at the commits
named here; nothing of theirs is in this repository, and no GPU has run them beside ours yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Figures = dict[str, float]


@dataclass(frozen=True)
class Tool:
    """A program of others. `{output}` in the arguments is a file that it may write; who runs it fills in sizes."""

    files: tuple[str, ...]
    arguments: tuple[str, ...]
    read: Callable[[str], Figures]
    """Its figures by name, empty if what it printed holds none; see the function for units."""
    source: str
    """Where command line, output and counting were read."""


def mamf(said: str) -> Figures:
    """TFLOPS (10^12), m, n, k of the shape that it names best, and how many shapes it `tried`.

    Version 2 names the best by mean, median and max; the mean is what its table publishes. Version 3 (84cf694) names a
    burst (MAMF) and a sustained figure (MSMF); the sustained one is what we measure.
    """
    best = r"(?:mean:|MSMF \(max sustainable, saturated\):) +([\d.]+) TFLOPS @ (\d+)x(\d+)x(\d+) \(MxNxK\)"
    tried, found = re.search(r"^Tried +(\d+) shapes", said, re.MULTILINE), re.search(f"^{best}", said, re.MULTILINE)
    if not (tried and found):
        return {}
    return dict(zip(("tflops", "m", "n", "k", "tried"), map(float, (*found.groups(), tried[1])), strict=True))


def nvbandwidth(said: str) -> Figures:
    """GB/s (10^9) of the first device, by test.

    The matrix is read, not the line SUM, which adds up all devices that it sees. Every byte copied counts once
    (`adjustedCopySizes[i] * loopCount` over the time, memcpy.cpp): of device_local_copy the memory moves two.
    """
    table = r"^Running (\w+)\.\s*\n.*\(GB/s\)\s*\n[ \d]+\n *0 +([\d.]+)"
    return {name: float(value) for name, value in re.findall(table, said, re.MULTILINE)}


COUNTED = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2}
"""Arrays that BabelStream counts for a kernel (src/benchmark.h, `weight`)."""


def babelstream(said: str) -> Figures:
    """GB/s (10^9) by kernel, from the mean time of its runs; with " best" behind the name from the shortest.

    From `--csv`, whose times have six digits: in its table they have five decimals, one percent of a millisecond. What
    it prints itself is the best of its runs (in MB of 10^6), and a maximum is no estimate.
    """
    row = r"^(Copy|Mul|Add|Triad|Dot),\d+,(\d+),(\d+),[^,\n]+,([\d.e+-]+),[^,\n]+,([\d.e+-]+)$"
    figures: Figures = {}
    for name, n, size, shortest, mean in re.findall(row, said, re.MULTILINE):
        gigabytes = COUNTED[name] * int(n) * int(size) / 1e9
        figures |= {name: gigabytes / float(mean), f"{name} best": gigabytes / float(shortest)}
    return figures


def gpu_burn(said: str) -> Figures:
    """GFLOPS (10^9) of its last report, 0 if it ended before the first, and its `faulty` devices."""
    ended = re.findall(r"^\s*GPU \d+: (OK|FAULTY)\s*$", said, re.MULTILINE)
    rates = re.findall(r"proc'd: -?\d+ \((\d+) Gflop/s\)", said)
    if not ended:
        return {}
    return {"gflops": float(rates[-1]) if rates else 0.0, "faulty": float(ended.count("FAULTY"))}


MAMF = Tool(
    ("mamf-finder.py",),
    (
        *("--m_range", "0", "{to}", "{step}", "--n", "{side}", "--k", "{side}"),
        *("--dtype", "{dtype}", "--output_file", "{output}"),
    ),
    mamf,
    "stas00/ml-engineering, compute/accelerator/benchmarks/mamf-finder.py at 744d01e (version 2: its quick range, half"
    " a minute of warm-up and 79 shapes; B transposed; the cache cleared before every product)",
)
NVBANDWIDTH = Tool(
    ("nvbandwidth",),
    ("-t", "host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_local_copy"),
    nvbandwidth,
    "NVIDIA/nvbandwidth at 66746a3 (v0.8): 512 MiB, 16 copies a sample, the median of 3; device_local_copy counts a"
    " byte once (memcpy.cpp; the maintainer in issue #48)",
)
BABELSTREAM = Tool(
    ("cuda-stream", "omp-stream"),
    ("--csv", "-n", "100", "-s", "{n}"),
    babelstream,
    "UoB-HPC/BabelStream at 57637d5 and v5.0: decimal, src/benchmark.h `weight` arrays a kernel",
)
GPU_BURN = {
    name: Tool(
        ("gpu_burn",),
        (*options, "-stts", "3", "12"),
        gpu_burn,
        "wilicc/gpu-burn at 3ead140: 8192^3 over and over into 90 % of the memory; 12 s with what starting it takes",
    )
    for name, options in {"tf32": ("-tc",), "fp64": ("-d",)}.items()
}
