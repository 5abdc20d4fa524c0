"""DuckDB over the files of a store. It is imported where it is used: nobody else needs it."""

from __future__ import annotations

import contextlib
import csv
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.untrusted import BadFile

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY: Final = "1GB"
"""The memory that a database takes at most; the rest goes to the disk."""


def connect(room: Path | None = None) -> DuckDBPyConnection:
    """Return a database in memory, which loads nothing from elsewhere. Raises BadFile without the package.

    What does not fit into memory is written into a new folder `room`; by default one for temporary files.
    """
    try:
        import duckdb
    except ImportError:
        raise BadFile("pytest-accel store: needs the package duckdb: pip install 'pytest-accel[fleet]'") from None
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": MEMORY,
            "temp_directory": str(room or Path(tempfile.gettempdir()) / f"pytest-accel-{secrets.token_hex(8)}"),
            "preserve_insertion_order": "false",
        },
    )
    connection.execute("SET enable_progress_bar = false")  # which it draws into the output of a query of two seconds
    return connection


@contextlib.contextmanager
def reading(path: Path, files: Iterable[Path]) -> Iterator[None]:
    """Raise BadFile for an error of the database. It names the first of the files that is damaged, else `path`."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        for file in files:
            try:
                duckdb.execute(f"SELECT bit_xor(hash(COLUMNS(*))) FROM {parquet([file])}").fetchall()  # noqa: S608
            except duckdb.Error as damage:
                advice = f"restore it from a copy, or remove {file.parent} and add the records of that night again"
                message = _first_line(damage).replace(f"'{file}' ", "")
                raise BadFile(f"{file}: cannot be read, or is damaged ({message}); {advice}") from None
        raise BadFile(f"{path}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    """Return the first line of an error of the database."""
    return printable(str(error).splitlines()[0], SHOWN)


def literal(text: object) -> str:
    """Return a text as SQL writes it."""
    return "'" + str(text).replace("'", "''") + "'"


def files(paths: Sequence[Path]) -> str:
    """Return the names of files as the list that read_parquet() takes."""
    return "[" + ", ".join(map(literal, paths)) + "]"


def parquet(paths: Sequence[Path]) -> str:
    """Return the call that reads Parquet files: their columns alone, whatever `name=value` the folders are called."""
    return f"read_parquet({files(paths)}, hive_partitioning = false)"


def table(
    connection: DuckDBPyConnection, file: Path, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[Any]]
) -> None:
    """Make a table of the database from rows."""
    # By way of a file: inserting a row at a time takes minutes for a fleet.
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM {csv_files([file], columns)}")


def csv_files(paths: Sequence[Path], columns: Mapping[str, str]) -> str:
    """Return the call that reads tables with these columns; an empty text stays one, an empty number is none."""
    kinds = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in columns.items())
    texts = ", ".join(literal(name) for name, kind in columns.items() if kind == "VARCHAR")
    return (
        f"read_csv({files(paths)}, columns = {{{kinds}}}, header = false, auto_detect = false, delim = ',', "
        f"quote = '\"', escape = '\"', new_line = '\\n', nullstr = '', force_not_null = [{texts}], "
        "hive_partitioning = false)"
    )


def write(connection: DuckDBPyConnection, query: str, path: Path) -> None:
    """Replace a Parquet file by what a query finds, in one step that survives a loss of power.

    Raises an error of the database, or OSError.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        connection.execute(
            f"COPY ({query}) TO {literal(temporary)} (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2)"
        )
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
