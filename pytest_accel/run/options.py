"""The command line of a run: declared to pytest, and typed."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest


class Refused(Exception):
    """The run cannot begin: a wrong option or file, a device in use, an output that cannot be written."""


@dataclass(frozen=True)
class Options:
    """The command line, typed. `devices` are indices or UUIDs, empty for all."""

    sku: str
    platform: str = "auto"
    level: str = "standard"
    devices: tuple[str, ...] = ()
    output: Path | None = None
    waivers: Path | None = None
    patience: float = 60.0
    simulate: str | None = None
    command: tuple[str, ...] = ()


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("accel", "acceptance of accelerator hardware")
    add = group.addoption
    add(
        "--accel-sku",
        metavar="NAME|FILE|auto",
        help="Judge this node as SKU NAME (for instance h100-sxm), by a threshold FILE of your own, or as whatever "
        "it is (auto). Without paths, the packaged suite is run, and its table replaces pytest's short summary "
        "(-ra brings it back). Only a named SKU can be ACCEPTED.",
    )
    add(
        "--accel-platform",
        metavar="NAME|auto",
        default="auto",
        help="Where the SKU sits, one of the platforms of its file: expected device count and the limits that "
        "depend on it. Default: %(default)s, by the device count.",
    )
    add(
        "--accel-level",
        choices=("quick", "standard", "long"),
        default="standard",
        help="How long to measure: quick (nightly, under 2 minutes), standard (handover, under 15), long (burn-in). "
        "Default: %(default)s.",
    )
    add(
        "--accel-devices",
        metavar="0,2|UUID",
        default="",
        help="Measure these devices only. The others stay expected, so nothing is accepted. Default: all.",
    )
    add(
        "--accel-waivers",
        metavar="FILE",
        help="Take the limits that this file names as they are found: for a reason, by somebody, until a day. The "
        "closing line counts them. Product, count and driver can never be waived.",
    )
    add(
        "--accel-output",
        metavar="DIR",
        help="Write the record and its logs here. Default: accel-records/<host>-<UTC time>.",
    )
    add(
        "--accel-patience",
        metavar="SECONDS",
        type=_seconds,
        default=60.0,
        help="Give a device up when nothing was heard from it for so long. Default: %(default)g.",
    )
    add(
        "--accel-simulate",
        metavar="FILE|SKU",
        help="Rehearse on a simulated node: the one that a FILE describes (product, platform, faults), or a healthy "
        "one of a SKU. Needs no accelerator and is refused where there is one. 'pytest-accel simulate --list' names "
        "the faults.",
    )


def asked(option: argparse.Namespace) -> bool:
    """True if this is to be an acceptance run; a simulated node names its own SKU."""
    return bool(option.accel_sku or option.accel_simulate)


def shows_only(option: argparse.Namespace) -> bool:
    """Return True if pytest prints something about itself and starts no test: neither devices nor a process needed."""
    names = ("help", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow")
    return _any_set(option, names)


def plans_only(option: argparse.Namespace) -> bool:
    """Return True if tests are collected and not called: devices are discovered, nothing is measured or written."""
    return _any_set(option, ("collectonly", "setupplan", "setuponly"))


def _any_set(option: argparse.Namespace, names: Iterable[str]) -> bool:
    """Return True if one of the options is set. One whose plugin is blocked (-p no:setupplan) does not exist."""
    return any(getattr(option, name, None) for name in names)


def written(config: pytest.Config) -> list[str]:
    """Return the words of the user's own options: from the ini file, PYTEST_ADDOPTS and the command line."""
    ini = [str(word) for word in config.getini("addopts")]
    environment = shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    return [*ini, *environment, *(str(word) for word in config.invocation_params.args)]


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value
