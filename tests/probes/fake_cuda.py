"""A node of GPUs that compute nothing: torch itself judges every call of a probe, on fake tensors of the full size.

FakeTensorMode runs torch's own checks of shapes, dtypes, layouts and devices, and allocates nothing. What our Backend
asks of torch.cuda stands beside it: memory that fills up, and streams and events whose time the work fills, with
copies between devices in the order that PyTorch gives them (aten/src/ATen/native/cuda/Copy.cu,
copy_device_to_device). What is read back is what a device without a fault would say.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.probe_device import AtOnce, Instead
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_accel.core.measurement import Device
from pytest_accel.probes.device.torch_device import Compute

OPERATION = 1e-2
"""Seconds of any kernel: what they are is no matter here."""
LINK, HOST_LINK = 450e9, 60e9
"""Bytes per second of a copy to another device and to the host, however many there are."""
HOP = 5e-6
"""Seconds until one device has heard that another has done something."""
H200 = {"total": 141 * 2**30, "capability": (9, 0), "L2_cache_size": 60 << 20, "multi_processor_count": 132}


class Queue:
    """A queue of one device, and when it is empty."""

    def __init__(self, node: Node, device: Any = None) -> None:
        self.node, self.place, self.at = node, node.place(device), 0.0

    def wait_stream(self, other: Queue) -> None:
        self.at = max(self.at, other.at + (HOP if other.place != self.place else 0.0))


class Mark:
    def __init__(self, node: Node, enable_timing: bool = False, blocking: bool = False) -> None:
        assert enable_timing
        self._node = node

    def record(self) -> None:
        self._stream = self._node.current_stream()
        self._at = self._stream.at

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Mark) -> float:
        assert self._stream.place == end._stream.place
        return (end._at - self._at) * 1000


class Node:
    """What of torch.cuda is asked for; `peak` bytes were in use at once on each device."""

    def __init__(self, count: int, total: int, capability: tuple[int, int], **properties: Any) -> None:
        self.device, self.total, self._capability = 0, total, capability
        self.live, self.peak = [0] * count, [0] * count
        self._known: set[int] = set()
        self._properties = properties
        self._streams = [Queue(self, place) for place in range(count)]

    def place(self, device: Any) -> int:
        found = device if isinstance(device, int) else getattr(device, "index", None)
        return self.device if found is None else found

    # -- as torch.cuda has them

    def init(self) -> None: ...
    def synchronize(self) -> None: ...
    def empty_cache(self) -> None: ...

    def device_count(self) -> int:
        return len(self.live)

    def set_device(self, device: Any) -> None:
        self.device = self.place(device)

    def get_device_properties(self, device: Any) -> Any:
        return SimpleNamespace(uuid=_uuid(self.place(device)).removeprefix("GPU-"), **self._properties)

    def get_device_capability(self, device: Any) -> tuple[int, int]:
        return self._capability

    def mem_get_info(self, device: Any) -> tuple[int, int]:
        return self.total - self.live[self.place(device)], self.total

    def can_device_access_peer(self, here: int, there: int) -> bool:
        return here != there

    def current_stream(self, device: Any = None) -> Queue:
        return self._streams[self.place(device)]

    def Stream(self, device: Any = None) -> Queue:  # noqa: N802  torch's name
        return Queue(self, device)

    def Event(self, **how: bool) -> Mark:  # noqa: N802
        return Mark(self, **how)

    @contextlib.contextmanager
    def stream(self, stream: Queue) -> Iterator[None]:
        """The stream becomes the current one of its device, and that the current device."""
        before, device = self._streams[stream.place], self.device
        self._streams[stream.place], self.device = stream, stream.place
        yield
        self._streams[stream.place], self.device = before, device

    # -- what the work does to it

    def holds(self, tensor: torch.Tensor) -> None:
        """Count the memory of a tensor, until its storage is gone."""
        storage = tensor.untyped_storage()
        if tensor.device.type != "cuda" or storage._cdata in self._known:
            return
        place, size = self.place(tensor.device), storage.nbytes()
        self._known.add(storage._cdata)
        weakref.finalize(storage, self._freed, storage._cdata, place, size)
        self.live[place] += size
        self.peak[place] = max(self.peak[place], self.live[place])
        if self.live[place] > self.total:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.")

    def _freed(self, key: int, place: int, size: int) -> None:
        self._known.discard(key)
        self.live[place] -= size

    def copies(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """The copy runs on the source's current stream; it waits for the target's, as that waits for it."""
        size = source.numel() * source.element_size()
        on = [self.current_stream(each.device) for each in (source, target) if each.device.type == "cuda"]
        if len(on) == 2 and on[0] is not on[1]:
            sends, receives = on
            sends.wait_stream(receives)
            sends.at += size / LINK
            receives.wait_stream(sends)
        elif on:
            on[0].at += OPERATION if len(on) == 2 else size / HOST_LINK

    def computes(self, tensor: torch.Tensor) -> None:
        if tensor.device.type == "cuda":
            self.current_stream(tensor.device).at += OPERATION


class Work(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operation of torch, above the fake tensors: its time, its memory, and what is read of its result."""

    def __init__(self, node: Node) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._node = node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        if func is aten.equal.default:
            one, other = args
            assert (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)
            return True
        if func is aten._local_scalar_dense.default:
            return args[0].dtype.is_floating_point * 0.0 if args[0].dtype != torch.bool else True
        if func is aten.nonzero.default:
            return args[0].new_empty((0, args[0].dim()), dtype=torch.int64)
        result = func(*args, **(kwargs or {}))
        made = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
        for each in made:
            self._node.holds(each)
        if func is aten.copy_.default:
            self._node.copies(*args[:2])
        elif made:
            self._node.computes(made[0])
        return result


