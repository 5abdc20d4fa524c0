"""Threshold files: limits whose source states how it measured, and what follows where that is not our method."""

import re
from pathlib import Path
from typing import Any

import pytest
from support.data_files import content
from support.rows import each_row

from pytest_accel.core.floor import floor_in_force
from pytest_accel.core.sku_types import Basis, Sku
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.probes.declare import declaration_of, declarations
from pytest_accel.skus import loader, methods

METHOD = methods.method_of("matmul.bf16", {})
FILE = content("skus/published.yaml")


def load(folder: Path, kind: str = "published", limit: str = "floor: 600", group: str = "limits", **method: Any) -> Sku:
    stated = f", method: {method}".replace("'", '"') if method else ""
    text = FILE.replace("limits", group).replace("LIMIT", limit).replace("KIND", kind).replace("METHOD", stated)
    path = folder / "mine.yaml"
    path.write_text(text)
    return loader.load(str(path))


def extending(folder: Path, line: str) -> Sku:
    path = folder / "own.yaml"
    path.write_text(f"sku: own\nextends: h100-sxm\n{line}\n")
    return loader.load(str(path))


def test_every_packaged_rate_that_a_limit_may_reject_by_declares_its_method() -> None:
    lacking = {each.name for each in declarations() if each.packaged and each.required and not each.fact} - {
        each.name for each in declarations() if each.method
    }
    assert not lacking


OTHER = {**METHOD, "shape": "64x64x64"}
DIFFERS = f"shape 64x64x64 (ours: {METHOD['shape']})"


@pytest.mark.parametrize(
    ("kind", "method", "why"),
    [("published", OTHER, DIFFERS), ("published", {}, methods.NOT_STATED[0]), ("measured", OTHER, DIFFERS)],
)
def test_a_floor_by_another_method_is_refused(tmp_path: Path, kind: str, method: dict[str, Any], why: str) -> None:
    said = re.escape(f"its source measured otherwise than the probe: {why}; put it under figures, or")
    with pytest.raises(BadFile, match=rf"mine\.yaml:5: limits\.matmul\.bf16: {said}"):
        load(tmp_path, kind, **method)


def test_a_floor_by_the_method_of_the_probe_is_in_force(tmp_path: Path) -> None:
    """The probe itself measures figures of the owner, and figures that two sides agreed on."""
    every: dict[str, dict[str, Any]] = {"published": METHOD, "measured": {}, "agreed": OTHER}
    found = [floor_in_force(load(tmp_path, kind, **method).limits["matmul.bf16"]) for kind, method in every.items()]
    assert [each.basis for each in found] == [Basis.METHOD, Basis.OWN, Basis.AGREED]
    assert {each.bound.floor for each in found} == {600}


def test_a_figure_of_another_method_bounds_nothing(tmp_path: Path) -> None:
    for figure in ("value: [676, 730]", "value: 676", "at_least: 676"):
        limit = load(tmp_path, limit=figure, group="figures", **OTHER).limits["matmul.bf16"]
        assert not limit.bounded
        assert limit.published
        assert (limit.published.lowest, limit.published.differs) == (676, (DIFFERS,))


def test_a_shipped_floor_becomes_a_figure_where_an_own_file_measures_otherwise(tmp_path: Path) -> None:
    limit = extending(tmp_path, "probes: {matmul_mamf: {shapes: {bf16: [64, 64, 64]}}}").limits["matmul_mamf.bf16"]
    assert not limit.bounded
    assert limit.published
    assert limit.published.differs == ("shape 2048x2048x13312 (ours: 64x64x64)",)


def test_only_what_a_run_alone_knows_is_left_to_the_run(tmp_path: Path) -> None:
    limit = load(tmp_path, **{**METHOD, "tunable_op": False}).limits["matmul.bf16"]
    assert limit.conditions == {"tunable_op": False}


def test_the_floor_is_derived_from_the_lowest_healthy_figure(tmp_path: Path) -> None:
    limit = load(tmp_path, "measured", "floor: derived, healthy: [700, 800]").limits["matmul.bf16"]
    declared = declaration_of("matmul.bf16")
    assert declared
    assert limit.floor == pytest.approx(700 * (declared.derived_floor or 0))
    assert (limit.reference, limit.healthy) == (750, (700, 800))


@each_row(
    ("limit", "why"),
    [
        ("floor: 600, healthy: [800, 700]", r"expected \[lowest, highest\]"),
        ("floor: 600, healthy: [700]", r"expected \[lowest, highest\]"),
        ("floor: 600, healthy: [700, 800], reference: 900", "reference 900 lies outside healthy"),
        ("floor: 720, healthy: [700, 800]", "floor 720 rejects a healthy device of 700"),
    ],
)
def test_a_range_of_healthy_values_is_checked(tmp_path: Path, limit: str, why: str) -> None:
    with pytest.raises(BadFile, match=why):
        load(tmp_path, limit=limit)


def test_an_own_floor_does_not_inherit_what_the_shipped_source_measured(tmp_path: Path) -> None:
    """Or a stricter floor would be refused, and a shortfall excused, by the figures and versions of somebody else."""
    load(tmp_path, "measured", 'floor: derived, healthy: [700, 800], software: {torch: "<2.8"}')
    own = tmp_path / "own.yaml"
    source = "{kind: measured, by: us, date: 2026-11}"
    own.write_text(f"sku: own\nextends: mine.yaml\nlimits:\n  matmul.bf16: {{floor: 720, source: {source}}}\n")
    limit = loader.load(str(own)).limits["matmul.bf16"]
    assert (limit.floor, limit.healthy, dict(limit.software)) == (720, None, {})


def test_an_own_healthy_range_replaces_the_reference_of_the_shipped_one(tmp_path: Path) -> None:
    healthy = "{healthy: [700, 730], source: {kind: measured, by: us, date: 2026-11}}"
    limit = extending(tmp_path, f"limits: {{matmul_mamf.bf16: {healthy}}}").limits["matmul_mamf.bf16"]
    assert (limit.reference, limit.healthy) == (715, (700, 730))


@pytest.mark.parametrize("shapes", ["4096", "{bf16: 4096}"])
def test_a_shape_that_is_none_is_refused_with_its_place(tmp_path: Path, shapes: str) -> None:
    with pytest.raises(BadFile, match=r"own\.yaml:3: probes\.matmul_mamf: a condition has a value of the wrong type"):
        extending(tmp_path, f"probes: {{matmul_mamf: {{shapes: {shapes}}}}}")
