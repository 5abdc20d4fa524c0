"""The exit statuses of a run and of the command. Those that stand for no verdict are pytest's own."""

from __future__ import annotations

from typing import Final

from pytest_accel.core.printable import printable

HOLDS: Final = 0
"""Everything that was asked for holds, or was done."""
REJECTED: Final = 1
"""A device or the node fails. Nothing else ends with it."""
INTERRUPTED: Final = 2
"""Ctrl-C, or another signal."""
BROKEN: Final = 3
"""An error of software, which is no verdict on the hardware."""
WRONG: Final = 4
"""A wrong option or file."""
NOT_JUDGED: Final = 6
"""Something that was required could not be judged."""


class WrongUse(Exception):
    """A wrong option or file, or something that is lacking here: the command says the text, and ends with WRONG.

    Each argument is a line of the text.
    """

    def __init__(self, *lines: object) -> None:
        # text that a line quotes from outside cannot end it
        super().__init__(*(printable(str(line)) for line in lines))

    def __str__(self) -> str:
        return "\n".join(self.args)

    def prefixed(self, words: str) -> list[str]:
        """Return the lines, the first of them behind "words: "."""
        first, *lines = self.args or ("",)
        return [f"{words}: {first}", *lines]
