"""What has to be judged before anything is accepted."""

from dataclasses import replace
from typing import Any

from support import shipped
from support.rows import each_row

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.sku_types import DeclaredBy, Figure, Limit, Platform, Sku, Source
from pytest_accel.core.verdict import Status
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.terms import Terms
from pytest_accel.skus import requirements
from pytest_accel.skus.readiness import Readiness, half_not_excluded, required_part

H100 = shipped.load("h100-sxm")
INVENTORY = ("inventory.driver", "inventory.count", "inventory.sku", "health.nvlink_up", "health.fabric")
FIGURE = Figure(18.0, 18.0, "count", Source("published", "them", "2026-11"))
HGX8, SINGLE = H100.platforms["hgx8"], H100.platforms["single"]


def gpus(count: int, **facts: str) -> tuple[Device, ...]:
    return tuple(Device(f"GPU-{i}", i, "nvidia", "H100", facts=facts) for i in range(count))


def without(part: str) -> Sku:
    """The H100 without any limit on a part of the node."""

    def kept(limits: Any) -> dict[str, Limit]:
        return {metric: limit for metric, limit in limits.items() if required_part(metric) != part}

    platforms = {name: replace(each, limits=kept(each.limits)) for name, each in H100.platforms.items()}
    return replace(H100, limits=kept(H100.limits), platforms=platforms)


def test_the_inventory_is_expected_whatever_the_file_says() -> None:
    limits = requirements.limits(H100, HGX8, 8)
    assert limits["inventory.driver"].equals == "ok"
    assert limits["inventory.count"].equals == 8
    assert limits["inventory.sku"].equals == "h100-sxm"
    assert {limits[metric].declared_by for metric in INVENTORY} == {DeclaredBy.RUN}
    assert limits["matmul.bf16"] is H100.limits["matmul.bf16"]
    assert limits["host_copy.h2d"] is HGX8.limits["host_copy.h2d"]


PORT = {"health.pcie_width", "inventory.pcie_gen_max"}


def test_an_emulated_port_is_not_judged_and_the_links_to_the_peers_are() -> None:
    bare = requirements.limits(H100, HGX8, 8)
    assert set(bare) >= PORT
    for inside in (
        requirements.limits(H100, HGX8, 8, emulated_ports=True),
        requirements.limits(H100, replace(HGX8, passed_through=True), 8),
    ):
        assert set(bare) - set(inside) == PORT
    assert "health.nvlink_up" in inside


def test_a_node_is_in_a_virtual_machine_if_all_its_devices_say_so() -> None:
    inside = Device("a", 0, "nvidia", "", facts={"virtualization": "passthrough"})
    outside = Device("b", 1, "nvidia", "", facts={"virtualization": "none"})
    assert requirements.passed_through([inside])
    assert not requirements.passed_through([inside, outside])
    assert not requirements.passed_through([])


def test_without_a_sku_an_unreachable_accelerator_is_still_judged() -> None:
    assert set(requirements.limits(None, Platform("unknown", None), 1)) == {"inventory.driver"}


@each_row("name", ["h100-sxm", "h200-sxm", "b200-sxm"])
@each_row(
    ("metric", "value", "expected"),
    [
        ("host.memory", 2163.4, Status.PASS),  # a node of eight H100 with 32 modules of 64 GiB (MIT, ehwprobe)
        ("host.memory", 2163.4 * 31 / 32, Status.FAIL),
        ("host.cpus", 224, Status.PASS),
        ("host.cpus", 112, Status.PASS),  # a thread for each core
        ("host.cpus", 56, Status.FAIL),
    ],
)
def test_a_dgx_has_the_host_that_its_builder_states(name: str, metric: str, value: float, expected: Status) -> None:
    sku = shipped.load(name)
    limit = requirements.limits(sku, sku.platforms["dgx"], 8)[metric]
    assert judge([Measurement(metric, NODE, limit.unit, value)], limit).status is expected
    assert metric not in requirements.limits(sku, sku.platforms["hgx8"], 8)


def test_missing_devices_are_required_too() -> None:
    """Seven of eight found: the eighth has no verdict, so nothing can be accepted."""
    around = Terms(H100, HGX8, "quick", gpus(7)).circumstances()
    subjects = [subject for metric, subject, _ in around.required if metric == "matmul.bf16"]
    assert subjects == [*(f"GPU-{i}" for i in range(7)), "missing device 7"]
    assert around.expected_devices == 8


