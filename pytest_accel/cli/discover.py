"""`pytest-accel discover`: the devices of this machine, the SKU that they are, the host, and a skeleton of a file."""

from __future__ import annotations

import argparse
import importlib.util
import sys

from pytest_accel.core import exits
from pytest_accel.core.measurement import Device
from pytest_accel.core.software import torch_version
from pytest_accel.drivers import registry
from pytest_accel.drivers.vendor import Vendor
from pytest_accel.run import terms
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.setup import Inputs, Target, choose_devices, discover, read_inputs, target_of
from pytest_accel.run.terms import Terms
from pytest_accel.skus import skeleton
from pytest_accel.skus.products import Product
from pytest_accel.views import devices as view

DESCRIPTION = """Show devices, matching SKU and host facts as a run would see them, and list the facts that this user
cannot read. Where no shipped SKU matches, show every device with its ids, the nearest SKU, what differs from it, and a
threshold file to fill in. Measures nothing. The exit status is 1 if a device itself cannot be used, 6 if its driver,
library or torch is missing here, 4 if the devices are not of one SKU."""

UNUSABLE = 1
"""The exit status where a device itself fails: a run would say FAIL of `inventory.driver`."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the option of `discover`."""
    text = "print only a threshold file to fill in, for the product that most of the devices are"
    parser.add_argument("--skeleton", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    """Print devices, SKU and host as a run would find them, and a threshold file to fill in for an unknown product.

    With --skeleton only that file is printed, for any product. Returns the exit status: 0, 1 if an accelerator
    itself cannot be used, 6 if it cannot be used for lack of a driver, a library or torch, and 4 if the devices are not
    of one SKU.
    """
    inputs = read_inputs(Options(sku="auto"))
    pool = WorkerPool(SensorClient(inputs.options.patience))
    try:
        target, refused = _look(inputs, pool)
        products = terms.products_of(target.discovery.devices)
        host = {} if args.skeleton else pool.sensor.host()
    finally:
        pool.stop()
    if args.skeleton:
        return _print_skeleton(products, refused)
    print("\n".join([*_sku_lines(target, products), *view.lines(target.devices, in_full=bool(refused))]))
    print("\n".join(view.host_lines(host)))
    for product in products:
        if not product.skus:
            print(f"\nthreshold file to fill in for {product.stated} (--skeleton prints it alone):\n")
            print(_skeleton(product), end="")
    sys.stdout.flush()
    return _status(target, refused)


def _look(inputs: Inputs, pool: WorkerPool) -> tuple[Target, Refused | None]:
    """Discover the devices, and return as far as it is known what a run would find, and why it would be refused."""
    discovery = discover(inputs, pool)
    target = Target(discovery, Terms(), discovery.devices)
    try:
        target = target_of(inputs, discovery)
        target = choose_devices(target, inputs.options.devices)
        terms.refuse_divided(target.devices, target.terms.platform)
    except Refused as error:
        return target, error
    return target, None


def _sku_lines(target: Target, products: list[Product]) -> list[str]:
    """Return the lines on SKU and platform; if there is no one SKU, what the devices are instead."""
    if target.terms.sku:
        return [f"SKU: {target.terms.sku.name}, platform: {target.terms.platform.name}"]
    if not products:
        return ["SKU: none, since no device was found"]
    several = "several shipped files match" if products[0].skus else "no shipped file matches"
    lines = [f"SKU: none, {'the devices are not one product' if len(products) > 1 else several}"]
    for product in products:
        lines.append(f"  {product.who if product is products[0] else product.names}: {product.is_what}")
        lines += [] if product.skus else [f"    {product.unknown}"]
    return lines


def _print_skeleton(products: list[Product], refused: Refused | None) -> int:
    """Print the skeleton of a file for the product of most devices; return the exit status."""
    if not products:
        print(refused or "no device was found", file=sys.stderr)
        return exits.WRONG
    for product in products[1:]:
        print(f"left out of the file: {product.names}, {product.is_what}", file=sys.stderr)
    print(_skeleton(products[0]), end="")
    return 0


def _skeleton(product: Product) -> str:
    return skeleton.text(product.devices, product.skus[0] if product.skus else product.nearest)


def _status(target: Target, refused: Refused | None) -> int:
    """Say on stderr what keeps a run from measuring, and return the exit status."""
    problem = target.discovery.unreachable(target.terms.sku.vendor if target.terms.sku else None)
    if problem:
        print(f"an accelerator cannot be used: {problem.reason}", file=sys.stderr)
    if refused:
        unknown = isinstance(refused, terms.Unrecognised)
        print("the devices are not of one shipped SKU" if unknown else refused, file=sys.stderr)
    missing = without_torch(target.discovery.devices)
    if missing:
        print(missing, file=sys.stderr)
    if problem and problem.kind == "device":
        return UNUSABLE
    if problem or (missing and not refused):
        return exits.NOT_JUDGED
    return exits.WRONG if refused else exits.HOLDS


def without_torch(devices: tuple[Device, ...]) -> str | None:
    """Return a sentence if torch cannot measure the devices, by what is installed; torch itself is not loaded."""
    for vendor in {device.driver: registry.vendor(device.driver) for device in devices}.values():
        if vendor.torch is None:
            return f"{vendor.title} devices are read and not measured: {vendor.no_torch}"
        if importlib.util.find_spec("torch") is None:
            return "nothing can be measured: torch is not installed in this environment (docs/running.md)"
        if reason := _other_build(vendor):
            return reason
    return None


def _other_build(vendor: Vendor) -> str | None:
    """Return a sentence if the version of the installed torch says that it is built for CPUs only, which is wrong."""
    version = torch_version()
    if vendor.torch is None or vendor.torch.name != "cuda" or not (version or "").endswith("+cpu"):
        return None
    return f"{vendor.title} devices cannot be measured: torch {version} is built for CPUs only"
