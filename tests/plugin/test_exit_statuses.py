"""Exit status 1 stands for a verdict on hardware. Runs are simulated, or end before they measure."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import as_user, data_files
from support.as_user import BIN, write
from support.rows import each_row

from pytest_accel.cli import main as command
from pytest_accel.core import closing_file
from pytest_accel.plugin import exit_status
from pytest_accel.run.options import time_limit

TABLES = data_files.tables("plugin/exit_statuses")

HEALTHY = "{sku: h100-sxm, platform: single}"
SICK = "{sku: h100-sxm, platform: single, faults: [{fault: wrong-product, device: 0}]}"


def node(folder: Path, text: str = HEALTHY) -> Path:
    path = folder / "node.yaml"
    path.write_text(text)
    return path


def shell(folder: Path, redirected: str, *options: str, sick: bool = False) -> tuple[int, str]:
    """Run a few checks of a simulated node, by a shell that redirects; the exit status of pytest, and stderr."""
    file = node(folder, SICK if sick else HEALTHY)
    words = [str(BIN / "pytest"), "-p", "no:randomly", "--accel-level=quick", f"--accel-simulate={file.name}", *options]
    return bash(" ".join(map(repr, [*words, "-k", "inventory"])), redirected, folder)


def bash(line: str, redirected: str, folder: Path) -> tuple[int, str]:
    """Run a command whose output a shell redirects; its exit status, and stderr."""
    done = subprocess.run(
        ["bash", "-c", f"{line} {redirected}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        env=as_user.environment(),
        capture_output=True,
        text=True,
        timeout=as_user.SECONDS,
        check=False,
    )
    return done.returncode, done.stderr


# -- outputs that cannot be written to


@pytest.mark.nightly
@pytest.mark.parametrize("redirected", ["| head -1", ">/dev/full", ">&-", ">/dev/full 2>&1", "2>&- >&-"])
@pytest.mark.parametrize(("sick", "status"), [(False, 6), (True, 1)], ids=["healthy", "sick"])
def test_an_output_that_cannot_be_written_to_changes_no_verdict(
    tmp_path: Path, redirected: str, sick: bool, status: int
) -> None:
    ended, err = shell(tmp_path, redirected, sick=sick)

    assert ended == status, err
    assert "Traceback" not in err


@pytest.mark.parametrize("redirected", ["2>/dev/full", pytest.param("2>&-", marks=pytest.mark.nightly)])
def test_a_wrong_option_ends_with_4_whether_it_can_be_said_or_not(tmp_path: Path, redirected: str) -> None:
    assert shell(tmp_path, redirected, "--accel-platform=nowhere")[0] == 4


@each_row(("words", "redirected", "status"), TABLES["commands"])
def test_a_command_keeps_its_status(tmp_path: Path, words: str, redirected: str, status: int) -> None:
    ended, err = bash(f"{BIN / 'pytest-accel'} {words}", redirected, tmp_path)

    assert ended == status, err
    assert "Traceback" not in err
    assert "Exception ignored" not in err


@pytest.mark.parametrize("words", ["sku show h100-sxm", "sku show h100-sxm --resolved"])
def test_a_file_that_the_disk_has_no_room_for_is_no_success(tmp_path: Path, words: str) -> None:
    told = bash(f"{BIN / 'pytest-accel'} {words}", ">/dev/full", tmp_path)

    assert told == (4, "standard output: No space left on device\n")


def test_a_full_disk_does_not_drain_a_node(tmp_path: Path) -> None:
    """The result of a health check is its exit status, whatever becomes of its line."""
    words = f"{BIN / 'pytest-accel'} health --simulate=h100-sxm --timeout=30s"
    full, kept = (bash(words, where, tmp_path)[0] for where in (">/dev/full", ">line"))

    assert full == kept


@pytest.mark.nightly
def test_the_closing_line_is_in_the_file_that_a_container_names(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    message.write_text("")
    env = {"PYTEST_ACCEL_CLOSING_FILE": str(message)}
    ran = as_user.pytest(tmp_path, "--accel-simulate=h100-sxm", "-k", "inventory_node", sku=None, paths=(), env=env)
    assert message.read_text(encoding="utf-8") == ran.closing


@pytest.mark.nightly
def test_what_needs_something_has_a_next_step_and_no_command_to_repeat(tmp_path: Path) -> None:
    """Without the need met, the same command ends in the same way."""
    file = node(tmp_path, "{sku: h100-sxm, platform: single, faults: [{fault: compute-prohibited, device: 0}]}")
    words = (f"--accel-simulate={file}", "--accel-level=quick", "-k", "test_stream")
    ran = as_user.pytest(tmp_path, *words, sku=None, paths=())
    assert ran.exit == 6
    assert re.search(
        r"^next: gpu0 \(serial \S+, PCI \S+\) A901 unmeasured: provide what is named", ran.out, re.MULTILINE
    )
    assert "again: " not in ran.out


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_a_regular_file_gets_the_closing_line(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may have inherited the variable from whoever called it."""
    victim, named = tmp_path / "victim", tmp_path / "named"
    victim.write_text("kept", encoding="utf-8")
    if kind == "link":
        named.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(named)
    else:
        named.mkdir()
    monkeypatch.setenv(closing_file.VARIABLE, str(named))
    reader = os.open(named, os.O_RDONLY | os.O_NONBLOCK)
    closing_file.write("ACCEPTED")

    assert victim.read_text(encoding="utf-8") == "kept"
    assert kind != "pipe" or os.read(reader, 9) == b""
    os.close(reader)


