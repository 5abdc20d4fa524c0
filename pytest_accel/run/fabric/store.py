"""The store of torch.distributed in which the agents of a fabric run leave messages for each other."""

from __future__ import annotations

import importlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from pytest_accel.core.structured import Misfit, plain, structure
from pytest_accel.probes.device.error_class import main_line
from pytest_accel.run.options import Refused
from pytest_accel.run.rendezvous import Rendezvous

T = TypeVar("T")

PREFIX = "pytest-accel-fabric"
PAUSE, NODES_ASKING = 0.1, 2000
"""Seconds between two questions whether a message is there, and by how many nodes these are prolonged by a second."""
LONGEST = 64 << 20
"""Bytes of the longest message that is read."""
ANSWER_SECONDS = 60.0
"""Seconds after which a store that does not answer is lost. Torch itself waits for as long as TCP does."""


class StoreLost(Exception):
    """Raised if the store cannot be reached any more: rank 0 has ended, or the network between."""


class FabricStore:
    """The store: rank 0 runs it, unless the launcher does. Keys are set once; a message is JSON of a dataclass."""

    def __init__(self, there: Rendezvous, seconds: float) -> None:
        """Run the store, or connect to it within `seconds`. Raises Refused if neither is possible."""
        try:
            socket.getaddrinfo(there.host, there.port)
        except OSError as error:
            why = f"the name of rank 0, {there.host}, does not resolve on this node: {error.strerror or error}"
            raise Refused(f"--accel-fabric: {why}; set MASTER_ADDR to an address that all nodes reach") from None
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # it logs what is raised, with stacks of C++
        distributed = importlib.import_module("torch.distributed")  # here alone pytest itself loads torch
        self._pause = PAUSE + there.nodes / NODES_ASKING
        runs = there.rank == 0 and not there.hosted
        try:
            self._store: Any = distributed.TCPStore(
                there.host,
                there.port,
                is_master=runs,
                wait_for_workers=False,
                timeout=timedelta(seconds=seconds),
            )
        except (RuntimeError, OSError) as error:
            what = "rank 0 cannot listen" if runs else f"rank 0 was not reached within {seconds:.0f} s"
            where = f"{there.host}:{there.port}"
            raise Refused(f"--accel-fabric: {what} at {where}: {main_line(error)}; see MASTER_PORT") from None

    def put(self, key: str, message: Any) -> None:
        """Leave a message. Raises StoreLost."""
        self._ask(self._store.set, f"{PREFIX}/{key}", json.dumps(plain(message)))

    def take(
        self, kind: type[T], key: str, seconds: float, tick: Callable[[float], None] = lambda spent: None
    ) -> T | None:
        """Return a message once it is there, None if it is not within `seconds` or does not fit its class.

        `tick` is called with the seconds spent. It asks again and again, since torch logs every wait that found
        nothing. Raises StoreLost.
        """
        began, name = time.monotonic(), f"{PREFIX}/{key}"
        while not self._ask(self._store.check, [name]):
            spent = time.monotonic() - began
            if spent >= seconds:
                return None
            tick(spent)
            time.sleep(self._pause)
        raw = self._ask(self._store.get, name)
        try:
            return structure(kind, json.loads(raw)) if len(raw) <= LONGEST else None
        except (ValueError, RecursionError, Misfit):
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
