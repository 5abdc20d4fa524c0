"""Floors of the classes: what they reject alone and beneath other limits, and where there is none.

Everything is asserted of the rows as they are read, so that another figure in thresholds/classes.yaml changes no test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from shipped import load

from pytest_accel.core.measurement import Measurement, Peak
from pytest_accel.core.reasons import BelowClass, Repeated
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Basis, ClassFloor, DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.judge import Attempts, judge
from pytest_accel.judging.verdicts.limit import COMPARED
from pytest_accel.judging.verdicts.smallest_losses import smallest_losses
from pytest_accel.probes.declare import unit_of
from pytest_accel.skus import classes, loader, peaks, resolved

ROWS = classes.rows(loader.SHIPPED / classes.FILE)[0]
REJECTING = [row for row in ROWS if row.rejects]
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
        found = self.limit.beneath
        assert found
        return found

    @property
    def limit(self) -> Limit:
        return self.sku.limits_on(self.platform)[self.metric]

    @property
    def software(self) -> dict[str, str]:
        return dict.fromkeys(self.row.software, NEWER)

    def own(self, folder: Path, **limit: Any) -> Limit:
        """The limit of a user's own file on the metric, with the floor of the class beneath it."""
        return self.in_sku(self.own_sku(folder, limit))

    def in_sku(self, sku: Sku) -> Limit:
        """The limit on the metric on the platform of the same name of another SKU."""
        return sku.limits_on(sku.platforms[self.platform.name])[self.metric]

    @property
    def alone(self) -> Limit:
        """The limit of the class where no file limits the metric."""
        return self.in_sku(classes.with_floors(bare(self.sku, without=self.metric), REJECTING))

    def own_sku(self, folder: Path, limit: Mapping[str, Any], **more: Any) -> Sku:
        conditions = {key: value for key, value in self.limit.conditions.items() if key in COMPARED}
        both = {"unit": self.limit.unit, "source": SOURCE, **conditions, **limit}
        held = {self.metric: both}
        of_platform = self.metric in self.sku.platforms[self.platform.name].limits
        where = {"platforms": {self.platform.name: {"limits": held}}} if of_platform else {"limits": held}
        file = folder / "own.yaml"
        file.write_text(yaml.safe_dump({"sku": "own", "extends": self.sku.name, **where, **more}))
        return loader.load(str(file))


def places() -> Iterator[Place]:
    """Yield the first product and platform of every metric of every row that rejects."""
    for row in REJECTING:
        for metric in row.metrics:
            every = [(sku, each) for sku in map(load, loader.names()) for each in sku.platforms.values()]
            found = [
                Place(row, sku, platform, metric)
                for sku, platform in every
                if (limit := sku.limits_on(platform).get(metric)) and limit.beneath and limit.beneath.row == row.name
            ]
            yield from found[:1]


PLACES = list(places())
every_place = pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.row.name}-{place.metric}")
one_a_row = pytest.mark.parametrize(
    "place", {each.row.name: each for each in reversed(PLACES)}.values(), ids=lambda place: str(place.row.name)
)
every_row = pytest.mark.parametrize("row", REJECTING, ids=lambda row: str(row.name))


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
        return {metric: replace(each, beneath=None) for metric, each in own.items() if metric != without}

    platforms = {name: replace(each, limits=written(each.limits)) for name, each in sku.platforms.items()}
    return replace(sku, limits=written(sku.limits), platforms=platforms)


def floors(sku: Sku) -> dict[tuple[str, str], ClassFloor]:
    """The floors of the classes by platform and metric."""
    return {
        (platform.name, metric): each.beneath
        for platform in sku.platforms.values()
        for metric, each in sku.limits_on(platform).items()
        if each.beneath
    }


# -- alone


@every_place
def test_the_floor_of_a_class_alone_rejects(place: Place) -> None:
    alone = place.alone
    assert (alone.declared_by, alone.basis, alone.required) == (DeclaredBy.CLASS, Basis.CLASS, True)
    for share, status in ((1.03, Status.PASS), (1.01, Status.MARGINAL), (0.99, Status.FAIL), (0.5, Status.FAIL)):
        assert judged(alone, share * place.floor.value, place.software).status is status


@every_place
def test_below_the_software_of_its_figures_a_floor_leaves_a_shortfall_without_a_verdict(place: Place) -> None:
    if not place.row.software:
        pytest.skip("the row states no software")
    alone, older = place.alone, dict.fromkeys(place.row.software, OLDER)
    short = judged(alone, 0.9 * place.floor.value, older)
    assert short.status is Status.INCONCLUSIVE
    assert f"{OLDER} is outside" in sentence_of(short)
    assert judged(alone, 1.1 * place.floor.value, older).status is Status.PASS
    unknown = judged(alone, 0.9 * place.floor.value, {})
    assert unknown.status is Status.FAIL
    assert "the version in use is not known" in sentence_of(unknown)


# -- beneath another limit


def times(place: Place, share: float) -> float:
    return round(share * place.floor.value, 4)