def test_the_closing_line_replaces_what_the_file_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named").write_text("REJECTED gpu0: an older one", encoding="utf-8")
    monkeypatch.setenv(closing_file.VARIABLE, str(tmp_path / "named"))
    closing_file.write("ACCEPTED")

    assert (tmp_path / "named").read_text(encoding="utf-8") == "ACCEPTED"


# -- commands


@pytest.mark.parametrize("words", [["nonsense"], [], ["sku"], ["judge"], ["sku", "lint", "h100-sxm", "--format=x"]])
def test_wrong_use_of_a_command_ends_with_4(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(words)

    assert ended.value.code == 4
    assert "usage: pytest-accel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"), [(ZeroDivisionError("x"), 3), (OSError("x"), 3), (KeyboardInterrupt(), 2)]
)
def test_an_error_of_ours_is_no_verdict(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("pytest_accel.skus.loader.load_shipped", fails)

    assert command.main(["sku", "list"]) == status
    said = capsys.readouterr().err
    assert "not a verdict on the hardware" in said or status == 2


# -- other plugins


THEIRS = """
import os, pytest
def fail(how):
    if how == "error":
        1 / 0
    if how == "exit 1":
        raise SystemExit(1)
    if how == "pytest.exit 1":
        pytest.exit("no", returncode=1)
    if how == "fail":
        pytest.fail("no")
    if how == "Ctrl-C":
        raise KeyboardInterrupt

WHERE, _, HOW = os.environ["FAILS"].partition(":")
def hook(name):
    def implementation():
        if name == WHERE:
            fail(HOW)
    return implementation

for name in (
    "pytest_load_initial_conftests", "pytest_configure", "pytest_sessionstart", "pytest_collection_modifyitems",
    "pytest_runtestloop", "pytest_terminal_summary", "pytest_sessionfinish", "pytest_unconfigure"
):
    globals()[name] = hook(name)

def pytest_cmdline_main(config):
    if WHERE == "cleanup":
        config.add_cleanup(lambda: fail(HOW))
    return 1 if WHERE == "pytest_cmdline_main" else None
"""

AT_ONCE = ("pytest_load_initial_conftests", "pytest_configure", "pytest_cmdline_main")
"""Where a run ends before it measures."""
LATER = [
    *("pytest_sessionstart:exit 1", "pytest_sessionstart:pytest.exit 1", "pytest_sessionstart:fail"),
    *("pytest_sessionstart:error", "pytest_collection_modifyitems:error", "pytest_runtestloop:error"),
    *("pytest_terminal_summary:error", "pytest_sessionfinish:error", "pytest_unconfigure:error", "cleanup:error"),
]


@pytest.mark.parametrize(
    ("fails", "statuses"),
    [
        *((f"{each}:error", [3]) for each in AT_ONCE),
        *(pytest.param(each, [2, 3, 6], marks=pytest.mark.nightly) for each in LATER),
        pytest.param("pytest_unconfigure:Ctrl-C", [6], marks=pytest.mark.nightly),  # behind the closing line
    ],
)
def test_no_plugin_that_fails_rejects_or_accepts(tmp_path: Path, fails: str, statuses: list[int]) -> None:
    """A healthy node whose run is filtered ends with 6 if all goes well."""
    write(tmp_path, theirs=THEIRS)
    line = (f"--accel-simulate={node(tmp_path)}", "--accel-level=quick", "-p", "theirs", "-k", "inventory")
    env = {"FAILS": fails, "PYTHONPATH": str(tmp_path)}
    ran = as_user.pytest(tmp_path, *line, sku=None, paths=(), env=env)

    assert ran.exit in statuses, ran.out


@each_row(("of_pytest", "of_closing", "status"), TABLES["statuses"])
def test_the_closing_line_decides(of_pytest: int | None, of_closing: int | None, status: int) -> None:
    assert exit_status(of_pytest, of_closing) == status


# -- what ends pytest itself


@pytest.mark.parametrize("where", ["option", "ini", "marker"])
def test_a_timeout_that_ends_pytest_itself_is_refused(tmp_path: Path, where: str) -> None:
    """pytest-timeout by its method `thread` calls os._exit(1): no closing line, and the status of a rejection."""
    options: Sequence[str] = ["--timeout-method=thread"] if where == "option" else []
    if where == "ini":
        (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout_method = thread\n")
    mark = "@pytest.mark.timeout(5, method='thread')\n" if where == "marker" else ""
    write(tmp_path, test_mine=f"{mark}def test_mine(accel_check):\n    accel_check(tiny)\n")
    line = (f"--accel-simulate={node(tmp_path)}", *options)
    ran = as_user.pytest(tmp_path, *line, sku=None, env={"PYTEST_PLUGINS": "pytest_timeout"})

    assert ran.exit == 4, ran.out
    assert "os._exit(1)" in ran.out
    assert "INTERNALERROR" not in ran.out


# -- a forgotten --accel-sku

MEASURES = {
    "fixture": "def test_mine(accel_check):\n    accel_check(tiny)\n",
    "marker": "@accel_min_tflops(0.5)\ndef test_mine():\n    pass\n",
}


@pytest.mark.parametrize("how", MEASURES)
def test_a_nightly_run_that_lost_its_sku_can_be_an_error(tmp_path: Path, how: str) -> None:
    write(tmp_path, test_mine=MEASURES[how])
    skipped = as_user.pytest(tmp_path, sku=None)
    (tmp_path / "pytest.ini").write_text("[pytest]\naccel_required = true\n")
    ran = as_user.pytest(tmp_path, sku=None)
    write(tmp_path, test_mine="def test_mine():\n    pass\n")
    other = as_user.pytest(tmp_path, sku=None)

    assert skipped.exit == 0
    assert ran.exit == 4, ran.out
    assert "without --accel-sku=NAME 1 test would measure nothing, such as test_mine.py::test_mine" in ran.out
    assert other.exit == 0, other.out


def test_an_option_without_a_sku_is_said_to_have_no_effect(tmp_path: Path) -> None:
    ran = as_user.pytest(tmp_path, "--accel-level=quick", "-q", sku=None, paths=())

    assert ran.exit == 5
    assert "--accel-level has no effect without --accel-sku=NAME" in ran.out


# -- the time limit of the run


def test_a_time_limit_is_a_duration() -> None:
    right = {"900": 900, "900s": 900, "15m": 900, "1h30m": 5400, "1m30": 90, "20.5": 20.5}
    assert {text: time_limit(text) for text in right} == right
    for wrong in ("", "19", "m", "5x", "-900", "1e3", "nan", "900 s 3", "15m1h"):
        with pytest.raises(argparse.ArgumentTypeError):
            time_limit(wrong)


@pytest.mark.nightly
def test_a_run_ends_within_its_time_limit(tmp_path: Path) -> None:
    """Its record is closed; what was not reached is UNMEASURED. Judged again, it says the same."""
    file = node(tmp_path, "{sku: h100-sxm, platform: hgx8}")
    began = time.monotonic()
    line = (f"--accel-simulate={file}", "--accel-time-limit=20", f"--accel-output={tmp_path / 'out0'}")
    ran = as_user.pytest(tmp_path, *line, sku=None, paths=())
    again = subprocess.run(
        [str(BIN / "pytest-accel"), "judge", str(tmp_path / "out0")], capture_output=True, text=True, check=False
    )

    assert ran.exit == 6, ran.out
    assert time.monotonic() - began < 30
    assert ran.closing.startswith("SIMULATED NOT JUDGED")
    sentences = {one.get("text") for each in ran.record["verdicts"] for one in each["reasons"]}
    assert "not reached within the time limit of 20 s for the run" in sentences
    assert ran.record["state"] == "finished"
    assert ran.record["info"]["time_limit"] == 20
    assert set(ran.statuses("soak.rate").values()) == {"UNMEASURED"}
    assert again.returncode == 6, again.stdout


@pytest.mark.nightly
@pytest.mark.parametrize(("sick", "status"), [(False, 6), (True, 1)], ids=["healthy", "sick"])
def test_a_test_that_never_ends_does_not_outlast_the_time_limit(tmp_path: Path, sick: bool, status: int) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naccel_time_limit = 20s\n")
    env = {"PYTHONPATH": str(tmp_path)}
    file = node(tmp_path, SICK if sick else HEALTHY)
    write(
        tmp_path, theirs="import time\ndef pytest_runtest_call(item):\n    'bf16' in item.name and time.sleep(1000)\n"
    )
    ran = as_user.pytest(tmp_path, f"--accel-simulate={file}", "-p", "theirs", sku=None, paths=(), env=env)

    assert ran.exit == status, ran.out
    assert "REJECTED gpu0: inventory.sku" in ran.closing if sick else "NOT JUDGED" in ran.closing


@pytest.mark.nightly
def test_a_command_that_cannot_be_imported_is_no_verdict(tmp_path: Path) -> None:
    """A broken library, or a user's module of its name, would end Python with the status of a device that fails."""
    write(tmp_path, yaml="raise ImportError('of another yaml')\n")
    code = "import sys; from pytest_accel.cli import run; sys.exit(run())"  # as the installed script does
    done = subprocess.run(
        [sys.executable, "-c", code, "sku", "list"],
        env={**as_user.environment(), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=as_user.SECONDS,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "not a verdict on the hardware: ImportError: of another yaml" in done.stderr
