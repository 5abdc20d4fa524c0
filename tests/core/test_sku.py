"""What a device is expected to be, what a metric is a fraction of, and which platform a count points to."""

from dataclasses import replace

from support.made_sku import made
from support.rows import each_row

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import Figure, Limit, Platform, Source, expected_platform


def device(model: str = "NVIDIA H100 80GB HBM3", driver: str = "nvidia", pci_id: str | None = "10de:2330") -> Device:
    return Device(uuid="GPU-0", index=0, driver=driver, model=model, pci_id=pci_id)


@each_row(
    ("found", "known"),
    [
        (device(), True),
        (device(model=""), True),  # by its PCI id, where it reports no name
        (device(model="", pci_id="10de:2335"), False),
        (device(model="NVIDIA H100 80GB HBM3e"), False),  # whole names only
        (device(model="NVIDIA H200"), False),  # even with the PCI id of an H100
        (device(pci_id="10de:2335"), False),  # nor an H200 that calls itself an H100
        (device(driver="amd"), False),
    ],
)
def test_a_device_is_recognised_by_its_whole_name(found: Device, known: bool) -> None:
    assert made().recognises(found) is known


def test_a_file_goes_by_what_it_matches() -> None:
    by_id = made(match={"pci_ids": ["10de:2330"]})
    assert by_id.recognises(device("NVIDIA H100 of a vendor's own naming"))
    assert not by_id.recognises(device(pci_id="10de:2335"))
    assert made(match={}).recognises(device("anything"))
    assert not made(match={}).recognises(device(driver="amd"))


def test_limits_of_the_platform_stand_over_those_of_the_sku() -> None:
    general, special = Limit("a", "s", ceiling=1), Limit("a", "s", ceiling=2)
    platform = Platform("hgx8", 8, limits={"a": special})
    assert made(limits={"a": general, "b": general}).limits_on(platform) == {"a": special, "b": general}


@each_row(
    ("count", "platform", "granted"),
    [(8, "hgx8", True), (7, "hgx8", True), (1, "single", False), (0, "hgx8", True), (9, "hgx8", True)],
)
def test_seven_devices_are_eight_with_one_missing(count: int, platform: str, granted: bool) -> None:
    """A smaller platform that fits is taken, but has to be confirmed by its name."""
    found, is_usual = expected_platform(made(), [device()] * count)
    assert (found.name, is_usual) == (platform, granted)


def test_figures_of_another_level_bound_nothing() -> None:
    source = Source("measured", "us", "2026", levels=("standard",))
    limit = Limit("soak.rate", "TFLOPS", floor=600, reference=650.0, source=source, at={"standard": {"floor": 610.0}})
    (standard, quick) = (limit.at_level(level) for level in ("standard", "quick"))
    assert (standard.floor, standard.published, quick.bounded) == (610.0, None, False)
    assert quick.published == Figure(650.0, 650.0, "TFLOPS", source, ("level standard (ours: quick)",))


def test_a_limit_demands_a_measurement_unless_it_only_warns_or_holds_where_supported() -> None:
    limit = Limit("health.pcie_width", "count", equals=16)
    kinds = (limit, replace(limit, warns=True), replace(limit, if_supported=True), replace(limit, equals=None))
    assert [(kind.required, kind.bounded) for kind in kinds] == [
        (True, True), (False, True), (False, True), (True, False)
    ]  # fmt: skip
