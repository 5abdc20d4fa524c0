"""The shares that the cause of a shortfall states, against what a simulated device really lost by each fault."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import in_process

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.judging.causes import diagnosis
from pytest_accel.judging.causes import shares as causes
from pytest_accel.judging.causes.clock_losses import JOINT
from pytest_accel.run.session import Session
from pytest_accel.simulate.faults import FAULTS, Symptoms, Throttle
from pytest_accel.simulate.model import CAPPED_CLOCK, Model

CASES = 60
SICK = 3
"""Devices of a node of eight that have faults: the median is that of a healthy one."""
WITHIN = 0.10
"""The largest deviation of a share that is allowed."""
WITHIN_BY_READINGS = 0.12
"""The same beside a hardware slowdown without a name: it has no counter, and only readings tell how long it held."""
CLOCK_LOSS = 0.035
"""The loss of clock from which on it is stated, a little beyond the one at which a clock counts as low."""
METRIC, ROWS, SEED = "matmul.bf16", 12, 20261123
READINGS_APART = 2
"""Blocks of 50 ms from one reading to the next, so that the sensor reads ten times in a simulated second."""

COMING = {
    "nvidia": ("hw", "sw", "memory", "regulators", "power-brake", "hw-slowdown"),
    "amd": ("hw", "sw", "memory", "regulators", "power-brake"),
}
"""Throttles that come and go: kinds of thermal-slowdown, and other faults."""
UNNAMED_BESIDE = ("hw", "regulators", "power-brake")
"""Throttles beside which no library shows a hardware slowdown without a name: the bit of all of them is the same."""
CONSTANT = {
    "nvidia": ("clock-limited", "clock-locked", "sync-boost", "power-cap-lowered"),
    "amd": ("clock-limited", "clock-locked", "power-cap-lowered"),
}
OF_COUNTER = {"memory_thermal_s": "sw_thermal_s", "regulators_thermal_s": "hw_thermal_s", "": "hw_slowdown_s"}
"""The reason that a library states for what a simulated device counts, where it is another one. A power brake reaches
an AMD GPU as PROCHOT, which is HW thermal."""
OF_CONSTANT = {
    "clock-limited": causes.UNEXPLAINED,
    "clock-locked": causes.LOCK,
    "sync-boost": "sync_boost",
    "power-cap-lowered": causes.LOWERED_LIMIT,
}
SKUS = {"nvidia": ("h100-sxm", "hgx8"), "amd": ("mi300x", "oam8")}


@dataclass
class Case:
    """One device with its faults."""

    place: int
    vendor: str
    faults: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        for fault in self.faults:
            yield f"  - {{device: {self.place}, {fault}}}"


def throttles(fault: str, parameters: Mapping[str, Any]) -> Symptoms:
    """The symptoms of a device with one fault."""
    symptoms = Symptoms()
    FAULTS[fault].apply(symptoms, **parameters)
    return symptoms


def named(vendor: str, throttle: Throttle) -> str:
    """The reason that the library states for a throttle."""
    name = OF_COUNTER.get(throttle.counter, throttle.counter)
    return "hw_thermal_s" if (vendor, name) == ("amd", "hw_power_brake_s") else name


def reason(vendor: str, kind: str) -> str:
    """The reason that the library states for a kind of throttle."""
    of = throttles(kind, {}) if kind in FAULTS else throttles("thermal-slowdown", {"kind": kind})
    return named(vendor, of.throttles[0])


def drawn(draw: random.Random, place: int, vendor: str) -> Case:
    """One to three throttles of random kind, depth and share, sometimes one that is there all the time, or neither."""
    case = Case(place, vendor)
    kinds = draw.sample(COMING[vendor], draw.choice((0, 1, 1, 2, 2, 3)))
    if "hw-slowdown" in kinds:
        kinds = [kind for kind in kinds if kind not in UNNAMED_BESIDE]
    kinds = [
        kind for at, kind in enumerate(kinds) if reason(vendor, kind) not in {reason(vendor, k) for k in kinds[:at]}
    ]
    for kind in kinds:
        share = draw.uniform(0.1, 0.8)
        by = share * draw.uniform(0.1, 0.6)
        fault = kind if kind in FAULTS else f"thermal-slowdown, kind: {kind}"
        case.faults.append(f"fault: {fault}, by: {by:.4f}, share: {share:.4f}")
    if draw.random() < (0.3 if kinds else 0.7):
        case.faults.append(f"fault: {draw.choice(CONSTANT[vendor])}, by: {draw.uniform(0.08, 0.3):.4f}")
    if draw.random() < 0.2 or not case.faults:
        case.faults.append(f"fault: slow-compute, by: {draw.uniform(0.08, 0.2):.4f}")
    return case


def lost_by(model: Model, place: int, start: float, end: float) -> dict[str, float]:
    """What each reason took of a device's clock from `start` to `end`: the mean of the logarithm, from each fault."""
    lost: dict[str, float] = {}
    number = 0
    for fault in (each for each in model.faults if place in each.devices):
        symptoms = throttles(fault.name, fault.parameters)
        if symptoms.clock < 1:
            name = OF_CONSTANT[fault.name]
            lost[name] = lost.get(name, 0.0) - math.log(symptoms.clock)
        for throttle in symptoms.throttles:
            name, held = named(model.vendor, throttle), model.held(throttle, place, number, start, end)
            lost[name] = lost.get(name, 0.0) - math.log(1 - throttle.depth) * held / (end - start)
            number += 1
    return lost


