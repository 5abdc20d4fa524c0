"""The figures of whole weeks once more, sorted by device, from which the past of one device is read.

    STORE/by-device/2026-W47.parquet    every figure of the nights of that week (ISO 8601)

The nights of a store are sorted by metric, for questions on all devices. The figures of one device are a few rows in
every part of every night there; here they lie side by side, in one file for seven nights. A file holds all nights of
its week that the store has: it is removed before one of them changes, and made again once the week is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_accel.fleet.nights import database

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FOLDER: Final = "by-device"
COLUMNS: Final = (
    "night, node, name, slot, level, driver, vbios, metric, unit, value, status, floor, ceiling, code, method"
)
"""What is told of a device: where it was, on which software, its figure and the verdict on it."""


def week_of(night: str) -> str:
    """Return the week of a night: "2026-W47" of 2026-11-22."""
    year, week, _ = date.fromisoformat(night).isocalendar()
    return f"{year}-W{week:02}"


def by_week(nights: Iterable[str]) -> dict[str, list[str]]:
    """Return nights by their week."""
    found: dict[str, list[str]] = {}
    for night in nights:
        found.setdefault(week_of(night), []).append(night)
    return found


def file_of(store: Path, week: str) -> Path:
    """Return the file of a week."""
    return store / FOLDER / f"{week}.parquet"


def forget(store: Path, night: str) -> None:
    """Remove the file of the week of a night, which is about to change."""
    file_of(store, week_of(night)).unlink(missing_ok=True)


def complete(connection: DuckDBPyConnection, store: Path, nights: Mapping[str, Path]) -> None:
    """Make the files that are missing, given the file of figures of every night. The last week is not over yet.

    Raises BadFile for a night that cannot be read, or OSError.
    """
    weeks = by_week(sorted(nights))
    for week in list(weeks)[:-1]:
        file = file_of(store, week)
        if file.exists():
            continue
        file.parent.mkdir(exist_ok=True)
        figures = database.parquet([nights[night] for night in weeks[week]])
        query = f"SELECT device, run, {COLUMNS} FROM {figures} ORDER BY device, metric, night, run"  # noqa: S608
        database.write(connection, query, file)
