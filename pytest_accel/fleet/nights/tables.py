"""Some nights of a store as tables of a database: `figures` of all of them, and `devices`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.nights import database, store


class Tables:
    """Some nights of a store, and the questions on one device."""

    def __init__(self, path: Path, nights: Sequence[str]) -> None:
        """Raise BadFile for a store without these nights."""
        self.path, self.nights = path, list(nights)
        known = store.nights(path)
        for night in self.nights:
            if night not in known:
                raise BadFile(f"{path}: holds no night {night}; its nights are {', '.join(known[-3:]) or 'none'}")
        if not self.nights:
            raise BadFile(f"{path}: holds no night")
        self.simulated = store.is_simulated(path)
        self._db = database.connect()
        self.view("figures", [store.folder_of(path, night) / store.FIGURES for night in self.nights])
        self.view("devices", [path / store.DEVICES])

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def view(self, name: str, files: Sequence[Path], where: str = "") -> None:
        """Make a view of those of some files that are there. Raises BadFile if none is."""
        there = [each for each in files if each.exists()]
        if not there:
            raise BadFile(f"{files[-1]}: is missing; add the records of that night again")
        query = f"FROM {database.parquet(there)}{where}"
        with database.reading(there[-1]):
            self._db.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        return self._db.execute(query, list(parameters)).fetchall()

    def execute(self, query: str, *parameters: object) -> None:
        """Do what a statement says."""
        self._db.execute(query, list(parameters))

    def table(self, name: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        """Make a table of a few rows."""
        self._db.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({columns})")
        if rows:
            self._db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608

    def subjects(self, devices: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return UUID and serial number of devices, by their number."""
        wanted = sorted(set(devices))
        query = "SELECT device, uuid, serial FROM devices SEMI JOIN (SELECT unnest(?) AS device) USING (device)"
        return {number: (uuid, serial) for number, uuid, serial in self.rows(query, wanted)}

    def device(self, name: str) -> list[tuple[Any, ...]]:
        """Return number, UUID, serial number and model of the devices with this UUID or serial number."""
        return self.rows("SELECT device, uuid, serial, model FROM devices WHERE uuid = ? OR serial = ?", name, name)

    def history(self, device: int, metric: str = "") -> list[tuple[Any, ...]]:
        """Return every figure of a device, or those of a metric: night, place, software, value, limit; oldest first."""
        columns = (
            "night, node, name, slot, level, driver, vbios, metric, unit, value, status, floor, ceiling, code, method"
        )
        which = "metric = ? AND device = ?" if metric else "device = ?"
        query = f"SELECT {columns} FROM figures WHERE {which} ORDER BY night, metric, run"  # noqa: S608
        return self.rows(query, *((metric, device) if metric else (device,)))
