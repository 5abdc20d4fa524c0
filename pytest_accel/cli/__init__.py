"""The command `pytest-accel`: everything that is not a test run."""

from __future__ import annotations

import sys
import traceback


def run() -> int:
    """Run the command of this process, and return its exit status: 3 if one of our modules cannot be imported.

    Python itself would end with 1, which stands for a device that fails. A library that is missing, or another module
    of its name, is no verdict.
    """
    try:
        from pytest_accel.cli import main
    except Exception as error:  # noqa: BLE001  a module may raise anything while it is imported
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}"
        sys.stderr.write(f"pytest-accel: cannot be imported, which is not a verdict on the hardware: {message}\n")
        return 3
    return main.main()
