"""What a reader sees of a threshold file."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.shipped import every, load

from pytest_accel.cli.main import main
from pytest_accel.skus import loader
from pytest_accel.views import sheet


def test_every_figure_of_a_sheet_has_a_source_that_is_listed() -> None:
    tables = {table.title: table for table in sheet.sheet(load("h100-sxm"))}
    listed = {row[0] for row in tables["Sources"].rows}
    for title in ("SKU", "Limits"):
        place = [*tables[title].columns].index("source")
        numbers = {row[place] for row in tables[title].rows}
        assert numbers <= listed, title
        assert numbers


def test_the_limit_is_shown_as_it_judges(capsys: pytest.CaptureFixture[str]) -> None:
    """Not rounded: the declared limit is the effective one."""
    assert main(["sku", "show", "h100-sxm", "-v"]) == 0
    limits, text = load("h100-sxm").limits, capsys.readouterr().out.partition("\nLimits\n")[2].splitlines()
    lines = {metric: next(line for line in text if line.lstrip().startswith(f"{metric} ")) for metric in limits}
    assert f"at least {limits['stream.copy_kernel'].floor:.10g} GB/s" in lines["stream.copy_kernel"]
    assert "93.0%" in lines["stream.copy_kernel"]  # of reference
    assert "published 1290" in lines["matmul.fp8"]
    assert "scaling 1 (no scaling)" in lines["matmul.fp8"]


def test_the_sheet_holds_the_hashes_of_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sku", "show", "h100-sxm", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert all(digest in text for digest in load("h100-sxm").files.values())


def test_what_a_person_wants_first_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """How a device is recognised, its datasheet, its platforms, and what rejects at which level, each floor once."""
    assert main(["sku", "show", "h100-sxm"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [re.split("  +", line.strip()) for line in lines]

    assert len(lines) <= 50
    assert ["PCI id", "10de:2330"] in rows
    assert ["hgx8", "8", "PCIe 5 x16 63", "nvlink4 x 18 switch 450", "quick"] in rows
    assert ["matmul.tf32 < 232.509 TFLOPS", "standard long", "1 publisher", "all"] in rows
    assert ["peer_copy.one_way < 306 GB/s", "all", "3 publishers", "hgx8 vm-passthrough dgx"] in rows
    assert ["peer links: nothing", "not judged", "hgx4"] in rows
    assert lines[-1].startswith("-v shows ")


def test_a_users_own_file_is_shown_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.yaml"
    source = "{kind: measured, by: us, date: 2026-11, devices: 64, nodes: 8}"
    own.write_text(f"extends: h100-sxm\nlimits:\n  matmul.bf16: {{floor: 690, source: {source}}}\n")
    assert main(["sku", "show", str(own), "-v"]) == 0
    text = capsys.readouterr().out
    assert "at least 690 TFLOPS" in text
    assert "64 devices 8 nodes" in text


def test_a_users_own_file_is_told_from_the_shipped_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The closing line counts what differs; here a reader finds what it is."""
    (tmp_path / "ours.yaml").write_text(
        "extends: h100-sxm\n"
        "limits:\n  stream.triad: {floor: 1000, unit: GB/s, source: {kind: measured, by: us, date: 2026-11}}\n"
    )
    assert main(["sku", "show", str(tmp_path / "ours.yaml")]) == 0
    told = capsys.readouterr().out.partition("Other than the shipped file")[2]
    assert "stream.triad" in told
    assert main(["sku", "show", "h100-sxm"]) == 0
    assert "Other than the shipped file" not in capsys.readouterr().out
    assert main(["sku", "show", "h100-smx"]) == 4
    assert "did you mean 'h100-sxm'" in capsys.readouterr().err


def test_the_list_names_the_usual_platform_and_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sku", "list"]) == 0
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    skus = every()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.split() for line in lines[1:]}
    assert [*rows] == loader.names()
    assert [sku.name for sku in skus if next(iter(sku.platforms)) not in rows[sku.name]] == []


@pytest.mark.nightly
def test_every_shipped_sku_has_a_sheet() -> None:
    shown = {sku.name: sheet.text(sheet.sheet(sku)) for sku in every()}
    assert [sku.name for sku in every() if not all(metric in shown[sku.name] for metric in sku.limits)] == []


def test_a_reader_who_goes_away_is_no_error() -> None:
    """`pytest-accel sku show h100-sxm | head -1`."""
    command = f"{sys.executable} -c 'from pytest_accel.cli.main import main; main()' sku show h100-sxm | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
