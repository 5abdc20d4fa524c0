"""Ours and the tools of others by turns on the same device, and the ratios: one JSON line each.

A ratio of 0.99 to 1.01 is met, a higher one SUSPICIOUS until explained, a lower one missed. Builds of the tools are
looked for under --peers; nothing is fetched or built here, except the CUDA kernels of cuda_stream.py. On a CPU the same
code runs at small sizes, and its ratios judge nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

import cuda_stream
import peers
from bench import Bench, NotRun, Watts
from peers import Figures, Tool

from pytest_accel import probes
from pytest_accel.core.measurement import estimate_of
from pytest_accel.probes.device.timing import time_one_block

LOW, HIGH = 0.99, 1.01
Row = dict[str, Any]


def row(names: tuple[str, str], ours: float, theirs: float, unit: str, conditions: str, **more: Any) -> Row:
    """`names`: what of ours, against what of theirs."""
    found = {"what": names[0], "against": names[1], "ours": ours, "theirs": theirs, "unit": unit}
    return {**found, "ratio": ours / theirs if theirs else None, "conditions": conditions, **more}


def verdict(ratio: float | None, gpu: bool) -> str:
    """What a ratio of ours over theirs says."""
    if not gpu:
        return "a CPU: shows that the code runs"
    if ratio is None:
        return "NOT RUN: its figure is zero"
    return "SUSPICIOUS" if ratio > HIGH else "missed" if ratio < LOW else "met"


class Others:
    """The builds of the tools, and how they are run: one at a time, on the bench's device alone."""

    def __init__(self, builds: Path | None, logs: Path, device: str | None) -> None:
        self.builds, self.logs = builds, logs
        self._environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": device} if device else {})}

    def find(self, tool: Tool) -> Path:
        """The program of a tool. Raises NotRun without one."""
        if not self.builds:
            raise NotRun("no folder of builds was given (--peers)")
        found = [each for name in tool.files for each in sorted(self.builds.rglob(name)) if each.is_file()]
        if not found:
            raise NotRun(f"there is no {' or '.join(tool.files)} among the builds")
        return found[0].absolute()

    def run(self, tool: Tool, limit: float, **values: object) -> tuple[Figures, float]:
        """Its figures and the seconds that it took. Raises NotRun if it printed none; its output is in a log."""
        program = self.find(tool)
        log, output = (self.logs / f"{program.stem}{end}" for end in (".log", ".out"))
        start = [sys.executable] if program.suffix == ".py" else []
        arguments = [each.format(output=output, **values) for each in tool.arguments]
        began = time.monotonic()
        with open(log, "ab") as out:
            mark = out.tell()
            ended = _run([*start, str(program), *arguments], limit, out, program.parent, self._environment)
        said = log.read_bytes()[mark:].decode(errors="replace").replace("\r", "\n")
        figures = tool.read(said)
        if not figures:
            last = (said.strip().splitlines() or ["it printed nothing"])[-1]
            raise NotRun(f"{program.name} {ended}, without a figure: {last.strip()[:160]}")
        return figures, time.monotonic() - began


def _run(command: list[str], limit: float, out: Any, cwd: Path, environment: Mapping[str, str]) -> str:
    """Run a program to its end, or interrupt it after `limit` seconds (mamf-finder then reports what it has)."""
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=cwd, env=environment)
    try:
        return f"ended with {process.wait(limit)}"
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
        return f"was stopped after {limit:.0f} s"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def before_and_after(
    measure: Callable[[], Figures], theirs: Callable[[], Figures]
) -> tuple[Figures, Figures, dict[str, str]]:
    """Ours, theirs, ours again: ours as work over the time of both turns, and each turn of it in words."""
    first, other, second = measure(), theirs(), measure()
    turns = {name: f"ours {first[name]:.4g} before, {second[name]:.4g} after" for name in first}
    return {name: harmonic_mean([first[name], second[name]]) for name in first}, other, turns


