"""A device as a rank of a process group of torch.distributed. Used in the worker process only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from pytest_accel.core.details import CollectiveAccount
from pytest_accel.probes.device import collectives
from pytest_accel.probes.device.torch_backend import Backend


class Rank:
    """The part of `Compute` that concerns the other ranks of a collective. By itself it is the only rank."""

    torch: Any
    backend: Backend
    is_cpu: bool
    rank, world = 0, 1
    _rendezvous: str | None = None
    _no_account = ""
    """The reason why the library of collectives gives no account of its own."""

    def join(self, rendezvous: str, rank: int, world: int) -> None:
        """Become a rank of the process group that meets in the file `rendezvous`.

        The group uses gloo on CPUs, and the vendor's library elsewhere. The hosts also communicate by gloo, over the
        loopback interface: all ranks are on this node, and its name may resolve to any of many interfaces, or to none.
        """
        import torch.distributed as dist

        if rendezvous == self._rendezvous:
            return
        with contextlib.suppress(Exception):
            dist.destroy_process_group()  # the remains of a group that failed to start
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        backend = "gloo" if self.is_cpu else self.backend.collectives()
        if self._library == collectives.WITH_ACCOUNT:
            self._no_account = collectives.ask_for_account(
                os.environ, f"{rendezvous}.rank{rank}", collectives.conf_files(os.environ)
            )
        dist.init_process_group(backend, init_method=f"file://{rendezvous}", rank=rank, world_size=world)
        self.rank, self.world, self._rendezvous = rank, world, rendezvous

    @property
    def collectives(self) -> dict[str, Any]:
        """Conditions that name the library of the collectives, and the variables and files that configure it."""
        settings, files = collectives.own_settings(os.environ), {}
        if self._library == collectives.WITH_ACCOUNT:
            files = collectives.conf_files(os.environ)
        found = {"backend": self._library, "environment": settings, "conf_files": files}
        return {name: each for name, each in found.items() if each}

    @property
    def _library(self) -> str:
        """The backend of torch.distributed that the devices' collectives use."""
        return "gloo" if self.is_cpu else self.backend.kind.collectives

    def account(self, function: str, size: int) -> tuple[dict[str, Any], CollectiveAccount]:
        """Return conditions and details of the collectives of `size` bytes, by the library's own account.

        `function` is its name in lower case. The ranks have to be in step, so that each has written what it says.
        """
        if self._library != collectives.WITH_ACCOUNT or self._rendezvous is None:
            return {}, CollectiveAccount()
        if self._no_account:
            return {}, CollectiveAccount(absent=self._no_account)
        place = Path(self._rendezvous)
        return collectives.account_of(place.parent.glob(f"{place.name}.rank*")).of_call(function, size)

    def agree(self, value: float) -> float:
        """Return the largest `value` over all ranks, exchanged by the hosts so that no device queue is disturbed."""
        import torch.distributed as dist

        shared = self.torch.tensor([value], dtype=self.torch.float64)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return float(shared.item())
