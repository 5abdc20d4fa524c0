"""Floors of the classes: what they reject alone and beneath other limits, and where there is none.

Everything is asserted of the rows as they are read, so that another figure in thresholds/classes.yaml changes no test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.rows import each_row
from support.shipped import load

from pytest_accel.core.floor import COMPARED, floor_in_force
from pytest_accel.core.measurement import Measurement, Peak
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Basis, ClassFloor, DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.attempts import RequestAttempts, RunAttempts
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.judging.verdicts.smallest_losses import smallest_losses
from pytest_accel.probes.declare import unit_of
from pytest_accel.skus import classes, loader, peaks, resolved

CLASSES = classes.read(loader.SHIPPED / classes.FILE)
ROWS = CLASSES.rows
SOURCE = {"kind": "measured", "by": "us", "date": "2026-11", "devices": 8, "nodes": 1}
NEWER, OLDER = "99.9", "0.1"
"""Versions above and below those of every row."""


@dataclass(frozen=True)
class Place:
    """A metric of a product on a platform, which the floor of a class bounds."""

    row: classes.ClassRow
    sku: Sku
    platform: Platform
    metric: str

    @property
    def floor(self) -> ClassFloor:
        found = self.limit.class_floor
        assert found
        return found

    @property
    def limit(self) -> Limit:
        return self.sku.limits_on(self.platform)[self.metric]

    @property
    def software(self) -> dict[str, str]:
        return dict.fromkeys(self.row.software, NEWER)

    def in_sku(self, sku: Sku) -> Limit:
        """The limit on the metric on the platform of the same name of another SKU."""
        return sku.limits_on(sku.platforms[self.platform.name])[self.metric]

    @property
    def alone(self) -> Limit:
        """The limit of the class where no file limits the metric."""
        return self.in_sku(classes.with_floors(bare(self.sku, without=self.metric), CLASSES))

    def own(self, folder: Path, **limit: Any) -> Limit:
        """The limit of a user's own file on the metric, with the floor of the class beneath it."""
        conditions = {key: value for key, value in self.limit.conditions.items() if key in COMPARED}
        limits = {self.metric: {"unit": self.limit.unit, "source": SOURCE, **conditions, **limit}}
        of_platform = self.metric in self.sku.platforms[self.platform.name].limits
        where = {"platforms": {self.platform.name: {"limits": limits}}} if of_platform else {"limits": limits}
        file = folder / "own.yaml"
        file.write_text(yaml.safe_dump({"sku": "own", "extends": self.sku.name, **where}))
        return self.in_sku(loader.load(str(file)))


def places() -> Iterator[Place]:
    """Yield the first product and platform of every metric of every row that rejects."""
    for row in ROWS:
        for metric in row.metrics:
            every = [(sku, each) for sku in map(load, loader.names()) for each in sku.platforms.values()]
            found = [
                Place(row, sku, platform, metric)
                for sku, platform in every
                if (limit := sku.limits_on(platform).get(metric))
                and limit.class_floor
                and limit.class_floor.row == row.name
            ]
            yield from found[:1]


PLACES = list(places())
ONE_A_ROW = list({each.row.name: each for each in reversed(PLACES)}.values())


def measured(limit: Limit, value: float, peak: float = 0.0) -> Measurement:
    unit = unit_of(limit.metric) or limit.unit
    known = Peak(peak, "a peak") if peak else None
    return Measurement(limit.metric, "GPU-0", unit, value, conditions=limit.conditions, peak=known)


def judged(limit: Limit, value: float, software: Mapping[str, str], *earlier: float, peak: float = 0.0) -> Verdict:
    return judge([measured(limit, each, peak) for each in (*earlier, value)], limit, software)


def bare(sku: Sku, without: str = "") -> Sku:
    """The product as its own files describe it, without the floors of its classes and without any limit on a metric."""

    def written(limits: Mapping[str, Limit]) -> dict[str, Limit]:
        own = {metric: each for metric, each in limits.items() if each.declared_by is not DeclaredBy.CLASS}
        return {metric: replace(each, class_floor=None) for metric, each in own.items() if metric != without}

    platforms = {name: replace(each, limits=written(each.limits)) for name, each in sku.platforms.items()}
    return replace(sku, limits=written(sku.limits), platforms=platforms)


