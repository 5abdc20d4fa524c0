"""What a delivery's ACCEPTED rests on: the signers and the threshold files of the buyer."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support import raw_record
from support.accepted_nodes import LIMITS, judged, node
from support.deliveries import made, needs_openssh, save, told
from support.known_good_nodes import closed

from pytest_accel.cli.main import main
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import DeclaredBy
from pytest_accel.run.record import seal
from pytest_accel.skus import loader

pytestmark = needs_openssh
TRIAD = "stream.triad"


def agreed(folder: Path, floor: int) -> Path:
    """A threshold file of the supplier or the buyer, with a floor of its own."""
    path = folder / f"floor-{floor}.yaml"
    source = "{kind: agreed, by: both, date: 2026-11}"
    path.write_text(f"extends: h100-sxm\nlimits:\n  {TRIAD}: {{floor: {floor}, unit: GB/s, source: {source}}}\n")
    return path


def by_file(number: int, file: Path, *, triad: float | None = None) -> Run:
    """A node that was judged by the limits of a file, with figures of the triad of its own."""
    sku = loader.load(str(file))
    found = node(number)
    if triad:
        found.measurements = [
            replace(each, value=triad) if each.metric == TRIAD else each for each in found.measurements
        ]
    limits = {**LIMITS, TRIAD: sku.limits_on(sku.platforms["hgx8"])[TRIAD]}
    return judged(found, limits, sku={"name": sku.name, "asked": str(file), "files": sku.files})


LOWERED = "node2: made by floor-2500.yaml "
CASES = {
    "all signed": (0, []),
    "unsigned": (6, ["node2: as stated by the supplier, unsigned."]),
    "stranger": (6, ["node2: it is not proven: SHA256SUMS.sig: no key of "]),
    "lowered": (6, [LOWERED, "not the buyer's h100-sxm.yaml ", "by the buyer's limits: "]),
    "lowered, unsigned": (6, [LOWERED, "by the buyer's limits: ", "; as stated by the supplier, unsigned."]),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.nightly] * (case != "all signed")) for case in CASES],
)
def test_a_delivery_of_three_nodes_is_accepted_by_the_signatures_of_all(case: str, tmp_path: Path) -> None:
    for number in range(2):
        save(node(number), tmp_path / "records" / f"node{number}")
    last = by_file(2, agreed(tmp_path, 2500)) if case.startswith("lowered") else node(2)
    key = "" if case.endswith("unsigned") else "stranger" if case == "stranger" else "supplier"
    save(last, tmp_path / "records" / "node2", key)
    status, found = told(tmp_path)
    wanted, words = CASES[case]
    assert (status, found["of_nodes"]["accepted"]) == (wanted, 3 if wanted == 0 else 2)
    assert all(each in " ".join(found["reasons"]) for each in words), found["reasons"]


def test_without_a_list_of_signers_nothing_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(node(0), tmp_path / "records" / "node0")
    assert main(["fleet", "report", "--acceptance", str(tmp_path / "records")]) == 6
    assert (
        "node0: as stated by the supplier, unsigned (--allowed-signers names who may sign)." in capsys.readouterr().out
    )


def test_what_an_unsigned_record_rejects_is_rejected(tmp_path: Path) -> None:
    save(node(0, fails=True), tmp_path / "records" / "node0", key="")
    status, found = told(tmp_path)
    assert (status, found["reasons"]) == (1, ["1 node is rejected: node0."])


def test_another_nonce_than_was_given_out_is_not_accepted(tmp_path: Path) -> None:
    save(node(0), tmp_path / "records" / "node0")
    status, found = told(tmp_path, "--nonce=PO-4711")
    assert (status, found["nodes"][0]["signed_by"]) == (6, "supplier")
    assert "the run was given no nonce, not 'PO-4711'" in found["reasons"][1]


@pytest.mark.parametrize("key", ["supplier", ""])
def test_what_the_limits_of_the_buyer_reject_is_rejected(key: str, tmp_path: Path) -> None:
    supplier, buyer = agreed(tmp_path, 2300), agreed(tmp_path, 2700)
    save(by_file(0, supplier, triad=2500.0), tmp_path / "records" / "node0", key)
    status, found = told(tmp_path, f"--sku={buyer}")
    assert (status, found["of_devices"]["rejected"]) == (1, 8)
    assert {each["metric"] for each in found["rejections"]} == {TRIAD}
    line = found["nodes"][0]["told"]
    assert line.startswith("made by floor-2300.yaml ")
    assert "not the buyer's floor-2700.yaml " in line
    assert "by the buyer's limits: REJECTED " in line


def test_the_file_of_both_sides_is_named_to_the_report(tmp_path: Path) -> None:
    """By its content: the buyer has it under another name."""
    agreement = agreed(tmp_path, 2500)
    save(by_file(0, agreement), tmp_path / "records" / "node0")
    assert told(tmp_path)[0] == 6
    kept = tmp_path / "kept.yaml"
    shutil.copy(agreement, kept)
    status, text = made(tmp_path, f"--sku={kept}", form="md")
    assert status == 0
    assert "| node0 | accepted | supplier | 8 |" in text
    kept.write_text(f"{kept.read_text()}# changed\n")
    status, found = told(tmp_path, f"--sku={kept}")
    assert status == 6
    assert "made by floor-2500.yaml " in found["reasons"][1]
    assert "not the buyer's kept.yaml " in found["reasons"][1]


@pytest.mark.parametrize("triad", [2950.0, 2600.0])
def test_a_signed_record_with_lowered_limits_that_states_the_buyer_s_files(triad: float, tmp_path: Path) -> None:
    """The buyer's limits decide."""
    one = by_file(0, agreed(tmp_path, 2500), triad=triad)
    save(replace(one, sku={"name": "h100-sxm"}), tmp_path / "records" / "node0")
    status, found = told(tmp_path)
    assert (status, found["nodes"][0]["signed_by"]) == (0 if triad > 2762 else 1, "supplier")


