"""The store of a fleet: a folder for each night with one Parquet file of figures, sorted by device, and one of runs.

    STORE/store.json                          the version of the format, and whether all is simulated
    STORE/night=2026-11-23/figures.parquet    every figure of the night
    STORE/night=2026-11-23/runs.parquet       every run of the night

Every file is written beside the one that it replaces, and renamed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_accel.core import untrusted
from pytest_accel.core.groups import grouped
from pytest_accel.core.summary import AHEAD, FINISHED, moment
from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.nights import database
from pytest_accel.fleet.nights.database import literal
from pytest_accel.fleet.nights.extract import Batch, StoredFigure, StoredRun, columns, read_batch
from pytest_accel.fleet.processes import in_processes
from pytest_accel.run.record import replace_file

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA: Final = 1
ABOUT, FIGURES, RUNS = "store.json", "figures.parquet", "runs.parquet"
NIGHT: Final = "night="
DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
LOCK: Final = ".lock"
LEFTOVER: Final = ".adding-"
"""The beginning of the name of a folder in which records are read. One that is there without a lock is left over."""
BATCH: Final = 64
"""Records that a process reads at a time."""
GLOB: Final = frozenset("*?[")
"""Characters that the database takes for a pattern in the name of a file."""

FIGURES_OF: Final = """
    SELECT r.id AS run, r.night, r.node, f.* EXCLUDE (content), r.sku, r.platform, r.level, r.driver
    FROM (SELECT DISTINCT * FROM new_figures) f JOIN new_runs r USING (content)
