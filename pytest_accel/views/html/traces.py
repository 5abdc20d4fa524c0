"""Clock, power, temperature and throttle reasons over the soak, from the sensor's readings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import median
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.measurement import Measurement, Names, finite
from pytest_accel.core.run import Run
from pytest_accel.judging.facts.telemetry import NAMED, REASONS
from pytest_accel.views.html.blocks import POINTS, Plot, rounded, spans

Reading = Mapping[str, Any]

SOAK = "soak.rate"
"""The metric whose measurements are the soak."""
BESIDE = 2.0
"""Seconds before and after the soak that are shown as well."""

GAUGES = {
    "clock_mhz": ("Clock", "MHz"),
    "power_w": ("Power", "W"),
    "temperature_c": ("Temperature", "C"),
    "memory_temperature_c": ("Temperature of the memory", "C"),
}
"""The readings that are drawn: title and unit."""

LABELS = {
    ClockEvent.SW_POWER_CAP: "Power limit (normal under full load)",
    ClockEvent.SW_THERMAL: "Heat: slowed down by the driver",
    ClockEvent.HW_THERMAL: "Heat: slowed down by the device itself",
    ClockEvent.HW_POWER_BRAKE: "Power brake of the board",
    ClockEvent.HW_SLOWDOWN: "Slowed down by the device itself, no reason stated",
    ClockEvent.SYNC_BOOST: "Sync boost: the clock follows other devices",
    ClockEvent.APPLICATION_CLOCKS: "Application clocks are set",
}
"""The reasons for a low clock that are drawn; that the device idles is none."""


@dataclass(frozen=True)
class TraceWindow:
    """The part of a run whose readings are drawn, in seconds since the epoch."""

    start: float
    end: float
    of_soak: bool

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start

    @property
    def began(self) -> str:
        """Its begin as a time."""
        try:
            return datetime.fromtimestamp(self.start, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        except (OverflowError, ValueError, OSError):
            return "a time that no calendar has"


Strip = tuple[str, str, str]
"""The time for which one reason held on one device: its name, the stretches as the path of a graphic that is POINTS
wide and 10 high, and the duration in words."""


@dataclass(frozen=True)
class Traces:
    """The plots of a window, and the throttle reasons that occurred."""

    window: TraceWindow
    plots: list[Plot]
    reasons: list[tuple[str, bool, list[Strip]]]
    """Label, whether it is normal, and a strip for each device."""


@dataclass
class _Lane:
    """The readings of one device, gathered in POINTS parts of the window."""

    gauges: dict[str, dict[int, tuple[float, float]]] = field(default_factory=dict)
    """The lowest and the highest value by part, by gauge."""
    parts: dict[ClockEvent, set[int]] = field(default_factory=dict)
    """The parts in which each reason was seen."""
    readings: int = 0
    counts: dict[ClockEvent, int] = field(default_factory=dict)
    """The number of readings that showed each reason."""
    part: int = -1
    """The part of the last reading."""
    active: set[ClockEvent] = field(default_factory=set)
    """The reasons that the last reading showed; they hold until the next one."""
    first: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    """The first and the last reading of every counter of seconds."""


def window(record: Run) -> TraceWindow | None:
    """Return the time of the soak, or that of all measurements where there was none; None if nothing was measured."""
    measurements = [measurement for measurement in record.measurements if measurement.ended > measurement.started > 0]
    soaks = [measurement for measurement in measurements if measurement.metric == SOAK]
    drawn = soaks or measurements
    if not drawn:
        return None
    start, end = min(measurement.started for measurement in drawn), max(measurement.ended for measurement in drawn)
    return TraceWindow(start - BESIDE, end + BESIDE, bool(soaks))


def traces(readings: Iterable[Reading], window: TraceWindow, names: Names) -> Traces:
    """Return the plots and strips of the readings within a window. Readings of unknown devices are passed over."""
    lanes: dict[str, _Lane] = {}
    for reading in readings:
        time, uuid = finite(reading.get("at")), reading.get("uuid")
        if time is not None and isinstance(uuid, str) and uuid in names and window.start <= time < window.end:
            part = min(POINTS - 1, int((time - window.start) / window.seconds * POINTS))
            _gather(lanes.setdefault(uuid, _Lane()), part, reading)
    ordered = [(name, lanes[uuid]) for uuid, name in names.items() if uuid in lanes]
    plots = [plot for gauge in GAUGES if (plot := _plot(gauge, ordered, window))]
    reasons = [
        (label, event is ClockEvent.SW_POWER_CAP, [_strip(name, lane, event) for name, lane in ordered])
        for event, label in LABELS.items()
        if any(lane.parts.get(event) for _, lane in ordered)
    ]
    return Traces(window, plots, reasons)


def _gather(lane: _Lane, part: int, reading: Reading) -> None:
    """Add a reading to the lane of its device."""
    lane.readings += 1
    for gauge in GAUGES:
        value = finite(reading.get(gauge))
        if value is not None:
            ranges = lane.gauges.setdefault(gauge, {})
            low, high = ranges.get(part, (value, value))
            ranges[part] = min(low, value), max(high, value)
    since = lane.part if lane.part >= 0 else part
    for event in lane.active:
        lane.parts.setdefault(event, set()).update(range(since, part))
    lane.active = _shown_by(reading.get("reasons"))
    for event in lane.active:
        lane.parts.setdefault(event, set()).add(part)
        lane.counts[event] = lane.counts.get(event, 0) + 1
    for name, event in REASONS.items():
        value = finite(reading.get(name))
        if value is None:
            continue
        if value > lane.last.get(name, value):
            lane.parts.setdefault(event, set()).update(range(min(since + 1, part), part + 1))
        lane.first.setdefault(name, value)
        lane.last[name] = value
    lane.part = part


def _shown_by(mask: object) -> set[ClockEvent]:
    """Return the reasons in the mask of a reading, without a hardware slowdown whose reason is stated beside it."""
    if not isinstance(mask, int) or isinstance(mask, bool):
        return set()
    return {event for event in LABELS if mask & event and not (event is ClockEvent.HW_SLOWDOWN and mask & NAMED)}


def _plot(gauge: str, lanes: list[tuple[str, _Lane]], window: TraceWindow) -> Plot | None:
    """Return the plot of one gauge: of each part of the window the value farthest from the median of the device."""
    having = [(name, lane.gauges[gauge]) for name, lane in lanes if gauge in lane.gauges]
    if not having:
        return None
    parts = sorted({part for _, ranges in having for part in ranges})
    series = []
    for name, ranges in having:
        middle = median((low + high) / 2 for low, high in ranges.values())
        values = {part: max(pair, key=lambda value: abs(value - middle)) for part, pair in ranges.items()}
        series.append((name, [rounded(values[part]) if part in values else None for part in parts]))
    title, unit = GAUGES[gauge]
    x = [rounded((part + 0.5) * window.seconds / POINTS, 4) or 0 for part in parts]
    period = "the soak" if window.of_soak else "the run"
    return Plot(
        f"trace-{gauge}", title, unit, "s", x, series, text=f"{title} of {len(series)} devices in {unit} over {period}."
    )


def _strip(name: str, lane: _Lane, event: ClockEvent) -> Strip:
    parts = lane.parts.get(event, set())
    stretches = spans(part in parts for part in range(POINTS))
    path = "".join(f"M{begin} 0h{end - begin}v10h-{end - begin}z" for begin, end in stretches)
    counters = [counter for counter, cause in REASONS.items() if cause is event and counter in lane.last]
    if counters:
        how_long = f"{max(0.0, lane.last[counters[0]] - lane.first[counters[0]]):.3g} s"
    else:
        how_long = f"{lane.counts.get(event, 0) / max(1, lane.readings):.0%} of the readings"
    return name, path, how_long if parts else "never"


COUNTED = ("hw_thermal_s", "sw_thermal_s", "hw_power_brake_s", "sw_power_cap_s")
"""The seconds of a measurement in which the clock was lowered for a reason, as the sensor's readings sum them up."""


def summarised(record: Run) -> list[Measurement]:
    """Return the attempts at the soak for which the record itself sums up the sensor's readings.

    None if it says nothing of clock, power and temperature, as of processors.
    """
    soaks = [soak for soak in record.measurements if soak.metric == SOAK and soak.details.get("telemetry")]
    fields = {name for soak in soaks for name, value in soak.details["telemetry"].items() if value is not None}
    return soaks if fields & {*COUNTED, "clock_mhz", "power_w", "temperature_c"} else []