def mamf_finder(bench: Bench, others: Others, limit: float) -> Iterator[Row]:
    """Our search, its scan; then both winners by turns on fresh samples, since the maximum of a scan is no estimate."""
    others.find(peers.MAMF)
    began = time.perf_counter()
    found = bench.probe(probes.matmul_best, 10.0, dtype=bench.dtype)
    searched = time.perf_counter() - began
    bench.release()
    sizes = {"to": 20480, "step": 256, "side": 4096} if bench.gpu else {"to": 1024, "step": 256, "side": 256}
    theirs, scanned = others.run(peers.MAMF, limit - 21.0, dtype="bfloat16" if bench.gpu else "float32", **sizes)
    ours = tuple(int(found.conditions[key]) for key in "mnk")
    its = tuple(int(theirs[key]) for key in "mnk")
    works = bench.product(*ours), _transposed(bench, *its)
    mine, again = _by_turns(bench, works, [2e-12 * m * n * k for m, n, k in (ours, its)])
    name = f"matmul_best.{bench.dtype}"
    shapes = f"ours {'x'.join(map(str, ours))} row by row, its {'x'.join(map(str, its))} with B transposed"
    yield row((name, "the shape it found best"), mine, again, "TFLOPS", f"{shapes}; 10 turns of 0.2 s each, A B B A")
    claim, maximum = ("its shape measured again", "what it says of it"), "the maximum of a scan"
    yield row(claim, again, theirs["tflops"], "TFLOPS", maximum, verdict="information")
    every = len(range(sizes["step"], sizes["to"], sizes["step"]))
    tried = (
        f"ours {found.conditions['searched']} shapes; its {theirs['tried']:g} of {every}, start and warm-up included"
    )
    yield row(("time of the search", "its time"), searched, scanned, "s", tried, verdict="information")


def _transposed(bench: Bench, m: int, n: int, k: int) -> Callable[[], object]:
    """mamf-finder's product, from as many operands in turn as ours has, so that no cache holds them."""
    torch, sets = bench.torch, bench.product(m, n, k).sets
    kind = torch.bfloat16 if bench.gpu else torch.float32
    c = torch.empty(m, n, dtype=kind, device=bench.device.torch_device)
    some = [[torch.randn(side, k, dtype=kind, device=c.device) for side in (m, n)] for _ in range(sets)]
    turn = cycle(some)

    def call() -> object:
        a, b = next(turn)
        return torch.mm(a, b.t(), out=c)

    return call


def _by_turns(bench: Bench, works: tuple[Callable[[], object], ...], amounts: list[float]) -> list[float]:
    """Work over time of each, in TFLOPS, after as many turns to warm up by."""
    rates: list[list[float]] = [[], []]
    for turn in range(20):
        for place in (0, 1) if turn % 2 == 0 else (1, 0):
            once = time_one_block(works[place], bench.device.clock, bench.scaled(0.2))
            if turn >= 10:
                rates[place].append(amounts[place] / once)
    return [harmonic_mean(each) for each in rates]


def nvbandwidth(bench: Bench, others: Others, limit: float) -> Iterator[Row]:
    """Host copies at its size, and the device's own copy at eight times it: for ours the host waits for each call."""
    mib = 512 if bench.gpu else 16

    def measure() -> Figures:
        found = {f"host_copy.{way}": _rate(bench, probes.host_copy, direction=way, mib=mib) for way in ("h2d", "d2h")}
        found["stream.copy"] = _rate(bench, probes.stream, op="copy", mib=8 * mib)
        bench.release()
        return found

    others.find(peers.NVBANDWIDTH)
    ours, theirs, turns = before_and_after(measure, lambda: others.run(peers.NVBANDWIDTH, limit - 12.0)[0])
    pairs = {
        "host_copy.h2d": ("host_to_device_memcpy_ce", 1),
        "host_copy.d2h": ("device_to_host_memcpy_ce", 1),
        "stream.copy": ("device_local_copy", 2),
    }
    for name, (test, factor) in pairs.items():
        if test not in theirs:
            yield {"what": name, "against": test, "verdict": "NOT RUN: nvbandwidth printed no figure of it"}
            continue
        against = f"{test}{f' times {factor}: read and written' if factor > 1 else ''}"
        sizes = f"{mib} MiB{f', ours {8 * mib}' if factor > 1 else ''}"
        yield row((name, against), ours[name], factor * theirs[test], "GB/s", f"{sizes}; {turns[name]}")


