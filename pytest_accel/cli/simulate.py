"""`pytest-accel simulate`: the faults of a simulated node."""

from __future__ import annotations

import argparse

from pytest_accel.simulate import faults

DESCRIPTION = "List the faults that --accel-simulate can put into a simulated node."


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the option of `simulate`."""
    text = "list the faults: effect, parameters, and the metrics that should fail"
    parser.add_argument("--list", action="store_true", required=True, help=text)


def run(_: argparse.Namespace) -> int:
    """Print the effect of each fault, its parameters, and the metrics that should fail; return 0."""
    print("\n".join(faults.listing()))
    return 0
