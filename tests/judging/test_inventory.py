"""The inventory: what is shown and cannot be used is a failure of the hardware, never a silent fall back."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from support import shipped
from support.judged_tables import tabled

from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.messages import Problem
from pytest_accel.core.reasons import Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.facts.inventory import Discovery, facts, host_fact
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.processes.sensor_client import SensorClient

H100 = "NVIDIA H100 80GB HBM3"
SKU = shipped.load("h100-sxm")


def devices_of(count: int, model: str = H100) -> tuple[Device, ...]:
    return tuple(Device(uuid=f"GPU-{i}", index=i, driver="nvidia", model=model) for i in range(count))


def shown_by(count: int, driver: str = "nvidia", where: str = "PCI 0000:{}") -> list[dict[str, Any]]:
    address = where.partition("PCI ")[2]
    return [{"driver": driver, "where": where.format(i), "pci": address.format(i)} for i in range(count)]


PROBLEM = Problem("nvidia", "device", "the kernel module is not loaded", ["PCI a", "PCI b", "PCI c"])
INTEL = Problem("intel", "need", "pytest_accel has no driver for Intel devices yet")
AMD = Problem("amd", "device", "amdsmi cannot be used")
HUNG = Problem("nvidia", "device", "hung")
PROBLEMS = {"unloaded": PROBLEM, "intel": INTEL, "amd": AMD, "hung": HUNG}


def discovered(
    gpus: int = 0, at: str = "", shown: Sequence[Sequence[Any]] = (), problems: Sequence[str] = (), **more: Any
) -> Discovery:
    """What is found where the machine shows so many devices of a driver; one GPU at a PCI address."""
    devices = (replace(devices_of(1)[0], pci_address=at),) if at else devices_of(gpus)
    showing = [each for some in shown for each in shown_by(*some)]
    return Discovery(devices, [PROBLEMS[each] for each in problems], showing, **more)


@tabled("found, vendor, words", "data/judging/inventory.yaml")
def test_what_the_machine_shows_must_be_reachable(found: dict[str, Any], vendor: str | None, words: str | None) -> None:
    trouble = discovered(**found).unreachable(vendor)
    assert trouble is None if words is None else (trouble is not None and words in trouble.reason)


def test_a_driver_is_ok_or_the_devices_own_trouble() -> None:
    (ok,) = facts("inventory.driver", Discovery(devices_of(8), unclaimed=shown_by(8)), SKU)
    assert (ok.value, ok.trouble) == ("ok", None)
    (found,) = facts("inventory.driver", Discovery((), [PROBLEM]), SKU)
    assert (found.subject, found.value, found.trouble and found.trouble.kind) == (NODE, None, "device")


def test_the_count_is_what_was_found_and_two_devices_of_one_identity_are_not_two() -> None:
    for devices, count in ((devices_of(0), 0), (devices_of(8), 8), ((*devices_of(1), *devices_of(1)), 1)):
        (found,) = facts("inventory.count", Discovery(devices), SKU)
        assert (found.value, found.unit, found.subject) == (count, "count", NODE)


@tabled("found, vendor, kind", "data/judging/inventory.yaml")
def test_whose_fault_it_is_that_a_device_cannot_be_reached(
    found: dict[str, Any], vendor: str | None, kind: str
) -> None:
    trouble = discovered(**found).unreachable(vendor)
    assert trouble
    assert trouble.kind == kind
    assert ("this is a container (docker)" in trouble.reason) == (kind == "need" and found.get("container") == "docker")


def test_every_device_says_which_product_it_is() -> None:
    mixed = Discovery((*devices_of(1), Device("GPU-9", 1, "nvidia", "NVIDIA H20", pci_id="10de:2329")))
    other = "NVIDIA H20 (10de:2329): its name is NVIDIA H20, not NVIDIA H100 80GB HBM3"
    found = [(each.subject, each.value) for each in facts("inventory.sku", mixed, SKU)]
    assert found == [("GPU-0", "h100-sxm"), ("GPU-9", other)]
    (nameless,) = facts("inventory.sku", Discovery((Device("GPU-0", 0, "nvidia", ""),)), SKU)
    assert str(nameless.value).startswith("no name (no PCI id): neither its name")
    assert facts("inventory.sku", Discovery(devices_of(1)), None)[0].value == f"{H100} (no PCI id)", "no SKU was named"


def test_what_one_device_states_no_other_of_its_model_may_call_unsupported() -> None:
    """A fabric that one GPU of a switched node does not know of is a finding, not a property of the product."""
    limit = Limit("inventory.mig", "text", equals="disabled", if_supported=True)
    for stating, status in ((0, Status.NOT_APPLICABLE), (1, Status.UNMEASURED), (3, Status.UNMEASURED)):
        stated, unsupported = {"mig": False}, {"unsupported": {"mig": "not supported"}}
        devices = tuple(replace(each, facts=stated if each.index < stating else unsupported) for each in devices_of(4))
        *_, last = facts("inventory.mig", Discovery(devices), None)
        verdict = judge([last], limit)
        assert (verdict.status, f"{stating} of 4 devices report it" in sentence_of(verdict)) == (status, stating > 0)


def test_a_fact_of_the_host_is_a_measurement_of_the_node() -> None:
    found = host_fact("host.nic_link_downed", {"value": 7, "worst": "mlx5_3/1", "details": {"ports": {"mlx5_3/1": 7}}})
    assert (found.subject, found.unit, found.value, found.trouble) == (NODE, "count", 7, None)
    assert (found.details, found.notes) == ({"ports": {"mlx5_3/1": 7}}, (Note("at", "mlx5_3/1"),))


NICS = Limit("host.nics_active", "count", floor=8, conditions={"gb_per_s": 50.0})


@tabled("rates, bad, in_container, status, words", "data/judging/inventory.yaml")
def test_nics_are_counted_by_the_rate_of_the_platform(
    rates: dict[str, float], bad: dict[str, str], in_container: bool, status: Status, words: str
) -> None:
    """More NICs than the platform states, slower or cabled to nothing, are those of another network."""
    told = {"value": len(rates) - len(bad), "details": {"rates": rates, "bad": bad, "in_container": in_container}}
    verdict = judge([host_fact("host.nics_active", told, limit=NICS)], NICS)
    assert verdict.status is status
    assert words in sentence_of(verdict)
    assert ("at mlx5" in words) is (", at mlx5" in sentence_of(verdict)), "no other network is named"


def test_what_is_hidden_matters_where_a_limit_requires_it() -> None:
    off = Limit("host.acs", "text", equals="off")
    cases = (None, Status.NOT_APPLICABLE), (off, Status.UNMEASURED), (replace(off, warns=True), Status.NOT_APPLICABLE)
    for why in ("absent", "unreadable"):
        for limit, status in cases:
            verdict = judge([host_fact("host.acs", {why: "only 64 of 4096 bytes can be read (requires root)"})], limit)
            assert (verdict.status, "requires root" in sentence_of(verdict)) == (status, True)


def test_no_shipped_limit_of_the_host_rejects_but_on_what_its_builder_delivers() -> None:
    """What a setting costs is measured by the probes; nobody's source says that one breaks a node."""
    for sku in shipped.every():
        for limit in [each for platform in sku.platforms.values() for each in sku.limits_on(platform).values()]:
            if limit.metric.startswith("host."):
                assert limit.warns or limit.metric in ("host.memory", "host.cpus"), limit.origin
                assert limit.metric.removeprefix("host.") in HOST_FACTS, limit.origin
                assert limit.unit == HOST_FACTS[limit.metric.removeprefix("host.")].unit, limit.origin


def test_a_sensor_that_does_not_answer_hides_the_host() -> None:
    """Its end is no end of the run."""
    found = SensorClient(1.0).host()
    assert set(found) == set(HOST_FACTS)
    assert found["acs"] == {"unreadable": "the host could not be read: the sensor process has ended"}


def test_a_driver_that_we_lack_is_a_need_and_no_verdict_on_the_node() -> None:
    found = Discovery((), [INTEL], shown_by(2, "intel"))
    (driver,), (count,) = facts("inventory.driver", found, None), facts("inventory.count", found, SKU)
    assert driver.trouble == count.trouble
    assert (driver.trouble and driver.trouble.kind) == "need"
    assert "no driver for Intel devices yet" in str(driver.trouble)
    assert judge([count], Limit("inventory.count", "count", equals=8)).status is Status.UNMEASURED