@one_a_row
def test_beneath_an_advisory_limit_it_rejects_and_what_is_between_is_no_failure(place: Place, tmp_path: Path) -> None:
    given = {"floor": times(place, 1.3), "healthy": [times(place, 1.4), times(place, 1.5)], "effect": "advises"}
    limit = place.own(tmp_path, **given)
    assert limit.beneath == replace(place.floor, origin=limit.beneath.origin if limit.beneath else "")
    lowest = 0.85 * 1.4
    for share, status in (
        (1.31, Status.PASS),
        (1.29, Status.MARGINAL),
        (lowest + 0.01, Status.MARGINAL),
        (lowest - 0.01, Status.INCONCLUSIVE),
        (1.01, Status.INCONCLUSIVE),
        (0.99, Status.FAIL),
    ):
        verdict = judged(limit, times(place, share), place.software)
        assert verdict.status is status, share
        assert any(isinstance(each, BelowClass) for each in verdict.reasons) is (status is Status.FAIL)


@one_a_row
def test_beneath_a_limit_of_other_software_a_value_is_marginal_down_to_the_class(place: Place, tmp_path: Path) -> None:
    given = {"floor": times(place, 1.6), "reference": times(place, 1.8), "software": {"torch": "<2.0"}}
    limit = place.own(tmp_path, **given)
    software = {"torch": NEWER, **place.software}
    for share, status in ((1.7, Status.PASS), (1.5, Status.MARGINAL), (1.01, Status.MARGINAL), (0.99, Status.FAIL)):
        assert judged(limit, times(place, share), software).status is status, share


@one_a_row
@pytest.mark.parametrize("effect", ["rejects", "advises"])
def test_it_stands_beneath_a_lower_floor_of_the_user(place: Place, effect: str, tmp_path: Path) -> None:
    limit = place.own(tmp_path, floor=times(place, 0.5), effect=effect)
    assert judged(limit, times(place, 1.1), place.software).status is Status.PASS
    for share in (0.99, 0.6, 0.4):
        assert judged(limit, times(place, share), place.software).status is Status.FAIL, share
    if place.row.software:
        older = dict.fromkeys(place.row.software, OLDER)
        assert judged(limit, times(place, 0.9), older).status is Status.INCONCLUSIVE


@one_a_row
def test_advice_for_other_software_does_not_clear_what_is_below_it(place: Place, tmp_path: Path) -> None:
    limit = place.own(tmp_path, floor=times(place, 1.5), effect="advises", software={"torch": "<2.0"})
    software = {"torch": NEWER, **place.software}
    assert judged(limit, times(place, 1.3), software).status is Status.MARGINAL
    assert judged(limit, times(place, 0.9), software).status is Status.FAIL


@one_a_row
def test_it_stands_beneath_a_limit_of_another_kind(place: Place, tmp_path: Path) -> None:
    peak = place.floor.value / place.floor.share
    share_of_peak = place.own(tmp_path, floor=0.1, unit="of peak")
    assert judged(share_of_peak, times(place, 1.1), place.software, peak=peak).status is Status.PASS
    assert judged(share_of_peak, times(place, 0.9), place.software, peak=peak).status is Status.FAIL


@one_a_row
def test_a_repeat_above_it_leaves_a_mark(place: Place, tmp_path: Path) -> None:
    limit = place.own(tmp_path, floor=times(place, 0.5))
    attempts = Attempts()
    attempts.add(measured(limit, times(place, 0.95)))
    assert attempts.short(place.metric, limit, place.software)
    again = judged(limit, times(place, 1.1), place.software, times(place, 0.95))
    assert again.status is Status.MARGINAL
    assert any(isinstance(each, Repeated) for each in again.reasons)


@one_a_row
def test_a_limit_of_no_level_gets_those_of_the_class(place: Place, tmp_path: Path) -> None:
    limit = place.own(tmp_path, floor=times(place, 1.2), reference=times(place, 1.3), levels=[])
    alone = place.alone
    assert limit.levels == alone.levels
    assert "standard" in limit.levels


# -- where there is none


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.name))
def test_a_row_of_few_sources_makes_no_limit(row: classes.ClassRow) -> None:
    sku = next(sku for sku in map(load, loader.names()) if _can_exist(sku, row))
    few = replace(row, figures=[each for each in row.figures if each["by"] in row.sources[:2]])
    assert floors(classes.with_floors(bare(sku), [few])) == {}
    every = [{**row.figures[0], "by": name} for name in ("one", "another", "a third")]
    assert floors(classes.with_floors(bare(sku), [replace(row, figures=every)]))


@every_place
def test_a_metric_without_a_peak_or_that_cannot_exist_gets_none(place: Place) -> None:
    sku = bare(place.sku)
    key = place.platform.name, place.metric
    assert key in floors(classes.with_floors(sku, REJECTING))
    absent = replace(sku, not_applicable={place.metric: "a test"})
    assert key not in floors(classes.with_floors(absent, REJECTING))
    sheet = replace(sku.datasheet, tflops={}, memory={**sku.datasheet.memory, "gb_per_s": None})
    none: dict[str, Any] = {"gb_per_s": None}
    rateless = {
        name: replace(
            each,
            pcie={**each.pcie, **none},
            host_link=each.host_link and {**each.host_link, **none},
            link={**each.link, **none},
            fabric={},
        )
        for name, each in sku.platforms.items()
    }
    assert floors(classes.with_floors(replace(sku, datasheet=sheet, platforms=rateless), REJECTING)) == {}


