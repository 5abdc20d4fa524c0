"""The NVIDIA driver over the real pynvml, which talks to a simulated libnvidia-ml."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml
import pytest

from pytest_accel.drivers import DriverProblem, nvidia
from pytest_accel.drivers.nvidia import NvidiaDriver
from pytest_accel.measurement import Device
from pytest_accel.telemetry import summarise

NOT_SUPPORTED, NO_PERMISSION = pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION
OLD_IDS, NEW_IDS = (251, 252, 253), (269, 270, 271)


@dataclass
class Gpu:
    """One GPU of the simulated library. `answers` are by function: an int, several, bytes, or what fills arguments."""

    answers: dict[str, Any]
    fields: dict[int, tuple[int, float]] = field(default_factory=dict)
    lost: bool = False
    refuses: int = 0
    """The status of every function but those of the identity."""

    def field_values(self, _handle: Any, count: Any, values: Any) -> None:
        for value in values._obj[: count.value]:
            kind, number = self.fields.get(value.fieldId, (0, 0.0))
            value.nvmlReturn = 0 if value.fieldId in self.fields else NOT_SUPPORTED
            value.valueType = kind
            name = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}[kind]
            setattr(value.value, name, number if kind == 0 else int(number))


class Library:
    """What pynvml takes for the loaded library: functions that fill by-reference arguments and return a status."""

    def __init__(self, gpus: list[Gpu], driver: str = "580.95.05", init: int = 0, lacks: tuple[str, ...] = ()) -> None:
        self.gpus, self.driver, self.init, self.lacks = gpus, driver, init, lacks

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name in self.lacks:
            raise AttributeError(name)
        return lambda *arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> int:
        if name == "nvmlInitWithFlags":
            return self.init
        if name == "nvmlDeviceGetCount_v2":
            arguments[0]._obj.value = len(self.gpus)
            return 0
        if name == "nvmlSystemGetDriverVersion":
            arguments[0].value = self.driver.encode()
            return 0
        if name == "nvmlDeviceGetHandleByIndex_v2":
            place = ctypes.c_void_p(arguments[0].value + 1)
            ctypes.memmove(arguments[1], ctypes.byref(place), ctypes.sizeof(place))
            return pynvml.NVML_ERROR_GPU_IS_LOST if self.gpus[arguments[0].value].lost else 0
        place_of = ctypes.cast(arguments[0], ctypes.c_void_p).value or 0
        return self._ask(self.gpus[place_of - 1], name, arguments)

    @staticmethod
    def _ask(gpu: Gpu, name: str, arguments: tuple[Any, ...]) -> int:
        if gpu.lost:
            return int(pynvml.NVML_ERROR_GPU_IS_LOST)
        if gpu.refuses and name != "nvmlDeviceGetUUID":
            return gpu.refuses
        if name == "nvmlDeviceGetFieldValues":
            gpu.field_values(*arguments)
            return 0
        answer = gpu.answers.get(name)
        if answer is None:
            return int(NOT_SUPPORTED)
        if callable(answer):
            return answer(*arguments) or 0
        if isinstance(answer, bytes):
            arguments[1].value = answer
            return 0
        numbers = answer if isinstance(answer, tuple) else (answer,)
        for reference, number in zip(arguments[-len(numbers) :], numbers, strict=True):
            reference._obj.value = number
        return 0


def fills(**values: Any) -> Callable[..., None]:
    """A function that fills the struct that its last argument refers to."""

    def fill(*arguments: Any) -> None:
        for name, value in values.items():
            setattr(arguments[-1]._obj, name, value)

    return fill


def clocks(sm: int, memory: int) -> Callable[..., None]:
    def fill(_handle: Any, kind: Any, reference: Any) -> None:
        kind = getattr(kind, "value", kind)
        reference._obj.value = {pynvml.NVML_CLOCK_SM: sm, pynvml.NVML_CLOCK_MEM: memory}[kind]

    return fill


def processes(*pids: int) -> Callable[..., int]:
    def fill(_handle: Any, count: Any, array: Any) -> int:
        if pids and array is None:
            count._obj.value = len(pids)
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        count._obj.value = len(pids)
        for entry, pid in zip(array or (), pids, strict=False):
            entry.pid = pid
        return 0

    return fill


def h200(place: int = 0, **answers: Any) -> Gpu:
    """An idle H200, as NVML describes one."""
    slowdown = dict(zip(NEW_IDS, [(3, 2e9), (3, 3e6), (3, 4e6)], strict=True))
    return Gpu(
        {
            "nvmlDeviceGetUUID": f"GPU-8932f937-d72c-4106-c12f-20bd9faed9f{place}".encode(),
            "nvmlDeviceGetName": b"NVIDIA H200",
            "nvmlDeviceGetSerial": f"165352400123{place}".encode(),
            "nvmlDeviceGetVbiosVersion": b"96.00.A5.00.03",
            "nvmlDeviceGetPciInfo_v3": fills(
                busId=f"00000000:{0x1A + place:02X}:00.0".encode(), pciDeviceId=0x233510DE
            ),
            "nvmlDeviceGetMemoryInfo": fills(total=150754820096, used=700 << 20),
            "nvmlDeviceGetMemoryInfo_v2": fills(total=150754820096, reserved=697 << 20, used=3 << 20),
            "nvmlDeviceGetMigMode": (0, 0),
            "nvmlDeviceGetComputeMode": 0,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetMaxClockInfo": clocks(1980, 3201),
            "nvmlDeviceGetClockInfo": clocks(1410, 3201),
            "nvmlDeviceGetPowerUsage": 698_123,
            "nvmlDeviceGetTotalEnergyConsumption": 123_456_789,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetMarginTemperature": fills(marginTemperature=26),
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x20,
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetUtilizationRates": fills(gpu=0, memory=0),
            "nvmlDeviceGetComputeRunningProcesses_v3": processes(),
            **answers,
        },
        fields={pynvml.NVML_FI_DEV_MEMORY_TEMP: (1, 70), 74: (3, 1.5e9), **slowdown},
    )


@pytest.fixture
def open_driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[Library | None], NvidiaDriver]:
    """Makes a driver that finds this library; None for none."""

    def make(library: Library | None) -> NvidiaDriver:
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        pynvml._nvmlGetFunctionPointer_cache.clear()
        return NvidiaDriver()

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(nvidia, "_sysfs", lambda address, name: None)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return make


Open = Callable[[Library | None], NvidiaDriver]


def only(driver: NvidiaDriver) -> Device:
    (device,) = driver.discover()
    return device


def test_identity_of_an_h200(open_driver: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    files = {("0000:1a:00.0", "numa_node"): "1", ("0000:1a:00.0", "local_cpulist"): f"{allowed[0]},99999"}
    monkeypatch.setattr(nvidia, "_sysfs", lambda address, name: files[address, name])
    device = only(open_driver(Library([h200()])))
    assert vars(device) == {
        "uuid": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f0",
        "index": 0,
        "driver": "nvidia",
        "model": "NVIDIA H200",
        "memory_bytes": 150754820096,
        "serial": "1653524001230",
        "pci_id": "10de:2335",
        "pci_address": "0000:1a:00.0",
        "numa_node": 1,
        "cpus": (allowed[0],),
        "facts": {
            "driver": "580.95.05",
            "vbios": "96.00.A5.00.03",
            "power_limit_w": 700.0,
            "pcie_gen_max": 5,
            "pcie_width_max": 16,
            "mig": False,
            "compute_mode": "default",
            "clock_max_mhz": 1980,
        },
    }


def test_a_node_of_eight_in_the_order_of_nvml(open_driver: Open) -> None:
    h100 = {"nvmlDeviceGetName": b"NVIDIA H100 80GB HBM3"}
    devices = open_driver(Library([h200(place, **h100) for place in range(8)])).discover()
    assert [device.index for device in devices] == list(range(8))
    assert len({device.uuid for device in devices}) == 8
    assert {device.model for device in devices} == {"NVIDIA H100 80GB HBM3"}
    assert devices[7].pci_address == "0000:21:00.0"


def test_readings_have_the_units_of_their_names(open_driver: Open) -> None:
    driver = open_driver(Library([h200()]))
    assert driver.read(only(driver)) == {
        "clock_mhz": 1410,
        "memory_clock_mhz": 3201,
        "power_w": pytest.approx(698.123),
        "energy_j": pytest.approx(123456.789),
        "temperature_c": 61,
        "margin_c": 26,
        "reasons": 0x4,
        "pcie_gen": 5,
        "pcie_width": 16,
        "memory_temperature_c": 70,
        "sw_power_cap_s": pytest.approx(1.5),
        "sw_thermal_s": pytest.approx(2.0),
        "hw_thermal_s": pytest.approx(0.003),
        "hw_power_brake_s": pytest.approx(0.004),
    }


@pytest.mark.parametrize(
    ("driver", "ids"),
    [
        ("535.230.02", ()),
        ("570.172.08", ()),
        ("575.57.08", OLD_IDS),
        ("580.65.06", OLD_IDS),
        ("580.82.07", NEW_IDS),
        ("595.45.04", NEW_IDS),
    ],
)
def test_throttle_counters_are_read_where_this_driver_has_them(
    open_driver: Open, driver: str, ids: tuple[int, ...]
) -> None:
    gpu = h200()
    for other in (*OLD_IDS, *NEW_IDS):
        gpu.fields[other] = (1, 7e9 if other not in ids else 0)  # power smoothing, or nothing that is known
    gpu.fields.update(dict(zip(ids, [(3, 1e9), (3, 2e9), (3, 3e9)], strict=False)))
    opened = open_driver(Library([gpu], driver=driver))
    reading = opened.read(only(opened))
    found = [reading.get(name) for name in ("sw_thermal_s", "hw_thermal_s", "hw_power_brake_s")]
    assert found == (pytest.approx([1, 2, 3]) if ids else [None, None, None])


def test_without_counters_the_sampled_reasons_stand_in(open_driver: Open) -> None:
    driver = open_driver(Library([gpu := h200()], driver="550.90.07"))
    device, readings = only(driver), []
    for tenth in range(11):
        gpu.answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0x44 if 2 <= tenth < 5 else 0x4
        readings.append({"uuid": device.uuid, "at": tenth / 10, **driver.read(device)})
    summary = summarise(readings)
    assert summary["hw_thermal_s"] == pytest.approx(0.3)
    assert summary["sw_thermal_s"] == summary["hw_power_brake_s"] == 0
    assert summary["sampled"] == ["sw_thermal_s", "hw_thermal_s", "hw_power_brake_s"]
    assert summary["sw_power_cap_s"] == 0, "a counter that exists is not replaced by samples"


@pytest.mark.parametrize(("kind", "number"), [(0, 1.5), (1, 7), (2, 8), (3, 2**40), (4, -3), (5, -4), (6, 9)])
def test_a_field_of_every_type(open_driver: Open, kind: int, number: float) -> None:
    gpu = h200()
    gpu.fields[pynvml.NVML_FI_DEV_MEMORY_TEMP] = (kind, number)
    driver = open_driver(Library([gpu]))
    assert driver.read(only(driver))["memory_temperature_c"] == number


def test_an_old_library_lacks_the_newer_functions(open_driver: Open) -> None:
    newer = (
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetMarginTemperature",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetFieldValues",
    )
    driver = open_driver(Library([h200()], driver="470.57.02", lacks=newer))
    device = only(driver)
    reading = driver.read(device)
    assert reading["reasons"] == 0x20, "the name before version 535"
    assert not {"margin_c", "memory_temperature_c", "sw_power_cap_s"} & set(reading)
    assert driver.idle(device) is None, "what the driver reserves for itself is no use"


@pytest.mark.parametrize("status", [NOT_SUPPORTED, NO_PERMISSION])
def test_what_is_refused_is_left_out(open_driver: Open, status: int) -> None:
    gpu = h200()
    gpu.refuses = status
    driver = open_driver(Library([gpu]))
    device = only(driver)
    assert (device.model, device.serial, device.pci_id, device.memory_bytes) == ("", None, None, 0)
    assert device.facts == {"driver": "580.95.05"}
    assert device.cpus, "it may run on every CPU"
    assert driver.read(device) == {}
    assert driver.idle(device) is None


def test_a_lost_gpu_does_not_hide_the_others(open_driver: Open) -> None:
    gpus = [h200(place) for place in range(8)]
    gpus[3].lost = True
    driver = open_driver(Library(gpus))
    assert [device.index for device in driver.discover()] == [0, 1, 2, 4, 5, 6, 7]
    assert driver.problems == ["GPU 3 does not answer: GPU is lost"]


def test_a_gpu_that_is_lost_while_it_is_asked(open_driver: Open) -> None:
    gpu = h200(nvmlDeviceGetVbiosVersion=lambda *arguments: pynvml.NVML_ERROR_GPU_IS_LOST)
    driver = open_driver(Library([gpu, h200(1)]))
    assert [device.index for device in driver.discover()] == [1]
    assert "GPU 0" in driver.problems[0]


def test_no_gpu_that_answers_is_a_problem_of_the_driver(open_driver: Open) -> None:
    gpu = h200()
    gpu.lost = True
    with pytest.raises(DriverProblem, match="GPU 0 does not answer: GPU is lost"):
        open_driver(Library([gpu])).discover()


@pytest.mark.parametrize("status", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_gpu_that_is_lost_later(open_driver: Open, status: int) -> None:
    driver = open_driver(Library([gpu := h200()]))
    device = only(driver)
    gpu.refuses = status
    with pytest.raises(DriverProblem):
        driver.read(device)
    with pytest.raises(DriverProblem):
        driver.idle(device)


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "modprobe nvidia"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "reboot after the driver update"),
        (pynvml.NVML_ERROR_UNKNOWN, "nvidia-smi should fail"),
    ],
)
def test_why_the_library_cannot_be_used(open_driver: Open, status: int, remedy: str) -> None:
    with pytest.raises(DriverProblem, match=remedy):
        open_driver(Library([h200()], init=status)).discover()


def test_no_library(open_driver: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(pynvml, "CDLL", missing)
    with pytest.raises(DriverProblem, match=r"libnvidia-ml\.so\.1 is missing"):
        open_driver(None).discover()


def test_no_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DriverProblem, match="pip install nvidia-ml-py"):
        NvidiaDriver()


def test_memory_of_others_is_seen_and_explained(open_driver: Open) -> None:
    used = fills(used=20 << 30)
    gpu = h200(nvmlDeviceGetMemoryInfo_v2=used, nvmlDeviceGetComputeRunningProcesses_v3=processes(4711, 4712))
    driver = open_driver(Library([gpu]))
    assert driver.idle(only(driver)) == "21.5 GB of its memory is in use (pid 4711, pid 4712)"


def test_only_lasting_use_is_use(open_driver: Open) -> None:
    rates = iter([100, 0, 90, 80, 70])
    gpu = h200(nvmlDeviceGetUtilizationRates=lambda _, reference: setattr(reference._obj, "gpu", next(rates)))
    driver = open_driver(Library([gpu]))
    device = only(driver)
    assert driver.idle(device) is None
    assert driver.idle(device) == "it is 70 % busy (no process that can be seen from here)"


def test_mig_is_a_fact(open_driver: Open) -> None:
    assert only(open_driver(Library([h200(nvmlDeviceGetMigMode=(1, 1))]))).facts["mig"] is True
