"""Computes the kernels that the stand-in for CUDA's runtime lacks.

After torch's own host code for the device has run, the same operation is computed on the CPU, in the same memory. What
is larger than STANDIN_COMPUTED_BYTES is not computed: its contents are *unknown*, and so is what follows from them.
What a program reads of unknown contents is what a device without a fault would say: equal, nothing wrong, zero.

`Standing.flip("mm.out")` turns one bit in each result of torch's operation mm with `out=`; "copy_:h2d" (d2h, p2p, d2d)
in each copy of that way; "mul_*1" in the first result only; "mm@0" turns the lowest bit of the first element. It is the
second highest by default, which makes any number wrong by far. STANDIN_FLIP=all_reduce is done by the stand-in itself.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ONLY_ALLOCATE = {
    "empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "detach", "record_stream", "is_pinned",
    "pin_memory", "_pin_memory", "set_", "resize_", "_has_compatible_shallow_copy_type",
}  # fmt: skip
OVERWRITE = {"copy_", "fill_", "zero_", "normal_", "random_", "uniform_"}
"""Operations that read nothing of the tensor that they change."""
SIZED_BY_DATA = {"nonzero", "masked_select"}
READ = {"_local_scalar_dense", "is_nonzero", "equal", *SIZED_BY_DATA}
"""Operations by which the host learns of the contents of a tensor."""


class Standing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes on the CPU what the devices of the stand-in do not."""

    def __init__(self, most: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._most = most
        self._unknown: set[int] = set()
        self._names: dict[Any, str] = {}
        self.flip("")

    def flip(self, what: str) -> None:
        """Turn a bit in results from here on; see above."""
        what, _, bit = what.partition("@")
        what, _, times = what.partition("*")
        self._flipped, _, self._way = what.partition(":")
        self._bit, self._times = int(bit) if bit else None, float(times or "inf")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = self._names.get(func) or self._names.setdefault(func, func._schema.name.partition("::")[2])
        if name in READ and (answer := self._read_by_host(func, name, args)) is not None:
            return answer
        result = func(*args, **kwargs)  # first of all: somebody may be timing it
        made = _tensors(result)
        if func.namespace not in ("aten", "prims") or name in ONLY_ALLOCATE or _is_view(func):
            return result
        given = _tensors((args, kwargs))
        on_device = any(each.is_cuda for each in (*given, *made))
        unknown = any(self._is_unknown(each) for each in _read(name, args, kwargs))
        if unknown or (on_device and sum(map(_size, (*given, *made))) > self._most):
            self._forget(made or given[:1])
            return result
        if on_device:
            try:
                result = _compute(func, args, kwargs, result)
            except NotImplementedError:  # older builds multiply fp8 on GPUs only
                self._forget(made or given[:1])
                return result
            if made and self._is_turned(name, func, args):
                self._times -= 1
                _turn(made[0], self._bit)
        for each in made:
            if _size(each) == each.untyped_storage().nbytes():
                self._unknown.discard(each.untyped_storage()._cdata)
        return result

    def _read_by_host(self, func: Any, name: str, args: Any) -> Any:
        """Return what the host is told about the contents of tensors; None if torch itself can tell."""
        given = _tensors(args)
        if any(self._is_unknown(each) for each in given):
            return _healthy(name, given[0])
        if name in SIZED_BY_DATA and given[0].is_cuda:
            return _upload(func(*tree_map(_moved, args)), given[0].device)
        return None

    def _is_turned(self, name: str, func: Any, args: Any) -> bool:
        alike = self._flipped in (name, f"{name}.{func._overloadname}")
        return alike and self._times > 0 and (not self._way or self._way == _way(args))

    def _is_unknown(self, tensor: torch.Tensor) -> bool:
        return bool(self._unknown) and tensor.untyped_storage()._cdata in self._unknown

    def _forget(self, tensors: Sequence[torch.Tensor]) -> None:
        for each in tensors:
            storage = each.untyped_storage()
            if storage._cdata not in self._unknown:
                self._unknown.add(storage._cdata)
                weakref.finalize(storage, self._unknown.discard, storage._cdata)


def _turn(tensor: torch.Tensor, bit: int | None) -> None:
    """Turn a bit of the first element."""
    first = _alias(tensor) if tensor.is_cuda else tensor
    size = first.element_size()
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    element = first.view(kind)[(slice(0, 1),) * first.dim()]
    mask = torch.tensor(1 << (8 * size - 2 if bit is None else bit), dtype=torch.int64)
    element.bitwise_xor_(mask.to(kind))


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)]


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _read(name: str, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Return the tensors whose contents an operation reads."""
    named = {key: each for key, each in kwargs.items() if key != "out"}
    return _tensors((args[1:] if name in OVERWRITE else args, named))


def _is_view(func: Any) -> bool:
    return any(each.alias_info and not each.alias_info.is_write for each in func._schema.returns)


def _way(args: Any) -> str:
    """Return the way of a copy: from the host, to the host, to a peer, within a device."""
    target, source = args[:2]
    if target.is_cuda and source.is_cuda:
        return "d2d" if target.device == source.device else "p2p"
    return "h2d" if target.is_cuda else "d2h"


def _healthy(name: str, asked: torch.Tensor) -> Any:
    """Return what a device without a fault answers about contents that are not known, when it has come so far."""
    if asked.is_cuda:
        torch.cuda.current_stream(asked.device).synchronize()
    if name in SIZED_BY_DATA:
        return asked.new_empty((0, asked.dim()), dtype=torch.int64)
    if name != "_local_scalar_dense":
        return True
    return True if asked.dtype == torch.bool else 0.0 if asked.dtype.is_floating_point else 0


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the CPU in the memory of a tensor of a device, which is memory of the host."""
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return torch.empty(tensor.size(), dtype=tensor.dtype)
    here = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), torch.device("cpu"), storage.nbytes())
    return torch.empty(0, dtype=tensor.dtype).set_(here, tensor.storage_offset(), tensor.size(), tensor.stride())


def _moved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _alias(value) if value.is_cuda else value
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _upload(here: torch.Tensor, device: torch.device) -> torch.Tensor:
    there = torch.empty(here.shape, dtype=here.dtype, device=device)
    _alias(there).copy_(here)
    return there


def _compute(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    """Compute an operation on the CPU, write what it gives where torch has the device's result, and return that."""
    how = {key: each for key, each in kwargs.items() if key != "pin_memory"}
    right = func(*tree_map(_moved, args), **tree_map(_moved, how))
    if isinstance(right, (bool, int, float)):
        return right
    for made, computed in zip(tree_leaves(result), tree_leaves(right), strict=True):
        if not isinstance(made, torch.Tensor) or _place(made) == _place(computed):
            continue
        if (made.shape, made.dtype) != (computed.shape, computed.dtype):
            text = f"{func}: the device gives {made.shape} {made.dtype}, the CPU {computed.shape} {computed.dtype}"
            raise AssertionError(text)
        _moved(made).copy_(computed)
    return result


def install() -> Standing:
    """Compute from here on, in this thread and those that torch starts from it."""
    mode = Standing(float(os.environ.get("STANDIN_COMPUTED_BYTES", "1048576")))
    if torch.cuda.is_available():
        mode.__enter__()  # type: ignore[no-untyped-call]
    return mode
