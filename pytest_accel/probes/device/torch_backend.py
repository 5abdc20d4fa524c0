"""The module of torch that drives a device: torch.cuda, or its counterpart for another vendor. Worker process only."""

from __future__ import annotations

import importlib
from typing import Any

from pytest_accel.drivers.vendor import TorchKind
from pytest_accel.probes.device.error_class import Unmeasurable, main_line


class Backend:
    """torch.cuda, torch.xpu, torch.npu or torch.hpu.

    An attribute that the module lacks raises Unmeasurable with the name of the attribute. `cuda` is True for
    torch.cuda, in torch's builds for CUDA and for ROCm.
    """

    def __init__(self, torch: Any, kind: TorchKind) -> None:
        self.kind = kind
        self.cuda = self.kind.name == "cuda"
        self.name = f"torch.{self.kind.name}"
        self._version = str(torch.__version__)
        self._import(self.kind.package)
        try:
            self._module = torch.get_device_module(self.kind.name)
        except RuntimeError as error:
            raise Unmeasurable(f"torch {self._version} has no {self.name}: {main_line(error)}") from None

    def _import(self, package: str) -> None:
        """Import a package that registers the device with torch. Raises Unmeasurable."""
        try:
            importlib.import_module(package or "torch")
        except (ImportError, OSError, RuntimeError) as error:  # its libraries may be missing or of another version
            text = f"torch drives these devices through {package}, which cannot be imported: {main_line(error)}"
            raise Unmeasurable(text) from None

    def __getattr__(self, name: str) -> Any:
        attribute = None if name.startswith("_") else self.offers(name)
        if attribute is None:
            raise Unmeasurable(f"{self.name} (torch {self._version}) has no {name}")
        return attribute

    def offers(self, name: str) -> Any:
        """Return the attribute of the module with this name, or None if it has none."""
        return getattr(self._module, name, None)

    def start(self, model: str) -> None:
        """Start a library other than CUDA.

        Raises Unmeasurable with the library's message, since no message of it proves a fault of the device.
        """
        try:
            count = self.device_count()
            if init := self.offers("init"):
                init()
        except (RuntimeError, AssertionError, OSError) as error:
            raise Unmeasurable(f"torch {self._version} cannot use {model}: {main_line(error)}") from None
        if not count:
            raise Unmeasurable(f"torch {self._version} cannot use {model}: {self.name} sees no device")

    def properties(self, device: Any) -> Any:
        """Return the properties that torch reports for a device, or None if its module has no such function."""
        tell = self.offers("get_device_properties")
        return tell(device) if tell else None

    def release(self) -> None:
        """Free the cached memory of the allocator, if it has a cache."""
        if empty_cache := self.offers("empty_cache"):
            empty_cache()

    def peer_access(self, device: Any, peer: Any) -> bool | None:
        """Return True if one device can access the memory of the other, None if torch does not report it."""
        ask = self.offers("can_device_access_peer")
        return bool(ask(device.index, peer.index)) if ask else None

    def event(self) -> Any:
        """Return an event that can be timed. Raises Unmeasurable if there is none."""
        if self.cuda:
            return self.Event(enable_timing=True, blocking=True)  # the host sleeps, it does not spin
        try:
            event = self.Event(enable_timing=True)
        except (TypeError, RuntimeError, NotImplementedError) as error:
            raise Unmeasurable(f"{self.name} has no events that can be timed: {main_line(error)}") from None
        if not hasattr(event, "elapsed_time"):
            raise Unmeasurable(f"{self.name} has no events that can be timed: its events have no elapsed_time")
        return event

    def new_stream(self, device: Any) -> Any:
        """Return a new stream on a device, which starts when its current one has made the data."""
        stream = self.Stream(device=device)
        stream.wait_stream(self.current_stream(device))
        return stream

    def collectives(self) -> str:
        """Return the backends of a process group: gloo for the hosts, and the devices' own library."""
        self._import(self.kind.collectives_package)
        return f"cpu:gloo,{self.kind.name}:{self.kind.collectives}"
