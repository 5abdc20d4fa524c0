"""The signed statement on a record, in the form of in-toto, and the sums of all files of the record.

`statement.json` is an in-toto Statement v1 with a predicate of ours. `SHA256SUMS` covers it, the record and what lies
beside it; its signature is the one of the whole folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Result
from pytest_accel.run import record, summaries
from pytest_accel.run.record_files import RecordFiles

STATEMENT, SUMS = "statement.json", "SHA256SUMS"
PAGE = "report.html"
"""The name of the page beside its record (--accel-report)."""
BESIDE = (
    *(record.TELEMETRY, record.PACKED, summaries.SUMMARY, PAGE),
    *(record.DIAGNOSTIC, *record.BUG_REPORTS),
)
"""The files beside a record that are read as a part of it."""
TYPE = "https://in-toto.io/Statement/v1"
"""https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md"""
PREDICATE = "https://github.com/pytest-accel/pytest-accel/acceptance/v1"
"""The type of our predicate. It names a format and is never changed; nothing has to be found there."""
LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\0]+)")
"""A line of SHA256SUMS: a sum, and the name of a file beside it."""


def names_of(run: Run, files: RecordFiles) -> list[str]:
    """Return the names of the files that the sums of a record have to hold, without the statement. Raises BadFile."""
    telemetry = run.telemetry.get("file", "")
    return list(dict.fromkeys([record.FILE, *filter(None, [telemetry]), *filter(files.has, BESIDE)]))


def sums_of_files(run: Run, files: RecordFiles) -> dict[str, str]:
    """Return the SHA-256 of the files of a record, by name. Raises BadFile."""
    hashes: dict[str, str] = {}
    for name in names_of(run, files):
        if not (sha256 := files.sha256(name)):
            raise BadFile(f"{files.path.with_name(name)}: cannot be read, so that it cannot be signed")
        hashes[name] = sha256
    return hashes


def text_of(run: Run, files: Mapping[str, str]) -> str:
    """Return the text of the statement on a record; `files` are the sums of its files by name."""
    subjects = [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in files.items()]
    content = {"_type": TYPE, "subject": subjects, "predicateType": PREDICATE, "predicate": _acceptance(run)}
    return json.dumps(content, indent=1) + "\n"


def _acceptance(run: Run) -> dict[str, Any]:
    """Return the predicate: who was judged as what, when, by what, and with which result."""
    info = run.info
    devices = [{"name": device.name, "serial": device.serial or "", "uuid": device.uuid} for device in run.devices]
    return {
        "verdict": Result.words(run.result, "NONE"),
        "closingLine": run.closing.line,
        "exitStatus": run.closing.exit,
        "simulated": run.simulated,
        "nonce": info.get("nonce", ""),
        "started": info.get("started", ""),
        "ended": info.get("ended", ""),
        "host": info.get("host", ""),
        "sku": run.sku.get("name", ""),
        "platform": info.get("platform", ""),
        "level": info.get("level", ""),
        "thresholds": dict(run.sku.get("files", {})),
        "devices": devices,
        "software": {"pytest_accel": run.software.get("pytest_accel", "")},
    }


def sums(files: Mapping[str, str], text: str) -> str:
    """Return the text of SHA256SUMS, as `sha256sum -c` reads it, over files and a statement about to be written."""
    hashes = {**files, STATEMENT: hashlib.sha256(text.encode()).hexdigest()}
    return "".join(f"{sha256}  {name}\n" for name, sha256 in hashes.items())


def sums_of(text: str) -> dict[str, str]:
    """Return the sums that the text of a file SHA256SUMS states, by the name of the file. Raises BadFile."""
    hashes: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        match = LINE.fullmatch(line)
        if not match or match[2] in hashes:
            raise BadFile(f"{SUMS}, line {number}: is not a SHA-256, two spaces and the name of another file beside it")
        hashes[match[2]] = match[1]
    return hashes
