"""The model of a node: how fast its devices are, how much they vary, how warm they get. Pure.

Healthy rates come from the threshold file. A value that no file has is assumed here, and marked as assumed in the
record.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core import simulated
from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.measurement import is_time
from pytest_accel.core.metric_name import parse
from pytest_accel.core.sku_types import DeclaredBy, Limit
from pytest_accel.probes.declare import Cost, Declaration, conditions_of, declaration_of, declarations
from pytest_accel.simulate.faults import FAULTS, Symptoms, Throttle
from pytest_accel.simulate.node import PlantedFault, SimulatedNode
from pytest_accel.skus import peaks

SPREAD = {"compute": 0.01, "memory": 0.003, "host": 0.003, "link": 0.001}
"""Standard deviation between healthy devices, relative; about 1 % in reference measurements where power limits them.
Draws are limited to two standard deviations."""
NOISE = {"compute": 0.006, "memory": 0.003, "host": 0.004, "link": 0.001}
"""Standard deviation from block to block, relative; 0.5 to 1 % in reference measurements with blocks of 50 ms."""
LAG_1 = 0.45
"""Autocorrelation of successive blocks, 0.3 to 0.6 in reference measurements."""
LOAD = {"compute": 1.0, "memory": 0.7, "host": 0.3, "link": 0.5, "": 0.1}
"""Power under load as a share of the power limit, by the part that does the work; "" is idle."""
COOLANT_C, KELVIN_AT_LIMIT, TAU_S = 30.0, 36.0, 30.0
"""Assumed: inlet temperature, temperature rise at the power limit, time constant of a heat sink."""
PERIOD_S = (1.2, 2.4)
"""Assumed: the shortest and the longest period in which a throttle comes and goes. A product of the quick level, which
takes 5 s, sees some periods of it."""
CAPPED_SHARE, CAPPED_CLOCK = 0.9, 0.8
"""Assumed: share of the time in which power limits a matrix product, and share of the highest clock then."""


@dataclass(frozen=True)
class Rate:
    """A healthy value and its source."""

    value: float
    source: str


SLOWDOWN_C = 87.0
"""Assumed: temperature in degrees Celsius at which the hardware slows down; the margin is counted from it."""


@dataclass(frozen=True)
class Model:
    """The data that the processes of a simulated node need, made of JSON types so that they fit through a pipe."""

    product: str
    kinds: list[str]
    """SKU and architecture, and "guest" for virtual functions, by which a library answers otherwise."""
    pci_id: str
    pci_subsystem: str
    compute_units: int
    links: int
    link_type: str
    link_gb_per_s: float
    """Rate of one link in GB/s for each direction, 0 if the platform has none."""
    memory_bytes: int
    watts: float
    watts_min: float
    watts_max: float
    clock_mhz: float
    memory_clock_mhz: float
    slowdown_c: float
    """Temperature at which the hardware slows down, assumed where the datasheet has none."""
    memory_bus_bits: int
    """Width of the memory's bus, 0 if no file states it."""
    pcie_gen: int
    pcie_lanes: int
    nics: int
    """NICs of the node, each of the rate below; 0 if the platform states none."""
    nic_gbit_per_s: float
    devices: int
    seed: int
    rates: Mapping[str, Rate]
    faults: tuple[PlantedFault, ...]
    epoch: float
    """Seconds since the epoch when simulated time began."""
    board: str
    """Path of the file that the processes share."""

    @staticmethod
    def read(fields: Mapping[str, Any]) -> Model:
        """Return the model from the fields of a message."""
        rates = {metric: Rate(**rate) for metric, rate in fields["rates"].items()}
        faults = tuple(PlantedFault(**{**fault, "devices": tuple(fault["devices"])}) for fault in fields["faults"])
        return Model(**{**fields, "rates": rates, "faults": faults})

    @property
    def vendor(self) -> str:
        """Vendor of the devices: "amd" or "nvidia"."""
        return "amd" if self.pci_id.startswith("1002:") else "nvidia"

    def part(self, shows: Mapping[str, Any]) -> str:
        """Return the PCI id ("10de:2330") that a device shows: that of its product, or with a fault another one."""
        vendor, part = self.pci_id.split(":")
        return f"{vendor}:{shows.get('part_id', part)}"

    def uuid(self, slot: int) -> str:
        """Return the UUID of a device. It is the same for one product and seed, and never that of a real device."""
        digest = hashlib.sha256(f"{self.product}/{self.seed}/{slot}".encode()).hexdigest()
        prefix = "" if self.vendor == "amd" else "GPU-"
        return f"{prefix}{simulated.UUID}{digest[:4]}-4{digest[4:7]}-8{digest[7:10]}-{digest[10:22]}"

    def symptoms(self, slot: int, row: Mapping[str, float]) -> Symptoms:
        """Return the symptoms of a device now, from all of its faults that have begun."""
        symptoms = applied(*(fault for fault in self.faults if slot in fault.devices and begun(fault, row)))
        for number, throttle in enumerate(symptoms.throttles):
            symptoms.clock *= throttle.rest
            if self.holds(throttle, slot, number, row["now"]):
                symptoms.clock *= 1 - throttle.depth
                symptoms.draw *= 1 - throttle.depth if throttle.spares_power else 1.0
                symptoms.reasons |= throttle.reasons
        if symptoms.fades:
            symptoms.clock *= 1 - symptoms.fades * max(0.0, (row["temperature_c"] - COOLANT_C) / KELVIN_AT_LIMIT)
        return symptoms

    def holds(self, throttle: Throttle, slot: int, number: int, now: float) -> bool:
        """Return whether a device's throttle of that number holds at a simulated time."""
        period, phase = self._slices(slot, number)
        return (now / period + phase) % 1.0 < throttle.share

    def held(self, throttle: Throttle, slot: int, number: int, start: float, end: float) -> float:
        """Return for how many seconds it holds between two times: `share` of each period, from the phase on."""
        period, phase = self._slices(slot, number)

        def held_until(now: float) -> float:
            periods, part = divmod(now / period + phase, 1.0)
            return period * (periods * throttle.share + min(part, throttle.share))

        return held_until(end) - held_until(start)

    def _slices(self, slot: int, number: int) -> tuple[float, float]:
        """Return the period in seconds of a device's throttle, and its phase, the same for the same seed."""
        drawn = random.Random(f"{self.seed}/{slot}/throttle {number}")  # noqa: S311  the same every time
        return drawn.uniform(*PERIOD_S), drawn.random()

    def of_node(self) -> Symptoms:
        """Return the symptoms of the management library and the host."""
        return applied(*(fault for fault in self.faults if FAULTS[fault.name].of_node))

    def rate(self, metric: str, unit: str) -> Rate:
        """Return the healthy value of a metric; for an unknown metric, that of its unit."""
        matches = (self.rates[name] for name in (metric, parse(metric).base, unit) if name in self.rates)
        return next(matches, Rate(1.0, "assumed: no figure is known"))

    def value(self, metric: str, unit: str, slot: int, symptoms: Symptoms) -> float:
        """Return the mean of a metric on one device, with its deviation from the healthy value and its faults."""
        kind = stressed_part(metric, unit)
        speed = (1 + SPREAD[kind] * self._draw(slot, kind)) * symptoms.speed[kind]
        if kind == "compute":
            speed *= symptoms.clock
        if kind == "host":
            lanes, gen = symptoms.shows.get("pcie_width", self.pcie_lanes), symptoms.shows.get("pcie_gen")
            generations = 0 if gen is None else self.pcie_gen - gen
            speed *= min(1.0, lanes / self.pcie_lanes) * min(1.0, 0.5**generations)
        if kind == "link" and self.links:
            speed *= max(0.01, 1 - symptoms.shows.get("links_down", 0) / self.links)
        speed *= math.prod(share for name, share in symptoms.slow.items() if metric.startswith(name))
        healthy = self.rate(metric, unit).value
        return healthy / speed if unit in ("ms", "s", "us") else healthy * speed

    def _draw(self, slot: int, kind: str) -> float:
        """Return the distance of a device from the mean in standard deviations, the same for the same seed."""
        drawn = random.Random(f"{self.seed}/{slot}/{kind}").gauss(0.0, 1.0)  # noqa: S311  the same every time
        return max(-2.0, min(2.0, drawn))

    def noise(self, slot: int, metric: str, time: int) -> Iterator[float]:
        """Yield factors of the speed, block by block, of a device's measurement number `time`: AR(1) noise around 1."""
        drawn = random.Random(f"{self.seed}/{slot}/{metric}/{time}")  # noqa: S311  the same every time
        deviation = NOISE[stressed_part(metric, "")]
        offset = drawn.gauss(0.0, deviation)
        while True:
            yield 1 + offset
            offset = LAG_1 * offset + drawn.gauss(0.0, deviation * math.sqrt(1 - LAG_1**2))

    def step(
        self, slot: int, row: Mapping[str, float], seconds: float, kind: str, symptoms: Symptoms
    ) -> dict[str, float]:
        """Return the row of a device after `seconds` of load by `kind`; "" is idling."""
        watts = self.watts * symptoms.power * symptoms.draw * LOAD[kind]
        target = COOLANT_C + KELVIN_AT_LIMIT * watts / self.watts + (symptoms.degrees if kind else 0.0)
        before = row["temperature_c"] or COOLANT_C + KELVIN_AT_LIMIT * LOAD[""]
        compute = kind == "compute"
        capped = compute and not symptoms.below_cap
        counters = {**({"sw_power_cap_s": CAPPED_SHARE * seconds} if capped else {})}
        counters |= {counter: share * seconds for counter, share in symptoms.throttled.items() if kind}
        for number, throttle in enumerate(symptoms.throttles if kind else ()):
            if throttle.counter:
                held_seconds = self.held(throttle, slot, number, row["now"], row["now"] + seconds)
                counters[throttle.counter] = min(seconds, counters.get(throttle.counter, 0.0) + held_seconds)
        return {
            "now": row["now"] + seconds,
            "loaded": float(bool(kind)),
            "power_w": watts,
            "temperature_c": target + (before - target) * math.exp(-seconds / TAU_S),
            "clock_mhz": self.clock_mhz * symptoms.clock * (CAPPED_CLOCK if compute else 1.0),
            "energy_j": row["energy_j"] + watts * seconds,
            "reasons": float(
                (symptoms.reasons | (ClockEvent.SW_POWER_CAP if capped else 0)) if kind else ClockEvent.GPU_IDLE
            ),
            **{counter: row[counter] + amount for counter, amount in counters.items()},
        }


