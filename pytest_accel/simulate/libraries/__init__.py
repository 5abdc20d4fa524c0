"""The vendors' management libraries with the answers of a simulated node."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any


def never(*_arguments: Any) -> int:
    """Block for ever, like a function that never answers."""
    while True:
        time.sleep(3600)


def status(code: int) -> Callable[..., int]:
    """Return a function that only returns this status."""
    return lambda *arguments: code


def write(answer: Any, arguments: tuple[Any, ...]) -> int:
    """Write an answer (a function, a text, a number or several) to the output arguments, and return the status."""
    if callable(answer):
        return answer(*arguments) or 0
    if isinstance(answer, bytes):
        next(each for each in arguments if isinstance(each, ctypes.Array)).value = answer
        return 0
    numbers = answer if isinstance(answer, tuple) else (answer,)
    for reference, number in zip(arguments[-len(numbers) :], numbers, strict=True):
        reference._obj.value = number
    return 0
