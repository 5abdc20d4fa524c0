"""The subcommand `pytest-accel sign`: signs a saved record, on a machine that has the key."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from pytest_accel.core.durations import value_that
from pytest_accel.run import signature

DESCRIPTION = """Sign a saved record with a key of OpenSSH: write statement.json (in-toto), SHA256SUMS over all files of
the record, and SHA256SUMS.sig beside it. 'pytest --accel-sign=KEY' does the same at the end of a run; here the key
never has to be on the node. With --as, write one more signature over the same sums: so whoever takes the delivery
countersigns it. 'pytest-accel verify' reads both."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sign`."""
    option = parser.add_argument
    option("file", metavar="RECORD", type=Path, help="a record.json, or the folder that holds it")
    text = "a private key of OpenSSH, or the public key of one that ssh-agent or a token holds"
    option("--key", metavar="FILE", type=Path, required=True, help=text)
    text = "countersign the sums of a signed record, into SHA256SUMS.NAME.sig"
    option("--as", dest="name", metavar="NAME", type=_name, help=text)


_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_name = value_that(lambda text: bool(_NAME.fullmatch(text)), "a name has letters, digits, - and _", str)


def run(chosen: argparse.Namespace) -> int:
    """Sign a record; return 0. Raises WrongUse."""
    if chosen.name:
        made = signature.countersign(chosen.file, chosen.key, chosen.name)
    else:
        made = signature.sign(chosen.file, chosen.key, ask=True)
    print(made)
    return 0
