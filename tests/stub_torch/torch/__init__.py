"""Stands in torch's place in tests of processes, which would otherwise wait for two imports of torch in every run.

It has what a worker asks of torch when it opens a CPU, and tensors that have a shape and no numbers. It has nothing
else: any other name is an AttributeError, `torch.distributed` an ImportError. A test that needs more uses torch.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

from torch import version as version
from torch.version import __version__ as __version__

backends = SimpleNamespace(cpu=SimpleNamespace(get_cpu_capability=lambda: "STUB"))


class device(NamedTuple):  # noqa: N801  torch's name
    """The device of that type."""

    type: str


class Tensor(NamedTuple):
    """A matrix without numbers."""

    rows: int
    columns: int

    def __matmul__(self, other: Tensor) -> Tensor:
        """The product as far as it is known here: its shape."""
        if self.columns != other.rows:
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({self} and {other})")
        return Tensor(self.rows, other.columns)


def randn(rows: int, columns: int) -> Tensor:
    """A matrix of that shape."""
    return Tensor(rows, columns)


def set_num_threads(number: int) -> None:
    """Nothing here works in threads."""
