"""The files of nights that cannot be read. A damaged night costs itself, and none of the others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.nights import database

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def advice(file: Path) -> str:
    """Return what to do about a file of a night that cannot be read."""
    return f"restore it from a copy, or remove {file.parent} and add the records of that night again"


def demand_whole(connection: DuckDBPyConnection, file: Path) -> None:
    """Read every value of a file of a night. Raises BadFile, with what to do, if that fails."""
    query = f"SELECT bit_xor(hash(COLUMNS(*))) FROM {database.parquet([file])}"  # noqa: S608
    with database.reading(file, advice(file)):
        connection.execute(query).fetchall()


def damaged(connection: DuckDBPyConnection, files: Iterable[Path]) -> dict[Path, str]:
    """Return those of some files of nights that cannot be read, with the reason and what to do."""
    found = {}
    for file in files:
        try:
            demand_whole(connection, file)
        except BadFile as bad:
            found[file] = str(bad)
    return found
