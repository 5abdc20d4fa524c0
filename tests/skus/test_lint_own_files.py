"""Files of one's own: what their values cause is found at their lines, wherever the value beside them stands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.data_files import content, tables
from support.rows import each_row

from pytest_accel.skus import lint, loader, requirements
from pytest_accel.views import lint_report

ROWS = tables("skus/own-files")

TODAY = "2026-11-29"
SOURCE = "source: {kind: measured, by: us, date: 2026-11}"


THRESHOLDS = loader.SHIPPED


@pytest.fixture(autouse=True)
def shipped(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those shipped files that a test needs, since lint reads all of them each time."""
    folder = tmp_path_factory.mktemp("thresholds")
    (folder / loader.VENDOR_FILES).mkdir()
    monkeypatch.setattr(loader, "SHIPPED", folder)
    needs("vendor/nvidia.yaml", "vendor/amd.yaml")


def needs(*files: str) -> None:
    for name in files:
        shutil.copy(THRESHOLDS / name, loader.SHIPPED / name)


def own(folder: Path, *lines: str, extends: str = "h100-sxm") -> str:
    path = folder / "own.yaml"
    needs(f"{extends}.yaml")
    path.write_text("\n".join(["sku: ours", f"extends: {extends}", *lines, ""]).replace("SOURCE", SOURCE))
    return str(path)


def found(path: str) -> list[tuple[str, int, str, str]]:
    """Return every error and warning in a file as (rule, line, key, value)."""
    report = lint.lint([path], TODAY)
    assert {each.file for each in report.open} <= {path}
    return [(each.rule, each.line, each.key, each.value) for each in report.open]


def rules(path: str) -> set[tuple[str, int]]:
    return {(rule, line) for rule, line, _, _ in found(path)}


@each_row(("extends", "line", "rules_found"), ROWS["datasheet"])
def test_a_slip_of_a_published_datasheet_is_found(
    tmp_path: Path, extends: str, line: str, rules_found: list[str]
) -> None:
    found_here = {rule for rule, place in rules(own(tmp_path, line, extends=extends)) if place == 3}
    assert set(rules_found) <= found_here, found_here


# -- whose message it is


@each_row(("line", "rule"), ROWS["beside"])
def test_what_a_value_makes_of_the_values_beside_it_is_found_at_its_line(tmp_path: Path, line: str, rule: str) -> None:
    assert (rule, 3) in rules(own(tmp_path, line))


def test_the_text_names_the_place_of_the_value(tmp_path: Path) -> None:
    path = own(tmp_path, "datasheet: {memory: {type: GDDR6}}")
    said = lint_report.text(lint.lint([path], TODAY))
    assert f"{path}:3: error[memory] datasheet.memory.gb_per_s: 3350" in said
    assert "(the value is that of h100-sxm.yaml:" in said


def test_a_file_between_two_others_keeps_its_own_findings(tmp_path: Path) -> None:
    between = own(tmp_path, "datasheet: {memory: {type: GDDR6}}")
    top = tmp_path / "top.yaml"
    top.write_text(f"sku: top\nextends: {between}\nlimits: {{matmul.bf16: {{floor: 690, {SOURCE}}}}}\n")
    report = lint.lint([str(top)], TODAY)
    assert report.clean
    assert [each.rule for each in report.below if each.severity == "error"] == ["memory"]


def test_a_limit_of_the_vendor_that_the_file_makes_implausible_is_its_finding(tmp_path: Path) -> None:
    needs("h100-sxm.yaml")  # whose temperatures fit the limit
    with (loader.SHIPPED / "vendor" / "nvidia.yaml").open("a") as vendor:
        vendor.write(f"  inventory.slowdown_temperature: {{ceiling: 90, unit: C, {SOURCE}}}\n")
    path = tmp_path / "new.yaml"
    path.write_text(
        f"sku: new\nvendor: nvidia\ndatasheet:\n  temperature: {{shutdown_c: 80}}\n  {SOURCE}\n"
        f"platforms: {{single: {{devices: 1}}}}\n"
    )
    assert rules(str(path)) == {("ceiling", 4)}


# -- explanations


def test_a_shipped_explanation_does_not_cover_a_value_of_another_file(tmp_path: Path) -> None:
    path = own(tmp_path, "limits: {matmul.fp16: {floor: 300, SOURCE}}", extends="mi300x")
    assert ("physics", 3) in rules(path)


