"""What torch has for an accelerator that is neither CUDA nor ROCm (torch.xpu, torch.hpu), answered by the CPU."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any


class Event:
    """A mark in a queue whose work is done when its call returns."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1000


class Stream:
    def __init__(self, device: Any = None) -> None:
        pass

    def wait_stream(self, other: Stream) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def module(**names: Any) -> SimpleNamespace:
    """What torch.xpu has by its documentation (2.13), as far as we ask for it; None takes a name away."""
    has = {
        "Event": Event,
        "Stream": Stream,
        "stream": lambda stream: stream,
        "current_stream": Stream,
        "synchronize": lambda: None,
        "mem_get_info": lambda device: (8 * 10**9, 8 * 10**9),
        "empty_cache": lambda: None,
        "set_device": lambda place: None,
        "device_count": lambda: 2,
        "init": lambda: None,
        "can_device_access_peer": lambda here, there: True,
        "get_device_properties": lambda place: SimpleNamespace(device_id=0x0BD5, last_level_cache_size=0),
        **names,
    }
    return SimpleNamespace(**{name: value for name, value in has.items() if value is not None})