def stated(sentence: str, device: Device) -> dict[str, float]:
    """The shares that a sentence states, by reasons."""
    reasons = [*diagnosis.WORDS, *([causes.LOWERED_LIMIT] if causes.is_lowered(device) else [])]
    words = {diagnosis.reason_words(reason, device): reason for reason in reasons}
    listed = re.search(r"of which (.*?)(; | \(0\.|$)", sentence)
    found = {}
    for part in re.split(r"(?<=%)(?: \(normal\))?, ", listed[1]) if listed else []:
        text, share = re.fullmatch(r"(.*) (\d+)%(?: \(normal\))?", part).groups()  # type: ignore[union-attr]
        names = text.removesuffix(" together").split(" and ") if text.endswith(" together") else [text]
        found[JOINT.join(words[name] for name in names)] = int(share) / 100
    return found


def run(cases: list[Case], vendor: str, folder: Path, seed: int) -> tuple[Session, Model]:
    """Measure products on a node of eight with these cases."""
    sku, platform = SKUS[vendor]
    lines = [f"sku: {sku}", f"platform: {platform}", f"seed: {seed}", "faults:"]
    folder.mkdir()
    path = folder / "node.yaml"
    path.write_text("\n".join([*lines, *(line for case in cases for line in case.lines())]) + "\n", encoding="utf-8")
    here, _ = in_process.run(path, folder / "out", measured=("matmul",))
    assert isinstance(here.pool, in_process.InlinePool)
    return here, here.pool.model


def explained(here: Session, metric: str) -> Iterator[tuple[int, Device, Measurement, str]]:
    """Place, device, last measurement and cause of every device, as the verdict states it where it falls short."""
    explain = diagnosis.explaining(here.target.devices)
    attempts = [here.ledger.attempts(metric, device.uuid) for device in here.target.devices]
    for place, (device, own) in enumerate(zip(here.target.devices, attempts, strict=True)):
        together = [each for each in own if each.how == "together"]
        found = explain(together[-1], here.target.terms.limits.get(metric), attempts)
        yield place, device, together[-1], found.text if found else ""


