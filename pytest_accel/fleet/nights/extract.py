"""What the store keeps of a record: the run, its devices, and a figure for each metric of each subject.

A record is read as somebody else's text. Its verdicts are taken as they are: nothing is judged again.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pytest_accel.core import paths, untrusted
from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.run import Run
from pytest_accel.core.summary import FINISHED, Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.run import record, summaries
from pytest_accel.run.record import FILE

WAIVED: Final = "WAIVED"
"""The status of a verdict that would fail the node, if its owner had not accepted that."""
STATUSES: Final = (
    *(each.value for each in Status if each.fails),
    WAIVED,
    *(each.value for each in Status if not each.fails),
)
"""Every status that the store knows, worst first."""
WORST: Final = {each: place for place, each in enumerate(STATUSES)}
"""The place of each status, worst first."""


class NotKept(Exception):
    """A record that the store does not hold; the text says why."""


@dataclass(frozen=True)
class KeptDevice:
    """A device of a run, or the node itself, as the subject of figures."""

    uuid: str
    serial: str
    slot: str
    """Its PCI address."""
    name: str
    model: str
    vbios: str


@dataclass(frozen=True)
class Figure:
    """A verdict with its value. `method` is the hash of method and conditions; empty where nothing can be compared."""

    uuid: str
    metric: str
    unit: str
    method: str
    value: float | None
    status: str
    floor: float | None
    ceiling: float | None
    code: str


@dataclass(frozen=True)
class KeptRun:
    """A run as the store keeps it. `id` is the same for every version of its record, `content` is not."""

    id: str
    content: str
    record: str
    night: date
    node: str
    started: str
    ended: str
    state: str
    word: str
    line: str
    exit: int | None
    sku: str
    platform: str
    level: str
    driver: str
    torch: str
    version: str
    contract: str
    simulated: bool
    devices: Sequence[KeptDevice] = field(default=(), compare=False)
    figures: Sequence[Figure] = field(default=(), compare=False)

    @property
    def finished(self) -> bool:
        """True if the run came to its end."""
        return self.state == FINISHED


def read(path: Path) -> KeptRun:
    """Return what the store keeps of the record at `path`. Raises BadFile, or NotKept for one that does not count."""
    raw = untrusted.read_bytes(path)
    content = hashlib.sha256(raw).hexdigest()
    run = record.parse(untrusted.parse_json(raw, str(path)), path)
    found = summaries.summary(run)
    if found.judged_again:
        raise NotKept("judged again: the record of the run itself counts")
    if found.filtered:
        raise NotKept("a filtered run: it measured less than the level has")
    node = _text(found.host)
    if not node:
        raise NotKept("it names no host")
    identity = "\0".join((found.host, found.started, *sorted(each.uuid for each in run.devices)))
    return KeptRun(
        id=hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        content=content,
        record=_text(str(path.absolute()), 4096),
        night=_night(found.started),
        node=node,
        started=_text(found.started),
        ended=_text(run.run.get("ended")),
        state=_text(found.state),
        word=_text(found.word),
        line=_text(found.line, 1000),
        exit=found.exit if found.exit is not None and 0 <= found.exit < 256 else None,
        sku=_text(found.sku),
        platform=_text(found.terms.get("platform")),
        level=_text(found.terms.get("level")),
        driver=_text(found.terms.get("driver")),
        torch=_text(found.terms.get("torch")),
        version=_text(run.software.get("pytest_accel")),
        contract=_text(run.sku.get("contract", "")),
        simulated=found.simulated,
        devices=[*map(_device, run.devices), KeptDevice(f"{NODE} {node}", "", "", NODE, "", "")],
        figures=list(_figures(run, found, node)) if found.finished else [],
    )


def _night(started: str) -> date:
    """Return the day in UTC on which a run began. Raises NotKept for what is no time."""
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        raise NotKept("it does not say when the run began") from None
    return (moment.astimezone(timezone.utc) if moment.tzinfo else moment).date()


def _device(device: Device) -> KeptDevice:
    return KeptDevice(
        uuid=_text(device.uuid),
        serial=_text(device.serial),
        slot=_text(device.pci_address),
        name=_text(device.name),
        model=_text(device.model),
        vbios=_text(device.facts.get("vbios")),
    )


def _figures(run: Run, found: Summary, node: str) -> Iterator[Figure]:
    """Yield the worst verdict on each metric of each subject, with the figure that a later run is compared with."""
    comparable: dict[tuple[str, str], tuple[float, str]] = {}
    for name, values in found.figures.items():
        metric, _, method = name.rsplit(" ", 2)
        comparable.update({(metric, subject): (value, method) for subject, value in values.items()})
    codes = {(each["metric"], each["subject"]): each["code"] for each in run.findings}
    worst: dict[tuple[str, str], tuple[str, Verdict]] = {}
    for each in run.verdicts:
        place, status = (each.metric, each.subject), _status(each)
        if place not in worst or WORST[status] < WORST[worst[place][0]]:
            worst[place] = status, each
    for (metric, subject), (status, each) in worst.items():
        value, method = comparable.get((metric, subject), (_number(each.value), ""))
        yield Figure(
            uuid=f"{NODE} {node}" if subject == NODE else _text(subject),
            metric=_text(metric),
            unit=_text(each.unit),
            method=method,
            value=value,
            status=status,
            floor=_number(each.floor),
            ceiling=_number(each.ceiling),
            code=_text(codes.get((metric, subject))),
        )


def _status(verdict: Verdict) -> str:
    """Return the status that the store keeps of a verdict."""
    return WAIVED if verdict.status.fails and verdict.waiver else verdict.status.value


@lru_cache(maxsize=10_000)  # the figures of a device share them
def _text(value: Any, most: int = SHOWN) -> str:
    """Return a text from outside as it is kept; empty for what is none."""
    return "" if value is None else printable(str(value), most)


def _number(value: Any) -> float | None:
    """Return a finite number; None for anything else. The file holds it in single precision."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if abs(value) < 3e38 else None


