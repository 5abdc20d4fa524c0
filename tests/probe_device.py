"""What probes are given here: a gate that is always open, a torch with names replaced, a GPU that nobody has."""

from __future__ import annotations

from typing import Any

from pytest_accel.core.measurement import Device
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

    def block(self, seconds: float, warm: bool) -> None:
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
