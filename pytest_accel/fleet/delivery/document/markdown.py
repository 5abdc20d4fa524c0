"""The document of a delivery in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pytest_accel.fleet.delivery.document import words
from pytest_accel.views.exports.markdown import code, escaped

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Delivery

MOST_NODES = 2000
"""Nodes that the table at the end lists; a delivery of more is better read as HTML or JSON."""


def text(of: Delivery) -> str:
    """Return the document of a delivery in Markdown. Every section of a simulated one says so."""
    mark = "SIMULATED: " if of.simulated else ""
    word, sentence = words.verdict(of)
    lines = [f"# {mark}Acceptance of {escaped(of.name)}: {word}", "", f"**{escaped(sentence)}**", ""]
    lines += [f"> {escaped(each)}\n>" for each in words.warnings(of)] + [""]
    lines += [f"- {name}: {code(value)}" for name, value in words.head(of)] + [""]
    lines += _table(
        ("", "nodes", "devices"), [(name, f"{nodes:,}", f"{devices:,}") for name, nodes, devices in words.counts(of)]
    )
    lines += [
        "A device is accepted with its node. Devices without a fault in a node that is not accepted are not judged.",
        "",
        f"## {mark}What to send back or to set right",
        "",
    ]
    rejected = [
        (
            each.node,
            each.place,
            each.serial or "-",
            each.fault.title,
            f"{each.fault.metric}: {each.fault.words}",
            each.fault.do,
        )
        for each in of.rejections
    ]
    lines += (
        _table(("node", "place", "serial", "fault", "why", "next step"), rejected) if rejected else ["Nothing.", ""]
    )
    lines += [f"## {mark}Across the delivery", ""]
    lines += [f"- {escaped(each)}" for each in words.across(of)] or [
        "No number is there twice, and nothing is missing or misplaced."
    ]
    lines += ["", f"## {mark}The figures of all devices", ""]
    figures = [
        (
            f"{each.metric} ({each.unit})",
            f"{each.n:,}",
            *map(words.number, (each.least, each.low, each.middle, each.high, each.most)),
            words.spread(each),
            words.bound(each),
            words.healthy(each),
            words.blocks(each.bars),
        )
        for each in of.metrics
    ]
    lines += _table(words.FIGURES_HEAD, figures) if figures else ["Nothing was measured.", ""]
    lines += [f"## {mark}The risk of what was accepted", "", *RISK, ""]
    lines += _table(words.RISK_HEAD, words.risks(of.metrics))
    lines += [f"## {mark}The nodes", ""]
    nodes = [
        (
            each.name,
            each.result,
            each.started,
            " ".join(one.serial or one.uuid for one in each.boards),
            each.sha256[:12],
            each.line,
        )
        for each in of.nodes[:MOST_NODES]
    ]
    lines += _table(("node", "result", "started", "serials", "record", "closing line"), nodes)
    if len(of.nodes) > MOST_NODES:
        lines += [f"and {len(of.nodes) - MOST_NODES:,} more", ""]
    return "\n".join(lines).rstrip() + "\n"


RISK = (
    "What a device that is 8 % slow would get from each limit by itself, with the repeat of a shortfall. Neighbours",
    "and earlier runs, which every node is judged by as well, find more. *found* goes by the spread between the",
    "devices of this delivery and counts from its median; *stated* by the spread and the healthy figures of the",
    "threshold file. *accepted* counts the devices, or nodes, of accepted nodes with this figure, and *expected* those",
    "among them that would be 8 % slow if 1 in 100 were.",
)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; its cells show what they hold as it is."""
    body = [f"| {' | '.join(map(escaped, row))} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *body, ""]
