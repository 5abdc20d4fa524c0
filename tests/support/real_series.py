"""Published series of devices under load (tests/real/series), as measurements of a soak with the sensor's readings."""

from __future__ import annotations

import csv
import lzma
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import cast

from pytest_accel.core.details import Details
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Verdict
from pytest_accel.judging.causes.evidence import with_evidence
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.probes.device.torch_device import ProbeResult
from pytest_accel.probes.soak import droop, slowest_window
from pytest_accel.skus import loader

FOLDER = Path(__file__).parents[1] / "real" / "series"
GFLOP = 1099.51
GPU = Device("GPU-0", 0, "nvidia", "any")
FILLING = 0.03
"""The first one or two seconds count products that were queued before: they differ from the next by more than this."""


@dataclass(frozen=True)
class Series:
    """The rate of one device in TFLOPS and its temperature in C, second by second after `began` seconds of load."""

    run: str
    sku: str
    dtype: str
    gpu: int
    rates: tuple[float, ...]
    celsius: tuple[float, ...]
    began: int = 0

    def cut(self, seconds: int) -> Series:
        """Return the first seconds of the series."""
        return replace(self, rates=self.rates[:seconds], celsius=self.celsius[:seconds])

    def slowed(self, shares: Sequence[float]) -> Series:
        """Return the series with each second's rate lowered by a share of it."""
        return replace(self, rates=tuple(rate * (1 - lost) for rate, lost in zip(self.rates, shares, strict=True)))


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a file."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def gpu_fryer() -> list[Series]:
    """Return all series of gpu-fryer, without the seconds in which its queue filled and the one in which it ended."""
    with lzma.open(FOLDER / "gpu_fryer.csv.xz", "rt", encoding="utf-8") as file:
        return [_series(*line.rstrip().split(",")) for line in list(file)[1:]]


def _series(run: str, sku: str, dtype: str, gpu: str, products: str, temperatures: str) -> Series:
    rates = tuple(int(each) * GFLOP / 1000 for each in products.split())
    celsius = tuple(map(float, temperatures.split()))
    began = next(at for at in range(4) if abs(rates[at] / median(rates[at + 1 : at + 6]) - 1) < FILLING)
    return Series(run, sku, dtype, int(gpu), rates[began:-1], celsius[began:-1], began)


def judged(series: Series, metric: str, *, level: str = "standard") -> Verdict:
    """Return the verdict on the droop or the slowest window of a soak that went as the series did."""
    ends = [float(series.began + place + 1) for place in range(len(series.rates))]
    rate = ProbeResult("soak.rate", "TFLOPS", samples=list(series.rates), details={"ends": ends})
    readings = [{"at": at, "temperature_c": heat} for at, heat in zip(ends, series.celsius, strict=True)]
    result = droop(rate) if metric == "soak.droop_slow" else slowest_window(rate)
    measured = Measurement(
        metric, GPU.uuid, result.unit, result.value, conditions=result.conditions, ended=ends[-1],
        details=cast("Details", result.details),
    )  # fmt: skip
    (found,) = with_evidence(measured, GPU, None, readings=readings, earlier=(), foreign=None, load=None)
    return judge([found], limits(series.sku, level)[metric])


@cache
def limits(sku: str, level: str = "standard") -> dict[str, Limit]:
    """Return the limits of a shipped file at a level."""
    return {metric: limit.at_level(level) for metric, limit in loader.load(sku).limits.items()}
