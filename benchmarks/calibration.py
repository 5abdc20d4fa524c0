"""Are the rates that `pytest-accel calibrate` states those that are counted? Floors from drawn nodes, held by others.

    python benchmarks/calibration.py --nodes 20 --others 100 --short 0.08

field_noise.py draws the nodes: heavy tails, drift, devices that differ together, hot slots. Two of the nodes that are
calibrated from hide a bad device. Then so many other healthy nodes, and as many whose devices are all short, are judged
by the floors once, before any repeat. Prints Markdown. Exits with 1 if a hidden device is not named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

from field_noise import DEVICES, FieldNode

from pytest_accel.judging.records.calibration import CalibratedMetric, Calibration, GoodFigure, calibrate

METRICS = {
    "memory": ("stream.triad", "GB/s", 2950.0),
    "host": ("host_copy.h2d", "GB/s", 55.0),
    "link": ("peer_copy.one_way", "GB/s", 378.0),
    "matmul": ("matmul.bf16", "TFLOPS", 715.0),
}
"""Metric, unit and centre by family of field_noise.py."""
HIDDEN = {"4/3": 0.08, "11/6": 0.08}
"""The share that hidden bad devices lack, by node and place."""


def readings(node: int, runs: int, short: Mapping[str, float], every: float = 0.0) -> Iterator[GoodFigure]:
    """Yield the figures of a node; `short` is what single devices lack, `every` what all of them do."""
    drawn = FieldNode(f"calibration/{node}")
    for run in range(runs):
        for family, (metric, unit, centre) in METRICS.items():
            for place, (pace, _) in enumerate(drawn.go(family, 0)):
                device = f"{node}/{place}"
                value = centre * pace * (1 - short.get(device, 0.0)) * (1 - every)
                yield GoodFigure(metric, unit, value, device, str(node), source=f"node {node}, run {run}")


def calibrated(nodes: int, runs: int) -> Calibration:
    """Return the calibration from so many nodes, two of which hide a bad device."""
    every = [list(readings(node, runs, HIDDEN)) for node in range(nodes)]
    by_run = [[each for each in some if each.source.endswith(f"run {run}")] for run in range(runs) for some in every]
    return calibrate([each for some in by_run for each in some])


def counted(found: CalibratedMetric, first: int, nodes: int, every: float = 0.0) -> tuple[int, int]:
    """Return how many verdicts of so many nodes from number `first` on are below the floor, and how many there are."""
    some = [each for node in range(first, first + nodes) for each in readings(node, 1, {}, every)]
    values = [each.value for each in some if each.metric == found.metric]
    return sum(value < found.bound for value in values), len(values)


def main() -> int:
    """Print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3, help="of each node that is calibrated from")
    parser.add_argument("--others", type=int, default=100)
    parser.add_argument("--short", type=float, default=0.08)
    chosen = parser.parse_args()
    found = calibrated(chosen.nodes, chosen.runs)
    named = {each.device for each in found.outliers}
    print(f"{chosen.nodes} nodes of {DEVICES} devices, {chosen.runs} runs each; hidden {', '.join(HIDDEN)}")
    print(f"named as outliers: {', '.join(sorted(named)) or 'none'}\n")
    print("| metric | floor / centre | healthy rejected | short found |")
    print("| --- | --- | --- | --- |")
    for one in found.metrics:
        healthy, verdicts = counted(one, 1000, chosen.others)
        short, _ = counted(one, 2000, chosen.others, chosen.short)
        rates = f"{healthy} of {verdicts} | {short / verdicts:.1%}"
        print(f"| `{one.metric}` | {one.bound / one.centre:.4f} | {rates} |")
    return int(not set(HIDDEN) <= named)


if __name__ == "__main__":
    sys.exit(main())
