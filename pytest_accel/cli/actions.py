"""Subcommands that have actions of their own: one table for the declaration and the choice."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """An action of a subcommand; `run` returns the exit status."""

    help: str
    description: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


Actions = Mapping[str, Action]
"""The actions of a subcommand by name, in the order in which the help lists them."""


def declare(parser: argparse.ArgumentParser, actions: Actions) -> None:
    """Declare the actions of a subcommand, one of which has to be chosen."""
    chosen = parser.add_subparsers(dest="action", required=True)
    for name, each in actions.items():
        each.arguments(chosen.add_parser(name, help=each.help, description=each.description))


def run_chosen(actions: Actions, chosen: argparse.Namespace) -> int:
    """Run the chosen action, and return its exit status."""
    return actions[chosen.action].run(chosen)
