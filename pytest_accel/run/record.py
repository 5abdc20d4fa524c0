"""The record of a run: one JSON file, which is replaced atomically while the run goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.verdict import Verdict
from pytest_accel.drivers import registry
from pytest_accel.judging.closing import Circumstances, Closing
from pytest_accel.run.phases import TimeSpent
from pytest_accel.skus.waivers import WaiversEntry

SCHEMA: Final = 1
FILE = "record.json"
TELEMETRY = "telemetry.jsonl"
LOGS = "logs"


class RunEntry(TimeSpent, total=False):
    """The command, host and time of the run. Times are ISO 8601, in UTC."""

    started: str
    ended: str
    host: str
    command: list[str]
    """The command line."""
    level: str
    platform: str
    user: str
    output: str
    """The folder of the record."""
    environment: dict[str, dict[str, str]]
    """The user's settings that may change what is measured: "cleared", which the workers do not inherit, and "kept"."""
    time_limit: float
    """Seconds within which the run had to end; absent without such a limit."""
    simulated: dict[str, Any]
    """The simulated node: node file, SKU, platform, faults, healthy rates. Absent in a run on hardware."""


class SkuEntry(TypedDict, total=False):
    """The SKU that the devices were judged as; empty where none was named or recognised."""

    name: str
    asked: str | None
    """The value of --accel-sku: a name, a file or auto."""
    thresholds: str
    """The version of the shipped threshold files."""
    files: Mapping[str, str]
    """Every threshold file that a value came from, with its SHA-256."""


class EarlierRecord(TypedDict):
    """Another record beside this one that holds one of its devices."""

    record: str
    started: str | None
    state: str | None
    line: str | None
    """Its closing line."""
    devices: list[str]
    """UUIDs of the devices that both records hold."""


class TelemetryFile(TypedDict, total=False):
    """The file with all readings of the sensor, beside the record."""

    file: str
    sha256: str | None


class ClosingEntry(TypedDict, total=False):
    """The closing line of the run; empty until it has ended."""

    line: str
    exit: int
    """The exit status of pytest."""
    word: str
    """The first word of the line."""


class JudgedFrom(TypedDict, total=False):
    """The record that this one judges again; empty in the record of a run."""

    record: str
    sha256: str | None
    judged: str
    """The time at which it was judged again: ISO 8601, in UTC."""


@dataclasses.dataclass
class Record:
    """The results of a run and how it was made. `state` is "running", "interrupted" or "finished"."""

    run: RunEntry
    sku: SkuEntry = dataclasses.field(default_factory=SkuEntry)
    devices: list[Device] = dataclasses.field(default_factory=list)
    """The devices that were found, also those that the user did not choose."""
    software: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Versions of the software by name."""
    measurements: list[Measurement] = dataclasses.field(default_factory=list)
    """Every attempt at every metric, in the order in which they were made."""
    verdicts: list[Verdict] = dataclasses.field(default_factory=list)
    waivers: WaiversEntry = dataclasses.field(default_factory=WaiversEntry)
    notes: list[str] = dataclasses.field(default_factory=list)
    """Sentences that a reader should know besides the verdicts."""
    earlier_attempts: list[EarlierRecord] = dataclasses.field(default_factory=list)
    telemetry: TelemetryFile = dataclasses.field(default_factory=TelemetryFile)
    state: Literal["running", "interrupted", "finished"] = "running"
    closing: ClosingEntry = dataclasses.field(default_factory=ClosingEntry)
    circumstances: Circumstances | None = None
    """Everything besides the verdicts that decided the closing line. None in a run that did not end."""
    judged_from: JudgedFrom = dataclasses.field(default_factory=JudgedFrom)
    """The record (path and SHA-256) that this one judges again; empty in the record of a run."""
    schema: Literal[1] = SCHEMA
    """The version of this format."""


def closing_entry(closing: Closing) -> ClosingEntry:
    """Return the closing line as the record holds it."""
    return ClosingEntry(line=closing.line, exit=closing.exit, word=closing.word)


def write(record: Record, folder: Path) -> None:
    """Replace the record in `folder` atomically. Raises OSError and leaves the old record as it was."""
    text = json.dumps(_plain(record), indent=1, sort_keys=False) + "\n"
    temporary = folder / f".{FILE}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / FILE)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def remove(folder: Path) -> None:
    """Remove the empty record of a run that never began, so that its folder can be used again."""
    for name in (FILE, TELEMETRY):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / LOGS, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def hash_file(path: Path) -> str | None:
    """Return the SHA-256 of a file in hexadecimal, None if the file cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def earlier(folder: Path, uuids: Iterable[str]) -> list[EarlierRecord]:
    """Return an entry for each earlier record beside `folder` that holds any of the devices: path, start and result."""
    wanted = set(uuids)
    entries: list[EarlierRecord] = []
    for path, old in _records(folder):
        shared = {device["uuid"] for device in old["devices"]} & wanted
        if shared:
            entries.append(
                {
                    "record": str(path),
                    "started": old["run"].get("started"),
                    "state": old.get("state"),
                    "line": (old.get("closing") or {}).get("line"),
                    "devices": sorted(shared),
                }
            )
    return entries


def last_accelerators(folder: Path, host: str) -> str | None:
    """Return a sentence if the newest record of this host beside `folder` holds accelerators, else None.

    It is asked where a run finds no accelerator: those that an earlier run found must have vanished. A record without
    any device is passed over, as it comes from a run that missed them already.
    """
    newest: tuple[str, str] | None = None
    for path, old in _records(folder):
        models = [str(each["model"]) for each in old["devices"] if registry.vendor(each["driver"]).accelerator]
        started = str(old["run"].get("started", ""))
        if old["devices"] and old["run"].get("host") == host and started >= (newest or ("",))[0]:
            names = ", ".join(sorted(set(models)))
            sentence = f"the earlier record {path} holds {len(models)} x {names}, but no accelerator is found now"
            newest = (started, sentence if models else "")
    return newest[1] or None if newest else None


def _records(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield path and content of every readable record beside `folder`, by name; without simulated and rejudged ones."""
    for path in sorted(folder.parent.glob(f"*/{FILE}")):
        if path.parent == folder:
            continue
        try:
            old = json.loads(path.read_text(encoding="utf-8"))
            [(each["uuid"], each["model"], each["driver"]) for each in old["devices"]]
            _ = old["run"].get("started"), (old.get("closing") or {}).get("line")
            simulated = old["run"].get("simulated")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if not simulated and not old.get("judged_from"):  # neither is a measurement of hardware
            yield path, old


def _plain(value: Any) -> Any:
    """Return a value in JSON types. NaN and infinities become text, since JSON has no number for them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, str | int | bool) else str(value)
