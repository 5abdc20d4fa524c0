"""Records of drawn nodes, as a run leaves them: four metrics of eight devices, with what `calibrate` reads."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.closing.line import close
from pytest_accel.probes.declare import declarations
from pytest_accel.run.record import FILE, finding_entries, write
from pytest_accel.skus.methods import method_of
from support import shipped
from support.reasons import worded

DEVICES = 8
CENTRES = {
    "stream.triad": ("GB/s", 2950.0, 0.003, 0.001),
    "matmul.bf16": ("TFLOPS", 715.0, 0.012, 0.003),
    "host_copy.h2d": ("GB/s", 55.0, 0.003, 0.001),
    "all_reduce.busbw@8GiB": ("GB/s", 478.0, 0.004, 0.001),
}
"""Unit, centre, and standard deviation between devices and between runs by metric."""


@functools.cache
def budgets() -> Any:
    return shipped.load("h100-sxm").probes


def conditions(metric: str) -> dict[str, Any]:
    found = {**method_of(metric, budgets()), "operations_per_block": 3}
    return {**found, "ranks": 8} if metric.startswith("all_reduce") else found


def record(node: int, run: int = 0, *, short: dict[int, float] | None = None, **changed: Any) -> Run:
    """Return the record of a run of a healthy node; `short` is the share that devices lack in every metric."""
    devices = [
        Device(
            uuid=f"GPU-{node:04}-{place}-aa55",
            index=place,
            driver="nvidia",
            model="NVIDIA H100 80GB HBM3",
            memory_bytes=80 * 10**9,
            serial=f"1650{node:03}{place}",
            pci_id="10de:2330",
            pci_address=f"0000:{place:02x}:00.0",
        )
        for place in range(DEVICES)
    ]
    found = []
    for metric, (unit, centre, between, runs) in CENTRES.items():
        subjects = [NODE] if metric.startswith("all_reduce") else [each.uuid for each in devices]
        for place, subject in enumerate(subjects):
            own = random.Random(f"{node}/{place}/{metric}").gauss(1, between)  # noqa: S311  the same every time
            pace = own * random.Random(f"{node}/{place}/{metric}/{run}").gauss(1, runs)  # noqa: S311
            value = centre * pace * (1 - (short or {}).get(place if len(subjects) > 1 else -1, 0.0))
            found.append(Measurement(metric, subject, unit, value, conditions=conditions(metric)))
    bare = Run(
        info={
            "started": f"2026-11-{1 + run:02}T02:{node:02}:00+00:00",
            "ended": f"2026-11-{1 + run:02}T03:{node:02}:00+00:00",
            "host": f"rack7-n{node:02}",
            "user": "operator",
            "output": f"/srv/burnin/{node}",
            "command": ["pytest", "--accel-sku=h100-sxm"],
            "level": "standard",
            "platform": "hgx8",
        },
        sku={"name": "h100-sxm", "asked": "h100-sxm", "files": {}},
        devices=devices,
        software={"torch": f"2.{7 + run}.0", "driver": "580.95.05", "kernel": "6.8"},
        measurements=found,
        telemetry={"file": "telemetry.jsonl", "sha256": "0" * 64},
        state="finished",
        circumstances=Circumstances(names={each.uuid: each.name for each in devices}),
    )
    made = replace(bare, **changed)
    return made if "closing" in changed else closed(made)


def not_applicable(made: Run) -> list[Verdict]:
    """Return what the packaged suite says besides: no other metric can be measured on these nodes."""
    measured = {each.metric for each in made.measurements}
    packaged = [each for each in declarations() if each.packaged]
    asked = {one for each in packaged for one in [*each.asked()] or [each.forms[0].replace("{fact}", "other")]}
    return [Verdict(each, NODE, Status.NOT_APPLICABLE) for each in sorted(asked - measured)]


def closed(made: Run) -> Run:
    """Return a record with the closing line of its verdicts and circumstances, as a run writes it."""
    closing = close(made.verdicts, made.circumstances or Circumstances())
    return replace(made, closing=closing, findings=finding_entries(made))


def failing(made: Run, metric: str, sentence: str) -> list[Verdict]:
    """Return a verdict that rejects the first device by a fact."""
    return [Verdict(metric, made.devices[0].uuid, Status.FAIL, worded(sentence), unit="count", value=3)]


def save(made: Run, folder: Path) -> Path:
    """Write a record into a folder of its own, and return the file."""
    folder.mkdir(parents=True)
    write(made, folder)
    return folder / FILE