def stressed_part(metric: str, unit: str) -> str:
    """Return the part of a device that does the work of a metric: as its probe declares it, else by its unit."""
    probe = declaration_of(metric)
    return probe.stresses[0] if probe and probe.stresses else "memory" if unit == "GB/s" else "compute"


def applied(*faults: PlantedFault) -> Symptoms:
    """Return the symptoms of a device with all of these faults."""
    symptoms = Symptoms()
    for fault in faults:
        FAULTS[fault.name].apply(symptoms, **fault.parameters)
    return symptoms


def begun(fault: PlantedFault, row: Mapping[str, float]) -> bool:
    """Return whether a fault has begun on the device of this row."""
    if fault.probe:
        return 0 <= row[f"began {fault.probe}"] <= row["now"] - fault.seconds
    return row["now"] >= fault.seconds


def model_of(node: SimulatedNode, epoch: float, board: str) -> Model:
    """Return the model of a node. `epoch` is when simulated time begins, `board` the path of the shared file."""
    sku, sheet, platform = node.sku, node.sku.datasheet, node.platform
    match, zeros = sku.match, "10de:0000"
    watts = platform.power_watts or sheet.power.get("watts", 500.0)
    functions, whole_gpus = list(match.get("virtual_functions", ())), list(match.get("pci_ids", ()))
    names = list(match.get("names", ())) or [sku.title]
    return Model(
        product=next((name for name in names if name.endswith(" VF")), names[0]) if platform.virtual else names[0],
        kinds=[sku.name, sku.architecture, *(["guest"] if platform.virtual else [])],
        pci_id=(functions + whole_gpus if platform.virtual else whole_gpus + functions or [zeros])[0],
        pci_subsystem=(match.get("subsystems") or [zeros])[0],
        links=int(platform.link.get("count", 0)),
        link_type=str(platform.link.get("type", "")),
        link_gb_per_s=platform.link.get("gb_per_s", 0.0) / platform.link.get("count", 1),
        compute_units=(match.get("compute_units") or [sheet.compute.get("units", 0)])[0],
        memory_bytes=int(sheet.memory.get("gb", 80) * 1e9),
        watts=watts,
        watts_min=sheet.power.get("min_watts", watts / 2),
        watts_max=platform.power_watts or sheet.power.get("max_watts", watts),
        clock_mhz=sheet.compute.get("max_clock_mhz", 1500.0),
        memory_clock_mhz=sheet.memory.get("clock_mhz", 1500.0),
        slowdown_c=sheet.temperature.get("slowdown_c", SLOWDOWN_C),
        memory_bus_bits=int(sheet.memory.get("bus_bits", 0)),
        pcie_gen=int(platform.pcie.get("gen", 5)),
        pcie_lanes=int(platform.pcie.get("lanes", 16)),
        nics=platform.network.get("nics", 0),
        nic_gbit_per_s=platform.network.get("gbit_per_s", 0.0),
        devices=node.devices,
        seed=node.seed,
        rates=rates(node),
        faults=node.faults,
        epoch=epoch,
        board=board,
    )


