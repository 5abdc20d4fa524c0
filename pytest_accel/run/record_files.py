"""The files of a record, read through one handle of their folder, so that what was hashed is what is used."""

from __future__ import annotations

import hashlib
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.untrusted import BadFile


class RecordFiles(AbstractContextManager["RecordFiles"]):
    """The record at a path and the files beside it."""

    def __init__(self, path: Path, *, follow: bool = True) -> None:
        """Open the folder of a record. `follow` is that of `untrusted.read_bytes`. Raises BadFile."""
        self.path = path
        self._follow = follow
        self._sums: dict[str, str | None] = {}
        self._folder = untrusted.open_folder(path)  # the handle stays the same if the folder is exchanged

    def __exit__(self, *error: object) -> None:
        os.close(self._folder)

    def _beside(self, name: str) -> Path:
        """Return the path of a file. Raises BadFile for a name that leads out of the folder."""
        if name != Path(name).name:
            raise BadFile(f"{self.path}: {printable(name, SHOWN)!r} is not the name of a file beside it")
        return self.path.with_name(name)

    def has(self, name: str) -> bool:
        """Return True if there is anything under a name. Raises BadFile."""
        return untrusted.exists(self._beside(name), folder=self._folder)

    def read(self, name: str, most: int = untrusted.JSON_BYTES) -> bytes:
        """Return the bytes of a file of at most so many. Raises BadFile."""
        path = self._beside(name)
        content = untrusted.read_bytes(path, most=most, follow=self._follow, folder=self._folder)
        sha256 = hashlib.sha256(content).hexdigest()
        # somebody who can write there may exchange a file at any moment; one that is read twice has to be the same
        if self._sums.setdefault(name, sha256) != sha256:
            raise BadFile(f"{path}: was changed while it was read")
        return content

    def record(self, most: int = untrusted.JSON_BYTES) -> Any:
        """Return the content of the record. Raises BadFile."""
        return untrusted.parse_json(self.read(self.path.name, most), str(self.path))

    def sha256(self, name: str) -> str | None:
        """Return the SHA-256 of a file, of the bytes that `read` returned if it did; None if it cannot be read."""
        if name not in self._sums:
            self._sums[name] = untrusted.sha256(self._beside(name), follow=self._follow, folder=self._folder)
        return self._sums[name]
