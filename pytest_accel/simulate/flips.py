"""Bits flipped below a probe, in what torch really computed or copied: the probe's own check has to see it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

PRODUCTS = ("mm", "_int_mm", "_scaled_mm", "addmm")
STORES = ("fill_", "mul_")
"""What writes the patterns of the memory test."""
SMALLEST = 32
"""Elements of a payload at least; what is smaller steers the measurement (how long a block took)."""
STRIDE = 7919
"""Elements between one flip and the next: never the same twice in a row, or the second would undo the first."""


@contextlib.contextmanager
def flipping(torch: Any, verifies: str, ever: Collection[str], where: Callable[[], str]) -> Iterator[None]:
    """Flip bits below a probe that compares what it `verifies` with known values.

    `where` says in what at that moment (Symptoms.flips); `ever` is all that it may say.
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
            found = function(*args, **(kwargs or {}))
            name, said = function.__name__.partition(".")[0], where()
            if said == "always" and name in PRODUCTS:
                flip(found, 1)
            matmul = said == "matmul" and name in PRODUCTS
            copy = said == "copy" and name == "copy_" and verifies == "copies"
            memory = said == "memory" and name in STORES and verifies == "stores"
            if matmul or copy or memory:
                flip(found, next(places))
            return found

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
