"""Frozen threshold files: the limits are those of the SKU, and a changed value is noticed."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pytest_accel.core.sku import DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.judging.closing import circumstances
from pytest_accel.skus import contract, loader, requirements

OWN = """\
sku: ours
extends: h100-sxm
limits:
  stream.triad: {floor: 2900, source: {kind: measured, by: us, date: 2026-11, devices: 16, nodes: 8}}
  inventory.clock_max: {floor: 1500, unit: MHz, source: {kind: measured, by: us, date: 2026-11}}
"""


def text_of(sku: Sku, platform: str, level: str = "standard") -> str:
    terms = {"suite": "0.0.9", "date": "2026-11-30"}
    return contract.frozen(sku, sku.platforms[platform], level, **terms)[0]


def frozen(folder: Path, sku: Sku, platform: str, level: str = "standard") -> Sku:
    return thaw(folder, text_of(sku, platform, level))


def thaw(folder: Path, text: str) -> Sku:
    (folder / "contract.yaml").write_text(text)
    return loader.load(str(folder / "contract.yaml"))


def refused(folder: Path, text: str) -> str:
    with pytest.raises(BadFile) as bad:
        thaw(folder, text)
    return str(bad.value)


def demanded(sku: Sku, platform: Platform, level: str, *, emulated: bool = False) -> dict[str, Limit]:
    """The limits of a level; the place in the file is another one."""
    found = requirements.limits(sku, platform, platform.devices or 3, emulated_ports=emulated)
    return {metric: replace(each, origin="") for metric, each in requirements.required_at(level, found).items()}


@pytest.fixture
def text() -> str:
    return text_of(loader.load("h100-sxm"), "hgx8")


QUICK = ("h100-sxm", "mi300x", "cpu")
"""The SKUs of the quick tests; the slow ones have all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in loader.names()]
)
def test_a_contract_demands_what_the_shipped_sku_demands(name: str, tmp_path: Path) -> None:
    sku = loader.load(name)
    for platform in list(sku.platforms.values())[: None if name in QUICK else 1]:
        made = frozen(tmp_path, sku, platform.name)
        (there,) = made.platforms.values()
        for emulated in (False, True):
            wanted = demanded(sku, platform, "standard", emulated=emulated)
            assert demanded(made, there, "standard", emulated=emulated) == wanted
        assert requirements.unfit(made, there, "standard") == requirements.unfit(sku, platform, "standard")
        assert replace(there, limits={}) == replace(platform, limits={})
        assert (made.left_out, made.other_datasheet, made.rematched) == ((), (), False)
        for key in ("title", "vendor", "match", "datasheet", "probes", "spread", "precision", "not_applicable"):
            assert getattr(made, key) == getattr(sku, key), key


@pytest.mark.parametrize("level", ["quick", "long"])
def test_a_contract_holds_the_limits_and_budgets_of_its_level(level: str, tmp_path: Path) -> None:
    for name in QUICK:
        sku = loader.load(name)
        platform = next(iter(sku.platforms.values()))
        made = frozen(tmp_path, sku, platform.name, level)
        assert demanded(made, made.platforms[platform.name], level) == demanded(sku, platform, level)
        assert made.budgets.get(level, {}) == sku.budgets.get(level, {})
        assert set(made.budgets) <= {level}


def test_a_contract_needs_no_other_file(tmp_path: Path, text: str) -> None:
    made = thaw(tmp_path, text)
    assert list(made.files) == [str(tmp_path / "contract.yaml")]
    kinds = {each.declared_by for each in made.limits_on(made.platforms["hgx8"]).values()}
    assert kinds >= {DeclaredBy.SKU_FILE, DeclaredBy.VENDOR_FILE, DeclaredBy.RUN}


