"""How the command begins and ends: its parser, and the exit statuses of errors."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from pytest_accel.core import exits, output, paths
from pytest_accel.core.printable import printable


class Parser(argparse.ArgumentParser):
    """A parser whose errors end with the exit status that pytest has for wrong options."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and end the process with exit status 4."""
        self.print_usage(sys.stderr)
        self.exit(exits.WRONG, f"{self.prog}: error: {message}\n")


def guarded(work: Callable[[], int]) -> int:
    """Return the exit status of the work, or of what it raises.

    An output that cannot be written to, such as a pipe whose reader has ended, does not change the status here. An
    error of this package ends with 3, since 1 stands for a device that fails, and a file or folder that the system
    refuses with 4.
    """
    output.protect()
    try:
        status = work()
    except exits.WrongUse as wrong:
        print(wrong, file=sys.stderr)
        return exits.WRONG
    except OSError as error:
        if not error.filename:
            return _bug(error)
        print(printable(paths.refused(error)), file=sys.stderr)
        return exits.WRONG
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return exits.INTERRUPTED
    except Exception as error:  # noqa: BLE001  any other status than exits.BROKEN would be taken for a verdict
        return _bug(error)
    sys.stdout.flush()
    return status


def _bug(error: Exception) -> int:
    """Print the traceback of an error of this package, and return its exit status."""
    traceback.print_exception(error)
    said = f"{type(error).__name__}: {error}"
    print(f"pytest-accel: an error of pytest_accel, not a verdict on the hardware: {said}", file=sys.stderr)
    return exits.BROKEN
