"""The store of a fleet: a folder for each night with one sorted Parquet file of figures and one of runs.

    STORE/store.json                          the version of the format, and whether all is simulated
    STORE/devices.parquet                     the number of every device, by UUID and serial number
    STORE/night=2026-11-23/figures.parquet    every figure of the night
    STORE/night=2026-11-23/runs.parquet       every run of the night
    STORE/by-device/2026-W47-*.parquet        every figure of a week that is over, sorted by device (module by_device)

Every file is written beside the one that it replaces, and renamed. A run counts as added once it is in runs.parquet,
which is written last, so whoever is killed adds the same records again, and loses nothing that was there.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_accel.core import untrusted
from pytest_accel.core.summary import AHEAD, FINISHED, moment
from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.nights import by_device, damage, database
from pytest_accel.fleet.nights.database import literal
from pytest_accel.fleet.nights.device_numbers import DeviceNumbers
from pytest_accel.fleet.nights.extract import FIGURE_COLUMNS, Batch, KeptDevice, KeptRun, read_batch
from pytest_accel.fleet.nights.lock import LEFTOVER, locked
from pytest_accel.run.record import replace_file

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA: Final = 1
ABOUT, DEVICES, FIGURES, RUNS = "store.json", "devices.parquet", "figures.parquet", "runs.parquet"
NIGHT: Final = "night="
BATCH: Final = 64
"""Records that a process reads at a time."""
GLOB: Final = frozenset("*?[")
"""Characters that the database takes for a pattern in the name of a file."""

RUN_COLUMNS: Final = {
    "run": "INTEGER",
    "id": "VARCHAR",
    "content": "VARCHAR",
    "record": "VARCHAR",
    "night": "DATE",
    "node": "VARCHAR",
    "started": "VARCHAR",
    "ended": "VARCHAR",
    "state": "VARCHAR",
    "word": "VARCHAR",
    "line": "VARCHAR",
    "exit": "INTEGER",
    "sku": "VARCHAR",
    "platform": "VARCHAR",
    "level": "VARCHAR",
    "driver": "VARCHAR",
    "torch": "VARCHAR",
    "version": "VARCHAR",
    "contract": "VARCHAR",
    "devices": "INTEGER",
}
"""The columns of runs.parquet with their types."""
PLACE_COLUMNS: Final = {
    "content": "VARCHAR",
    "uuid": "VARCHAR",
    "device": "INTEGER",
    "name": "VARCHAR",
    "slot": "VARCHAR",
    "vbios": "VARCHAR",
}
"""The columns of the table that says which device a UUID of a run is, and where it was."""
JOINED: Final = """
    SELECT f.metric, r.sku, r.node, p.name, p.device, r.run, r.night, r.platform, r.level, r.driver, p.vbios, p.slot,
           f.unit, f.method, f.value, f.status, f.floor, f.ceiling, f.code
    FROM new_figures f JOIN new_runs r USING (content) JOIN places p USING (content, uuid)
