"""The document of a delivery: what is accepted, twice, swapped, missing, and to be sent back."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import html5lib
import pytest
from support.accepted_nodes import LIMITS, instead, judged, node, whole
from support.deliveries import at_level, made, needs_openssh, on_host, packing, save, told
from support.known_good_nodes import closed, record
from support.rows import each_row

from pytest_accel.cli.main import main
from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.run import Circumstances, Launch, Objection, Run
from pytest_accel.core.verdict import Waiver
from pytest_accel.fleet.jobs import run_folder
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, FleetRequest, SubmittedJob
from pytest_accel.judging.verdicts.judge_attempts import judge

pytestmark = needs_openssh
ACCEPTING = node(0).closing
FAILING = node(0, fails=True)
AROUND = node(0).circumstances or Circumstances()


def rehearsed(number: int) -> Run:
    """A simulated node."""
    one = node(number)
    assert one.circumstances
    one.info["simulated"] = {"source": "h100-sxm"}
    devices = [replace(each, serial=f"SIM{each.serial}") for each in one.devices]
    measurements = [replace(each, simulated=True) for each in one.measurements]
    around = replace(one.circumstances, simulated=True)
    return closed(replace(one, devices=devices, measurements=measurements, circumstances=around))


def test_a_delivery_of_which_everything_is_accepted(tmp_path: Path) -> None:
    for number in range(3):
        save(node(number), tmp_path / "records" / f"node{number}")
    status, found = told(tmp_path, f"--packing-list={packing(tmp_path, 3)}")
    assert (status, found["result"]) == (0, "ACCEPTED")
    assert found["of_nodes"] == {"accepted": 3, "rejected": 0, "not judged": 0, "missing": 0}
    assert found["of_devices"] == {"accepted": 24, "rejected": 0, "not judged": 0, "missing": 0}
    assert found["sentence"] == (
        "3 nodes are accepted with 24 devices as h100-sxm on hgx8 at level standard. "
        "They have every board of the packing list, in its node, and no other."
    )


def test_a_rejected_board_is_on_the_list_to_send_back(tmp_path: Path) -> None:
    save(node(0), tmp_path / "records" / "node0")
    save(node(1, fails=True), tmp_path / "records" / "node1")
    status, found = told(tmp_path)
    assert status == 1
    assert found["of_devices"] == {"accepted": 8, "rejected": 1, "not judged": 7, "missing": 0}
    (one,) = found["rejections"]
    assert (one["node"], one["location"], one["serial"]) == ("node1", "gpu3 (0000:03:00.0)", "16500013")
    assert one["title"] == "A203 memory-unrepairable"
    assert one["do"] == "drain the node and return the device"


def test_a_board_with_several_broken_limits_has_one_row_to_send_back(tmp_path: Path) -> None:
    """A packer packs boards: metrics, faults and next steps are together in the row of the board."""
    one = whole(record(1))
    for metric, value in (("health.remap_failure", 1), ("health.remap_pending", 1)):
        instead(one, Measurement(metric, one.devices[3].uuid, "count", value))
    save(judged(on_host(one, "node1")), tmp_path / "records" / "node1")
    for form, row in (("md", "| node1 | gpu3"), ("html", '<tr><th scope="row">node1</th><td>gpu3')):
        _, text = made(tmp_path, form=form)
        (line,) = [line for line in text.partition("What to send back")[2].splitlines() if row in line]
        words = ("A203 memory-unrepairable; A202 repair-pending", "health.remap_failure", "health.remap_pending")
        assert [each for each in words if each not in line] == []


def test_boards_that_are_twice_swapped_missing_or_not_listed_are_named(tmp_path: Path) -> None:
    for number in range(3):
        save(node(number), tmp_path / "records" / f"node{number}")
    save(node(5, as_board_of=0), tmp_path / "records" / "node5")  # the boards of node0 are in node5, too
    one, other = str(record(0).devices[2].serial), str(record(1).devices[6].serial)
    unlisted = str(record(2).devices[7].serial)
    boards = packing(tmp_path, 4, **{one: other, other: one, unlisted: "XYZ"})
    boards.write_text(boards.read_text() + "X5,node5\n")
    status, found = told(tmp_path, f"--packing-list={boards}")
    assert status == 1
    # The runs had no list and accepted everything: two boards swapped, one not on the list, the eight of node5 moved.
    assert (found["of_devices"]["accepted"], found["of_devices"]["rejected"]) == (32 - 11, 11)
    assert found["of_devices"]["missing"] == 8 + 2
    assert found["absent"] == ["node3"]
    for words in (
        f"Swapped: {one} is in node0, gpu2 (0000:02:00.0), and listed for node1; {other} is in node1, gpu6",
        "In node5, but listed for node0: 7 boards: ",
        f"In node5, but listed for node1: 1 board: {one}",
        f"In node2, not listed: 1 board: {unlisted}",
        "At once in node0, node5: 8 serial numbers: 16500000, 16500001",
        "No record of 1 node: node3.",
        "Listed for node2, and seen in no node: 1 board: XYZ",
        "Listed for node5, and seen in no node: 1 board: X5",
        "Listed for node3, and seen in no node: 8 boards: ",
    ):
        assert sum(each.startswith(words) for each in found["reasons"]) == 1, words
    assert len(found["differences"]) == 8


def test_a_list_without_leading_zeros_rejects_nothing(tmp_path: Path) -> None:
    with_zeros = node(0)
    devices = [replace(each, serial=f"00{each.serial}") for each in with_zeros.devices]
    save(replace(with_zeros, devices=devices), tmp_path / "records" / "node0")
    status, found = told(tmp_path, f"--packing-list={packing(tmp_path, 1)}")
    assert (status, found["result"], found["of_devices"]["missing"]) == (6, "NOT JUDGED", 0)
    (one,) = found["differences"]
    assert one["words"].startswith("In node0, but for zeros: 8 boards: ")
    assert not one["rejects"]


def test_the_newest_record_of_a_node_counts_and_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    save(node(0, fails=True), tmp_path / "records" / "node0")
    later = node(0)
    later.info["started"] = "2026-11-20T02:00:00+00:00"
    save(later, tmp_path / "records" / "node0-2")
    (tmp_path / "records" / "broken").mkdir()
    (tmp_path / "records" / "broken" / "record.json").write_text('{"schema": 1}')
    status, found = told(tmp_path)
    assert (found["of_nodes"]["accepted"], found["of_nodes"]["rejected"], found["older"]) == (1, 0, 1)
    assert status == 6
    assert "is damaged" in found["refused"][0]


@pytest.mark.nightly
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


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_boards_of_nodes_whose_names_differ_after_the_dot_are_swapped(tmp_path: Path) -> None:
    for number, host in ((0, "n1.a"), (1, "n1.b")):
        save(on_host(node(number), host), tmp_path / "records" / host)
    rows = ["serial,node"]
    for number, host in ((0, "n1.b"), (1, "n1.a")):
        rows += [f"{each.serial},{host}" for each in record(number).devices]
    (tmp_path / "delivery.csv").write_text("\n".join(rows))
    status, found = told(tmp_path, f"--packing-list={tmp_path / 'delivery.csv'}")
    assert (status, found["absent"], len(found["differences"])) == (1, [], 8)
    assert all(each["words"].startswith("Swapped: ") for each in found["differences"])
    expected = (ExpectedNode("n1.a"), ExpectedNode("n1.b"), ExpectedNode("n1.c"))
    run_folder.save(FleetRequest("1", "2026-11-23T00:00:00Z", "0", (), 10, expected=expected), tmp_path / "records")
    assert told(tmp_path)[1]["absent"] == ["n1.c"]


def test_what_the_run_of_a_node_cannot_tell_rejects_no_board_of_the_delivery(tmp_path: Path) -> None:
    one = on_host(node(0), "u12")  # the list calls it node0
    save(one, tmp_path / "records" / "u12")
    blind = node(1)
    unread = replace(blind.devices[0], serial=None, facts={"unread": {"serial": "no permission"}})
    save(replace(blind, devices=[unread, *blind.devices[1:]]), tmp_path / "records" / "node1")
    status, found = told(tmp_path, f"--packing-list={packing(tmp_path, 2)}")
    assert (status, found["result"], found["of_devices"]["accepted"]) == (6, "NOT JUDGED", 7)
    for words in (
        "In u12, node unknown: 8 boards: 16500000, 16500001, ",
        "In node1, no serial: 1 board: gpu0 (0000:00:00.0). gpu0 (0000:00:00.0): serial number: no permission.",
    ):
        assert any(each.startswith(words) for each in found["reasons"]), words
    assert any("the list has no row for this node, u12: correct its names" in each for each in found["reasons"])


@pytest.mark.nightly
def test_nodes_that_were_not_judged_alike_are_not_accepted_as_one_delivery(tmp_path: Path) -> None:
    """Other software may be on some nodes; the document says so."""
    save(node(0), tmp_path / "records" / "node0")
    other = node(1)
    save(replace(other, software={**other.software, "kernel": "6.9"}), tmp_path / "records" / "node1")
    status, text = made(tmp_path, form="md")
    assert status == 0
    assert "> no common kernel: 6.8 on node0, 6.9 on node1." in text
    assert "- the same on all nodes: torch 2.7.0\n" in text
    save(at_level(node(2), "quick"), tmp_path / "records" / "node2")
    status, text = made(tmp_path, form="md")
    assert status == 6
    assert "- The nodes were not judged alike: they differ in level." in text
    assert "- level: standard (2 nodes), quick (1 node)" in text
    assert "- platform: hgx8\n" in text


def test_a_simulated_delivery_says_so_everywhere(tmp_path: Path) -> None:
    save(rehearsed(0), tmp_path / "records" / "node0")
    _, text = made(tmp_path, form="md")
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(headings) == 3
    assert all("SIMULATED: " in line for line in headings)
    _, page = made(tmp_path, form="html")
    assert page.count("SIMULATED: ") == 4
    assert '<h1><span class="simulated">SIMULATED</span> ACCEPTED</h1>' in page


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    hostile = node(0, fails=True)
    hostile.info["host"] = "<script>alert(1)</script>\x1b[2J|`"
    save(hostile, tmp_path / "records" / "node0")
    _, page = made(tmp_path, form="html")
    html5lib.HTMLParser(strict=True).parse(page)
    assert "<script" not in page
    assert "\x1b" not in page
    _, text = made(tmp_path, form="md")
    assert " <script>" not in text
    assert "\x1b" not in text


@pytest.mark.nightly
def test_a_simulated_node_among_real_ones_is_not_accepted(tmp_path: Path) -> None:
    """A rehearsal that was left in the folder: nobody delivered that node."""
    save(node(0), tmp_path / "records" / "node0")
    assert told(tmp_path)[0] == 0
    save(rehearsed(1), tmp_path / "records" / "node1")
    status, found = told(tmp_path)
    assert (status, found["simulated"]) == (6, 1)
    assert "1 node is simulated" in made(tmp_path, form="md")[1]


def test_options_of_the_document_are_for_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "report", str(tmp_path), "--format=html"]) == 4
    assert "only with --acceptance" in capsys.readouterr().err
    assert main(["fleet", "report", str(tmp_path), "--name=order 4711"]) == 4
    assert "only with --acceptance: --name" in capsys.readouterr().err


def test_wrong_inputs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "report", "--acceptance", str(tmp_path / "none")]) == 4
    assert "is not a folder" in capsys.readouterr().err
    assert main(["fleet", "report", "--acceptance", str(tmp_path)]) == 4
    assert "holds no record" in capsys.readouterr().err


CUT = {
    "no verdict": replace(node(0), verdicts=[]),
    "failing verdicts": FAILING,
    "no failing verdicts": replace(FAILING, verdicts=[each for each in FAILING.verdicts if not each.fails]),
    "a filter": replace(node(0), circumstances=replace(AROUND, against=[Objection("filter", "filtered by -k")])),
}
"""Records that their closing line accepts, by what they hold. Their hashes are right."""


@each_row("holds", CUT)
def test_an_acceptance_that_its_own_record_contradicts_is_none(holds: str, tmp_path: Path) -> None:
    save(replace(CUT[holds], closing=ACCEPTING, findings=[]), tmp_path / "records" / "node0")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["not judged"]) == (6, 1)
    assert found["reasons"][0] == "1 node is neither accepted nor rejected: node0."
    assert found["reasons"][1].startswith("node0: the record is not believed: ")


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


def test_one_node_of_the_list_cannot_stand_for_two(tmp_path: Path) -> None:
    """Half of the boards that are listed for node0 are in each of two nodes that may both be called so."""
    drawn = record(0)
    for part, host in enumerate(("node0.a", "node0.b")):
        devices = drawn.devices[4 * part : 4 * part + 4]
        here = [each for each in drawn.measurements if each.subject in {device.uuid for device in devices}]
        half = replace(drawn, devices=devices, measurements=here, info={**drawn.info})
        half.info["platform"] = "hgx4"
        half = judged(whole(half))
        save(on_host(half, host), tmp_path / "records" / host)
    status, found = told(tmp_path, f"--packing-list={packing(tmp_path, 1)}")
    assert (status, found["of_devices"]["missing"]) == (6, 0)
    assert "node0 on the packing list may be any of: node0.a, node0.b." in found["reasons"]


@pytest.mark.nightly
def test_what_an_acceptance_depends_on_is_told_first(tmp_path: Path) -> None:
    broken = Measurement("host.numa_balancing", NODE, "count", 1)
    limit = LIMITS[broken.metric]
    waived = replace(judge([broken], limit), waiver=Waiver(broken.metric, "known", "us", date(2027, 1, 1)))
    one = node(0)
    assert one.circumstances
    around = replace(one.circumstances, overridden=3, rejected_before=["gpu3 on 2026-11-01"])
    instead(one, broken)
    others = [each for each in one.verdicts if each.metric != broken.metric]
    one = closed(replace(one, verdicts=[*others, waived], circumstances=around))
    save(one, tmp_path / "records" / "node0")
    save(node(1, fails=True), tmp_path / "records" / "node1")
    save(on_host(node(1), "node1", "2026-11-20T02:00:00+00:00"), tmp_path / "records" / "node1-2")
    status, text = made(tmp_path, form="md")
    assert status == 0
    front = text.partition("\n## ")[0]
    assert "WAIVED on accepted nodes: host.numa_balancing: node0." in front
    assert "OTHER LIMITS than those of the shipped threshold file: node0." in front
    assert (
        "REJECTED BEFORE, and accepted now: node0 (gpu3 on 2026-11-01), node1 (by an older record in this folder)."
        in front
    )


@pytest.mark.nightly
def test_a_result_that_the_report_of_the_fleet_does_not_count_accepts_nothing(tmp_path: Path) -> None:
    """A run at another level than was asked, and one before a job that left no result."""
    folder = tmp_path / "records"
    for number in range(3):
        save(node(number), folder / f"node{number}")
    fleet = FleetRequest("1", "2026-10-31T00:00:00Z", "0", (), 10, sku="h100-sxm", level="standard")
    expected = tuple(ExpectedNode(f"node{number}") for number in range(3))
    run_folder.save(replace(fleet, expected=expected), folder)
    assert told(tmp_path)[0] == 0
    lost = SubmittedJob("node1", "7", "2026-11-20T00:00:00Z")
    run_folder.save(replace(fleet, expected=expected, jobs=(lost,)), folder)
    shutil.rmtree(folder / "node2")
    save(at_level(node(2), "quick"), folder / "node2")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["accepted"], found["of_nodes"]["not judged"]) == (6, 1, 2)
    assert "does not count this result" in made(tmp_path, form="md")[1]


def test_a_host_with_and_without_its_domain_is_one_node(tmp_path: Path) -> None:
    save(on_host(node(0, fails=True), "node0", "2026-11-01T02:00:00+00:00"), tmp_path / "records" / "first")
    save(on_host(node(0), "node0.example.org", "2026-11-01T03:00:00+00:00"), tmp_path / "records" / "second")
    status, found = told(tmp_path)
    assert (status, found["differences"], found["of_nodes"]["accepted"]) == (0, [], 1)


@pytest.mark.nightly
def test_in_the_run_of_a_fleet_the_result_of_the_last_job_counts(tmp_path: Path) -> None:
    """Whatever the clock of the node said, and wherever else a record of the node lies."""
    folder = tmp_path / "records"
    folder.mkdir()
    expected = (ExpectedNode("node0"), ExpectedNode("node1"))
    jobs = (SubmittedJob("node0", "7", "2026-11-01T00:00:00Z"), SubmittedJob("node0", "8", "2026-11-02T00:00:00Z"))
    run_folder.save(FleetRequest("1", "2026-11-01T00:00:00Z", "0", (), 10, expected=expected, jobs=jobs), folder)
    for number, (job, fails, started) in enumerate((("7", True, "2026-11-09"), ("8", False, "2026-11-02"))):
        one = on_host(node(0, fails=fails), "node0", f"{started}T02:00:00+00:00")
        one.info["launcher"] = Launch("slurm", "node0", 0, nodes=1, job=job)
        save(one, folder / f"node0-{number}")
    save(node(1), folder / "old" / "node1")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["accepted"], found["of_nodes"]["not judged"]) == (6, 1, 1)
    assert [each["name"] for each in found["nodes"] if "does not count" in each["told"]] == ["node1"]


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["night2", "by-hand"])
def test_a_later_rejection_counts_beside_an_acceptance_by_the_run_of_a_fleet(place: str, tmp_path: Path) -> None:
    """In the run of the next night, and in a folder of no run."""
    for folder, night, fails in (("night1", "2026-11-01", False), (place, "2026-11-02", True)):
        save(on_host(node(0, fails=fails), "node0", f"{night}T02:00:00+00:00"), tmp_path / "records" / folder / "node0")
        if folder != "by-hand":
            asked = FleetRequest("1", f"{night}T00:00:00Z", "0", (), 10, expected=(ExpectedNode("node0"),))
            run_folder.save(asked, tmp_path / "records" / folder)
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["rejected"], found["older"]) == (1, 1, 1)