STREAMS = {"stream.copy_kernel": "Copy", "stream.triad": "Triad", "stream.dot": "Dot"}


def _streams(bench: Bench) -> Figures:
    found = {name: _rate(bench, probes.stream, op=name.partition(".")[2], mib=_mib(bench)) for name in STREAMS}
    bench.release()
    return found


def _mib(bench: Bench) -> int:
    return 2048 if bench.gpu else 16


def _rate(bench: Bench, probe: Callable[..., Any], **conditions: Any) -> float:
    found = bench.probe(probe, 1.0, **conditions)
    return estimate_of(found.samples, found.unit, found.statistic).mean


def babelstream(bench: Bench, others: Others, limit: float) -> Iterator[Row]:
    """Its build; arrays of doubles, of the size of ours."""
    others.find(peers.BABELSTREAM)
    n = _mib(bench) * 2**17
    ours, theirs, turns = before_and_after(
        lambda: _streams(bench), lambda: others.run(peers.BABELSTREAM, limit - 8.0, n=n)[0]
    )
    for name, kernel in STREAMS.items():
        best = f"the best of its 99, its mean {theirs[kernel]:.4g}; ours are the best of every 20"
        text = f"{_mib(bench)} MiB, fp64; {turns[name]}; {best}"
        yield row((name, f"BabelStream {kernel}"), ours[name], theirs[f"{kernel} best"], "GB/s", text)


def kernels(bench: Bench, others: Others, limit: float) -> Iterator[Row]:  # noqa: ARG001  called like the others
    """The same five kernels in CUDA, our own text, in this process: no build is needed."""
    launch, compiled = cuda_stream.launcher(bench)

    def theirs() -> Figures:
        found: Figures = {}
        for dtype in ("float", "double"):
            rates = cuda_stream.rates(bench, launch, dtype, _mib(bench), 0.5)
            found |= {f"{op} of {dtype}s": rate for op, rate in rates.items()}
            bench.release()
        return found

    ours, other, turns = before_and_after(lambda: _streams(bench), theirs)
    for dtype in ("floats", "doubles"):
        rest = ", ".join(f"{op} {other[f'{op} of {dtype}']:.4g}" for op in ("mul", "add"))
        for name, kernel in STREAMS.items():
            its = f"{kernel.lower()} of {dtype}"
            text = (
                f"{_mib(bench)} MiB, ours fp64; {turns[name]}; {rest}; a variant by {compiled}, no BabelStream result"
            )
            yield row((name, f"{its} in CUDA"), ours[name], other[its], "GB/s", text)


def gpu_burn(bench: Bench, others: Others, limit: float) -> Iterator[Row]:
    """Watts of the soak over the highest of gpu-burn and a mix: products with copies of memory beside them."""
    bench.need_gpu("its power")
    seconds, watts, why = 8.0, {}, []
    with Watts(bench) as soak:
        bench.probe(probes.soak, seconds)
    ours = soak.highest
    with Watts(bench) as own:
        bench.sample(_mix(bench), 1.0, "1", seconds)
        bench.device.synchronize()
    watts["our own mix"] = own.highest
    bench.release()
    for name, tool in peers.GPU_BURN.items():
        try:
            with Watts(bench) as burn:
                found, _ = others.run(tool, limit / 2 - seconds - 2)
            watts[f"gpu-burn {name}"] = burn.highest
            why.append(f"gpu-burn {name} {found['gflops']:g} GFLOPS, {found['faulty']:g} devices faulty")
        except NotRun as need:
            why.append(f"gpu-burn {name} NOT RUN: {need}")
    highest = max(watts, key=watts.__getitem__)
    each = ", ".join(f"{name} {value:.1f} W" for name, value in watts.items())
    text = f"highest mean of {Watts.WINDOW:g} s: {each}; {'; '.join(why)}"
    alone = {} if len(watts) > 1 else {"verdict": "NOT RUN: beside our own mix alone, without gpu-burn"}
    yield row(("soak.power", f"the highest: {highest}"), ours, watts[highest], "W", text, **alone)