def test_a_limit_that_was_taken_out_is_not_implied_again(tmp_path: Path, text: str) -> None:
    """A buyer who agrees on less gets exactly that."""
    content = yaml.safe_load(text)
    del content["platforms"]["hgx8"]["limits"]["health.pcie_width"]
    content["contract"]["sha256"] = contract.seal(content)
    made = thaw(tmp_path, yaml.safe_dump(content))
    assert "health.pcie_width" not in requirements.limits(made, made.platforms["hgx8"], 8)


def test_a_floor_that_was_changed_by_hand_is_noticed(tmp_path: Path, text: str) -> None:
    changed = text.replace("floor: 2762", "floor: 2700", 1)
    assert changed != text
    said = refused(tmp_path, changed)
    assert "contract.yaml:4: contract.sha256: the file was changed after it was frozen: it states sha256 " in said
    assert said.endswith("; ask for the original, or freeze a new one")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("level: standard", "level: quick"),
        ("severity: warn", "severity: fail"),
        ("devices: 8", "devices: 7"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"),
        ("suite: 0.0.9", "suite: 0.1.0"),
        ("between_devices: 0.016", "between_devices: 0.16"),
    ],
)
def test_any_value_that_was_changed_is_noticed(old: str, new: str, tmp_path: Path, text: str) -> None:
    assert old in text
    assert "it was frozen" in refused(tmp_path, text.replace(old, new, 1))


def test_comments_layout_and_order_do_not_count(tmp_path: Path, text: str) -> None:
    content = yaml.safe_load(text)
    other = "# ours\n" + yaml.safe_dump(content, sort_keys=True, default_flow_style=False, width=60)
    assert other.index("name: h100") > other.index("limits:")
    assert thaw(tmp_path, other).contract == thaw(tmp_path, text).contract
    assert thaw(tmp_path, text.replace("gb: 80,", "gb: 80.0,  # decimal\n")).contract


def test_a_contract_without_a_hash_or_with_extends_is_refused(tmp_path: Path, text: str) -> None:
    content = yaml.safe_load(text)
    assert "extends nothing" in refused(tmp_path, yaml.safe_dump({**content, "extends": "h100-sxm"}))
    del content["contract"]["sha256"]
    assert "sha256 is missing" in refused(tmp_path, yaml.safe_dump(content))


def test_a_contract_cannot_be_extended(tmp_path: Path, text: str) -> None:
    """Its own limits would no longer be those that were agreed on, and its hash would still be shown."""
    (tmp_path / "contract.yaml").write_text(text)
    (tmp_path / "mine.yaml").write_text("sku: mine\nextends: contract.yaml\n")
    with pytest.raises(BadFile, match="a frozen file cannot be extended"):
        loader.load(str(tmp_path / "mine.yaml"))


def test_what_only_a_frozen_file_states_is_refused_elsewhere(tmp_path: Path) -> None:
    """`declared_by` would make a limit of one's own one of the shipped file."""
    limit = "{floor: 2900, declared_by: SKU file, source: {kind: measured, by: us, date: 2026-11}}"
    said = refused(tmp_path, f"sku: ours\nextends: h100-sxm\nlimits: {{stream.triad: {limit}}}\n")
    assert "contract.yaml:3: unknown key 'limits.stream.triad.declared_by'" in said


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("floor: 2762.1", "floor: low", "limits.stream.triad.floor is "),
        ("    floor: 2762.1", "    flor: 2762.1", "limits.stream.triad.flor is not known"),
        ("platform: hgx8", "platform: hgx4", "contract.platform: is hgx4, but the file has hgx8"),
    ],
)
def test_what_does_not_fit_is_named_although_the_hash_does(
    old: str, new: str, why: str, tmp_path: Path, text: str
) -> None:
    assert old in text
    content = yaml.safe_load(text.replace(old, new, 1))
    content["contract"]["sha256"] = contract.seal(content)
    assert why in refused(tmp_path, yaml.safe_dump(content))


