"""Bits flipped in what torch computed or copied below a probe, which the probe's own check has to detect."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

PRODUCTS = ("mm", "_int_mm", "_scaled_mm", "addmm")
STORES = ("fill_", "mul_")
"""Operations that write the patterns of the memory test."""
SMALLEST = 32
"""Least number of elements of a payload. Smaller tensors control the measurement, such as the duration of a block."""
STRIDE = 7919
"""Elements between one flip and the next, so that a flip never undoes the previous one."""


@contextlib.contextmanager
def flipping(torch: Any, verifies: str, ever: Collection[str], where: Callable[[], str]) -> Iterator[None]:
    """Flip bits below a probe that compares data of the kind `verifies` with known values.

    `where` returns the kind of data to flip bits in at that moment (`Symptoms.flips`), and `ever` holds all kinds that
    it may return.
    """
    if not ever:
        yield
        return
    import torch.distributed as dist
    from torch.utils._python_dispatch import TorchDispatchMode

    places = itertools.count(1, STRIDE)

    def flip(tensor: Any, place: int) -> None:
        if tensor.numel() >= SMALLEST and tensor.is_contiguous():
            raw = tensor.detach().view(-1).view(torch.uint8)
            raw[(place % tensor.numel() + 1) * tensor.element_size() - 1] ^= 0x40

    class Flips(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            name, target = function.__name__.partition(".")[0], where()
            if target == "always" and name in PRODUCTS:
                flip(result, 1)
            matmul = target == "matmul" and name in PRODUCTS
            copy = target == "copy" and name == "copy_" and verifies == "copies"
            memory = target == "memory" and name in STORES and verifies == "stores"
            if matmul or copy or memory:
                flip(result, next(places))
            return result

    def reduced(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        done = all_reduce(tensor, *args, **kwargs)
        if where() == "collective":
            flip(tensor, next(places))
        return done

    all_reduce = dist.all_reduce
    dist.all_reduce = reduced
    try:
        with Flips():  # type: ignore[no-untyped-call]
            yield
    finally:
        dist.all_reduce = all_reduce
