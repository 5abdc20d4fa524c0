"""Contracts: threshold files with their hash in the first line. The limits are the SKU's, and a change is noticed."""

from dataclasses import replace
from pathlib import Path

import pytest
import shipped
import yaml

from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.judging.closing.line import circumstances
from pytest_accel.skus import contract, loader, requirements

OWN = """\
sku: ours
extends: h100-sxm
limits:
  stream.triad: {floor: 2900, source: {kind: agreed, by: Buyer and Supplier, date: 2026-11}}
  inventory.clock_max: {floor: 1500, unit: MHz, source: {kind: measured, by: us, date: 2026-11}}
"""


def text_of(name: str, platform: str, level: str = "standard") -> str:
    sku, root = loader.read(name)
    where = sku.platform_named(platform)
    assert where is not None
    return contract.frozen(sku, root, where, level, "us")[0]


def thaw(folder: Path, text: str) -> Sku:
    (folder / "contract.yaml").write_text(text)
    return loader.load(str(folder / "contract.yaml"))


def refused(folder: Path, text: str) -> str:
    with pytest.raises(BadFile) as bad:
        thaw(folder, text)
    return str(bad.value)


def resealed(text: str, old: str, new: str) -> str:
    """A contract that was changed, with its hash computed anew, as whoever changes one on purpose can do."""
    assert old in text
    behind = text[contract.BEHIND :].replace(old, new, 1)
    return f"# sha256: {contract.hash_of(behind.encode())}  {behind}"


def demanded(sku: Sku, platform: Platform, *, emulated: bool = False) -> dict[str, Limit]:
    """The limits but for what a contract states otherwise: the place in a file, and how a floor was derived."""
    found = requirements.limits(sku, platform, platform.devices or 3, emulated_ports=emulated)
    return {metric: replace(each, origin="", of_reference=None, overridden=False) for metric, each in found.items()}


@pytest.fixture
def text() -> str:
    return text_of("h100-sxm", "hgx8")


