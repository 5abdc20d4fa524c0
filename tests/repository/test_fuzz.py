"""Mutated files, 20,000 in all every night: each is read or refused with one clean error, quickly, in little memory."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import fuzz_readers
import pytest
from support import as_user, data_files

from pytest_accel.run import telemetry_file
from pytest_accel.skus import loader

CASES: dict[str, int] = data_files.tables("fuzz/cases")["cases"]
MIB = 300


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files to mutate, by kind; shipped threshold files and the record of a simulated run with it."""
    folder = tmp_path_factory.mktemp("fuzz")
    shipped = {path.name: path.read_text() for path in sorted(loader.SHIPPED.glob("*.yaml"))[::9]}
    kinds: dict[str, dict[str, str]] = {
        "thresholds": {"own.yaml": data_files.content("fuzz/own.yaml"), **shipped},
        "waivers": {"waivers.yaml": data_files.content("fuzz/waivers.yaml")},
        "node": {"node.yaml": data_files.content("fuzz/node.yaml")},
        "record": {"record.json": _record(folder)},
        "delivery": {"delivery.csv": data_files.content("fuzz/delivery.csv")},
        "summary": {"summary.json": (folder / "out/summary.json").read_text()},
        "telemetry": {"telemetry.jsonl": "\n".join(_readings(folder / "out/telemetry.jsonl.gz"))},
    }
    for kind, texts in kinds.items():
        (folder / kind).mkdir()
        for name, text in texts.items():
            (folder / kind / name).write_text(text)
    return folder


def _readings(path: Path) -> list[str]:
    return [*map(json.dumps, itertools.islice(telemetry_file.readings(path), 30))]


def _record(folder: Path) -> str:
    """Return the record of a simulated run with the first measurements of each probe."""
    (folder / "single.yaml").write_text("sku: h100-sxm\nplatform: single\n")
    command = [
        *(str(as_user.BIN / "pytest"), "-q", "--accel-simulate=single.yaml", "--accel-level=quick"),
        *("--accel-output=out", "-k", "inventory or health or host_copy or stream or memory_pattern or counters"),
    ]
    subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    record: dict[str, Any] = json.loads((folder / "out" / "record.json").read_text())
    of_family: dict[str, list[Any]] = {}
    for each in record["measurements"]:
        of_family.setdefault(each["metric"].partition(".")[0], []).append(each)
    record["measurements"] = [each for family in of_family.values() for each in family[:2]]
    kept = {each["metric"] for each in record["measurements"]}
    record["verdicts"] = [each for each in record["verdicts"] if each["metric"] in kept]
    return json.dumps(record)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", CASES)
def test_a_mutated_file_is_read_or_refused(kind: str, files: Path) -> None:
    """No traceback, no hang, no crash of the interpreter, and less than 300 MB."""
    cases = CASES[kind]
    command = [sys.executable, fuzz_readers.__file__, kind, "7", str(cases), str(files)]
    done = subprocess.run(command, cwd=files, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"ended with {done.returncode} at the file {files}/{kind}-case: {done.stderr[-2000:]}"
    found = json.loads(done.stdout)
    assert found["tracebacks"] == []
    assert found["cases"] == cases
    assert found["read"] > 0
    assert found["refused"] > found["cases"] / 10 or kind == "telemetry"  # a line that is no reading is passed over
    assert found["mib"] < MIB


def test_the_fuzzer_reads_20_000_files_of_every_kind() -> None:
    """A reader that is added later is fuzzed, too."""
    assert sum(CASES.values()) == 20_000
    assert CASES.keys() == fuzz_readers.READERS.keys()
