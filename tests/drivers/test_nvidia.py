"""The NVIDIA driver over the real pynvml, which talks to a simulated libnvidia-ml."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import every_query
import pynvml
import pytest
from support import data_files
from support.real_series import table
from support.rows import each_row

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import DriverProblem, pci, registry
from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver
from pytest_accel.judging.facts.telemetry import summarise
from pytest_accel.simulate.libraries import nvml
from pytest_accel.simulate.libraries.nvml import NvmlGpu, NvmlLibrary, fabric, fills, h200, install, processes
from pytest_accel.views.plan import COUNTER_CALLS, LINK_CALLS

OLD_IDS = (251, 252, 253)
STATED = data_files.tables("drivers/h200")


@pytest.fixture(autouse=True)
def _below_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    every_query.forget_pynvml(monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def opened(*gpus: NvmlGpu, **library: Any) -> NvidiaDriver:
    install(NvmlLibrary(list(gpus), **library))
    return NvidiaDriver()


def only(driver: NvidiaDriver) -> Device:
    (device,) = driver.discover()
    return device


def test_identity_of_an_h200(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    (tmp_path / "0000:1a:00.0").mkdir()
    (tmp_path / "0000:1a:00.0" / "numa_node").write_text("1\n")
    (tmp_path / "0000:1a:00.0" / "local_cpulist").write_text(f"{allowed[0]},99999\n")
    monkeypatch.setattr(pci, "DEVICES", tmp_path)
    device = only(opened(h200()))
    identity = {**STATED["identity"], "cpus": (allowed[0],)}
    assert {key: value for key, value in vars(device).items() if key != "facts"} == identity


def test_facts_of_an_h200() -> None:
    facts = only(opened(h200())).facts
    assert {key: facts.get(key) for key in STATED["facts"]} == STATED["facts"]
    assert facts["nvlinks"][17] == STATED["link"]
    assert facts["unsupported"]["retired_pages_pending"] == "this GPU or its driver does not support it"


def test_readings_have_the_units_of_their_names() -> None:
    driver = opened(h200())
    assert driver.read(only(driver)) == pytest.approx(STATED["readings"], rel=1e-9)


@each_row(
    ("driver", "ids"),
    [
        ("535.230.02", ()),
        ("570.172.08", ()),
        ("575.57.08", OLD_IDS),
        ("580.65.06", OLD_IDS),
        ("580.82.07", nvml.NEW_IDS),
        ("595.45.04", nvml.NEW_IDS),
    ],
)
def test_throttle_counters_are_read_where_this_driver_has_them(driver: str, ids: tuple[int, ...]) -> None:
    gpu = h200()
    for other in (*OLD_IDS, *nvml.NEW_IDS):
        gpu.fields[other] = (1, 7e9 if other not in ids else 0)  # power smoothing, or nothing that is known
    gpu.fields.update(dict(zip(ids, [(3, 1e9), (3, 2e9), (3, 3e9)], strict=False)))
    found = opened(gpu, driver=driver)
    reading = found.read(only(found))
    seconds = [reading.get(name) for name in ("sw_thermal_s", "hw_thermal_s", "hw_power_brake_s")]
    assert seconds == (pytest.approx([1, 2, 3]) if ids else [None, None, None])


def test_without_counters_the_sampled_reasons_stand_in() -> None:
    driver = opened(gpu := h200(), driver="550.90.07")
    device, readings = only(driver), []
    for tenth in range(11):
        gpu.answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0x44 if 2 <= tenth < 5 else 0x4
        readings.append({"uuid": device.uuid, "at": tenth / 10, **driver.read(device)})
    summary = summarise(readings)
    assert summary["hw_thermal_s"] == pytest.approx(0.3)
    assert summary["sw_thermal_s"] == summary["hw_power_brake_s"] == 0
    assert summary["sampled"] == ["sw_thermal_s", "hw_thermal_s", "hw_power_brake_s", "hw_slowdown_s"]
    assert summary["sw_power_cap_s"] == 0, "a counter that exists is not replaced by samples"


@each_row(("kind", "number"), [(0, 1.5), (1, 7), (2, 8), (3, 2**40), (4, -3), (5, -4), (6, 9)])
def test_a_field_of_every_type(kind: int, number: float) -> None:
    gpu = h200()
    gpu.fields[pynvml.NVML_FI_DEV_MEMORY_TEMP] = (kind, number)
    driver = opened(gpu)
    assert driver.read(only(driver))["memory_temperature_c"] == number


def test_an_old_library_lacks_the_newer_functions() -> None:
    newer = (
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetMarginTemperature",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetFieldValues",
    )
    driver = opened(h200(), driver="470.57.02", lacks=newer)
    device = only(driver)
    reading = driver.read(device)
    assert reading["reasons"] == 0x20, "the name before version 535"
    assert not {"margin_c", "memory_temperature_c", "sw_power_cap_s"} & set(reading)
    assert driver.idle(device) is None, "what the driver reserves for itself is no use"


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (nvml.NOT_SUPPORTED, "unsupported", "this GPU or its driver does not support it"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "unread", "this user may not read it: run as root"),
        (pynvml.NVML_ERROR_UNKNOWN, "unread", "NVML: Unknown Error"),
    ],
)
def test_what_is_refused_is_left_out_and_named(status: int, kind: str, reason: str) -> None:
    gpu = h200()
    gpu.refuses = status
    driver = opened(gpu)
    device = only(driver)
    assert (device.model, device.serial, device.pci_id, device.memory_bytes) == ("", None, None, 0)
    assert device.facts["driver_version"] == "580.95.05"
    assert {device.facts[kind][fact] for fact in ("model", "ecc", "remap_pending", "power_limit_w")} == {reason}
    assert device.cpus, "it may run on every CPU"
    assert driver.read(device) == {}
    assert driver.idle(device) is None


def test_an_old_driver_is_the_reason_why_a_new_fact_is_not_there() -> None:
    newer = ("nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetUnrepairableMemoryFlag_v1")
    gpu = h200()
    gpu.fields.pop(pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)
    gpu.answers["nvmlDeviceGetGpuFabricInfo"] = fabric()
    facts = only(opened(gpu, driver="535.230.02", lacks=newer)).facts
    assert facts["fabric_state"] == "completed", "by the function before version 545"
    assert facts["unsupported"]["fabric_faults"] == "driver 535.230.02 does not have it"
    assert facts["unsupported"]["memory_unrepairable"] == "driver 535.230.02 does not have it"
    assert "recovery_action" in facts["unsupported"]


def test_a_library_that_takes_the_second_version_of_a_struct() -> None:
    facts = only(opened(h200(nvmlDeviceGetGpuFabricInfoV=fabric(newest=2, healthMask=0x2A5)))).facts
    assert facts["fabric_state"] == "completed"
    assert facts["fabric_faults"] == ["degraded bandwidth", "route recovery", "incorrect system GUID"]
    assert "fabric_health" in facts["unsupported"]


def test_a_health_mask_of_zeros_states_no_health_of_the_fabric() -> None:
    """H100 state zeros, and so does an H200 in a virtual machine. A summary beside the zeros is read all the same."""
    facts = only(opened(h200(nvmlDeviceGetGpuFabricInfoV=fabric(healthMask=0, healthSummary=0)))).facts
    assert facts["fabric_state"] == "completed"
    assert not {"fabric_faults", "fabric_health"} & set(facts)

    facts = only(opened(h200(nvmlDeviceGetGpuFabricInfoV=fabric(healthMask=0, healthSummary=2)))).facts
    assert (facts["fabric_faults"], facts["fabric_health"]) == ([], "unhealthy")


def test_links_that_are_down_or_narrow() -> None:
    gpu = h200()
    state, speed = pynvml.NVML_FI_DEV_NVLINK_GET_STATE, pynvml.NVML_FI_DEV_NVLINK_GET_SPEED
    gpu.fields.update({(state, 3): (1, 0), (state, 4): (1, 2), (speed, 5): (1, 13281)})
    facts = only(opened(gpu)).facts
    assert (facts["nvlink_count"], facts["nvlink_up"]) == (18, 17), "one that sleeps is up"
    assert facts["nvlinks"][3]["state"] == "inactive"
    assert facts["nvlink_gb_per_s"] == pytest.approx(13.281)


def test_health_is_read_anew() -> None:
    driver = opened(gpu := h200())
    device = only(driver)
    gpu.answers["nvmlDeviceGetRemappedRows"] = (1, 2, 1, 0)
    health = driver.health(device)
    found = {key: health[key] for key in ("remapped_correctable", "remapped_uncorrectable", "remap_pending")}
    assert found == {"remapped_correctable": 1, "remapped_uncorrectable": 2, "remap_pending": True}
    assert device.facts["remap_pending"] is False


class Counting(NvmlLibrary):
    """A library that counts the calls."""

    calls = 0

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.calls += 1
        return super()._call(name, arguments)


def test_links_are_most_of_the_calls_and_are_left_out_where_nothing_uses_them() -> None:
    """A run reads the counters after every probe. On eight GPUs each call for a link is made 144 times."""
    install(library := Counting([h200(place) for place in range(8)]))
    driver = NvidiaDriver()
    devices, began = driver.discover(), library.calls
    for device in devices:
        assert len(driver.health(device)["nvlinks"]) == 18
    whole = library.calls - began
    without = [driver.health_without_links(device) for device in devices]
    assert whole == 8 * (COUNTER_CALLS + LINK_CALLS), "the plan of a run counts with it"
    assert library.calls - began - whole == 8 * COUNTER_CALLS
    assert "nvlinks" not in without[0]
    assert {"ecc_uncorrectable_volatile", "pcie_replays", "temperature_c", "fabric_state"} <= set(without[0])


def test_the_bridges_up_to_the_root_port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bridge = tmp_path / "pci0000:15" / "0000:15:01.0"
    gpu = bridge / "0000:1a:00.0"
    gpu.mkdir(parents=True)
    for place, speed, width in ((bridge, "32.0 GT/s PCIe", 8), (gpu, "2.5 GT/s PCIe", 8)):
        (place / "current_link_speed").write_text(f"{speed}\n")
        (place / "max_link_speed").write_text("32.0 GT/s PCIe\n")
        (place / "current_link_width").write_text(f"{width}\n")
        (place / "max_link_width").write_text("Unknown\n" if place == bridge else "16\n")
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "0000:1a:00.0").symlink_to(gpu)
    monkeypatch.setattr(pci, "DEVICES", tmp_path / "devices")
    assert only(opened(h200())).facts["pcie_path"] == [
        {"address": "0000:1a:00.0", "gen": 1, "gen_max": 5, "width": 8, "width_max": 16},
        {"address": "0000:15:01.0", "gen": 5, "gen_max": 5, "width": 8},
    ]
    virtual = only(opened(h200(nvmlDeviceGetVirtualizationMode=1))).facts
    assert "emulated (passthrough)" in virtual["unsupported"]["pcie_path"]


def test_no_gpu_that_answers_is_a_problem_of_the_driver() -> None:
    gpu = h200()
    gpu.lost = True
    with pytest.raises(DriverProblem, match="GPU 0 does not answer: GPU is lost"):
        opened(gpu).discover()


@pytest.mark.parametrize("status", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_gpu_that_is_lost_later(status: int) -> None:
    driver = opened(gpu := h200())
    device = only(driver)
    gpu.refuses = status
    for question in (driver.read, driver.idle):
        with pytest.raises(DriverProblem):
            question(device)


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "modprobe nvidia"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "reboot after the driver update"),
        (pynvml.NVML_ERROR_UNKNOWN, "nvidia-smi should fail"),
    ],
)
def test_why_the_library_cannot_be_used(status: int, remedy: str) -> None:
    with pytest.raises(DriverProblem, match=remedy):
        opened(h200(), init=status).discover()


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    install(None)
    monkeypatch.setattr(pynvml, "CDLL", missing)
    with pytest.raises(DriverProblem, match=r"libnvidia-ml\.so\.1 is missing"):
        NvidiaDriver().discover()


def test_no_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DriverProblem, match="pip install nvidia-ml-py"):
        registry.vendor("nvidia").driver([])


MEMORY, COMPUTING = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3"
CACHED = {MEMORY: fills(used=60 << 30), "nvmlDeviceGetNumaNodeId": 4}
"""The memory of a coherent GPU is a NUMA node, whose pages the operating system hands out."""
DRAWING = {MEMORY: fills(used=2 << 30), "nvmlDeviceGetGraphicsRunningProcesses_v3": processes(1234, memory=2 << 30)}
"""A desktop, whose memory is no use."""
BUSY = {"nvmlDeviceGetUtilizationRates": lambda _, reference: setattr(reference._obj, "gpu", 70)}


@each_row(
    ("answers", "why"),
    [
        (
            {MEMORY: fills(used=20 << 30), COMPUTING: processes(4711, 4712)},
            "21.5 GB of its memory is in use (pid 4711, pid 4712)",
        ),
        (CACHED, None),
        ({**CACHED, COMPUTING: processes(4711, memory=2 << 30)}, "2.1 GB of its memory is in use (pid 4711)"),
        ({**CACHED, **BUSY}, "it is 70 % busy (by a process that is not visible from here)"),
        (DRAWING, None),
        ({**DRAWING, MEMORY: fills(used=20 << 30)}, "19.3 GB of its memory is in use (pid 1234)"),
        ({**DRAWING, COMPUTING: processes(1234, memory=2 << 30)}, "2.1 GB of its memory is in use (pid 1234)"),
    ],
)
def test_memory_of_others_is_seen_and_explained(answers: dict[str, Any], why: str | None) -> None:
    driver = opened(h200(**answers))
    device = only(driver)
    assert driver.idle(device) == why
    assert device.facts.get("memory_numa_node") == answers.get("nvmlDeviceGetNumaNodeId")


def test_what_an_older_driver_reserves_is_no_use() -> None:
    """Its one figure of used memory holds the 1103 MiB that a GH200 reserves."""
    for used, idle in ((1104, True), (1103 + 1025, False)):
        gpu = h200(nvmlDeviceGetMemoryInfo=fills(total=150 << 30, used=used << 20))
        driver = opened(gpu, lacks=("nvmlDeviceGetMemoryInfo_v2",))
        assert (driver.idle(only(driver)) is None) is idle


@pytest.mark.parametrize("lacks", [(), ("nvmlDeviceGetMemoryInfo_v2",)], ids=["now", "older"])
def test_published_idle_devices_are_idle(lacks: tuple[str, ...]) -> None:
    for row in table("idle.csv"):
        used, reserved = (int(row[name] or 0) << 20 for name in ("used_mib", "reserved_mib"))
        answers: dict[str, Any] = {
            "nvmlDeviceGetMemoryInfo": fills(total=150 << 30, used=used + reserved),
            "nvmlDeviceGetMemoryInfo_v2": fills(total=150 << 30, used=used, reserved=reserved),
        }
        driver = opened(h200(**answers), lacks=lacks)
        assert driver.idle(only(driver)) is None, row["product"]


def test_only_lasting_use_is_use() -> None:
    rates = iter([100, 0, 90, 80, 70])
    gpu = h200(nvmlDeviceGetUtilizationRates=lambda _, reference: setattr(reference._obj, "gpu", next(rates)))
    driver = opened(gpu)
    device = only(driver)
    assert driver.idle(device) is None
    assert driver.idle(device) == "it is 70 % busy (by a process that is not visible from here)"
