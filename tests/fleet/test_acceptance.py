"""The document of a delivery: what is accepted, twice, swapped, missing, and the figures, in every format."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from accepted_nodes import LIMITS, judged, node, save_whole
from known_good_nodes import closed, record, save
from worded import worded

from pytest_accel.cli.main import main
from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.run import Circumstances, Launch, Run
from pytest_accel.core.verdict import Closing, Status, Verdict, Waiver
from pytest_accel.fleet.delivery.document import words
from pytest_accel.fleet.jobs import run_folder
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, Fleet, Submitted

CHECKOUT = Path(__file__).parents[2]
TRIAD = LIMITS["stream.triad"]


def at_level(made: Run, level: str) -> Run:
    assert made.circumstances
    made.run["level"] = made.circumstances.level = level
    return closed(made)


def on_host(made: Run, host: str, started: str = "") -> Run:
    made.run["host"] = host
    made.run["started"] = started or made.run["started"]
    return made


def packing(folder: Path, nodes: int, **instead: str) -> Path:
    """The list of so many nodes, in which a serial number may be written otherwise."""
    rows = ["serial,node"]
    for number in range(nodes):
        rows += [f"{instead.get(str(each.serial), each.serial)},node{number}" for each in record(number).devices]
    (folder / "delivery.csv").write_text("\n".join(rows) + "\n")
    return folder / "delivery.csv"


def made(folder: Path, *options: str, form: str = "json") -> tuple[int, str]:
    output = folder / f"document.{form}"
    status = main(
        ["fleet", "report", "--acceptance", str(folder / "records"), f"--format={form}", f"--output={output}", *options]
    )
    return status, output.read_text(encoding="utf-8")


def told(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    status, text = made(folder, *options)
    return status, json.loads(text)


def test_a_delivery_of_which_everything_is_accepted(tmp_path: Path) -> None:
    for number in range(3):
        save(node(number), tmp_path / "records" / f"node{number}")
    status, found = told(tmp_path, f"--expect={packing(tmp_path, 3)}")
    assert (status, found["result"]) == (0, "ACCEPTED")
    assert found["of_nodes"] == {"accepted": 3, "rejected": 0, "not judged": 0, "missing": 0}
    assert found["of_devices"] == {"accepted": 24, "rejected": 0, "not judged": 0, "missing": 0}
    assert found["sentence"] == (
        "All 3 nodes with 24 devices are accepted as h100-sxm on hgx8 at level standard. "
        "They have every board of the packing list, in its node, and no other."
    )
    assert found["reasons"] == []


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen (OpenSSH)")
def test_a_delivery_says_who_signed_what_and_accepts_nothing_unsigned(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (tmp_path / "signers").write_text(f"supplier {key.with_suffix('.pub').read_text()}")
    for number in range(3):
        folder = save_whole(node(number), tmp_path / "records" / f"node{number}")
        if number:
            assert main(["sign", str(folder), f"--key={key}"]) == 0
    status, found = told(tmp_path, f"--allowed-signers={tmp_path / 'signers'}")
    assert (status, found["of_nodes"]["accepted"], found["of_nodes"]["not judged"]) == (6, 2, 1)
    assert [each["signed_by"] for each in found["nodes"]] == [[], ["supplier"], ["supplier"]]
    assert "it is not proven: the record is not signed" in found["nodes"][0]["objection"]
    _, page = made(tmp_path, f"--allowed-signers={tmp_path / 'signers'}", form="md")
    assert "Signed by supplier: node1, node2." in page


def test_a_rejected_board_is_on_the_list_to_send_back(tmp_path: Path) -> None:
    save(node(0), tmp_path / "records" / "node0")
    save(node(1, fails=True), tmp_path / "records" / "node1")
    status, found = told(tmp_path)
    assert status == 1
    assert found["of_devices"] == {"accepted": 8, "rejected": 1, "not judged": 7, "missing": 0}
    (one,) = found["rejections"]
    assert (one["node"], one["place"], one["serial"]) == ("node1", "gpu3 (0000:03:00.0)", "16500013")
    assert one["title"] == "A203 memory-unrepairable"
    assert one["do"] == "drain the node and return the device"


def test_boards_that_are_twice_swapped_missing_or_not_listed_are_named(tmp_path: Path) -> None:
    for number in range(3):
        save(node(number), tmp_path / "records" / f"node{number}")
    save(node(5, as_board_of=0), tmp_path / "records" / "node5")  # the boards of node0 are in node5, too
    one, other = str(record(0).devices[2].serial), str(record(1).devices[6].serial)
    unlisted = str(record(2).devices[7].serial)
    boards = packing(tmp_path, 4, **{one: other, other: one, unlisted: "XYZ"})
    boards.write_text(boards.read_text() + "X5,node5\n")
    status, found = told(tmp_path, f"--expect={boards}")
    against = found["against"]
    assert status == 1
    assert [{each["serial"] for each in pair} for pair in against["swapped"]] == [{one, other}]
    assert {(each["seen"], each["listed"]) for each in against["moved"]} == {("node5", "node0"), ("node5", "node1")}
    assert [each["serial"] for each in against["unlisted"]] == [unlisted]
    # The runs had no list and accepted everything: two boards swapped, one not on the list, the eight of node5 moved.
    assert (found["of_devices"]["accepted"], found["of_devices"]["rejected"]) == (32 - 11, 11)
    assert against["absent_nodes"] == ["node3"]
    assert {each["serial"] for each in against["unseen"]} == {
        "XYZ",
        "X5",
        *(str(each.serial) for each in record(3).devices),
    }
    assert (
        sorted((what, len(places)) for what, _, places in found["duplicates"])
        == [("UUID", 2)] * 8 + [("serial", 2)] * 8
    )
    _, text = made(tmp_path, f"--expect={boards}", form="md")
    assert f"Swapped: {one} is in node0, gpu2 (0000:02:00.0), and listed for node1" in text
    assert "At once in node0, node5: 8 serial numbers: 16500000, 16500001" in text
    assert "Missing: node3 is on the packing list, and has no record" in text
    assert "- 1 pair of boards is swapped: each is in the node of the other." in text
    assert "- 8 serial numbers and 8 UUIDs are stated by more than one board." in text


def test_a_list_without_leading_zeros_rejects_nothing(tmp_path: Path) -> None:
    with_zeros = node(0)
    devices = [replace(each, serial=f"00{each.serial}") for each in with_zeros.devices]
    save(replace(with_zeros, devices=devices), tmp_path / "records" / "node0")
    status, found = told(tmp_path, f"--expect={packing(tmp_path, 1)}")
    assert (status, found["result"], found["of_devices"]["missing"]) == (6, "NOT JUDGED", 0)
    assert len(found["against"]["but_for_zeros"]) == 8


def test_the_newest_record_of_a_node_counts_and_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    save(node(0, fails=True), tmp_path / "records" / "node0")
    later = node(0)
    later.run["started"] = "2026-11-20T02:00:00+00:00"
    save(later, tmp_path / "records" / "node0-2")
    (tmp_path / "records" / "broken").mkdir()
    (tmp_path / "records" / "broken" / "record.json").write_text('{"schema": 1}')
    status, found = told(tmp_path)
    assert (found["of_nodes"]["accepted"], found["of_nodes"]["rejected"], found["older"]) == (1, 0, 1)
    assert status == 6
    assert "is damaged" in found["refused"][0]


def test_a_rejected_node_is_not_hidden_by_another_one_of_its_name(tmp_path: Path) -> None:
    one, other = tmp_path / "records" / "a", tmp_path / "records" / "b"
    save(on_host(node(0, fails=True), "localhost", "2026-11-01T02:00:00+00:00"), one)
    save(on_host(node(1), "localhost", "2026-11-01T03:00:00+00:00"), other)
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["accepted"], found["of_nodes"]["rejected"], found["older"]) == (1, 1, 1, 0)
    assert [(each["node"], each["serial"]) for each in found["rejections"]] == [(f"localhost ({one})", "16500003")]
    _, text = made(tmp_path, form="md")
    assert "SEVERAL NODES named localhost" in text


def test_an_older_record_counts_only_for_boards_that_no_newer_one_has(tmp_path: Path) -> None:
    exchanged = node(0)
    new_board = replace(exchanged.devices[3], uuid="GPU-new", serial="77")
    devices = [new_board if each is exchanged.devices[3] else each for each in exchanged.devices]
    later = "2026-11-01T03:00:00+00:00"
    save(node(0, fails=True), tmp_path / "records" / "before")
    save(on_host(replace(exchanged, devices=devices, verdicts=[]), "node0", later), tmp_path / "records" / "after")
    status, found = told(tmp_path)
    assert (status, found["shared"], found["rejections"][0]["serial"]) == (1, ["node0"], "16500003")


def test_the_time_of_a_record_is_compared_as_a_time(tmp_path: Path) -> None:
    save(on_host(node(0), "node0", "2026-11-01T12:00:00+09:00"), tmp_path / "records" / "first")  # 03:00 in UTC
    save(on_host(node(0, fails=True), "node0", "2026-11-01T04:00:00+00:00"), tmp_path / "records" / "second")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["rejected"], found["older"]) == (1, 1, 1)
    save(on_host(node(0), "node0", "yesterday"), tmp_path / "records" / "third")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["rejected"]) == (1, 1)
    (refused,) = found["refused"]
    assert refused.endswith("record.json: does not count: it does not say when it began")


def test_a_record_that_was_judged_again_is_refused_by_name(tmp_path: Path) -> None:
    save(node(0, fails=True), tmp_path / "records" / "node0")
    again = on_host(node(0), "node0", "2026-11-20T02:00:00+00:00")
    path = save(replace(again, judged_from={"record": "/srv/node0/record.json"}), tmp_path / "records" / "again")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["rejected"]) == (1, 1)
    (refused,) = found["refused"]
    assert refused.startswith(f"{path}: judges another record again (/srv/node0/record.json)")


def test_boards_of_nodes_whose_names_differ_after_the_dot_are_swapped(tmp_path: Path) -> None:
    for number, host in ((0, "n1.a"), (1, "n1.b")):
        save(on_host(node(number), host), tmp_path / "records" / host)
    rows = ["serial,node"]
    for number, host in ((0, "n1.b"), (1, "n1.a")):
        rows += [f"{each.serial},{host}" for each in record(number).devices]
    (tmp_path / "delivery.csv").write_text("\n".join(rows))
    status, found = told(tmp_path, f"--expect={tmp_path / 'delivery.csv'}")
    assert (status, len(found["against"]["swapped"]), found["against"]["absent_nodes"]) == (1, 8, [])
    expected = (ExpectedNode("n1.a"), ExpectedNode("n1.b"), ExpectedNode("n1.c"))
    run_folder.save(Fleet("1", "2026-11-23T00:00:00Z", "0", (), 10, expected=expected), tmp_path / "records")
    assert told(tmp_path)[1]["without_record"] == ["n1.c"]


def test_what_the_run_of_a_node_cannot_tell_rejects_no_board_of_the_delivery(tmp_path: Path) -> None:
    one = on_host(node(0), "u12")  # the list calls it node0
    save(one, tmp_path / "records" / "u12")
    blind = node(1)
    unread = replace(blind.devices[0], serial=None, facts={"unread": {"serial": "no permission"}})
    save(replace(blind, devices=[unread, *blind.devices[1:]]), tmp_path / "records" / "node1")
    status, found = told(tmp_path, f"--expect={packing(tmp_path, 2)}")
    against = found["against"]
    assert (status, found["result"]) == (6, "NOT JUDGED")
    assert (against["moved"], against["unlisted"], len(against["unknown"])) == ([], [], 9)
    assert found["of_devices"]["accepted"] == 7
    assert "the list has no row for this node, u12: correct its names" in against["unknown"][8][1]
    assert against["unknown"][0][1] == "serial number: no permission"
    _, text = made(tmp_path, f"--expect={tmp_path / 'delivery.csv'}", form="md")
    assert "In node1, not compared with the list: 1 board: gpu0 (0000:00:00.0). gpu0 (0000:00:00.0): serial" in text


def test_a_record_that_was_changed_is_not_accepted(tmp_path: Path) -> None:
    path = save(node(0, fails=True), tmp_path / "records" / "node0")
    raw = json.loads(path.read_text())
    raw["closing"] = {"line": "ACCEPTED 8/8 devices", "exit": 0, "word": "ACCEPTED"}
    path.write_text(json.dumps(raw))
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["not judged"]) == (6, 1)
    assert "node0: the record contradicts itself: the record was changed after it was written" in found["reasons"][1]


def test_nodes_that_were_not_judged_alike_are_not_accepted_as_one_delivery(tmp_path: Path) -> None:
    save(node(0), tmp_path / "records" / "node0")
    save(at_level(node(1), "quick"), tmp_path / "records" / "node1")
    status, text = made(tmp_path, form="md")
    assert status == 6
    assert "- The nodes were not judged alike: they differ in level." in text
    assert "> MIXED level: standard (1 node), quick (1 node). Nodes that were judged by different terms" in text
    assert "MIXED platform" not in text
    assert "> No packing list" in text


def test_a_simulated_delivery_says_so_everywhere(tmp_path: Path) -> None:
    simulated = node(0)
    simulated.run["simulated"] = {"source": "h100-sxm"}
    save(simulated, tmp_path / "records" / "node0")
    _, text = made(tmp_path, form="md")
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(headings) > 4
    assert all("SIMULATED: " in line for line in headings)
    _, page = made(tmp_path, form="html")
    assert '@page simulated { @top-center { content: "SIMULATED' in page
    assert '<body class="is-simulated">' in page


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    hostile = node(0, fails=True)
    hostile.run["host"] = "<script>alert(1)</script>\x1b[2J|`"
    save(hostile, tmp_path / "records" / "node0")
    _, page = made(tmp_path, form="html")
    assert "<script" not in page
    assert "\x1b" not in page
    _, text = made(tmp_path, form="md")
    assert " <script>" not in text
    assert "\x1b" not in text


# -- the figures


def test_the_figures_are_those_that_were_measured(tmp_path: Path) -> None:
    """Also of nodes that were rejected, but no value that was found implausible."""
    save(node(0), tmp_path / "records" / "node0")
    save(node(1, fails=True), tmp_path / "records" / "node1")
    odd = node(2)
    odd.measurements[0] = replace(odd.measurements[0], value=1e9)
    broken = replace(odd.verdicts[0], status=Status.UNMEASURED, value=1e9, margin=None)
    save(closed(replace(odd, verdicts=[broken, *odd.verdicts[1:]])), tmp_path / "records" / "node2")
    _, found = told(tmp_path)
    (triad,) = (each for each in found["metrics"] if each["metric"] == "stream.triad")
    assert triad["n"] == 23
    assert triad["least"] <= triad["low"] <= triad["middle"] <= triad["high"] <= triad["most"] < 1e4
    assert triad["bounds"][0] == TRIAD.floor
    assert triad["spread"] == pytest.approx(0.003, rel=0.5)
    _, text = made(tmp_path, form="md")
    assert "| stream.triad (GB/s) | 23 |" in text


def test_a_node_that_a_fleet_was_to_examine_is_missing_without_a_record(tmp_path: Path) -> None:
    save(node(0), tmp_path / "records" / "node0")
    expected = (ExpectedNode("node0"), ExpectedNode("node7", skipped="drained: fan broken"))
    run_folder.save(Fleet("1", "2026-11-23T00:00:00Z", "0", (), 10, expected=expected), tmp_path / "records")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["missing"], found["without_record"]) == (6, 1, ["node7"])
    _, text = made(tmp_path, form="md")
    assert "node7 was to be examined, and has no record" in text


def test_a_simulated_node_among_real_ones_is_not_accepted(tmp_path: Path) -> None:
    """A rehearsal that was left in the folder: nobody delivered that node."""
    save(node(0), tmp_path / "records" / "node0")
    assert told(tmp_path)[0] == 0
    one = node(1)
    save(replace(one, run={**one.run, "simulated": {"source": "h100-sxm"}}), tmp_path / "records" / "node1")
    status, found = told(tmp_path)
    assert (status, found["simulated"]) == (6, 1)
    assert "1 node is simulated" in made(tmp_path, form="md")[1]


def test_options_of_the_document_are_for_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "report", str(tmp_path), "--format=html"]) == 4
    assert "only with --acceptance" in capsys.readouterr().err
    assert main(["fleet", "report", str(tmp_path), "--name=order 4711"]) == 4
    assert "are for --acceptance" in capsys.readouterr().err


def test_wrong_inputs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "report", "--acceptance", str(tmp_path / "none")]) == 4
    assert "is not a folder" in capsys.readouterr().err
    assert main(["fleet", "report", "--acceptance", str(tmp_path)]) == 4
    assert "holds no record" in capsys.readouterr().err


# -- ways in which a delivery could be accepted by mistake


def test_another_contract_or_product_on_some_nodes_is_not_accepted(tmp_path: Path) -> None:
    for number, contract in enumerate(("a" * 64, "a" * 64, "b" * 64)):
        one = node(number)
        save(replace(one, sku={**one.sku, "contract": contract}), tmp_path / "records" / f"node{number}")
    assert (told(tmp_path)[0], told(tmp_path)[1]["unalike"]) == (6, ["contract"])
    other = node(3)
    save(replace(other, sku={"name": "h200-sxm", "files": {}}), tmp_path / "records" / "node3")
    assert told(tmp_path)[1]["unalike"] == ["contract", "SKU"]


def test_other_software_on_some_nodes_is_told_and_rejects_nothing(tmp_path: Path) -> None:
    for number in range(2):
        one = node(number)
        save(replace(one, software={**one.software, "driver": f"58{number}"}), tmp_path / "records" / f"node{number}")
    status, text = made(tmp_path, form="md")
    assert status == 0
    assert "> MIXED driver: 580 (1 node), 581 (1 node). This may explain differences between their figures." in text


def but_device(one: Run, place: int) -> Run:
    """A record without the verdicts on a device, which it does not require either."""
    uuid, around = one.devices[place].uuid, one.circumstances
    assert around
    required = [each for each in around.required if each[1] != uuid]
    verdicts = [each for each in one.verdicts if each.subject != uuid]
    return replace(one, verdicts=verdicts, circumstances=replace(around, required=required))


def undecided(one: Run) -> Run:
    """A record whose rejecting verdict is INCONCLUSIVE instead."""
    verdicts = [replace(each, status=Status.INCONCLUSIVE) if each.fails else each for each in one.verdicts]
    return replace(one, verdicts=verdicts)


ACCEPTING = node(0).closing
CUT = {
    "no device": (replace(node(0), devices=[]), "it speaks of GPU-0000-0-aa55, which is not among its devices"),
    "nothing": (replace(node(0), devices=[], verdicts=[], measurements=[]), "no verdict on gpu0 to gpu7 stream.triad"),
    "no gpu5": (but_device(node(0), 5), "gpu5: the node was accepted without a verdict on"),
    "no limits": (
        replace(node(0), verdicts=[replace(each, limit=None) for each in node(0).verdicts]),
        "closes as NOT JUDGED 25/25 limits hold; no verdict on gpu0 to gpu7 stream.triad",
    ),
    "no failing verdicts": (
        replace(node(0, fails=True), verdicts=[each for each in node(0, fails=True).verdicts if not each.fails]),
        "closes as NOT JUDGED 25/25 limits hold; no verdict on gpu3 health.remap_failure",
    ),
    "failing verdicts": (node(0, fails=True), "closes as REJECTED gpu3: health.remap_failure 1, expected 0"),
    "inconclusive verdicts": (
        undecided(node(0, fails=True)),
        "closes as NOT JUDGED 25/26 limits hold; gpu3 health.remap_failure: INCONCLUSIVE",
    ),
    "no measurements": (replace(node(0), measurements=[]), "which was not measured"),
    "no circumstances": (replace(node(0), circumstances=None), "closes as NOT JUDGED nothing was measured against"),
    "a filter": (
        replace(node(0), circumstances=replace(node(0).circumstances or Circumstances(), filtered=["filtered by -k"])),
        "closes as HELD",
    ),
}
"""Records that their closing line accepts, by what they hold, and why they are not accepted. Their hashes are right."""


@pytest.mark.parametrize("holds", CUT)
def test_an_acceptance_that_its_own_record_contradicts_is_none(holds: str, tmp_path: Path) -> None:
    one, why = CUT[holds]
    save(replace(one, closing=ACCEPTING, findings=[]), tmp_path / "records" / "node0")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["not judged"]) == (6, 1)
    assert "NOT JUDGED here: the record contradicts itself: " in found["nodes"][0]["line"]
    assert found["reasons"][0] == "1 node was neither accepted nor rejected: node0."
    assert found["reasons"][1].startswith("Results that do not count: node0: the record contradicts itself: ")
    assert why in found["reasons"][1]


def test_a_record_without_a_hash_accepts_nothing(tmp_path: Path) -> None:
    path = save(node(0), tmp_path / "records" / "node0")
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "sha256": ""}))
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["not judged"]) == (6, 1)
    assert "the record states no hash of itself" in found["reasons"][1]


def test_a_record_that_contradicts_itself_takes_no_rejection_back(tmp_path: Path) -> None:
    save(on_host(node(0, fails=True), "node0", "2026-11-01T02:00:00+00:00"), tmp_path / "records" / "first")
    later = on_host(CUT["no failing verdicts"][0], "node0", "2026-11-01T03:00:00+00:00")
    save(replace(later, closing=ACCEPTING), tmp_path / "records" / "second")
    status, found = told(tmp_path)
    assert (status, found["rejections"][0]["serial"]) == (1, "16500003")


def test_records_under_other_names_and_behind_links_count(tmp_path: Path) -> None:
    save(node(0), tmp_path / "records" / "node0")
    path = save(node(1, fails=True), tmp_path / "elsewhere" / "node1")
    path.rename(path.with_name("node1.json"))
    (tmp_path / "records" / "rack2").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "up").symlink_to(tmp_path / "records")  # a circle
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["rejected"], found["refused"]) == (1, 1, [])


def test_a_place_where_a_record_may_be_and_is_not_is_told(tmp_path: Path) -> None:
    save(node(0), tmp_path / "records" / "node0")
    (tmp_path / "records" / "node1").symlink_to(tmp_path / "not mounted")
    lost = save(node(2), tmp_path / "records" / "node2")
    lost.unlink()
    (tmp_path / "records" / "node3").mkdir()
    (tmp_path / "records" / "node3" / "record.json.gz").write_bytes(b"")
    (tmp_path / "records" / "notes.json").write_text('{"room": 4}')  # no record, and none that was meant to be one
    (tmp_path / "records" / "cut.json").write_text('{"schema": 1, "run"')
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["accepted"]) == (6, 1)
    places = ("node1", "node2", "node3", "cut.json")
    why = {name: line for name in places for line in found["refused"] if f"records/{name}:" in line}
    assert sorted(why.values()) == sorted(found["refused"])
    assert why["node1"].endswith("/node1: is a link that leads nowhere")
    assert why["node2"].endswith("/node2: has summary.json, as a run leaves it, and no record.json")


def test_the_nodes_of_a_run_further_down_have_to_have_a_record_too(tmp_path: Path) -> None:
    night = tmp_path / "records" / "night1"
    save(node(0), night / "node0")
    run_folder.save(
        Fleet("1", "2026-11-23T00:00:00Z", "0", (), 10, expected=(ExpectedNode("node0"), ExpectedNode("n9"))), night
    )
    status, found = told(tmp_path)
    assert (status, found["without_record"]) == (6, ["n9"])


def test_one_node_of_the_list_cannot_stand_for_two(tmp_path: Path) -> None:
    """Half of the boards that are listed for node0 are in each of two nodes that may both be called so."""
    whole = node(0)
    for part, host in enumerate(("node0.a", "node0.b")):
        devices = whole.devices[4 * part : 4 * part + 4]
        here = [each for each in whole.measurements if each.subject in {NODE, *(device.uuid for device in devices)}]
        half = judged(replace(whole, devices=devices, measurements=here, run={**whole.run}), LIMITS)
        save(on_host(half, host), tmp_path / "records" / host)
    status, found = told(tmp_path, f"--expect={packing(tmp_path, 1)}")
    assert (status, found["of_nodes"]["accepted"], found["of_devices"]["missing"]) == (6, 2, 0)
    assert found["reasons"] == ["node0 on the packing list may be any of: node0.a, node0.b."]


def test_two_devices_of_one_uuid_are_compared_each_with_its_own_row(tmp_path: Path) -> None:
    one = node(0)
    devices = [replace(one.devices[0], serial="X1"), *one.devices]
    save(replace(one, devices=devices), tmp_path / "records" / "node0")
    status, found = told(tmp_path, f"--expect={packing(tmp_path, 1)}")
    assert (status, [each["serial"] for each in found["against"]["unlisted"]]) == (1, ["X1"])
    assert found["against"]["unseen"] == []


def test_what_an_acceptance_depends_on_is_told_first(tmp_path: Path) -> None:
    waived = Verdict(
        "host.numa_balancing",
        NODE,
        Status.FAIL,
        worded("1, expected 0"),
        "count",
        1,
        waiver=Waiver("host.numa_balancing", "known", "us", date(2027, 1, 1)),
    )
    one = node(0)
    assert one.circumstances
    around = replace(one.circumstances, overridden=3, rejected_before=["gpu3 on 2026-11-01"])
    one.measurements.append(Measurement("host.numa_balancing", NODE, "count", 1))
    one = closed(replace(one, verdicts=[*one.verdicts, waived], circumstances=around))
    save(one, tmp_path / "records" / "node0")
    save(node(1, fails=True), tmp_path / "records" / "node1")
    second = node(1)
    near = replace(second.verdicts[2], status=Status.MARGINAL)
    second = replace(second, verdicts=[near if each is second.verdicts[2] else each for each in second.verdicts])
    save(on_host(closed(second), "node1", "2026-11-20T02:00:00+00:00"), tmp_path / "records" / "node1-2")
    status, text = made(tmp_path, form="md")
    assert status == 0
    front = text.partition("\n## ")[0]
    assert "WAIVED: host.numa_balancing is broken or was not measured on 1 accepted node, by a waiver: node0." in front
    marginal = "MARGINAL: 1 device of 1 accepted node holds a limit narrowly, or is behind the others: node1."
    assert marginal in front
    assert "OTHER LIMITS than those of the shipped threshold file: 1 accepted node was judged by some (node0)." in front
    assert (
        "REJECTED BEFORE, and accepted now: node0 (gpu3 on 2026-11-01), node1 (by an older record in this folder)."
        in front
    )


def test_the_result_is_accepted_if_and_only_if_nothing_stands_against_it(tmp_path: Path) -> None:
    """Every field by which the exit status is another one than 0 has its sentence."""
    save(node(0), tmp_path / "records" / "node0")
    seen = []
    for step in ("", "unalike", "missing", "fails"):
        if step == "unalike":
            save(at_level(node(1), "quick"), tmp_path / "records" / "node1")
        elif step == "missing":
            packing(tmp_path, 3)
        elif step == "fails":
            save(node(2, fails=True), tmp_path / "records" / "node2")
        expect = [f"--expect={tmp_path / 'delivery.csv'}"] if (tmp_path / "delivery.csv").exists() else []
        status, found = told(tmp_path, *expect)
        assert (status == 0) == (found["reasons"] == [])
        seen.append((status, len(found["reasons"])))
    assert seen == [(0, 0), (6, 1), (6, 3), (1, 2)]


def test_a_list_of_ten_thousand_boards_with_the_marks_of_a_spreadsheet(tmp_path: Path) -> None:
    rows = [f'"{each.serial}";node0' for each in record(0).devices] + [f'="Z{place}";' for place in range(10_000)]
    (tmp_path / "delivery.csv").write_text("\ufeff" + "\r\n".join(["Serial;Node", *rows]), encoding="utf-8")
    save(node(0), tmp_path / "records" / "node0")
    status, found = told(tmp_path, f"--expect={tmp_path / 'delivery.csv'}")
    assert (status, found["of_devices"]["accepted"], found["of_devices"]["missing"]) == (6, 8, 10_000)
    assert found["reasons"] == ["10,000 boards of the packing list were seen in no node."]


def test_the_example_of_the_page_is_what_the_document_says_today() -> None:
    """Its figures are those of a real run; its headings and sentences have to be those of this version."""
    page = (CHECKOUT / "docs/delivery.md").read_text(encoding="utf-8")
    shown = page.partition("scripts/delivery_example.py writes -->")[2].partition("<!-- end -->")[0]
    wanted = [words.FAULTS, words.COUNTED]
    assert [each for each in wanted if each not in shown] == [], "run scripts/delivery_example.py"


def test_a_result_that_the_report_of_the_fleet_does_not_count_accepts_nothing(tmp_path: Path) -> None:
    """A run of another product than was asked, and one before a job that left no result."""
    folder = tmp_path / "records"
    for number in range(3):
        save(node(number), folder / f"node{number}")
    fleet = Fleet("1", "2026-10-31T00:00:00Z", "0", (), 10, sku="h100-sxm")
    expected = tuple(ExpectedNode(f"node{number}") for number in range(3))
    run_folder.save(replace(fleet, expected=expected), folder)
    assert told(tmp_path)[0] == 0
    lost = Submitted("node1", "7", "2026-11-20T00:00:00Z")
    run_folder.save(replace(fleet, expected=expected, jobs=(lost,)), folder)
    other = node(2)
    shutil.rmtree(folder / "node2")
    save(replace(other, sku={**other.sku, "name": "h200-sxm"}), folder / "node2")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["accepted"], found["of_nodes"]["not judged"]) == (6, 1, 2)
    assert "does not count this result" in made(tmp_path, form="md")[1]


def test_a_record_from_the_future_counts_for_nothing(tmp_path: Path) -> None:
    save(on_host(node(0, fails=True), "node0"), tmp_path / "records" / "first")
    save(on_host(node(0), "node0", "2999-11-01T04:00:00+00:00"), tmp_path / "records" / "second")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["rejected"]) == (1, 1)
    assert "in the future" in found["refused"][0]


def test_what_says_nothing_of_a_node_hides_no_rejection(tmp_path: Path) -> None:
    """The rule is that of the report of a fleet: only an acceptance takes a rejection back."""
    save(on_host(node(0, fails=True), "node0", "2026-11-01T02:00:00+00:00"), tmp_path / "records" / "first")
    held = replace(node(0), closing=Closing("HELD 8/8 devices", 0, "HELD"))
    save(on_host(held, "node0", "2026-11-01T03:00:00+00:00"), tmp_path / "records" / "second")
    status, found = told(tmp_path)
    assert (status, found["rejections"][0]["serial"], found["older"]) == (1, "16500003", 1)


def test_a_host_with_and_without_its_domain_is_one_node(tmp_path: Path) -> None:
    save(on_host(node(0, fails=True), "node0", "2026-11-01T02:00:00+00:00"), tmp_path / "records" / "first")
    save(on_host(node(0), "node0.example.org", "2026-11-01T03:00:00+00:00"), tmp_path / "records" / "second")
    status, found = told(tmp_path)
    assert (status, found["duplicates"], found["of_nodes"]["accepted"]) == (0, [], 1)


def test_in_the_run_of_a_fleet_the_result_of_the_last_job_counts(tmp_path: Path) -> None:
    """Whatever the clock of the node said, and wherever else a record of the node lies."""
    folder = tmp_path / "records"
    folder.mkdir()
    expected = (ExpectedNode("node0"), ExpectedNode("node1"))
    jobs = (Submitted("node0", "7", "2026-11-01T00:00:00Z"), Submitted("node0", "8", "2026-11-02T00:00:00Z"))
    run_folder.save(Fleet("1", "2026-11-01T00:00:00Z", "0", (), 10, expected=expected, jobs=jobs), folder)
    for number, (job, fails, started) in enumerate((("7", True, "2026-11-09"), ("8", False, "2026-11-02"))):
        one = on_host(node(0, fails=fails), "node0", f"{started}T02:00:00+00:00")
        one.run["launcher"] = Launch("slurm", "node0", 0, nodes=1, job=job)
        save(one, folder / f"node0-{number}")
    save(node(1), folder / "old" / "node1")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["accepted"], found["of_nodes"]["not judged"]) == (6, 1, 1)
    assert [each["name"] for each in found["nodes"] if "does not count" in each["line"]] == ["node1"]


@pytest.mark.parametrize("place", ["night2", "by-hand"])
def test_a_later_rejection_counts_beside_an_acceptance_by_the_run_of_a_fleet(place: str, tmp_path: Path) -> None:
    """In the run of the next night, and in a folder of no run."""
    for folder, night, fails in (("night1", "2026-11-01", False), (place, "2026-11-02", True)):
        save(on_host(node(0, fails=fails), "node0", f"{night}T02:00:00+00:00"), tmp_path / "records" / folder / "node0")
        if folder != "by-hand":
            asked = Fleet("1", f"{night}T00:00:00Z", "0", (), 10, expected=(ExpectedNode("node0"),))
            run_folder.save(asked, tmp_path / "records" / folder)
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["rejected"], found["older"]) == (1, 1, 1)
