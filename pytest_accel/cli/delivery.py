"""The document of a whole delivery, from the records of its nodes: `pytest-accel fleet report --acceptance`."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.cli import result_file, verify
from pytest_accel.cli.buyer import Buyer
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.delivery import acceptance, choice, document, files, records, runs
from pytest_accel.fleet.jobs import run_folder
from pytest_accel.run.options import AUTO
from pytest_accel.run.terms import TermOptions
from pytest_accel.skus import packing_list

OPTIONS = ("packing_list", "sku", "allowed_signers", "nonce", "revoked", "name")
"""The options that are for the document alone."""
DESCRIPTION = """With --acceptance, the document of a whole delivery, from the records in the folder at any depth: what
is accepted, rejected, not judged and missing, who signed it, which boards are twice or in another node than listed,
which nodes are unlike the others in firmware, software or speed, and what to send back, one row a board. Of several
records of one node one counts, by the rule of all reports; an older one with a board that no newer one has counts as a
node of its own. A node is accepted if a signer of --allowed-signers signed its record, and the buyer's threshold
files judged it. The exit status is 0 if all is accepted, 1 if a node or a board is rejected, also for being far behind
the others, 6 if something is missing or was not judged."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the document."""
    group = parser.add_argument_group("the document of a delivery")
    add = group.add_argument
    add("--acceptance", action="store_true", help="write the document of a whole delivery (docs/delivery.md)")
    text = "the packing list: a CSV table with the column serial"
    add("--packing-list", metavar="FILE", type=Path, help=text)
    text = "the SKU, or threshold file, to judge by (default: the shipped file of the SKU of each record)"
    add("--sku", metavar="NAME|FILE", default="", help=text)
    verify.arguments(group)
    add("--name", help="the name of the delivery in the document (default: the name of the folder)")


def report(args: argparse.Namespace, form: str) -> int:
    """Write the document in a format of `document.FORMATS`, and return the exit status. Raises WrongUse."""
    boards = packing_list.load(args.packing_list) if args.packing_list else None
    selection = TermOptions(args.sku or AUTO, prefix="--")
    buyer = Buyer(selection.load_sku(on_hardware=False), verify.trust_of(args))
    delivery_files = files.find(args.folder)
    delivered = records.read(delivery_files.records, buyer.examined)
    delivered.refused += delivery_files.unreadable
    if not delivered.nodes:
        raise BadFile(f"{args.folder}: holds no record that can be read", *delivered.refused[:1])
    delivered.nodes = [*runs.as_reported(delivered.nodes, delivery_files.runs)]
    choice.choose(delivered, datetime.now(timezone.utc))
    if not delivered.nodes:
        raise BadFile(f"{args.folder}: holds no record that counts", *delivered.refused[:1])
    selection.load_sku(on_hardware=not all(node.simulated for node in delivered.nodes))
    name = args.name or args.folder.absolute().name
    expected = [node.name for folder in delivery_files.runs for node in run_folder.load(folder).expected]
    outcome = acceptance.delivery(name, delivered, boards, expected)
    result_file.write(args.output, document.text(outcome, form))
    if args.output:
        simulated = "SIMULATED " if outcome.simulated else ""
        result = printable(f"{simulated}{outcome.result.value}: {document.sentence(outcome)}")
        remarks = [*document.reasons(outcome), *document.unlike(outcome)]
        print("\n".join([result, *(f"- {printable(remark)}" for remark in remarks), str(args.output)]))
    return outcome.result.exit