def test_what_concerns_the_node_is_required_once() -> None:
    keys = requirements.required(requirements.limits(H100, HGX8, 8), "quick", [f"GPU-{i}" for i in range(8)])
    of_node = {metric for metric, subject, _ in keys if subject == NODE}
    host = {metric for metric in of_node if metric.startswith(("host.", "host_counters."))}
    assert of_node - host == {"inventory.driver", "inventory.count", "all_reduce.busbw@8GiB"}
    assert {"host.numa_balancing", "host_counters.nic_link_downed"} <= host
    assert len(keys) == len(set(keys))


def test_a_limit_is_required_at_its_levels_only() -> None:
    limits = {"a.b": Limit("a.b", "s", ceiling=1, levels=("long",), origin="mine.yaml:3")}
    found = [requirements.required(limits, level, ["GPU-0"]) for level in LEVELS]
    assert found == [[], [], [("a.b", "GPU-0", "mine.yaml:3")]]


def test_the_h100_may_be_accepted_on_a_full_board() -> None:
    assert [requirements.unfit(H100, HGX8, level) for level in LEVELS] == [None] * 3


@each_row("part", ["matrix units", "memory", "host link", "sustained load"])
def test_a_file_without_limits_on_a_part_accepts_nobody(part: str) -> None:
    sku = without(part)
    for name in ("hgx8", "single"):
        assert part in str(requirements.unfit(sku, sku.platforms[name], "quick"))


def test_a_platform_without_any_figure_of_collectives_is_accepted_without_them() -> None:
    sku = without("collectives")
    platform = sku.platforms["hgx8"]
    assert requirements.unfit(sku, platform, "quick") is None
    assert Readiness(sku, platform).not_judged == ["collectives"]
    assert Readiness(sku, sku.platforms["single"]).not_judged == [], "one device has none"


def test_a_figure_of_collectives_that_a_file_switches_off_is_known_all_the_same() -> None:
    limits = {name: replace(each, if_supported=True) for name, each in HGX8.limits.items() if "busbw" in name}
    platform = replace(HGX8, limits={**HGX8.limits, **limits})
    assert "collectives" in str(requirements.unfit(H100, platform, "quick"))


def test_collectives_that_another_level_judges_are_required() -> None:
    limits = {name: replace(each, levels=("standard",)) for name, each in HGX8.limits.items() if "busbw" in name}
    platform = replace(HGX8, limits={**HGX8.limits, **limits})
    assert "collectives" in str(requirements.unfit(H100, platform, "quick"))
    assert requirements.unfit(H100, platform, "standard") is None


def test_a_floor_that_half_of_the_rate_may_hold_accepts_four_devices_alike_and_no_fewer() -> None:
    cards = (each for each in shipped.every() if "pcie" in each.platforms)
    sku = next(each for each in cards if half_not_excluded(Readiness(each, each.platforms["pcie"]).strongest))
    for count in (1, 3, 4, 8):
        platform = replace(sku.platforms["pcie"], devices=count)
        why = None if count >= 4 else "half speed not excluded (matmul) with fewer than 4 devices"
        assert requirements.unfit(sku, platform, "quick") == why


def test_a_rule_is_enough_for_a_sustained_load() -> None:
    limits = {metric: limit for metric, limit in H100.limits.items() if metric != "soak.rate"}
    assert requirements.unfit(replace(H100, limits=limits), HGX8, "standard") is None


def test_limits_that_ask_for_nothing_accept_nobody() -> None:
    """`if_supported` lets a device off that turns out not to have the path: no ground to accept it on."""
    limits = {name: replace(each, if_supported=name.startswith("matmul")) for name, each in H100.limits.items()}
    assert "matrix units" in str(requirements.unfit(replace(H100, limits=limits), HGX8, "quick"))
    limits = {name: replace(each, levels=("long",)) for name, each in H100.limits.items()}
    assert "matrix units" in str(requirements.unfit(replace(H100, limits=limits), HGX8, "quick"))
    assert requirements.unfit(replace(H100, limits=limits), HGX8, "long") is None


def test_a_file_that_recognises_no_device_accepts_nobody() -> None:
    """Floors of 1 in a file of any name would accept every board."""
    why = requirements.unfit(replace(H100, match={}), HGX8, "quick")
    assert why == "h100-sxm has no `match`, so any device of the vendor would be accepted as it"


