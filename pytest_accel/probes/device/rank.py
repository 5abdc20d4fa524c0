"""A device as a rank of a process group of torch.distributed. Used in the worker process only."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_accel.core.details import CollectiveAccount
from pytest_accel.probes.device import collective_library
from pytest_accel.probes.device.torch_backend import Backend

HERE = "lo"
"""The interface by which ranks of one node communicate."""

_STORE = re.compile(r"tcp://\[?(?P<host>[^/]+?)\]?:(?P<port>\d+)/(?P<prefix>.*)")


class Rank:
    """The part of `Compute` that concerns the other ranks of a collective. By itself it is the only rank."""

    torch: Any
    backend: Backend
    is_cpu: bool
    rank, world = 0, 1
    _rendezvous: str | None = None
    _account = ""
    """The file that the library of collectives writes its account into. It opens the first one of a process."""
    _before = 0
    """Bytes that it had written when the process joined its present group."""
    _no_account = ""
    """The reason why the library of collectives gives no account of its own."""

    def join(self, rendezvous: str, rank: int, world: int, account: str = "", interface: str = HERE) -> None:
        """Become a rank of the process group that meets at `rendezvous`: a file, or "tcp://HOST:PORT/PREFIX".

        The latter is a store of torch.distributed that runs already, on this node or on another one. The group uses
        gloo on CPUs, and the vendor's library elsewhere, which writes its account into the file `account`, by default
        beside the rendezvous. The hosts also communicate by gloo, over `interface`: of a node's own ranks by the
        loopback. Raises RuntimeError if the store cannot be reached or the other ranks do not come.
        """
        import torch.distributed as dist

        if rendezvous == self._rendezvous:
            return
        with contextlib.suppress(Exception):
            dist.destroy_process_group()  # of the round before, or the remains of one that failed to start
        # by default gloo takes the interface of the host's name, which may resolve to any of many, or to none
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        backend = "gloo" if self.is_cpu else self.backend.collectives()
        if self._library == collective_library.WITH_ACCOUNT and not self._account:
            self._account = account or f"{rendezvous}.rank{rank}"
            self._no_account = collective_library.ask_for_account(
                os.environ, self._account, collective_library.conf_files(os.environ)
            )
        self._before = collective_library.size_of(self._account)
        options: dict[str, Any] = {"init_method": f"file://{rendezvous}"}
        if match := _STORE.fullmatch(rendezvous):
            stores = self.torch.distributed
            store = stores.TCPStore(match["host"], int(match["port"]), is_master=False)
            options = {"store": stores.PrefixStore(match["prefix"], store)}
        dist.init_process_group(backend, rank=rank, world_size=world, **options)
        self.rank, self.world, self._rendezvous = rank, world, rendezvous

    @property
    def collectives(self) -> dict[str, Any]:
        """Conditions that name the library of the collectives, and the variables and files that configure it."""
        settings, files = collective_library.own_settings(os.environ), {}
        if self._library == collective_library.WITH_ACCOUNT:
            files = collective_library.conf_files(os.environ)
        conditions = {"backend": self._library, "environment": settings, "conf_files": files}
        return {name: value for name, value in conditions.items() if value}

    @property
    def _library(self) -> str:
        """The backend of torch.distributed that the devices' collectives use."""
        return "gloo" if self.is_cpu else self.backend.kind.collectives

    def account(self, function: str, size: int) -> tuple[dict[str, Any], CollectiveAccount]:
        """Return conditions and details of the collectives of `size` bytes, by the library's own account.

        `function` is its name in lower case. The ranks have to be in step, so that each has written what it says.
        """
        if self._library != collective_library.WITH_ACCOUNT or self._rendezvous is None:
            return {}, CollectiveAccount()
        if self._no_account:
            return {}, CollectiveAccount(absent=self._no_account)
        path = Path(self._account)
        files = path.parent.glob(f"{path.name.rpartition('.rank')[0]}.rank*")
        return collective_library.account_of(files).of_call(function, size)

    def connections(self) -> Mapping[str, int]:
        """Return the number of this rank's connections in its present group by kind, by the library's own account.

        Empty where the library gives none.
        """
        if self._library != collective_library.WITH_ACCOUNT or self._no_account or not self._account:
            return {}
        return collective_library.account_of([Path(self._account)], self._before).connections

    def agree(self, value: float) -> float:
        """Return the largest `value` over all ranks."""
        import torch.distributed as dist

        # on the host, so that no device queue is disturbed
        tensor = self.torch.tensor([value], dtype=self.torch.float64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return float(tensor.item())