def test_a_shipped_explanation_covers_what_the_shipped_file_finds(tmp_path: Path) -> None:
    """And one of the file's own is added to those."""
    why = "explained: [{rule: power, key: datasheet.temperature.shutdown_c, reason: in kelvin}]"
    lines = (
        "limits: {stream.triad: {floor: 3000, unit: GB/s, SOURCE}}",
        "datasheet: {temperature: {shutdown_c: 203}}",
        why,
    )
    report = lint.lint([own(tmp_path, *lines, extends="gaudi3")], TODAY)
    assert report.clean, lint_report.text(report)
    assert "in kelvin" in {each.explained for each in report.messages}
    assert "dtypes" in {each.rule for each in report.below if each.explained}


def test_an_explanation_that_an_override_leaves_without_a_finding_is_not_stale(tmp_path: Path) -> None:
    path = own(tmp_path, "limits: {matmul.fp16: {floor: 560, SOURCE}}", extends="mi300x")
    assert "explained" not in {
        each.rule for each in [*lint.lint([path], TODAY).messages, *lint.lint([path], TODAY).below]
    }


# -- PCIe generation and width, links


@each_row(("limit", "extends", "message"), ROWS["links"])
def test_a_limit_below_the_link_of_the_product_is_found(tmp_path: Path, limit: str, extends: str, message: str) -> None:
    report = lint.lint([own(tmp_path, f"limits: {{{limit}}}", extends=extends)], TODAY)
    told = [f"{each.value}, {each.expected}" for each in report.open if each.rule == "stated" and each.line == 3]
    assert len(report.open) == len(told) == bool(message)
    assert all(each.startswith(message) for each in told)


def test_a_narrower_platform_of_ones_own_is_no_finding(tmp_path: Path) -> None:
    path = own(tmp_path, "platforms: {narrow: {devices: 1, pcie: {gen: 5, lanes: 8, gb_per_s: 31.5}, SOURCE}}")
    assert found(path) == []
    narrow = loader.load(path).platforms["narrow"]
    assert requirements.limits(loader.load(path), narrow, 1)["health.pcie_width"].equals == 8


def test_a_floor_that_replaces_what_the_platform_implies_counts_as_overridden(tmp_path: Path) -> None:
    """A file that stands alone overrides no shipped one, and yet lets pass what its platform does not."""
    path = tmp_path / "alone.yaml"
    for metric in ("health.pcie_width", "inventory.pcie_gen_max", "inventory.count"):
        path.write_text(
            f"sku: alone\nvendor: nvidia\nlimits: {{{metric}: {{floor: 1, unit: count, {SOURCE}}}}}\n"
            f"platforms: {{node: {{devices: 8, pcie: {{gen: 5, lanes: 16}}, {SOURCE}}}}}\n"
        )
        sku = loader.load(str(path))
        assert requirements.limits(sku, sku.platforms["node"], 8)[metric].overridden, metric


# -- floors that are too low


@each_row(("platform", "metric", "floor", "expected"), ROWS["loose"])
def test_a_floor_is_loose_by_its_kind(tmp_path: Path, platform: str, metric: str, floor: int, expected: bool) -> None:
    limit = f'limits: {{"{metric}": {{floor: {floor}, source: {{kind: agreed, by: both, date: 2026-08}}}}}}'
    path = own(tmp_path, f"platforms: {{{platform}: {{{limit}}}}}" if platform else limit)
    assert ("healthy" in {rule for rule, *_ in found(path)}) is expected


def test_a_floor_below_that_of_the_extended_file_needs_a_healthy_figure(tmp_path: Path) -> None:
    line = 'platforms: {oam8: {limits: {"all_reduce.busbw@8GiB": {floor: 304, SOURCE}}}}'
    assert ("healthy", 3) in rules(own(tmp_path, line, extends="mi355x"))


# -- what the hardware can do


NOTHING = content("skus/new.yaml")


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("gb_per_s: 300", []),
        ("gb_per_s: 310", [("link-rate", 6)]),
        ("count: 36, gb_per_s: 900", [("link-rate", 6)]),
    ],
)
def test_the_rate_of_a_link_is_a_possible_number_of_its_type(
    tmp_path: Path, link: str, expected: list[tuple[str, int]]
) -> None:
    path = tmp_path / "new.yaml"
    path.write_text(NOTHING.format(link=link, source=SOURCE))
    assert sorted(rules(str(path))) == expected