@every_row
def test_the_floor_of_a_link_is_a_share_of_the_link_of_each_platform(row: classes.ClassRow) -> None:
    if not row.platforms:
        pytest.skip("the row is of products")
    found, told = set(), set()
    for sku in map(load, loader.names()):
        for (name, metric), floor in floors(sku).items():
            if floor.row == row.name:
                found.add((sku.name, name))
                told.add(round(floor.value / rate(sku.platforms[name], metric), 6))
    joined = {
        (sku.name, name)
        for sku in map(load, loader.names())
        for name, platform in sku.platforms.items()
        if _can_exist(sku, row, [platform]) and not (row_of_host(row) and (platform.passed_through or platform.virtual))
    }
    assert told == {row.floor}
    assert found == joined


def row_of_host(row: classes.ClassRow) -> bool:
    """True for a row on the host link, which a virtual machine hides."""
    return any(metric.startswith("host_copy.") for metric in row.metrics)


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
    if metric.startswith("fabric."):
        return wire / devices if metric == "fabric.pairs" else wire
    given = {"host_copy": host.get("gb_per_s"), "peer_copy": platform.pair_gb_per_s}
    return float(given.get(metric.partition(".")[0], platform.link.get("gb_per_s")) or 0.0)


# -- what is read and told


@one_a_row
def test_a_resolved_file_judges_by_the_same_floors(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "resolved.yaml"
    file.write_text(resolved.text_of(*loader.read(place.sku.name)))
    own = loader.load(str(file))
    before = place.sku.limits_on(place.platform)
    after = own.limits_on(own.platforms[place.platform.name])
    assert {metric: each.beneath for metric, each in before.items() if each.beneath} == {
        metric: each.beneath for metric, each in after.items() if each.beneath
    }
    assert not any(each.overridden for each in after.values())
    usual = replace(before[place.metric], of_reference=None)
    for share in (1.3, 1.01, 0.99):
        value = times(place, share)
        assert judged(after[place.metric], value, place.software) == replace(
            judged(usual, value, place.software), limit=after[place.metric]
        )


@every_place
def test_a_run_claims_to_reject_no_more_than_the_floor_does(place: Place) -> None:
    """The line below an acceptance says what all devices alike have to reach."""
    alone = place.alone
    peak = place.floor.value / place.floor.share
    found = {}
    for name, software in (("newer", place.software), ("older", dict.fromkeys(place.row.software, OLDER))):
        value = times(place, 1.2)
        own = replace(measured(alone, value, peak), samples=(value,) * 5)
        attempts, verdict = {(place.metric, "GPU-0"): [own]}, judge([own], alone, software)
        (family,) = smallest_losses([verdict], attempts, {}, lambda metric: None, software=software).values()
        found[name] = family.below
    assert found["newer"] == pytest.approx(place.floor.share, rel=1e-3)
    assert found["older"] == (None if place.row.software else found["newer"])


def test_every_row_that_rejects_bounds_every_metric_that_it_names() -> None:
    """A row that names a metric and makes no limit on it would be a promise that nothing keeps."""
    of_products = {(row.name, metric) for row in REJECTING for metric in row.metrics if not row.platforms}
    assert of_products <= {(place.row.name, place.metric) for place in PLACES}


@pytest.mark.parametrize("changes", [{"partition": {"compute": "CPX"}}, {"power_watts": 300.0}])
def test_a_part_of_a_device_and_one_of_less_power_are_of_no_class(changes: dict[str, Any]) -> None:
    """A part reaches no share of the whole, and a board that is capped on purpose none of the uncapped ones'."""
    sku = load("h100-sxm")
    usual = next(iter(sku.platforms))
    capped = replace(sku, platforms={usual: replace(sku.platforms[usual], **changes)})
    own = classes.with_floors(bare(capped), REJECTING)
    assert own.limits_on(own.platforms[usual])["matmul.bf16"].beneath is None


def test_a_dip_below_the_floor_of_a_class_that_the_repeat_does_not_show_is_no_failure() -> None:
    """An advisory limit above the floor does not make it a shortfall beyond noise."""
    limit = load("mi300x").platforms["single"].limits["host_copy.h2d"]
    assert limit.beneath is not None
    dip = replace(measured(limit, 0.98 * limit.beneath.value), metric="host_copy.h2d", unit="GB/s")
    fine = replace(dip, value=55.0, samples=(55.0,) * 4)
    assert judge([dip, fine], limit).status is Status.MARGINAL
    far = replace(dip, value=0.5 * limit.beneath.value, samples=(0.5 * limit.beneath.value,) * 4)
    assert judge([far, fine], limit).status is Status.FAIL
