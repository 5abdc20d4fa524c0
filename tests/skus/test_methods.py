"""Threshold files: limits whose source states how it measured, and what follows where that is not our method."""

from pathlib import Path

import pytest
from tabled import content

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Basis, Effect, Sku
from pytest_accel.core.verdict import Status
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.probes.declare import declaration_of, declarations
from pytest_accel.skus import loader, methods, readiness, requirements

METHOD = methods.method_of("matmul.bf16", {})
FILE = content("skus/published.yaml")


def load(folder: Path, kind: str = "published", limit: str = "floor: 600", **method: object) -> Sku:
    stated = f", method: {method}".replace("'", '"') if method else ""
    text = FILE.replace("LIMIT", limit).replace("KIND", kind).replace("METHOD", stated)
    path = folder / "mine.yaml"
    path.write_text(text)
    return loader.load(str(path))


def test_every_packaged_rate_that_a_limit_may_reject_by_declares_its_method() -> None:
    lacking = {each.name for each in declarations() if each.packaged and each.required and not each.fact} - {
        each.name for each in declarations() if each.method
    }
    assert not lacking


def test_a_published_figure_rejects_only_by_the_same_method(tmp_path: Path) -> None:
    same = load(tmp_path, **METHOD).limits["matmul.bf16"]
    other = load(tmp_path, **{**METHOD, "shape": "4096x4096x4096"}).limits["matmul.bf16"]
    silent = load(tmp_path).limits["matmul.bf16"]
    assert [each.advises for each in (same, other, silent)] == [False, True, True]
    assert other.because == f"shape 4096x4096x4096 (ours: {METHOD['shape']})"
    assert silent.because == methods.NOT_STATED[0]


def test_a_limit_that_would_reject_by_another_method_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"mine\.yaml:5: .*bf16\.effect: rejects, but shape 64x64x64 .*advises"):
        load(tmp_path, limit="floor: 600, effect: rejects", **{**METHOD, "shape": "64x64x64"})
    assert not load(tmp_path, limit="floor: 600, effect: rejects", **METHOD).limits["matmul.bf16"].advises
    agreed = load(tmp_path, "agreed", limit="floor: 600, effect: rejects", shape="64x64x64").limits["matmul.bf16"]
    assert (agreed.effect, agreed.basis) == (Effect.REJECTS, Basis.AGREED)


def test_only_what_a_run_alone_knows_is_left_to_the_run(tmp_path: Path) -> None:
    limit = load(tmp_path, **{**METHOD, "tunable_op": False}).limits["matmul.bf16"]
    assert limit.conditions == {"tunable_op": False}


def test_what_the_owner_measured_with_the_probe_itself_needs_no_method(tmp_path: Path) -> None:
    assert load(tmp_path, kind="measured").limits["matmul.bf16"].effect is Effect.REJECTS
    assert load(tmp_path, kind="measured", shape="64x64x64").limits["matmul.bf16"].effect is Effect.ADVISES


def test_a_limit_that_states_why_it_advises_does_not_reject_by_our_own_method(tmp_path: Path) -> None:
    said = "floor: 600, effect: advises, because: one type of host"
    limit = load(tmp_path, limit=said, **METHOD).limits["matmul.bf16"]
    verdict = judge([Measurement("matmul.bf16", "GPU-0", "TFLOPS", 590.0)], limit)
    assert verdict.status is Status.MARGINAL
    assert sentence_of(verdict).endswith("; advisory limit, does not reject: one type of host")


def test_the_floor_is_derived_from_the_lowest_healthy_figure(tmp_path: Path) -> None:
    limit = load(tmp_path, limit="floor: derived, healthy: [700, 800]").limits["matmul.bf16"]
    declared = declaration_of("matmul.bf16")
    assert declared
    assert limit.floor == pytest.approx(700 * (declared.derived_floor or 0))
    assert (limit.reference, limit.healthy) == (750, (700, 800))


@pytest.mark.parametrize(
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


def test_limits_that_only_advise_on_the_matrix_units_accept_nobody(tmp_path: Path) -> None:
    for kind in ("published", "measured", "agreed"):
        own = load(tmp_path, kind=kind)
        lacking = readiness.lacking(own, own.platforms["single"])
        assert ("matrix units" in lacking) is (kind == "published")
        assert "memory" in lacking
        assert "memory" in str(requirements.unfit(own, own.platforms["single"], "quick"))


def test_an_own_floor_does_not_inherit_what_the_shipped_source_measured(tmp_path: Path) -> None:
    """Or a stricter floor would be refused, and a shortfall excused, by the figures and versions of somebody else."""
    base = tmp_path / "base.yaml"
    load(tmp_path, limit='floor: derived, healthy: [700, 800], software: {torch: "<2.8"}')
    (tmp_path / "mine.yaml").rename(base)
    own = tmp_path / "own.yaml"
    source = "{kind: measured, by: us, date: 2026-11}"
    own.write_text(f"sku: own\nextends: base.yaml\nlimits:\n  matmul.bf16: {{floor: 720, source: {source}}}\n")
    limit = loader.load(str(own)).limits["matmul.bf16"]
    assert (limit.floor, limit.healthy, dict(limit.software)) == (720, None, {})


def test_an_own_healthy_range_replaces_the_reference_of_the_shipped_one(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    healthy = "{healthy: [700, 730], source: {kind: measured, by: us, date: 2026-11}}"
    own.write_text(f"sku: own\nextends: h100-sxm\nlimits:\n  matmul_mamf.bf16: {healthy}\n")
    limit = loader.load(str(own)).limits["matmul_mamf.bf16"]
    assert (limit.reference, limit.healthy) == (715, (700, 730))


@pytest.mark.parametrize("shapes", ["4096", "{bf16: 4096}"])
def test_a_shape_that_is_none_is_refused_with_its_place(tmp_path: Path, shapes: str) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(f"sku: own\nextends: h100-sxm\nprobes:\n  matmul_mamf: {{shapes: {shapes}}}\n")
    with pytest.raises(BadFile, match=r"own\.yaml:4: probes\.matmul_mamf: a condition has a value of the wrong type"):
        loader.load(str(own))
