"""A record that has something of everything that the HTML report shows."""

from __future__ import annotations

import json
import random
from datetime import date
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.details import Gauge
from pytest_accel.core.measurement import NODE, Device, Measurement, Peak
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import DeclaredBy, Limit, Source
from pytest_accel.core.verdict import Closing, Comparison, Result, Status, Verdict, Waiver
from pytest_accel.run.record import FILE, TELEMETRY, write
from support.data_files import tables
from support.reasons import worded

_PARTS = tables("report-record")
BEGAN = 1_795_461_200.0
SOAK_SECONDS = 60.0
SLOW, MEDIAN = 3, 704.9
"""The device that is too hot and slow."""

SOURCE = Source(
    "published",
    "somebody/guide",
    "2026-11-22",
    software="tool 1.0",
    conditions="all at once",
    method={"data": "normal"},
)
FLOOR = Limit(
    "matmul.bf16",
    "TFLOPS",
    floor=650.0,
    reference=703.0,
    healthy=(676.0, 730.0),
    of_reference=0.96,
    source=SOURCE,
    origin="h100-sxm.yaml:94",
)
COUNTED = Limit(
    "counters.nvlink_crc", "count", equals=0, origin="vendor/nvidia.yaml:9", declared_by=DeclaredBy.VENDOR_FILE
)
WAIVER = Waiver("host.acs", "the switch needs it", "Ada", date(2027, 1, 31), origin="waivers.yaml:2")


def device(place: int) -> Device:
    return Device(
        f"GPU-{place:04}-aa55",
        place,
        "nvidia",
        "NVIDIA H100 80GB HBM3",
        80 * 10**9,
        f"16500{place}",
        "10de:2330",
        f"0000:{place:02x}:00.0",
        facts={"vbios": "96.00.A5.00.03"},
    )


def blocks(place: int, number: int, attempt: int = 1) -> tuple[float, ...]:
    """Rates of matrix products: device SLOW lacks a tenth."""
    drawn = random.Random(f"{place}/{attempt}")  # noqa: S311  the same every time
    return tuple(drawn.gauss(630.0 if place == SLOW else 705.0, 3.0) for _ in range(number))


def measured(place: int, number: int = 40, attempt: int = 1, metric: str = "matmul.bf16") -> Measurement:
    samples = blocks(place, number, attempt)
    return Measurement(
        metric,
        device(place).uuid,
        "TFLOPS",
        sum(samples) / len(samples),
        samples,
        tuple(30 / each for each in samples),
        Peak(989.4, "bf16 datasheet peak"),
        {"shape": "8192x8192x8192", "data": "normal(0, 1)"},
        started=BEGAN,
        ended=BEGAN + 5,
    )


def soaked(place: int) -> Measurement:
    heat = Gauge(mean=60.0, min=40.0, max=88.0 if place == SLOW else 66.0)
    return Measurement(
        "soak.rate",
        device(place).uuid,
        "TFLOPS",
        700.0,
        (700.0, 701.0),
        (0.1, 0.1),
        started=BEGAN + 10,
        ended=BEGAN + 10 + SOAK_SECONDS,
        details={"telemetry": {"readings": 60, "temperature_c": heat}},
    )


def copied(place: int, devices: int) -> Measurement:
    row = {
        f"gpu{other}": 190.0 if SLOW in (place, other) else 378.0 + other / 10
        for other in range(devices)
        if other != place
    }
    return Measurement("peer_copy.one_way", device(place).uuid, "GB/s", min(row.values()), details={"row": row})


def judged(place: int) -> Verdict:
    value = sum(blocks(place, 40)) / 40
    margin = value / 650.0 - 1
    status = Status.PASS if margin > 0 else Status.FAIL
    why = "" if margin > 0 else "; clock 1420 of 1584 MHz, of which HW thermal 100%"
    sentence = f"{value:.1f} TFLOPS, floor 650 TFLOPS ({margin:+.1%}){why}"
    return Verdict(
        "matmul.bf16",
        device(place).uuid,
        status,
        worded(sentence),
        "TFLOPS",
        value,
        650.0,
        margin=margin,
        of_peak=value / 989.4,
        limit=FLOOR,
        neighbours=Comparison(1 - value / MEDIAN, 0.09, MEDIAN, 7),
        attempts=2 if margin < 0 else 1,
    )


