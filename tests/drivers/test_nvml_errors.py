"""Every function that the NVIDIA driver calls, with every error that NVML knows: an answer, never a crash."""

from __future__ import annotations

import threading
import time
from functools import cache
from typing import Any

import asked
import pynvml
import pytest

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import deadlines, pci
from pytest_accel.drivers.query import Answerer, LibraryCall, sources_of
from pytest_accel.drivers.vendors.nvidia import identity, links, memory, power
from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver
from pytest_accel.drivers.vendors.nvidia.query import Field
from pytest_accel.simulate.libraries import never
from pytest_accel.simulate.libraries.nvml import NvmlLibrary, h100, install

ERRORS = {
    name: getattr(pynvml, f"NVML_ERROR_{name}")
    for name in (
        "NOT_SUPPORTED",
        "NO_PERMISSION",
        "FUNCTION_NOT_FOUND",
        "GPU_IS_LOST",
        "UNKNOWN",
        "TIMEOUT",
        "ARGUMENT_VERSION_MISMATCH",
        "DEPRECATED",
    )
}
QUICK = "UNKNOWN"
"""The error that the quick tests try. The nightly tests try the others."""
EVERY_ERROR = [pytest.param(error, marks=[pytest.mark.nightly] * (error != QUICK)) for error in ERRORS]
HEALTHY, SICK = 0, 1
IDENTITY = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID")
ASKED_WHEN_IDLE = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
)


class Faulty(NvmlLibrary):
    """Two GPUs, of which the second fails in one way. `called` and `fields` are what was asked for."""

    def __init__(self, function: str = "", code: int = 0, field: int = 0, lacks: tuple[str, ...] = ()) -> None:
        super().__init__([h100(place) for place in (HEALTHY, SICK)], lacks=lacks)
        self.function, self.code, self.field = function, code, field
        self.called: set[str] = set()
        self.fields: set[int] = set()

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.called.add(name)
        if name == self.function and self._is_sick(name, arguments):
            return self.code
        done = super()._call(name, arguments)
        if name == "nvmlDeviceGetFieldValues":
            for value in arguments[2]._obj:
                self.fields.add(value.fieldId)
                if value.fieldId == self.field and self._is_sick(name, arguments):
                    value.nvmlReturn = self.code
        return done

    def _is_sick(self, name: str, arguments: tuple[Any, ...]) -> bool:
        if name == "nvmlDeviceGetHandleByIndex_v2":
            return bool(arguments[0].value == SICK)
        if not name.startswith("nvmlDevice") or name == "nvmlDeviceGetCount_v2":
            return True
        return self._gpu(arguments[0]) is self.gpus[SICK]


@pytest.fixture(autouse=True)
def _below_pynvml(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pci, "DEVICES", tmp_path)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def everything(library: NvmlLibrary) -> tuple[list[Device], list[str]]:
    install(library)
    return asked.everything(NvidiaDriver())


def recorded() -> Faulty:
    library = Faulty()
    devices, problems = everything(library)
    assert (len(devices), problems) == (2, [])
    return library


def cases() -> tuple[list[str], list[int]]:
    """The functions and fields that the driver asks for; what it asks for tomorrow is among them."""
    known = pynvml.nvmlLib, dict(pynvml._nvmlGetFunctionPointer_cache)
    try:
        library = recorded()
        return sorted(library.called - {"nvmlInitWithFlags"}), sorted(library.fields)
    finally:
        install(known[0])
        pynvml._nvmlGetFunctionPointer_cache.update(known[1])


FUNCTIONS, FIELDS = cases()


@cache
def healthy() -> Device:
    return everything(Faulty())[0][HEALTHY]


def check(library: Faulty) -> list[Device]:
    """The healthy GPU keeps all its facts; the sick one is there, or is named."""
    expected = healthy()
    devices, problems = everything(library)
    by_index = {device.index: device for device in devices}
    assert (by_index[HEALTHY], by_index[HEALTHY].facts) == (expected, expected.facts)
    assert SICK in by_index or any(f"GPU {SICK}" in each for each in problems)
    return devices


@pytest.mark.parametrize("error", EVERY_ERROR)
@pytest.mark.parametrize("function", [name for name in FUNCTIONS if not name.startswith("nvmlSystem")])
def test_a_function_that_fails_on_one_gpu(function: str, error: str) -> None:
    if function == "nvmlDeviceGetCount_v2":
        _, problems = everything(Faulty(function, ERRORS[error]))
        assert "NVML cannot be used" in problems[0]
        return
    devices = check(Faulty(function, ERRORS[error]))
    lost = function in IDENTITY or error == "GPU_IS_LOST"
    if lost and function not in ASKED_WHEN_IDLE:
        assert [device.index for device in devices] == [HEALTHY]
    else:
        assert len(devices) == 2


@pytest.mark.parametrize("error", EVERY_ERROR)
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_fails_on_one_gpu(field: int, error: str) -> None:
    assert len(check(Faulty(field=field, code=ERRORS[error]))) == (1 if error == "GPU_IS_LOST" else 2)


@pytest.mark.parametrize("error", EVERY_ERROR)
@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name.startswith("nvmlSystem")])
def test_a_function_of_the_system_that_fails(function: str, error: str) -> None:
    devices, problems = everything(Faulty(function, ERRORS[error]))
    assert len(devices) == 2 or problems


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_that_the_library_lacks(function: str) -> None:
    devices, problems = everything(Faulty(lacks=(function,)))
    assert len(devices) == 2 or problems


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(name, marks=() if place == 0 else pytest.mark.nightly)
        for place, name in enumerate([*IDENTITY, "nvmlDeviceGetEccMode", "nvmlDeviceGetFieldValues"])
    ],
)
def test_a_gpu_that_never_answers_costs_only_itself(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    monkeypatch.setattr(deadlines, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: threading.Event().wait(60))

    class Silent(Faulty):
        def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
            if name == function and self._is_sick(name, arguments):
                never()
            return super()._call(name, arguments)

    install(Silent())
    driver = NvidiaDriver()
    assert [device.index for device in driver.discover()] == [HEALTHY]
    assert driver.problems == ["GPU 1 does not answer: its management library has not answered for 2 s"]


def test_every_name_in_the_tables_is_one_of_pynvmls() -> None:
    tables = [identity.PRODUCT, identity.PLACE, identity.FIRMWARE, identity.SETTINGS, memory.ERRORS, memory.REPAIRS]
    tables += [links.PCIE, links.FABRIC, links._link_table(0), power.LIMITS, power.PROCESSES, power.reading("580.95")]
    for table in tables:
        for source in sources_of(table):
            names = [source.name] if isinstance(source, Field) else _names(source)
            for name in names:
                assert isinstance(name, int) or hasattr(pynvml, name), name


def _names(call: Answerer) -> list[str | int]:
    assert isinstance(call, LibraryCall)
    return [call.name, *([call.fills] if call.fills else []), *call.arguments]