"""
"""The new figures as the rows of figures.parquet."""
SORTED: Final = "ORDER BY metric, sku, node, name, run"


@dataclass
class Added:
    """What became of the files that were to be added."""

    runs: dict[str, int] = field(default_factory=dict)
    """The number of runs that were added, by night."""
    known: int = 0
    """Runs that the store held already."""
    unread: list[tuple[str, str]] = field(default_factory=list)
    """Files that cannot be read, or that contradict the store: path and reason."""
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    """Records that do not count: path and reason."""
    damaged: dict[Path, str] = field(default_factory=dict)
    """Files of nights that cannot be read, with the reason and what to do."""
    refused: dict[str, int] = field(default_factory=dict)
    """The number of runs that were not added since their night is damaged, by night."""


def add(store: Path, paths: Sequence[Path], *, night: date | None = None, simulated: bool = False) -> Added:
    """Add the runs of some records to a store, to the night of each, or all to `night`. Raises BadFile, or OSError.

    The store is made if it is not there. A run that it holds already is not added again. Another process that adds to
    the same store is waited for.
    """
    if GLOB & set(str(store.absolute())):
        raise BadFile(f"{store}: the name of a store must not hold {', '.join(sorted(GLOB))}")
    if night and night > latest():
        raise BadFile(f"--night: {night} is in the future")
    added = Added()
    parts = store / f"{LEFTOVER}{secrets.token_hex(8)}"
    with contextlib.closing(database.connect(parts / "room")) as connection:
        store.mkdir(parents=True, exist_ok=True)
        with locked(store):
            _demand_kind(store, simulated=simulated)
            parts.mkdir()
            try:
                wanted = _wanted(_read_all(paths, parts), added, night=night, simulated=simulated)
                _merge(connection, store, _by_night(connection, store, wanted, parts, added), parts, added)
                _complete_weeks(connection, store, added)
            finally:
                shutil.rmtree(parts, ignore_errors=True)
    return added


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
        here, asked = ("simulated nodes", "without") if is_simulated(store) else ("hardware", "with")
        raise BadFile(f"{store}: holds runs of {here}; it cannot be added to {asked} --simulated")


def is_simulated(store: Path) -> bool:
    """Return whether a store holds runs of simulated nodes. Raises BadFile for a folder that is no store."""
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
        names = [each.name for each in store.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [each.removeprefix(NIGHT) for each in names if each.startswith(NIGHT) and (store / each / FIGURES).exists()]
    return sorted(each for each in found if _is_day(each))


def figures(store: Path) -> dict[str, Path]:
    """Return the file of the figures of every night of a store, oldest first."""
    return {night: folder_of(store, night) / FIGURES for night in nights(store)}


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def folder_of(store: Path, night: str) -> Path:
    """Return the folder of a night."""
    return store / f"{NIGHT}{night}"


# -- reading the records


def _read_all(paths: Sequence[Path], parts: Path) -> list[Batch]:
    """Read records, on all processors if they are many. Their figures are written to tables in the folder `parts`."""
    tasks = [(paths[at : at + BATCH], parts / f"{at}.csv") for at in range(0, len(paths), BATCH)]
    workers = min(os.cpu_count() or 1, len(tasks))
    if workers < 2:
        return [read_batch(*task) for task in tasks]
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    spawn = multiprocessing.get_context("spawn")  # the database has threads, which a fork would break
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        return list(pool.map(read_batch, *zip(*tasks, strict=True)))


def _wanted(
    batches: Sequence[Batch], added: Added, *, night: date | None, simulated: bool
) -> list[tuple[KeptRun, Path]]:
    """Return the runs that may be added, with the table of their figures. Enters the others in `added`."""
    chosen: list[tuple[KeptRun, Path]] = []
    now = datetime.now(timezone.utc)
    for batch in batches:
        added.unread += batch.unread
        added.passed_over += batch.passed_over
        for run in batch.runs:
            if run.simulated != simulated:
                what = (
                    "simulated: only --simulated adds it, to a store of its own" if run.simulated else "not simulated"
                )
                added.unread.append((run.record, what))
                continue
            if not night and (moment(run.started) or now) > now + AHEAD:
                what = f"began at {run.started}, in the future: its node's clock is wrong; --night names the night"
                added.unread.append((run.record, what))
                continue
            chosen.append((replace(run, night=night or min(run.night, now.date())), batch.part))
    return chosen


# -- merging


def _by_night(
    connection: DuckDBPyConnection, store: Path, wanted: Sequence[tuple[KeptRun, Path]], parts: Path, added: Added
) -> dict[str, list[tuple[KeptRun, Path]]]:
    """Return runs by night. One that the store holds already, ended or not, belongs to the night that holds it.

    Enters the files of runs that cannot be read in `added`. Which runs these hold is not known.
    """
    files = [file for each in nights(store) if (file := folder_of(store, each) / RUNS).exists()]
    held: dict[str, date] = {}
    if wanted and files:
        ids = sorted({(run.id,) for run, _ in wanted})
        database.table(connection, parts / "wanted.csv", "wanted", {"id": "VARCHAR"}, ids)
        try:
            held = _held(connection, store, files)
        except BadFile:
            added.damaged |= damage.damaged(connection, files)
            if not added.damaged:
                raise
            held = _held(connection, store, [each for each in files if each not in added.damaged])
    by_night: dict[str, list[tuple[KeptRun, Path]]] = {}
    for run, part in wanted:
        night = held.get(run.id, run.night)
        by_night.setdefault(night.isoformat(), []).append((replace(run, night=night), part))
    return by_night


def _held(connection: DuckDBPyConnection, store: Path, files: Sequence[Path]) -> dict[str, date]:
    """Return the night that holds each run of the table `wanted`, given files of runs. Raises BadFile."""
    if not files:
        return {}
    query = f"""
        SELECT id, night FROM {database.parquet(files)} SEMI JOIN wanted USING (id)
        ORDER BY state = {literal(FINISHED)}, night DESC
    """  # noqa: S608
    with database.reading(store):
        return dict(connection.execute(query).fetchall())


def _merge(
    connection: DuckDBPyConnection,
    store: Path,
    chosen: Mapping[str, Sequence[tuple[KeptRun, Path]]],
    parts: Path,
    added: Added,
) -> None:
    """Add runs to their nights, one night after the other. Nothing is added to a night that cannot be read."""
    numbers = DeviceNumbers(connection, store / DEVICES, parts, list(figures(store).values()))
    for night in sorted(chosen):
        folder, runs = folder_of(store, night), list(chosen[night])
        file = folder / RUNS
        try:
            runs, kept = _new(runs, _old_runs(connection, folder), added)
            file = folder / FIGURES
            if runs and file.exists():
                damage.demand_whole(connection, file)
        except BadFile as bad:
            added.damaged[file], added.refused[night] = str(bad), len(runs)
            continue
        if not runs:
            continue
        places = [(run.content, each, numbers.of(each)) for run, _ in runs for each in run.devices]
        numbers.save()
        _write_night(connection, folder, runs, kept, places=places, parts=parts)
        added.runs[night] = len(runs)


def _complete_weeks(connection: DuckDBPyConnection, store: Path, added: Added) -> None:
    """Make the missing files of weeks that are over. A week with a night that cannot be read gets none."""
    every = figures(store)
    weeks = by_device.by_week(every)
    for week, file in by_device.files_of(store, every).items():
        some = [every[night] for night in weeks[week]]
        try:
            if not file.exists():
                by_device.make(connection, some, file)
        except BadFile:
            found = damage.damaged(connection, some)
            if not found:
                raise
            added.damaged |= found
    by_device.clear(store, every)


def _old_runs(connection: DuckDBPyConnection, folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a night's runs, none if the figures of these runs are not there. Raises BadFile."""
    file = folder / RUNS
    if not file.exists() or not (folder / FIGURES).exists():
        return []
    query = f"SELECT {', '.join(RUN_COLUMNS)} FROM {database.parquet([file])}"  # noqa: S608
    with database.reading(file, damage.advice(file)):
        return connection.execute(query).fetchall()


