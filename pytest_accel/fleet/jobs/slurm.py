"""Slurm, by its programs: this is the only module that runs them.

Options and formats are those of Slurm 21.08 and later. Every text from outside is made printable.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from pytest_accel.core.exits import WrongUse
from pytest_accel.core.printable import printable

SECONDS = 120.0
"""Seconds that a program may take; Slurm's own retries end before."""
SUBMIT_SECONDS = 300.0
"""Those that sbatch may take, which tries again for about two minutes where there are too many jobs."""
CHUNK = 200
"""Most nodes or jobs that one command line names."""
SWAYING = ("SQUEUE_", "SINFO_", "SCONTROL_", "SCANCEL_", "SBATCH_", "SLURM_CLUSTERS", "SLURM_HINT", "SLURM_TIME_FORMAT")
"""Beginnings of the variables by which Slurm's programs print, choose or submit otherwise than their options say."""
KEPT = ("SBATCH_ACCOUNT", "SBATCH_QOS", "SBATCH_WCKEY", "SINFO_ALL")
"""Those of them that an operator sets on purpose: who pays for the jobs, and that hidden partitions are shown."""
NO_REASON = "none"
"""The reason that sinfo shows for a node without one."""

LIMITS = ("limit", "temporarily", "try again", "maxjobcount", "maximum number", "too many")
"""Words in the message of sbatch if it refuses a job that it would take later."""
NOT_ALLOWED = ("invalid user id", "access/permission denied", "permission denied")
"""Words in the message of scontrol if the user may not change nodes."""


class SlurmError(WrongUse):
    """An error of a program of Slurm; the message is the command, if there is one, and its output."""

    def __init__(self, command: Sequence[str], message: str) -> None:
        self.message = printable(" ".join(message.split()), 500)
        prefix = command[:1] if any(_SEPARATOR in word for word in command) else command  # a format is no help
        words = f"{printable(' '.join(prefix), 300)}: " if prefix else ""
        super().__init__(f"{words}{self.message or 'failed without a message'}")

    @property
    def is_limit(self) -> bool:
        """True if the queue is full, so that the same command may succeed later."""
        return any(word in self.message.lower() for word in LIMITS)

    @property
    def not_allowed(self) -> bool:
        """True if this user may not do that."""
        return any(word in self.message.lower() for word in NOT_ALLOWED)


@dataclass(frozen=True)
class NodeState:
    """A node as sinfo shows it."""

    name: str
    state: str
    """Such as "idle", "drained" or "down*"; the last character may be a flag."""
    gres: str = ""
    """Such as "gpu:h100:8"; empty if it has none."""
    partition: str = ""
    """The first partition that it is in; empty for the default one."""
    reason: str = ""
    """The reason why it is drained or down; empty without one."""
    since: datetime | None = None
    """The time at which the reason was set."""


@dataclass(frozen=True)
class JobState:
    """A job as squeue shows it."""

    id: str
    name: str
    state: str
    """Such as "PENDING", "RUNNING" or "NODE_FAIL"."""
    reason: str = ""
    user: int = -1
    """The number of the user who submitted it; -1 if it is not known."""
    exit: str = ""
    """Its end in words, such as "exit status 3"; empty while it has not, and for success."""