def floors(sku: Sku) -> dict[tuple[str, str], ClassFloor]:
    """The floors of the classes by platform and metric."""
    return {
        (platform.name, metric): each.class_floor
        for platform in sku.platforms.values()
        for metric, each in sku.limits_on(platform).items()
        if each.class_floor
    }


# -- alone


def offenders(
    of: Callable[[Place], Limit],
    shares: Iterable[tuple[float, Status]],
    software: Mapping[str, str] | None = None,
    places: Iterable[Place] = ONE_A_ROW,
) -> list[tuple[str, str, float, Status]]:
    """Metrics that a limit judges otherwise than expected, where they reach shares of the floor of the class."""
    found = []
    for place in places:
        limit = of(place)
        for share, expected in shares:
            verdict = judged(limit, times(place, share), {**(software or {}), **place.software})
            if verdict.status is not expected:
                found.append((str(place.row.name), place.metric, share, verdict.status))
    return found


def test_the_floor_of_a_class_alone_rejects() -> None:
    shares = ((1.03, Status.PASS), (1.01, Status.MARGINAL), (0.99, Status.FAIL), (0.5, Status.FAIL))
    assert offenders(lambda place: place.alone, shares, places=PLACES) == []
    alone = {
        (each.declared_by, floor_in_force(each).basis, each.required) for each in (place.alone for place in ONE_A_ROW)
    }
    assert alone == {(DeclaredBy.CLASS, Basis.CLASS, True)}


def test_below_the_software_of_its_figures_a_floor_leaves_a_shortfall_without_a_verdict(tmp_path: Path) -> None:
    for place in (each for each in ONE_A_ROW if each.row.software):
        alone, older = place.alone, dict.fromkeys(place.row.software, OLDER)
        short, unknown = (judged(alone, times(place, 0.9), software) for software in (older, {}))
        assert (short.status, unknown.status) == (Status.INCONCLUSIVE, Status.FAIL), place.row.name
        assert f"{OLDER} is outside" in sentence_of(short)
        assert "the version in use is not known" in sentence_of(unknown)
        assert judged(alone, times(place, 1.1), older).status is Status.PASS
        own = place.own(tmp_path, floor=times(place, 0.5))
        assert judged(own, times(place, 0.9), older).status is Status.INCONCLUSIVE


# -- beneath another limit


def times(place: Place, share: float) -> float:
    return round(share * place.floor.value, 4)


def test_a_figure_of_others_leaves_the_floor_of_the_class_and_gets_a_note() -> None:
    of_figures = [place for place in PLACES if place.limit.published]
    assert of_figures
    for place in of_figures:
        assert place.limit.published
        shares = (1.03, Status.PASS), (0.99, Status.FAIL)
        assert offenders(lambda place: place.limit, shares, places=[place]) == []
        lowest = place.limit.published.lowest
        verdicts = [judged(place.limit, value, place.software) for value in (0.99 * lowest, 1.01 * lowest)]
        assert [bool(verdict.note) for verdict in verdicts] == [True, False], (place.sku.name, place.metric)


def test_with_other_software_than_its_own_the_floor_of_the_class_is_in_force(tmp_path: Path) -> None:
    shares = ((1.7, Status.PASS), (1.3, Status.PASS), (1.01, Status.MARGINAL), (0.99, Status.FAIL))

    def own(place: Place) -> Limit:
        floor, healthy = times(place, 1.6), times(place, 1.8)
        return place.own(tmp_path, floor=floor, reference=healthy, software={"torch": "<2.0"})

    assert offenders(own, shares, {"torch": NEWER}) == []
    (short,) = (judged(own(place), times(place, 1.7), {"torch": NEWER}) for place in ONE_A_ROW[:1])
    assert (short.basis, bool(short.note)) == (Basis.CLASS, True)


