"""The subcommand `pytest-accel fleet`: runs on many nodes, and what follows from their results."""

from __future__ import annotations

import argparse

from pytest_accel.cli import fleet_manifest
from pytest_accel.cli.actions import Actions, declare, run_chosen

ACTIONS: Actions = {**fleet_manifest.ACTIONS}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `fleet`."""
    declare(parser, ACTIONS)


def run(chosen: argparse.Namespace) -> int:
    """Run the chosen action, and return the exit status. Raises BadFile."""
    return run_chosen(ACTIONS, chosen)
