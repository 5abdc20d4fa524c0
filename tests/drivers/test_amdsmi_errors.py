"""Every function that the AMD driver calls, with every error of amdsmi that matters: an answer, never a crash."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import asked
import pytest

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import deadlines, pci
from pytest_accel.drivers.vendors.amd.driver import AmdDriver
from pytest_accel.simulate.libraries import never
from pytest_accel.simulate.libraries.amdsmi import SmiLibrary, install, mi300x

if not find_spec("amdsmi"):
    pytest.skip("amdsmi is not installed", allow_module_level=True)

ERRORS = {
    "INVAL": 1,
    "NOT_SUPPORTED": 2,
    "DRM_ERROR": 6,
    "API_FAILED": 7,
    "TIMEOUT": 8,
    "RETRY": 9,
    "NO_PERM": 10,
    "IO": 12,
    "BUSY": 30,
    "NOT_FOUND": 31,
    "NOT_INIT": 32,
    "NO_DATA": 40,
    "UNEXPECTED_DATA": 43,
    "UNKNOWN_ERROR": 0xFFFFFFFF,
}
"""AMDSMI_STATUS_* (amdsmi.h)."""
QUICK = "API_FAILED"
"""The error that the quick tests try. The nightly tests try the others."""
EVERY_ERROR = [pytest.param(error, marks=[pytest.mark.nightly] * (error != QUICK)) for error in ERRORS]
HEALTHY, SICK = 0, 1
IDENTITY = ("amdsmi_get_gpu_device_bdf", "amdsmi_get_gpu_device_uuid")
OF_ALL = ("amdsmi_init", "amdsmi_get_socket_handles", "amdsmi_get_processor_handles")
OF_NO_GPU = ("amdsmi_get_lib_version",)


class Faulty(SmiLibrary):
    """Two GPUs, of which the second fails in one way; every function of the library as a whole fails for both."""

    def __init__(self, function: str = "", code: int = 0) -> None:
        super().__init__([mi300x(place) for place in (HEALTHY, SICK)])
        self.function, self.code = function, code
        self.called: set[str] = set()

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:
        self.called.add(name)
        if name == self.function and (name in (*OF_ALL, *OF_NO_GPU) or self.is_sick(arguments)):
            return self.code
        return super().call(name, arguments)

    @staticmethod
    def is_sick(arguments: tuple[Any, ...]) -> bool:
        return bool(arguments[0].value == SICK + 1)


@pytest.fixture(autouse=True)
def _below_amdsmi(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    monkeypatch.setattr(pci, "DEVICES", tmp_path)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    yield
    install(None)


def everything(library: SmiLibrary) -> tuple[list[Device], list[str]]:
    install(library)
    return asked.everything(AmdDriver())


def functions() -> list[str]:
    """What the driver asks for; what it asks for tomorrow is among it."""
    library = Faulty()
    try:
        devices, problems = everything(library)
    finally:
        install(None)
    assert (len(devices), problems) == (2, [])
    return sorted(library.called)


FUNCTIONS = functions()


@cache
def healthy() -> Device:
    return everything(Faulty())[0][HEALTHY]


def kept(device: Device) -> dict[str, Any]:
    return dict(device.facts)


@pytest.mark.parametrize("error", EVERY_ERROR)
@pytest.mark.parametrize("function", [name for name in FUNCTIONS if name not in (*OF_ALL, *OF_NO_GPU)])
def test_a_function_that_fails_on_one_gpu(function: str, error: str) -> None:
    expected = healthy()
    devices, problems = everything(Faulty(function, ERRORS[error]))
    by_index = {device.index: device for device in devices}
    assert (by_index[HEALTHY], kept(by_index[HEALTHY])) == (expected, kept(expected))
    if function in IDENTITY:
        assert list(by_index) == [HEALTHY]
        assert problems[0].startswith(f"GPU {SICK} does not answer: AMDSMI_STATUS_{error}")
    else:
        assert list(by_index) == [HEALTHY, SICK], problems


@pytest.mark.parametrize("function", OF_NO_GPU)
def test_a_version_that_cannot_be_read_is_named_on_every_gpu(function: str) -> None:
    assert healthy().facts["library_version"] == "26.0.2"
    devices, problems = everything(Faulty(function, ERRORS["API_FAILED"]))
    assert not problems
    assert all("API_FAILED" in device.facts["unread"]["library_version"] for device in devices)


@pytest.mark.parametrize("error", EVERY_ERROR)
@pytest.mark.parametrize("function", OF_ALL)
def test_a_function_of_the_library_that_fails(function: str, error: str) -> None:
    _, problems = everything(Faulty(function, ERRORS[error]))
    assert problems[0].startswith(f"amdsmi cannot be used: AMDSMI_STATUS_{error}")


@pytest.mark.parametrize("error", sorted(set(ERRORS) - {"NOT_SUPPORTED", "NO_PERM"}))
def test_a_gpu_that_fails_in_everything_is_lost(error: str) -> None:
    class Lost(Faulty):
        def call(self, name: str, arguments: tuple[Any, ...]) -> int:
            if name not in (*OF_ALL, *OF_NO_GPU, *IDENTITY) and self.is_sick(arguments):
                return ERRORS[error]
            return super().call(name, arguments)

    devices, problems = everything(Lost())
    assert [device.index for device in devices] == [HEALTHY]
    assert problems[0].startswith(f"GPU 1 does not answer: it answers nothing: AMDSMI_STATUS_{error}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(name, marks=() if place == 0 else pytest.mark.nightly)
        for place, name in enumerate([*IDENTITY, "amdsmi_get_gpu_asic_info", "amdsmi_get_gpu_metrics_info"])
    ],
)
def test_a_gpu_that_never_answers_costs_only_itself(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    monkeypatch.setattr(deadlines, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: threading.Event().wait(60))

    class Silent(Faulty):
        def call(self, name: str, arguments: tuple[Any, ...]) -> int:
            if name == function and self.is_sick(arguments):
                never()
            return super().call(name, arguments)

    install(Silent())
    driver = AmdDriver()
    assert [device.index for device in driver.discover()] == [HEALTHY]
    assert driver.problems == ["GPU 1 does not answer: its management library has not answered for 2 s"]


@pytest.mark.parametrize("garbage", [b"\xff\xfe", b""])
@pytest.mark.parametrize("function", ["amdsmi_get_gpu_compute_partition", "amdsmi_get_gpu_memory_partition"])
def test_a_text_that_is_none(function: str, garbage: bytes) -> None:
    library = Faulty()
    library.gpus[SICK].answers[function] = garbage
    devices, problems = everything(library)
    assert (len(devices), problems) == (2, [])
    assert function.removeprefix("amdsmi_get_gpu_") not in devices[SICK].facts
