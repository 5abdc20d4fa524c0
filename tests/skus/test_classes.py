"""The figures of thresholds/classes.yaml: shares follow from datasheets, and no published figure is left out."""

import csv
from collections.abc import Iterator, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from support.shipped import load as shipped

from pytest_accel.core.sku_types import Platform, Sku
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus import loader

Row = dict[str, Any]

FILE = yaml.safe_load((loader.SHIPPED / "classes.yaml").read_text(encoding="utf-8"))
ROWS: dict[str, Row] = FILE["rows"]
KEYS = {"title", "metrics", "products", "platforms", "software", "note", "figures", "excepted", "widest"}
OF_LINK = ("host_copy", "peer_copy", "all_reduce", "network")

with (Path(__file__).parents[1] / "data" / "published.csv").open(newline="") as file:
    PUBLISHED = [row for row in csv.DictReader(file) if not row["exception"]]


def share(value: float | str, of: float) -> Decimal:
    return (Decimal(str(value)) / Decimal(str(of))).quantize(Decimal("0.001"), ROUND_DOWN)


def peak(metric: str, sku: Sku, platform: Platform | None) -> float:
    """The figure of the datasheet, or of the platform's link, that a share of the metric is of."""
    probe, _, name = metric.partition(".")
    if probe.startswith("matmul"):
        return sku.datasheet.tflops[name]
    if probe == "soak":
        return sku.datasheet.tflops["bf16" if "bf16" in sku.datasheet.tflops else "fp16"]
    if probe == "stream":
        return float(sku.datasheet.memory["gb_per_s"])
    assert platform
    if probe == "network":
        return float(platform.network["nics"] * platform.network["gbit_per_s"] / 8 / (8 if name == "pairs" else 1))
    rates = {
        "host_copy": platform.host_link.get("gb_per_s", platform.pcie.get("gb_per_s")),
        "peer_copy": platform.pair_gb_per_s,
        "all_reduce": platform.link.get("gb_per_s"),
    }
    return float(rates[probe])


def matches(row: Row, sku: Sku, platform: Platform | None) -> bool:
    products, platforms = row["products"], row.get("platforms", {})
    watts = sku.datasheet.power.get("watts")
    low, high = products.get("watts", (None, None))
    stated = {
        "vendor": [sku.vendor] == [products.get("vendor")],
        "architectures": sku.architecture in products.get("architectures", ()),
        "memory": sku.datasheet.memory.get("type") in products.get("memory", ()),
        "watts": watts is not None and low is not None and low <= watts <= high,
        "without": not {*sku.match.get("names", ()), *sku.match.get("pci_ids", ())} & {*products.get("without", ())},
    }
    of_platform = {
        "devices": platform and platform.devices in platforms.get("devices", ()),
        "pcie": platform and platform.pcie.get("gen") in platforms.get("pcie", ()),
        "host_link": platform and platform.host_link.get("type") in platforms.get("host_link", ()),
        "link": platform and platform.link.get("type") in platforms.get("link", ()),
        "topology": platform and platform.link.get("topology") in platforms.get("topology", ()),
        "network": platform and platform.network.get("link") in platforms.get("network", ()),
    }
    return all(stated[key] for key in products) and all(of_platform[key] for key in platforms)


def members(row: Row) -> list[tuple[Sku, Platform]]:
    """Return the shipped products of a row, with the platforms of each that belong to it."""
    every = ((sku, platform) for sku in all_skus() for platform in sku.platforms.values())
    return [(sku, platform) for sku, platform in every if matches(row, sku, platform)]


def lowest(figures: Sequence[Row]) -> Decimal:
    return min(Decimal(str(figure["share"])) for figure in figures)


def place(sku: str, platform: str | None) -> tuple[Sku, Platform | None]:
    of = shipped(sku)
    return of, of.platforms[platform] if platform else None


def is_complete(row: Row) -> bool:
    """Return whether a row states what it limits, and on which products."""
    of_link, of_copies = (row["metrics"][0].startswith(names) for names in (OF_LINK, OF_LINK[:2]))
    stated = set(row) <= KEYS and row["title"] and row["figures"] and all(map(declaration_of, row["metrics"]))
    place = ("platforms" in row) is of_link and ("software" in row or of_copies)
    return bool(stated and place and members(row))


def test_every_row_states_what_it_limits_on_which_products() -> None:
    assert [name for name, row in ROWS.items() if not is_complete(row)] == []


@cache
def all_skus() -> tuple[Sku, ...]:
    return tuple(shipped(name) for name in loader.names())


def test_every_figure_has_its_source_and_the_share_of_its_product() -> None:
    for name, row in ROWS.items():
        for figure in row["figures"]:
            sku, platform = place(figure["sku"], figure.get("platform"))
            told = f"{name}: {figure['sku']}"
            assert matches(row, sku, platform), told
            assert all(figure[key] for key in ("by", "date", "url", "conditions")), told
            shares = {share(figure["value"], peak(metric, sku, platform)) for metric in row["metrics"]}
            assert shares == {Decimal(str(figure["share"]))}, told