def rates(node: SimulatedNode) -> dict[str, Rate]:
    """Return the healthy value of every packaged metric, and of every unit for other metrics."""
    limits = node.sku.limits_on(node.platform)
    values = {metric: rate for metric in limits if (rate := _stated(limits[metric]))}
    for metric in [metric for metric in values if parse(metric).size]:  # other sizes get the largest value
        base = parse(metric).base
        values[base] = max(values.get(base, values[metric]), values[metric], key=lambda rate: rate.value)
    costs = {metric: (declaration, cost) for declaration in declarations() for metric, cost in _costs(declaration)}
    for follows in (False, True):  # first what follows from a peak, then what follows from another metric
        for metric, (declaration, cost) in costs.items():
            if metric not in values and follows is (cost.of not in ("peak", "link")):
                rate = _assumed(node, metric, declaration, cost, values)
                values.update({metric: rate} if rate else {})
    for unit, metric in (("TFLOPS", "matmul.bf16"), ("GB/s", "stream.copy"), ("ms", "ddp.step_ms")):
        if metric in values:
            values[unit] = Rate(values[metric].value, f"assumed: as {metric}")
    return values


def _costs(declaration: Declaration) -> Iterator[tuple[str, Cost]]:
    """Yield the metrics of a packaged probe whose healthy value follows from another figure, and how."""
    for name in (parse(form).base for form in declaration.forms if declaration.packaged):
        if cost := declaration.cost_of(name):
            yield name, cost