def test_a_platform_of_any_size_accepts_nobody() -> None:
    """Or a node of eight with one lost device would be a good node of seven."""
    assert "how many devices" in str(requirements.unfit(H100, replace(HGX8, devices=None), "quick"))


def test_a_cpu_is_no_acceptance_for_another_reason() -> None:
    assert requirements.unfit(shipped.load("cpu"), Platform("host", None), "quick") is None
    assert requirements.unfit(None, SINGLE, "quick") is None


def test_only_a_floor_in_force_is_one_to_accept_against() -> None:
    """A published figure is no floor, and a floor outside of its software is not in force."""
    others = {metric: limit for metric, limit in H100.limits.items() if "matmul" not in metric}
    figures = replace(H100.limits["matmul.bf16"].without_bounds(), class_floor=None)
    own = replace(figures, floor=600, software={"torch": ">=2.6"}, declared_by=DeclaredBy.OWN_FILE)
    why = "h100-sxm has no floor in force at level standard for matrix units"
    for limit, torch, told in ((figures, "2.7", why), (own, "2.5", why), (own, "2.7", None)):
        sku = replace(H100, limits={**others, "matmul.bf16": limit})
        assert requirements.unfit(sku, HGX8, "standard", {"torch": torch}) == told


def test_what_cannot_exist_on_the_platform_is_not_required() -> None:
    sku = shipped.load("h100-sxm")
    single = sku.platforms["single"]
    limits = {**requirements.limits(sku, single, 1), "peer_copy.one_way": Limit("peer_copy.one_way", "GB/s", floor=1)}
    assert "peer_copy.one_way" not in requirements.applying(limits, sku, single)
    of_links = {
        *(f"counters.{name}" for name in ("fabric", "nvlink_crc", "nvlink_down", "nvlink_effective")),
        *("counters.nvlink_recovery", "counters.nvlink_replay"),
        *("health.fabric_faults", "inventory.fabric_clique", "inventory.fabric_cluster"),
    }
    assert set(limits) - set(requirements.applying(limits, sku, single)) == {"peer_copy.one_way", *of_links}


def test_the_floor_of_a_class_on_the_host_link_is_not_judged_in_a_virtual_machine() -> None:
    """A guest does not see what its port is capable of: on AWS P5 healthy H100 copy 14.2 GB/s."""
    bare = requirements.limits(H100, SINGLE, 1)
    inside = requirements.limits(H100, SINGLE, 1, emulated_ports=True)
    assert bare["host_copy.h2d"].class_floor is not None
    assert (inside["host_copy.h2d"].class_floor, inside["host_copy.h2d"].bounded) == (None, False)
    assert inside["matmul.bf16"].class_floor == bare["matmul.bf16"].class_floor
    assert Terms(H100, SINGLE, "quick", gpus(1)).circumstances().not_judged == ()
    guest = gpus(1, virtualization="passthrough")
    assert Terms(H100, SINGLE, "quick", guest).circumstances().not_judged == ("host link",)


def test_peer_links_of_a_fabric_may_be_judged_by_its_collectives_alone() -> None:
    sku = without("peer links")
    assert requirements.unfit(sku, sku.platforms["hgx8"], "quick") is None
    assert Terms(sku, sku.platforms["hgx8"], "quick", gpus(8)).circumstances().not_judged == ("peer links",)


def test_plain_fp32_says_nothing_about_matrix_units() -> None:
    """A card whose tensor cores reach a seventh of their peak would be accepted by its vector units."""
    plain = replace(H100.limits["matmul.bf16"], metric="matmul.fp32", levels=("standard",))
    kept = {metric: limit for metric, limit in H100.limits.items() if required_part(metric) != "matrix units"}
    sku = replace(H100, limits={**kept, "matmul.fp32": plain})
    assert "matrix units" in str(requirements.unfit(sku, HGX8, "standard"))
    without_units = replace(sku, datasheet=replace(sku.datasheet, tflops={"fp32": 67.0}))
    assert requirements.unfit(without_units, HGX8, "standard") is None


def test_a_figure_takes_the_place_of_no_fact_that_the_platform_states() -> None:
    figures = {metric: Limit(metric, "count", published=FIGURE) for metric in ("health.nvlink_up", "inventory.sku")}
    own = replace(H100, limits={**H100.limits, **figures})
    found = requirements.limits(own, HGX8, 8)
    assert all(found[metric] == requirements.limits(H100, HGX8, 8)[metric] for metric in figures)
