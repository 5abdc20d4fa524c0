"""The verdicts on one device of eight with slow products: by its clock, its units or both, with a stated torch.

    python benchmarks/one_slow_device.py --torch 2.13.0

Seven devices reach the healthy figure of the SKU within 1 %, at the clock that its power leaves. The eighth lacks 5 to
25 %. Every verdict is the package's own: limits of the SKU on its platform, `judge.Attempts` with the repeat of a run.
Prints Markdown.
"""

from __future__ import annotations

import argparse
from typing import Any

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sku import Sku
from pytest_accel.judging.verdicts.judge import Attempts
from pytest_accel.judging.verdicts.like_devices import kind_of
from pytest_accel.skus import loader

PARTS = {"h100-sxm": ("hgx8", 1400.0), "h200-sxm": ("hgx8", 1465.0), "b200-sxm": ("hgx8", 1339.0),
         "mi300x": ("oam8", 1300.0)}  # fmt: skip
"""Platform and a clock under load, in MHz; only its ratios count."""
METRICS = ("matmul.bf16", "matmul_mamf.bf16")
LOSSES = (0.05, 0.10, 0.15, 0.25)
PACES = (0.0, 1.004, 0.996, 1.01, 0.99, 1.0, 1.002, 0.998)
"""The paces of the healthy devices; the first is the slow one."""


def verdict(sku: Sku, metric: str, loss: float, of_clock: float, torch: str) -> str:
    """Return the verdict on a device that lacks a share of its speed, `of_clock` of it by its clock."""
    platform, mhz = PARTS[sku.name]
    limit = sku.limits_on(sku.platforms[platform]).get(metric)
    centre = (limit.reference or sum(limit.healthy or ()) / 2 or limit.floor or 1.0) * 1.0 if limit else 1.0
    devices = [Device(f"GPU-{place}", place, sku.vendor, sku.name, numa_node=place // 4) for place in range(len(PACES))]
    result = Attempts(kinds={each.uuid: kind_of(each) for each in devices}, spread_of=sku.spread_of)
    for turn in range(2):
        for device, pace in zip(devices, PACES, strict=True):
            share = pace or 1 - loss
            clock = mhz * (share if pace else (1 - loss) ** of_clock) * (1 + 0.001 * turn)
            gauge: Any = {"mean": clock, "min": clock, "max": clock}
            telemetry: Any = {"telemetry": {"seconds": 10.0, "sw_power_cap_s": 9.0, "clock_mhz": gauge}}
            conditions = dict(limit.source.method) if limit and limit.source else {}
            value = centre * share * (1 + 0.001 * turn)
            result.add(Measurement(metric, device.uuid, "TFLOPS", value, conditions=conditions, details=telemetry))
        if not result.short(metric, limit, {"torch": torch}):
            break
    result.repeated = True
    return result.judged(metric, devices[0].uuid, limit, {"torch": torch}).status.value


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default="2.13.0")
    torch = parser.parse_args().torch
    print(f"| SKU | metric | slow by | {' | '.join(f'{loss:.0%}' for loss in LOSSES)} |")
    print(f"| --- | --- | --- |{' --- |' * len(LOSSES)}")
    for name in PARTS:
        sku = loader.load(name)
        for metric in METRICS:
            for way, of_clock in {"clock": 1.0, "units": 0.0, "both": 0.5}.items():
                told = [verdict(sku, metric, loss, of_clock, torch) for loss in LOSSES]
                print(f"| {name} | {metric} | {way} | {' | '.join(told)} |")


if __name__ == "__main__":
    main()
