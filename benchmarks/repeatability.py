"""How far do runs lie apart? The packaged suite several times, every run in fresh processes.

Of each metric: the spread between runs (one standard deviation as a share of the value), how often the next run's
value lay in the run's own 99.9 % interval and in the one that foresees the next run (by the spread of the other runs;
and as printed, where the SKU's file states a spread), and the gauge ratio: spread / (reference - floor). Above a tenth
a measurement cannot tell a good part from a bad one near its limit (as in gauge studies, AIAG MSA).
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import yaml

from pytest_accel.core.measurement import Measurement, Value
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.stats import between_runs, next_run
from pytest_accel.core.verdict import Verdict
from pytest_accel.run.record import find, read

GAUGE = 0.1
BUSY_SECONDS = 1200.0
"""How long to wait for somebody else's run on these devices to end."""


@dataclass
class Series:
    """One metric of one device over the runs, in their order."""

    found: list[Measurement] = field(default_factory=list)
    judged: list[float] = field(default_factory=list)
    """What was held against the limit: the value, or the fraction of a peak that was measured beside it."""
    limit: Limit | None = None

    @property
    def values(self) -> list[float]:
        return [_number(each.value) for each in self.found]

    def covered(self) -> Iterator[tuple[bool, bool, bool | None]]:
        """Of each run and the next: did its own interval hold the value, that of the next run, the printed one?"""
        for place, (one, after) in enumerate(pairwise(self.found)):
            value, own = _number(after.value), one.estimate
            others = [each for at, each in enumerate(self.values) if at not in (place, place + 1)]
            if own is None or len(others) < 2:
                continue
            foreseen = next_run(own, between_runs(others), len(others))
            printed = one.next_run
            yield (
                own.low <= value <= own.high,
                foreseen.low <= value <= foreseen.high,
                printed[0] <= value <= printed[1] if printed else None,
            )


def _number(value: Value | None) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def series(records: Sequence[Run]) -> dict[str, list[Series]]:
    """The series of every device by metric; what has no samples is a fact, and no run differs from another."""
    found: dict[tuple[str, str], Series] = {}
    for record in records:
        verdicts = {(each.metric, each.subject): each for each in record.verdicts}
        first: dict[tuple[str, str], Measurement] = {}
        for each in record.measurements:
            if each.how == "together" and each.samples and not each.trouble:
                first.setdefault((each.metric, each.subject), each)
        for key, one in first.items():
            line = found.setdefault(key, Series())
            line.found.append(one)
            line.limit, judged = _judged(verdicts.get(key), _number(one.value))
            line.judged.append(judged)
    by_metric: dict[str, list[Series]] = {}
    for (metric, _), line in found.items():
        by_metric.setdefault(metric, []).append(line)
    return by_metric


def _judged(verdict: Verdict | None, value: float) -> tuple[Limit | None, float]:
    limit = verdict.limit if verdict else None
    if verdict and limit and limit.relative and limit.floor and verdict.floor:
        return limit, limit.floor * value / verdict.floor
    return limit, value


def gauge(lines: Sequence[Series]) -> float | None:
    """Spread / (reference - floor); the median of all runs is the reference where the file states none."""
    limit = lines[0].limit
    if limit is None or limit.floor is None:
        return None
    reference = limit.reference or median(each for line in lines for each in line.judged)
    return _pooled([stdev(line.judged) for line in lines]) / (reference - limit.floor)


def _pooled(deviations: Sequence[float]) -> float:
    return math.sqrt(fmean(each**2 for each in deviations))


