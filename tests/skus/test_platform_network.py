"""The NICs of platforms, and what lint says of those that no node has."""

from pathlib import Path

import pytest
from support import shipped
from support.data_files import content, tables

from pytest_accel.core.untrusted import BadFile
from pytest_accel.skus import loader, peaks
from pytest_accel.skus.lint import lint

ROWS = tables("skus/platform-network")


@pytest.mark.parametrize(("sku", "platform", "each", "node"), ROWS["rates"])
def test_the_nics_of_a_platform_give_each_device_its_wire_rate(
    sku: str, platform: str, each: float, node: float
) -> None:
    found = shipped.load(sku).platforms[platform]
    assert (peaks.peak(shipped.load(sku), "network.pairs", found), found.wire_gb_per_s) == (
        (each, "wire rate of a device"),
        node,
    )


def test_a_platform_that_anybody_cables_as_he_likes_has_no_wire_rate() -> None:
    for sku, platform in (("h100-sxm", "hgx8"), ("gb200", "gb200-tray"), ("gb300", "vm-passthrough"), ("cpu", "host")):
        found = shipped.load(sku).platforms[platform]
        assert found.wire_gb_per_s is None, sku


WRONG = content("skus/network.yaml")


def test_lint_finds_what_no_node_has(tmp_path: Path) -> None:
    expected = ROWS["lint"]
    files = {str(tmp_path / f"{place}.yaml"): stated for place, stated in enumerate(expected)}
    for path, stated in files.items():
        Path(path).write_text(WRONG.format(network=stated))
    said = dict.fromkeys(files, "")
    for each in lint([*files], "2026-11-27").messages:
        said[each.file] += f"{each.key}: {each.value}: {each.expected}\n" if ".network" in each.key else ""
    assert [path for path in files if expected[files[path]] not in said[path]] == []
    assert [stated for path, stated in files.items() if said[path] and not expected[stated]] == []


def test_a_network_needs_its_source_and_no_other_key(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("sku: mine\nextends: h100-sxm\nplatforms: {hgx8: {network: {nics: 8, gb_per_s: 50}}}\n")
    with pytest.raises(BadFile, match=r"mine.yaml:3: .*network.*gb_per_s") as bad:
        loader.load(str(path))
    assert "source" in str(bad.value)
