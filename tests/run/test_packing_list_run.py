"""A run with a packing list: what is wrong rejects, the record holds its hash, judging again comes to the same."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from support import as_user, raw_record

from pytest_accel.cli.main import main

FACTS = ("--accel-simulate=h100-sxm", "--accel-packing-list=delivery.csv", "-k", "inventory")


def run(folder: Path, *rows: str) -> as_user.Ran:
    (folder / "delivery.csv").write_text("\n".join(["serial,node,slot", *rows]) + "\n")
    return as_user.pytest(folder, *FACTS, sku="h100-sxm", paths=(), env=as_user.STUB_TORCH)


def rows(host: str) -> list[str]:
    return [f"SIM00000{place:03},{host},{place}" for place in range(8)]


@pytest.mark.nightly
def test_a_swapped_and_an_absent_board_reject_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = rows(socket.gethostname())
    other, absent = good[2].replace(socket.gethostname(), "node17"), f"X1,{socket.gethostname()},7"
    ran = run(tmp_path, *good[:2], other, *good[3:7], absent)
    assert ran.exit == 1, ran.out
    found = ran.statuses("inventory.serial")
    assert {name for name, status in found.items() if status == "FAIL"} == {"gpu2", "gpu7"}
    assert ran.statuses("inventory.packing_list") == {"node": "FAIL"}
    assert "SIM00000002 is listed for node17 (line 4): a board of another node" in ran.out
    assert "SIM00000007 is not on the list" in ran.out
    assert "absent: X1 (line 9)" in ran.out
    assert "A705 not-as-listed" in ran.out
    entry = ran.record["packing_list"]
    assert (entry["boards"], entry["names_nodes"], len(entry["sha256"])) == (8, True, 64)
    assert entry["sha256"] in ran.out
    assert main(["judge", str(ran.folder)]) == 1
    said = capsys.readouterr().out
    assert "changed: nothing" in said
    assert f"packing list: delivery.csv, 8 boards, sha256 {entry['sha256']}, as before\n" in said
    right = tmp_path / "corrected.csv"
    right.write_text("\n".join(["serial,node,slot", *good]) + "\n")
    new = tmp_path / "again"
    assert main(["judge", str(ran.folder), f"--packing-list={right}", f"--output={new}"]) == 6  # filtered
    said = capsys.readouterr().out
    assert f"packing list: {right}, 8 boards, sha256 " in said
    assert f"packing list before: delivery.csv, 8 boards, sha256 {entry['sha256']}\n" in said
    assert "changed: gpu7 inventory.serial: FAIL SIM00000007 is not on the list -> PASS as listed" in said
    assert raw_record.read(new)["judged_from"]["packing_list"] == entry
    assert main(["judge", str(new)]) == 6
    assert ", unsigned\n" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_complete_node_passes_and_without_a_list_nothing_is_asked(tmp_path: Path) -> None:
    ran = run(tmp_path, *rows(socket.gethostname()))
    assert ran.exit == 6, ran.out  # filtered, so no acceptance
    assert set(ran.statuses("inventory.serial").values()) == {"PASS"}
    assert ran.statuses("inventory.packing_list") == {"node": "PASS"}
    bare = as_user.pytest(tmp_path, FACTS[0], *FACTS[2:], sku="h100-sxm", paths=(), env=as_user.STUB_TORCH)
    assert not bare.statuses("inventory.serial")
    assert not bare.statuses("inventory.packing_list")
    assert "packing_list" not in json.dumps(bare.record) or bare.record["packing_list"] == {}
    assert "test_inventory_packing_list" not in bare.out


def test_a_wrong_list_refuses_the_run(tmp_path: Path) -> None:
    (tmp_path / "delivery.csv").write_text("serial\n1.65E+12\n")
    ran = as_user.pytest(tmp_path, *FACTS, sku="h100-sxm", paths=(), env=as_user.STUB_TORCH, refused=True)
    assert ran.exit == 4, ran.out
    assert "--accel-packing-list: delivery.csv:2: column 'serial': '1.65E+12': a spreadsheet wrote a number" in ran.out


def test_a_board_that_was_sent_back_is_named_where_it_comes_again(tmp_path: Path) -> None:
    listed = [f"sim00000{place:03},{'RMA 17' * (place == 3)}" for place in range(8)]
    (tmp_path / "delivery.csv").write_text("\n".join(["serial,returned", *listed]) + "\n")
    as_user.write(tmp_path, test_mine="def test_it(accel_device):\n    assert accel_device.memory_bytes\n")
    options = ("--accel-simulate=h100-sxm", "--accel-baseline=none", "--accel-packing-list=delivery.csv")
    ran = as_user.pytest(tmp_path, *options, sku=None)
    assert "rejected before: gpu3 (serial SIM00000003, returned: RMA 17)" in ran.closing
