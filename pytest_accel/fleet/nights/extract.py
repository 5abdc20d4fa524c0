"""The part of a record that the store keeps: the run, and a figure for each metric of each subject."""

from __future__ import annotations

import csv
import gc
import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pytest_accel.core.measurement import NODE
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.run import Run
from pytest_accel.core.summary import FINISHED, Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Result, Status, Verdict
from pytest_accel.judging.verdicts.history import parts_of
from pytest_accel.run import folder_summary, record, summaries

WAIVED: Final = "WAIVED"
"""The status of a verdict that would fail the node, if its owner had not accepted that."""
STATUSES: Final = (
    *(status.value for status in Status if status.fails),
    WAIVED,
    *(status.value for status in Status if not status.fails),
)
"""Every status that the store knows, worst first."""
WORST: Final = {status: rank for rank, status in enumerate(STATUSES)}
"""The rank of each status, 0 for the worst."""


SQL_TYPES: Final = {
    "str": "VARCHAR",
    "bool": "BOOLEAN",
    "date": "DATE",
    "int": "INTEGER",
    "int | None": "INTEGER",
    "float | None": "FLOAT",
}


class NotKept(Exception):
    """A record that the store does not hold; the text says why."""


@dataclass(frozen=True)
class StoredFigure:
    """The worst verdict on a metric of a device, or of the node, with its value.

    `method` is the hash of method and conditions; empty where nothing can be compared.
    """

    content: str
    """The hash of the record."""
    uuid: str
    """The UUID of the device; of the node "node", its name, and the lowest UUID of its devices."""
    serial: str
    name: str
    slot: str
    """Its PCI address."""
    model: str
    vbios: str
    metric: str
    unit: str
    method: str
    value: float | None
    status: str
    floor: float | None
    ceiling: float | None
    code: str


@dataclass(frozen=True)
class StoredRun:
    """A run as the store keeps it. `id` is the same for every version of its record, `content` is not."""

    id: str
    content: str
    record: str
    night: date
    node: str
    started: str
    ended: str
    state: str
    result: str
    line: str
    exit: int | None
    sku: str
    platform: str
    level: str
    driver: str
    torch: str
    version: str
    simulated: bool
    uuids: str
    """Those of its devices, with spaces between them."""

    @property
    def finished(self) -> bool:
        """True if the run came to its end."""
        return self.state == FINISHED


def columns(row_type: type[StoredFigure | StoredRun]) -> dict[str, str]:
    """Return the columns of the rows of a file of the store, with their types."""
    return {column.name: SQL_TYPES[str(column.type)] for column in fields(row_type)}


def read(path: Path, *, rehearsal: bool = False) -> tuple[StoredRun, list[StoredFigure]]:
    """Return run and figures of the record at `path`. Raises BadFile, or NotKept for one that does not count."""
    run = record.read(path, rehearsal=rehearsal)
    summary = folder_summary.of_series(summaries.summary(run), run)
    if summary.judged_again:
        raise NotKept("judged again: the record of the run itself counts")
    if summary.filtered:
        raise NotKept("a filtered run: it measured less than the level has")
    if run.objections:
        raise BadFile(f"{path}: is not believed: {run.objections[0]}")
    if not summary.host:
        raise NotKept("it names no host")
    if summary.began is None:
        raise NotKept("it does not say when the run began")
    uuids = sorted(device.uuid for device in run.devices)
    identity = "\0".join((summary.host, summary.started, *uuids)).encode("utf-8", "surrogatepass")
    stored = StoredRun(
        id=hashlib.sha256(identity).hexdigest()[:16],
        content=run.file_sha256,
        record=_text(str(path.absolute()), 4096),
        night=summary.began.astimezone(timezone.utc).date(),
        node=_text(summary.host),
        started=_text(summary.started),
        ended=_text(run.info.get("ended")),
        state=_text(summary.state),
        result=Result.words(summary.result),
        line=_text(summary.line, 1000),
        exit=summary.exit if summary.exit is not None and 0 <= summary.exit < 256 else None,
        sku=_text(summary.sku),
        platform=_text(summary.terms.get("platform")),
        level=_text(summary.terms.get("level")),
        driver=_text(summary.terms.get("driver")),
        torch=_text(summary.terms.get("torch")),
        version=_text(run.software.get("pytest_accel")),
        simulated=summary.simulated,
        uuids=" ".join(map(_text, uuids)),
    )
    return stored, list(_figures(run, summary, stored)) if summary.finished else []