@dataclass
class Found:
    """What came of one device."""

    case: Case
    sentence: str
    said: Mapping[str, float]
    lost: Mapping[str, float]

    @property
    def real(self) -> dict[str, float]:
        whole = math.fsum(self.lost.values())
        return {name: part / whole for name, part in self.lost.items()} if whole else {}

    @property
    def off(self) -> float:
        """The largest difference of a share; reasons that are told together count together."""
        told = {each for names in self.said for each in names.split(JOINT)}
        parts = {names: math.fsum(self.real.get(each, 0.0) for each in names.split(JOINT)) for names in self.said}
        apart = [abs(share - parts[names]) for names, share in self.said.items()]
        return max([*apart, *(share for name, share in self.real.items() if name not in told)], default=0.0)

    @property
    def allowed(self) -> float:
        return WITHIN_BY_READINGS if "hw_slowdown_s" in self.lost else WITHIN

    @property
    def blamed(self) -> set[str]:
        """The reasons that are named and that no fault of the device stands for."""
        told = {each for names in self.said for each in names.split(JOINT)}
        return told - set(self.real) - {causes.POWER_CAP, causes.UNEXPLAINED}

    def row(self) -> str:
        shown = ", ".join(f"{name} {self.real.get(name, 0.0):.2f}" for name in self.real)
        return f"{100 * self.off:4.1f}  {self.case.vendor:6}  {shown:70}  {self.sentence}"


def found_in(here: Session, model: Model, cases: Mapping[int, Case]) -> Iterator[Found]:
    for place, device, measured, sentence in explained(here, METRIC):
        start, end = (at - model.epoch for at in (measured.ended - measured.details["ends"][-1], measured.ended))
        case = cases.get(place, Case(place, model.vendor))
        lost = lost_by(model, place, start, end)
        if f"of {model.clock_mhz:.0f} MHz" in sentence:  # as fast as its neighbours, so compared with its highest clock
            cap = causes.LOWERED_LIMIT if causes.LOWERED_LIMIT in lost else causes.POWER_CAP
            lost[cap] = lost.get(cap, 0.0) - math.log(CAPPED_CLOCK)
        yield Found(case, sentence, stated(sentence, device), lost)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """What came of the cases, and of the healthy devices beside them."""
    draw, folder = random.Random(SEED), tmp_path_factory.mktemp("nodes")  # noqa: S311  the same every time
    every: list[Found] = []
    with pytest.MonkeyPatch.context() as patch, in_process.fast():
        patch.setattr(in_process, "BLOCKS_BETWEEN_READINGS", READINGS_APART)
        patch.setattr(in_process, "required", lambda here, probe: ["bf16"] if probe == "matmul" else [])
        for number in range(math.ceil(CASES / SICK)):
            vendor = ("nvidia", "amd")[number % 2]
            cases = {place: drawn(draw, place, vendor) for place in draw.sample(range(8), SICK)}
            here, model = run(list(cases.values()), vendor, folder / str(number), number)
            every += found_in(here, model, cases)
    return every


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_stated_shares_are_those_of_the_faults(found: list[Found]) -> None:
    sick = [each for each in found if each.case.faults]
    told = sorted((each for each in sick if each.said), key=lambda each: -each.off)
    print(f"\n{len(sick)} cases, {len(told)} with shares; points off, lost by each fault, sentence:")  # noqa: T201
    print(*(each.row() for each in told[:ROWS]), sep="\n")  # noqa: T201
    assert len(sick) >= CASES
    assert [each.row() for each in told if each.off > each.allowed] == []
    assert [each.row() for each in sick if not each.said and math.fsum(each.lost.values()) > CLOCK_LOSS] == []


@pytest.mark.nightly
def test_none_is_blamed_without_evidence(found: list[Found]) -> None:
    """A healthy device has its power cap named at most, and what no reason stands for is unexplained."""
    assert [each.row() for each in found if each.blamed] == []
    slow = [each for each in found if each.case.faults and all("slow-compute" in text for text in each.case.faults)]
    assert slow
    assert [each.row() for each in slow if each.said or "unexplained" not in each.sentence] == []
    limited = [each for each in found if set(each.lost) == {causes.UNEXPLAINED}]
    assert limited
    assert [each.row() for each in limited if set(each.said) != {causes.UNEXPLAINED}] == []
