"""All that a night of a fleet shows, as one object that every view is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_accel.core import exits
from pytest_accel.core.summary import FINISHED
from pytest_accel.fleet.nights import night_store, questions
from pytest_accel.fleet.nights.queries import StoredNights
from pytest_accel.fleet.nights.questions import QUESTIONS, Row

NOT_ENDED: Final = "NOT ENDED"
"""The result of a run without a closing line."""


@dataclass(frozen=True)
class Night:
    """A night of a fleet: its runs, and what was found, each worst first."""

    night: str
    first: str
    """The first night that was looked at."""
    nights: int
    simulated: bool
    runs: Sequence[Row]
    verdicts: Mapping[str, int]
    """The number of verdicts with each status."""
    anomalies: Mapping[str, Sequence[Row]]
    """The answers to each of `QUESTIONS`, by its name."""
    groups: Sequence[Row]
    """Number, median and spread of the like devices of each metric."""

    @property
    def results(self) -> dict[str, int]:
        """The number of runs with each result, the most frequent first."""
        return dict(Counter(run["result"] for run in self.runs).most_common())

    @property
    def nodes(self) -> int:
        """The nodes of all runs; those of one name without a common device are several."""
        return len({(run["node"], run["uuids"].partition(" ")[0]) for run in self.runs})

    @property
    def devices(self) -> int:
        """The devices of all runs, each once."""
        return len({uuid for run in self.runs for uuid in run["uuids"].split()})

    @property
    def gone(self) -> list[str]:
        """The nodes that have no run for the first time."""
        rows = [row for row in self.anomalies["absent"] if str(row["last_seen"]) == self.before]
        return [node for row in rows for node in row["nodes"]]

    before: str = ""
    """The night before; empty if there is none."""

    @property
    def exit(self) -> int:
        """The exit status: 1 for hardware that is worse, 6 for a node or night that is gone or not judged, else 0."""
        statuses = {QUESTIONS[name].exit for name, rows in self.anomalies.items() if rows}
        statuses |= {
            run["exit"] if run["exit"] in (exits.HOLDS, exits.REJECTED) else exits.NOT_JUDGED for run in self.runs
        }
        if exits.REJECTED in statuses:
            return exits.REJECTED
        return exits.NOT_JUDGED if exits.NOT_JUDGED in statuses or self.gone else exits.HOLDS


def window(path: Path, night: str | None, count: int) -> list[str]:
    """Return the nights of a store up to `night` (default: the last one that has begun), at most `count` of them."""
    nights = night_store.nights(path)
    last = night or night_store.latest().isoformat()
    if night is not None and night not in nights:
        return [night]  # StoredNights names what is there
    return [name for name in nights if name <= last][-count:]


def look(fleet: StoredNights) -> Night:
    """Return all that the last night of a fleet shows, beside the nights before it. Raises BadFile."""
    fleet.prepare()
    rows = {name: fleet.ask(question.view) for name, question in QUESTIONS.items()}
    anomalies = {name: [row for row in rows[name] if question.finds(row)] for name, question in QUESTIONS.items()}
    nodes = fleet.nodes_of_locations(row["uuid"] for row in rows["behind"])
    locations = questions.locations_of(rows["behind"], anomalies["behind"], nodes)
    anomalies["behind"] = [*(row for row in anomalies["behind"] if row["uuid"] not in nodes), *locations]
    for name in ("behind", "losses"):
        anomalies[name] = questions.one_each(questions.unexplained(anomalies[name], locations, nodes))
    anomalies["updates"].sort(key=lambda row: -abs(row["change"]))
    return Night(
        night=fleet.night,
        first=fleet.nights[0],
        nights=len(fleet.nights),
        simulated=fleet.simulated,
        runs=[_run(row) for row in fleet.ask("runs")],
        verdicts={
            row["status"]: row["n"] for row in fleet.rows("SELECT status, count(*) AS n FROM tonight GROUP BY status")
        },
        anomalies=anomalies,
        groups=fleet.ask("like_devices"),
        before=fleet.nights[-2] if len(fleet.nights) > 1 else "",
    )


def _run(row: Row) -> Row:
    ended = row["state"] == FINISHED and bool(row["result"])
    return {**row, **({} if ended else {"result": NOT_ENDED, "exit": None})}
