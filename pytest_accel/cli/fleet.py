"""The subcommand `pytest-accel fleet`: runs on many nodes, and what follows from their results."""

from __future__ import annotations

import argparse

from pytest_accel.cli import fleet_drain, fleet_network, fleet_run
from pytest_accel.cli.parser import Actions, declare, run_chosen

DESCRIPTION = "Run on many nodes by their scheduler, and report on all of them."
ACTIONS: Actions = {**fleet_run.ACTIONS, **fleet_network.ACTIONS, **fleet_drain.ACTIONS}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of `fleet`."""
    declare(parser, ACTIONS)


run = run_chosen
