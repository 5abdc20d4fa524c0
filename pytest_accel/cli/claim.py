"""The subcommand `pytest-accel claim`: everything that a supplier needs to take one device back, in one archive."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path

from pytest_accel.cli.result_file import write_new
from pytest_accel.core import untrusted
from pytest_accel.core.measurement import Device
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Result
from pytest_accel.core.yaml_nodes import nearest
from pytest_accel.run import record, signature, statement
from pytest_accel.run.record_files import RecordFiles
from pytest_accel.views import ticket

DESCRIPTION = """Pack what a supplier needs to take a device back: a text for the ticket with our finding and the
vendor's own words, the record with its signature, the telemetry and the kernel's lines of that device, the record of
its last good run, and the command that shows the fault again. The outputs of the vendor's diagnostic and bug report are
packed where they lie beside the record (--accel-bug-report); other files are added by --attach."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `claim`."""
    option = parser.add_argument
    option("file", metavar="RECORD", type=Path, help="a record.json, or the folder that holds it")
    option("--device", metavar="NAME", required=True, help="the device: its name (gpu3), serial number or UUID")
    option("--output", metavar="FILE", type=Path, required=True, help="the archive to write: a new file, .tar.gz")
    text = "a file to add, such as a picture of the slot; may be given several times"
    option("--attach", metavar="FILE", type=Path, action="append", default=[], help=text)


def run(args: argparse.Namespace) -> int:
    """Write the archive, and print the text of the ticket; return 0. Raises WrongUse."""
    with RecordFiles(record.find(args.file)) as record_files:
        signature.demand_name(record_files.path)
        source = record.read_from(record_files)
        if source.objections:
            raise BadFile(f"{source.path}: no supplier can be asked to believe it: {source.objections[0]}")
        device = _device(source, args.device)
        if not ticket.blamed(source, device):
            raise BadFile(f"{source.path}: does not reject {device.name}: {source.closing.line}")
        last_good, files = _last_good(source, device), dict(_evidence(source, record_files, device, args.attach))
    if last_good:
        files["last-good/record.json"] = untrusted.read_bytes(last_good, most=untrusted.JSON_BYTES)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    words = [
        word for word in source.info.get("command", []) if not word.startswith(("--accel-output", "--accel-report"))
    ]
    command = shlex.join([*words, "-k", device.name])
    text = ticket.Claim(source, device, sums, str(last_good or ""), command).text
    _pack(args.output, {"ticket.txt": text.encode(), **files})
    print(text, end="")
    return 0


def _device(run: Run, name: str) -> Device:
    """Return the device of a name, serial number or UUID. Raises BadFile."""
    for device in run.devices:
        if name in (device.name, device.serial, device.uuid):
            return device
    raise BadFile(
        f"--device: {run.path} has no '{printable(name)}'; {nearest(name, [device.name for device in run.devices])}"
    )


def _last_good(run: Run, device: Device) -> Path | None:
    """Return the newest earlier record that accepts the device, as far as it is still there and adds up."""
    for attempt in reversed(run.earlier_attempts):
        path = Path(attempt["record"])
        if device.uuid in attempt["devices"] and untrusted.exists(path):
            try:
                earlier = record.read(path)
            except BadFile:
                continue
            if earlier.result is Result.ACCEPTED and not earlier.objections:
                return path
    return None


def _evidence(run: Run, files: RecordFiles, device: Device, attachments: list[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the packet by name: those of the record as they are, and what concerns the device.

    Of a signed record it takes those that are signed.
    """
    folder = run.path.absolute().parent
    names = [record.FILE, *statement.BESIDE]
    if files.has(statement.SUMS):
        signed = statement.sums_of(untrusted.decode(files.read(statement.SUMS), statement.SUMS))
        names = [*signed, statement.SUMS, f"{statement.SUMS}.sig"]
    for name in filter(files.has, names):
        yield f"record/{name}", files.read(name, untrusted.LOG_BYTES)
    if lines := ticket.kernel_lines(run, device):
        yield f"{device.name}-kernel.txt", ("\n".join(lines) + "\n").encode()
    telemetry = folder / run.telemetry.get("file", "")
    if run.telemetry.get("file") and untrusted.exists(telemetry):
        readings = [line for line in untrusted.lines(telemetry) if _is_of(line, device.uuid)]
        yield f"{device.name}-telemetry.jsonl.gz", gzip.compress(b"".join(readings), mtime=0)
    for path in attachments:
        yield f"attached/{path.name}", untrusted.read_bytes(path, most=untrusted.LOG_BYTES)


def _is_of(line: bytes, uuid: str) -> bool:
    """Return True for a line of the telemetry that is of a device."""
    try:
        return bool(json.loads(line).get("uuid") == uuid)
    except (ValueError, AttributeError, RecursionError):
        return False


def _pack(path: Path, files: dict[str, bytes]) -> None:
    """Write an archive with a folder of its name. Raises WrongUse if there is one already, or it cannot be written."""
    inside = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{inside}/{name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    write_new(path, packed.getvalue())
