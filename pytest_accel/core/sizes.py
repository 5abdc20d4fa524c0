"""Sizes of messages, written as "64KiB" or "8GiB"."""

from __future__ import annotations

import re

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
PATTERN = r"([1-9]\d*)(KiB|MiB|GiB)"


def in_bytes(size: str) -> int | None:
    """Return a size in bytes, None for a text that is no size."""
    found = re.fullmatch(PATTERN, size)
    return int(found[1]) * UNITS[found[2]] if found else None
