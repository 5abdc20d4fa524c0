"""DuckDB over the files of a store. It is imported where it is used: nobody else needs it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.untrusted import BadFile

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def connect() -> DuckDBPyConnection:
    """Return a database in memory, which loads nothing from elsewhere. Raises BadFile without the package."""
    try:
        import duckdb
    except ImportError:
        raise BadFile("pytest-accel store: needs the package duckdb: pip install 'pytest-accel[fleet]'") from None
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": str(Path(tempfile.gettempdir()) / "pytest-accel-store"),
            "preserve_insertion_order": "false",
        },
    )


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise BadFile with the name of a file that turns out to be none that the database reads."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        told = printable(str(error).splitlines()[0], SHOWN)
        raise BadFile(
            f"{path}: cannot be read, or is damaged ({told}); the records can be added to a new store"
        ) from None


def literal(text: object) -> str:
    """Return a text as SQL writes it."""
    return "'" + str(text).replace("'", "''") + "'"


def files(paths: Sequence[Path]) -> str:
    """Return the names of files as the list that read_parquet() takes."""
    return "[" + ", ".join(map(literal, paths)) + "]"


def parquet(paths: Sequence[Path]) -> str:
    """Return the call that reads Parquet files: their columns alone, whatever `name=value` the folders are called."""
    return f"read_parquet({files(paths)}, hive_partitioning = false)"