def others() -> list[Verdict]:
    """Verdicts of every other status."""
    first = device(0).uuid
    near = Limit("stream.triad", "GB/s", floor=2700.0, origin="h100-sxm.yaml:164")
    close = {"unit": "GB/s", "value": 2710.0, "floor": 2700.0, "margin": 0.004, "limit": near}
    foreign = {"unit": "GB/s", "value": 40.0, "floor": 52.0, "margin": -0.2, "limit": near}
    acs = {"unit": "text", "value": "enabled", "expected": "disabled", "limit": COUNTED, "waiver": WAIVER}
    told: list[tuple[str, str, Status, str, dict[str, Any]]] = [
        ("stream.triad", first, Status.MARGINAL, "2710 GB/s, within 2% of it", close),
        ("host_copy.h2d", first, Status.INCONCLUSIVE, "a foreign process took 40% of the time", foreign),
        ("health.fabric", first, Status.UNMEASURED, "nvidia-fabricmanager is not installed", {"limit": COUNTED}),
        ("peer_copy.both", first, Status.NOT_APPLICABLE, "one device is expected here", {}),
        ("soak.power", first, Status.NOT_APPLICABLE, "measured, no limit", {"unit": "W", "value": 700.0}),
        ("host.acs", NODE, Status.FAIL, "enabled, expected disabled", acs),
    ]
    return [Verdict(metric, subject, status, worded(text), **more) for metric, subject, status, text, more in told]


def record(devices: int = 8, number: int = 40, metrics: int = 1) -> Run:
    """Return the record of a rejected node; more `metrics` repeat the first one under other names."""
    places = range(devices)
    names = ["matmul.bf16", *(f"matmul.other{each}" for each in range(metrics - 1))]
    facts = [
        Verdict("counters.nvlink_crc", device(each).uuid, Status.PASS, (), "count", 0, expected=0, limit=COUNTED)
        for each in places
    ]
    return Run(
        info=_PARTS["info"],
        sku=_PARTS["sku"],
        devices=[device(each) for each in places],
        software=_PARTS["software"],
        measurements=[
            *(measured(each, number, metric=name) for name in names for each in places),
            measured(SLOW, number, attempt=2),
            *map(soaked, places),
            *(copied(each, devices) for each in places),
        ],
        verdicts=[*map(judged, places), *facts, *others()],
        waivers={"file": "waivers.yaml", "sha256": "ab12", "used": [WAIVER]},
        notes=["a note of the run"],
        earlier_attempts=_PARTS["earlier_attempts"],
        state="finished",
        closing=Closing(
            line="REJECTED gpu3: matmul.bf16 630.1 TFLOPS, floor 650 TFLOPS (-3.1%)",
            exit=1,
            result=Result.REJECTED,
        ),
    )


def readings(devices: int = 8, seconds: float = SOAK_SECONDS + 15) -> list[dict[str, Any]]:
    """What the sensor read, twice a second: device SLOW is slowed down by heat for five seconds of the soak."""
    found = []
    for step in range(int(2 * seconds)):
        at = BEGAN + step / 2
        for place in range(devices):
            hot = place == SLOW and 30 <= step / 2 < 35
            reasons = int(ClockEvent.HW_THERMAL | ClockEvent.HW_SLOWDOWN) if hot else int(ClockEvent.SW_POWER_CAP)
            found.append(
                {
                    "event": "reading",
                    "uuid": device(place).uuid,
                    "at": at,
                    "clock_mhz": 1000 if hot else 1584,
                    "power_w": 699.5,
                    "temperature_c": 88 if hot else 66,
                    "reasons": reasons,
                }
            )
    return found


def saved(folder: Path, found: Run, lines: list[dict[str, Any]] | None = None) -> Path:
    """Write a record with its readings into a folder, and return the file of the record."""
    folder.mkdir(parents=True, exist_ok=True)
    side = folder / TELEMETRY
    side.write_text("".join(f"{json.dumps(each)}\n" for each in (readings() if lines is None else lines)))
    found.telemetry = {"file": TELEMETRY, "sha256": untrusted.sha256(side)}
    write(found, folder)
    return folder / FILE


HOSTILE = "<img src=x onerror=\"document.title='owned'\">'\"</script></style>--><b>\x1b[2J\x07\u202e"
"""Markup, ends of elements, quotes, an escape sequence, and an override of the writing direction."""

VISIBLE = HOSTILE.partition("\x1b")[0]
"""Without invisible characters, with which a serial number is refused."""


def made_hostile(raw: Any, key: str = "") -> Any:
    """Return the content of a record with hostile text in every place where a record can hold text.

    A serial number or UUID with an invisible character is refused by the reader, so theirs has none.
    """
    if isinstance(raw, dict):
        return {(HOSTILE + name if key in _PARTS["open"] else name): made_hostile(of, name) for name, of in raw.items()}
    if isinstance(raw, list):
        return [made_hostile(each, key) for each in raw]
    if not isinstance(raw, str) or key in _PARTS["fixed"]:
        return raw
    return (VISIBLE if key == "serial" else HOSTILE) + raw
