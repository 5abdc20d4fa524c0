"""Some nights of a store as tables of a database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.nights import by_device, damage, database, store


class Tables:
    """Some nights of a store, and the questions on one device."""

    def __init__(self, path: Path, nights: Sequence[str]) -> None:
        """Raise BadFile for a store without these nights."""
        self.path, self.nights = path, list(nights)
        self.left_out: dict[str, str] = {}
        """Nights whose figures cannot be read, with the reason and what to do."""
        known = store.nights(path)
        for night in self.nights:
            if night not in known:
                raise BadFile(f"{path}: holds no night {night}; its nights are {', '.join(known[-3:]) or 'none'}")
        if not self.nights:
            raise BadFile(f"{path}: holds no night")
        self.simulated = store.is_simulated(path)
        self._db = database.connect()
        try:
            self._open()
        except BadFile:
            self.close()
            raise

    def _open(self) -> None:
        """Make the tables. Raises BadFile."""
        devices = self.path / store.DEVICES
        if not devices.exists():
            raise BadFile(f"{devices}: is missing; the records can be added to a new store")
        with database.reading(devices):
            self._db.execute(f"CREATE TEMP VIEW devices AS FROM {database.parquet([devices])}")

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def view(self, name: str, files: Sequence[Path], where: str = "") -> None:
        """Make a view of files of nights. Raises BadFile if the first is missing or cannot be read."""
        first = files[0]
        if not first.exists():
            raise BadFile(f"{first}: is missing; add the records of that night again")
        with database.reading(first, damage.advice(first)):
            self._db.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {database.parquet(files)}{where}")

    def figures_of(self, night: str) -> Path:
        """Return the file of the figures of a night."""
        return store.folder_of(self.path, night) / store.FIGURES

    def leave_out(self, nights: Iterable[str]) -> bool:
        """Leave out those of some nights whose figures cannot be read; return whether there are any."""
        files = {self.figures_of(night): night for night in nights}
        found = {files[file]: why for file, why in damage.damaged(self._db, files).items()}
        self.left_out |= found
        self.nights = [night for night in self.nights if night not in found]
        return bool(found)

    def rows(self, query: str, *parameters: object, **named: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds. Raises BadFile if a file of the store cannot be read."""
        with database.reading(self.path):
            return self._db.execute(query, named or list(parameters)).fetchall()

    def execute(self, query: str, *parameters: object) -> None:
        """Do what a statement says. Raises BadFile if a file of the store cannot be read."""
        with database.reading(self.path):
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
        """Return every figure of a device, or those of a metric, as `by_device.COLUMNS`; oldest first.

        They are read from the files of weeks as far as there are any, and else from those of the nights. Nights whose
        figures cannot be read are left out.
        """
        weeks = by_device.by_week(self.nights)
        made = by_device.files_of(self.path, store.figures(self.path))
        files = {week: made[week] for week in weeks if week in made and made[week].exists()}
        nights = [night for week, some in weeks.items() if week not in files for night in some]
        try:
            return self._history(device, metric, list(files.values()), nights)
        except BadFile:  # a week that is damaged, or was just removed by `store add`: the nights hold the same
            bad = damage.damaged(self._db, files.values())
            files = {week: file for week, file in files.items() if file not in bad}
            nights = [night for week, some in weeks.items() if week not in files for night in some]
            if not self.leave_out(nights) and not bad:
                raise
            if not self.nights:
                raise BadFile(next(iter(self.left_out.values()))) from None
            nights = [night for night in nights if night not in self.left_out]
            return self._history(device, metric, list(files.values()), nights)

    def _history(self, device: int, metric: str, weeks: Sequence[Path], nights: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the figures of a device that are in files of weeks and of nights. Raises BadFile."""
        sources = [weeks, [self.figures_of(night) for night in nights]]
        every = " UNION ALL ".join(
            f"SELECT device, run, {by_device.COLUMNS} FROM {database.parquet(files)}"  # noqa: S608
            for files in sources
            if files
        )
        query = f"""
            SELECT {by_device.COLUMNS} FROM ({every})
            WHERE device = ? AND night BETWEEN ? AND ? {"AND metric = ?" if metric else ""}
            ORDER BY night, metric, run
        """  # noqa: S608
        return self.rows(query, device, self.nights[0], self.nights[-1], *([metric] if metric else []))
