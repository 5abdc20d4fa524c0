"""Submitting to a queue that is full, by programs in the place of Slurm's."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pytest_accel.cli.main import main

PROGRAMS = {
    "sinfo": r"""printf 'n%d\037idle\037(null)\037accel*\037Unknown\037none\n' 1 2 3""",
    "squeue": 'cat "$PLACE/queue"',
    "scontrol": "exit 1",
    "sbatch": r"""
        name=$(echo "$*" | sed 's/.*-J \([^ ]*\).*/\1/')
        if [ -s "$PLACE/queue" ]; then
            echo 'sbatch: error: Job violates accounting/QOS policy (job submit limit)' >&2; exit 1
        fi
        printf '7\037RUNNING\037None\037%s\n' "$name" > "$PLACE/queue"
        echo 7""",
}
"""A queue that takes one job, which never ends."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("PLACE", str(tmp_path))
    (tmp_path / "queue").touch()
    return tmp_path


@pytest.mark.parametrize("more", [(), ("--at-once=1",), ("--wait",)])
def test_a_full_queue_is_waited_for_until_the_timeout(
    place: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, began = place / "run", time.monotonic()
    assert main(["fleet", "run", "--sku=cpu", "--timeout=0.01", f"--output={folder}", *more]) == 6
    assert time.monotonic() - began < 10
    printed = capsys.readouterr()
    assert "1 job submitted" in printed.out
    again = f"'pytest-accel fleet run --output {folder}' submits their jobs"
    assert f"2 nodes left when --timeout was over; {again}" in printed.err
    assert [each["node"] for each in json.loads((folder / "fleet.json").read_text())["jobs"]] == ["n1"]
    if more == ("--wait",):
        assert "no result   n2,n3  no job was submitted" in printed.out

    (place / "queue").write_text("")  # job 7 has ended
    assert main(["fleet", "run", f"--output={folder}", "--timeout=0.01", *more]) == 6
    assert "3 to submit" in capsys.readouterr().out


def test_a_timeout_that_is_not_over_changes_nothing(place: Path) -> None:
    folder = place / "run"
    with (place / "bin/sbatch").open("w") as script:
        script.write("#!/bin/sh\necho 7\n")
    assert main(["fleet", "run", "--sku=cpu", "--timeout=5", f"--output={folder}"]) == 0
    assert len(json.loads((folder / "fleet.json").read_text())["jobs"]) == 3


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_a_wrong_timeout_is_refused(minutes: str) -> None:
    with pytest.raises(SystemExit, match="4"):
        main(["fleet", "run", "--sku=cpu", f"--timeout={minutes}"])
