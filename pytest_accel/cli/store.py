"""The subcommand `pytest-accel store`: the results of many nights in few files, and their analysis."""

from __future__ import annotations

import argparse

from pytest_accel.cli.actions import Actions, declare, run_chosen

ACTIONS: Actions = {}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `store`."""
    declare(parser, ACTIONS)


def run(chosen: argparse.Namespace) -> int:
    """Run the chosen action, and return the exit status. Raises BadFile."""
    return run_chosen(ACTIONS, chosen)
