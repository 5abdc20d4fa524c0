"""Error counters: what moved, during which probe, and what of it fails a device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest
from support import shipped
from support.judged_tables import tables

from pytest_accel.core.fact_metrics import ERROR_COUNTERS
from pytest_accel.core.measurement import Device, Trouble
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import DriverProblem, NoAnswer, pci
from pytest_accel.drivers.sensor import _facts
from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver
from pytest_accel.judging.facts.error_counters import CounterReadings, reading
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.simulate.libraries import status
from pytest_accel.simulate.libraries.nvml import NvmlGpu, NvmlLibrary, h100, install
from pytest_accel.skus import requirements

NODES = (("mi250x", "oam4"), ("mi300x", "oam8"), ("h100-sxm", "hgx8"))
LIMITS = {
    metric: limit
    for sku, platform in ((shipped.load(name), where) for name, where in NODES)
    for metric, limit in requirements.limits(sku, sku.platforms[platform], 8).items()
    if metric.startswith("counters.") and not metric.startswith(("counters.xid", "counters.log"))
}
"""Of both vendors; of a counter that both limit NVIDIA's."""
FILE = "data/judging/error-counters.yaml"
LINK = dict.fromkeys(("replay", "recovery", "recovery_failed", "crc", "crc_data", "effective", "symbol"), 0)
UP = [{"link": link, "state": "active", "errors": LINK} for link in range(18)]
HEALTHY: dict[str, Any] = {**tables(FILE)["healthy"], "nvlinks": UP}
GPU = Device("GPU-0", 0, "nvidia", "a GPU")


def links(**errors: int) -> dict[str, Any]:
    """One of the links has counted these."""
    up = {"state": "active"}
    return {"nvlinks": [{"link": 0, **up, "errors": LINK}, {"link": 1, **up, "errors": {**LINK, **errors}}]}


def verdict(name: str, *readings: dict[str, Any], seconds: float = 60.0) -> Verdict:
    """On a device that stated `readings`, at the start and after probe1, probe2 ..."""
    ledger = CounterReadings()
    for place, facts in enumerate(readings):
        stated = facts if facts.keys() & {"lost", "silent"} else {**HEALTHY, **facts}
        ledger.enter(place * seconds, f"probe{place}", {GPU.uuid: stated})
    metric = f"counters.{name}"
    return judge([ledger.measurement(metric, GPU)], LIMITS.get(metric))


def status_of(ledger: CounterReadings, name: str) -> Status:
    """The status of a counter of the device."""
    metric = f"counters.{name}"
    return judge([ledger.measurement(metric, GPU)], LIMITS[metric]).status


def moved(table: str) -> list[tuple[str, dict[str, Any]]]:
    """What moves, as the table says: counters, and what the device states then."""
    return [(name, links(**facts["links"]) if "links" in facts else facts) for name, facts in tables(FILE)[table]]


NEVER = moved("never")
ADVICE = moved("advice")


def test_what_moves_beyond_its_limit_fails_and_names_the_probe() -> None:
    found = [verdict(name, {}, {}, moved, moved) for name, moved in NEVER]
    assert [each for each in found if each.status is not Status.FAIL] == []
    assert [each for each in found if not sentence_of(each).endswith(", during probe2")] == []


def test_a_reboot_that_several_devices_ask_for_during_a_run_blames_none() -> None:
    def asked(*actions: str) -> Status:
        ledger, uuids = CounterReadings(), (GPU.uuid, "GPU-other")
        ledger.enter(0.0, "", dict.fromkeys(uuids, HEALTHY))
        stated = {uuid: {**HEALTHY, "recovery_action": action} for uuid, action in zip(uuids, actions, strict=True)}
        ledger.enter(9.0, "soak.rate", stated)
        return status_of(ledger, "recovery_asked")

    assert asked("node reboot", "node reboot") is Status.INCONCLUSIVE
    assert asked("node reboot", "none") is Status.FAIL
    assert asked("GPU reset", "GPU reset") is Status.FAIL


