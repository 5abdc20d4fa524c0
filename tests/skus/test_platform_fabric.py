"""The NICs of platforms, and what a bus bandwidth over several nodes means for them, by published figures."""

from dataclasses import replace
from pathlib import Path

import pytest
import shipped
from tabled import content, tables

from pytest_accel.core.untrusted import BadFile
from pytest_accel.skus import fabric, loader
from pytest_accel.skus.lint import lint

ROWS = tables("skus/platform-fabric")

DGX = shipped.load("h100-sxm").platforms["dgx"]


@pytest.mark.parametrize(("sku", "platform", "each", "node"), ROWS["rates"])
def test_the_nics_of_a_platform_give_each_device_its_wire_rate(
    sku: str, platform: str, each: float, node: float
) -> None:
    found = shipped.load(sku).platforms[platform]
    assert (fabric.port_rate(found), found.wire_gb_per_s) == (each, node)


def test_a_platform_that_anybody_cables_as_he_likes_has_no_wire_rate() -> None:
    for sku, platform in (("h100-sxm", "hgx8"), ("gb200", "gb200-tray"), ("gb300", "vm-passthrough"), ("cpu", "host")):
        found = shipped.load(sku).platforms[platform]
        assert (fabric.port_rate(found), fabric.expected(found, 4, 32)) == (None, {}), sku


@pytest.mark.parametrize(("busbw", "nodes", "ranks", "ring", "tree"), ROWS["loads"])
def test_a_bus_bandwidth_is_the_load_of_a_port(busbw: float, nodes: int, ranks: int, ring: float, tree: float) -> None:
    assert fabric.ring_load(busbw, nodes, ranks) == pytest.approx(ring, abs=0.05)
    assert fabric.port_load(busbw, nodes, ranks) == pytest.approx(tree, abs=0.05)


def test_healthy_ports_give_what_nvidia_says_and_a_node_bounds_few_nodes() -> None:
    ring, tree = fabric.expected(DGX, 4, 32)["ring"], fabric.expected(DGX, 4, 32)["tree"]
    assert ring == pytest.approx((368, 384)), "NVIDIA: 48 GB/s from each NIC of 400 Gbit/s, all of them with rings"
    assert tree[0] == pytest.approx(46 * 31 / 3)
    assert fabric.expected(DGX, 2, 16)["tree"] == pytest.approx((513.075, 513.075)), "274 GB/s of algbw, as one node"
    assert fabric.expected(DGX, 128, 1024)["tree"][1] == pytest.approx(48 * 1023 / 127), "as many a ring"
    for nodes in (2, 4, 64):
        for at in fabric.expected(replace(DGX, limits={}), nodes, 8 * nodes)["tree"]:
            assert 46 <= fabric.port_load(at, nodes, 8 * nodes) <= 48.001


WRONG = content("skus/fabric.yaml")


def test_lint_finds_what_no_node_has(tmp_path: Path) -> None:
    expected = ROWS["lint"]
    files = {str(tmp_path / f"{place}.yaml"): stated for place, stated in enumerate(expected)}
    for path, stated in files.items():
        Path(path).write_text(WRONG.format(fabric=stated))
    said = dict.fromkeys(files, "")
    for each in lint([*files], "2026-11-27").findings:
        said[each.file] += f"{each.key}: {each.value}: {each.expected}\n" if ".fabric" in each.key else ""
    assert [path for path in files if expected[files[path]] not in said[path]] == []
    assert [stated for path, stated in files.items() if said[path] and not expected[stated]] == []


def test_a_fabric_needs_its_source_and_no_other_key(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("sku: mine\nextends: h100-sxm\nplatforms: {hgx8: {fabric: {nics: 8, gb_per_s: 50}}}\n")
    with pytest.raises(BadFile, match=r"mine.yaml:3: .*fabric.*gb_per_s") as bad:
        loader.load(str(path))
    assert "source" in str(bad.value)