def test_no_published_healthy_figure_lies_below_the_lowest_of_its_class() -> None:
    below = []
    for name, row in ROWS.items():
        assert all(each["reason"] for each in row.get("excepted", ())), name
        excepted = {(each["sku"], float(each["value"])) for each in row.get("excepted", ())}
        for published in (each for each in PUBLISHED if each["metric"] in row["metrics"]):
            sku, platform = place(published["sku"], published["platform"])
            figure = (sku.name, float(published["value"]))
            if not matches(row, sku, platform) or figure in excepted:
                continue
            if share(published["value"], peak(published["metric"], sku, platform)) < lowest(row["figures"]):
                below.append((name, *figure))
    assert below == []


FACTORS = {1: "0.65", 2: "0.75", 3: "0.85"}
DECIDING = {
    "matmul.bf16": ("matmul.bf16", "matmul.fp16"),
    "matmul.fp16": ("matmul.bf16", "matmul.fp16"),
    "stream.copy_kernel": ("stream.copy_kernel",),
    "host_copy.h2d": ("host_copy.h2d",),
    "host_copy.d2h": ("host_copy.d2h",),
}
"""The metrics by which a part can be accepted, with those of the same type."""
NOT_HELD = {("bf16-blackwell-gddr", "xenoppy"), ("bf16-blackwell-gddr", "rtx-pro-6000-workstation")}
"""Alone, the other figure of the row makes a floor of 0.56: gpu-fryer's data are never negative and draw less power,
and the library had kernels of an older product. Both are in the row since."""


def share_of(figures: Sequence[Row], factor: str = "") -> Decimal:
    """A floor by these figures alone: the fewer their publishers, the lower."""
    factor = factor or FACTORS[min(len({figure["by"] for figure in figures}), 3)]
    return (Decimal(factor) * lowest(figures)).quantize(Decimal("0.01"), ROUND_DOWN)


def floor_of(row: Row) -> Decimal:
    return share_of(row["figures"])


def remaining(key: str, left_out: str) -> Iterator[tuple[Row, Sequence[Row]]]:
    """Yield the rows with the figures that are not of a product, or not by a publisher."""
    for row in ROWS.values():
        yield row, [figure for figure in row["figures"] if figure[key] != left_out]


def of_vendor(metric: str, vendors: set[str], key: str, left_out: str) -> Decimal:
    """The floor of the vendor without figures, 0 for a metric that decides nothing or without any other figure."""
    figures = [
        figure
        for row, rest in remaining(key, left_out)
        if set(DECIDING.get(metric, ())) & set(row["metrics"]) and row["products"].get("vendor") in {None, *vendors}
        for figure in rest
    ]
    return share_of(figures, "0.85") if figures else Decimal(0)


def left_out(key: str) -> Iterator[tuple[str, str, Decimal, Decimal]]:
    """Yield for every row and product (or publisher) its lowest share, and the floor that others' figures make."""
    for name, row in ROWS.items():
        vendors = {shipped(figure["sku"]).vendor for figure in row["figures"]}
        for out in dict.fromkeys(figure[key] for figure in row["figures"]):
            rest = [figure for figure in row["figures"] if figure[key] != out]
            own = lowest([figure for figure in row["figures"] if figure[key] == out])
            yield name, out, own, share_of(rest) if rest else of_vendor(row["metrics"][0], vendors, key, out)


def test_the_floor_of_a_class_is_below_every_healthy_figure_of_a_file_of_its_class() -> None:
    """A floor is 0.85 of the lowest healthy figure, those of the files included."""
    broken = []
    for name, row in ROWS.items():
        excepted = {(each["sku"], float(each["value"])) for each in row.get("excepted", ()) if "value" in each}
        for sku, platform in members(row):
            limits = sku.limits_on(platform)
            for limit in (limits[metric] for metric in row["metrics"] if metric in limits):
                healthy = min((each for each in (*(limit.healthy or ()), limit.reference) if each), default=None)
                if healthy and share(0.85 * healthy, peak(limit.metric, sku, platform)) < floor_of(row):
                    broken += [(name, sku.name, healthy)] if (sku.name, healthy) not in excepted else []
    assert broken == []


def test_a_product_and_a_publisher_hold_the_floors_that_others_make() -> None:
    """A floor holds for a product that nobody measured if it holds for each of its own when that one is left out."""
    short = {(name, out) for key in ("sku", "by") for name, out, own, floor in left_out(key) if own < floor}
    assert short == NOT_HELD


def test_the_factors_are_those_that_these_tests_expect() -> None:
    factors = FILE["floors"]
    assert [str(each) for each in factors["of_lowest"]] == [*FACTORS.values()]
    assert (factors["of_vendor"], factors["of_other_type"]) == (0.85, 0.65)


def test_half_of_a_healthy_rate_breaks_the_floor_of_a_class() -> None:
    """Where it does not, the closing line of a run says so."""
    highest = {name: max(Decimal(str(figure["share"])) for figure in row["figures"]) for name, row in ROWS.items()}
    assert [name for name, row in ROWS.items() if floor_of(row) <= highest[name] / 2] == ["bf16-blackwell-gddr"]