"""
"""The new figures as the rows of figures.parquet, once for copies of a record."""
SORTED: Final = "ORDER BY node, name, uuid, metric, run"
"""The order of figures.parquet: those of one device lie side by side."""


@dataclass
class Addition:
    """The result of an addition: runs that were added, and files that were not."""

    runs: dict[str, int] = field(default_factory=dict)
    """The number of runs that were added, by night."""
    duplicates: int = 0
    """Runs that the store held already."""
    unread: list[str] = field(default_factory=list)
    """A line on each file that cannot be read, or that contradicts the store: path and reason."""
    passed_over: list[str] = field(default_factory=list)
    """A line on each record that does not count."""


def add(store: Path, paths: Sequence[Path], *, night: date | None = None, simulated: bool = False) -> Addition:
    """Add the runs of some records to a store, to the night of each, or all to `night`. Raises BadFile, or OSError.

    The store is made if it is not there. A run that it holds already is not added again. Another process that adds to
    the same store is waited for.
    """
    if GLOB & set(str(store.absolute())):
        raise BadFile(f"{store}: the name of a store must not hold {', '.join(sorted(GLOB))}")
    if night and night > latest():
        raise BadFile(f"--night: {night} is in the future")
    added = Addition()
    parts = store / f"{LEFTOVER}{secrets.token_hex(8)}"
    with contextlib.closing(database.connect(parts / "room")) as connection:
        store.mkdir(parents=True, exist_ok=True)
        with locked(store):
            _demand_kind(store, simulated=simulated)
            parts.mkdir()
            try:
                pairs = _addable(_read_all(paths, parts, simulated), added, night=night)
                stored = _stored(connection, store, [run.id for run, _ in pairs], parts)
                for tonight, runs in sorted(_by_night(pairs, stored, added).items()):
                    _merge(connection, folder_of(store, tonight.isoformat()), runs, parts)
                    added.runs[tonight.isoformat()] = len(runs)
            finally:
                shutil.rmtree(parts, ignore_errors=True)
    return added


@contextlib.contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock of a store, as one process at a time does that changes it; remove what a killed one left behind.

    The lock ends with the process.
    """
    handle = os.open(store / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for path in store.glob(f"{LEFTOVER}*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for path in [*store.glob(".*.parquet.*"), *store.glob("*/.*.parquet.*")]:
            path.unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)


def latest() -> date:
    """Return the last night that `--night` can name: the day that has begun somewhere on earth."""
    return (datetime.now(timezone.utc) + timedelta(hours=14)).date()


def _demand_kind(store: Path, *, simulated: bool) -> None:
    """Raise BadFile if a store is not one for such records; write `store.json` where it is new."""
    about = store / ABOUT
    if not untrusted.exists(about):
        if nights(store):
            raise BadFile(f"{store}: holds nights, but no {ABOUT}, which says what they are")
        replace_file(about, json.dumps({"schema": SCHEMA, "simulated": simulated}) + "\n")
    if is_simulated(store) != simulated:
        kind, option = ("simulated nodes", "without") if is_simulated(store) else ("hardware", "with")
        raise BadFile(f"{store}: holds runs of {kind}; it cannot be added to {option} --simulated")


def is_simulated(store: Path) -> bool:
    """Return True for a store that holds runs of simulated nodes. Raises BadFile for a folder that is no store."""
    about = store / ABOUT
    if not untrusted.exists(about):
        raise BadFile(f"{store}: is no store: it has no {ABOUT} ('pytest-accel store add' makes one)")
    raw = untrusted.read_json(about)
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA or not isinstance(raw.get("simulated"), bool):
        raise BadFile(f"{about}: is not of a store that this version reads (schema {SCHEMA})")
    return bool(raw["simulated"])


def nights(store: Path) -> list[str]:
    """Return the nights of a store, oldest first: ISO 8601. Raises OSError for a folder that cannot be read."""
    try:
        names = [path.name for path in store.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    days = [name.removeprefix(NIGHT) for name in names if name.startswith(NIGHT) and (store / name / FIGURES).exists()]
    return sorted(night for night in days if DAY.fullmatch(night))


def folder_of(store: Path, night: str) -> Path:
    """Return the folder of a night."""
    return store / f"{NIGHT}{night}"


# -- reading the records


def _read_all(paths: Sequence[Path], parts: Path, rehearsal: bool) -> list[Batch]:
    """Read records, on all processors if they are many. Their figures are written to tables in the folder `parts`."""
    starts = range(0, len(paths), BATCH)
    chunks, tables = [paths[start : start + BATCH] for start in starts], [parts / f"{start}.csv" for start in starts]
    return list(in_processes(read_batch, chunks, tables, [rehearsal] * len(chunks), at_a_time=1))


def _addable(batches: Sequence[Batch], added: Addition, *, night: date | None) -> list[tuple[StoredRun, Path]]:
    """Return the runs that may be added, with the table of their figures. Enters the others in `added`."""
    pairs: list[tuple[StoredRun, Path]] = []
    now = datetime.now(timezone.utc)
    for batch in batches:
        added.unread += batch.unread
        added.passed_over += batch.passed_over
        for run in batch.runs:
            if not night and (moment(run.started) or now) > now + AHEAD:
                reason = f"began at {run.started}, in the future: its node's clock is wrong; --night names the night"
                added.unread.append(f"{run.record}: {reason}")
                continue
            pairs.append((replace(run, night=night or min(run.night, now.date())), batch.part))
    return pairs


# -- merging

StoredStates = Mapping[str, tuple[date, str, str]]
"""Night, state and content of runs that the store holds, by their id."""


def _stored(connection: DuckDBPyConnection, store: Path, ids: Iterable[str], parts: Path) -> StoredStates:
    """Return night, state and content of the runs that are there already. Raises BadFile for unreadable runs."""
    files = [file for night in nights(store) if (file := folder_of(store, night) / RUNS).exists()]
    if not files:
        return {}
    database.table(connection, parts / "wanted.csv", "wanted", {"id": "VARCHAR"}, [(run_id,) for run_id in ids])
    query = f"""
        SELECT id, night, state, content FROM {database.parquet(files)} SEMI JOIN wanted USING (id)
        ORDER BY state = {literal(FINISHED)}, night DESC
    """  # noqa: S608
    with database.reading(store, files):
        return {row[0]: row[1:] for row in connection.execute(query).fetchall()}


def _by_night(
    pairs: Sequence[tuple[StoredRun, Path]], stored: StoredStates, added: Addition
) -> dict[date, list[tuple[StoredRun, Path]]]:
    """Return the runs that the store lacks, by night; one that it holds belongs to the night that holds it.

    A run that has ended replaces what was known of it before it had.
    """
    new: dict[str, tuple[StoredRun, Path]] = {}
    for run, part in sorted(pairs, key=lambda pair: (pair[0].finished, pair[0].ended), reverse=True):
        night, state, content = stored.get(run.id, (run.night, "", ""))
        if run.id in new:
            state, content = new[run.id][0].state, new[run.id][0].content
        if content == run.content or (content and not run.finished):
            added.duplicates += 1
        elif content and state == FINISHED:
            added.unread.append(f"{run.record}: another version of a run that the store holds")
        else:
            new[run.id] = replace(run, night=night), part
    return grouped(new.values(), lambda pair: pair[0].night)


def _merge(connection: DuckDBPyConnection, folder: Path, runs: Sequence[tuple[StoredRun, Path]], parts: Path) -> None:
    """Replace the files of a night by ones that hold these runs as well. Raises BadFile, or OSError."""
    folder.mkdir(exist_ok=True)
    figures, run_file = folder / FIGURES, folder / RUNS
    rows = [tuple(vars(run).values()) for run, _ in runs]
    database.table(connection, parts / "runs.csv", "new_runs", columns(StoredRun), rows)
    tables = database.csv_files(sorted({part for _, part in runs}), columns(StoredFigure))
    connection.execute(f"CREATE OR REPLACE TEMP VIEW new_figures AS FROM {tables}")
    query = FIGURES_OF
    with database.reading(folder, [file for file in (run_file, figures) if file.exists()]):
        if run_file.exists() and figures.exists():
            old_runs = f"FROM {database.parquet([run_file])} ANTI JOIN new_runs USING (id)"
            connection.execute(f"CREATE OR REPLACE TEMP TABLE kept_runs AS {old_runs}")
            old_figures = f"FROM {database.parquet([figures])} WHERE run IN (SELECT id FROM kept_runs)"  # noqa: S608
            query = f"{old_figures} UNION ALL BY NAME {FIGURES_OF}"
        else:  # a night that is new, or whose first addition was killed
            connection.execute("CREATE OR REPLACE TEMP TABLE kept_runs AS FROM new_runs LIMIT 0")
        database.write(connection, f"FROM ({query}) {SORTED}", figures)
        # Last: a run counts as added once it is in runs.parquet. Whoever is killed before adds the same records again,
        # and loses nothing that was there.
        all_runs = "FROM kept_runs UNION ALL BY NAME FROM new_runs"
        database.write(connection, f"{all_runs} ORDER BY node, started, id", run_file)


# -- retention
