"""Limits that follow from datasheet and platform: what a device states about itself is held against both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import shipped
from support.rows import each_row
from support.shipped import every as every_sku

from pytest_accel.core.sku_types import DELIVERY, DeclaredBy, Limit, Platform, Sku
from pytest_accel.skus import implied, loader, requirements

H100 = shipped.load("h100-sxm")
HGX8 = H100.platforms["hgx8"]
FIGURES = {
    "inventory.power_limit_default": 700,
    "inventory.power_limit_max": 700,
    "inventory.clock_max": 1980,
    "inventory.memory_clock_max": 2619,
    "inventory.memory_bus": 5120,
    "inventory.compute_units": 132,
}


def test_what_the_datasheet_states_is_a_floor_with_its_own_source() -> None:
    limits = requirements.limits(H100, HGX8, 8)
    assert {metric: limits[metric].floor for metric in FIGURES} == FIGURES
    assert limits["inventory.clock_max"].same_on_all
    assert (limits["inventory.pcie_gen_max"].floor, limits["inventory.pcie_gen_max"].equals) == (5, None), "or newer"
    power = limits["inventory.power_limit_default"]
    assert power.source == H100.datasheet.source_of("power")
    assert power.origin == "datasheet of h100-sxm: power.watts"
    assert (power.warns, power.declared_by) == (False, DeclaredBy.RUN)


def test_a_demand_on_all_nodes_of_a_delivery_keeps_the_floor_of_the_datasheet() -> None:
    demanded = replace(H100.limits["inventory.clock_max"], same_on_all=DELIVERY)
    limits = requirements.limits(replace(H100, limits={**H100.limits, demanded.metric: demanded}), HGX8, 8)
    found = limits["inventory.clock_max"]
    assert (found.floor, found.same_on_all) == (1980, DELIVERY)


def test_a_shipped_file_overrides_nothing() -> None:
    """Some put the power of a board, which its maker sets, below the datasheet."""
    overriding = []
    for sku in every_sku():
        for platform in sku.platforms.values():
            limits = requirements.limits(sku, platform, 1)
            found = [metric for metric, limit in limits.items() if limit.overridden]
            overriding += [f"{sku.name} {platform.name} {metric}" for metric in found]
    assert overriding == []


@pytest.mark.parametrize("weaker", [{"levels": ("long",)}, {"warns": True}, {"if_supported": True}])
def test_a_limit_of_ones_own_that_binds_less_counts_as_overridden(weaker: dict[str, Any]) -> None:
    own = Limit("health.nvlink_up", "count", equals=18, declared_by=DeclaredBy.OWN_FILE)
    found = implied.merge(implied.limits(H100, HGX8), {own.metric: replace(own, **weaker)})
    assert found[own.metric].overridden
    assert not implied.merge(implied.limits(H100, HGX8), {own.metric: own})[own.metric].overridden


def test_a_part_of_a_device_states_less_than_the_whole() -> None:
    part = replace(HGX8, partition={"compute": "CPX"})
    assert not FIGURES.keys() & implied.limits(H100, part).keys()


def test_a_figure_that_nobody_stated_makes_no_limit() -> None:
    """The H100's temperatures are derived; no source states a highest clock of the A10."""
    assert "inventory.slowdown_temperature" not in requirements.limits(H100, HGX8, 8)
    a100, a10 = shipped.load("a100-sxm-80gb"), shipped.load("a10")
    assert requirements.limits(a100, a100.platforms["hgx8"], 8)["inventory.slowdown_temperature"].warns
    assert requirements.limits(a10, a10.platforms["single"], 1)["inventory.clock_max"].floor is None


def test_a_part_whose_power_is_configurable_is_held_to_the_least_that_is_delivered() -> None:
    least = {"b200-sxm": 700, "b300-sxm": 1000, "h100-pcie": 300, "h100-nvl": 350, "h200-sxm": 700, "mi300x": 750}
    for part in map(shipped.load, least):
        limits = [requirements.limits(part, platform, 1) for platform in part.platforms.values()]
        assert {each["inventory.power_limit_default"].floor for each in limits} == {least[part.name]}, part.name
    own = requirements.limits(H100, replace(HGX8, power_watts=500.0), 8)
    assert own["inventory.power_limit_default"].floor == 500, "a platform may have one of its own"


def own(folder: Path, text: str) -> Sku:
    path = folder / "own.yaml"
    path.write_text(f"sku: own\nextends: h100-sxm\n{text}")
    return loader.load(str(path))


