"""Threshold files: the shipped ones, the user's own, and every mistake that one can hold."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.data_files import content, tables
from support.rows import each_row
from support.shipped import every as every_sku

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sku_types import DeclaredBy, Sku
from pytest_accel.core.verdict import Status
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.terms import Terms
from pytest_accel.skus import loader, products, requirements

ROWS = tables("skus/loader")

CHECKOUT = Path(__file__).parents[2] / "thresholds"
SHIPPED = sorted(path.stem for path in CHECKOUT.glob("*.yaml") if path.stem != "classes")
ACCELERATORS = [name for name in SHIPPED if name != "cpu"]

SOURCE = "{kind: measured, by: us, date: 2026-11}"
GOOD = content("skus/good.yaml")


def write(folder: Path, text: str, name: str = "mine.yaml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def load(folder: Path, text: str) -> Sku:
    return loader.load(write(folder, text))


def refused(folder: Path, text: str) -> str:
    with pytest.raises(BadFile) as bad:
        load(folder, text)
    return str(bad.value)


@each_row(("platform", "message"), ROWS["platforms"])
def test_a_platform_that_looks_misspelt_is_refused_unless_it_has_a_title(
    tmp_path: Path, platform: str, message: str
) -> None:
    """Limits under it would replace nothing, and the node would be judged by those of the platform that was meant."""
    text = f"sku: mine\nextends: h100-sxm\nplatforms:\n  {platform}\n"
    if message:
        assert message in refused(tmp_path, text)
    else:
        load(tmp_path, text)


# -- the shipped files


def test_a_shipped_file_loads_and_is_named_as_it_says() -> None:
    assert [sku.name for sku in every_sku()] == list(SHIPPED)
    for sku in every_sku():
        assert sku.own_file is None, sku.name
        assert set(sku.files) - {f"vendor/{sku.vendor}.yaml", "classes.yaml"} == {f"{sku.name}.yaml"}
        limits = [limit for platform in sku.platforms.values() for limit in sku.limits_on(platform).values()]
        assert not any(limit.overridden for limit in limits), sku.name


def test_every_shipped_limit_says_where_it_is_and_who_measured_it() -> None:
    wrong = []
    for sku in every_sku():
        places = {f"{sku.name}.yaml": DeclaredBy.SKU_FILE, f"vendor/{sku.vendor}.yaml": DeclaredBy.VENDOR_FILE}
        places["classes.yaml"] = DeclaredBy.CLASS
        for platform in sku.platforms.values():
            for metric, limit in sku.limits_on(platform).items():
                known = limit.declared_by is places[limit.origin.partition(":")[0]]
                if not (limit.metric == metric and known and limit.source and limit.source.by):
                    wrong.append(f"{sku.name} {platform.name} {metric}")
    assert wrong == []


def test_every_shipped_accelerator_is_recognised_by_whole_names() -> None:
    """Or by its PCI id alone, where the driver gives it no product name: Trainium, and boards before their release."""
    nameless = [sku for sku in every_sku() if sku.name in ACCELERATORS and not sku.match.get("names")]
    unknown = [sku.name for sku in nameless if not sku.match["pci_ids"]]
    assert unknown == []
    assert {sku.name for sku in nameless if sku.vendor != "neuron"} <= {"vr200"}


def test_no_device_is_two_shipped_skus() -> None:
    """By name, and by what else its file asks for: MI250 and MI250X share theirs, and differ in compute units."""
    every = every_sku()
    for sku in every:
        units = sku.match.get("compute_units", ())
        for model in sku.match.get("names", ()):
            facts = {"compute_units": next(iter(units), None)}
            device = Device(uuid="GPU-0", index=0, driver=sku.vendor, model=model, facts=facts)
            assert products.recognise([device], every) == [sku]


def test_names_are_found_and_near_ones_suggested() -> None:
    assert loader.names() == SHIPPED
    with pytest.raises(BadFile, match="no SKU named 'h100-sxn'; did you mean 'h100-sxm'"):
        loader.load("h100-sxn")


# -- mistakes


def test_the_file_that_the_mistakes_are_made_in_is_good(tmp_path: Path) -> None:
    sku = load(tmp_path, GOOD)
    assert sku.limits["matmul.bf16"].floor == 600
    assert sku.own_file == str(tmp_path / "mine.yaml")
    assert not sku.limits["matmul.bf16"].overridden


MISTAKES = yaml.safe_load(content("loader-mistakes.yaml"))


@each_row("mistake", MISTAKES)
def test_a_mistake_is_named_with_file_line_key_and_value(tmp_path: Path, mistake: dict[str, Any]) -> None:
    (old, new), (line, message) = mistake["change"], mistake["error"]
    assert GOOD.count(old) == 1
    text = refused(tmp_path, GOOD.replace(old, new))
    assert f"mine.yaml:{line}: " in text
    assert message in text


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    text = refused(
        tmp_path, GOOD.replace("nvidia", "nvida").replace("floor", "flor").replace("devices: 8", "devices: 0")
    )
    assert [line.split(":")[1] for line in text.splitlines()] == ["2", "7", "9"]


def test_a_derived_floor_is_the_stated_share_of_the_reference(tmp_path: Path) -> None:
    limit = load(tmp_path, GOOD.replace("floor: 600", "floor: derived, reference: 700")).limits["matmul.bf16"]
    assert (limit.floor, limit.of_reference) == (round(0.92 * 700, 4), 0.92)


# -- extending


def extending(limits: str, base: str = "h100-sxm", more: str = "") -> str:
    return f"extends: {base}\n{more}limits:\n{limits}\n"


def test_one_value_of_a_shipped_file_is_overridden_and_counted(tmp_path: Path) -> None:
    own = load(tmp_path, extending(f"  matmul.bf16: {{floor: 650, source: {SOURCE}}}"))
    shipped = loader.load("h100-sxm")
    changed = {metric for metric, limit in own.limits.items() if limit.overridden}
    assert changed == {"matmul.bf16"}
    assert own.limits["matmul.bf16"].floor == 650
    assert own.limits["matmul.bf16"].origin == f"{tmp_path / 'mine.yaml'}:3"
    assert own.limits["matmul.bf16"].declared_by is DeclaredBy.OWN_FILE
    assert own.limits["matmul.bf16"].published == shipped.limits["matmul.bf16"].published
    assert own.limits["matmul.tf32"] == shipped.limits["matmul.tf32"]
    assert set(own.files) == {"vendor/nvidia.yaml", "classes.yaml", "h100-sxm.yaml", str(tmp_path / "mine.yaml")}
    assert (own.name, own.own_file) == ("h100-sxm", str(tmp_path / "mine.yaml"))


def test_a_new_source_inherits_nothing_of_the_old_one(tmp_path: Path) -> None:
    """Or the supplier's figure would seem to be measured under the conditions of another."""
    own = load(tmp_path, extending(f"  matmul.bf16: {{floor: 650, source: {SOURCE}}}"))
    source = own.limits["matmul.bf16"].source
    assert source is not None
    assert (source.by, source.url, source.conditions) == ("us", "", "")


