"""The subcommand `pytest-accel sign`: signs a saved record, on a machine that has the key."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_accel.run import signature

DESCRIPTION = """Sign a saved record with a key of OpenSSH: write statement.json (in-toto), SHA256SUMS over all files of
the record, and SHA256SUMS.sig beside it. 'pytest --accel-sign=KEY' does the same at the end of a run; here the key
never has to be on the node."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sign`."""
    option = parser.add_argument
    option("file", metavar="RECORD", type=Path, help="a record.json, or the folder that holds it")
    text = "a private key of OpenSSH, or the public key of one that ssh-agent or a token holds"
    option("--key", metavar="FILE", type=Path, required=True, help=text)


def run(args: argparse.Namespace) -> int:
    """Sign a record; return 0. Raises WrongUse."""
    print(signature.sign(args.file, args.key, ask=True))
    return 0