QUICK = ("h100-sxm", "mi300x", "cpu")
"""The SKUs of the quick tests; the slow ones have all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in loader.names()]
)
def test_a_contract_demands_what_the_shipped_sku_demands(name: str, tmp_path: Path) -> None:
    sku = shipped.load(name)
    for platform in list(sku.platforms.values())[: None if name in QUICK else 1]:
        made = thaw(tmp_path, text_of(name, platform.name))
        (there,) = made.platforms.values()
        for emulated in (False, True):
            assert demanded(made, there, emulated=emulated) == demanded(sku, platform, emulated=emulated)
        for level in ("quick", "standard"):
            assert requirements.unfit(made, there, level) == requirements.unfit(sku, platform, level)
        around = circumstances(made, there, "standard", requirements.limits(made, there, 8), [])
        assert (around.overridden, list(around.other_datasheet), made.rematched) == (0, [], False)
        assert replace(there, limits={}) == replace(platform, limits={})
        for key in ("title", "vendor", "match", "datasheet", "probes", "precision", "not_applicable", "budgets"):
            assert getattr(made, key) == getattr(sku, key), key


def test_the_number_of_cards_is_part_of_a_contract(tmp_path: Path) -> None:
    made = thaw(tmp_path, text_of("l40s", "pcie4"))
    assert {name: each.devices for name, each in made.platforms.items()} == {"pcie4": 4}
    assert circumstances(made, made.platforms["pcie4"], "standard", made.limits, []).overridden == 0


def test_a_contract_needs_no_file_but_that_of_the_classes(tmp_path: Path, text: str) -> None:
    assert list(thaw(tmp_path, text).files) == [str(tmp_path / "contract.yaml"), "classes.yaml"]


def test_the_hash_is_that_of_everything_behind_it(tmp_path: Path, text: str) -> None:
    terms = thaw(tmp_path, text).contract
    assert terms is not None
    assert terms.named(12) == f"sha256 {text[10:22]}..., h100-sxm on hgx8 at standard"
    assert contract.hash_of(text[76:].encode()) == text[10:74]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("floor: 2762", "floor: 2700"),
        ("at standard", "at quick"),
        ("devices: 8", "devices: 7"),
        ("between_devices: 0.016", "between_devices: 0.16"),
        ("# Frozen by us", "# Frozen by them"),
    ],
)
def test_any_change_is_noticed(old: str, new: str, tmp_path: Path, text: str) -> None:
    assert old in text
    said = refused(tmp_path, text.replace(old, new, 1))
    assert "contract.yaml:1: sha256: the file was changed after it was frozen: it states " in said
    assert said.endswith("; ask for the original, or freeze a new one")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (" at standard", "", "contract.yaml:1: sha256: the first line of a contract is not complete; ask"),
        ("on hgx8", "on hgx4", "it is for hgx4 at standard, but the file has platform hgx8; the levels are quick, "),
        ("at standard", "at often", "it is for hgx8 at often, but "),
        ("\nvendor:", "\nextends: h100-sxm\nvendor:", "extends: a contract holds every limit and extends nothing"),
        ("floor: 2762.1", "floor: low", "limits.stream.triad.floor: "),
        ("    floor: 2762.1", "    flor: 2762.1", "unknown key 'limits.stream.triad.flor'"),
    ],
)
def test_what_does_not_fit_is_named_although_the_hash_does(
    old: str, new: str, why: str, tmp_path: Path, text: str
) -> None:
    assert why in refused(tmp_path, resealed(text, old, new))


def test_a_limit_without_its_reference_is_one_all_the_same(tmp_path: Path, text: str) -> None:
    """Only the loader decides what a limit needs; judging by one once ended in a traceback."""
    whole = thaw(tmp_path, text).limits["stream.triad"]
    made = thaw(tmp_path, resealed(text, "    reference: 2970\n", "")).limits["stream.triad"]
    assert (whole.reference, made.reference) == (2970, None)
    assert (made.floor, made.of_reference) == (whole.floor, None)


def test_what_an_own_file_overrides_is_overridden_in_its_contract(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    own = loader.load(str(tmp_path / "own.yaml"))
    made = thaw(tmp_path, text_of(str(tmp_path / "own.yaml"), "hgx8"))
    assert demanded(made, made.platforms["hgx8"]) == demanded(own, own.platforms["hgx8"])
    limits = requirements.limits(made, made.platforms["hgx8"], 8)
    assert {metric for metric, each in limits.items() if each.overridden} == {"stream.triad", "inventory.clock_max"}


@pytest.mark.parametrize(
    ("old", "new", "overridden"),
    [
        ("floor: 2762", "floor: 1762", {"stream.triad"}),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100", {"inventory.sku"}),
        ("\n    devices: 8\n", "\n    devices: 4\n", {"inventory.count"}),
        ("between_devices: 0.016", "between_devices: 0.16", {"matmul.bf16"}),
    ],
)
def test_a_contract_with_a_hash_of_its_own_is_held_against_the_shipped_file(
    old: str, new: str, overridden: set[str], tmp_path: Path, text: str
) -> None:
    """Whoever lowers a floor can compute the hash anew: the closing line has to say that it is another floor."""
    made = thaw(tmp_path, resealed(text, old, new))
    (platform,) = made.platforms.values()
    limits = requirements.limits(made, platform, 8)
    assert {metric for metric, each in limits.items() if each.overridden} >= overridden
    around = circumstances(made, platform, "standard", limits, [])
    assert around.overridden >= len(overridden)


def test_an_agreed_floor_below_that_of_the_class_leaves_the_floor_of_the_class(tmp_path: Path, text: str) -> None:
    usual = thaw(tmp_path, text).limits["stream.triad"].beneath
    made = thaw(tmp_path, resealed(text, "floor: 2762.1", "floor: 5")).limits["stream.triad"]
    assert (made.floor, made.beneath) == (5, usual)
    assert usual is not None


def test_a_limit_taken_out_of_a_contract_is_counted(tmp_path: Path, text: str) -> None:
    content = yaml.safe_load(text)
    del content["limits"]["stream.triad"]
    behind = text[contract.BEHIND :].partition("\n")[0] + "\n" + yaml.safe_dump(content)
    made = thaw(tmp_path, f"# sha256: {contract.hash_of(behind.encode())}  {behind}")
    assert made.left_out == ("stream.triad",)


def test_another_datasheet_in_a_contract_is_told(tmp_path: Path, text: str) -> None:
    assert thaw(tmp_path, resealed(text, "bf16: 989.4", "bf16: 700")).other_datasheet == ("tflops.bf16",)


def test_a_file_that_extends_a_contract_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "contract.yaml").write_text(text)
    (tmp_path / "mine.yaml").write_text("sku: mine\nextends: contract.yaml\n")
    assert loader.load(str(tmp_path / "mine.yaml")).contract is None
