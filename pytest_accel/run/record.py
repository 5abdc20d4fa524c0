"""The record of a run: one JSON file, which is replaced atomically while the run goes on, and read back as a `Run`.

Beside it lies a summary of a few hundred bytes, by which later runs know of this one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_accel.core import paths, structured, untrusted
from pytest_accel.core.measurement import NODE, Device, Names
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.run import (
    SCHEMA,
    FindingEntry,
    PackingListEntry,
    Run,
    SkuEntry,
)
from pytest_accel.core.sku_types import Limit, Sku
from pytest_accel.core.untrusted import BadFile
from pytest_accel.judging.causes.findings import Finding, Key, findings
from pytest_accel.judging.closing import anew
from pytest_accel.judging.verdicts.history import stored_pasts
from pytest_accel.run import summaries
from pytest_accel.run.record_files import RecordFiles
from pytest_accel.skus.packing_list import PackingList

FILE = "record.json"
TELEMETRY = "telemetry.jsonl"
PACKED = f"{TELEMETRY}.gz"
"""The name of the same file once the run has ended."""
LOGS = "logs"
DIAGNOSTIC = "vendor-diagnostic.json"
"""The output of the vendor's diagnostic."""
BUG_REPORTS = ("vendor-bug-report.log.gz", "vendor-bug-report.log")
"""The names of the vendor's bug report, packed and not."""


def sku_entry(sku: Sku, option: str | None, metrics: Collection[str] = ()) -> SkuEntry:
    """Return the record's entry of the SKU that devices are judged as; `option` is the value of --accel-sku.

    `metrics` are those that were measured.
    """
    spread = {metric: value for metric in sorted(metrics) if (value := sku.spread_of(metric))}
    return SkuEntry(name=sku.name, asked=option, files=sku.files, spread=spread)


def packing_entry(boards: PackingList) -> PackingListEntry:
    """Return a packing list as the record holds it."""
    return PackingListEntry(
        file=boards.file, sha256=boards.sha256, boards=len(boards.rows), names_nodes=bool(boards.by_node)
    )


def names_of(record: Run) -> Names:
    """Return the display names of a record, by subject (the UUID of a device, or NODE)."""
    return Names.of(record.devices)


def findings_of(record: Run) -> dict[Key, Finding]:
    """Return the findings of a record by the key of their verdict, as today's version chooses them."""
    return findings(record.verdicts, record.measurements, record.devices)


def finding_entries(record: Run) -> list[FindingEntry]:
    """Return the findings of a record as the record holds them."""
    return [
        FindingEntry(
            metric=metric,
            subject=subject,
            origin=origin,
            code=finding.code,
            name=finding.fault_code.name,
            severity=finding.severity.value,
            action=finding.action.value,
            do=finding.next_step,
            vendor=finding.vendor,
        )
        for (metric, subject, origin), finding in findings_of(record).items()
    ]


def locations_of(record: Run) -> dict[str, str]:
    """Return serial number and PCI address of each device as far as they are known, by UUID.

    That of the node names the devices of an earlier run that were not found.
    """
    parts = {
        device.uuid: (
            f"serial {device.serial}" if device.serial else "",
            f"PCI {device.pci_address}" if device.pci_address else "",
        )
        for device in record.devices
    }
    descriptions = {uuid: ", ".join(filter(None, texts)) for uuid, texts in parts.items() if any(texts)}
    missing = record.baseline.get("gone")
    return {**descriptions, NODE: f"missing: {', '.join(missing)}"} if missing else descriptions


def write(record: Run, folder: Path) -> None:
    """Replace the record in `folder` and its summary atomically.

    Raises OSError and leaves the old record as it was.
    """
    replace_file(folder / FILE, _text(record))  # first, so that a kill in between leaves an old summary, no new one
    _write_summary(record, folder)