# -- many records


@dataclass
class Batch:
    """The records of some files: the runs without their figures, which are in `part`, and the files left out."""

    part: Path
    runs: list[KeptRun] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    """Files that cannot be read: path and reason."""
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    """Records that do not count: path and reason."""


def read_batch(paths: Sequence[Path], part: Path) -> Batch:
    """Read some records, and write their figures to the table `part`. The process of the caller, or one beside it."""
    batch = Batch(part)
    with part.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for path in paths:
            try:
                run = read(path)
            except BadFile as bad:
                batch.unread.append((str(path), str(bad).removeprefix(f"{path}: ")))
            except NotKept as why:
                batch.passed_over.append((str(path), str(why)))
            else:
                table.writerows((run.content, *vars(each).values()) for each in run.figures)
                batch.runs.append(replace(run, figures=()))
    return batch


FIGURE_COLUMNS: Final = {
    "content": "VARCHAR",
    "uuid": "VARCHAR",
    "metric": "VARCHAR",
    "unit": "VARCHAR",
    "method": "VARCHAR",
    "value": "FLOAT",
    "status": "VARCHAR",
    "floor": "DOUBLE",
    "ceiling": "DOUBLE",
    "code": "VARCHAR",
}
"""The columns of the table of figures with their types: the hash of the record, and the fields of a figure."""


def find(names: Sequence[str]) -> tuple[list[Path], list[tuple[str, str]]]:
    """Return the records that files and folders name, each once, and the folders that cannot be read: path and reason.

    Raises BadFile for a path that holds no record.
    """
    found: dict[str, Path] = {}
    unread: list[tuple[str, str]] = []
    for name in names:
        path = Path(name)
        if not untrusted.exists(path):
            raise BadFile(f"{path}: does not exist; name records, or folders in which runs wrote them")
        closed: list[tuple[str, str]] = []
        files = [path] if not path.is_dir() else paths.files(path, FILE, closed)
        if not files and closed:
            raise BadFile(*map(": ".join, closed))
        if not files:
            raise BadFile(f"{path}: holds no {FILE}; name a folder in which a run wrote its record")
        unread += closed
        for file in files:
            found.setdefault(os.path.realpath(file), file)
    return list(found.values()), unread