def test_what_moves_a_little_is_marginal() -> None:
    found = [verdict(name, {}, moved) for name, moved in ADVICE]
    assert [each for each in found if each.status is not Status.MARGINAL] == []
    assert [each for each in found if "during probe1" not in sentence_of(each)] == []


def test_what_stands_still_holds_whatever_it_stands_at() -> None:
    stands = {**links(**dict.fromkeys(LINK, 5)), "pcie_replays": 900, "ecc_correctable_volatile": 7}
    found = [verdict(name, stands, stands, stands) for name in ERROR_COUNTERS]
    assert [each for each in found if each.value != 0] == []
    limited = {each.metric for each in found if each.status is Status.PASS}
    assert (limited, {each.status for each in found}) == (set(LIMITS), {Status.PASS, Status.NOT_APPLICABLE})


def test_every_limit_is_proven_able_to_fail() -> None:
    assert set(LIMITS) == {f"counters.{name}" for name, _ in (*NEVER, *ADVICE)}


def test_links_that_say_what_nobody_knows_are_a_need_and_corrected_symbols_information() -> None:
    assert verdict("xgmi_errors", {}, {"xgmi_errors": "unknown (7)"}).status is Status.UNMEASURED
    found = verdict("nvlink_symbol", {}, links(symbol=10**6))
    assert (found.status, found.value) == (Status.NOT_APPLICABLE, 10**6)


def test_a_rate_is_that_of_the_worst_stretch_and_never_of_less_than_its_time() -> None:
    assert verdict("pcie_replays", {}, {"pcie_replays": 3}, {"pcie_replays": 8}, seconds=1).value == 8, "not 300, nor 5"
    assert verdict("pcie_replays", {}, {"pcie_replays": 30}, seconds=600).value == 3
    burst = [{"pcie_replays": count} for count in (0, 0, 0, 60, 60, 60, 61)]
    found = verdict("pcie_replays", *burst, seconds=120)
    during = sentence_of(found).rpartition(" during ")[2]
    assert (found.value, during) == (30, "probe3"), "neither the run's nor all probes'"


def corrected(*counts: int, seconds: float) -> Verdict:
    return verdict("ecc_corrected", *({"ecc_correctable_volatile": count} for count in counts), seconds=seconds)


def test_one_corrected_error_in_a_short_run_is_no_alarm_and_few_in_each_probe_are_not_diluted() -> None:
    one = corrected(0, 1, 1, seconds=5)
    assert (one.status, one.value, one.unit) == (Status.PASS, 1, "per h")
    spread = corrected(*range(0, 26, 2), seconds=30)
    assert (spread.status, spread.value) == (Status.MARGINAL, 24), "two in each of twelve probes, six minutes in all"


def test_a_long_run_hides_no_storm_of_corrected_errors() -> None:
    storm = corrected(0, 0, 40, 40, 40, 40, 40, 40, 40, 40, seconds=1800)
    assert (storm.status, storm.value) == (Status.MARGINAL, 40), "not the 9 an hour of the whole run"
    assert sentence_of(storm).endswith("during probe2")
    assert corrected(*range(0, 100, 4), seconds=3600).status is Status.PASS, "four an hour, all day"


def test_counts_of_all_probes_add_up() -> None:
    found = verdict("nvlink_replay", {}, links(replay=1), links(replay=1), links(replay=3))
    assert found.value == 3
    assert sentence_of(found).endswith("during probe1, probe3")


def readings(*steps: tuple[str, int | None]) -> CounterReadings:
    """After each step; the links have counted that many CRC errors by then, None where they are not read."""
    ledger = CounterReadings()
    for place, (during, crc) in enumerate(steps):
        facts = {**HEALTHY, **links(crc=crc or 0)}
        if crc is None:
            del facts["nvlinks"]
        ledger.enter(place * 10.0, during, {GPU.uuid: facts}, links=crc is not None)
    return ledger


