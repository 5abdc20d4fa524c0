"""The document of a delivery: Markdown and HTML, from one template each, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_accel.core import structured
from pytest_accel.core.groups import grouped
from pytest_accel.core.printable import printable_data
from pytest_accel.core.verdict import Result
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.delivery import alike
from pytest_accel.fleet.delivery.acceptance import Delivery
from pytest_accel.fleet.delivery.records import ACCEPTED, OPEN, REJECTED
from pytest_accel.views.html.page import PACKAGE, STYLES, asset, code, demand_extra, environment
from pytest_accel.views.markdown import escaped

HERE = "pytest_accel.fleet.delivery"
FORMATS = ("md", "html", "json")
MOST_NODES = 6
"""Nodes that one sentence names."""
OF_NODE = ("name", "outcome", "told", "started", "sha256", "objection", "signed_by", "waived", "overridden")
OF_BOARD = ("location", "serial", "uuid", "result")
"""The attributes of nodes and of boards that the JSON holds."""
LONGEST = 4000
"""Characters of the longest text that the Markdown shows in full."""


def text(delivery: Delivery, form: str) -> str:
    """Return the document of a delivery in one of `FORMATS`. Raises MissingExtra."""
    result = delivery.result
    texts = {"sentence": sentence(delivery), "reasons": reasons(delivery), "notes": notes(delivery)}
    rejections = [*_rejections(delivery)]
    if form == "json":
        content = {"result": result, "exit": result.exit, **texts, "rejections": rejections, **_data(delivery)}
        return json.dumps(printable_data(structured.plain(content)), indent=1) + "\n"
    demand_extra()
    templates = environment(HERE, PACKAGE)
    if form == "md":
        templates = templates.overlay(autoescape=False, finalize=_in_markdown)
    style = code(asset(PACKAGE, STYLES), "")
    template = templates.get_template(f"delivery.{form}.j2")
    boards = [*grouped(rejections, lambda row: (row["node"], row["uuid"])).values()]
    return template.render(delivery=delivery, head=head(delivery), boards=boards, **texts, **style).rstrip() + "\n"


def _data(delivery: Delivery) -> dict[str, Any]:
    """Return the data that programs read besides the sentences and tables."""
    return {
        **_picked(delivery, ("name", "simulated", "of_nodes", "of_devices", "terms", "absent")),
        "differences": [diff._asdict() for diff in delivery.differences],
        "unlike": [diff._asdict() for diff in delivery.unlike],
        **_picked(delivery.records, ("older", "shared", "refused")),
        "nodes": [_picked(node, OF_NODE) for node in delivery.nodes],
        "boards": [{"node": board.node.name, **_picked(board, OF_BOARD)} for board in delivery.boards],
    }


def _picked(item: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def _rejections(delivery: Delivery) -> Iterator[dict[str, str]]:
    """Yield what rejects boards and nodes."""
    for node in delivery.nodes:
        yield from ({"node": node.name, **rejection._asdict()} for rejection in node.rejections)


def _in_markdown(value: Any) -> Any:
    return escaped(value, LONGEST) if isinstance(value, str) else value


def sentence(delivery: Delivery) -> str:
    """Return the result of the delivery in one sentence."""
    total, accepted = sum(delivery.of_nodes.values()), delivery.of_nodes[ACCEPTED]
    if delivery.result is Result.ACCEPTED:
        devices = counted(sum(delivery.of_devices.values()), "device")
        return f"{_is(total, 'node')} accepted with {devices}{_terms(delivery)}. {_whole(delivery)}"
    share = f"{accepted} of {counted(total, 'node')} {'is' if 1 in (accepted, total) else 'are'} accepted"
    if delivery.result is Result.REJECTED:
        return f"{share}."
    return f"{share} and none is rejected, but the delivery as a whole cannot be accepted yet."


def _terms(delivery: Delivery) -> str:
    """Return the terms by which all nodes were accepted: " as h100-sxm on hgx8 at level standard"."""
    words = (("SKU", "as"), ("platform", "on"), ("level", "at level"))
    return "".join(f" {word} {next(iter(delivery.terms[name]))}" for name, word in words if delivery.terms[name])


def _whole(delivery: Delivery) -> str:
    """Return a sentence that compares the accepted nodes with the order."""
    if not delivery.packing_list:
        return "Without a packing list, nothing shows that this is all that was ordered."
    if all(row.node for row in delivery.packing_list.rows):
        return "They have every board of the packing list, in its node, and no other."
    return "They have every board of the packing list and no other; the list does not name the node of every board."


def reasons(delivery: Delivery) -> list[str]:
    """Return a sentence for each obstacle to the acceptance of the delivery; none if it is accepted."""
    return [*_of_nodes(delivery), *(f"{diff.words}." for diff in delivery.differences), *_of_whole(delivery)]


def _of_nodes(delivery: Delivery) -> Iterator[str]:
    """Yield which nodes are not accepted, and why a result does not count."""
    results = ((REJECTED, "rejected"), (OPEN, "neither accepted nor rejected"))
    for result, words in results:
        if names := [node.name for node in delivery.nodes if node.outcome == result]:
            yield f"{_is(len(names), 'node')} {words}: {listed(names, MOST_NODES)}."
    if delivery.absent:
        yield f"No record of {counted(len(delivery.absent), 'node')}: {listed(delivery.absent, MOST_NODES)}."
    objected = grouped((node for node in delivery.nodes if node.objection), lambda node: node.objection)
    yield from (f"{listed([node.name for node in nodes], MOST_NODES)}: {reason}." for reason, nodes in objected.items())


def _of_whole(delivery: Delivery) -> Iterator[str]:
    if delivery.unalike:
        yield f"The nodes were not judged alike: they differ in {', '.join(delivery.unalike)}."
    if delivery.partly_simulated:
        yield f"{_is(delivery.simulated, 'node')} simulated: nobody delivered hardware there."
    yield from (f"Not read: {line}." for line in delivery.records.refused)


def notes(delivery: Delivery) -> list[str]:
    """Return notes on the conditions of the acceptance, and on everything else that a reader has to know."""
    lines = []
    if delivery.simulated:
        lines.append(f"SIMULATED: {_is(delivery.simulated, 'node')} simulated. Nothing here is about hardware.")
    accepted = [node for node in delivery.nodes if node.accepted]
    waived = grouped(((metric, node.name) for node in accepted for metric in node.waived), lambda pair: pair[0])
    for metric, group in waived.items():
        lines.append(f"WAIVED on accepted nodes: {metric}: {listed([name for _, name in group], MOST_NODES)}.")
    if names := [node.name for node in accepted if node.overridden]:
        lines.append(f"OTHER LIMITS than those of the shipped threshold file: {listed(names, MOST_NODES)}.")
    if earlier := [f"{node.name} ({', '.join(node.rejected_before)})" for node in accepted if node.rejected_before]:
        lines.append(f"REJECTED BEFORE, and accepted now: {listed(earlier, MOST_NODES)}.")
    lines += unlike(delivery)
    lines += [
        f"SEVERAL NODES named {host}: their records hold different devices. Give the nodes names; if a board of one "
        "node was exchanged, take its older record out of the folder."
        for host in delivery.records.shared
    ]
    older = delivery.records.older
    return lines + ([f"{counted(older, 'further record')} not counted: one of every node counts."] * bool(older))


def unlike(delivery: Delivery) -> list[str]:
    """Return the differences between the nodes that reject nothing."""
    return [f"{diff.words}." for diff in delivery.unlike if not diff.rejects]


def head(delivery: Delivery) -> list[tuple[str, str]]:
    """Return name and value of what the delivery is."""
    days = sorted(node.day for node in delivery.nodes if node.day)
    period = " to ".join(dict.fromkeys([*days[:1], *days[-1:]])) or "no day stated"
    boards = delivery.packing_list
    ordered = f"{boards.file}, {counted(len(boards.rows), 'board')}, SHA-256 {boards.sha256}" if boards else ""
    common = "; ".join(alike.common(delivery.nodes))
    terms = ((name, _values(delivery, name)) for name in delivery.terms)
    return [("records of", period), ("packing list", ordered), *terms, ("the same on all nodes", common)]


def _values(delivery: Delivery, term: str) -> str:
    """Return the values of a term, with the number of nodes that have each if there are several."""
    values = delivery.terms[term]
    if len(values) == 1:
        return next(iter(values))
    return listed([f"{value} ({counted(number, 'node')})" for value, number in values.items()], MOST_NODES)


def _is(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'}"
