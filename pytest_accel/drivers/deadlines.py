"""Asking many devices at once, each in a thread of its own: one that never answers costs only itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from pytest_accel.drivers.interface import DriverProblem, NoAnswer

Answer = TypeVar("Answer")
Key = TypeVar("Key")

ANSWER_SECONDS = 45.0
"""How long a device may take. A driver that is not kept loaded wakes its devices first, which takes seconds each, one
after the other. Less than the patience of a run (--accel-patience)."""


def each(
    questions: Mapping[Key, Callable[[], Answer]], seconds: float | None = None
) -> dict[Key, Answer | DriverProblem]:
    """The answers within `seconds`, asked for all at once. A problem stands for one that failed or never came."""
    limit = ANSWER_SECONDS if seconds is None else seconds
    found: dict[Key, Answer | DriverProblem] = {}

    def ask(key: Key, question: Callable[[], Answer]) -> None:
        try:
            found[key] = question()
        except DriverProblem as problem:
            found[key] = problem
        except Exception as error:  # noqa: BLE001  a driver may raise anything
            found[key] = NoAnswer(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=ask, args=pair, daemon=True) for pair in questions.items()]
    for thread in threads:
        thread.start()
    until = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = NoAnswer(f"its management library has not answered for {limit:g} s")
    return {key: found.get(key, late) for key in questions}
