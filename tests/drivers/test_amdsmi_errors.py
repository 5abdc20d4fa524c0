"""Every function that the AMD driver calls, with every error of amdsmi that matters: an answer, never a crash."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import every_query
import pytest
from support.rows import each_row

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
OF_NO_GPU = "amdsmi_get_lib_version"


class Faulty(SmiLibrary):
    """Two GPUs, of which the second fails in one way; every function of the library as a whole fails for both.

    One without a code never answers.
    """

    def __init__(self, function: str = "", code: int | None = 0) -> None:
        super().__init__([mi300x(place) for place in (HEALTHY, SICK)])
        self.function, self.code = function, code
        self.called: set[str] = set()

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:
        self.called.add(name)
        if self.is_faulty(name) and (name in (*OF_ALL, OF_NO_GPU) or self.is_sick(arguments)):
            return never() if self.code is None else self.code
        return super().call(name, arguments)

    def is_faulty(self, name: str) -> bool:
        return name == self.function

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
    return every_query.everything(AmdDriver())


def functions() -> list[str]:
    """What the driver asks for; what it asks for tomorrow is among it."""
    library = Faulty()
    try:
        devices, problems = everything(library)
    finally:
        install(None)
    assert (len(devices), problems) == (2, [])
    return sorted(library.called)


OF_ONE_GPU = [name for name in functions() if name not in (*OF_ALL, OF_NO_GPU)]


@cache
def healthy() -> Device:
    return everything(Faulty())[0][HEALTHY]


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_a_function_that_fails_on_one_gpu(error: str) -> None:
    """The healthy GPU keeps all its facts; the sick one is there too, or is named if nothing identifies it."""
    expected = healthy()
    found = {name: everything(Faulty(name, ERRORS[error])) for name in OF_ONE_GPU}
    indices = {name: [device.index for device in devices] for name, (devices, _) in found.items()}
    assert indices == {name: [HEALTHY] if name in IDENTITY else [HEALTHY, SICK] for name in OF_ONE_GPU}
    kept = {name: (devices[0], devices[0].facts) for name, (devices, _) in found.items()}
    assert [name for name, each in kept.items() if each != (expected, expected.facts)] == []
    named = f"GPU {SICK} does not answer: AMDSMI_STATUS_{error}"
    assert [name for name in IDENTITY if not found[name][1][0].startswith(named)] == []


def test_a_version_that_cannot_be_read_is_named_on_every_gpu() -> None:
    assert healthy().facts["library_version"] == "26.0.2"
    devices, problems = everything(Faulty(OF_NO_GPU, ERRORS["API_FAILED"]))
    assert not problems
    assert all("API_FAILED" in device.facts["unread"]["library_version"] for device in devices)


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_a_function_of_the_library_that_fails(error: str) -> None:
    said = {name: everything(Faulty(name, ERRORS[error]))[1][0] for name in OF_ALL}
    words = f"no AMD driver answers: AMDSMI_STATUS_{error}"
    assert [name for name, problem in said.items() if not problem.startswith(words)] == []


class Lost(Faulty):
    """The second GPU fails in everything but its identity."""

    def is_faulty(self, name: str) -> bool:
        return name not in (*OF_ALL, OF_NO_GPU, *IDENTITY)


def test_a_gpu_that_fails_in_everything_is_lost() -> None:
    for error in sorted(set(ERRORS) - {"NOT_SUPPORTED", "NO_PERM"}):
        devices, problems = everything(Lost(code=ERRORS[error]))
        assert [device.index for device in devices] == [HEALTHY], error
        assert problems[0].startswith(f"GPU 1 does not answer: it answers nothing: AMDSMI_STATUS_{error}")


@pytest.mark.nightly
@pytest.mark.parametrize("function", [*IDENTITY, "amdsmi_get_gpu_asic_info", "amdsmi_get_gpu_metrics_info"])
def test_a_gpu_that_never_answers_costs_only_itself(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    monkeypatch.setattr(deadlines, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: threading.Event().wait(60))
    install(Faulty(function, code=None))
    driver = AmdDriver()
    assert [device.index for device in driver.discover()] == [HEALTHY]
    assert driver.problems == ["GPU 1 does not answer: its management library has not answered for 1 s"]


@each_row("garbage", [b"\xff\xfe", b""])
@each_row("function", ["amdsmi_get_gpu_compute_partition", "amdsmi_get_gpu_memory_partition"])
def test_a_text_that_is_none(function: str, garbage: bytes) -> None:
    library = Faulty()
    library.gpus[SICK].answers[function] = garbage
    devices, problems = everything(library)
    assert (len(devices), problems) == (2, [])
    assert function.removeprefix("amdsmi_get_gpu_") not in devices[SICK].facts
