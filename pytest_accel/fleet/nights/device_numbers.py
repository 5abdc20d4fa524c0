"""The numbers by which the figures of a store name its devices."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.nights import database
from pytest_accel.fleet.nights.extract import KeptDevice

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS: Final = {"device": "INTEGER", "uuid": "VARCHAR", "serial": "VARCHAR", "model": "VARCHAR"}
"""The columns of the file with their types."""
ADVICE: Final = "restore it from a copy, or add the records to a new store"
"""The advice on a file that is lost or damaged. Numbers given anew would name other devices."""


class DeviceNumbers:
    """The numbers of the devices of a store. A device is known by UUID and serial number."""

    def __init__(self, connection: DuckDBPyConnection, path: Path, parts: Path, figures: Sequence[Path]) -> None:
        """Read the numbers in the file `path`, which is there unless the store is new.

        `figures` are the figures of all nights, `parts` is a folder for what is written on the way. Raises BadFile.
        """
        self._connection, self._path, self._parts, self._figures = connection, path, parts, figures
        self._known: dict[tuple[str, str], int] = {}
        self._serials: dict[str, list[str]] = {}
        self._rows: list[tuple[int, str, str, str]] = []
        self._changed = False
        if figures and not path.exists():
            raise BadFile(f"{path}: is missing, and the nights name their devices by its numbers; {ADVICE}")
        if path.exists():
            columns = ", ".join(COLUMNS)
            query = f"SELECT {columns} FROM {database.parquet([path])} ORDER BY device"  # noqa: S608
            with database.reading(path, ADVICE):
                rows = connection.execute(query).fetchall()
            for row in rows:
                self._enter(*row)
            self._changed = False
        self._read = len(self._rows)

    def of(self, device: KeptDevice) -> int:
        """Return the number of a device, a new one for a device that was never seen.

        A serial number that is not stated is that of the only device with the UUID, if there is only one.
        """
        known = self._serials.get(device.uuid, [])
        if not device.serial and len(known) == 1:
            return self._known[device.uuid, known[0]]
        if device.serial and known == [""]:
            self._enter(self._known.pop((device.uuid, "")), device.uuid, device.serial, device.model)
        elif (device.uuid, device.serial) not in self._known:
            self._enter(len(self._rows) + 1, device.uuid, device.serial, device.model)
        return self._known[device.uuid, device.serial]

    def _enter(self, number: int, uuid: str, serial: str, model: str) -> None:
        self._known[uuid, serial] = number
        self._serials[uuid] = [*(each for each in self._serials.get(uuid, ()) if each), serial]
        self._rows[number - 1 : number] = [(number, uuid, serial, model)]
        self._changed = True

    def save(self) -> None:
        """Write the numbers, if there are new ones. Raises BadFile if a night has one that it lacks, or OSError."""
        if not self._changed:
            return
        if self._highest() > self._read:
            raise BadFile(f"{self._path}: is older than the nights, which name devices that it lacks; {ADVICE}")
        database.table(self._connection, self._parts / "devices.csv", "numbers", COLUMNS, self._rows)
        database.write(self._connection, "FROM numbers ORDER BY device", self._path)
        self._changed, self._read = False, len(self._rows)

    def _highest(self) -> int:
        """Return the highest number in the nights that can be read; 0 if there is none."""
        highest = 0
        for file in self._figures:
            metadata = f"parquet_metadata({database.files([file])}) WHERE path_in_schema = 'device'"
            query = f"SELECT max(stats_max_value::INTEGER) FROM {metadata}"  # noqa: S608
            with contextlib.suppress(BadFile), database.reading(file):  # which is told of where that night is read
                ((number,),) = self._connection.execute(query).fetchall()
                highest = max(highest, number or 0)
        return highest
