"""The vendor's programs in a run: a stand-in for each, which passes, fails, hangs or prints nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from support import as_user, data_files

from pytest_accel.cli.main import main
from pytest_accel.drivers.diagnostic_report import NoReport, Program
from pytest_accel.run import vendor_programs

STANDIN = """#!{python}
import json, os, signal, sys, time
how, place = os.environ["HOW"], {place!r}
if "hang" in how:
    signal.signal(signal.SIGINT, signal.SIG_IGN if "deaf" in how else lambda *_: (open(place, "w"), sys.exit(190)))
    print("begun", flush=True)
    time.sleep(60)
if how == "nothing":
    sys.exit(255)
fault = dict(error_category=10, error_id=52, error_severity=2, warning="A GPU memory fault was found on GPU 1.")
gpus = [dict(entity_group="GPU", entity_id=index, status="Pass") for index in (0, 1)]
memory = [gpus[0], dict(gpus[1], status="Fail", warnings=[fault])] if how == "fail" else gpus
tests = [dict(category="Deployment", tests=[dict(name="software", results=gpus)])]
tests += [dict(category="Hardware", tests=[dict(name="memory", results=memory)])]
serials = os.environ.get("SERIALS", "").split()
entities = [dict(entity_id=index, serial_num=serial) for index, serial in enumerate(serials)]
groups = [dict(entity_group="GPU", entities=entities)]
print(json.dumps({{"DCGM Diagnostic": dict(test_categories=tests), "entity_groups": groups}}))
sys.exit(226 if how == "fail" else 0)
"""
OWN = """
sku: own
extends: ./pair.yaml
budgets: {quick: {vendor_diagnostic: 4}}
limits:
  diag.vendor: {equals: pass, unit: text, levels: [quick], source: {kind: agreed, by: us, date: 2026-11}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a simulated node of two H100, a file that requires the diagnostic, and a stand-in for dcgmi."""
    (tmp_path / "pair.yaml").write_text(data_files.content("run/pair.yaml"), encoding="utf-8")
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    (tmp_path / "node.yaml").write_text("sku: ./pair.yaml\nplatform: two\n", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin/dcgmi", STANDIN.format(python=sys.executable, place=str(tmp_path / "interrupted")))
    program(tmp_path / "bin/nvidia-bug-report.sh", "#!/bin/sh\nprintf log | gzip > nvidia-bug-report.log.gz\n")
    return tmp_path


def program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(folder: Path, how: str, *args: str, sku: str = "own.yaml", chosen: str = "vendor_diagnostic") -> as_user.Ran:
    """A run of the packaged test on the node."""
    place = as_user.fresh(folder)
    options = [f"--accel-sku={folder / sku}", f"--accel-simulate={folder / 'node.yaml'}", "--accel-level=quick"]
    environment = {"HOW": how, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    chosen_by = ["-k", chosen, f"--accel-output={place}", *args]
    return as_user.pytest(folder, *options, *chosen_by, sku=None, paths=(), output=place, env=environment)


@pytest.mark.parametrize(
    ("how", "statuses", "says"),
    [
        ("pass", {"gpu0": "PASS", "gpu1": "PASS"}, "HELD"),
        ("fail", {"gpu0": "PASS", "gpu1": "FAIL"}, "gpu1: diag.vendor memory: A GPU memory fault was found on GPU 1"),
        ("nothing", dict.fromkeys(("gpu0", "gpu1"), "UNMEASURED"), "ended with exit status 255: it printed nothing"),
        pytest.param(
            "hang",
            dict.fromkeys(("gpu0", "gpu1"), "UNMEASURED"),
            "dcgmi diag -r 1 -j -i 0,1 did not end within 4 s",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_the_diagnostic_decides_where_a_file_requires_it(
    folder: Path, how: str, statuses: dict[str, str], says: str
) -> None:
    ran = run(folder, how)
    assert ran.statuses("diag.vendor") == statuses
    assert says in ran.closing
    assert (ran.folder / "vendor-diagnostic.json").exists() is (how in ("pass", "fail"))
    assert (folder / "interrupted").exists() is (how == "hang"), "it gets a chance to stop its load"


def test_one_that_is_not_installed_is_named_with_what_to_install(folder: Path) -> None:
    (folder / "bin/dcgmi").unlink()
    ran = run(folder, "pass")
    assert "UNMEASURED, dcgmi is not installed: install NVIDIA DCGM" in ran.closing
    assert ran.exit == 6


def started(folder: Path, how: str, *args: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A run that goes on, and its folder."""
    place = as_user.fresh(folder)
    words = [f"--accel-sku={folder / 'own.yaml'}", f"--accel-simulate={folder / 'node.yaml'}", "--accel-level=quick"]
    words += ["-k", "vendor_diagnostic", f"--accel-output={place}", *args]
    environment = as_user.environment({"HOW": how, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}, autoload=False)
    line = [str(as_user.BIN / "pytest"), "-p", "pytest_accel.plugin", *words]
    return subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL), place


def test_a_run_that_ends_interrupts_the_program(folder: Path) -> None:
    process, place = started(folder, "hang")
    with process:
        printed = place / "logs/dcgmi/printed.txt"
        until(lambda: printed.exists() and printed.read_text() == "begun\n")
        process.send_signal(signal.SIGKILL)
    until((folder / "interrupted").exists)


def until(happened: object) -> None:
    """Wait until something happened, a minute at most."""
    end = time.monotonic() + 60
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.nightly
def test_a_program_that_ignores_an_interrupt_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOW", "hang deaf")
    monkeypatch.setattr(vendor_programs, "STOPPING_SECONDS", 0.5)
    deaf = Program(str(folder / "bin/dcgmi"), "")
    began = time.monotonic()
    with pytest.raises(NoReport, match="did not end within 1 s"):
        vendor_programs.call(deaf, (), folder / "place", 1.0, lambda _: None)
    assert time.monotonic() - began < 30


