"""The vendors' management libraries with the answers of a simulated node."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

PUBLISHED = Path(__file__).with_name("published.yaml")
"""The table of answers that real devices were published to give, by function and kind of device."""
ERRORS = {"nvml": {"NOT_SUPPORTED": 3}, "amdsmi": {"INVAL": 1, "NOT_SUPPORTED": 2}}
"""NVML_ERROR_* (nvml.h) and AMDSMI_STATUS_* (amdsmi.h)."""


@cache
def published() -> list[dict[str, Any]]:
    """Return the rows of the table."""
    rows: list[dict[str, Any]] = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    return rows


@cache
def answers_of(library: str, *kinds: str) -> dict[str, Any]:
    """Return the published answers of devices of these kinds (SKU, architecture, "guest"), by function of a library."""
    answers = {}
    for row in published():
        if row["function"].startswith(library) and set(row["of"]) & set(kinds):
            answer = row["answer"]
            answers[row["function"]] = status(ERRORS[library][answer]) if isinstance(answer, str) else answer
    return answers


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
        next(buffer for buffer in arguments if isinstance(buffer, ctypes.Array)).value = answer
        return 0
    numbers = answer if isinstance(answer, tuple) else (answer,)
    for reference, number in zip(arguments[-len(numbers) :], numbers, strict=True):
        reference._obj.value = number
    return 0
