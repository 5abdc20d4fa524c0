"""Values of a file with their places, and the errors that are found in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import BadFile

MOST_FINDINGS = 100
"""How many errors of one file are reported. A file with more is another kind of file, or made to keep us busy."""
FINDING_CHARACTERS = 1_000
"""Length of the longest error."""


@dataclass
class Located:
    """One value of a file: `data` is a scalar, a list of Located, or a dict of key to Located."""

    data: Any
    file: str
    line: int

    @property
    def where(self) -> str:
        """The place of the value: "file:line"."""
        return f"{self.file}:{self.line}"

    def plain(self) -> Any:
        """Return the value as plain Python data, without places."""
        if isinstance(self.data, dict):
            return {key: value.plain() for key, value in self.data.items()}
        if isinstance(self.data, list):
            return [value.plain() for value in self.data]
        return self.data


@dataclass
class Findings:
    """The errors of a file, collected so that all of them are reported at once."""

    lines: list[str] = field(default_factory=list)

    def add(self, at: Located, text: str) -> None:
        """Add an error with the place of the value. Raises BadFile if the file has too many."""
        self.lines.append(f"{printable(at.where)}: {printable(text, FINDING_CHARACTERS)}")
        if len(self.lines) >= MOST_FINDINGS:
            self.lines.append(f"{at.file}: further errors are not looked for")
            self.raise_if_any()

    def raise_if_any(self) -> None:
        """Raise BadFile with all errors, if there are any."""
        if self.lines:
            raise BadFile("\n".join(self.lines))
