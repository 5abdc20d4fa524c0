"""Every function that the NVIDIA driver calls, with every error that NVML knows: an answer, never a crash."""

from __future__ import annotations

import re
import threading
import time
from functools import cache
from typing import Any

import every_query
import pynvml
import pytest

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import deadlines
from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver
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
QUICK = ("UNKNOWN", "GPU_IS_LOST")
"""The errors that the quick tests try. The nightly tests try the others."""
EVERY_ERROR = [pytest.param(error, marks=[pytest.mark.nightly] * (error not in QUICK)) for error in ERRORS]
HEALTHY, SICK = 0, 1
COUNT = "nvmlDeviceGetCount_v2"
IDENTITY = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID")
ASKED_WHEN_IDLE = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
)


class Faulty(NvmlLibrary):
    """Two GPUs, of which the second fails in one way. `called` and `fields` are what was asked for.

    A function without a code never answers.
    """

    def __init__(self, function: str = "", code: int | None = 0, field: int = 0, lacks: tuple[str, ...] = ()) -> None:
        super().__init__([h100(place) for place in (HEALTHY, SICK)], lacks=lacks)
        self.function, self.code, self.field = function, code, field
        self.called: set[str] = set()
        self.fields: set[int] = set()

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.called.add(name)
        if name == self.function and self._is_sick(name, arguments):
            return never() if self.code is None else self.code
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
        if not name.startswith("nvmlDevice") or name == COUNT:
            return True
        return self._gpu(arguments[0]) is self.gpus[SICK]


@pytest.fixture(autouse=True)
def _below_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    every_query.forget_pynvml(monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def everything(library: NvmlLibrary) -> tuple[list[Device], list[str]]:
    install(library)
    return every_query.everything(NvidiaDriver())


def cases() -> tuple[list[str], list[int]]:
    """The functions and fields that the driver asks for; what it asks for tomorrow is among them."""
    known = pynvml.nvmlLib, dict(pynvml._nvmlGetFunctionPointer_cache)
    try:
        library = Faulty()
        devices, problems = everything(library)
        assert (len(devices), problems) == (2, [])
        return sorted(library.called - {"nvmlInitWithFlags"}), sorted(library.fields)
    finally:
        install(known[0])
        pynvml._nvmlGetFunctionPointer_cache.update(known[1])


FUNCTIONS, FIELDS = cases()
OF_THE_SYSTEM = [name for name in FUNCTIONS if name.startswith("nvmlSystem")]
OF_ONE_GPU = [name for name in FUNCTIONS if name not in (*OF_THE_SYSTEM, COUNT)]


@cache
def healthy() -> Device:
    return everything(Faulty())[0][HEALTHY]


def found(broken: dict[str, Faulty]) -> dict[str, list[int]]:
    """The devices of each library. The healthy GPU keeps all its facts; the sick one is there or named."""
    expected = healthy()
    answers = {name: everything(library) for name, library in broken.items()}
    kept = {name: (devices[HEALTHY], devices[HEALTHY].facts) for name, (devices, _) in answers.items()}
    assert [name for name, each in kept.items() if each != (expected, expected.facts)] == []
    indices = {name: [device.index for device in devices] for name, (devices, _) in answers.items()}
    unnamed = [name for name, (_, problems) in answers.items() if not any(f"GPU {SICK}" in each for each in problems)]
    assert [name for name in unnamed if SICK not in indices[name]] == []
    return indices


@pytest.mark.nightly
@pytest.mark.parametrize("error", EVERY_ERROR)
def test_a_function_that_fails_on_one_gpu(error: str) -> None:
    indices = found({name: Faulty(name, ERRORS[error]) for name in OF_ONE_GPU})
    lost = {name for name in OF_ONE_GPU if name in IDENTITY or error == "GPU_IS_LOST"} - set(ASKED_WHEN_IDLE)
    assert indices == {name: [HEALTHY] if name in lost else [HEALTHY, SICK] for name in OF_ONE_GPU}


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_a_field_that_fails_on_one_gpu(error: str) -> None:
    indices = found({str(field): Faulty(field=field, code=ERRORS[error]) for field in FIELDS})
    left = [HEALTHY] if error == "GPU_IS_LOST" else [HEALTHY, SICK]
    assert indices == {str(field): left for field in FIELDS}


def silent(broken: dict[str, Faulty]) -> list[str]:
    """The libraries of which neither both devices nor a problem are told."""
    answers = {name: everything(library) for name, library in broken.items()}
    return [name for name, (devices, problems) in answers.items() if len(devices) < 2 and not problems]


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_a_function_of_the_system_that_fails(error: str) -> None:
    assert silent({name: Faulty(name, ERRORS[error]) for name in OF_THE_SYSTEM}) == []
    _, problems = everything(Faulty(COUNT, ERRORS[error]))
    assert re.search("no NVIDIA driver|NVIDIA driver mismatch", problems[0])


@pytest.mark.nightly
def test_a_function_that_the_library_lacks() -> None:
    assert silent({name: Faulty(lacks=(name,)) for name in FUNCTIONS}) == []


@pytest.mark.parametrize(
    "function",
    [
        IDENTITY[0],
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in (IDENTITY[1], "nvmlDeviceGetEccMode", "nvmlDeviceGetFieldValues")
        ),
    ],
)
def test_a_gpu_that_never_answers_costs_only_itself(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    monkeypatch.setattr(deadlines, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: threading.Event().wait(60))
    install(Faulty(function, code=None))
    driver = NvidiaDriver()
    assert [device.index for device in driver.discover()] == [HEALTHY]
    assert driver.problems == ["GPU 1 does not answer: its management library has not answered for 1 s"]