def _new(
    runs: Sequence[tuple[KeptRun, Path]], old: Sequence[tuple[Any, ...]], added: Added
) -> tuple[list[tuple[KeptRun, Path]], list[tuple[Any, ...]]]:
    """Return the runs that a night lacks, and the rows of its runs that stay.

    A run that has ended replaces what was known of it before it had.
    """
    place = {name: at for at, name in enumerate(RUN_COLUMNS)}
    before = {row[place["id"]]: row for row in old}
    new: dict[str, tuple[KeptRun, Path]] = {}
    for run, part in sorted(runs, key=lambda each: (each[0].finished, each[0].ended), reverse=True):
        known = before.get(run.id)
        state, content = (known[place["state"]], known[place["content"]]) if known else ("", "")
        if run.id in new:
            state, content = new[run.id][0].state, new[run.id][0].content
        if content == run.content or (content and not run.finished):
            added.known += 1
        elif content and state == FINISHED:
            added.unread.append((run.record, "another version of a run that the store holds"))
        else:
            new[run.id] = run, part
    return list(new.values()), [row for row in old if row[place["id"]] not in new]


def _write_night(
    connection: DuckDBPyConnection,
    folder: Path,
    runs: Sequence[tuple[KeptRun, Path]],
    kept: Sequence[tuple[Any, ...]],
    *,
    places: Sequence[tuple[str, KeptDevice, int]],
    parts: Path,
) -> None:
    """Replace the files of a night by ones that hold the runs `kept` and new ones."""
    folder.mkdir(exist_ok=True)
    first = 1 + max((row[0] for row in kept), default=0)
    rows = [
        _run_row(number, run)
        for number, (run, _) in enumerate(
            sorted(runs, key=lambda each: (each[0].sku, each[0].node, each[0].started)), start=first
        )
    ]
    database.table(connection, parts / "kept.csv", "kept_runs", RUN_COLUMNS, kept)
    database.table(connection, parts / "runs.csv", "new_runs", RUN_COLUMNS, rows)
    spots = [(content, each.uuid, number, each.name, each.slot, each.vbios) for content, each, number in places]
    database.table(connection, parts / "places.csv", "places", PLACE_COLUMNS, spots)
    tables = sorted({part for _, part in runs})
    view = f"SELECT DISTINCT * FROM {database.csv_files(tables, FIGURE_COLUMNS)}"  # noqa: S608  once for copies of a record
    connection.execute(f"CREATE OR REPLACE TEMP VIEW new_figures AS {view}")
    old = folder / FIGURES
    every = JOINED
    if old.exists():
        every = f"SELECT * FROM {database.parquet([old])} WHERE run IN (SELECT run FROM kept_runs) UNION ALL {JOINED}"  # noqa: S608
    database.write(connection, f"{every} {SORTED}", old)
    database.write(connection, "FROM kept_runs UNION ALL FROM new_runs ORDER BY run", folder / RUNS)


def _run_row(number: int, run: KeptRun) -> tuple[Any, ...]:
    """Return a run as a row of runs.parquet. The node is not one of its devices."""
    values = {each.name: getattr(run, each.name) for each in fields(run)}
    return tuple({**values, "run": number, "devices": len(run.devices) - 1}[name] for name in RUN_COLUMNS)


# -- retention


@dataclass(frozen=True)
class StoredNight:
    """A night of a store, and the space that its files take."""

    night: str
    bytes: int


def sizes(store: Path) -> list[StoredNight]:
    """Return the nights of a store with their space, oldest first; each with its share of the file of its week."""
    files, found = by_device.files_of(store, figures(store)), []
    for week, some in by_device.by_week(nights(store)).items():
        shared = _size(files[week]) // len(some) if week in files else 0
        found += [
            StoredNight(each, shared + sum(_size(folder_of(store, each) / name) for name in (FIGURES, RUNS)))
            for each in some
        ]
    return found


def _size(path: Path) -> int:
    """Return the size of a file, 0 if it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def prune(store: Path, gone: Collection[str]) -> None:
    """Remove nights. Raises OSError."""
    with locked(store):
        for night in gone:
            _remove(folder_of(store, night))
        by_device.clear(store, figures(store))


def _remove(folder: Path) -> None:
    """Remove a night. Runs go first: figures without a run are those of a night that is being added."""
    for name in (RUNS, FIGURES):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