@each_row(("line", "message"), ROWS["refused"])
def test_what_a_limit_lacks_or_may_not_state_is_named(tmp_path: Path, line: str, message: str) -> None:
    assert f"mine.yaml:3: limits.{message}" in refused(tmp_path, extending(f"  {line.replace('SOURCE', SOURCE)}"))


@pytest.mark.parametrize(
    ("change", "metrics"),
    [
        ("probes: {matmul: {m: 64}}", {"matmul.bf16", "matmul.tf32", "matmul.fp8"}),
        ("probes: {stream: {mib: 64}}", {"stream.copy_kernel", "stream.triad"}),
        ("budgets: {quick: {stream: 0.1}}", {"stream.copy_kernel", "stream.triad"}),
    ],
)
def test_measuring_in_another_way_counts_as_overriding(tmp_path: Path, change: str, metrics: set[str]) -> None:
    own = load(tmp_path, f"extends: h100-sxm\n{change}\n")
    assert {metric for metric, limit in own.limits.items() if limit.overridden} == metrics


@each_row(
    "change", ["devices: 7", "virtual: true", "pcie: {lanes: 8}", "link: {count: 17}", "link: {topology: bridge}"]
)
def test_another_platform_counts_as_overriding(tmp_path: Path, change: str) -> None:
    """What the platform says is what the devices are held against; a virtual function has no links."""
    own = load(tmp_path, f"extends: h100-sxm\nplatforms: {{hgx8: {{{change}}}}}\n")
    limits = requirements.limits(own, own.platforms["hgx8"], 8)
    assert limits["inventory.count"].overridden
    assert all(limits[each].overridden for each in ("health.pcie_width", "health.nvlink_up") if each in limits)


@pytest.mark.parametrize("change", ["match: {names: [NVIDIA H800]}", "datasheet: {memory: {gb: 40}}"])
def test_recognising_another_product_counts_as_overriding(tmp_path: Path, change: str) -> None:
    own = load(tmp_path, f"extends: h100-sxm\n{change}\n")
    assert requirements.limits(own, own.platforms["hgx8"], 8)["inventory.sku"].overridden


def test_a_bound_takes_the_place_of_one_of_another_kind(tmp_path: Path) -> None:
    """Of two, one would be judged and the other forgotten."""
    own = load(tmp_path, extending(f"  inventory.power_limit: {{floor: 690, source: {SOURCE}}}"))
    limit = own.limits["inventory.power_limit"]
    assert (limit.floor, limit.same_on_all, limit.overridden) == (690, False, True)


def test_a_chain_of_own_files_counts_what_each_overrides(tmp_path: Path) -> None:
    write(tmp_path, extending(f"  matmul.bf16: {{floor: 650, source: {SOURCE}}}"), "middle.yaml")
    own = load(tmp_path, extending(f"  matmul.tf32: {{floor: 300, source: {SOURCE}}}", base="middle.yaml"))
    assert {metric for metric, limit in own.limits.items() if limit.overridden} == {"matmul.bf16", "matmul.tf32"}


