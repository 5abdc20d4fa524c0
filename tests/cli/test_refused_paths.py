"""Paths that the system refuses with more than "not found": exit status 4 and a sentence, never that of a device."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
import stale_nfs
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import sampled_from
from support import as_user, fleet_nights
from support.data_files import tables

from pytest_accel.cli.main import main

ROWS = tables("refused-paths")

COMMANDS = ROWS["commands"]
OPTIONS = ROWS["options"]
LONG = "x" * 300
"""Longer than any file system allows a name to be."""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record below the folder `records` of the current folder."""
    monkeypatch.chdir(tmp_path)
    return fleet_nights.save(fleet_nights.record(0), Path("records"))


NUMBERS = [
    *(errno.ESTALE, errno.EIO, errno.ENOTCONN, errno.EHOSTDOWN),
    *(errno.EDQUOT, errno.ENOSPC, errno.EACCES),
]


@pytest.mark.parametrize("words", COMMANDS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=sampled_from(NUMBERS))
def test_whatever_the_system_refuses_is_told_in_a_sentence(
    words: str, number: int, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stale_nfs.install(patch.setattr, number)
        assert main(words.format(path=f"{stale_nfs.PREFIX}/n", record=record).split()) == 4
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"{stale_nfs.PREFIX}/n" in last
    assert last.endswith(os.strerror(number))


@pytest.mark.parametrize("words", COMMANDS)
def test_a_name_that_no_file_can_have_is_told_in_a_sentence(
    words: str, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.format(path=LONG, record=record).split()) == 4
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 2


def test_the_process_of_a_command_ends_so_too(tmp_path: Path) -> None:
    """Python itself ends with 1, which is a rejected node, where a handler of errors fails."""
    line = [str(as_user.BIN / "pytest-accel"), "fleet", "report", f"{stale_nfs.PREFIX}/nights"]
    env = as_user.environment(stale_nfs.environment(tmp_path))
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=as_user.SECONDS, check=False)
    assert done.returncode == 4
    assert done.stderr == f"{stale_nfs.PREFIX}/nights/fleet.json: cannot be used: Stale file handle\n"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (OPTIONS[0], f"{stale_nfs.PREFIX}/n"),
        (OPTIONS[1], LONG),
        *(pytest.param(words, f"{stale_nfs.PREFIX}/n", marks=pytest.mark.nightly) for words in OPTIONS[1:]),
        *(pytest.param(words, LONG, marks=pytest.mark.nightly) for words in (OPTIONS[0], *OPTIONS[2:4])),
    ],
)
def test_pytest_refuses_such_a_path_of_an_option(tmp_path: Path, words: str, path: str) -> None:
    simulated = [] if "--accel-sku" in words else ["--accel-simulate=h100-sxm"]
    options = [*simulated, "--accel-level=long", *words.format(path=path).split()]
    ran = as_user.pytest(tmp_path, *options, sku=None, paths=(), env=stale_nfs.environment(tmp_path), refused=True)
    assert ran.exit == 4
    assert "INTERNALERROR" not in ran.out
    (said,) = [each for each in ran.out.splitlines() if each.startswith("ERROR: ")]
    assert any(each.partition("=")[0] in said for each in words.split())


def test_a_path_of_health_is_no_reason_not_to_look_at_the_node(tmp_path: Path) -> None:
    """Every node asks the same share every few minutes, and a server that is down must not drain them all."""
    words = ["health", "--simulate=h100-sxm", f"--record={stale_nfs.PREFIX}/n", "--timeout=60s"]
    env = as_user.environment(stale_nfs.environment(tmp_path))
    line = [str(as_user.BIN / "pytest-accel"), *words]
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=as_user.SECONDS, check=False)
    told = (done.returncode, done.stdout)
    assert told == (0, "SIMULATED OK 8 x h100-sxm; last run not read\n"), done.stdout
