"""`pytest-accel sku freeze`: writes everything that a SKU demands on one platform at one level into one file."""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path

import pytest_accel
from pytest_accel.cli.result_file import write_new
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Platform, Sku
from pytest_accel.core.yaml_nodes import BadFile, nearest
from pytest_accel.drivers import registry
from pytest_accel.skus import contract, loader, requirements

DESCRIPTION = """Write the threshold file of a SKU for one platform and one level, which needs no other file, with its
hash in the first line: what buyer and supplier agree on before delivery. 'pytest --accel-sku=FILE' judges by it, and
refuses it once it was changed. The hash is printed to stderr, and every run by the file shows it."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sku freeze`."""
    option = parser.add_argument
    option("name", metavar="NAME|FILE", help="a shipped SKU, or a threshold file of your own")
    option("--platform", metavar="NAME", help="the platform (default: that of the SKU, if it has only one)")
    option("--level", choices=LEVELS, default="standard", help="the level (default: %(default)s)")
    option("--output", metavar="FILE", type=Path, help="the file to write, which must not exist (default: stdout)")


def run(chosen: argparse.Namespace) -> int:
    """Write the contract, and its hash and what keeps it from accepting a node to stderr; return 0.

    Raises BadFile for a wrong file, platform or output.
    """
    sku = loader.load(chosen.name)
    if sku.contract:
        raise BadFile(f"{printable(chosen.name)}: is frozen already, as {sku.contract.named()}")
    platform = _platform(sku, chosen.platform)
    _, root = loader.read(chosen.name)
    by = f"pytest_accel {pytest_accel.__version__} on {date.today()}"  # noqa: DTZ011  today in the buyer's time zone
    text, terms = contract.frozen(sku, root, platform, chosen.level, by)
    if chosen.output:
        write_new(chosen.output, text.encode())
    else:
        print(text, end="")
        sys.stdout.flush()
    print(f"contract: {terms.named()}", file=sys.stderr)
    if why := _no_acceptance(sku, platform, chosen.level):
        print(f"warning: no node can be accepted by this contract: {printable(why)}", file=sys.stderr)
    return 0


def _platform(sku: Sku, wanted: str | None) -> Platform:
    """Return the platform of a name, or the only one without a name. Raises BadFile."""
    if wanted is not None:
        if platform := sku.platform_named(wanted):
            return platform
        near = nearest(wanted, sku.platform_names)
        raise BadFile(f"--platform: {sku.name} has no platform '{printable(wanted)}'; {near}")
    if len(sku.platforms) > 1:
        raise BadFile(f"--platform: name the platform that is delivered, one of {', '.join(sku.platform_names)}")
    return next(iter(sku.platforms.values()))


def _no_acceptance(sku: Sku, platform: Platform, level: str) -> str | None:
    """Return why no node can be accepted by these terms, None if one can."""
    vendor = registry.vendor(sku.vendor)
    if not vendor.accelerator:
        return f"a {vendor.title} is not an accelerator"
    return requirements.unfit(sku, platform, level)
