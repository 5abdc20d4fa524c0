"""The exit statuses of the command that stand for no verdict. They are those of pytest."""

from __future__ import annotations

from typing import Final

INTERRUPTED: Final = 2
"""Ctrl-C."""
BUG: Final = 3
"""An error of this package."""
WRONG: Final = 4
"""A wrong option or file."""
NOT_JUDGED: Final = 6
"""Something could not be judged. That of `judging.closing`, for modules that load nothing of judging."""