def test_links_are_judged_over_all_that_ran_since_they_were_read() -> None:
    """30 s lie between the two readings: 9000 errors are 300 a second, and one of three probes met them."""
    ledger = readings(("the start", 0), ("stream.triad", None), ("matmul.bf16", None), ("peer_copy.one_way", 9000))
    found = ledger.measurement("counters.nvlink_crc", GPU)
    assert found.value == 300
    assert found.note("during") == "stream.triad, matmul.bf16, peer_copy.one_way"
    newest = ledger.last_window(GPU.uuid)
    assert newest
    assert (newest.during, newest.increases) == ("peer_copy.one_way", {"nvlink_crc": 9000})
    assert ledger.measurement("counters.pcie_replays", GPU).value == 0


def test_links_that_were_not_read_since_are_stale_and_read_once_more() -> None:
    ledger = readings(("the start", 0), ("peer_copy.one_way", 0), ("soak.rate", None))
    assert ledger.links_stale
    assert ledger.last_window(GPU.uuid).increases == {}  # type: ignore[union-attr]
    ledger = readings(("the start", 0), ("peer_copy.one_way", 0), ("soak.rate", None), ("", 4))
    assert not ledger.links_stale
    found = ledger.measurement("counters.nvlink_crc", GPU)
    assert (found.value, found.note("during")) == (0.2, "soak.rate"), "4 in 20 s"


def test_a_device_that_is_lost_between_two_readings_of_its_links_fails() -> None:
    ledger = CounterReadings()
    for at, during, facts in ((0.0, "the start", HEALTHY), (9.0, "matmul.bf16", {"lost": "GPU is lost"})):
        ledger.enter(at, during, {GPU.uuid: facts}, links=not at)
    ledger.enter(20.0, "", {GPU.uuid: HEALTHY})
    found = judge([ledger.measurement("counters.nvlink_crc", GPU)], LIMITS["counters.nvlink_crc"])
    assert sentence_of(found) == "the device was lost: GPU is lost, during matmul.bf16"


def test_a_part_of_a_sum_that_was_not_read_once_is_no_error() -> None:
    """The total alone is lower than the parts; read again, it must not count as an increase."""
    parts = {"ecc_sram_uncorrectable_volatile": 2, "ecc_dram_uncorrectable_volatile": 0}
    hidden: dict[str, Any] = {"unread": dict.fromkeys(parts, "NVML: a timeout")}
    assert verdict("ecc_uncorrectable", parts, hidden, parts).status is Status.PASS
    both = [{"link": link, "state": "active", "errors": {**LINK, "replay": 5}} for link in range(2)]
    one = [both[0], {"link": 1, "state": "active"}]
    hidden = {"nvlinks": one, "unread": {"nvlink_replay": "NVML: Unknown Error"}}
    assert verdict("nvlink_replay", {"nvlinks": both}, hidden, {"nvlinks": both}).status is Status.PASS


def test_a_number_that_was_missing_once_hides_nothing_that_moved_meanwhile() -> None:
    gap = {"ecc_uncorrectable_volatile": None, "unread": {"ecc_uncorrectable_volatile": "NVML: Unknown Error"}}
    five, two = ({"ecc_uncorrectable_volatile": count} for count in (5, 2))
    assert verdict("ecc_uncorrectable", {}, gap, five).value == 5
    assert verdict("ecc_uncorrectable", {}, gap, {}).status is Status.PASS
    assert verdict("ecc_uncorrectable", five, two).value == 2, "it went back, and has counted since"
    for first in (gap, {"silent": "it has not answered for 10 s"}):
        assert verdict("ecc_uncorrectable", first, five, five).status is Status.UNMEASURED, "where it began is unknown"


def test_a_device_that_is_lost_fails_one_that_is_silent_is_unmeasured() -> None:
    lost = verdict("pcie_replays", {}, {"lost": "GPU is lost"}, {"lost": "GPU is lost"})
    assert (lost.status, sentence_of(lost)) == (Status.FAIL, "the device was lost: GPU is lost, during probe1")
    silent = verdict("pcie_replays", {}, {"silent": "it has not answered for 10 s"}, {})
    assert silent.status is Status.UNMEASURED


