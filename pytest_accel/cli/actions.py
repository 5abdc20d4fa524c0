"""Subcommands that have actions of their own: one table for the declaration and the choice."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Subcommand:
    """An action of a subcommand: `add` declares its arguments, `run` returns the exit status."""

    help: str
    description: str | None
    add: Callable[[argparse.ArgumentParser], None] | None
    run: Callable[[argparse.Namespace], int]


Actions = Mapping[str, Subcommand]
"""The actions of a subcommand by name, in the order in which the help lists them."""


def declare(parser: argparse.ArgumentParser, actions: Actions) -> None:
    """Declare the actions of a subcommand, one of which has to be chosen; `do` of the options runs it."""
    chosen = parser.add_subparsers(dest="action", required=True)
    for name, each in actions.items():
        action = chosen.add_parser(name, help=each.help, description=each.description)
        action.set_defaults(do=each.run)
        if each.add:
            each.add(action)


def run_chosen(chosen: argparse.Namespace) -> int:
    """Run the chosen action, and return its exit status."""
    status: int = chosen.do(chosen)
    return status