def test_it_stands_beneath_a_lower_floor_of_the_user(tmp_path: Path) -> None:
    shares = ((1.1, Status.PASS), (0.99, Status.FAIL), (0.6, Status.FAIL), (0.4, Status.FAIL))
    assert offenders(lambda place: place.own(tmp_path, floor=times(place, 0.5)), shares) == []


def test_it_stands_beneath_a_limit_of_another_kind(tmp_path: Path) -> None:
    for place in ONE_A_ROW:
        peak, of_peak = place.floor.value / place.floor.share, place.own(tmp_path, floor=0.1, unit="of peak")
        values = times(place, 1.1), times(place, 0.9)
        found = [judged(of_peak, value, place.software, peak=peak).status for value in values]
        assert found == [Status.PASS, Status.FAIL], place.row.name


def test_a_limit_of_no_level_gets_those_of_the_class(tmp_path: Path) -> None:
    for place in ONE_A_ROW:
        limit = place.own(tmp_path, floor=times(place, 1.2), reference=times(place, 1.3), levels=[])
        assert limit.levels == place.alone.levels
        assert "standard" in limit.levels


# -- where there is none


def test_the_more_publishers_the_higher_is_the_floor() -> None:
    """Two figures of one publisher are one source."""
    for row in ROWS:
        (figure, *_), found = row.figures, []
        for count in (1, 2, 3, 4):
            published = [{**figure, "by": str(number)} for number in range(count)]
            found.append(replace(row, figures=[*published, published[0]]).factor)
        assert found == [0.65, 0.75, 0.85, 0.85]


def of_vendor(sku: Sku, every: classes.Classes) -> dict[str, ClassFloor]:
    """The floors of the vendor by metric, on the platform of one device."""
    floored = classes.with_floors(bare(sku), every)
    limits = floored.limits_on(floored.platforms["single"])
    return {
        metric: each.class_floor for metric, each in limits.items() if each.class_floor and each.class_floor.of_vendor
    }


@pytest.mark.parametrize(("name", "metric"), [("h100-sxm", "matmul.bf16"), ("v100-sxm2-32gb", "matmul.fp16")])
def test_a_product_of_no_row_has_the_floor_of_its_vendor_on_what_decides(name: str, metric: str) -> None:
    """It lies below what any product of the vendor was published with, and says how far."""
    assert of_vendor(load(name), CLASSES) == {}, "its class has figures"
    rows = [row for row in ROWS if not row.holds_for(load(name), load(name).platforms["single"])]
    found = of_vendor(load(name), replace(CLASSES, rows=rows))
    deciding = (metric, "stream.copy_kernel", "host_copy.h2d", "host_copy.d2h")
    assert set(found) == set(deciding)
    for decides, floor in found.items():
        types = {"matmul.bf16", "matmul.fp16"} if decides == metric else {decides}
        figures = [figure for row in rows if types & set(row.metrics) for figure in row.figures]
        assert floor.lowest == min(each["share"] for each in figures if load(each["sku"]).vendor == "nvidia")
        assert floor.share == pytest.approx(0.85 * floor.lowest, abs=0.01)
        assert floor.excludes_half is (floor.share > 0.5)
    without = replace(CLASSES, rows=rows, without=load(name).match["names"])
    assert of_vendor(load(name), without) == {}, "a catalogue entry"


@each_row("copied", [False, True])
@each_row("name", ["l40", "b100-sxm", "vr200"])
def test_a_file_of_another_name_is_the_product_that_its_devices_state(name: str, copied: bool, tmp_path: Path) -> None:
    """Or `my-l40` would be of the class of L40S, and an order of what is only announced could be accepted."""
    file, metric = tmp_path / "order.yaml", "matmul.bf16"
    text = resolved.text_of(*loader.read(name)).replace(f"sku: {name}", "sku: order") if copied else ""
    file.write_text(text or f"sku: order\nextends: {name}\n")
    own, usual = loader.load(str(file)), load(name)
    assert own.name == "order"
    for platform in usual.platforms.values():
        limits = own.limits_on(own.platforms[platform.name]), usual.limits_on(platform)
        assert len({repr(each[metric].class_floor) if metric in each else "" for each in limits}) == 1


