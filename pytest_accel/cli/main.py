"""The command line of `pytest-accel`: its subcommands, each of which is a module of this folder."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import pytest_accel
from pytest_accel.cli.parser import Parser, guarded
from pytest_accel.core import exits, output

MAIN = """Companion of the pytest plugin: shows devices and limits, and judges records. The acceptance tests themselves
are run by 'pytest --accel-sku=NAME'."""

COMMANDS: Mapping[str, str] = {
    "discover": "show the devices, their SKU and the host as an acceptance run would find them",
    "sku": "list, show and check the limits of products",
    "simulate": "list the faults that --accel-simulate can put into a simulated node",
    "judge": "judge a saved record again",
    "compare": "show what changed between two records",
    "calibrate": "make a threshold file from records of known-good nodes",
    "report": "write the page of a saved record",
    "sign": "sign a saved record",
    "verify": "check the signature of a record, and what it proves",
    "claim": "pack what a supplier needs to take a device back",
    "health": "check this node without loading it, in one line, for schedulers",
    "fleet": "run on many nodes by their scheduler, and report on all of them",
    "store": "keep the results of many nights in few files, and analyse them",
}
"""The help of each subcommand by the name of its module, which has DESCRIPTION, `add` for arguments, and `run`."""
GROUP = "pytest_accel_commands"
"""The entry points by which other packages bring subcommands: each names such a module."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: sys.argv), and return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    status = guarded(lambda: _run(words))
    if words[:1] == ["health"]:
        return status  # whatever becomes of the line, the status is the result
    loss = output.loss()
    if loss:
        print(f"standard output: {loss}", file=sys.stderr)
    # 4 instead of 0, since a file that the output was redirected to is incomplete.
    return exits.WRONG if loss and not status else status


def _run(words: Sequence[str]) -> int:
    """Run a subcommand, and return the exit status. Raises BadFile."""
    command, args = parsed(words)
    return int(command.run(args))


def parsed(words: Sequence[str]) -> tuple[ModuleType, argparse.Namespace]:
    """Return the module of the subcommand that the words name, and its options. No other one is imported.

    Raises WrongUse for one of another package that cannot be imported.
    """
    name = words[0] if words and words[0] in COMMANDS else _top().parse_args(words[:1] or words).command
    command = importlib.import_module(f"pytest_accel.cli.{name}") if name in COMMANDS else _of_others(name)
    parser = getattr(command, "PARSER", Parser)(prog=f"pytest-accel {name}", description=command.DESCRIPTION)
    command.add(parser)
    return command, parser.parse_args(words[1:])


def _of_others(name: str) -> ModuleType:
    """Return the module of a subcommand of another package. Raises WrongUse."""
    entry = _others()[name]
    try:
        module: ModuleType = entry.load()
    except Exception as error:  # noqa: BLE001  importing a package may raise anything
        package = entry.dist.name if entry.dist else "an unknown package"
        raise exits.WrongUse(f"{name} of {package} cannot be loaded: {type(error).__name__}: {error}") from None
    return module


def _others() -> dict[str, EntryPoint]:
    """Return the subcommands of other packages by name; none takes the place of one of ours."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in COMMANDS}


def _top() -> Parser:
    """Return the parser of what comes before the name of a subcommand."""
    parser = Parser(prog="pytest-accel", description=MAIN)
    parser.add_argument("--version", action="version", version=pytest_accel.__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    for name, entry in _others().items():
        commands.add_parser(name, help=f"of {entry.dist.name}" if entry.dist else None)
    return parser
