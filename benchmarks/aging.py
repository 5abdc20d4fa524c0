"""When is a device found that gets slower by 0.4 % a month, over two years of nights? And how long are they to read?

    python benchmarks/aging.py

One device of eight ages, the others do not; every night each figure is off by what two runs differ by. Each night is
judged as in a run, by `history.History` of all nights before and `RequestAttempts`, once by the first accepted run and
once by the last one alone. Then the summaries of a year of nights (eight devices, forty figures) are written and read.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from pytest_accel.core import structured
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.run import Past
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import Result, Status
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.judging.verdicts.background import PastOf
from pytest_accel.judging.verdicts.history import History, key
from pytest_accel.judging.verdicts.like_devices import kind_of
from pytest_accel.run import earlier_records
from pytest_accel.run.summaries import SUMMARY

DEVICES = [Device(f"GPU-{place}", place, "nvidia", "NVIDIA H100 80GB HBM3") for place in range(8)]
KINDS = {device.uuid: kind_of(device) for device in DEVICES}
FIRST_NIGHT = date(2026, 1, 1)
NIGHTS = 730
A_MONTH = 365 / 12
FAMILIES = {"matmul.bf16": ("TFLOPS", 700.0, 0.008), "stream.triad": ("GB/s", 2970.0, 0.002)}
"""Unit, healthy figure, and the standard deviation from night to night (assumed), by metric."""


def night(metric: str, number: int, loss: float, draw: random.Random) -> list[Measurement]:
    """Return what the devices reach in a night; the first has lost `loss` a month."""
    unit, healthy, deviation = FAMILIES[metric]
    lost = [(1 - loss) ** (number / A_MONTH), *[1.0] * (len(DEVICES) - 1)]
    return [
        Measurement(metric, device.uuid, unit, healthy * left * (1 + draw.gauss(0, deviation)))
        for device, left in zip(DEVICES, lost, strict=True)
    ]


def run_of(number: int, figures: list[Measurement]) -> Summary:
    """Return a night as an earlier run."""
    day = (FIRST_NIGHT + timedelta(days=number)).isoformat()
    values = {each.subject: float(each.value or 0) for each in figures}
    return Summary(
        started=day, result=Result.ACCEPTED, devices=DEVICES, figures={key(figures[0]): values}, path=Path(f"r{number}")
    )


def only(past_of: PastOf, which: str) -> PastOf:
    """Return the function with the first or the last run alone."""
    other = {"first": "last", "last": "first"}[which]

    def found(measurement: Measurement) -> Past | None:
        past = past_of(measurement)
        return past and replace(past, **{other: None})

    return found


def nights_found(metric: str, loss: float, seed: int) -> dict[str, list[int]]:
    """Return the nights in which the ageing device is found, by the first and by the last run, and healthy ones."""
    draw, runs = random.Random(seed), []  # noqa: S311  the same every time
    found: dict[str, list[int]] = {"first": [], "last": [], "healthy": []}
    for number in range(NIGHTS):
        figures, again = night(metric, number, loss, draw), night(metric, number, loss, draw)
        history = History(runs, DEVICES, dict)
        for which in ("first", "last"):
            result = RequestAttempts(kinds=KINDS, past_of=only(history.past, which))
            for one in figures:
                result.add(one)
            if result.shortfalls(metric, None):
                for one in again:
                    result.add(one)
                result.end_rounds()
            for device in DEVICES:
                if result.verdict_on(metric, device.uuid, None).status in (Status.MARGINAL, Status.FAIL):
                    found[which if device.index == 0 else "healthy"].append(number)
        runs.append(run_of(number, figures))
    return found


def summaries(folder: Path, count: int, metrics: int) -> Iterator[Path]:
    """Write the summaries of so many nights of eight devices, and yield their paths."""
    draw = random.Random(0)  # noqa: S311  the same every time
    for number in range(count):
        place = folder / f"node-{number:04}"
        place.mkdir()
        figures = {
            f"metric.{name} GB/s {name:08x}": {
                each.uuid: round(3000 * (1 + draw.gauss(0, 0.01)), 2) for each in DEVICES
            }
            for name in range(metrics)
        }
        told = {
            "schema": 1,
            "started": f"{(FIRST_NIGHT + timedelta(days=number)).isoformat()}T02:00:00+00:00",
            "host": "node",
            "state": "finished",
            "line": "ACCEPTED 8/8 devices as h100-sxm at quick",
            "result": "ACCEPTED",
            "filtered": False,
            "sku": "h100-sxm",
            "terms": {"level": "quick", "torch": "2.9", "driver": "580"},
            "simulated": False,
            "judged_again": False,
            "devices": structured.plain(DEVICES),
            "rejected": [],
            "figures": figures,
        }
        path = place / SUMMARY
        path.write_text(json.dumps(told))
        yield path


def main() -> None:
    """Age devices, and read a year."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", type=float, default=0.004, help="share that the device loses a month")
    parser.add_argument("--seeds", type=int, default=3, help="how many times two years are drawn")
    parser.add_argument("--nights", type=int, default=365, help="nights whose summaries are read")
    options = parser.parse_args()
    for metric, (_, _, deviation) in FAMILIES.items():
        every = [nights_found(metric, options.loss, seed) for seed in range(options.seeds)]
        for which in ("first", "last"):
            firsts = [each[which][0] for each in every if each[which]]
            when = f"from night {statistics.median(firsts):.0f}" if firsts else "never"
            share = statistics.mean(len(each[which]) / NIGHTS for each in every)
            print(
                f"{metric}, nights differ by {deviation:.1%}: by the {which} run {when}, in {share:.0%} of the nights"
            )
        alarms = sum(len(each["healthy"]) for each in every)
        judged = options.seeds * NIGHTS * 2 * (len(DEVICES) - 1)
        print(f"{metric}: {alarms} findings on healthy devices in {judged} verdicts")
    with tempfile.TemporaryDirectory() as made:
        sizes = [path.stat().st_size for path in summaries(Path(made), options.nights, 40)]
        began = time.perf_counter()
        earlier = earlier_records.read(Path(made) / "now")
        seconds = time.perf_counter() - began
    print(f"{len(earlier.summaries)} summaries of {statistics.mean(sizes) / 1000:.1f} kB read in {seconds:.2f} s")


if __name__ == "__main__":
    main()