def _figures(run: Run, summary: Summary, stored: StoredRun) -> Iterator[StoredFigure]:
    """Yield the worst verdict on each metric of each subject, with the figure that a later run is compared with."""
    comparable: dict[tuple[str, str], tuple[float, str]] = {}
    for name, values in summary.figures.items():
        metric, _, method = parts_of(name)
        comparable.update({(metric, subject): (value, method) for subject, value in values.items()})
    codes = {(finding["metric"], finding["subject"]): finding["code"] for finding in run.findings}
    worst: dict[tuple[str, str], tuple[str, Verdict]] = {}
    # The verdicts are taken as they are: nothing is judged again.
    for verdict in run.verdicts:
        key = verdict.metric, verdict.subject
        status = WAIVED if verdict.status.fails and verdict.waiver else verdict.status.value
        if key not in worst or WORST[status] < WORST[worst[key][0]]:
            worst[key] = status, verdict
    node = f"{NODE} {stored.node} {stored.uuids.partition(' ')[0]}".rstrip()
    subjects: dict[str, tuple[object, ...]] = {}
    for device in run.devices:
        identity = device.uuid, device.serial, device.name, device.pci_address, device.model
        subjects[device.uuid] = *identity, device.facts.get("vbios")
    subjects[NODE] = (node, "", NODE, "", "", "")
    for (metric, subject), (status, verdict) in worst.items():
        if subject not in subjects:
            continue
        value, method = comparable.get((metric, subject), (_number(verdict.value), ""))
        uuid, serial, name, slot, model, vbios = map(_text, subjects[subject])
        yield StoredFigure(
            *(stored.content, uuid, serial, name, slot, model, vbios),
            metric=_text(metric),
            unit=_text(verdict.unit),
            method=method,
            value=value,
            status=status,
            floor=_number(verdict.floor),
            ceiling=_number(verdict.ceiling),
            code=_text(codes.get((metric, subject))),
        )


@lru_cache(maxsize=10_000)  # the figures of a device share them
def _text(value: Any, most: int = SHOWN) -> str:
    """Return a text from outside as it is kept; empty for None."""
    return "" if value is None else printable(str(value), most)


def _number(value: Any) -> float | None:
    """Return a finite number; None for anything else. The file holds it in single precision."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if abs(value) < 3e38 else None


# -- many records


@dataclass
class Batch:
    """The records of some files: the runs, their figures in the file `part`, and the files left out."""

    part: Path
    runs: list[StoredRun] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """A line on each file that cannot be read: path and reason."""
    passed_over: list[str] = field(default_factory=list)
    """A line on each record that does not count."""


def read_batch(paths: Sequence[Path], part: Path, rehearsal: bool) -> Batch:
    """Read some records, and write their figures to the table `part`. The process of the caller, or one beside it."""
    batch = Batch(part)
    collects = gc.isenabled()
    gc.disable()  # a record is 50,000 objects without a cycle, and a quarter of the time went into looking for one
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            for path in paths:
                try:
                    run, figures = read(path, rehearsal=rehearsal)
                except BadFile as bad:
                    batch.unread.append(str(bad))
                except NotKept as reason:
                    batch.passed_over.append(f"{path}: {reason}")
                else:
                    table.writerows(vars(figure).values() for figure in figures)
                    batch.runs.append(run)
    finally:
        if collects:
            gc.enable()
    return batch


def find(names: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the records that files and folders name, each once, and a line on each folder that cannot be read.

    Raises BadFile for a path that holds no record.
    """
    unread: list[str] = []
    files: dict[str, Path] = {}
    for name in names:
        for file in record.files_below(Path(name), unread):
            files.setdefault(os.path.realpath(file), file)
    return list(files.values()), unread