def _mix(bench: Bench) -> Callable[[], object]:
    torch, product = bench.torch, bench.product()
    a, b = (torch.randn(2**28, device=bench.device.torch_device) for _ in range(2))
    beside = torch.cuda.Stream()

    def call() -> object:
        with torch.cuda.stream(beside):
            b.copy_(a)
        return product()

    return call


@dataclass(frozen=True)
class Plan:
    """A comparison, the seconds that are planned for it on a GPU, and where what it compares with was read."""

    seconds: float
    run: Callable[[Bench, Others, float], Iterator[Row]]
    source: str
    tool: Tool | None
    """The tool whose build the comparison needs; empty if it needs none."""


PLANS = {
    "mamf-finder": Plan(75, mamf_finder, peers.MAMF.source, peers.MAMF),
    "nvbandwidth": Plan(25, nvbandwidth, peers.NVBANDWIDTH.source, peers.NVBANDWIDTH),
    "BabelStream": Plan(35, babelstream, peers.BABELSTREAM.source, peers.BABELSTREAM),
    "CUDA kernels": Plan(25, kernels, f"{peers.BABELSTREAM.source}; written anew in stream.cu", None),
    "gpu-burn": Plan(62, gpu_burn, peers.GPU_BURN["tf32"].source, peers.GPU_BURN["tf32"]),
}
STARTING = 8.0
"""Seconds until torch and the device are there."""


def compare(name: str, bench: Bench, others: Others, left: float) -> Iterator[Row]:
    """The rows of one tool; what kept it from running is a row as well."""
    plan = PLANS[name]
    if left < plan.seconds:
        why = f"it is planned with {plan.seconds:g} s, and {max(0.0, left):.0f} were left"
        yield {"tool": name, "verdict": f"NOT RUN: {why}"}
        return
    try:
        for found in plan.run(bench, others, plan.seconds):
            judged = found.get("verdict") or verdict(found["ratio"], bench.gpu)
            yield {"tool": name, **found, "verdict": judged, "source": plan.source}
    except NotRun as need:
        yield {"tool": name, "verdict": f"NOT RUN: {need}", "source": plan.source}
    except Exception as error:  # noqa: BLE001  one tool that breaks costs its own rows
        text = (str(error).splitlines() or [""])[0]
        yield {"tool": name, "verdict": f"NOT RUN: broke: {type(error).__name__}: {text}", "source": plan.source}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("tools", nargs="*", default=list(PLANS), metavar="TOOL", help=f"of {', '.join(PLANS)}")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="a folder with builds of the tools of others")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="where their output goes; nowhere without")
    parser.add_argument("--seconds", type=float, default=600.0, help="what no longer fits in these is not run")
    options = parser.parse_args()
    if unknown := [each for each in options.tools if each not in PLANS]:
        sys.exit(f"no tool {unknown[0]!r}; choose of {', '.join(PLANS)}")
    until = time.monotonic() + options.seconds
    bench = Bench()
    with tempfile.TemporaryDirectory() as nowhere:
        device = bench.device.devices[0].uuid if bench.gpu else None
        others = Others(options.peers, (options.logs or Path(nowhere)).absolute(), device)
        for name in options.tools:
            for found in compare(name, bench, others, until - time.monotonic()):
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