def test_half_of_an_unknown_rate_is_excluded_by_half_of_the_datasheet_alone() -> None:
    """Other products may hold less of theirs than this one does: 147 of 191.5 TFLOPS are published of an MI250X."""
    floor = replace(ONE_A_ROW[0].floor, share=0.4, highest=0.6)
    assert floor.excludes_half
    assert not replace(floor, of_vendor=True).excludes_half
    assert replace(floor, of_vendor=True, share=0.51).excludes_half


def test_another_matrix_type_of_the_class_bounds_the_floor_of_its_vendor() -> None:
    """A class that holds little in one type holds no more in another because other products do."""
    sku = load("h100-sxm")
    rows = [row for row in ROWS if not {"matmul.bf16", "matmul.fp16"} & set(row.metrics) or row.lowest > 0.8]
    of_class = [row for row in rows if row.holds_for(sku, sku.platforms["single"])]
    other = min(row.lowest for row in of_class if "matmul.fp8" in row.metrics)
    floor = of_vendor(sku, replace(CLASSES, rows=rows))["matmul.bf16"]
    assert floor.share == pytest.approx(0.65 * other, abs=0.01)
    assert floor.share < 0.85 * floor.lowest - 0.01


def test_a_metric_without_a_peak_or_that_cannot_exist_gets_none() -> None:
    none: dict[str, Any] = {"gb_per_s": None}

    def without_rates(platform: Platform) -> Platform:
        host = platform.host_link and {**platform.host_link, **none}
        pcie, link = {**platform.pcie, **none}, {**platform.link, **none}
        return replace(platform, pcie=pcie, host_link=host, link=link, network={})

    for place in ONE_A_ROW:
        sku = bare(place.sku)
        key = place.platform.name, place.metric
        assert key in floors(classes.with_floors(sku, CLASSES))
        absent = replace(sku, not_applicable={place.metric: "a test"})
        assert key not in floors(classes.with_floors(absent, CLASSES))
        sheet = replace(sku.datasheet, tflops={}, memory={**sku.datasheet.memory, **none})
        platforms = {name: without_rates(each) for name, each in sku.platforms.items()}
        assert floors(classes.with_floors(replace(sku, datasheet=sheet, platforms=platforms), CLASSES)) == {}


OF_CLASS = [(sku, *key, floor) for sku in map(load, loader.names()) for key, floor in floors(sku).items()]
"""The floors of the classes, each with SKU, name of the platform and metric."""


def test_the_floor_of_a_link_is_a_share_of_the_link_of_each_platform() -> None:
    every = [(sku, platform) for sku in map(load, loader.names()) for platform in sku.platforms.values()]
    for row in (row for row in ROWS if row.platforms):
        of_host = any(metric.startswith("host_copy.") for metric in row.metrics)  # which a virtual machine hides
        of_row = [each for each in OF_CLASS if each[-1].row == row.name]
        joined = {
            (sku.name, platform.name)
            for sku, platform in every
            if _can_exist(sku, row, [platform]) and not (of_host and (platform.passed_through or platform.virtual))
        }
        told = {round(floor.value / rate(sku.platforms[name], metric), 6) for sku, name, metric, floor in of_row}
        assert (told, {(sku.name, name) for sku, name, *_ in of_row}) == ({row.floor}, joined)


def _can_exist(sku: Sku, row: classes.ClassRow, platforms: Iterable[Platform] | None = None) -> bool:
    every = [each for each in platforms or sku.platforms.values() if row.holds_for(sku, each)]
    return any(
        peaks.peak(sku, metric, each) and peaks.why_not_applicable(sku, metric, each) is None
        for metric in row.metrics
        for each in every
    )


