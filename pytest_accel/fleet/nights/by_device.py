"""The figures of whole weeks once more, sorted by device, from which the past of one device is read.

    STORE/by-device/2026-W47-3f9a12c4.parquet    every figure of the nights of that week (ISO 8601)

The nights of a store are sorted by metric, for questions on all devices. The figures of one device are a few rows in
every part of every night there; here they lie side by side, in one file for seven nights. Its name tells from which
state of which nights it was made. A night that is added, changed or removed asks for a file of another name, so that
no file is taken for what it is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_accel.core.groups import grouped
from pytest_accel.fleet.nights import database

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FOLDER: Final = "by-device"
COLUMNS: Final = (
    "night, node, name, slot, level, driver, vbios, metric, unit, value, status, floor, ceiling, code, method"
)
"""The columns of the past of a device: its place, its software, the figure, and the verdict on it."""
DIGITS: Final = 8
"""Hexadecimal digits by which a name tells the state of the nights."""


def week_of(night: str) -> str:
    """Return the week of a night: "2026-W47" of 2026-11-22."""
    year, week, _ = date.fromisoformat(night).isocalendar()
    return f"{year}-W{week:02}"


def by_week(nights: Iterable[str]) -> dict[str, list[str]]:
    """Return nights by their week."""
    return grouped(nights, week_of)


def files_of(store: Path, nights: Mapping[str, Path]) -> dict[str, Path]:
    """Return the file that each week has or is to have, given the file of figures of every night of the store.

    The last week is not over yet, and has none.
    """
    weeks = by_week(sorted(nights))
    return {
        week: store / FOLDER / f"{week}-{_state({night: nights[night] for night in weeks[week]})}.parquet"
        for week in list(weeks)[:-1]
    }


def _state(nights: Mapping[str, Path]) -> str:
    """Return a hash of some nights, and of size and time of change of their files."""
    known = hashlib.sha256()
    for night, file in nights.items():
        status = file.stat()
        known.update(f"{night} {status.st_size} {status.st_mtime_ns}\n".encode())
    return known.hexdigest()[:DIGITS]


def make(connection: DuckDBPyConnection, nights: Iterable[Path], file: Path) -> None:
    """Make the file of a week from the figures of its nights. Raises BadFile, or OSError."""
    file.parent.mkdir(exist_ok=True)
    figures = database.parquet(list(nights))
    query = f"SELECT device, run, {COLUMNS} FROM {figures} ORDER BY device, metric, night, run"  # noqa: S608
    database.write(connection, query, file)


def clear(store: Path, nights: Mapping[str, Path]) -> None:
    """Remove the files of weeks that are made from another state of the nights. Raises OSError."""
    kept = set(files_of(store, nights).values())
    for file in (store / FOLDER).glob("*.parquet"):
        if file not in kept:
            file.unlink(missing_ok=True)
