"""What is signed of a record: statements in the form of in-toto, and the sums of all files of the record.

`statement.json` is an in-toto Statement v1 with a predicate of ours; `test-result.json` has in-toto's own predicate for
test results, which has no word for a run that was not judged. `SHA256SUMS` covers both, the record and what lies beside
it; its signature is the one of the whole folder. What a statement says follows from the record, so that whoever
verifies one makes it anew and compares.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_accel.core.run import Run
from pytest_accel.core.summary import ACCEPTED, REJECTED
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.run import record

STATEMENT, TEST_RESULT, SUMS = "statement.json", "test-result.json", "SHA256SUMS"
PAGE = "report.html"
"""The name of the page beside its record (--accel-report)."""
TYPE = "https://in-toto.io/Statement/v1"
"""https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md"""
OURS = "https://github.com/pytest-accel/pytest-accel/acceptance/v1"
"""The type of our predicate. It names a format and is never changed; nothing has to be found there."""
RESULT = "https://in-toto.io/attestation/test-result/v0.1"
"""https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md"""
LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\0]+)")
"""A line of SHA256SUMS: a sum, and the name of a file beside it."""


def files_of(run: Run) -> dict[str, str]:
    """Return the SHA-256 of the record, of its telemetry and of the page beside it, by name. Raises BadFile."""
    folder, telemetry = run.path.absolute().parent, run.telemetry.get("file", "")
    names = [record.FILE, *([telemetry] if telemetry else []), *([PAGE] if (folder / PAGE).exists() else [])]
    return {name: _sum_of(folder / name) for name in names}


def _sum_of(path: Path) -> str:
    found = record.hash_file(path)
    if found is None:
        raise BadFile(f"{path}: cannot be read, so that it cannot be signed")
    return found


def statements(run: Run, files: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the statements on a record, by file name; `files` are the sums of its files by name."""
    subjects = [{"name": name, "digest": {"sha256": each}} for name, each in files.items()]
    found = {STATEMENT: _statement(subjects, OURS, _acceptance(run))}
    if (run.word in (ACCEPTED, REJECTED)) and not run.simulated:
        found[TEST_RESULT] = _statement(subjects, RESULT, _test_result(run))
    return found


def _statement(subjects: list[dict[str, Any]], kind: str, predicate: Mapping[str, Any]) -> str:
    content = {"_type": TYPE, "subject": subjects, "predicateType": kind, "predicate": predicate}
    return json.dumps(content, indent=1) + "\n"


def _acceptance(run: Run) -> dict[str, Any]:
    """Return our predicate: who was judged as what, when, by what, and with which result."""
    made = run.run
    return {
        "verdict": run.word or "NONE",
        "closingLine": run.closing.line,
        "exitStatus": run.closing.exit,
        "simulated": run.simulated,
        "nonce": made.get("nonce", ""),
        "started": made.get("started", ""),
        "ended": made.get("ended", ""),
        "host": made.get("host", ""),
        "sku": run.sku.get("name", ""),
        "platform": made.get("platform", ""),
        "level": made.get("level", ""),
        "contract": run.sku.get("contract", ""),
        "devices": [{"name": each.name, "serial": each.serial or "", "uuid": each.uuid} for each in run.devices],
        "software": {"pytest_accel": run.software.get("pytest_accel", "")},
    }


def _test_result(run: Run) -> dict[str, Any]:
    """Return in-toto's predicate. A test is a verdict; MARGINAL and waived ones are warnings."""
    configuration = [_described(name, each) for name, each in run.sku.get("files", {}).items()]
    others = (run.waivers.get("file"), run.waivers.get("sha256")), (
        run.packing_list.get("file"), run.packing_list.get("sha256")
    )  # fmt: skip
    configuration += [_described(name, each) for name, each in others if name and each]
    passed, warned, failed = ([_test(each) for each in run.verdicts if _class(each) == kind] for kind in range(3))
    result = "FAILED" if run.word == REJECTED else "WARNED" if warned else "PASSED"
    return {
        "result": result,
        "configuration": configuration,
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": failed,
    }


def _described(name: str, found: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": found}}


def _class(verdict: Verdict) -> int:
    """Return 0 for a verdict that passes, 1 for a warning, 2 for one that fails, 3 for what did not apply."""
    if verdict.status is Status.NOT_APPLICABLE:
        return 3
    if verdict.waiver or verdict.status is Status.MARGINAL:
        return 1
    return 0 if verdict.status is Status.PASS else 2


def _test(verdict: Verdict) -> str:
    return f"{verdict.metric}[{verdict.subject}]"


def sums(files: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """Return the text of SHA256SUMS, as `sha256sum -c` reads it, over files and the statements about to be written."""
    of_texts = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    return "".join(f"{each}  {name}\n" for name, each in {**files, **of_texts}.items())


def sums_of(text: str) -> dict[str, str]:
    """Return the sums that the text of a file SHA256SUMS states, by the name of the file. Raises BadFile."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = LINE.fullmatch(line)
        if not match or match[2] in found:
            raise BadFile(f"{SUMS}, line {number}: is not a SHA-256, two spaces and the name of another file beside it")
        found[match[2]] = match[1]
    return found
