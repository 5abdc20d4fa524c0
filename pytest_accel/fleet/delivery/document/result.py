"""The first part of the document of a delivery: the result, what stands against it, and what it depends on. Pure."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from pytest_accel.core.printable import printable_data
from pytest_accel.core.words import listed

if TYPE_CHECKING:
    from pytest_accel.fleet.delivery.acceptance import Delivery, Term
    from pytest_accel.fleet.delivery.against import Against

LISTS = "packing list of the runs"
UNALIKE = "Nodes that were judged by different terms are not accepted as one delivery."
MIXED = "This may explain differences between their figures."
MOST_NODES = 6
"""Nodes that one sentence names."""
SHARED = (
    "SEVERAL NODES named {host}: their records hold different devices, and each counts as a node of its own. Give the "
    "nodes names; if a board of one node was exchanged, take its older record out of the folder."
)


def many(number: int, noun: str) -> str:
    """Return a number with its noun: "1 node", "1,000 nodes"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def verdict(of: Delivery) -> tuple[str, str]:
    """Return the result of the delivery in one word and in one sentence."""
    total, accepted = sum(of.of_nodes.values()), of.of_nodes["accepted"]
    own = "its own run" if accepted == 1 else "their own runs"
    share = f"{accepted:,} of {many(total, 'node')} {_is(accepted)} accepted by {own}"
    if of.exit == 1:
        return "REJECTED", f"{share}."
    if of.exit:
        return "NOT JUDGED", f"{share} and none is rejected, but the delivery as a whole cannot be accepted yet."
    devices = many(sum(of.of_devices.values()), "device")
    every = f"All {many(total, 'node')} with {devices} are" if total > 1 else f"The node with {devices} is"
    return "ACCEPTED", f"{every} accepted{_terms(of)}. {_whole(of)}"


def _whole(of: Delivery) -> str:
    """Return whether the accepted nodes are all that was ordered."""
    if of.against is None:
        return "Without a packing list, nothing shows that this is all that was ordered."
    if of.against.names_nodes:
        return "They have every board of the packing list, in its node, and no other."
    return "They have every board of the packing list and no other; the list does not name the node of every board."


def _terms(of: Delivery) -> str:
    """Return by what all nodes were accepted: " as h100-sxm on hgx8 at level standard"."""
    stated = {each.name: each.values[0][0] for each in of.terms if each.values}
    words = (("SKU", " as"), ("platform", " on"), ("level", " at level"))
    return "".join(f"{word} {stated[name]}" for name, word in words if name in stated)


def reasons(of: Delivery) -> list[str]:
    """Return everything that keeps the delivery from being accepted, a sentence each; none if it is accepted."""
    told = [*_nodes(of), *(_boards(of.against) if of.against else [])]
    if of.duplicates:
        kinds = [kind for kind, _, _ in of.duplicates]
        numbers = (("serial", "serial number"), ("UUID", "UUID"))
        parts = [many(kinds.count(kind), noun) for kind, noun in numbers if kind in kinds]
        told.append(f"{' and '.join(parts)} {_is(len(kinds))} stated by more than one board.")
    if of.unalike:
        told.append(f"The nodes were not judged alike: they differ in {', '.join(of.unalike)}.")
    if of.partly_simulated:
        told.append(f"{many(of.simulated, 'node')} {_is(of.simulated)} simulated: nobody delivered hardware there.")
    if of.refused:
        told.append(f"{len(of.refused):,} of the files and folders could not be read.")
    return told


def _nodes(of: Delivery) -> list[str]:
    """Return which nodes are not accepted."""
    rejected = [each.name for each in of.nodes if each.result == "rejected"]
    not_judged = [each.name for each in of.nodes if each.result == "not judged"]
    absent = [*(of.against.absent_nodes if of.against else ()), *of.without_record]
    kinds = (
        (rejected, "was rejected by its own run", "were rejected by their own runs"),
        (not_judged, "was neither accepted nor rejected", "were neither accepted nor rejected"),
        (absent, "has no record", "have no record"),
    )
    told = [
        f"{many(len(names), 'node')} {one if len(names) == 1 else more}: {listed(names, MOST_NODES)}."
        for names, one, more in kinds
        if names
    ]
    objections = [f"{each.name}: {each.objection}" for each in of.nodes if each.objection]
    return told + ([f"Results that do not count: {listed(objections, MOST_NODES)}."] if objections else [])


def _boards(against: Against) -> list[str]:
    """Return how the boards that were seen are not those of the packing list."""
    kinds = (
        (len(against.unseen), "board", "of the packing list {was} seen in no node"),
        (len(against.swapped), "pair", "of boards {is} swapped: each is in the node of the other"),
        (len(against.moved), "board", "{is} in another node than listed"),
        (len(against.unlisted), "board", "{is} not on the packing list"),
        (len(against.differing), "board", "{has} another UUID, model or slot than listed"),
        (len(against.unknown), "board", "could not be compared with the packing list"),
        (len(against.but_for_zeros), "board", "{is} on the packing list only if leading zeros do not count"),
    )
    told = [
        f"{many(number, noun)} {what.format(**{'is': _is(number), **_number(number)})}."
        for number, noun, what in kinds
        if number
    ]
    return told + [f"{name} on the packing list may be any of: {listed(meant, 6)}." for name, meant in against.several]


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _number(number: int) -> dict[str, str]:
    return {"was": "was", "has": "has"} if number == 1 else {"was": "were", "has": "have"}