def create(record: Run, folder: Path) -> bool:
    """Write the first version of a record; return False, and write nothing, if `folder` holds a record already.

    Of several runs that want the same folder at the same time, one gets it. Raises OSError.
    """
    temporary = _temporary(folder / FILE, _text(record))
    try:
        os.link(temporary, folder / FILE, follow_symlinks=False)  # fails if there is one, also on a network file system
    except FileExistsError:
        return False
    except OSError as error:
        # the answers of file systems without hard links
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        return _create_without_links(record, folder)
    finally:
        temporary.unlink(missing_ok=True)
    _write_summary(record, folder)
    return True


def _create_without_links(record: Run, folder: Path) -> bool:
    """Do as `create` on a file system that has no hard links."""
    try:
        os.close(os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    except FileExistsError:
        return False
    write(record, folder)
    return True


def _write_summary(record: Run, folder: Path) -> None:
    """Write the summary of a record.

    If that fails there is none, so that the record itself is read in its place.
    """
    path = folder / summaries.SUMMARY
    try:
        # not synced: a run is known by its record as well
        replace_file(path, json.dumps(structured.plain(summaries.summary(record))) + "\n", sync=False)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()


def content(record: Run) -> dict[str, Any]:
    """Return the content of the record's file, without its hash. A limit that several verdicts share is held once."""
    plain: dict[str, Any] = structured.plain(record)
    del plain["sha256"]
    indexes: dict[str, int] = {}
    limits: list[dict[str, Any]] = []
    for verdict in plain["verdicts"]:
        if "limit" in verdict:
            index = indexes.setdefault(json.dumps(verdict["limit"], sort_keys=True), len(indexes))
            if index == len(limits):
                limits.append(verdict["limit"])
            verdict["limit"] = index
    plain["limits"] = limits
    return plain


def seal(raw: Mapping[str, Any]) -> str:
    """Return the hash that the content of a record should state under `sha256`."""
    content = {key: value for key, value in raw.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _text(record: Run) -> str:
    """Return the text of a record's file: a line for each key, and for each item of a list. Sets the record's hash."""
    plain = content(record)
    plain["sha256"] = record.sha256 = seal(plain)
    return structured.lines(plain)


def replace_file(path: Path, text: str | bytes, *, sync: bool = True, mode: int = 0o666) -> None:
    """Replace a file atomically. Raises OSError and leaves the old file as it was."""
    temporary = _temporary(path, text, sync=sync, mode=mode)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _temporary(path: Path, text: str | bytes, *, sync: bool = True, mode: int = 0o666) -> Path:
    """Write `text` to a new file beside `path` and return its path. Raises OSError, and leaves no file then.

    Nobody can have put a link in its place, since its name cannot be guessed and it must not exist.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(handle, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
            file.flush()
            if sync:
                os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def remove(folder: Path) -> None:
    """Remove the empty record of a run that never began, so that its folder can be used again."""
    for name in (FILE, summaries.SUMMARY, TELEMETRY, PACKED):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / LOGS, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


# -- reading


class BadRecord(BadFile):
    """An error for a file that is not a record, or a damaged one; the message names the file and the location."""


class OtherKind(BadRecord):
    """A record of a simulated node where no rehearsal was asked for, or one of hardware in a rehearsal."""


def demand_visible(path: Path, devices: Sequence[Device]) -> None:
    """Raise BadRecord for a device whose serial number or UUID holds an invisible character: it is not what it seems.

    Beside a record lies its summary, for which the same holds.
    """
    for index, device in enumerate(devices):
        for name, text in (("serial", device.serial or ""), ("uuid", device.uuid)):
            if not text.isprintable():
                field = f"devices[{index}].{name}: '{printable(text, SHOWN)}'"
                raise BadRecord(f"{path}: {field} holds an invisible character, which no device states")


def demand_kind(path: Path, *, simulated: bool, rehearsal: bool | None) -> None:
    """Raise OtherKind for a record that is not of the kind that is asked for: None is either, for what shows it."""
    if rehearsal is not None and simulated != rehearsal:
        kind = "was simulated, and this is no rehearsal" if simulated else "is hardware, and this is a rehearsal"
        raise OtherKind(f"{path}: the node {kind}")


def find(path: Path) -> Path:
    """Return the file of a record, given the file itself or its folder."""
    return path / FILE if path.is_dir() else path


def files_below(path: Path, problems: list[str]) -> list[Path]:
    """Return the file itself, or the records in a folder and below it. Raises BadFile if there is none.

    A line on each folder that cannot be read is added to `problems`.
    """
    if not untrusted.exists(path):
        raise BadFile(f"{path}: does not exist; name records, or folders in which runs wrote them")
    if not path.is_dir():
        return [path]
    refusals: list[str] = []
    files = paths.files(path, FILE, refusals)
    if not files:
        raise BadFile(*refusals or [f"{path}: holds no {FILE}; name a folder in which a run wrote its record"])
    problems += refusals
    return files


def read(path: Path, *, rehearsal: bool | None = None, most: int = untrusted.JSON_BYTES, follow: bool = True) -> Run:
    """Read a record, and judge it anew: one that is not believed closes as NOT JUDGED. Raises BadRecord.

    A `rehearsal` reads records of simulated nodes alone, and what is none refuses them. `most` and `follow` are those
    of `untrusted`.
    """
    with RecordFiles(path, follow=follow) as files:
        return read_from(files, rehearsal=rehearsal, most=most)


def read_from(files: RecordFiles, *, rehearsal: bool | None = None, most: int = untrusted.JSON_BYTES) -> Run:
    """Read a record as `read`, from files that are open."""
    try:
        run = parse(files.record(most), files)
    except BadFile as bad:
        raise BadRecord(*bad.args) from None
    demand_kind(files.path, simulated=run.simulated, rehearsal=rehearsal)
    return run


def parse(raw: Any, files: RecordFiles) -> Run:
    """Return the run that the content of a record holds, which is used up, as `read`. Raises BadRecord."""
    path = files.path
    if not isinstance(raw, dict) or "schema" not in raw:
        raise BadRecord(f"{path}: is not a record of pytest-accel: it has no 'schema'")
    if raw["schema"] != SCHEMA or isinstance(raw["schema"], bool):  # True == 1
        version = structured.short(raw["schema"])
        raise BadRecord(f"{path}: was written in schema {version}; this version reads schema {SCHEMA}")
    sealed = seal(raw)  # before `_with_limits`, which changes `raw`
    try:
        run = structured.structure(Run, _with_limits(raw))
    except structured.Misfit as misfit:
        raise BadRecord(f"{path}: is damaged or of another version: {misfit}") from None
    demand_visible(path, run.devices)
    run.path, run.file_sha256, run.sealed = path, files.sha256(path.name) or "", sealed
    run.objections = (*_changed(run, files), *anew.objections(run, stored_pasts(run.baseline)))
    if run.objections:
        run.closing = anew.disbelief(run)
    return run


def _changed(run: Run, files: RecordFiles) -> Iterator[str]:
    """Yield what has another hash than the record states: itself, its telemetry, or the record that it judges again."""
    if run.sha256 != run.sealed:
        hashes = f"its hash is {run.sealed[:12]}, it states {run.sha256[:12] or 'none'}"
        yield f"the record was changed after it was written: {hashes}"
    message = "was changed: it has another hash than the record states"
    side, sha256 = Path(run.telemetry.get("file", "")).name, run.telemetry.get("sha256")
    if side and sha256 and files.has(side) and files.sha256(side) != sha256:
        yield f"{run.path.with_name(side).absolute()} {message}"
    origin = run.judged_from
    path = run.path.absolute().parent / origin["record"] if origin else Path()
    if origin.get("sha256") and untrusted.exists(path) and untrusted.sha256(path) != origin["sha256"]:
        yield f"{path} {message}"


def _with_limits(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a record with the limits in the verdicts that refer to them by index. Raises Misfit."""
    limits = structured.structure(list[Limit], raw.pop("limits", None), "limits")
    for index, verdict in enumerate(structured.structure(list[Any], raw.get("verdicts"), "verdicts")):
        number = verdict.get("limit") if isinstance(verdict, dict) else None
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(limits):
            raise structured.Misfit(f"verdicts[{index}].limit is {structured.short(number)}, not an index of 'limits'")
        verdict["limit"] = limits[number]
    return raw