def test_a_device_that_is_no_longer_listed_is_lost_unless_none_is_or_the_sensor_is_gone() -> None:
    found = []
    for answers in ({"GPU-1": HEALTHY}, {}, None):
        ledger = CounterReadings()
        ledger.enter(0.0, "the start", {GPU.uuid: HEALTHY, "GPU-1": HEALTHY})
        ledger.enter(1.0, "probe1", answers)
        found.append(status_of(ledger, "pcie_replays"))
    assert found == [Status.FAIL, Status.UNMEASURED, Status.UNMEASURED]


def test_a_start_without_a_sensor_leaves_the_first_probe_unseen() -> None:
    ledger = CounterReadings()
    for at, answers in enumerate((None, {GPU.uuid: HEALTHY}, {GPU.uuid: HEALTHY})):
        ledger.enter(at, "probe", answers, [GPU.uuid])
    assert ledger.measurement("counters.pcie_replays", GPU).trouble


def test_a_number_that_nobody_counted_is_unmeasured() -> None:
    """All ones is what a library leaves where it filled nothing in."""
    for odd in (-1, 2**32 - 1, 2**64 - 1):
        assert verdict("ecc_uncorrectable", {}, {"ecc_uncorrectable_volatile": odd}).status is Status.UNMEASURED
        assert verdict("nvlink_replay", links(replay=0), links(replay=odd)).status is Status.UNMEASURED


def test_the_sensor_tells_the_one_from_the_other() -> None:
    assert _facts(DriverProblem("GPU is lost")) == {"lost": "GPU is lost"}
    assert _facts(NoAnswer("for 10 s")) == {"silent": "for 10 s"}


def test_without_a_probe_nothing_could_move() -> None:
    found = verdict("ecc_uncorrectable", {})
    said = "no probe ran during which it could have increased"
    assert (found.status, sentence_of(found)) == (Status.UNMEASURED, said)


def test_a_counter_that_is_hidden_is_unmeasured_one_that_does_not_exist_is_left_out() -> None:
    hidden = {key: value for key, value in HEALTHY.items() if not key.startswith("ecc_un")}
    ledger = CounterReadings()
    for at in (0.0, 1.0):
        ledger.enter(at, "probe", {GPU.uuid: {**hidden, "unread": {"ecc_uncorrectable_volatile": "run as root"}}})
    assert status_of(ledger, "ecc_uncorrectable") is Status.UNMEASURED
    none = {"nvlinks": [], "unsupported": {"nvlink_crc": "no NVLink"}}
    assert verdict("nvlink_crc", none, none).status is Status.NOT_APPLICABLE


# -- through the real driver


@pytest.fixture
def stated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[NvmlGpu], dict[str, Any]]:
    """The facts of the health that the driver reads."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pci, "DEVICES", tmp_path)

    def read(gpu: NvmlGpu) -> dict[str, Any]:
        install(NvmlLibrary([gpu]))
        driver = NvidiaDriver()
        return dict(driver.health(driver.discover()[0]))

    return read


def test_the_driver_states_every_counter_of_a_hopper(stated: Callable[[NvmlGpu], dict[str, Any]]) -> None:
    found = reading(0.0, stated(h100()))
    new, amd = {"nvlink_effective", "nvlink_symbol"}, {"bad_pages", "ecc_deferred"}
    amd |= {"xgmi_down", "xgmi_errors", "xgmi_uncorrectable"}
    assert set(found.numbers) == set(ERROR_COUNTERS) - new - amd
    assert {trouble.kind for trouble in found.troubles.values()} == {"not_applicable"}, "NVLink 5's, and AMD's"
    forbidden = reading(0.0, stated(h100(nvmlDeviceGetTotalEccErrors=status(pynvml.NVML_ERROR_NO_PERMISSION))))
    said = "ecc_uncorrectable_volatile: this user may not read it: run as root"
    assert forbidden.troubles["ecc_uncorrectable"] == Trouble("need", said)