def test_a_changed_datasheet_counts_as_overridden(tmp_path: Path) -> None:
    sku = own(tmp_path, "datasheet: {power: {watts: 600}}\n")
    limits = requirements.limits(sku, sku.platforms["hgx8"], 8)
    changed = {metric for metric in FIGURES if limits[metric].overridden}
    assert changed == {"inventory.power_limit_default"}
    assert limits["inventory.power_limit_default"].floor == 600


def test_a_platform_that_is_said_to_be_passed_through_counts_as_overridden(tmp_path: Path) -> None:
    """It takes the limits on the PCIe link away."""
    sku = own(tmp_path, "platforms: {hgx8: {passed_through: true}}\n")
    limits = requirements.limits(sku, sku.platforms["hgx8"], 8)
    assert "health.pcie_width" not in limits
    assert limits["inventory.count"].overridden


def test_no_shipped_part_contradicts_its_own_datasheet() -> None:
    """A floor on the default power above the highest that can be set would reject every board."""
    wrong = []
    for sku in every_sku():
        for platform in sku.platforms.values() if sku.vendor in ("nvidia", "amd") else ():
            limits = requirements.limits(sku, platform, 1)
            default, most = (limits.get(f"inventory.power_limit_{each}") for each in ("default", "max"))
            if default and most and (default.floor or 0) > (most.floor or 0):
                wrong.append(f"{sku.name} {platform.name}")
    assert wrong == []


@pytest.mark.parametrize(
    ("link", "metric", "floor"),
    [
        ({"type": "nvlink4", "count": 18, "gb_per_s": 450}, "inventory.nvlink_speed", 25.0),
        ({"type": "nvlink3", "count": 4, "gb_per_s": 56.25}, "inventory.nvlink_speed", 14.062),
        ({"type": "xgmi3", "count": 7, "gb_per_s": 448}, "inventory.xgmi_speed", 64.0),
    ],
)
def test_every_link_has_the_rate_of_its_type(link: dict[str, object], metric: str, floor: float) -> None:
    limits = implied.limits(H100, Platform("here", 8, link=link))
    assert limits[metric].floor == floor


def test_links_that_no_library_counts_make_no_limit() -> None:
    """An AMD card has no NVLinks: the limit of a healthy MI210 with bridges could never be judged."""
    for kind in ("Infinity Fabric bridge", "ICI", "RoCE 200GbE", "Xe Link"):
        platform = replace(HGX8, link={"type": kind, "topology": "mesh", "count": 3})
        assert not {"health.nvlink_up", "health.xgmi_up"} & set(implied.limits(H100, platform)), kind


def test_nics_are_demanded_by_the_number_and_the_rate_of_the_platform() -> None:
    dgx = H100.platforms["dgx"]
    limit = requirements.limits(H100, dgx, 8)["host.nics_active"]
    assert (limit.floor, limit.conditions, limit.warns) == (8, {"gb_per_s": 50.0}, False)
    assert (limit.source, limit.origin) == (dgx.network["source"], "network of platform dgx of h100-sxm")


@each_row("network", [{}, {"nics": None}, {"link": "efa"}, {"link": "slingshot"}, {"link": "ethernet"}])
def test_nics_of_which_nobody_or_no_kernel_states_the_rate_make_no_limit(network: dict[str, Any]) -> None:
    stated = (
        {key: each for key, each in {**H100.platforms["dgx"].network, **network}.items() if each} if network else {}
    )
    assert "host.nics_active" not in implied.limits(H100, replace(HGX8, network=stated))


@pytest.mark.parametrize(("platform", "judged"), [("dgx", False), ("vm-passthrough", True)])
def test_a_virtual_machine_has_the_nics_that_its_platform_states(platform: str, judged: bool) -> None:
    found = requirements.limits(H100, H100.platforms[platform], 8, emulated_ports=True)
    assert ("host.nics_active" in found) is judged


def test_a_file_that_demands_less_of_the_network_counts_as_overriding(tmp_path: Path) -> None:
    source = "source: {kind: agreed, by: us, date: 2026-11}"
    (tmp_path / "mine.yaml").write_text(
        "sku: mine\nextends: h100-sxm\nplatforms:\n"
        f"  dgx: {{network: {{gbit_per_s: 200, {source}}}}}\n"
        f"  hgx8: {{network: {{nics: 8, gbit_per_s: 200, link: roce, {source}}}}}\n"
    )
    mine = loader.load(str(tmp_path / "mine.yaml"))
    limits = {each: requirements.limits(mine, mine.platforms[each], 8)["host.nics_active"] for each in ("dgx", "hgx8")}
    assert {name: (each.conditions, each.overridden) for name, each in limits.items()} == {
        "dgx": ({"gb_per_s": 25.0}, True),
        "hgx8": ({"gb_per_s": 25.0}, False),
    }
