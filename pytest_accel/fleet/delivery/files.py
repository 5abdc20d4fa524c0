"""Finds the records of a delivery in a folder, at any depth, and everything there that may hide one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_accel.core import paths
from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.jobs import run_folder
from pytest_accel.run import record, series, statement, summaries

NO_RECORDS = (summaries.SUMMARY, run_folder.FILE, series.FILE, statement.STATEMENT)
"""JSON files of ours that are no records."""
LEFT_BY_A_RUN = (record.FILE, summaries.SUMMARY, record.TELEMETRY)
"""Beginnings of the names of files beside which there has to be a record."""


@dataclass(frozen=True)
class DeliveryFiles:
    """The files of a delivery."""

    records: Sequence[Path]
    """Every record.json, and the other JSON files, which may be records under names of their own."""
    runs: Sequence[Path]
    """The folders of runs of a fleet, which say what nodes were to be examined."""
    unreadable: Sequence[str]
    """A line, path and reason, on every place where a record may be that cannot be read."""


def find(folder: Path) -> DeliveryFiles:
    """Return the files below a folder; links are followed. Raises BadFile if it is none, or holds no JSON file."""
    if not folder.is_dir():
        raise BadFile(f"{folder}: is not a folder; name the one that holds the records of the nodes")
    records: list[Path] = []
    runs: list[Path] = []
    unreadable: list[str] = []
    for path, names in paths.folders(folder, unreadable, links=True):
        json_files = [path / name for name in names if name.endswith(".json") and name not in NO_RECORDS]
        records += json_files
        runs += [path] if run_folder.FILE in names else []
        leftovers = [name for name in names if name.lower().startswith(LEFT_BY_A_RUN)]
        # The runs of a series lie in folders of their own.
        if leftovers and not json_files and series.FILE not in names:
            unreadable.append(f"{path}: has {leftovers[0]}, as a run leaves it, and no {record.FILE}")
        links = [path / name for name in names if (path / name).is_symlink() and not os.access(path / name, os.F_OK)]
        unreadable += [f"{link}: is a link that leads nowhere" for link in links if link.suffix != ".json"]
    if not records and not unreadable:
        raise BadFile(f"{folder}: holds no record; name the folder that the runs wrote into (--accel-output)")
    return DeliveryFiles(records, runs, unreadable)