class Unguarded(TorchFunctionMode):
    """By its operators what torch's methods do under the guard of a device, which a build for CPUs lacks."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten, how = torch.ops.aten, kwargs or {}
        if func is torch.Tensor.copy_:
            return aten.copy_(*args, **how)
        if func is torch._scaled_mm and "out" in how:  # which has no fake
            result, out = func(*args, **{key: value for key, value in how.items() if key != "out"}), how["out"]
            assert (out.shape, out.dtype) == (result.shape, result.dtype)
            return out
        if func is torch.Tensor.__getitem__:
            return _cut(*args)
        if func is torch.Tensor.__setitem__:
            return aten.copy_(_cut(*args[:2]), args[2])
        if func is torch.Tensor.contiguous:
            return aten.contiguous(*args, **how)
        if func is torch.Tensor.__int__:
            return int(args[0].item())
        if func is torch.Tensor.tolist:
            return [_cut(args[0], place).tolist() for place in range(len(args[0]))]
        if func is torch.arange and "out" in how:
            return aten.arange.start_out(*args, **how)
        return func(*args, **how)


def _cut(tensor: torch.Tensor, index: Any) -> Any:
    aten, dim = torch.ops.aten, 0
    for each in index if isinstance(index, tuple) else (index,):
        if isinstance(each, slice):
            tensor = aten.slice(tensor, dim, each.start, each.stop, each.step or 1)
            dim += 1
        elif isinstance(each, torch.Tensor):
            tensor = aten.index(tensor, [*[None] * dim, each])
            dim += 1
        else:
            tensor = aten.select(tensor, dim, each)
    return tensor


def _uuid(place: int) -> str:
    return f"GPU-8932f937-d72c-4106-c12f-20bd9faed9f{place:x}"


def _unpinned(*size: Any, pin_memory: bool = False, **how: Any) -> torch.Tensor:
    """Memory of the host is pinned for an accelerator, which is not there."""
    return torch.empty(*size, **how)


@contextlib.contextmanager
def gpus(monkeypatch: pytest.MonkeyPatch, count: int = 1, **part: Any) -> Iterator[tuple[Compute, Node]]:
    """So many GPUs of a part, H200 unless something else is said, as a worker opens them."""
    node = Node(count, **{**H200, **part})
    stand_in = Instead(
        torch,
        get_device_module=lambda name: node,
        version=SimpleNamespace(cuda="13.0", hip=None),
        cuda=node,
        empty=_unpinned,
    )
    devices = [Device(_uuid(place), place, "nvidia", "NVIDIA H200") for place in range(count)]
    with monkeypatch.context() as opening:
        opening.setitem(sys.modules, "torch", stand_in)
        found = Compute(devices, AtOnce())
    found.seconds = 0.05
    with FakeTensorMode(), Work(node), Unguarded():
        yield found, node
