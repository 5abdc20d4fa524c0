"""`pytest-accel simulate`: the faults of a simulated node, and of a simulated cluster."""

from __future__ import annotations

import argparse
import re
import textwrap

from pytest_accel.cli import screen
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.groups import grouped
from pytest_accel.core.yaml_nodes import nearest
from pytest_accel.simulate import cluster
from pytest_accel.simulate.faults import FAULTS, description

DESCRIPTION = "List the faults that --accel-simulate can put into a simulated node or cluster."

HEAD = "Faults by the metrics that should fail; 'simulate --list FAULT' has effect and parameters.\n"
OF_CLUSTER = "a cluster (--accel-network --accel-simulate=FILE, with `nodes: 64` in the file)"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the option of `simulate`."""
    text = "list the faults; with a name or a part of names: effect, parameters, and the metrics that should fail"
    parser.add_argument("--list", metavar="FAULT", nargs="?", const="", required=True, help=text)


def run(args: argparse.Namespace) -> int:
    """Print the names of the faults by the check that should fail, or effect and parameters of some; return 0.

    Raises WrongUse if no fault has such a name.
    """
    faults = {name: description(kind) for name, kind in FAULTS.items()}
    faults |= {name: cluster.description(kind) for name, kind in cluster.CLUSTER_FAULTS.items()}
    if word := args.list:
        names = [word] if word in faults else [name for name in faults if word in name]
        if not names:
            raise WrongUse(f"simulate --list: no fault is named {word!r}; {nearest(word, faults)}")
        print("\n".join("\n    ".join([name, *faults[name]]) for name in names))
        return 0
    groups = grouped(FAULTS, lambda name: re.split("[.,:]", FAULTS[name].caught_by)[0])
    print(HEAD)
    for caught_by, names in {**groups, OF_CLUSTER: [*cluster.CLUSTER_FAULTS]}.items():
        text = f"{caught_by}: {', '.join(names)}"
        print(textwrap.fill(text, screen.width() or 80, subsequent_indent="    ", break_on_hyphens=False))
    return 0
