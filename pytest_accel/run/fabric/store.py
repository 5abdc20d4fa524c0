"""The store of torch.distributed in which the agents of a fabric run leave messages for each other."""

from __future__ import annotations

import contextlib
import errno
import importlib
import ipaddress
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from pytest_accel.core.structured import Misfit, structure
from pytest_accel.core.untrusted import BadFile
from pytest_accel.probes.device.error_class import main_line
from pytest_accel.run.fabric.secret import Seal, Secret
from pytest_accel.run.options import Refused
from pytest_accel.run.rendezvous import Rendezvous

T = TypeVar("T")

PAUSE, NODES_ASKING = 0.1, 2000
"""Seconds between two questions whether a message is there, and by how many nodes these are prolonged by a second."""
AGAIN_SECONDS = 2.0
"""Seconds after which the newest messages are left again, in a run of few nodes."""
ABSENT = "-"
LONGEST = 1 << 20
"""Bytes of the longest message that is read."""
ANSWER_SECONDS = 60.0
"""Seconds after which a store that does not answer is lost. Torch itself waits for as long as TCP does."""


class StoreLost(Exception):
    """Raised if the store cannot be reached any more: rank 0 has ended, or the network between."""


class FabricStore:
    """The store: rank 0 runs it, unless the launcher does. A message is JSON of a dataclass, under a seal."""

    def __init__(self, there: Rendezvous, seconds: float, secret: Secret) -> None:
        """Run the store, or connect to it and to its run within `seconds`. Raises Refused if neither is possible."""
        self._there, self._pause = there, PAUSE + there.nodes / NODES_ASKING
        self._where, self.note = f"{there.host}:{there.port}", ""
        self._sent: dict[str, tuple[str, str]] = {}
        """Key and text of the newest message of each kind and rank."""
        self._closed = threading.Event()
        # Rank 0 makes the secret before anybody can connect, so that nobody takes an earlier one for it.
        self._seal = Seal(secret.create() if there.rank == 0 else "", there.job)
        until = time.monotonic() + seconds
        self._store = self._connected(seconds)
        try:
            self._begin() if there.rank == 0 else self._join(secret, until)
        except StoreLost as lost:
            raise Refused(f"--accel-fabric: the store at {self._where} is lost: {lost}") from None
        threading.Thread(target=self._repeat, daemon=True).start()

    def _connected(self, seconds: float) -> Any:
        """Return the store of torch. Raises Refused."""
        there, runs = self._there, self._there.rank == 0 and not self._there.hosted
        try:
            found = socket.getaddrinfo(there.host, there.port, type=socket.SOCK_STREAM)
        except OSError as error:
            why = f"the name of rank 0, {there.host}, does not resolve on this node: {error.strerror or error}"
            raise Refused(f"--accel-fabric: {why}; set MASTER_ADDR to an address that all nodes reach") from None
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # it logs what is raised, with stacks of C++
        torch = importlib.import_module("torch")  # here alone pytest itself loads it
        stores = importlib.import_module("torch.distributed")
        how: dict[str, Any] = {"is_master": runs, "wait_for_workers": False, "timeout": timedelta(seconds=seconds)}
        try:
            if runs and (handle := _bound(there.host, found)) is not None:
                how |= {"master_listen_fd": handle, "use_libuv": torch.__version__ >= (2, 8)}  # which took none before
            elif runs:
                self.note = f"{there.host} is no address of this node: the store of the fabric run listens on all"
            return stores.TCPStore(there.host, there.port, **how)
        except (RuntimeError, OSError) as error:
            what = "rank 0 cannot listen" if runs else f"rank 0 was not reached within {seconds:.0f} s"
            raise Refused(f"--accel-fabric: {what} at {self._where}: {main_line(error)}; see MASTER_PORT") from None

    def _begin(self) -> None:
        """Tell the others the id of a new run. Raises Refused where there is one already."""
        run = secrets.token_hex(16)
        self._claim("hello", run, "holds an earlier run of this job: start the launcher anew")
        self._seal = replace(self._seal, run=run)

    def _join(self, secret: Secret, until: float) -> None:
        """Wait for the id of the run, and take part in it as the only agent of this rank. Raises Refused."""
        job, rank = self._there.job, self._there.rank
        while not (run := self._read(str, "hello")):
            if time.monotonic() > until:
                raise Refused(
                    f"--accel-fabric: no rank 0 of this run answers at {self._where}: another job uses the port (see "
                    "MASTER_PORT), or the nodes do not have the same secret"
                )
            time.sleep(self._pause)
            self._seal = Seal(secret.read(), job)
        self._seal = replace(self._seal, run=run)
        self._claim(f"agent/{rank}", secrets.token_hex(16), f"has another agent of rank {rank}: start one a node")

    def _claim(self, name: str, message: str, why: str) -> None:
        """Leave a message that nobody else may have left. Raises Refused, or StoreLost."""
        if self._read(str, name) is None:
            self._ask(self._store.compare_set, self._seal.key(name), "", self._seal.sealed(name, message))
        if self._read(str, name) not in (None, message):
            raise Refused(f"--accel-fabric: the store at {self._where} {why}")
        self.put(name, message)

    def group(self, name: str) -> str:
        """Return where the ranks of a group meet in the store."""
        return f"tcp://{self._where}/{self._seal.key(name)}"

    def put(self, name: str, message: Any) -> None:
        """Leave a message. Raises StoreLost."""
        newest = self._seal.key(name), self._seal.sealed(name, message)
        self._sent["/".join(name.split("/")[:2])] = newest
        self._ask(self._store.set, *newest)

    def _repeat(self) -> None:
        """Leave the newest messages again: whoever reaches the store can change and remove them."""
        with contextlib.suppress(StoreLost):  # whoever waits sees it as well
            while not self._closed.wait(AGAIN_SECONDS * (1 + self._pause)):
                self._ask(self._store.multi_set, *map(list, zip(*self._sent.values(), strict=True)))

    def close(self) -> None:
        """Leave no message again."""
        self._closed.set()

    def take(
        self,
        kind: type[T],
        name: str,
        seconds: float,
        tick: Callable[[float], None] = lambda spent: None,
    ) -> T | None:
        """Return a message once it is there, None if it is not within `seconds`. What is not of this run is ignored.

        `tick` is called with the seconds spent. It asks again and again, since torch logs every wait that found
        nothing. Raises StoreLost.
        """
        began = time.monotonic()
        while (found := self._read(kind, name)) is None:
            spent = time.monotonic() - began
            if spent >= seconds:
                return None
            tick(spent)
            time.sleep(self._pause)
        return found

    def _read(self, kind: type[T], name: str) -> T | None:
        """Return a message of this run, None if there is none. Raises StoreLost."""
        # The one question of torch that never waits, also where somebody deletes the key: it exchanges nothing.
        raw = self._ask(self._store.compare_set, self._seal.key(name), ABSENT, ABSENT)
        try:
            content = self._seal.opened(name, raw) if len(raw) <= LONGEST else None
            return None if content is None else structure(kind, content)
        except (BadFile, Misfit):
            return None

    def _ask(self, call: Callable[..., Any], *words: Any) -> Any:
        """Return what a call of the store returns. Raises StoreLost if it fails, or does not return in time."""
        answers = queue.SimpleQueue[tuple[Any, str | None]]()

        def ask() -> None:
            try:
                answers.put((call(*words), None))
            except RuntimeError as error:
                answers.put((None, main_line(error)))

        threading.Thread(target=ask, daemon=True).start()  # one that a dead link holds ends with the process
        try:
            answer, trouble = answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise StoreLost(f"it did not answer for {ANSWER_SECONDS:.0f} s") from None
        if trouble is not None:
            raise StoreLost(trouble)
        return answer


def _bound(host: str, addresses: Sequence[Any]) -> int | None:
    """Return the handle of a socket at the address of a host alone; None if that is none of this node.

    A name may resolve to the loopback on its own node, as on Debian. Raises OSError for a port that is in use.
    """
    for family, *_, address in addresses:
        if ipaddress.ip_address(address[0]).is_loopback and host not in ("localhost", address[0]):
            continue
        try:
            return socket.create_server(address, family=family, backlog=socket.SOMAXCONN).detach()
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    return None
