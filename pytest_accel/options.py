"""The command line of a run, typed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class Refused(Exception):
    """The run cannot begin: a wrong option or file, a device in use, an output that cannot be written."""


@dataclass(frozen=True)
class Options:
    """The command line, typed. `devices` are indices or UUIDs, empty for all."""

    sku: str
    platform: str = "auto"
    level: str = "standard"
    devices: tuple[str, ...] = ()
    output: Path | None = None
    patience: float = 60.0
    command: tuple[str, ...] = ()