def _stated(limit: Limit) -> Rate | None:
    """Return the reference of a limit, or what its floor is derived from: for a class its lowest healthy figure."""
    if limit.relative:
        return None
    declaration, figure, of_class = declaration_of(limit.metric), limit.published, limit.class_floor
    if limit.reference:
        return Rate(limit.reference, f"reference ({limit.origin})")
    if figure and figure.highest is not None:
        return Rate((figure.lowest + figure.highest) / 2, f"published ({limit.origin})")
    if figure and declaration and declaration.derived_floor:
        return Rate(figure.lowest / declaration.derived_floor, f"bar / {declaration.derived_floor:g} ({limit.origin})")
    if of_class and limit.declared_by is DeclaredBy.CLASS:
        value = of_class.value / of_class.share * of_class.lowest
        return Rate(value, f"lowest healthy figure of its class ({limit.origin})")
    if limit.floor and declaration and declaration.derived_floor:
        return Rate(limit.floor / declaration.derived_floor, f"floor / {declaration.derived_floor:g} ({limit.origin})")
    return None


def _assumed(
    node: SimulatedNode, metric: str, declaration: Declaration, cost: Cost, rates: Mapping[str, Rate]
) -> Rate | None:
    """Return the healthy value of a metric as its probe's cost derives it; None where the base is not known."""
    packaged, _ = conditions_of(declaration.function, dict(node.sku.probes.get(declaration.name, {})), {})
    conditions = {**packaged, **dict.fromkeys(declaration.variants, parse(metric).variant)}
    link = node.platform.link
    if cost.of == "peak":
        base, source = peaks.peak(node.sku, metric, node.platform) or (None, "")
    elif cost.of == "link":
        base, source = link.get("gb_per_s"), "the link's rate"
    else:
        source = cost.of.format(**conditions)
        base = rates[source].value if source in rates else None
    if not base:
        return None
    assumed = f"assumed: {f'{cost.share:g} of' if cost.share != 1 else 'as'} {source}"
    if cost.operations and is_time(declaration.unit):
        return Rate(cost.counted(conditions) / (base * cost.share * 1e9), f"{assumed}, for its operations")
    if cost.for_each_link:
        links = 1 if link.get("topology") == "switch" else max(1, node.devices - 1)
        return Rate(links * base, f"assumed: {source} on {links} links at once")
    return Rate(base * cost.share, assumed)
