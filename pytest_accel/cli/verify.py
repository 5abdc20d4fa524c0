"""The subcommand `pytest-accel verify`: what a signed record proves."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_accel.core import exits, untrusted
from pytest_accel.core.printable import printable
from pytest_accel.core.verdict import Result
from pytest_accel.run import record, signature
from pytest_accel.run.options import nonce
from pytest_accel.run.record_files import RecordFiles
from pytest_accel.run.signature import Trust

DESCRIPTION = """Verify a signed record: who signed it, that no file was changed since, the nonce, and that the
acceptance follows from what was measured, which is worked out anew. The exit status is 0 for a proven ACCEPTED, 1 for a
proven REJECTED, 6 for everything else: unsigned, signed by somebody who is not in the list, changed, judged otherwise
than by its own measurements, simulated, held or not judged. It proves that whoever holds the key stated this record,
after the nonce was given out; not that the hardware was there."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `verify`."""
    parser.add_argument("file", metavar="RECORD", type=Path, help="a record.json, or the folder that holds it")
    arguments(parser, required=True)
    text = "the name of the list that has to have signed (default: any of it)"
    parser.add_argument("--signer", metavar="NAME", type=nonce, help=text)


def arguments(parser: argparse._ActionsContainer, *, required: bool = False) -> None:
    """Declare whom and what to trust, for `fleet report --acceptance` as well."""
    option = parser.add_argument
    text = "whose signatures count, in lines of NAME and public key (ssh-keygen(1), ALLOWED SIGNERS)"
    option("--allowed-signers", metavar="FILE", type=Path, required=required, help=text)
    text = "the text that was given out for the run (pytest --accel-nonce=TEXT)"
    option("--nonce", metavar="TEXT", type=nonce, help=text)
    option("--revoked", metavar="FILE", type=Path, help="keys that count no more (ssh-keygen(1), -r)")


def trust_of(args: argparse.Namespace, signer: str | None = None) -> Trust | None:
    """Return whom the arguments say to trust, None without a list. Raises BadFile for a list that cannot be read."""
    for path in filter(None, (args.allowed_signers, args.revoked)):
        untrusted.read_bytes(path)
    return Trust(args.allowed_signers, signer, args.nonce, args.revoked) if args.allowed_signers else None


def run(args: argparse.Namespace) -> int:
    """Print what a record proves, and return the exit status. Raises WrongUse."""
    trust = trust_of(args, args.signer)
    assert trust  # the option is required
    with RecordFiles(record.find(args.file), follow=False) as files:
        proof = signature.verify(files, trust)
    objections, result = [*proof.objections], proof.run.result if proof.run else None
    lines = [f"signed by {proof.signer}"] if proof.signer else []
    if proof.run:
        objections += ["the node was simulated"] * proof.run.simulated
        nonce = f", nonce {proof.run.info['nonce']}" if proof.run.info.get("nonce") else ""
        lines += [f"record of {proof.run.host}, {proof.run.started}{nonce}", proof.run.closing.line]
    lines += [f"against it: {objection}" for objection in objections]
    lines.append("NOT PROVEN" if objections else f"PROVEN {Result.words(result, 'without a result')}")
    print("\n".join(map(printable, lines)))
    return result.exit if result in (Result.ACCEPTED, Result.REJECTED) and not objections else exits.NOT_JUDGED
