"""The store of torch.distributed in which the agents of a network run leave messages for each other.

Whoever reaches its port can read, overwrite and delete what it holds, so each message is sealed.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from pytest_accel.probes.device.error_class import main_line
from pytest_accel.run.network.secret import FILE, Seal, secret_of
from pytest_accel.run.options import Refused
from pytest_accel.run.rendezvous import Rendezvous

T = TypeVar("T")

PAUSE, REPEAT, NODES_ASKING = 0.1, 2.0, 2000
"""Seconds between two questions whether a message is there, and after which the last messages are put again; and by how
many nodes both are prolonged by a second."""
TAKEN = 5
"""An agent is refused if another one has its rank for so many of the latter times."""
ABSENT = "-"
"""The answer of the store for a message that is not there."""
ANSWER_SECONDS = 60.0
"""Seconds after which a store that does not answer is lost. Torch itself waits for as long as TCP does."""


class StoreLost(Exception):
    """Raised if the store cannot be reached any more: rank 0 has ended, or the network between."""


class MessageStore:
    """The store: rank 0 runs it, unless the launcher does. Every message has a key of its own."""

    def __init__(self, rendezvous: Rendezvous, folder: Path | None, seconds: float) -> None:
        """Run the store, or connect to it and meet rank 0 within `seconds`. Raises Refused if neither is possible.

        `folder` is shared by the nodes, and holds the secret of the run unless a variable does.
        """
        end = time.monotonic() + seconds
        self.rendezvous, self._folder, self._hello = rendezvous, folder, f"hello/{rendezvous.job}"
        self._address = f"{rendezvous.host}:{rendezvous.port}"
        self._pause, self._repeat = (interval + rendezvous.nodes / NODES_ASKING for interval in (PAUSE, REPEAT))
        self.seal = Seal(secret_of(folder))  # refuses before anything is waited for
        self.note = ""
        """A sentence on the store for the record; may be empty."""
        self._last: dict[str, tuple[str, str]] = {}
        """Key and text of the last message for or from each rank, and of that by which all find rank 0."""
        self._stopped = threading.Event()
        self._store = self._connected(seconds)
        if not rendezvous.rank:
            self._begin()
        # anybody who reaches the port can overwrite or delete a message, so the last ones are put again
        threading.Thread(target=self._put_again, daemon=True).start()
        if rendezvous.rank:
            self._meet(end)

    def _connected(self, seconds: float) -> Any:
        """Return the store of torch, which rank 0 runs. Raises Refused."""
        host, port = self.rendezvous.host, self.rendezvous.port
        runs = self.rendezvous.rank == 0 and not self.rendezvous.hosted
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = f"the name of rank 0, {host}, does not resolve on this node: {error}"
            raise Refused(f"--accel-network: {reason}; set MASTER_ADDR to an address that all nodes reach") from None
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # it logs what is raised, with stacks of C++
        torch = importlib.import_module("torch.distributed").torch  # here alone pytest itself loads it
        options: dict[str, Any] = {"is_master": runs, "wait_for_workers": False, "timeout": timedelta(seconds=seconds)}
        try:
            if runs and (handle := listening(host, addresses)) is not None:  # torch closes it
                # before torch 2.8 the store of libuv refuses a socket that listens already
                options |= {"master_listen_fd": handle, "use_libuv": torch.__version__ >= (2, 8)}
            elif runs:
                self.note = f"the network store listens on all interfaces: {host} is the address of none of them"
            return torch.distributed.TCPStore(host, port, **options)
        except (RuntimeError, OSError) as error:
            cause = "rank 0 cannot listen" if runs else f"rank 0 was not reached within {seconds:.0f} s"
            raise Refused(f"--accel-network: {cause} at {self._address}: {main_line(error)}; see MASTER_PORT") from None

    def _begin(self) -> None:
        """Begin a run as rank 0. Raises Refused where an earlier attempt used the store."""
        self.seal = Seal(secret_of(self._folder, make=True))
        if self.rendezvous.hosted and self._look(str, self._hello) is not None:
            location = f"the store of the launcher at {self._address}"
            raise Refused(f"--accel-network: {location} holds an earlier attempt of this job ({self.rendezvous.job})")
        self.put(self._hello, run := secrets.token_hex(16))
        self.seal = replace(self.seal, run=run)

    def _meet(self, end: float) -> None:
        """Wait until rank 0 answers this agent. Raises Refused if it does not, or has answered another one of its rank.

        Until it answers by the token of this agent, what is found may be of an earlier run, and is looked for again.
        """
        rank, token, limit = self.rendezvous.rank, secrets.token_hex(16), end
        with contextlib.suppress(StoreLost):
            while time.monotonic() < limit:
                hello = Seal(secret_of(self._folder))
                if (run := self._look(str, self._hello, hello)) and run != self.seal.run:
                    self.seal, limit = replace(hello, run=run), end
                    self.put(f"here/{rank}/0", token)
                answer = self._look(str, f"known/{rank}/0")
                if answer == token:
                    return
                limit = min(limit, time.monotonic() + TAKEN * self._repeat) if answer else end
                time.sleep(self._pause)
        self._stopped.set()
        reason = "another job uses this address and port (see MASTER_PORT), or the nodes do not have the same secret"
        reason = reason if limit == end else f"another agent has rank {rank}, here or in an earlier attempt"
        leader = f"rank 0 of this job ({self.rendezvous.job})"
        raise Refused(f"--accel-network: {leader} was not met at {self._address}: {reason}")

    def put(self, name: str, message: Any) -> None:
        """Leave a message, in place of the last one for or from the same rank. Raises StoreLost."""
        key, text = self._last[name.split("/")[1]] = self.seal.key(name), self.seal.seal(name, message)
        self._ask(self._store.set, key, text)

    def take(
        self, kind: type[T], name: str, seconds: float, tick: Callable[[float], None] = lambda elapsed: None
    ) -> T | None:
        """Return a message of this run once it is there, None if it is not within `seconds`.

        `tick` is called with the seconds spent. Raises StoreLost.
        """
        start = time.monotonic()
        while (message := self._look(kind, name)) is None:
            elapsed = time.monotonic() - start
            if elapsed >= seconds:
                return None
            tick(elapsed)
            time.sleep(self._pause)
        return message

    def _look(self, kind: type[T], name: str, seal: Seal | None = None) -> T | None:
        """Return a message if it is there, else None, without waiting for it."""
        seal = seal or self.seal
        # `get` waits for a key that is absent; a text with a wrong seal counts as none, so that one goes on waiting
        return seal.unseal(kind, name, self._ask(self._store.compare_set, seal.key(name), ABSENT, ABSENT))

    def _put_again(self) -> None:
        """Put the last messages again and again. As rank 0 also answer each rank that was sent nothing so far."""
        with contextlib.suppress(StoreLost):  # whoever waits sees it as well
            while not self._stopped.wait(self._repeat):
                if self._last:
                    self._ask(self._store.multi_set, *map(list, zip(*self._last.values(), strict=True)))
                for rank in () if self.rendezvous.rank else range(1, self.rendezvous.nodes):
                    if str(rank) not in self._last and (token := self._look(str, f"here/{rank}/0")):
                        self.put(f"known/{rank}/0", token)

    def stop(self) -> None:
        """Put nothing again. The secret that rank 0 found or wrote ends with the run."""
        self._stopped.set()
        if self._folder and not self.rendezvous.rank:
            with contextlib.suppress(OSError):
                (self._folder / FILE).unlink()

    def _ask(self, call: Callable[..., Any], *words: Any) -> Any:
        """Return the result of a call of the store. Raises StoreLost if it fails, or does not return in time."""
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


def listening(host: str, addresses: Sequence[tuple[Any, ...]]) -> int | None:
    """Return the handle of a socket that listens at an address found for a host alone; None if none is of this node.

    A name that leads to the loopback does so on this node alone, such as by Debian's 127.0.1.1. Raises OSError.
    """
    for family, *_, address in addresses:
        if address[0] == host or not address[0].startswith(("127.", "::1")):
            try:
                return socket.create_server(address, family=family, backlog=socket.SOMAXCONN).detach()
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
    return None
