"""What probes are given here: a gate that is always open, a torch with names replaced, a GPU that nobody has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_accel.core.measurement import Device
from pytest_accel.probes.device import torch_device
from pytest_accel.probes.device.torch_device import Compute


class AtOnce:
    """A gate for one device: always open."""

    def __init__(self) -> None:
        self.compute: Compute | None = None
        self.blocks: list[bool] = []
        self.tuned: list[bool] = []
        self.steps: list[tuple[str, tuple[str, ...]]] = []

    def working(self) -> None:
        pass

    def ready(self) -> None:
        pass

    def report_block(self, seconds: float, warm: bool) -> None:
        assert seconds > 0
        self.blocks.append(warm)

    def step(self, what: str, subjects: tuple[str, ...]) -> None:
        self.steps.append((what, subjects))

    def tuning(self, begins: bool) -> None:
        self.tuned.append(begins)

    def settled(self) -> None:
        pass

    def released(self) -> bool:
        return True

    def agree(self, value: float) -> float:
        return self.compute.agree(value) if self.compute else value


class Instead:
    """A module with some of its names replaced."""

    def __init__(self, module: Any, **names: Any) -> None:
        self._module, self._names = module, names

    def __getattr__(self, name: str) -> Any:
        return self._names[name] if name in self._names else getattr(self._module, name)


def gpu(**facts: Any) -> Device:
    return Device("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 0, "nvidia", "NVIDIA H200", facts=facts)


def cpu(count: int = 1) -> list[Device]:
    return [Device(f"CPU-test-{index}", index, "cpu", "a processor", called="cpu") for index in range(count)]


def compute(count: int = 1) -> Compute:
    """A probe's device: this processor, with little time for each metric."""
    device = Compute(cpu(count), AtOnce())
    device.seconds = 0.15
    return device


def with_cuda(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int] = (9, 0), **properties: Any) -> None:
    """Make torch say of itself that it is one for CUDA and has one GPU. Nothing can be allocated on it."""
    import torch

    shown = SimpleNamespace(uuid=gpu().uuid.removeprefix("GPU-"), **{"multi_processor_count": 132, **properties})
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.version, "hip", None)
    for name, value in {
        "init": lambda: None,
        "device_count": lambda: 1,
        "set_device": lambda place: None,
        "get_device_properties": lambda place: shown,
        "get_device_capability": lambda place: capability,
        "empty_cache": lambda: None,
        "synchronize": lambda: None,
        "mem_get_info": lambda place: (80 * 10**9, 81 * 10**9),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)


def on_cpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], architecture: str = "") -> Compute:
    """Return a GPU that computes on the CPU; its torch is one for CUDA."""
    import torch

    with_cuda(monkeypatch, capability, L2_cache_size=0, gcnArchName=architecture)
    monkeypatch.setattr(torch_device, "INFINITY_CACHE", {})  # one set of operands
    device = Compute([gpu()], AtOnce())
    device.torch_device = torch.device("cpu")
    return device