WAITING = frozenset(("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"))
"""States of jobs that have not begun."""
ACTIVE = frozenset(
    ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", *WAITING)
)
"""States of jobs that have not ended."""


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that programs of Slurm are started with: without those that change what they tell or do."""
    return {name: text for name, text in variables.items() if name in KEPT or not name.startswith(SWAYING)}


def _run(command: Sequence[str], *, text_in: str | None = None, seconds: float = SECONDS) -> str:
    """Run a program of Slurm and return what it prints. Raises SlurmError."""
    try:
        process = subprocess.run(
            command,
            # A variable of the user, such as SQUEUE_FORMAT, would change what is printed.
            env=environment(os.environ),
            input=text_in,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        advice = f"{command[0]} is not installed here; run this on a host that can submit jobs to Slurm"
        raise SlurmError((), advice) from None
    except subprocess.TimeoutExpired:
        raise SlurmError(command, f"no answer within {seconds:g} s") from None
    except OSError as error:
        raise SlurmError(command, error.strerror or str(error)) from None
    if process.returncode:
        raise SlurmError(command, process.stderr or process.stdout)
    return process.stdout


# -- nodes

_SEPARATOR = "\x1f"
"""A character that stands in no name and, unlike a bar, hardly in a reason."""


def nodes(names: Iterable[str] = (), partition: str = "") -> list[NodeState]:
    """Return the nodes of a list or partition, or all of them, in the order of sinfo. Raises SlurmError."""
    chunks = list(_chunks(list(names))) or [[]]
    states: dict[str, NodeState] = {}
    for chunk in chunks:
        selection = ["-n", ",".join(chunk)] if chunk else []
        of_partition = ["-p", partition] if partition else []
        # Lines for people, and not --json, whose shape changes with every release.
        form = _SEPARATOR.join(("%N", "%T", "%G", "%P", "%H", "%E"))
        for node in parse_nodes(_run(["sinfo", "-h", "-N", *selection, *of_partition, "-o", form])):
            if node.name not in states or not node.partition:
                states[node.name] = node
    return list(states.values())


def parse_nodes(text: str) -> Iterator[NodeState]:
    """Yield the nodes in the output of sinfo, one for each partition of a node.

    A reason may hold line breaks: a line without separators continues the one before it.
    """
    rows: list[list[str]] = []
    for line in text.split("\n"):
        cells = line.split(_SEPARATOR, 5)
        if len(cells) == 6:
            rows.append(cells)
        elif rows and line.strip():
            rows[-1][5] += f" {line}"
    for row in rows:
        name, state, gres, partition, since, reason = (printable(cell.strip(), 1000) for cell in row)
        yield NodeState(
            name,
            state.lower(),
            "" if gres in ("(null)", "N/A") else gres,
            "" if partition.endswith("*") else partition,
            "" if reason.lower() == NO_REASON else reason,
            _time(since),
        )


def _time(text: str) -> datetime | None:
    """Return a time of Slurm, which is that of this host's time zone, in UTC; None for "Unknown".

    In the hour that is repeated in autumn, Slurm does not tell which of the two it means: the later one is returned.
    """
    try:
        return datetime.fromisoformat(text).replace(fold=1).astimezone(timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


def expand(names: str) -> list[str]:
    """Return the nodes of a host list: node[01-03] are node01, node02 and node03. Raises SlurmError."""
    return [printable(name) for name in _run(["scontrol", "show", "hostnames", names]).split()]


def fold(names: Sequence[str]) -> str:
    """Return nodes as a host list. Where Slurm is not installed it is the names with commas."""
    if len(names) < 2:
        return "".join(names)
    try:
        parts = [
            _run(["scontrol", "show", "hostlistsorted", ",".join(chunk)]).strip() for chunk in _chunks(names, 5000)
        ]
    except SlurmError:
        return ",".join(names)
    return printable(",".join(parts))


# -- jobs


SUBMIT = ("sbatch", "--parsable", "--exclusive", "--mem=0", "--no-requeue", "--export=ALL")
"""The beginning of the command that submits a job; `-w` names its nodes, and standard input is the script."""


def submit(command: Sequence[str], script: str) -> str:
    """Submit a job by a command that begins with `SUBMIT`, and return its id. Raises SlurmError."""
    output = _run(command, text_in=script, seconds=SUBMIT_SECONDS)
    number = output.strip().split(";")[0]
    if not number.isdigit():
        raise SlurmError(command, f"printed no job id but {output!r}")
    return number


def jobs(prefix: str) -> list[JobState]:
    """Return the jobs of all users whose name begins with `prefix`, also those that ended lately. Raises SlurmError."""
    form = f"{_SEPARATOR},".join(("JobID:30", "State:30", "Reason:200", "UserID:20", "exit_code:20", "Name:300"))
    output = _run(["squeue", "-h", "-a", "-t", "all", "-O", form])
    rows = (line.split(_SEPARATOR, 5) for line in output.split("\n"))
    entries = [tuple(printable(cell.strip(), 500) for cell in row) for row in rows if len(row) == 6]
    return [
        JobState(number, name, state.upper(), reason, int(user) if user.isdecimal() else -1, _ended(code))
        for number, state, reason, user, code, name in entries
        if name.startswith(prefix)
    ]


def _ended(code: str) -> str:
    """Return the end of a job in words, given what wait() returned of it; empty for success, and for what is no number.

    Slurm also sets it for a job that it could not start, as if a signal had killed it.
    """
    status, number = divmod(int(code), 256) if code.isdecimal() else (0, 0)
    return f"exit status {status}" if status else f"signal {number}" if number else ""


def cancel(ids: Sequence[str]) -> None:
    """End jobs, or take them out of the queue. Raises SlurmError."""
    for chunk in _chunks(ids):
        _run(["scancel", *chunk])


# -- draining


def drain_command(node: str, reason: str) -> list[str]:
    """Return the command that drains a node."""
    return ["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"]


def resume_command(node: str) -> list[str]:
    """Return the command that makes a drained node available again."""
    return ["scontrol", "update", f"nodename={node}", "state=resume"]


def change(command: Sequence[str]) -> None:
    """Run one of these commands. Raises SlurmError."""
    _run(command)


def _chunks(names: Sequence[str], size: int = CHUNK) -> Iterator[Sequence[str]]:
    """Yield the names in pieces that a command line can hold."""
    return (names[start : start + size] for start in range(0, len(names), size))
