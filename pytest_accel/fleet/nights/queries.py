"""Some nights of a store, opened for questions: those of questions.sql, and what is asked of one device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_accel.core import untrusted
from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.nights import database, night_store
from pytest_accel.fleet.nights.database import literal

VIEWS: Final = Path(__file__).with_name("questions.sql")
"""The views that answer questions."""
FIGURE: Final = (
    "night, node, name, slot, level, driver, vbios, metric, unit, value, status, floor, ceiling, code, method"
)
"""The columns that are shown for each figure of a device."""
LOCATIONS: Final = "locations.csv"
"""The file of a store that says where its nodes stand: a column `node`, and one for each kind of location."""


def base(path: Path, figures: Sequence[Path], runs: Sequence[Path]) -> str:
    """Return the SQL that makes the views which those of `VIEWS` are made from."""
    file = path / LOCATIONS
    locations = "SELECT '' AS node, '' AS kind, '' AS location WHERE false"
    if untrusted.exists(file):
        if "node" not in map(str.strip, untrusted.table(file)[0]):
            raise BadFile(
                f"{file}:1: has no column 'node'; it needs one, and one for each kind of location, such as 'rack'"
            )
        table = f"read_csv({literal(file)}, header = true, all_varchar = true, delim = ',', hive_partitioning = false)"
        locations = f"""SELECT node, kind, location FROM (FROM {table})
            UNPIVOT (location FOR kind IN (COLUMNS(* EXCLUDE (node)))) WHERE location <> ''"""  # noqa: S608
    return f"""
        CREATE VIEW every AS FROM {database.parquet(figures)};
        CREATE VIEW every_run AS FROM {database.parquet(runs)};
        CREATE VIEW locations AS {locations};
    """


class StoredNights:
    """Some nights of a store, the last of which is the one that is looked at."""

    def __init__(self, path: Path, nights: Sequence[str]) -> None:
        """Raise BadFile for a store without these nights, or with a night that cannot be read."""
        self.path, self.nights = path, list(nights)
        available = night_store.nights(path)
        for night in self.nights:
            if night not in available:
                raise BadFile(f"{path}: holds no night {night}; its nights are {', '.join(available[-3:]) or 'none'}")
        if not self.nights:
            raise BadFile(f"{path}: holds no night")
        self.simulated = night_store.is_simulated(path)
        self._figures = [night_store.folder_of(path, night) / night_store.FIGURES for night in self.nights]
        self._runs = [night_store.folder_of(path, night) / night_store.RUNS for night in self.nights]
        for file in self._runs:
            if not file.exists():
                raise BadFile(f"{file}: is missing; add the records of that night again")
        self._db = database.connect()
        try:
            self.rows(base(path, self._figures, self._runs))
        except BadFile:
            self.close()
            raise

    def prepare(self) -> None:
        """Make the views that answer questions; those that several of them need are computed once."""
        self.rows(VIEWS.read_text(encoding="utf-8").replace("VIEW /* kept */", "TABLE"))

    def ask(self, view: str) -> list[dict[str, Any]]:
        """Return the rows of a view, by the names of its columns."""
        return self.rows(f"FROM {view}")

    def nodes_of_locations(self, names: Iterable[str]) -> dict[str, set[str]]:
        """Return the nodes of the locations with these names, kind and location in one text."""
        query = """SELECT what || ' ' || location AS name, list(node) AS nodes FROM all_locations
            GROUP BY name HAVING name IN $names"""
        return {row["name"]: set(row["nodes"]) for row in self.rows(query, names=list(names))}

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    @property
    def night(self) -> str:
        """The night that is looked at: ISO 8601."""
        return self.nights[-1]

    def rows(self, query: str, **parameters: object) -> list[dict[str, Any]]:
        """Return the rows that a query finds, by the names of its columns.

        Raises BadFile if a file of the store cannot be read.
        """
        with database.reading(self.path, [*reversed(self._runs), *reversed(self._figures)]):
            cursor = self._db.execute(query, parameters)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    # -- one device

    def device(self, name: str) -> list[dict[str, Any]]:
        """Return `uuid`, `serial` and `model` of the devices with this UUID or serial number."""
        query = """SELECT uuid, max(serial) AS serial, arg_max(model, night) AS model FROM every
            WHERE {} = $name GROUP BY uuid ORDER BY uuid"""
        devices = self.rows(query.format("every.serial"), name=name) if name else []
        return devices or self.rows(query.format("uuid"), name=name)

    def history(self, uuid: str, metric: str = "") -> list[dict[str, Any]]:
        """Return every figure of a device, or those of a metric, oldest first: its `FIGURE` by name."""
        query = f"SELECT {FIGURE} FROM every WHERE uuid = $uuid AND $metric IN ('', metric) ORDER BY night, metric, run"  # noqa: S608
        return self.rows(query, uuid=uuid, metric=metric)
