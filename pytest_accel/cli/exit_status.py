"""The exit statuses of the command that stand for no verdict. They are those of pytest."""

from __future__ import annotations

from typing import Final

INTERRUPTED: Final = 2
"""Ctrl-C."""
BUG: Final = 3
"""An error of this package."""
WRONG: Final = 4
"""A wrong option or file."""