def rate(platform: Platform, metric: str) -> float:
    """The rate of the link that a metric uses, as the platform states it."""
    host: Mapping[str, Any] = platform.host_link or platform.pcie
    wire, devices = platform.wire_gb_per_s or 0.0, platform.devices or 1
    if metric.startswith("network."):
        return wire / devices if metric == "network.pairs" else wire
    given = {"host_copy": host.get("gb_per_s"), "peer_copy": platform.pair_gb_per_s}
    return float(given.get(metric.partition(".")[0], platform.link.get("gb_per_s")) or 0.0)


# -- what is read and told


@pytest.mark.nightly
@pytest.mark.parametrize("place", ONE_A_ROW, ids=lambda place: str(place.row.name))
def test_a_resolved_file_judges_by_the_same_floors(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "resolved.yaml"
    file.write_text(resolved.text_of(*loader.read(place.sku.name)))
    own = loader.load(str(file))
    before = place.sku.limits_on(place.platform)
    after = own.limits_on(own.platforms[place.platform.name])
    assert {metric: each.class_floor for metric, each in before.items() if each.class_floor} == {
        metric: each.class_floor for metric, each in after.items() if each.class_floor
    }
    assert not any(each.overridden for each in after.values())
    usual = replace(before[place.metric], of_reference=None)
    for share in (1.3, 1.01, 0.99):
        value = times(place, share)
        assert judged(after[place.metric], value, place.software) == replace(
            judged(usual, value, place.software), limit=after[place.metric]
        )


def promised(place: Place, software: Mapping[str, str]) -> float | None:
    """The share of the datasheet that all devices alike have to reach, as a run says below an acceptance."""
    alone, value = place.alone, times(place, 1.2)
    one = replace(measured(alone, value, place.floor.value / place.floor.share), samples=(value,) * 5)
    attempts = RunAttempts.of([one], [], software=software)
    verdict = judge([one], alone, software)
    (family,) = smallest_losses([verdict], attempts).values()
    return family.below


def test_a_run_claims_to_reject_no_more_than_the_floor_does() -> None:
    for place in PLACES:
        assert promised(place, place.software) == pytest.approx(place.floor.share, rel=1e-3)
        assert not place.row.software or promised(place, dict.fromkeys(place.row.software, OLDER)) is None


def test_every_row_that_rejects_bounds_every_metric_that_it_names() -> None:
    """A row that names a metric and makes no limit on it would be a promise that nothing keeps."""
    of_products = {(row.name, metric) for row in ROWS for metric in row.metrics if not row.platforms}
    assert of_products <= {(place.row.name, place.metric) for place in PLACES}


@pytest.mark.parametrize("changes", [{"partition": {"compute": "CPX"}}, {"power_watts": 300.0}])
def test_a_part_of_a_device_and_one_of_less_power_are_of_no_class(changes: dict[str, Any]) -> None:
    """A part reaches no share of the whole, and a board that is capped on purpose none of the uncapped ones'."""
    sku = load("h100-sxm")
    usual = next(iter(sku.platforms))
    capped = replace(sku, platforms={usual: replace(sku.platforms[usual], **changes)})
    own = classes.with_floors(bare(capped), CLASSES)
    assert own.limits_on(own.platforms[usual]).get("matmul.bf16") is None


def test_a_dip_below_the_floor_of_a_class_that_the_repeat_does_not_show_leaves_a_mark() -> None:
    """A published figure above the floor does not make it a shortfall beyond noise."""
    limit = load("mi300x").platforms["single"].limits["host_copy.h2d"]
    assert limit.class_floor
    dip, far, fine = (
        replace(measured(limit, value), metric="host_copy.h2d", unit="GB/s", samples=(value,) * 4)
        for value in (0.98 * limit.class_floor.value, 0.5 * limit.class_floor.value, 55.0)
    )
    attempts = RequestAttempts()
    attempts.add(dip)
    assert attempts.shortfalls("host_copy.h2d", limit), "it is measured again"
    assert [judge([one, fine], limit).status for one in (dip, far)] == [Status.MARGINAL, Status.FAIL]