def row(metric: str, lines: Sequence[Series]) -> str:
    covered = [each for line in lines for each in line.covered()]
    ratio = gauge(lines)
    value = median(each for line in lines for each in line.values)
    shares = [_share([each[place] for each in covered]) for place in range(3)]
    runs = min(len(line.found) for line in lines)
    return (
        f"{metric:<28}{len(lines):>3}{runs:>5}{value:>11.4g} {lines[0].found[0].unit:<7}"
        f"{_pooled([between_runs(line.values) for line in lines]):>8.2%}{shares[0]:>8}{shares[1]:>8}{shares[2]:>9}"
        f"{'' if ratio is None else f'{ratio:.3f}':>8}"
        f"{'' if ratio is None or 0 <= ratio <= GAUGE else '  above a tenth' if ratio > 0 else '  below its floor'}"
    )


def _share(hits: Sequence[bool | None]) -> str:
    known = [each for each in hits if each is not None]
    return f"{sum(known)}/{len(known)}" if known else ""


def spread(found: Mapping[str, Sequence[Series]], record: Run) -> dict[str, Any]:
    """A threshold file that says how far apart these runs lay, so that the next run can be foreseen."""
    sku = record.sku["name"]
    stated = {}
    for metric, lines in found.items():
        runs = min(len(line.found) for line in lines)
        source = {
            "kind": "measured",
            "by": "pytest_accel",
            "date": record.info["started"][:7],
            "software": f"torch {record.software['torch']}",
            "conditions": f"{runs} runs of level {record.info['level']} in processes of their own",
            "devices": len(lines),
            "nodes": 1,
        }
        between = _pooled([between_runs(line.values) for line in lines])
        stated[metric] = {"between_runs": round(between, 5), "runs": runs, "source": source}
    return {"sku": f"{sku}-repeated", "extends": sku, "spread": stated}


HEADER = (
    f"{'metric':<28}{'dev':>3}{'runs':>5}{'median':>11} {'unit':<7}"
    f"{'spread':>8}{'own':>8}{'next':>8}{'printed':>9}{'gauge':>8}"
)


def measure(options: argparse.Namespace, folder: Path) -> Iterator[Path]:
    """Run the suite so many times; the folder of each record."""
    for run in range(options.runs):
        place = folder / f"run-{run:02}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--accel-sku={options.sku}"]
        command += [
            f"--accel-level={options.level}",
            f"--accel-output={place}",
            *(["-k", options.k] if options.k else []),
        ]
        until = time.monotonic() + BUSY_SECONDS
        while True:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if (
                done.returncode != 4
                or "is being measured by" not in done.stdout + done.stderr
                or time.monotonic() > until
            ):
                break
            time.sleep(2.0)
        lines = [line for line in done.stdout.splitlines() if line] or [done.stderr]
        print(f"run {run + 1}: load {os.getloadavg()[0]:.1f}: {lines[-2] if len(lines) > 1 else lines[-1]}", flush=True)
        if (place / "record.json").exists():
            yield place


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--sku", default="auto", help="as --accel-sku: a name or a file")
    parser.add_argument("--level", default="quick")
    parser.add_argument("-k", default="", metavar="WORDS", help="only these tests, as pytest's -k")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the records here (default: nowhere)")
    parser.add_argument("--spread", type=Path, metavar="FILE", help="write a threshold file that states these spreads")
    parser.add_argument("--records", type=Path, nargs="+", metavar="RECORD", help="measure nothing, read these")
    return parser.parse_args()


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.folder or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        places = options.records or list(measure(options, folder))
        records = [read(find(place)) for place in places]
    found = {metric: lines for metric, lines in series(records).items() if min(len(each.found) for each in lines) > 1}
    print(f"\n{HEADER}")
    for metric, lines in found.items():
        print(row(metric, lines).rstrip())
    print(
        "own, next, printed: how often the next run's value lay in the run's own 99.9 % interval, in that of the next"
    )
    print("run (95 %, by the spread of the other runs), and in the one that was printed")
    if options.spread:
        stated = spread(found, records[0])
        options.spread.write_text(yaml.safe_dump(stated, sort_keys=False), encoding="utf-8")
        print(f"{options.spread}: judge by it, and the runs that follow foresee the next one")


if __name__ == "__main__":
    main()
