"""The document of a whole delivery, from the records of its nodes: `pytest-accel fleet report --acceptance`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.cli import result_file, verify
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.delivery import acceptance, choice, files, records
from pytest_accel.fleet.delivery.acceptance import Delivery
from pytest_accel.fleet.delivery.document import markdown, page, result
from pytest_accel.fleet.delivery.records import NodeRecord, Records
from pytest_accel.fleet.jobs import run_folder, states
from pytest_accel.run import signature
from pytest_accel.skus import packing_list

FORMATS: Mapping[str, Callable[[Delivery], str]] = {"md": markdown.text, "html": page.text, "json": result.as_json}
"""The function that writes the document, by the name of the format."""
DESCRIPTION = """With --acceptance, the document of a whole delivery, from the records in the folder at any depth: what
is accepted, rejected, not judged and missing, which boards are twice or in another node than listed, the figures of all
devices against their limits, and what to send back. Of several records of one
node one counts, by the rule of all reports; an older one with a board that no newer one has counts as another node. The
exit status is 0 if all is accepted, 1 if a node or a board is rejected, 6 if something is missing or was not judged."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the document."""
    group = parser.add_argument_group("the document of a delivery")
    add = group.add_argument
    add("--acceptance", action="store_true", help="write the document of a whole delivery (docs/delivery.md)")
    text = "the packing list: a CSV table with the column serial"
    add("--expect", metavar="FILE", type=Path, help=text)
    verify.arguments(group)
    add("--name", help="what the delivery is called in the document (default: the name of the folder)")


def report(chosen: argparse.Namespace, form: str) -> int:
    """Write the document in a format of `FORMATS`, and return the exit status. Raises BadFile."""
    boards = packing_list.load(chosen.expect) if chosen.expect else None
    there = files.find(chosen.folder)
    found = records.read(there.records)
    found.refused += there.unreadable
    if not found.nodes:
        raise BadFile(f"{chosen.folder}: holds no record that can be read", *found.refused[:1])
    _choose(found, there.runs)
    if not found.nodes:
        raise BadFile(f"{chosen.folder}: holds no record that counts", *found.refused[:1])
    if chosen.allowed_signers:
        found.nodes = [_verified(each, chosen) for each in found.nodes]
    name = chosen.name or chosen.folder.absolute().name
    expected = [each.name for folder in there.runs for each in run_folder.load(folder).expected]
    made = acceptance.delivery(name, found, boards, expected=expected)
    result_file.write(chosen.output, FORMATS[form](made))
    if chosen.output:
        word, sentence = result.verdict(made)
        simulated = "SIMULATED " if made.simulated else ""
        against = [f"- {printable(each)}" for each in result.reasons(made)]
        print("\n".join([printable(f"{simulated}{word}: {sentence}"), *against, str(chosen.output)]))
    return made.exit


def _verified(one: NodeRecord, chosen: argparse.Namespace) -> NodeRecord:
    """Return a record with the names of who signed it; it is not accepted if its signature does not prove it."""
    found = signature.verify(one.path, chosen.allowed_signers, nonce=chosen.nonce, revoked=chosen.revoked)
    why = one.objection or (f"it is not proven: {found.objections[0]}" if found.objections else "")
    return replace(one, signed_by=tuple(found.signers), objection=why)


def _choose(found: Records, folders: Sequence[Path]) -> None:
    """Keep the records that count. In the run of a fleet they are those that `fleet report` counts. Raises BadFile.

    That knows what was asked, and which job was the last one of a node.
    """
    counted: dict[Path, datetime | None] = {}
    good: set[Path] = set()
    for folder in folders:
        results = run_folder.Results(folder)
        for each in states.of_all(run_folder.load(folder), results.read(), None, unreadable=results.unreadable):
            if each.result and each.expected:
                counted[each.result.folder] = each.began
                good |= {each.result.folder} if each.state in states.HOLDS else set()
    runs = choice.Runs(folders, counted)
    choice.choose(found, datetime.now(timezone.utc), runs)
    found.nodes = [_objected(each, runs.of(each), good) for each in found.nodes]


def _objected(one: NodeRecord, run: Path | None, good: Collection[Path]) -> NodeRecord:
    """Return a record; one in the run of a fleet is not accepted unless `fleet report` counts it as good."""
    if run is None or not one.accepted or one.folder in good:
        return one
    return replace(one, objection=f"'pytest-accel fleet report {run}' does not count this result, and says why")
