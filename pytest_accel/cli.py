"""The command `pytest-accel`: what is not a test run."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version

from pytest_accel import skufile
from pytest_accel.located import BadFile
from pytest_accel.options import Options, Refused
from pytest_accel.run import Run


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="pytest-accel", description=__doc__)
    parser.add_argument("--version", action="version", version=version("pytest-accel"))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("discover", help="show the devices, the SKU that they are, and what cannot be reached")
    sku = commands.add_parser("sku", help="the threshold files").add_subparsers(dest="action", required=True)
    sku.add_parser("list", help="the SKUs that are shipped")
    chosen = parser.parse_args(arguments)
    return discover() if chosen.command == "discover" else list_skus()


def discover() -> int:
    """Print what an acceptance run would find here; 1 if something that is there cannot be used."""
    run = Run(Options(sku="auto"))
    try:
        run.open(measuring=False)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 4
    finally:
        run.stop()
    print(f"SKU: {run.sku.name if run.sku else 'none'}, platform: {run.platform.name}")
    for device in run.devices:
        memory = f"{device.memory_bytes / 1e9:.0f} GB"
        print(f"{device.name}: {device.model}, {memory}, {device.uuid}, {device.pci_address or 'no PCI address'}")
    problem = run.found.unreachable(run.sku.vendor if run.sku else None)
    if problem:
        print(f"not reachable: {problem}", file=sys.stderr)
    return 1 if problem else 0


def list_skus() -> int:
    """Print the shipped SKUs, one a line."""
    try:
        for sku in skufile.load_shipped():
            platforms = ", ".join(sku.platforms)
            print(f"{sku.name:12} {sku.title} ({platforms})")
    except BadFile as bad:
        print(bad, file=sys.stderr)
        return 4
    return 0
