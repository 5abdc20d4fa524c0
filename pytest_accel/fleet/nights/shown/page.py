"""A night of a fleet as one HTML file that loads nothing from elsewhere: a heat map of all devices, and findings."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pytest_accel.core import exits
from pytest_accel.core.verdict import Status
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.nights.analysis.outliers import Subject
from pytest_accel.fleet.nights.extract import STATUSES, WAIVED
from pytest_accel.fleet.nights.heat import Heat
from pytest_accel.fleet.nights.night import Night, NodeRun, left_out
from pytest_accel.fleet.nights.shown import cells, text
from pytest_accel.views.html import page, words

PACKAGE: Final = "pytest_accel.fleet.nights.shown"
STYLES: Final = ("fleet.css",)
SCRIPTS: Final = ("fleet.js",)
ACCEPTED: Final = "ACCEPTED"
ROWS: Final = 300
"""Most rows of a table. All of them are in the JSON."""


@dataclass(frozen=True)
class Row:
    """A finding: what kind of finding, where, and its cells. `rank` is its place among all, worst first."""

    rank: int
    kind: str
    where: str
    link: str
    identity: str
    metric: str
    value: str
    note: str


def render(night: Night, heat: Heat, links: Mapping[str, str]) -> str:
    """Return a night as an HTML page; `links` are the pages of nodes, relative to it. Raises MissingExtra."""
    page.demand_extra()
    targets = {node: f"./{quote(path)}" for node, path in links.items()}
    kind = _kind(night)
    rows = _rows(night, targets)
    template = page.environment(PACKAGE, page.PACKAGE).get_template("fleet.html.j2")
    style = f"{page.asset(page.PACKAGE, ('report.css',))}\n{page.asset(PACKAGE, STYLES)}"
    script = f"{page.asset(page.PACKAGE, ('tables.js',))}\n{page.asset(PACKAGE, SCRIPTS)}"
    return template.render(
        night=night,
        kind=kind,
        meaning=_meaning(night),
        line=text.size(night),
        left_out_nights=left_out(night.left_out) if night.left_out else "",
        words=[(words.Badge(name, "", _colour(name)), number) for name, number in night.words.items()],
        verdicts={_badge(status): night.verdicts[status] for status in STATUSES if status in night.verdicts},
        rows=rows[:ROWS],
        more=max(0, len(rows) - ROWS),
        kinds=sorted({each.kind for each in rows}),
        runs=_runs(night.runs, targets),
        gone=listed(night.gone, ROWS),
        tables=[table for table in _tables(night) if table[2]],
        proposals=[cells.proposal(each) for each in text.by_change(night.proposals)],
        cells=heat.cells,
        layers=heat.layers,
        left_out=heat.left_out,
        data=page.trusted(page.data(_data(night, heat, targets))),
        **page.code(style, script),
    )


def _kind(night: Night) -> str:
    """Return the name of the colour of the first line."""
    if night.exit:
        return "fail" if night.exit == exits.REJECTED else "not-judged"
    return "pass" if set(night.words) == {ACCEPTED} else "marginal"


def _meaning(night: Night) -> str:
    """Return what was found, and how many: nodes, and devices."""
    rejected = sum(each.exit == exits.REJECTED for each in night.runs)
    other = sum(each.exit not in (0, exits.REJECTED) for each in night.runs)
    passed = "Every node was accepted" if set(night.words) == {ACCEPTED} else "No run rejected a node"
    held = sum(each.exit == 0 and each.word != ACCEPTED for each in night.runs)
    runs = [
        f"{counted(rejected, 'run')} rejected a node" if rejected else passed,
        f"{counted(other, 'run')} did not judge it, or did not end" if other else "",
        f"{counted(held, 'run')} held, but accepted nothing" if held else "",
        f"{counted(len(night.gone), 'node')} without a run, but with one in each of the nights before"
        if night.gone
        else "",
        f"{counted(len(night.rejected_before), 'node')} rejected before, and not judged since"
        if night.rejected_before
        else "",
        f"{counted(len(night.doubled), 'device')} on several nodes" if night.doubled else "",
    ]
    devices = [
        f"{counted(len(night.outliers), 'device')} far behind their like" if night.outliers else "",
        f"{counted(len(night.trends), 'device')} losing speed" if night.trends else "",
        f"{counted(len(night.offenders), 'device')} that failed again" if night.offenders else "",
    ]
    found = ", ".join(filter(None, devices)) or "nothing found"
    unsought = [f"{text.NAMES[name]} (takes {least})" for name, least in night.unsought.items()]
    told = f" Not looked for: {', '.join(unsought)}." if unsought else ""
    return f"{'; '.join(filter(None, runs))}. Compared with other nodes and nights: {found}.{told}"


def _badge(status: str) -> words.Badge:
    """Return the badge of a status of the store."""
    sign = "≈" if status == WAIVED else words.SIGNS[Status(status)]
    return words.Badge(status, sign, status.lower().replace(" ", "-"))


def _colour(word: str) -> str:
    """Return the name of the colour of a result."""
    return words.KINDS.get(word, "not-judged")


def _data(night: Night, heat: Heat, links: Mapping[str, str]) -> dict[str, Any]:
    """Return what the script draws: the nodes, their cells, and a byte for each cell of each layer."""
    word = {each.node: each.word for each in night.runs}
    return {
        "map": {
            "nodes": [
                [each.name, each.sku, each.cells, word.get(each.name, ""), links.get(each.name, "")]
                for each in heat.nodes
            ],
            "names": heat.names,
            "name": _bytes(heat.name),
            "statuses": STATUSES,
            "status": _bytes(heat.status),
            "layers": [[each.title, each.far, _bytes(each.scores)] for each in heat.layers],
        }
    }


def _bytes(values: Sequence[int]) -> str:
    return base64.b64encode(bytes(values)).decode()


def _rows(night: Night, links: Mapping[str, str]) -> list[Row]:
    """Return the findings on devices and nodes, worst first."""
    found: list[tuple[str, Subject, str, str, str]] = []
    for outlier in night.outliers:
        _, _, metric, value, _, note = cells.outlier(outlier)
        found.append(("far behind its like", outlier.subject, metric, value, note))
    for trend in night.trends:
        _, _, metric, value, note = cells.trend(trend)
        found.append(("losing speed", trend.subject, metric, value, note))
    for offender in night.offenders:
        _, _, value, metric, note = cells.offender(offender)
        found.append(("failed again", offender.subject, metric, value, note))
    for again in night.repeated:
        _, _, metric, value = cells.repeated(again)
        found.append(("MARGINAL again", again.subject, metric, value, ""))
    return [
        Row(place, kind, subject.shown, links.get(subject.node, ""), cells.identity(subject), metric, value, note)
        for place, (kind, subject, metric, value, note) in enumerate(found)
    ]


def _runs(runs: Sequence[NodeRun], links: Mapping[str, str]) -> list[tuple[words.Badge, str, str, str]]:
    """Return the runs that are no pass, rejected ones first: result, node, link and closing line."""
    order = {exits.REJECTED: 0, exits.NOT_JUDGED: 2}
    bad = sorted((each for each in runs if each.exit != 0), key=lambda each: (order.get(each.exit or -1, 1), each.node))
    return [
        (words.Badge(each.word, "", _colour(each.word)), each.node, links.get(each.node, ""), each.line) for each in bad
    ]


def _tables(night: Night) -> list[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Return title, head and rows of the tables below the findings on devices and the runs."""
    return [
        (
            "Rejected in the nights before, and not judged since",
            ("Node", "Night", "Closing line"),
            list(map(cells.rejected_before, night.rejected_before)),
        ),
        ("Devices on several nodes in this night", ("Device", "Nodes"), list(map(cells.doubled, night.doubled))),
        (
            "What changed with an update",
            ("SKU", "Metric", "Update", "Change", "Certainty"),
            list(map(cells.update, night.updates)),
        ),
        ("The whole fleet is getting slower", ("SKU", "Metric", "Loss"), list(map(cells.drift, night.drifts))),
        (
            "Limits that fire on too many nodes",
            ("SKU", "Metric", "Limit", "Fires"),
            list(map(cells.too_often, night.too_often)),
        ),
        ("Limits that find nothing", ("SKU", "Metric", "Limit", "Fires"), list(map(cells.never, night.never))),
    ]
