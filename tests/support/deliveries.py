"""A delivery in a folder: records that the supplier signs, its packing list, and its document."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.cli.main import main
from pytest_accel.core import untrusted
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.run import Run
from pytest_accel.run import signature, statement
from pytest_accel.run.record import FILE
from support.accepted_nodes import SKU, save_whole
from support.known_good_nodes import closed, record

needs_openssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen (OpenSSH)")


@functools.cache
def keys() -> Path:
    """The folder of the keys of a supplier and of a stranger, and of the list `signers`, which has the supplier's."""
    folder = Path(tempfile.mkdtemp(prefix="accel-keys-"))
    atexit.register(shutil.rmtree, folder)
    for name in ("supplier", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "signers").write_text(f'supplier namespaces="accel-record" {(folder / "supplier.pub").read_text()}')
    return folder


_SIGNED: dict[tuple[str, str], dict[str, bytes]] = {}
"""The files of each signature that was made, by the hash of the record and the name of the key."""


def save(one: Run, folder: Path, key: str = "supplier") -> Path:
    """Write a record by the shipped threshold files, unless it names others, and sign it unless it refuses."""
    files = one.sku.get("files") or SKU.files
    path = save_whole(replace(one, sku={**one.sku, "files": files}), folder) / FILE
    known = (untrusted.sha256(path) or "", key)
    if key and known not in _SIGNED:
        with suppress(WrongUse):
            signature.sign(folder, keys() / key, ask=False)
        made = (folder / name for name in (statement.STATEMENT, statement.SUMS, f"{statement.SUMS}.sig"))
        _SIGNED[known] = {path.name: path.read_bytes() for path in made if path.exists()}
    for name, content in _SIGNED.get(known, {}).items():
        (folder / name).write_bytes(content)
    return path


def on_host(made: Run, host: str, started: str = "") -> Run:
    made.info["host"] = host
    made.info["started"] = started or made.info["started"]
    return made


def at_level(made: Run, level: str) -> Run:
    assert made.circumstances
    made.info["level"] = made.circumstances.level = level
    return closed(made)


def packing(folder: Path, nodes: int, **instead: str) -> Path:
    """The list of so many nodes, in which a serial number may be written otherwise."""
    rows = ["serial,node"]
    for number in range(nodes):
        rows += [f"{instead.get(str(each.serial), each.serial)},node{number}" for each in record(number).devices]
    (folder / "delivery.csv").write_text("\n".join(rows) + "\n")
    return folder / "delivery.csv"


def made(folder: Path, *options: str, form: str = "json") -> tuple[int, str]:
    """The exit status and the text of the document."""
    output = folder / f"document.{form}"
    words = ["fleet", "report", "--acceptance", str(folder / "records"), f"--format={form}", f"--output={output}"]
    status = main([*words, f"--allowed-signers={keys() / 'signers'}", *options])
    return status, output.read_text(encoding="utf-8")


def told(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the content of the document; it has reasons unless it accepts."""
    status, text = made(folder, *options)
    found = json.loads(text)
    assert (status == 0) == (found["reasons"] == [])
    return status, found
