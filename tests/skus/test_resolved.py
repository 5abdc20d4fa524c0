"""`pytest-accel sku show NAME --resolved`: one file that requires what the SKU does, and needs no other."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import data_files, shipped

from pytest_accel.cli.main import main
from pytest_accel.core.sku_types import DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.untrusted import sha256
from pytest_accel.run.record import sku_entry
from pytest_accel.run.terms import Terms
from pytest_accel.skus import implied, loader, requirements, resolved

OWN = data_files.content("skus/agreed.yaml")


def text_of(name: str) -> str:
    return resolved.text_of(*loader.read(name))


def loaded(folder: Path, text: str) -> Sku:
    (folder / "resolved.yaml").write_text(text)
    return loader.load(str(folder / "resolved.yaml"))


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def demanded(sku: Sku, platform: Platform, *, emulated: bool = False) -> dict[str, Limit]:
    """The limits but for what a resolved file states otherwise: the file, and how a floor was derived."""
    found = requirements.limits(sku, platform, platform.devices or 3, emulated_ports=emulated)
    return {
        metric: replace(each, origin="", of_reference=None, overridden=False, declared_by=DeclaredBy.OWN_FILE)
        for metric, each in found.items()
    }


def overridden(sku: Sku, name: str = "hgx8") -> set[str]:
    limits = requirements.limits(sku, sku.platforms[name], 8)
    return {metric for metric, each in limits.items() if each.overridden}


@pytest.fixture
def text() -> str:
    return text_of("h100-sxm")


QUICK = ("h100-sxm", "mi300x", "l40s", "cpu")
"""The SKUs of the quick tests; the slow ones have all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.nightly) for name in loader.names()]
)
def test_a_resolved_file_demands_what_the_name_demands(name: str, tmp_path: Path) -> None:
    sku, made = shipped.load(name), loaded(tmp_path, text_of(name))
    for platform in sku.platforms.values():
        there = made.platforms[platform.name]
        for emulated in (False, True):
            assert demanded(made, there, emulated=emulated) == demanded(sku, platform, emulated=emulated)
        for level in ("quick", "standard", "long"):
            assert requirements.unfit(made, there, level) == requirements.unfit(sku, platform, level)
        limits = requirements.limits(made, there, 8)
        less = {metric for metric, each in limits.items() if each.overridden}
        assert less <= set(implied.limits(made, there)), "what demands less than its own datasheet and links"
        around = Terms(made, there, "standard").circumstances()
        assert (list(around.other_datasheet), made.rematched) == ([], False)
        assert replace(there, limits={}) == replace(platform, limits={})
    for key in ("title", "vendor", "match", "datasheet", "probes", "precision", "not_applicable", "budgets"):
        assert getattr(made, key) == getattr(sku, key), key


def test_a_file_that_extends_another_is_printed_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    own = loader.load(str(tmp_path / "own.yaml"))
    assert main(["sku", "show", str(tmp_path / "own.yaml"), "--resolved"]) == 0
    made = loaded(tmp_path, capsys.readouterr().out)
    assert demanded(made, made.platforms["hgx8"]) == demanded(own, own.platforms["hgx8"])
    assert overridden(own) == {"stream.triad", "inventory.clock_max"}
    assert overridden(made) == {"inventory.clock_max"}, "less than its own datasheet demands"
    file = tmp_path / "resolved.yaml"
    assert set(made.files) == {str(file), "vendor/nvidia.yaml", "classes.yaml"}, "no file of the product"
    assert sku_entry(made, str(file))["files"][str(file)] == sha256(file)


def test_a_resolved_file_has_no_implausible_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("h100-sxm", "mi300x"):
        (tmp_path / f"{name}.yaml").write_text(text_of(name))
        assert main(["sku", "lint", str(tmp_path / f"{name}.yaml")]) == 0, capsys.readouterr().out


def test_a_limit_without_its_reference_is_one_all_the_same(tmp_path: Path, text: str) -> None:
    """Only the loader decides what a limit needs; judging by one once ended in a traceback."""
    whole = loaded(tmp_path, text).limits["stream.triad"]
    made = loaded(tmp_path, changed(text, "    reference: 2970\n", "")).limits["stream.triad"]
    assert (whole.reference, made.reference) == (2970, None)
    assert (made.floor, made.of_reference) == (whole.floor, None)


def test_an_agreed_floor_below_that_of_the_class_leaves_the_floor_of_the_class(tmp_path: Path, text: str) -> None:
    usual = loaded(tmp_path, text).limits["stream.triad"].class_floor
    made = loaded(tmp_path, changed(text, "floor: 2762.1", "floor: 5")).limits["stream.triad"]
    assert (made.floor, made.class_floor) == (5, usual)
    assert usual is not None
