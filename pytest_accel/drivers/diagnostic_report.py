"""The diagnostic program of a vendor: how it is called, and what its output says of each device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["pass", "fail", "note", "untested", "skip"]
"""The outcome of a test. "note": it warns, or found only a setting of the machine, such as persistence mode.
"untested": it could not be done, for a fault of the software."""


@dataclass(frozen=True)
class TestResult:
    """The result of one test for one device, or for the node where `device` is empty."""

    test: str
    outcome: Outcome
    words: str = ""
    """The words of the program on what it found."""
    device: str = ""
    """The index by which the program calls the device."""
    hardware: bool = True
    """False for a test of drivers, libraries and settings."""
    level: int | None = None
    """The least level that runs the test; None if the program states no test by level."""


@dataclass(frozen=True)
class Report:
    """The results in the output of a diagnostic."""

    results: Sequence[TestResult]
    serials: Mapping[str, str] = field(default_factory=dict)
    """The serial number of each device, by its index, as far as the program states them."""


MOST = 500
"""The most characters that are kept of the words of a test."""


class NoReport(Exception):
    """There are no results; the text says why, in the words of the program where it has any."""


PRINTED = "printed.txt"
"""The file that holds what a program printed."""


@dataclass(frozen=True)
class Program:
    """A program of a vendor. It is run in a folder of its own."""

    name: str
    """Its name on PATH, or its path."""
    install: str
    """The remedy where it is absent."""
    results: str = PRINTED
    """The pattern of the file of results in that folder."""


@dataclass(frozen=True)
class Diagnostic:
    """The diagnostic of a vendor, as the package of the vendor declares it."""

    program: Program
    arguments: Callable[[int, Sequence[int]], Sequence[str]]
    """Returns the arguments for a level and for the indices of devices."""
    read: Callable[[str], Report]
    """Reads the text of its results. Raises NoReport."""
    bug_report: Program
    """The program that collects what the vendor wants to see of a sick device."""