# -- an output that was given


def given(folder: Path, how: str, serials: str = "SIM00000001 SIM00000000") -> Path:
    """The output of the stand-in, whose GPUs have these serial numbers."""
    path = folder / "given.json"
    environment = {"HOW": how, "SERIALS": serials}
    made = subprocess.run([folder / "bin/dcgmi"], env=environment, capture_output=True, check=False)
    path.write_bytes(made.stdout)
    return path


def test_a_given_output_decides_by_the_serial_numbers_that_it_states(folder: Path) -> None:
    ran = run(folder, "hang", f"--accel-diag={given(folder, 'fail')}", sku="pair.yaml")
    assert ran.statuses("diag.vendor") == {"gpu0": "FAIL", "gpu1": "PASS"}, "it counts them in the other order"
    assert ran.exit == 1


@pytest.mark.parametrize(
    ("serials", "old", "says"),
    [
        ("", False, "states no serial number (AGFHC never does): it may be of other devices"),
        ("SIM00000000 SIM00000007", False, "does not hold the device with the serial number SIM00000001"),
        ("SIM00000000 SIM00000001", True, "was made before this host was booted: run the diagnostic again"),
    ],
)
def test_a_given_output_of_another_node_or_of_earlier_is_refused(
    folder: Path, serials: str, old: bool, says: str
) -> None:
    file = given(folder, "pass", serials)
    if old:
        os.utime(file, (1.0, 1.0))
    ran = run(folder, "pass", f"--accel-diag={file}")
    assert ran.exit == 4
    assert f"--accel-diag: {file}" in ran.out
    assert says in ran.out


@pytest.mark.parametrize(("text", "says"), [(None, "cannot be read"), ("rows: 3\n", "holds no results: rows: 3")])
def test_a_given_file_that_holds_no_output_is_refused_before_anything_is_measured(
    folder: Path, text: str | None, says: str
) -> None:
    if text:
        (folder / "given.json").write_text(text, encoding="utf-8")
    ran = run(folder, "pass", f"--accel-diag={folder / 'given.json'}")
    assert ran.exit == 4
    assert says in ran.out


# -- what a run does with it


def test_a_given_output_counts_whatever_level_a_file_requires_it_at(folder: Path) -> None:
    text = OWN.replace("levels: [quick]", "levels: [long]")
    (folder / "own.yaml").write_text(text, encoding="utf-8")
    ran = run(folder, "hang", f"--accel-diag={given(folder, 'fail')}")
    assert ran.statuses("diag.vendor") == {"gpu0": "FAIL", "gpu1": "PASS"}
    assert main(["judge", str(ran.folder)]) == 1, "nor does judging it again lose it"


def test_own_tests_choose_a_level_and_read_what_it_says(folder: Path) -> None:
    as_user.write(
        folder,
        test_own="""
        @pytest.mark.parametrize("level", [1, 2])
        def test_diagnostic(accel_check, level):
            (verdict,) = accel_check(probes.vendor_diagnostic, level=level)
            assert verdict.value.startswith(("pass", "memory: "))
    """,
    )
    ran = run(folder, "fail", f"--accel-with={folder / 'test_own.py'}", chosen="test_diagnostic")
    values = [ran.measurements(f"diag.vendor@level={level}", "gpu1")[0]["value"] for level in (1, 2)]
    assert values == ["memory: A GPU memory fault was found on GPU 1"] * 2
    assert (ran.folder / "logs/dcgmi-2").is_dir(), "each call has a folder of its own"


# -- the bug report, and the packet for the supplier


def test_the_packet_of_a_rejected_device_holds_the_outputs_of_the_vendors_programs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(folder, "fail", "--accel-bug-report")
    assert "note: the vendor's bug report is vendor-bug-report.log.gz beside the record" in ran.out
    assert main(["claim", str(ran.folder), "--device=gpu1", f"--output={folder / 'claim.tar.gz'}"]) == 0
    with tarfile.open(folder / "claim.tar.gz") as packed:
        names = packed.getnames()
    assert {"claim/record/vendor-diagnostic.json", "claim/record/vendor-bug-report.log.gz"} <= set(names)
    assert "memory: A GPU memory fault was found on GPU 1" in capsys.readouterr().out


@pytest.mark.nightly
def test_an_interrupted_bug_report_takes_no_rejection_back(folder: Path) -> None:
    program(folder / "bin/nvidia-bug-report.sh", "#!/bin/sh\necho begun\nexec sleep 60\n")
    process, place = started(folder, "fail", "--accel-bug-report")
    with process:
        printed = place / "logs/nvidia-bug-report.sh/printed.txt"
        until(lambda: printed.exists() and printed.read_text() == "begun\n")
        process.send_signal(signal.SIGTERM)
    found = json.loads((place / "record.json").read_text())
    assert (process.returncode, found["closing"]["result"]) == (1, "REJECTED")
    assert "no bug report of the vendor: it was interrupted" in found["notes"]


@pytest.mark.nightly
def test_a_node_that_holds_gets_no_bug_report_and_one_without_the_program_says_so(folder: Path) -> None:
    assert "bug report" not in run(folder, "pass", "--accel-bug-report").out
    (folder / "bin/nvidia-bug-report.sh").unlink()
    ran = run(folder, "fail", "--accel-bug-report")
    assert "note: no bug report of the vendor: nvidia-bug-report.sh is not installed" in ran.out
    assert json.loads((ran.folder / "record.json").read_text())["closing"]["result"] == "REJECTED"