def test_a_record_by_other_files_than_the_buyer_s_is_not_accepted(tmp_path: Path) -> None:
    """The shipped file made it, and another one was agreed on. Another product than was ordered is rejected."""
    save(node(0), tmp_path / "records" / "node0")
    status, found = told(tmp_path, f"--sku={agreed(tmp_path, 2500)}")
    assert (status, found["of_nodes"]["not judged"]) == (6, 1)
    assert "node0: made by h100-sxm.yaml " in found["reasons"][1]
    assert "not the buyer's floor-2500.yaml " in found["reasons"][1]
    status, found = told(tmp_path, "--sku=gb200")
    assert (status, found["of_nodes"]["rejected"]) == (1, 1)
    assert "gpu0 to gpu7 inventory.sku NVIDIA H100 80GB HBM3 (10de:2330): its name is" in found["nodes"][0]["told"]


def test_what_a_supplier_drops_from_his_record_is_required_all_the_same(tmp_path: Path) -> None:
    """He drops a metric with its verdicts and what required them, closes the record anew and signs it."""
    one = node(0)
    assert one.circumstances
    around = replace(one.circumstances, required=[key for key in one.circumstances.required if key[0] != TRIAD])
    verdicts = [each for each in one.verdicts if each.metric != TRIAD]
    measured = [each for each in one.measurements if each.metric != TRIAD]
    less = closed(replace(one, verdicts=verdicts, measurements=measured, circumstances=around))
    assert less.closing.result == "ACCEPTED"
    save(less, tmp_path / "records" / "node0")
    status, found = told(tmp_path)
    assert (status, found["nodes"][0]["signed_by"]) == (6, "supplier")
    assert "by the buyer's limits: NOT JUDGED " in found["reasons"][1]


def test_a_file_of_the_supplier_for_a_product_that_is_not_shipped(tmp_path: Path) -> None:
    """The name of the SKU in a record opens no file of the buyer's machine."""
    one = node(0)
    assert one.circumstances
    own = str(agreed(tmp_path, 2500))
    around = replace(one.circumstances, sku=own)
    save(closed(replace(one, sku={**one.sku, "name": own}, circumstances=around)), tmp_path / "records" / "node0")
    status, found = told(tmp_path)
    assert (status, found["of_nodes"]["not judged"]) == (6, 1)
    assert f"made as {own}, which is no shipped SKU (--sku names the buyer's threshold file)" in found["reasons"][1]


def test_a_record_under_another_name_beside_a_signed_one_is_unsigned(tmp_path: Path) -> None:
    folder = save(node(0), tmp_path / "records" / "node0").parent
    raw = raw_record.read(folder)
    raw["notes"].append("another record")
    raw["info"]["started"] = "2026-11-20T02:00:00+00:00"  # it is newer, and counts
    raw["sha256"] = seal(raw)
    (folder / "zz.json").write_text(json.dumps(raw))
    status, found = told(tmp_path)
    assert (status, found["nodes"][0]["signed_by"]) == (6, "")
    assert "as stated by the supplier, unsigned" in found["reasons"][1]


@pytest.mark.parametrize("metric", [TRIAD, "health.remap_failure"])
def test_a_limit_that_the_supplier_calls_a_marker_takes_no_limit_of_the_buyer_s_away(
    metric: str, tmp_path: Path
) -> None:
    """The marker has a bound that his figures hold, and the key that an acceptance requires."""
    one = node(0)
    own = replace(LIMITS[metric], declared_by=DeclaredBy.MARKER, floor=None, equals=None, ceiling=1e6, class_floor=None)
    one.measurements = [replace(each, value=5) if each.metric == metric else each for each in one.measurements]
    one = judged(one, {**LIMITS, metric: own})
    assert one.closing.result == "ACCEPTED"
    save(one, tmp_path / "records" / "node0")
    status, found = told(tmp_path)
    assert (status, {each["metric"] for each in found["rejections"]}) == (1, {metric})


@pytest.mark.parametrize("follows", ["none", "/data/run-1/record.json"])
def test_one_run_of_a_series_accepts_nothing(follows: str, tmp_path: Path) -> None:
    """The result of the series stands in files that nobody signs."""
    one = node(0)
    one.info["follows"] = follows
    folder = save(one, tmp_path / "records" / "run-1").parent
    result = {"state": "finished", "result": "ACCEPTED", "exit": 0, "line": "ACCEPTED", "schema": 1}
    (folder.parent / "summary.json").write_text(json.dumps(result))
    status, found = told(tmp_path)
    assert (status, found["nodes"][0]["signed_by"]) == (6, "supplier")
    assert "it is not proven: it is one run of a series, and accepts nothing" in found["reasons"][1]
