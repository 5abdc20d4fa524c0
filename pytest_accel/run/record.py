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
from typing import Any

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.verdict import Verdict
from pytest_accel.judging.closing import Circumstances

SCHEMA = 1
FILE = "record.json"
TELEMETRY = "telemetry.jsonl"
LOGS = "logs"


@dataclasses.dataclass
class Record:
    """Everything that a run found and how it was made. `state` is "running", "interrupted" or "finished"."""

    run: dict[str, Any]
    sku: dict[str, Any] = dataclasses.field(default_factory=dict)
    devices: list[Device] = dataclasses.field(default_factory=list)
    software: dict[str, Any] = dataclasses.field(default_factory=dict)
    measurements: list[Measurement] = dataclasses.field(default_factory=list)
    verdicts: list[Verdict] = dataclasses.field(default_factory=list)
    waivers: dict[str, Any] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    earlier_attempts: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    telemetry: dict[str, Any] = dataclasses.field(default_factory=dict)
    state: str = "running"
    closing: dict[str, Any] = dataclasses.field(default_factory=dict)
    circumstances: Circumstances | None = None
    """Everything besides the verdicts that decided the closing line. None in a run that did not end."""
    judged_from: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The record (path and SHA-256) that this one judges again; empty in the record of a run."""
    schema: int = SCHEMA


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


def earlier(folder: Path, uuids: Iterable[str]) -> list[dict[str, Any]]:
    """Return an entry for each earlier record beside `folder` that holds any of the devices: path, start and result."""
    wanted = set(uuids)
    entries = []
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
        models = [str(each["model"]) for each in old["devices"] if each["driver"] != "cpu"]
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
