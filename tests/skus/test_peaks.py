"""The peak of a metric, and whether it can exist, are read from the file of a product alone."""

from dataclasses import replace

import pytest

from pytest_accel.core.sku import Datasheet, Platform, Sku
from pytest_accel.skus.peaks import peak, why_not_applicable

HGX8 = Platform("hgx8", 8, pcie={"gb_per_s": 63}, link={"gb_per_s": 450})
MESH = Platform("oam8", 8, link={"topology": "mesh", "gb_per_s": 448})
SINGLE = Platform("single", 1)
ANY = Platform("any", None)
SKU = Sku(
    name="h100-sxm",
    title="H100",
    vendor="nvidia",
    match={},
    datasheet=Datasheet({"bf16": 989.4}, unsupported=("fp8",), memory={"gb_per_s": 3350}),
    limits={},
    platforms={"hgx8": HGX8, "single": SINGLE},
    probes={},
    budgets={},
    not_applicable={},
)


@pytest.mark.parametrize(
    ("metric", "platform", "figure"),
    [
        ("matmul.bf16", HGX8, 989.4),
        ("matmul.bf16@m=64", HGX8, 989.4),
        ("matmul.fp8", HGX8, None),
        ("stream.copy", HGX8, 3350),
        ("host_copy.pcie_width", HGX8, None),  # a count
        ("stream.sideways", HGX8, None),  # what no probe finds
        ("host_copy.h2d", HGX8, 63),
        ("host_copy.both", HGX8, 126),
        ("host_copy_all.d2h", HGX8, 63),
        ("host_copy.h2d", SINGLE, None),
        ("peer_copy.one_way", HGX8, 450),
        ("peer_copy.both", HGX8, 900),
        ("peer_copy.one_way", MESH, 64),  # a seventh of the links leads to each peer
        ("peer_copy.both", MESH, 128),
        ("peer_copy.one_way", Platform("any", None, link=MESH.link), None),
        ("all_reduce.busbw@8GiB", HGX8, 450),
        ("soak.rate", HGX8, None),
    ],
)
def test_the_peak_of_a_metric(metric: str, platform: Platform, figure: float | None) -> None:
    found = peak(SKU, metric, platform)
    assert (found and found[0]) == figure


@pytest.mark.parametrize(
    ("metric", "platform", "excluded"),
    [
        ("matmul.fp8", HGX8, True),
        ("peer_copy.one_way", HGX8, False),
        ("peer_copy.one_way", SINGLE, True),
        ("all_reduce.busbw@8GiB", SINGLE, True),
        ("ddp.step_ms", SINGLE, True),
        ("peer_copy.one_way", ANY, False),  # one was found, but nobody said that one is expected
        ("soak.rate", SINGLE, False),
    ],
)
def test_what_cannot_exist_is_decided_by_what_is_expected(metric: str, platform: Platform, excluded: bool) -> None:
    assert bool(why_not_applicable(SKU, metric, platform)) is excluded


def test_a_sku_without_a_datasheet_excludes_no_dtype() -> None:
    assert why_not_applicable(replace(SKU, datasheet=Datasheet()), "matmul.fp8", HGX8) is None


def test_a_metric_that_the_file_excludes_says_why() -> None:
    sku = replace(SKU, not_applicable={"soak.power": "no sensor"})
    assert why_not_applicable(sku, "soak.power", HGX8) == "no sensor"