def test_an_own_file_of_a_shipped_name_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record holds the hashes of both, and only what is really overridden is counted."""
    text = extending(f"  matmul.bf16: {{floor: 650, source: {SOURCE}}}")
    (tmp_path / "h100-sxm.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    own = loader.load("h100-sxm.yaml")
    assert set(own.files) == {"vendor/nvidia.yaml", "classes.yaml", "h100-sxm.yaml", "./h100-sxm.yaml"}
    assert own.own_file == "./h100-sxm.yaml"
    assert [limit.overridden for limit in own.limits.values()].count(True) == 1


def test_a_file_that_extends_nothing_lies_over_its_vendors(tmp_path: Path) -> None:
    loosened = "  soak.throttle.hw_thermal: {ceiling: 60, unit: s, source: SOURCE}\n".replace("SOURCE", SOURCE)
    own = load(tmp_path, GOOD.replace("limits:\n", f"limits:\n{loosened}"))
    assert own.limits["soak.throttle.power_brake"].origin.startswith("vendor/nvidia.yaml:")
    assert own.limits["soak.throttle.hw_thermal"].ceiling == 60
    assert own.own_file, "as which the closing line names it"


def test_a_limit_cannot_be_dropped_by_calling_it_not_applicable(tmp_path: Path) -> None:
    text = refused(tmp_path, "extends: h100-sxm\nnot_applicable: {matmul_mamf.fp8: we do not use it}\n")
    assert "limits.matmul_mamf.fp8: has a limit, but is not applicable: we do not use it" in text


@pytest.mark.parametrize("metric", ["inventory.sku", "health.pcie_width", "counters.ecc_uncorrectable"])
def test_no_fact_is_not_applicable(tmp_path: Path, metric: str) -> None:
    text = refused(tmp_path, GOOD.replace("limits:", f"not_applicable: {{{metric}: we know}}\nlimits:"))
    why = "is a fact that the device or host reports; change its limit or use a waiver"
    assert f"mine.yaml:6: not_applicable.{metric}: {why}" in text


def test_a_file_cannot_call_not_applicable_what_the_one_below_leaves_open(tmp_path: Path) -> None:
    """Or a part of what an acceptance needs would not be missed: no limit for host copies, and no need for one."""
    text = refused(tmp_path, "extends: h100-pcie\nnot_applicable: {host_copy.h2d: no matter, host_copy.d2h: neither}\n")
    assert "mine.yaml:2: not_applicable.host_copy.h2d: " in text


@each_row(("extends", "message"), ROWS["bases"])
def test_a_base_that_cannot_be_extended_is_named(tmp_path: Path, extends: str, message: str) -> None:
    write(tmp_path, "extends: mine.yaml\n", "other.yaml")
    assert message in refused(tmp_path, f"extends: {extends}\n")


def test_a_fact_that_warns_alone_is_marginal_and_not_demanded(tmp_path: Path) -> None:
    own = load(tmp_path, extending(f"  host.huge_pages: {{warn: {{equals: madvise}}, unit: text, source: {SOURCE}}}"))
    limit = own.limits["host.huge_pages"]
    assert judge([Measurement(limit.metric, "node", "text", "never")], limit).status is Status.MARGINAL
    assert not limit.required


def test_another_datasheet_of_a_file_that_extends_is_named(tmp_path: Path) -> None:
    """Also a dtype that is said to be unsupported: it would not be measured, and no limit asks for it."""
    own = load(tmp_path, f"extends: h100-sxm\ndatasheet: {{unsupported: [fp6, fp4, fp64], source: {SOURCE}}}\n")
    assert own.datasheet.overridden == {"unsupported.fp64"}
    own = load(tmp_path, f"extends: h100-sxm\ndatasheet: {{tflops: {{bf16: 500.0}}, source: {SOURCE}}}\n")
    around = Terms(own, own.platforms["single"], "quick").circumstances()
    assert list(around.other_datasheet) == ["tflops.bf16"]


def test_a_copy_of_a_shipped_file_is_named_as_a_file_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text((loader.SHIPPED / "h100-sxm.yaml").read_text())
    own = loader.load(str(path))
    assert Terms(own, own.platforms["single"], "quick").circumstances().own_file


@each_row(("own", "at_quick", "per_kelvin", "second_sign"), ROWS["refined"])
def test_what_refines_a_bound_does_not_outlive_it(
    tmp_path: Path, own: str, at_quick: float, per_kelvin: float, second_sign: bool | None
) -> None:
    source = "{kind: agreed, by: us, date: 2026-11}"
    path = tmp_path / "ours.yaml"
    path.write_text(f"sku: ours\nextends: h100-sxm\nlimits: {{{own.replace('SOURCE', source)}}}\n", encoding="utf-8")
    limit = loader.load(str(path)).limits[own.partition(":")[0]].at_level("quick")
    assert (limit.warn, limit.warn_per_kelvin) == (at_quick, per_kelvin)
    assert second_sign in (None, limit.second_sign)
