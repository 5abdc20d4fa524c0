"""The peak of a metric, and whether it can exist, are read from the file of a product alone."""

from dataclasses import replace

from support.data_files import tables
from support.made_sku import HGX8, SINGLE, made
from support.rows import each_row

from pytest_accel.core.sku_types import Datasheet, Platform
from pytest_accel.skus.peaks import peak, why_not_applicable

ROWS = tables("skus/peaks")

MESH = Platform("oam8", 8, link={"topology": "mesh", "gb_per_s": 448})
ANY_MESH = Platform("any", None, link=MESH.link)
PLATFORMS = {"hgx8": HGX8, "mesh": MESH, "single": SINGLE, "any": Platform("any", None), "mesh of any size": ANY_MESH}
SKU = made()


@each_row(("metric", "platform", "figure"), ROWS["figures"])
def test_the_peak_of_a_metric(metric: str, platform: str, figure: float | None) -> None:
    found = peak(SKU, metric, PLATFORMS[platform])
    assert (found and found[0]) == figure


@each_row(("metric", "platform", "excluded"), ROWS["excluded"])
def test_what_cannot_exist_is_decided_by_what_is_expected(metric: str, platform: str, excluded: bool) -> None:
    assert bool(why_not_applicable(SKU, metric, PLATFORMS[platform])) is excluded


def test_a_sku_without_a_datasheet_excludes_no_dtype() -> None:
    assert why_not_applicable(replace(SKU, datasheet=Datasheet()), "matmul.fp8", HGX8) is None


def test_a_metric_that_the_file_excludes_says_why() -> None:
    sku = replace(SKU, not_applicable={"soak.power": "no sensor"})
    assert why_not_applicable(sku, "soak.power", HGX8) == "no sensor"
