"""The store of torch.distributed in which the agents of a fabric run leave messages for each other."""

from __future__ import annotations

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
from datetime import timedelta
from typing import Any, TypeVar

from pytest_accel.core.fabric import FabricNode, Report
from pytest_accel.core.structured import Misfit, structure
from pytest_accel.probes.device.error_class import main_line
from pytest_accel.run.fabric.secret import Seal, Secret
from pytest_accel.run.options import Refused
from pytest_accel.run.rendezvous import Rendezvous

T = TypeVar("T")

PAUSE, NODES_ASKING = 0.1, 2000
"""Seconds between two questions whether a message is there, and by how many nodes these are prolonged by a second."""
AGAIN_SECONDS = 2.0
"""Seconds after which the newest messages are left again, in a run of few nodes."""
LONGEST = 1 << 20
"""Bytes of the longest message that is read."""
MOST_DEVICES, MOST_GB_PER_S = 1024, 1e6
"""The most devices of a node, and the largest figure, that are believed."""
ANSWER_SECONDS = 60.0
"""Seconds after which a store that does not answer is lost. Torch itself waits for as long as TCP does."""


class StoreLost(Exception):
    """Raised if the store cannot be reached any more: rank 0 has ended, or the network between."""


class FabricStore:
    """The store: rank 0 runs it, unless the launcher does. A message is JSON of a dataclass, under a seal."""

    def __init__(self, there: Rendezvous, seconds: float, secret: Secret) -> None:
        """Run the store, or connect to it and to its run within `seconds`. Raises Refused if neither is possible."""
        try:
            found = socket.getaddrinfo(there.host, there.port, type=socket.SOCK_STREAM)
        except OSError as error:
            why = f"the name of rank 0, {there.host}, does not resolve on this node: {error.strerror or error}"
            raise Refused(f"--accel-fabric: {why}; set MASTER_ADDR to an address that all nodes reach") from None
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # it logs what is raised, with stacks of C++
        distributed = importlib.import_module("torch.distributed")  # here alone pytest itself loads torch
        self._there, self._pause = there, PAUSE + there.nodes / NODES_ASKING
        self._sender, self._sent = secrets.token_hex(8), dict[str, tuple[str, str]]()
        self._closed = threading.Event()
        until, runs, self.note = time.monotonic() + seconds, there.rank == 0 and not there.hosted, ""
        own = secret.create() if there.rank == 0 else ""  # before anybody can connect, so that nobody reads an old one
        try:
            handle, self.note = _bound(there.host, found) if runs else (None, "")
            self._store: Any = distributed.TCPStore(
                there.host,
                there.port,
                is_master=runs,
                wait_for_workers=False,
                timeout=timedelta(seconds=seconds),
                master_listen_fd=handle,
            )
        except (RuntimeError, OSError) as error:
            what = "rank 0 cannot listen" if runs else f"rank 0 was not reached within {seconds:.0f} s"
            raise Refused(f"--accel-fabric: {what} at {self._where}: {main_line(error)}; see MASTER_PORT") from None
        self._seal = self._begun(own) if there.rank == 0 else self._joined(secret, until, seconds)
        threading.Thread(target=self._repeat, daemon=True).start()

    @property
    def _where(self) -> str:
        return f"{self._there.host}:{self._there.port}"

    def _begun(self, secret: str) -> Seal:
        """Tell the others the id of a new run, and return its seal."""
        self._seal = Seal(secret, self._there.job)
        run = secrets.token_hex(16)
        self._claim("hello", {"run": run}, "holds an earlier run of this job: start the launcher anew")
        return Seal(secret, run)

    def _joined(self, secret: Secret, until: float, seconds: float) -> Seal:
        """Return the seal of the run of rank 0, as the only agent of this rank."""
        while True:
            self._seal = Seal(secret.read(), self._there.job)
            if self._seal.secret and (hello := self._read(dict, "hello")):
                break
            if time.monotonic() > until:
                raise Refused(
                    f"--accel-fabric: no rank 0 of this run was there within {seconds:.0f} s at {self._where}: another "
                    f"job may use that port (see MASTER_PORT), or {secret.where} is not that of rank 0"
                )
            time.sleep(self._pause)
        self._seal = Seal(self._seal.secret, hello["run"])
        self._claim(f"agent/{self._there.rank}", {}, f"has another agent of rank {self._there.rank}: start one a node")
        return self._seal

    def _claim(self, name: str, message: Any, why: str) -> None:
        """Leave a message that nobody else may have left. Raises Refused, or StoreLost."""
        key, text = self._seal.key(name), self._seal.sealed(name, self._sender, message)
        found = self._ask(self._store.compare_set, key, "", text)
        if found.decode(errors="replace") != text and self._seal.opened(name, found):
            raise Refused(f"--accel-fabric: the store at {self._where} {why}")
        self.put(name, message)

    def group(self, name: str) -> str:
        """Return where the ranks of a group meet in the store."""
        return f"tcp://{self._where}/{self._seal.key(name)}"

    def put(self, name: str, message: Any) -> None:
        """Leave a message. Raises StoreLost."""
        kind, _, rank = name.partition("/")
        newest = self._seal.key(name), self._seal.sealed(name, self._sender, message)
        self._sent[f"{kind}/{rank.partition('/')[0]}"] = newest
        self._ask(self._store.set, *newest)

    def _repeat(self) -> None:
        """Leave the newest message of each kind and rank again: whoever reaches the store can change and remove it."""
        while not self._closed.wait(AGAIN_SECONDS * (1 + self._there.nodes / NODES_ASKING)):
            try:
                for key, text in list(self._sent.values()):
                    self._ask(self._store.set, key, text)
            except StoreLost:
                return

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
        key = self._seal.key(name)
        raw = self._ask(self._store.get, key) if self._ask(self._store.check, [key]) else b""
        opened = self._seal.opened(name, raw) if 0 < len(raw) <= LONGEST else None
        try:
            found = structure(kind, opened[1]) if opened else None
        except Misfit:
            return None
        return found if found is not None and _fits(found) else None

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


def _fits(message: object) -> bool:
    """Return False for numbers that no node has."""
    if isinstance(message, FabricNode):
        return 0 < message.devices <= MOST_DEVICES
    if isinstance(message, Report):
        figures = [message.value or 0.0, *message.rails]
        return len(figures) <= MOST_DEVICES + 1 and all(0 <= figure <= MOST_GB_PER_S for figure in figures)
    return True


def _bound(host: str, addresses: Sequence[Any]) -> tuple[int | None, str]:
    """Return a socket that is bound to the address of a host alone; None, and a note, if that is none of this node.

    A name may resolve to the loopback on its own node, as on Debian. Raises OSError for a port that is in use.
    """
    for family, kind, protocol, _, address in addresses:
        if ipaddress.ip_address(address[0]).is_loopback and host not in ("localhost", address[0]):
            continue
        own = socket.socket(family, kind, protocol)
        try:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            own.bind(address)
            return own.detach(), ""
        except OSError as error:
            own.close()
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    return None, f"--accel-fabric: {host} is no address of an interface of this node: the store listens on all of them"
