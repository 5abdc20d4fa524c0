"""`pytest-accel simulate`: the faults of a simulated node, and of a simulated cluster."""

from __future__ import annotations

import argparse

from pytest_accel.simulate import cluster, faults

DESCRIPTION = "List the faults that --accel-simulate can put into a simulated node or cluster."

OF_CLUSTER = "Of a cluster (--accel-fabric --accel-simulate=FILE, with `nodes: 64` in the file):"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the option of `simulate`."""
    text = "list the faults: effect, parameters, and the metrics that should fail"
    parser.add_argument("--list", action="store_true", required=True, help=text)


def run(_: argparse.Namespace) -> int:
    """Print the effect of each fault, its parameters, and the metrics that should fail; return 0."""
    print("\n".join([*faults.listing(), "", OF_CLUSTER, "", *cluster.cluster_listing()]))
    return 0