def test_what_an_own_file_overrides_is_overridden_in_its_contract(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    own = loader.load(str(tmp_path / "own.yaml"))
    made = frozen(tmp_path, own, "hgx8")
    wanted = demanded(own, own.platforms["hgx8"], "standard")
    assert demanded(made, made.platforms["hgx8"], "standard") == wanted
    assert {metric for metric, each in wanted.items() if each.overridden} == {"stream.triad", "inventory.clock_max"}


def test_a_copy_that_leaves_limits_out_says_so_in_its_contract_too(tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(
        "sku: copy\nvendor: nvidia\nmatch: {names: [NVIDIA H100 80GB HBM3]}\nplatforms: {hgx8: {devices: 8}}\n"
    )
    copy = loader.load(str(tmp_path / "copy.yaml"))
    assert "stream.triad" in copy.left_out
    made = frozen(tmp_path, copy, "hgx8")
    assert set(made.left_out) >= set(copy.left_out)
    assert set(made.other_datasheet) >= set(copy.other_datasheet)


def forged(folder: Path, text: str, old: str, new: str) -> tuple[set[str], Sku]:
    """Change a contract, compute its hash anew, and return the limits that count as overridden, and the SKU."""
    assert old in text
    content = yaml.safe_load(text.replace(old, new, 1))
    content["contract"]["sha256"] = contract.seal(content)
    made = thaw(folder, yaml.safe_dump(content))
    (platform,) = made.platforms.values()
    limits = requirements.limits(made, platform, 8)
    return {metric for metric, each in limits.items() if each.overridden}, made


@pytest.mark.parametrize(
    ("old", "new", "overridden"),
    [
        ("floor: 2762", "floor: 1762", {"stream.triad"}),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H20", {"inventory.sku"}),
        ("\n    devices: 8\n", "\n    devices: 4\n", {"inventory.count"}),
        ("between_devices: 0.016", "between_devices: 0.16", {"matmul.bf16"}),
    ],
)
def test_a_contract_with_a_hash_of_its_own_is_held_against_the_shipped_file(
    old: str, new: str, overridden: set[str], tmp_path: Path, text: str
) -> None:
    """Whoever lowers a floor can compute the hash anew: the closing line has to say that it is another floor."""
    found, made = forged(tmp_path, text, old, new)
    assert found >= overridden
    assert forged(tmp_path, text, "hgx8", "hgx8")[0] == set()
    (platform,) = made.platforms.values()
    around = circumstances(made, platform, "standard", requirements.limits(made, platform, 8), [])
    assert around.overridden >= len(overridden)


def test_a_limit_taken_out_of_a_contract_is_counted(tmp_path: Path, text: str) -> None:
    content = yaml.safe_load(text)
    del content["limits"]["stream.triad"]
    del content["platforms"]["hgx8"]["limits"]["health.pcie_width"]
    content["contract"]["sha256"] = contract.seal(content)
    assert set(thaw(tmp_path, yaml.safe_dump(content)).left_out) == {"stream.triad", "health.pcie_width"}


def test_another_datasheet_in_a_contract_is_told(tmp_path: Path, text: str) -> None:
    assert forged(tmp_path, text, "bf16: 989.4", "bf16: 700")[1].other_datasheet == ("tflops.bf16",)


def test_a_limit_only_advises_where_the_probe_measures_otherwise_by_now(tmp_path: Path, text: str) -> None:
    """The figure was agreed on for the probe of then."""
    content = yaml.safe_load(text)
    assert content["contract"]["methods"]["stream.triad"]["statistic"] == "best"
    content["contract"]["methods"]["stream.triad"]["statistic"] = "worst"
    content["contract"]["sha256"] = contract.seal(content)
    made = thaw(tmp_path, yaml.safe_dump(content))
    assert made.limits["stream.triad"].differs == ("statistic worst (ours: best)",)


def test_another_version_of_the_suite_is_said(tmp_path: Path, text: str) -> None:
    made = thaw(tmp_path, text)
    assert contract.other_suite(made, "0.0.9") is None
    said = "the contract was frozen by pytest_accel 0.0.9, and this is 0.1.0: its probes may differ"
    assert contract.other_suite(made, "0.1.0") == said
