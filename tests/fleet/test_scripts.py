"""The scripts of the documentation that drain nodes, run with programs that end as they do on a node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pages import blocks

DOCS = Path(__file__).parent.parent.parent / "docs"


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


@pytest.mark.parametrize(("run", "drains"), ENDINGS)
def test_the_prolog_fails_for_a_rejected_node_alone(run: str, drains: bool, tmp_path: Path) -> None:
    pytest_here = program(tmp_path / "pytest", run)
    text = script("nightly.md", "mktemp").replace("/opt/accel/bin/pytest", str(pytest_here))
    assert ended(text, TMPDIR=str(tmp_path)) == int(drains)
    assert list(tmp_path.iterdir()) == [pytest_here], "a temporary file was left behind"


@pytest.mark.parametrize(("run", "drains"), ENDINGS)
def test_the_service_drains_a_rejected_node_alone(run: str, drains: bool, tmp_path: Path) -> None:
    (unit,) = [each.text for each in blocks(DOCS / "nightly.md") if each.language == "ini"]
    (line,) = [each for each in unit.splitlines() if each.startswith("ExecStopPost=")]
    text = line.partition("-c ")[2].strip("'").replace("/run/accel/", f"{tmp_path}/")
    drained = tmp_path / "drained"
    text = text.replace("/usr/local/sbin/drain-this-node", str(program(tmp_path / "drain", f"touch {drained}")))
    status = ended(str(program(tmp_path / "pytest", run)), PYTEST_ACCEL_CLOSING_FILE=str(tmp_path / "closing"))
    ended(text, EXIT_STATUS=str(status))
    assert drained.exists() is drains


@pytest.mark.parametrize(
    ("line", "shown", "drains"),
    [
        ("ERROR gpu3 A202 repair-pending: 1, not 0", "idle none", True),
        ("ERROR gpu3 A202 repair-pending: 1, not 0", "mixed none", True),
        ("ERROR gpu3 A202 repair-pending: 1, not 0", "drained [accel] A401 gpu0 matmul.bf16", False),
        ("ERROR gpu3 A202 repair-pending: 1, not 0", "draining none", False),
        ("ERROR gpu3 A202 repair-pending: 1, not 0", "idle note of an admin", False),
        ("Traceback (most recent call last):", "idle none", False),
        ("UNKNOWN driver silent for 4 s", "idle none", False),
    ],
)
def test_the_health_check_drains_a_broken_node_that_nobody_has_drained(
    line: str, shown: str, drains: bool, tmp_path: Path
) -> None:
    """A reason that names metrics is kept, since `fleet drain --resume` goes by them."""
    programs = {
        "/opt/accel/bin/pytest-accel": f"echo '{line}'; exit 1",
        "/usr/bin/sinfo": f"echo '{shown}'",
        "/usr/bin/scontrol": f'echo "$*" > {tmp_path}/said',
    }
    text = script("health-check.md", "scontrol")
    for path, lines in programs.items():
        text = text.replace(path, str(program(tmp_path / Path(path).name, lines)))
    ended(text, SLURMD_NODENAME="n1")
    said = tmp_path / "said"
    assert said.exists() is drains
    assert not drains or said.read_text() == f"update nodename=n1 state=drain reason=[accel] {line}\n"
