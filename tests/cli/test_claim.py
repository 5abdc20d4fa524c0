"""The packet for a supplier: one archive, with the ticket's text, for a device that a record rejects."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from pathlib import Path

import pytest
from support.accepted_nodes import node, save_whole

from pytest_accel.cli.main import main
from pytest_accel.core.run import EarlierRecord, Run

BLAMED = 3


def rejected(folder: Path) -> Run:
    """A node with one bad device, which an earlier record accepted."""
    before = save_whole(node(0), folder / "before")
    one = node(0, fails=True)
    uuids = [each.uuid for each in one.devices]
    one.earlier_attempts = [
        EarlierRecord(
            record=str(before / "record.json"), started="2026-11-01", state="finished", line="", devices=uuids
        )
    ]
    one.info["command"] = ["pytest", "--accel-sku=h100-sxm", "--accel-output=here"]
    save_whole(one, folder / "now")
    return one


def test_the_packet_has_ticket_record_telemetry_and_last_good_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = rejected(tmp_path).devices[BLAMED]
    (tmp_path / "bug-report.log.gz").write_bytes(b"as the vendor's script left it")
    archive = tmp_path / "claim.tar.gz"
    attach = f"--attach={tmp_path / 'bug-report.log.gz'}"
    assert main(["claim", str(tmp_path / "now"), "--device=gpu3", f"--output={archive}", attach]) == 0
    with tarfile.open(archive) as packed:
        files = {entry.name: packed.extractfile(entry).read() for entry in packed}  # type: ignore[union-attr]
    ticket = files.pop("claim/ticket.txt").decode()
    assert ticket == capsys.readouterr().out
    assert ticket.startswith(f"Return of {device.model}, serial {device.serial}\n")
    assert "- health.remap_failure: 1, expected 0" in ticket
    assert "memory" in ticket.partition("What is wrong\n")[2].partition("\n")[0], "the fault code and its next step"
    assert "To see it again: pytest --accel-sku=h100-sxm -k gpu3" in ticket
    assert json.loads(files["claim/last-good/record.json"])["closing"]["result"] == "ACCEPTED"
    assert files["claim/record/record.json"] == (tmp_path / "now/record.json").read_bytes()
    assert files["claim/attached/bug-report.log.gz"] == b"as the vendor's script left it"
    assert gzip.decompress(files["claim/gpu3-telemetry.jsonl.gz"]) == b"", "the readings are of another device"
    for name, content in files.items():
        assert f"- {hashlib.sha256(content).hexdigest()}  {name.removeprefix('claim/')}" in ticket


@pytest.mark.parametrize(("asked", "says"), [("gpu4", "does not reject gpu4"), ("gpu9", "has no 'gpu9'; did you mean")])
def test_a_device_that_is_not_to_blame_is_not_claimed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: str, says: str
) -> None:
    rejected(tmp_path)
    assert main(["claim", str(tmp_path / "now"), f"--device={asked}", f"--output={tmp_path / 'c.tar.gz'}"]) == 4
    assert says in capsys.readouterr().err
    assert not (tmp_path / "c.tar.gz").exists()


def test_an_archive_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rejected(tmp_path)
    (tmp_path / "c.tar.gz").write_text("sent already")
    assert main(["claim", str(tmp_path / "now"), "--device=gpu3", f"--output={tmp_path / 'c.tar.gz'}"]) == 4
    assert (tmp_path / "c.tar.gz").read_text() == "sent already"
    assert "exists; name a new file" in capsys.readouterr().err
