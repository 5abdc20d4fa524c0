"""The scripts of the documentation that drain nodes, run with programs that end as they do on a node."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support import as_user, data_files
from support.pages import blocks
from support.rows import each_row

DOCS = Path(__file__).parent.parent.parent / "docs"
NIGHTLY = DOCS / "nightly"


def script(page: str, word: str) -> str:
    """Return the one shell script of a page that holds a word."""
    (found,) = [each.text for each in blocks(DOCS / page) if each.language == "sh" and word in each.text]
    return found


def program(path: Path, lines: str) -> Path:
    """Put a program at a path, and return the path."""
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def ended(text: str, **variables: str) -> int:
    """Run a script as Slurm does, without other variables; return its exit status."""
    return subprocess.run(["/bin/sh", "-c", text], env=variables, capture_output=True, check=False).returncode


REJECTS = 'echo "REJECTED gpu3: slow" > "$PYTEST_ACCEL_CLOSING_FILE"; exit 1'
ENDINGS = [
    (REJECTS, True),
    ("echo \"No module named 'pytest'\" >&2; exit 1", False),
    ('echo "SIMULATED REJECTED gpu3" > "$PYTEST_ACCEL_CLOSING_FILE"; exit 1', False),
    ('echo "ACCEPTED 8/8" > "$PYTEST_ACCEL_CLOSING_FILE"', False),
    ("exit 6", False),
]


@each_row(("run", "drains"), ENDINGS)
def test_the_prolog_fails_for_a_rejected_node_alone(run: str, drains: bool, tmp_path: Path) -> None:
    pytest_here = program(tmp_path / "pytest", run)
    text = script("running.md", "mktemp").replace("/opt/accel/bin/pytest", str(pytest_here))
    assert ended(text, TMPDIR=str(tmp_path)) == int(drains)
    assert list(tmp_path.iterdir()) == [pytest_here], "a temporary file was left behind"


@each_row(("run", "drains"), ENDINGS)
def test_the_nightly_script_drains_a_rejected_node_alone(run: str, drains: bool, tmp_path: Path) -> None:
    drained = tmp_path / "drained"
    ended(
        str(NIGHTLY / "accel-nightly.sh"),
        ACCEL_PYTEST=str(program(tmp_path / "pytest", run)),
        ACCEL_DRAIN=str(program(tmp_path / "drain", f"touch {drained}")),
        ACCEL_INI=str(NIGHTLY / "pytest.ini"),
        ACCEL_RECORDS=str(tmp_path),
    )
    assert drained.exists() is drains


def test_the_nightly_script_says_what_to_set(tmp_path: Path) -> None:
    """On a machine that is not set up for it; the exit status is not that of a rejected node."""
    asked = {"ACCEL_PYTEST": "/nowhere/pytest", "ACCEL_RECORDS": "/nowhere/records", "ACCEL_INI": "/nowhere/pytest.ini"}
    settings = {"ACCEL_PYTEST": "/bin/true", "ACCEL_RECORDS": str(tmp_path), "ACCEL_INI": str(NIGHTLY / "pytest.ini")}
    for name, value in asked.items():
        command, variables = [str(NIGHTLY / "accel-nightly.sh")], {**settings, name: value}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert (done.returncode, f"set {name} to " in done.stderr) == (3, True), done.stderr


@pytest.mark.nightly
def test_the_rehearsal_of_the_nightly_script_runs_as_it_is_printed(tmp_path: Path) -> None:
    here = {"HOME": str(tmp_path), "PATH": f"{as_user.BIN}:{os.environ['PATH']}"}
    command = ["/bin/sh", "-c", script("running.md", "ACCEL_REHEARSE")]
    done = subprocess.run(
        command, cwd=NIGHTLY, env=as_user.environment(here), capture_output=True, text=True, check=False
    )
    assert (done.returncode, "\nwould drain: SIMULATED REJECTED gpu3: stream." in done.stdout) == (1, True), done.stderr
    assert list((tmp_path / "rehearsal").glob("*Z/record.json")), "each run has a folder of its own"


US = "\x1f"
BROKEN = "ERROR gpu3 A202 repair-pending: 1, not 0"


def nodes_of(shown: str, drained: int, since: str, of: int = 100) -> str:
    """The lines of sinfo about n1 and other nodes, some of which a health check has drained."""
    state, _, reason = shown.partition(" ")
    rows = [("n1", state, reason, "Unknown")]
    rows += [(f"m{at}", "drained", f"[accel] {BROKEN}", since) for at in range(drained)]
    rows += [(f"ok{at}", "idle", "none", "Unknown") for at in range(of - 1 - drained)]
    return "\n".join(US.join((name, state, "(null)", "all*", at, reason)) for name, state, reason, at in rows)


@pytest.mark.nightly
@each_row(("line", "shown", "drained", "hours", "drains"), data_files.tables("fleet/health-drains"))
def test_the_health_check_drains_a_broken_node_that_nobody_has_drained_with_a_brake(
    line: str, shown: str, drained: int, hours: int, drains: bool, tmp_path: Path
) -> None:
    """Five of a hundred nodes within a day: a wrong limit drains no fleet. A reason that names metrics is kept."""
    since = (datetime.now() - timedelta(hours=hours)).isoformat(timespec="seconds")  # noqa: DTZ005  as Slurm shows it
    (tmp_path / "nodes").write_text(nodes_of(shown, drained, since) + "\n")
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin/sinfo", f"cat {tmp_path}/nodes")
    program(tmp_path / "bin/scontrol", f'echo "$*" >> {tmp_path}/said')
    ours = (
        f"exec {sys.executable} -c 'import sys; from pytest_accel.cli.main import main; sys.exit(main(sys.argv[1:]))'"
    )
    text = script("fleet.md", "--broken").replace("/shared/nights", str(tmp_path))
    check = program(tmp_path / "accel", f"[ $1 = health ] && echo '{line}' && exit 1\n{ours} \"$@\"")
    text = text.replace("/opt/accel/bin/pytest-accel", str(check))
    ended(text, SLURMD_NODENAME="n1", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    said = tmp_path / "said"
    assert said.exists() is drains
    ledger = tmp_path / "ledger.csv"
    assert ledger.exists() is drains
    if drains:
        assert said.read_text() == f"update nodename=n1 state=drain reason=[accel] {line}\n"
        assert f',drained,n1,"[accel] {line}",' in ledger.read_text()


def test_the_topology_of_slurm_becomes_places(tmp_path: Path) -> None:
    """The lines of `scontrol show topology` are those of Slurm 22.05 with topology/tree."""
    topology = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=node[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=node3
SwitchName=spine Level=1 LinkSpeed=1 Nodes=node[1-3] Switches=leaf[1-2]"""
    hostnames = "case $3 in node[[]1-2]) echo node1; echo node2;; *) echo $3;; esac"
    program(tmp_path / "scontrol", f'if [ "$2" = topology ]; then echo "{topology}"; else {hostnames}; fi')
    (tmp_path / "STORE").mkdir()
    text = f"cd {tmp_path}\n{script('fleet.md', 'topology')}"
    assert ended(text, PATH=f"{tmp_path}:{os.environ['PATH']}") == 0
    assert (tmp_path / "STORE/locations.csv").read_text() == "node,switch\nnode1,leaf1\nnode2,leaf1\nnode3,leaf2\n"


def test_features_of_slurm_become_places(tmp_path: Path) -> None:
    """A node stands in `sinfo` once for each of its partitions; one without features has "(null)"."""
    lines = ("n1 h100,rack12,feedA", "n1 h100,rack12,feedA", "n2 rack=13,h100", "n3 (null)")
    program(tmp_path / "sinfo", "\n".join(f"echo '{each}'" for each in lines))
    (tmp_path / "STORE").mkdir()
    text = f"cd {tmp_path}\n{script('fleet.md', '%N %f')}"
    assert ended(text, PATH=f"{tmp_path}:{os.environ['PATH']}") == 0
    found = (tmp_path / "STORE/locations.csv").read_text()
    assert found == "node,rack,feed\nn1,rack12,feedA\nn2,rack=13,\nn3,,\n"
