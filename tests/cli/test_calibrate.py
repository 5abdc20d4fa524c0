"""`pytest-accel calibrate`: which records count, what is written, and what others may send."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.known_good_nodes import failing, record, save

from pytest_accel.cli.main import main
from pytest_accel.cli.rejudge import judge_again
from pytest_accel.core import structured
from pytest_accel.core.floor import floor_in_force
from pytest_accel.core.run import Circumstances
from pytest_accel.core.sku_types import Basis
from pytest_accel.core.verdict import Status
from pytest_accel.run.record import read
from pytest_accel.run.terms import Terms
from pytest_accel.skus import loader

OURS = ("stream.triad", "matmul.bf16", "host_copy.h2d", "all_reduce.busbw@8GiB")


def nodes(folder: Path, numbers: range, **changed: Any) -> Path:
    """Write the records of two runs of each node."""
    for node in numbers:
        for run in range(2):
            save(record(node, run, **changed), folder / f"n{node}-{run}")
    return folder


def calibrate(*words: object) -> int:
    return main(["calibrate", *map(str, words)])


@pytest.mark.nightly
def test_the_file_lints_clean_and_judges_the_records_that_it_came_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, own = nodes(tmp_path / "good", range(4)), tmp_path / "own.yaml"
    assert calibrate(folder, "--output", own) == 0
    out = capsys.readouterr().out
    assert "0 errors, 0 warnings" in out
    assert "8 records: every calibrated limit holds" in out
    assert main(["sku", "lint", str(own)]) == 0
    sku = loader.load(str(own))
    terms = Terms(sku, sku.platforms["hgx8"], "standard")
    again = judge_again(read(next(folder.rglob("record.json"))), terms)
    ours = [each for each in again.verdicts if each.metric in OURS]
    assert len(ours) == 25
    assert {each.status for each in ours} <= {Status.PASS, Status.MARGINAL}
    assert all(each.basis is Basis.OWN for each in ours), "they decided"


@pytest.mark.nightly
def test_the_file_says_what_it_rests_on(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    calibrate(nodes(tmp_path / "good", range(4)), "--output", own, "--owner", "acme")
    text, sku = own.read_text(), loader.load(str(own))
    assert "Review before use." in text
    limit = sku.limits["stream.triad"]
    assert limit.source
    assert (limit.source.kind, limit.source.by, limit.source.devices, limit.source.nodes) == ("measured", "acme", 32, 4)
    assert limit.source.software == "driver 580.95.05, torch 2.7.0 to 2.8.0"
    assert not limit.software, "copies do not depend on torch"
    assert sku.limits["matmul.bf16"].software == {"torch": ">=2.7,<2.9"}
    assert "set by" in limit.source.conditions
    assert limit.healthy
    assert limit.floor
    assert limit.floor < limit.healthy[0]
    assert sku.spread["stream.triad"].between_devices == pytest.approx(0.003, rel=0.5)
    assert sku.spread["stream.triad"].runs == 2
    assert sku.platforms["hgx8"].limits["all_reduce.busbw@8GiB"].conditions["ranks"] == 8


@pytest.mark.nightly
def test_a_bad_device_is_named_left_out_and_rejected_by_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, own = nodes(tmp_path / "good", range(4)), tmp_path / "own.yaml"
    bad = save(record(5, short={3: 0.08}), tmp_path / "good" / "bad")
    assert calibrate(folder, "--output", own) == 0
    line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("outlier"))
    assert "gpu3, serial 16500053" in line
    assert str(bad) in line
    assert "robust deviations" in line
    assert "gpu3, serial 16500053" in own.read_text()
    sku = loader.load(str(own))
    again = judge_again(read(bad), Terms(sku, sku.platforms["hgx8"], "standard"))
    assert {each.subject for each in again.verdicts if each.status is Status.FAIL and each.metric in OURS} == {
        "GPU-0005-3-aa55"
    }


AROUND = Circumstances()
REFUSED: dict[str, dict[str, Any]] = data_files.tables("cli/uncalibrated")


@pytest.mark.nightly
@pytest.mark.parametrize("name", REFUSED)
def test_a_record_that_says_nothing_of_healthy_devices_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    case = REFUSED[name]
    around: dict[str, Any] = (
        {"circumstances": structured.structure(Circumstances, case["around"])} if "around" in case else {}
    )
    folder = nodes(tmp_path / "good", range(2))
    made = record(7, **around, **case.get("run", {}))
    made.info.update(case.get("node", {}))
    bad = save(made, tmp_path / "good" / "bad")
    assert calibrate(folder, "--output", tmp_path / "own.yaml", "--owner", "acme") == 0, "the others are enough"
    assert f"refused: {bad}: {case['why']}" in capsys.readouterr().out
    source = loader.load(str(tmp_path / "own.yaml")).limits["stream.triad"].source
    assert source
    assert (source.devices, source.by) == (16, "acme")


@pytest.mark.nightly
def test_a_record_that_rejects_by_a_fact_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, made = nodes(tmp_path / "good", range(2)), record(7)
    verdicts = failing(made, "health.ecc_uncorrectable_volatile", "3 count, not 0")
    bad = save(replace(made, verdicts=verdicts), tmp_path / "good" / "bad")
    assert calibrate(folder, "--output", tmp_path / "own.yaml", "--owner", "acme") == 0
    assert f"refused: {bad}: it rejects gpu0: health.ecc_uncorrectable_volatile 3 count" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_changed_record_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = nodes(tmp_path / "good", range(2))
    bad = save(record(7), tmp_path / "good" / "bad")
    bad.write_text(bad.read_text().replace("rack7-n07", "rack7-n08"))
    assert calibrate(folder, "--output", tmp_path / "own.yaml", "--owner", "acme") == 0
    assert "it is not believed: the record was changed after it was written" in capsys.readouterr().out


def test_too_few_nodes_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = record(1)
    two = [each for each in short.devices if each.index < 2]
    kept = [each for each in short.measurements if each.subject in {device.uuid for device in two}]
    save(replace(short, devices=two, measurements=kept, circumstances=AROUND), tmp_path / "one")
    assert calibrate(tmp_path / "one", "--output", tmp_path / "own.yaml") == 4
    err = capsys.readouterr().err
    assert "nothing was written" in err
    assert "2 devices, at least 4 are needed" in err
    assert not (tmp_path / "own.yaml").exists()


@pytest.mark.nightly
def test_one_node_is_enough_and_the_file_names_its_devices(tmp_path: Path) -> None:
    save(record(1), tmp_path / "one")
    own = tmp_path / "own.yaml"
    assert calibrate(tmp_path / "one", "--output", own) == 0
    sku = loader.load(str(own))
    assert set(OURS) <= set(sku.limits_on(sku.platforms["hgx8"]))
    assert list(sku.calibrated_from) == [f"GPU-0001-{place}-aa55" for place in range(8)]
    held = []
    for node in (1, 2):
        terms = Terms(sku, sku.platforms["hgx8"], "standard", tuple(record(node).devices))
        held.append(terms.circumstances().texts("floors"))
    assert held == [["floors come from these devices: gpu0 to gpu7"], []]
    (tmp_path / "ours.yaml").write_text("sku: ours\nextends: own.yaml\ncalibrated_from: [GPU-0009-0-aa55]\n")
    assert list(loader.load(str(tmp_path / "ours.yaml")).calibrated_from) == [*sku.calibrated_from, "GPU-0009-0-aa55"]


@pytest.mark.nightly
def test_a_floor_by_the_method_of_another_level_bounds_nothing(tmp_path: Path) -> None:
    """A soak of 7 s and one of 300 s are two methods; that of the memory is the same at all levels."""
    made = record(1)
    soaked = [
        replace(each, metric="soak.rate", conditions={**each.conditions, "seconds": 300.0})
        for each in made.measurements
        if each.metric == "matmul.bf16"
    ]
    save(replace(made, measurements=[*made.measurements, *soaked]), tmp_path / "one")
    assert calibrate(tmp_path / "one", "--output", tmp_path / "own.yaml") == 0
    sku = loader.load(str(tmp_path / "own.yaml"))
    bases = {
        level: [
            floor_in_force(Terms(sku, sku.platforms["hgx8"], level).limits[metric]).basis
            for metric in ("soak.rate", OURS[0])
        ]
        for level in ("quick", "standard")
    }
    assert bases == {"quick": [Basis.CLASS, Basis.OWN], "standard": [Basis.OWN, Basis.OWN]}
    published = Terms(sku, sku.platforms["hgx8"], "quick").limits["soak.rate"].published
    assert published
    assert published.differs == ("level standard (ours: quick)",)


@pytest.mark.nightly
def test_a_rehearsal_judges_no_hardware(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for node in range(3):
        made = record(node, circumstances=replace(AROUND, simulated=True))
        made.info["simulated"] = {"node": "h100-sxm"}
        made.devices = [replace(each, serial=f"SIM{each.serial}") for each in made.devices]
        made.measurements = [replace(each, simulated=True) for each in made.measurements]
        save(made, tmp_path / "sim" / f"n{node}")
    own = tmp_path / "own.yaml"
    assert calibrate(tmp_path / "sim", "--output", own) == 4
    assert calibrate(tmp_path / "sim", "--output", own, "--allow-simulated") == 0
    assert "SIMULATED NODES" in own.read_text()
    real = save(record(9), tmp_path / "real")
    capsys.readouterr()
    assert main(["judge", str(real), f"--sku={own}"]) == 4
    assert "calibrated from simulated nodes and cannot judge hardware" in capsys.readouterr().err


@pytest.mark.nightly
def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.yaml").write_text("mine")
    assert calibrate(nodes(tmp_path / "good", range(2)), "--output", tmp_path / "own.yaml") == 4
    assert "exists; name a new file" in capsys.readouterr().err
    assert (tmp_path / "own.yaml").read_text() == "mine"
