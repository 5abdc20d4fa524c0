"""Lines on standard output: their colour, and the width that they have."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable

from pytest_accel.core.printable import printable
from pytest_accel.views.terminal import Line

ANSI = {"red": 31, "green": 32, "yellow": 33, "bold": 1}


def width() -> int | None:
    """Return the columns of the terminal, None if stdout is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured() -> bool:
    """Return True if stdout is a terminal and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def show(lines: Iterable[Line]) -> None:
    """Print lines, in colour if `coloured`."""
    for line, colour in lines:
        text = printable(line)
        print(f"\033[{ANSI[colour]}m{text}\033[0m" if colour and coloured() else text)