def head(of: Delivery) -> list[tuple[str, str]]:
    """Return name and value of what the delivery is, for the head of the document."""
    days = of.first if of.first == of.last else f"{of.first} to {of.last}"
    given = of.against.sha256 if of.against else ""
    terms = [(each.name, _values(each)) for each in of.terms if each.values and each.values[0][0] != given]
    packing = (
        [("packing list", f"{of.against.file}, {many(of.against.boards, 'board')}, SHA-256 {of.against.sha256}")]
        if of.against
        else []
    )
    return [("delivery", of.name), ("records of", days or "no day stated"), *packing, *terms]


def _values(of: Term) -> str:
    """Return the values of a term, with the nodes that have each if there are several."""
    absent = [f"not stated ({many(of.absent, 'node')})"] if of.absent else []
    if len(of.values) == 1 and not absent:
        return of.values[0][0]
    return listed([*(f"{value} ({many(number, 'node')})" for value, number in of.values), *absent], MOST_NODES)


def warnings(of: Delivery) -> list[str]:
    """Return what a reader has to know before anything else."""
    told = []
    if of.simulated:
        told.append(
            f"SIMULATED: {of.simulated:,} of {many(len(of.nodes), 'node')} {_is(of.simulated)} simulated. "
            "Nothing here is about hardware."
        )
    told += [
        f"MIXED {each.name}: {_values(each)}. {UNALIKE if each.name in of.unalike else MIXED}" for each in of.mixed
    ]
    told += _qualified(of)
    lists = [value for each in of.terms if each.name == LISTS for value, _ in each.values]
    if of.against and any(value != of.against.sha256 for value in lists):
        told.append(
            "OTHER PACKING LIST: nodes were compared with another list by their runs. What the runs rejected stays "
            "rejected; all boards are compared with the list of this document as well."
        )
    if not any(each.name == "contract" and each.values for each in of.terms):
        told.append(
            "No contract: buyer and supplier did not agree on the limits in one file beforehand "
            "(pytest-accel sku freeze)."
        )
    if of.against is None:
        told.append("No packing list: nothing shows that everything that was ordered is here (--expect).")
    if of.older:
        told.append(f"Several runs: {many(of.older, 'further record')} not counted; one of every node counts.")
    told += [SHARED.format(host=each) for each in of.shared]
    told += [f"Not read: {each}." for each in of.refused]
    return told


def _qualified(of: Delivery) -> list[str]:
    """Return on what the acceptance of single nodes depends."""
    told = [
        f"WAIVED: {metric} is broken or was not measured on {many(len(names), 'accepted node')}, by a waiver: "
        f"{listed(names, MOST_NODES)}."
        for metric, names in of.waived
    ]
    if of.overridden:
        told.append(
            f"OTHER LIMITS than those of the shipped threshold file: {many(len(of.overridden), 'accepted node')} "
            f"{'was' if len(of.overridden) == 1 else 'were'} judged by some ({listed(of.overridden, MOST_NODES)})."
        )
    marginal = [each for each in of.nodes if each.marginal and each.result == "accepted"]
    if marginal:
        devices = sum(each.marginal for each in marginal)
        told.append(
            f"MARGINAL: {many(devices, 'device')} of {many(len(marginal), 'accepted node')} "
            f"{'holds' if devices == 1 else 'hold'} a limit narrowly, or {_is(devices)} behind the others: "
            f"{listed([each.name for each in marginal], MOST_NODES)}."
        )
    signed: dict[tuple[str, ...], list[str]] = {}
    for each in of.nodes:
        signed.setdefault(tuple(each.signed_by), []).append(each.name)
    told += [f"Signed by {listed(who)}: {listed(names, MOST_NODES)}." for who, names in signed.items() if who]
    if of.rejected_before:
        nodes = [f"{name} ({why})" for name, why in of.rejected_before]
        told.append(f"REJECTED BEFORE, and accepted now: {listed(nodes, MOST_NODES)}.")
    return told


def counts(of: Delivery) -> list[tuple[str, int, int]]:
    """Return the number of nodes and of devices by result."""
    return [(result, number, of.of_devices[result]) for result, number in of.of_nodes.items()]


def as_json(of: Delivery) -> str:
    """Return a delivery as one JSON object, for programs."""
    word, sentence = verdict(of)
    plain = {"result": word, "exit": of.exit, "sentence": sentence, "reasons": reasons(of)}
    plain |= {"unalike": of.unalike, **dataclasses.asdict(of)}
    return json.dumps(printable_data(plain), indent=1) + "\n"
