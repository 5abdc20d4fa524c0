"""The AMD driver over a simulated libamd_smi.so below the real amdsmi: what it states, and what it does without."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import DriverProblem, pci
from pytest_accel.drivers.interface import NoLibrary
from pytest_accel.drivers.vendors.amd import library, throttle
from pytest_accel.drivers.vendors.amd.driver import AmdDriver
from pytest_accel.judging.facts.telemetry import ReasonName, summarise
from pytest_accel.simulate.libraries import amdsmi as sim
from pytest_accel.simulate.libraries import status
from pytest_accel.simulate.libraries.amdsmi import By, SmiLibrary, install, metrics, mi300x, pages, pcie, processes

pytestmark = pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")
ALL_ONES = 2**64 - 1
STATED = data_files.tables("drivers/mi300x")
COUNTERS = ("accumulation_counter", "prochot_residency_acc", "ppt_residency_acc", "socket_thm_residency_acc")
OLD = dict.fromkeys((*COUNTERS, "vr_thm_residency_acc", "hbm_thm_residency_acc"), ALL_ONES)
"""What a part without accumulators tells of them."""


@pytest.fixture(autouse=True)
def _below_amdsmi(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pci, "DEVICES", Path("/nowhere"))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    yield
    install(None)


def opened(*gpus: sim.SmiGpu, init: int = 0) -> AmdDriver:
    install(SmiLibrary(list(gpus), init=init))
    return AmdDriver()


def only(driver: AmdDriver) -> Device:
    (device,) = driver.discover()
    return device


def test_identity_of_an_mi300x() -> None:
    device = only(opened(mi300x(4)))
    shown = {key: value for key, value in vars(device).items() if key not in ("facts", "cpus", "called")}
    assert shown == STATED["identity"]


def test_facts_of_an_mi300x() -> None:
    facts = only(opened(mi300x())).facts
    assert {key: facts.get(key) for key in STATED["facts"]} == STATED["facts"]
    assert [each["remote"] for each in facts["xgmi_links"]] == [f"0000:{bus:02x}:00.0" for bus in range(0x0D, 0x14)]
    assert facts["ecc_blocks"]["umc"] == {"correctable": 0, "uncorrectable": 0, "deferred": 0}
    assert facts["unsupported"] == STATED["unsupported"]


def test_readings_have_the_units_of_their_names() -> None:
    driver = opened(mi300x())
    assert driver.read(only(driver)) == pytest.approx(STATED["readings"])


# -- throttling


def counting(*at: float) -> throttle.ThrottleSeconds:
    """The seconds of throttling of a GPU that is read at these times."""
    return throttle.ThrottleSeconds(clock=iter(at).__next__)


def test_shares_of_the_firmwares_looks_become_seconds() -> None:
    counts = counting(0.0, 10.0, 20.0)
    start = {"counter": 1000, "ppt": 50, "prochot": 7, "vr": 0, "socket": 0, "hbm": 0}
    assert set(counts.seconds(start).values()) == {0.0}, "what was before the first reading is not ours"
    first = {"sw_power_cap_s": 5.0, "hw_thermal_s": 1.0, "sw_thermal_s": 0.0}
    assert counts.seconds({**start, "counter": 2000, "ppt": 550, "vr": 100}) == pytest.approx(first)
    later = {**start, "counter": 4000, "ppt": 550, "vr": 100, "socket": 20, "hbm": 20}
    assert counts.seconds(later) == pytest.approx({**first, "sw_thermal_s": 0.2})


def test_a_firmware_that_looks_no_more_counts_nothing() -> None:
    """Not at once, which loses no time. Zero seconds for longer would be a device that is never too hot."""
    counts = counting(0.0, 1.0, 60.0, 61.0)
    still = {"counter": 100, "ppt": 0, "prochot": 0}
    assert [bool(counts.seconds(still)) for _ in range(3)] == [True, True, False]
    assert counts.seconds({"counter": 200, "ppt": 0, "prochot": 50})["hw_thermal_s"] == pytest.approx(30.5)


def test_counters_that_began_anew_count_nothing_backwards() -> None:
    counts = counting(0.0, 1.0, 2.0)
    found = [counts.seconds({"counter": looks, "ppt": held}) for looks, held in ((10_000, 9_000), (5, 1), (105, 101))]
    assert [each["sw_power_cap_s"] for each in found] == pytest.approx([0.0, 0.0, 1.0])


def test_all_ones_is_no_counter() -> None:
    gpu = mi300x(
        amdsmi_get_gpu_metrics_info=metrics(hbm_thm_residency_acc=ALL_ONES, socket_thm_residency_acc=ALL_ONES),
        amdsmi_get_violation_status=sim.all_ones(),
    )
    driver = opened(gpu)
    reading = driver.read(only(driver))
    assert "sw_thermal_s" not in reading
    assert reading["hw_thermal_s"] == 0.0


def test_the_violation_status_stands_in_for_the_metrics() -> None:
    driver = opened(mi300x(amdsmi_get_gpu_metrics_info=None))
    reading = driver.read(only(driver))
    assert {"sw_power_cap_s", "hw_thermal_s", "sw_thermal_s", "power_w", "temperature_c"} <= set(reading)
    assert reading["clock_mhz"] == 132, "from the clock itself"


@each_row(("bit", "cause"), [(0, "sw_power_cap_s"), (36, "sw_thermal_s"), (38, "hw_thermal_s"), (47, "hw_thermal_s")])
def test_a_part_without_accumulators_is_sampled(bit: int, cause: ReasonName) -> None:
    gpu = mi300x(amdsmi_get_violation_status=None)
    driver = opened(gpu)
    device, readings = only(driver), []
    for tenth in range(11):
        status_now = 1 << bit if 2 <= tenth < 5 else 0
        gpu.answers["amdsmi_get_gpu_metrics_info"] = metrics(**OLD, indep_throttle_status=status_now)
        readings.append({"uuid": device.uuid, "at": tenth / 10, **driver.read(device)})
    summary = summarise(readings)
    assert summary[cause] == pytest.approx(0.3)
    assert cause in summary["sampled"]


def test_a_thermal_bit_that_is_set_at_rest_says_nothing_under_load() -> None:
    """As a Radeon AI PRO R9700 shows it at 1 W and 37 C (ROCm/rocm-systems issue 11781)."""
    at_rest, regulators = 1 << 32, 1 << 44
    quiet = metrics(**OLD, indep_throttle_status=at_rest)
    gpu = mi300x(amdsmi_get_violation_status=None, amdsmi_get_gpu_metrics_info=quiet)
    driver = opened(gpu)
    device = only(driver)
    assert device.facts["reasons"] == driver.read(device)["reasons"] == 0
    gpu.answers["amdsmi_get_gpu_metrics_info"] = metrics(**OLD, indep_throttle_status=at_rest | regulators | 1)
    assert driver.read(device)["reasons"] == 0x40 | 0x04
    hot = metrics(**OLD, indep_throttle_status=at_rest, temperature_hotspot=99)
    warm = opened(mi300x(amdsmi_get_violation_status=None, amdsmi_get_gpu_metrics_info=hot))
    assert only(warm).facts["reasons"] == warm.read(only(warm))["reasons"] == 0x20, "a device that is hot when found"


def test_what_holds_the_clock_now_is_health() -> None:
    driver = opened(gpu := mi300x())
    device = only(driver)
    gpu.answers["amdsmi_get_violation_status"] = sim.violations(ppt_pwr=1, vr_thrm=1)
    assert driver.health(device)["reasons"] == 0x04 | 0x40


# -- health


def test_health_is_read_anew() -> None:
    driver = opened(gpu := mi300x())
    device = only(driver)
    gpu.answers["amdsmi_get_gpu_bad_page_info"] = pages(0, 1, 1, 2)
    gpu.answers["amdsmi_get_gpu_total_ecc_count"] = {"correctable_count": 5, "uncorrectable_count": 1}
    health = driver.health(device)
    found = {key: health[key] for key in ("bad_pages", "bad_pages_pending", "bad_pages_unreservable")}
    assert found == {"bad_pages": 4, "bad_pages_pending": 2, "bad_pages_unreservable": 1}
    assert (health["ecc_correctable_volatile"], health["ecc_uncorrectable_volatile"]) == (5, 1)
    assert device.facts["bad_pages"] == 0


def test_links_that_are_down_or_narrow() -> None:
    states = {"total_links": 8, "status": [2, 1, 1, 0, 1, 1, 1, 1]}
    gpu = mi300x(amdsmi_get_gpu_xgmi_link_status=states, amdsmi_get_pcie_info=pcie(16_000, 8, pcie_replay_count=3))
    facts = only(opened(gpu)).facts
    assert (facts["xgmi_up"], facts["xgmi_down"]) == (6, 1)
    assert facts["xgmi_states"][3] == "down"
    assert (facts["pcie_gen"], facts["pcie_gen_max"], facts["pcie_width"], facts["pcie_replays"]) == (4, 5, 8, 3)


def test_the_parts_of_a_gpu_are_told_apart() -> None:
    """In CPX mode amdsmi gives all parts of a GPU one UUID."""
    shared = mi300x().answers["amdsmi_get_gpu_device_uuid"]
    part = {"amdsmi_get_gpu_device_uuid": shared, "amdsmi_get_gpu_compute_partition": b"CPX"}
    devices = opened(*(mi300x(place, **part) for place in (0, 1))).discover()
    assert [device.uuid for device in devices] == [f"{shared.decode()}@0000:{bus}:00.0" for bus in ("0c", "0d")]
    assert [device.facts["visible_as"] for device in devices] == ["0", "1"], "their UUID would select the first"


# -- what is refused


def test_a_gpu_without_a_serial_number_is_selected_by_its_place() -> None:
    gpu = mi300x(3)
    gpu.answers["amdsmi_get_gpu_asic_info"] = {"market_name": b"x", "asic_serial": b"0"}
    gpu.answers["amdsmi_get_gpu_enumeration_info"] = {"hip_id": 3, "hip_uuid": b"GPU-0000000000000000"}
    assert only(opened(gpu)).facts["visible_as"] == "3"


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (sim.NOT_SUPPORTED, "unsupported", "this GPU or its driver does not have it"),
        (10, "unread", "this user may not read it: run as root"),
        (12, "unread", "amdsmi: AMDSMI_STATUS_IO - I/O Error"),
    ],
)
def test_what_is_refused_is_left_out_and_named(code: int, kind: str, reason: str) -> None:
    names = ("amdsmi_get_gpu_total_ecc_count", "amdsmi_get_power_cap_info")
    answers: dict[str, Any] = dict.fromkeys(names, status(code))
    facts = only(opened(mi300x(**answers))).facts
    assert {facts[kind][fact] for fact in ("ecc_uncorrectable_volatile", "power_limit_w")} == {reason}
    assert facts["compute_units"] == 304


def test_an_answer_that_nobody_knows_is_named_and_hides_no_other() -> None:
    facts = only(opened(mi300x(amdsmi_get_gpu_perf_level=99))).facts
    assert facts["unread"]["perf_level"] == "the library's answer cannot be interpreted: 99"
    assert facts["compute_partition"] == "SPX"


def test_memory_of_others_is_seen_and_explained() -> None:
    driver = opened(mi300x(amdsmi_get_gpu_memory_usage=By({0: 20 << 30}), amdsmi_get_gpu_process_list=processes(4711)))
    assert driver.idle(only(driver)) == "21.5 GB of its memory is in use (pid 4711)"


def test_only_lasting_use_is_use() -> None:
    rates = iter([100, 0, 90, 80, 70])
    driver = opened(mi300x(amdsmi_get_gpu_activity=lambda _, usage: setattr(usage._obj, "gfx_activity", next(rates))))
    device = only(driver)
    assert driver.idle(device) is None
    assert driver.idle(device) == "it is 70 % busy (by a process that is not visible from here)"


def test_a_gpu_that_is_lost_later() -> None:
    driver = opened(gpu := mi300x(), mi300x(1))
    device, _ = driver.discover()
    gpu.lost = True
    for question in ("read", "idle", "health"):
        with pytest.raises(DriverProblem, match="it answers nothing: AMDSMI_STATUS_NOT_FOUND"):
            getattr(driver, question)(device)


# -- the library itself


def test_why_the_library_cannot_be_used() -> None:
    with pytest.raises(DriverProblem, match="modprobe amdgpu"):
        opened(mi300x(), init=34).discover()


def test_no_library(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    install(None)
    with pytest.raises(DriverProblem, match=r"libamd_smi\.so is missing .*amd-smi-lib"):
        AmdDriver()
    assert capsys.readouterr().out == "", "stdout is the pipe to pytest"


def test_a_library_that_is_looked_for_at_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since ROCm 7.14 the import succeeds without it, and any function raises OSError."""
    driver = opened(mi300x())

    def missing() -> None:
        raise OSError("libamd_smi.so.27: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(driver._smi, "amdsmi_init", missing)
    with pytest.raises(NoLibrary, match=r"libamd_smi\.so is missing .*amd-smi-lib"):
        driver.discover()


@pytest.mark.parametrize(("partition", "visible"), [(0, "GPU-5a3c000011110000"), (3, "0")])
def test_an_amdsmi_without_the_deprecated_partition_mode(
    monkeypatch: pytest.MonkeyPatch, partition: int, visible: str
) -> None:
    """Everything else is read, and a part of a GPU is selected by its place, since its UUID would select the first."""
    driver = opened(mi300x())
    info = {"current_partition_id": partition, "node_id": 1}
    monkeypatch.delattr(driver._smi, "amdsmi_get_gpu_compute_partition")
    monkeypatch.setattr(driver._smi, "amdsmi_get_gpu_kfd_info", lambda handle: info)
    facts = only(driver).facts
    assert "does not have it" in facts["unsupported"]["compute_partition"]
    assert (facts["memory_partition"], facts["visible_as"]) == ("NPS1", visible)


def test_a_library_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    install(SmiLibrary([]), lacks=("amdsmi_get_violation_status",))
    with pytest.raises(DriverProblem, match=r"different versions \(undefined symbol: amdsmi_get_violation_status\)"):
        AmdDriver()
    install(SmiLibrary([mi300x()]))
    assert only(AmdDriver()).model == "AMD Instinct MI300X", "nothing of it is left"


def test_no_amdsmi(monkeypatch: pytest.MonkeyPatch) -> None:
    install(None)
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(DriverProblem, match="amdsmi cannot be imported: install ROCm"):
        AmdDriver()


def test_device_nodes_that_may_not_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "this user may not open /dev/kfd" in library.remedy(18, tmp_path)
    monkeypatch.undo()
    assert "check dmesg" in library.remedy(18, tmp_path)
