"""The shape search against a scan of every shape of the same space, on one core of a CPU.

Each repeat is a process of its own: the search, cold; the scan, warm-up and block for every shape, as mamf-finder
does it; then the winners of both by turns on fresh samples, A B B A. The scan's own figure for its winner is the
maximum of many noisy ones, so it is shown beside what that shape reaches when measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import harmonic_mean, median
from typing import Any

from bench import Gate

from pytest_accel import probes
from pytest_accel.core.measurement import Device
from pytest_accel.probes.device.gemm import Gemm, Operands
from pytest_accel.probes.device.shape_search import Shape, spread
from pytest_accel.probes.device.timing import time_one_block
from pytest_accel.probes.device.torch_device import Compute
from pytest_accel.probes.matmul_best import CPU_SPACE

SHARE, TIME_SHARE = 0.98, 1 / 20
"""What the search has to reach of the scan's winner, and in which part of its time."""


def once(dtype: str, seconds: float, block: float, space: list[Shape]) -> dict[str, Any]:
    """One search and one scan in this process."""
    device = Compute([Device("CPU-0", 0, "cpu", "")], Gate())
    device.torch.set_num_threads(1)
    device.seconds = seconds
    began = time.perf_counter()
    found = probes.matmul_best(device, dtype=dtype)
    searched = time.perf_counter() - began
    began = time.perf_counter()
    operands = Operands(device, dtype, max(max(m, n) * k for m, n, k in space))
    rates = {shape: _rate(device, dtype, shape, operands, block) for shape in space}
    scanned = time.perf_counter() - began
    winners = tuple(found.conditions[key] for key in "mnk"), max(rates, key=rates.__getitem__)
    again = _by_turns(device, dtype, winners, operands)
    return {
        "seconds": {"search": searched, "scan": scanned},
        "winners": winners,
        "tried": found.conditions["searched"],
        "within": found.details["within_2_percent"],
        "reported": harmonic_mean(found.samples),
        "claimed": rates[winners[1]] / 1e12,
        "again": [harmonic_mean(each) / 1e12 for each in again],
        "share": median(ours / theirs for ours, theirs in zip(*again, strict=True)),
        "time_share": searched / scanned,
    }


def _rate(device: Compute, dtype: str, shape: Shape, operands: Operands, seconds: float) -> float:
    gemm = Gemm(device, dtype, *shape, operands=operands)
    return gemm.operations / time_one_block(gemm, device.clock, seconds)


def _by_turns(device: Compute, dtype: str, shapes: tuple[Shape, Shape], operands: Operands) -> list[list[float]]:
    """Operations per second of both shapes in twenty turns of 0.1 s each."""
    gemms = [Gemm(device, dtype, *shape, operands=operands) for shape in shapes]
    rates: list[list[float]] = [[], []]
    for turn in range(20):
        for place in (0, 1) if turn % 2 == 0 else (1, 0):
            rates[place].append(gemms[place].operations / time_one_block(gemms[place], device.clock, 0.1))
    return rates


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--seconds", type=float, default=2.0, help="budget of the search")
    parser.add_argument(
        "--block", type=float, default=0.02, help="seconds that the scan gives each shape after its first call"
    )
    parser.add_argument("--shapes", type=int, default=len(CPU_SPACE), help="scan only so many shapes of the space")
    parser.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)), help="the core that all of it runs on")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.once:
        os.sched_setaffinity(0, {options.cpu})
        space = spread(CPU_SPACE, options.shapes)
        print(json.dumps(once(options.dtype, options.seconds, options.block, space)))
        return
    print("repeat    search      scan  of time   share  reported   claimed  tried  load")
    runs = []
    for repeat in range(options.repeats):
        done = subprocess.run([sys.executable, *sys.argv, "--once"], stdout=subprocess.PIPE, text=True, check=True)
        run = {**json.loads(done.stdout.splitlines()[-1]), "load": os.getloadavg()[0]}
        runs.append(run)
        seconds = run["seconds"]
        print(
            f"{repeat + 1:6}  {seconds['search']:6.2f} s  {seconds['scan']:6.1f} s  {run['time_share']:7.3f}"
            f"  {run['share']:6.3f}  {run['reported'] / run['again'][0]:8.3f}  {run['claimed'] / run['again'][1]:8.3f}"
            f"  {run['tried']:5}  {run['load']:.1f}",
            flush=True,
        )
    share, of_time = (median(run[key] for run in runs) for key in ("share", "time_share"))
    print(f"median share of the scan's winner {share:.3f} (at least {SHARE}: {'met' if share >= SHARE else 'MISSED'})")
    met = "met" if of_time < TIME_SHARE else "MISSED"
    print(f"median share of the scan's time {of_time:.3f} (under {TIME_SHARE}: {met})")
    print("reported, claimed: what the search and the scan said of their winners, over what those reached again")
    if options.json:
        options.json.write_text(json.dumps({"options": vars(options), "runs": runs}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
