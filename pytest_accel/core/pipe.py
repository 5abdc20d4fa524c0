"""The pipe between pytest and its child processes, which end when pytest ends.

Messages are JSON, one per line, on the child's original standard input and output.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pytest_accel.core import clock

PR_SET_PDEATHSIG = 1


class Pipe:
    """The child's end of the pipe: `send` from any thread, `receive` in the main one."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
        self._in = os.fdopen(os.dup(0), "r", encoding="utf-8")
        # whatever a library prints goes to standard error, which is the child's log
        os.dup2(2, 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = sys.stderr
        self._lock = threading.Lock()
        self._inbox: list[dict[str, Any]] = []
        self._arrived = threading.Condition()
        self._listeners: list[Callable[[dict[str, Any]], bool]] = []
        threading.Thread(target=self._listen, daemon=True, name="pipe").start()

    def send(self, event: str, **fields: Any) -> None:
        """Send one message to pytest."""
        with self._lock:
            print(json.dumps({"event": event, **fields}, default=str), file=self._out)

    def intercept(self, listener: Callable[[dict[str, Any]], bool]) -> None:
        """Pass every message to `listener` on arrival; a message for which it returns True is not received."""
        self._listeners.append(listener)

    def receive(self) -> Iterator[dict[str, Any]]:
        """Yield messages without end: the process ends with its parent."""
        while True:
            with self._arrived:
                while not self._inbox:
                    self._arrived.wait()
                message = self._inbox.pop(0)
            yield message

    def _listen(self) -> None:
        for line in self._in:
            message = json.loads(line)
            if any(listener(message) for listener in self._listeners):
                continue
            with self._arrived:
                self._inbox.append(message)
                self._arrived.notify()
        os._exit(0)  # the parent closed the pipe, or is gone


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends, however it ends.

    Linux only; elsewhere the closed pipe ends the process.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def begin() -> Pipe:
    """Return the pipe of a child process, whose arguments are pytest's process id and the epoch of the run."""
    die_with_parent(int(sys.argv[1]))
    if len(sys.argv) > 2:
        clock.adopt(float(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    return Pipe()
