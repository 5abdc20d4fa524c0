"""`pytest-accel fleet manifest` and `fleet labels`: Kubernetes, by files and commands that the user applies."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import datetime, timezone
from pathlib import Path

import yaml

from pytest_accel.cli.parser import Subcommand
from pytest_accel.core import exits
from pytest_accel.core.durations import duration, value_that
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.printable import printable
from pytest_accel.fleet.kubernetes import manifest, node_labels
from pytest_accel.run.options import time_limit

MOST_NODES = 100_000
"""Most pods of a Job whose indices fail one by one (Kubernetes, JobSpec.backoffLimitPerIndex)."""

SYSTEM = {
    *("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "usr"),
    *("opt/cni", "var/lib", "var/log", "var/run", "var/spool"),
}
"""Folders of the system, which no pod gets to write to; in /var/lib are those of kubelet and container runtimes."""

MANIFEST = """Print a manifest for kubectl apply: an indexed Job with one pod on each node, or with --cron a CronJob
of it. The pods run unprivileged and write their records into a shared folder; the exit status of each is its verdict.
Nothing is applied (docs/fleet.md)."""
LABELS = """Print the commands that label the nodes of a run by the results in 'fleet report', and taint those that
were rejected. Nothing is applied. The exit status is 0, 6 if a node gets no label because its newest result or its
name in Kubernetes is not known, or a record is damaged, 4 if the folder holds no result."""


def _manifest_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `fleet manifest`."""
    add = parser.add_argument
    add("--image", required=True, help="the image of the pods (scripts/Containerfile makes one)")
    text = "the SKU to judge by: a shipped one, or a file in the image"
    add("--sku", metavar="NAME|FILE", required=True, help=text)
    add("--level", choices=LEVELS, default="quick", help="default: %(default)s")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--nodes", metavar="A,B,C", type=_nodes, default=(), help="the nodes, by their names")
    where.add_argument("--count", metavar="N", type=_count, default=0, help="as many nodes, whichever are free")
    results = parser.add_mutually_exclusive_group(required=True)
    text = "the volume claim for the records, which all nodes can write to"
    results.add_argument("--claim", metavar="PVC", help=text)
    text = "the folder for the records on every node, such as one of a network file system; it has to exist"
    results.add_argument("--host-path", metavar="DIR", type=_absolute, help=text)
    add("--gpus", metavar="N", type=_count, default=8, help="devices of a node (default: %(default)s)")
    add("--resource", metavar="NAME", default="nvidia.com/gpu", help="their resource (default: %(default)s)")
    text = "a label that the nodes have to have; may be given several times"
    add("--selector", metavar="KEY=VALUE", type=_pair, action="append", default=[], help=text)
    add("--cron", metavar="'0 3 * * *'", default="", help="make a CronJob with this schedule")
    text = "the --accel-time-limit of every node, such as 15m"
    add("--time-limit", metavar="TIME", type=_time_limit, help=text)
    add("--name", type=_name, default="accel", help="the name of the Job (default: %(default)s)")
    add("--namespace", default="", help="default: that of kubectl")
    text = "the time after which the Job is ended (default: 6h)"
    add("--deadline", metavar="TIME", type=duration, default=manifest.DEADLINE, help=text)
    add("--cpu", type=_quantity, default="8", help="processors that a pod requests (default: %(default)s)")
    add("--memory", type=_quantity, default="32Gi", help="memory that a pod requests (default: %(default)s)")
    add("--priority", metavar="CLASS", type=_name, help="the PriorityClass of the pods")
    add("--pull-secret", metavar="NAME", type=_name, help="the secret by which the image is pulled")


def _print_manifest(chosen: argparse.Namespace) -> int:
    """Print the manifest; return 0."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    if "@sha256:" not in chosen.image:
        print("note: --image names no digest (NAME@sha256:...), so that nodes may run other images", file=sys.stderr)
    print(yaml.safe_dump(manifest.manifest(chosen, stamp), sort_keys=False, width=120), end="")
    return 0


def _labels_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `fleet labels`."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder of a run, with a folder for each node")


def _print_labels(chosen: argparse.Namespace) -> int:
    """Print the commands, and on standard error which nodes get none; return the exit status that LABELS tells."""
    found = node_labels.of_folder(chosen.folder.absolute())
    for why in found.without:
        print(printable(why), file=sys.stderr)
    lines = list(node_labels.commands(found.nodes))
    if lines:
        print("\n".join(lines))
    elif not found.without:
        print(printable(f"{chosen.folder} holds no result of a node"), file=sys.stderr)
        return exits.WRONG
    return exits.NOT_JUDGED if found.without else exits.HOLDS


def _nodes(text: str) -> tuple[str, ...]:
    """Return names of nodes, each once. Raises ArgumentTypeError for one that no node can have."""
    names = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    wrong = [each for each in names if not manifest.is_node(each)]
    if wrong or not 0 < len(names) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"{(wrong or [text])[0]!r} is not the name of a node of Kubernetes")
    return names


_count = value_that(lambda found: 0 < found <= MOST_NODES, f"at least 1, at most {MOST_NODES}", int)


def _absolute(text: str) -> str:
    """Return an absolute path without "..", and no folder of the system. Raises ArgumentTypeError for another one."""
    parts = [each for each in text.split("/") if each not in ("", ".")]
    if not text.startswith("/") or ".." in parts or len(parts) < 2 or {parts[0], "/".join(parts[:2])} & SYSTEM:
        wanted = "the absolute path of a folder for records, as /mnt/accel"
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}: / and folders of the system are refused")
    return text


def _pair(text: str) -> tuple[str, str]:
    """Return the key and the value of a label. Raises ArgumentTypeError without a key or a value."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


_AMOUNT = re.compile(r"[1-9][0-9]{0,11}(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_quantity = value_that(lambda text: bool(_AMOUNT.fullmatch(text)), "an amount is written as 8 or 32Gi", str)
_name = value_that(manifest.is_name, f"a-z, 0-9 and '-', at most {manifest.LONGEST_NAME} characters", str)


def _time_limit(text: str) -> str:
    """Return the time limit of a run as it was given. Raises ArgumentTypeError for one that no run can have."""
    time_limit(text)
    return text


ACTIONS = {
    "manifest": Subcommand("print a Kubernetes Job for many nodes", MANIFEST, _manifest_arguments, _print_manifest),
    "labels": Subcommand("print commands that label nodes by their results", LABELS, _labels_arguments, _print_labels),
}
