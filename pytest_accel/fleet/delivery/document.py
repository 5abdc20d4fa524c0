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
OF_BOARD = ("place", "serial", "uuid", "result")
"""The attributes of nodes and of boards that the JSON holds."""
LONGEST = 4000
"""Characters of the longest text that the Markdown shows in full."""


def text(of: Delivery, form: str) -> str:
    """Return the document of a delivery in one of `FORMATS`. Raises MissingExtra."""
    told = {"sentence": sentence(of), "reasons": reasons(of), "notes": notes(of)}
    rejections = [*_rejections(of)]
    if form == "json":
        content = {"result": of.result, "exit": of.result.exit, **told, "rejections": rejections, **_data(of)}
        return json.dumps(printable_data(structured.plain(content)), indent=1) + "\n"
    demand_extra()
    templates = environment(HERE, PACKAGE)
    if form == "md":
        templates = templates.overlay(autoescape=False, finalize=_in_markdown)
    style = code(asset(PACKAGE, STYLES), "")
    template = templates.get_template(f"delivery.{form}.j2")
    boards = [*grouped(rejections, lambda each: (each["node"], each["uuid"])).values()]
    return template.render(of=of, word=of.result.value, head=head(of), boards=boards, **told, **style).rstrip() + "\n"


def _data(of: Delivery) -> dict[str, Any]:
    """Return what programs read besides the sentences and tables."""
    records = of.records
    return {
        **{key: getattr(of, key) for key in ("name", "simulated", "of_nodes", "of_devices", "terms", "absent")},
        "differences": [each._asdict() for each in of.differences],
        "unlike": [each._asdict() for each in of.unlike],
        **{key: getattr(records, key) for key in ("older", "shared", "refused")},
        "nodes": [{key: getattr(each, key) for key in OF_NODE} for each in of.nodes],
        "boards": [{"node": each.node.name, **{key: getattr(each, key) for key in OF_BOARD}} for each in of.boards],
    }


def _rejections(of: Delivery) -> Iterator[dict[str, str]]:
    """Yield what rejects boards and nodes."""
    for node in of.nodes:
        yield from ({"node": node.name, **each._asdict()} for each in node.rejections)


def _in_markdown(value: Any) -> Any:
    return escaped(value, LONGEST) if isinstance(value, str) else value


def sentence(of: Delivery) -> str:
    """Return the result of the delivery in one sentence."""
    total, accepted = sum(of.of_nodes.values()), of.of_nodes[ACCEPTED]
    if of.result is Result.ACCEPTED:
        devices = counted(sum(of.of_devices.values()), "device")
        return f"{_is(total, 'node')} accepted with {devices}{_terms(of)}. {_whole(of)}"
    share = f"{accepted} of {counted(total, 'node')} {'is' if 1 in (accepted, total) else 'are'} accepted"
    if of.result is Result.REJECTED:
        return f"{share}."
    return f"{share} and none is rejected, but the delivery as a whole cannot be accepted yet."


def _terms(of: Delivery) -> str:
    """Return by what all nodes were accepted: " as h100-sxm on hgx8 at level standard"."""
    words = (("SKU", "as"), ("platform", "on"), ("level", "at level"))
    return "".join(f" {word} {next(iter(of.terms[name]))}" for name, word in words if of.terms[name])


def _whole(of: Delivery) -> str:
    """Return whether the accepted nodes are all that was ordered."""
    if not of.packing_list:
        return "Without a packing list, nothing shows that this is all that was ordered."
    if all(each.node for each in of.packing_list.rows):
        return "They have every board of the packing list, in its node, and no other."
    return "They have every board of the packing list and no other; the list does not name the node of every board."


def reasons(of: Delivery) -> list[str]:
    """Return everything that keeps the delivery from being accepted, a sentence each; none if it is accepted."""
    return [*_of_nodes(of), *(f"{each.words}." for each in of.differences), *_of_whole(of)]


def _of_nodes(of: Delivery) -> Iterator[str]:
    """Yield which nodes are not accepted, and why a result does not count."""
    results = ((REJECTED, "rejected"), (OPEN, "neither accepted nor rejected"))
    for result, words in results:
        if names := [each.name for each in of.nodes if each.outcome == result]:
            yield f"{_is(len(names), 'node')} {words}: {listed(names, MOST_NODES)}."
    if of.absent:
        yield f"No record of {counted(len(of.absent), 'node')}: {listed(of.absent, MOST_NODES)}."
    objected = grouped((each for each in of.nodes if each.objection), lambda each: each.objection)
    yield from (f"{_names(nodes)}: {why}." for why, nodes in objected.items())


def _of_whole(of: Delivery) -> Iterator[str]:
    if of.unalike:
        yield f"The nodes were not judged alike: they differ in {', '.join(of.unalike)}."
    if of.partly_simulated:
        yield f"{_is(of.simulated, 'node')} simulated: nobody delivered hardware there."
    yield from (f"Not read: {each}." for each in of.records.refused)


def notes(of: Delivery) -> list[str]:
    """Return on what the acceptance depends, and what else a reader has to know."""
    told = (
        [f"SIMULATED: {_is(of.simulated, 'node')} simulated. Nothing here is about hardware."] if of.simulated else []
    )
    accepted = [each for each in of.nodes if each.accepted]
    waived = grouped(((metric, each.name) for each in accepted for metric in each.waived), lambda each: each[0])
    for metric, some in waived.items():
        told.append(f"WAIVED on accepted nodes: {metric}: {listed([name for _, name in some], MOST_NODES)}.")
    if others := [each.name for each in accepted if each.overridden]:
        told.append(f"OTHER LIMITS than those of the shipped threshold file: {listed(others, MOST_NODES)}.")
    if before := [f"{each.name} ({', '.join(each.rejected_before)})" for each in accepted if each.rejected_before]:
        told.append(f"REJECTED BEFORE, and accepted now: {listed(before, MOST_NODES)}.")
    told += unlike(of)
    told += [
        f"SEVERAL NODES named {host}: their records hold different devices. Give the nodes names; if a board of one "
        "node was exchanged, take its older record out of the folder."
        for host in of.records.shared
    ]
    older = of.records.older
    return told + ([f"{counted(older, 'further record')} not counted: one of every node counts."] * bool(older))


def unlike(of: Delivery) -> list[str]:
    """Return in what the nodes differ and what rejects nothing."""
    return [f"{each.words}." for each in of.unlike if not each.rejects]


def head(of: Delivery) -> list[tuple[str, str]]:
    """Return name and value of what the delivery is."""
    days = sorted(each.day for each in of.nodes if each.day)
    period = " to ".join(dict.fromkeys([*days[:1], *days[-1:]])) or "no day stated"
    by = of.packing_list
    packing = f"{by.file}, {counted(len(by.rows), 'board')}, SHA-256 {by.sha256}" if by else ""
    same = "; ".join(alike.common(of.nodes))
    terms = ((name, _values(of, name)) for name in of.terms)
    return [("records of", period), ("packing list", packing), *terms, ("the same on all nodes", same)]


def _values(of: Delivery, term: str) -> str:
    """Return the values of a term, with the number of nodes that have each if there are several."""
    values = of.terms[term]
    if len(values) == 1:
        return next(iter(values))
    return listed([f"{value} ({counted(number, 'node')})" for value, number in values.items()], MOST_NODES)


def _names(nodes: Sequence[Any]) -> str:
    return listed([each.name for each in nodes], MOST_NODES)


def _is(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'}"
