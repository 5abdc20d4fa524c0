"""Queries many devices at once, each in its own thread, so that one that never answers delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from pytest_accel.core.measurement import Device
from pytest_accel.drivers.interface import DriverProblem, NoAnswer

Answer = TypeVar("Answer")
Key = TypeVar("Key")

ANSWER_SECONDS = 45.0
"""The time that a device has to answer. A driver that is not kept loaded first wakes its devices one after the other,
which takes seconds each. Shorter than the patience of a run (--accel-patience)."""


def ask(
    questions: Mapping[Key, Callable[[], Answer]], seconds: float | None = None
) -> dict[Key, Answer | DriverProblem]:
    """Ask all questions at once and return the answers by key, within `seconds`.

    The answer to a question that failed or was not answered in time is a DriverProblem, which is not raised.
    """
    limit = ANSWER_SECONDS if seconds is None else seconds
    answers: dict[Key, Answer | DriverProblem] = {}

    def call(key: Key, question: Callable[[], Answer]) -> None:
        try:
            answers[key] = question()
        except DriverProblem as problem:
            answers[key] = problem
        except Exception as error:  # noqa: BLE001  a driver may raise anything
            answers[key] = NoAnswer(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=call, args=pair, daemon=True) for pair in questions.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    timeout = NoAnswer(f"its management library has not answered for {limit:g} s")
    return {key: answers.get(key, timeout) for key in questions}


def answering(questions: Mapping[int, Callable[[], Device]]) -> tuple[list[Device], list[str]]:
    """Return the GPUs that answer, asked all at once by index, and a sentence for each that does not.

    Raises DriverProblem if there are some and none answers.
    """
    answers = ask(questions)
    devices = [answer for answer in answers.values() if isinstance(answer, Device)]
    failures = [(index, answer) for index, answer in answers.items() if isinstance(answer, DriverProblem)]
    problems = [f"GPU {index} does not answer: {problem}" for index, problem in failures]
    if problems and not devices:
        raise DriverProblem("; ".join(problems))
    return devices, problems
