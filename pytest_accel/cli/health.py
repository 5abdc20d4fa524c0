"""The subcommand `pytest-accel health`: a passive check for schedulers, in one line and one exit status."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pytest_accel.cli.parser import Parser
from pytest_accel.core import exits
from pytest_accel.core.durations import duration, value_that
from pytest_accel.core.printable import printable

if TYPE_CHECKING:
    from pytest_accel.run.passive import Check

NPD = {exits.HOLDS: 0, exits.REJECTED: 1}
"""node-problem-detector's statuses of those of ours that it has: 0 OK, 1 not OK. Every other one is 2, unknown."""
NPD_UNKNOWN = 2
SHORTEST, LONGEST = 1.0, 60.0
"""The bounds of --timeout in seconds. Slurm ends a health check after 60 s."""
LEAST_SECONDS = 0.2
"""Seconds that are kept to say that the modules were not loaded in time."""
MOST_STARTING = 0.5
"""The largest share of the time limit that the start of this process may have taken of it."""

DESCRIPTION = """Check this node without loading it, for Slurm's HealthCheckProgram and prolog, node-problem-detector
and cron. Reads what drivers and kernel state, also on an allocated node, and judges by the limits of the SKU what does
not depend on the load: missing devices, memory errors, pending repairs, Xids since the boot or the last good run,
links that are down. Prints one line of at most 80 characters. The exit status is 0 if nothing is broken, 1 if
something is, 6 if it cannot be judged (a permission, a library, a driver that does not answer, a link that may still
train after the boot), 4 for wrong options."""


class _LineParser(Parser):
    """A parser that tells a wrong option in the line on standard output, too, which is what schedulers read."""

    def error(self, message: str) -> NoReturn:
        """Print the line, the usage and the message, and end the process with exit status 4."""
        from pytest_accel.views import health_line

        print(health_line.refused(message.removeprefix("argument ")))
        super().error(message)


PARSER = _LineParser


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `health`."""
    option = parser.add_argument
    text = "the SKU to judge by (default: %(default)s, with which a node without accelerators is OK)"
    option("--sku", metavar="NAME|FILE|auto", default="auto", help=text)
    option("--platform", metavar="NAME|auto", default="auto", help="the platform of the SKU (default: %(default)s)")
    text = "the record of the last run, its folder, or a folder of the results of many nodes or nights"
    option("--record", metavar="FILE|DIR", type=Path, help=text)
    text = "age from which on the last run does not count (default: 26h)"
    option("--max-age", metavar="TIME", type=duration, default="26h", help=text)
    text = "end with 6 unless a fresh run judged and held the node (default: mention it)"
    option("--require-run", action="store_true", help=text)
    option("--waivers", metavar="FILE", type=Path, help="broken limits that are accepted (docs/checks.md)")
    text = "leave out the kernel log, which only root can read"
    option("--no-kernel-log", action="store_true", help=text)
    text = "time limit of the whole command (default: 5s)"
    option("--timeout", metavar="TIME", type=_timeout, default="5s", help=text)
    option("--npd", action="store_true", help="exit status of node-problem-detector: 0 OK, 1 not OK, 2 unknown")
    option("--all", action="store_true", help="also print every finding, on lines of any length")
    option("--simulate", metavar="FILE|SKU", help="rehearse on a simulated node, on a machine without accelerators")


def run(args: argparse.Namespace) -> int:
    """Print the line, and return the exit status. Raises BadFile."""
    end = time.monotonic() + args.timeout - _spent(args.timeout)
    # The modules that check are loaded once the time is being counted, and in a thread: if that takes too long, there
    # still is a line.
    loading = threading.Thread(target=_load, daemon=True)
    loading.start()
    loading.join(max(0.0, end - time.monotonic() - LEAST_SECONDS))
    if loading.is_alive():
        print(f"UNKNOWN pytest_accel itself was not loaded within {args.timeout:g} s")
        return NPD_UNKNOWN if args.npd else exits.NOT_JUDGED
    return _check(args, end)


def _load() -> None:
    """Import the modules that check. What that raises is raised again where they are used."""
    with suppress(Exception):
        from pytest_accel.views import health_line  # noqa: F401


def _check(args: argparse.Namespace, end: float) -> int:
    """Check the node until the time `end` of time.monotonic(). Raises BadFile."""
    from pytest_accel.run import passive
    from pytest_accel.run.options import AUTO, Options, Refused
    from pytest_accel.views import health_line

    options = Options(
        sku="" if args.simulate and args.sku == AUTO else args.sku,
        platform=args.platform,
        waivers=args.waivers,
        patience=end - time.monotonic(),
        simulate=args.simulate,
        prefix="--",
    )
    try:
        checked = passive.check(options, args.record, kernel_log=not args.no_kernel_log)
    except Refused as error:
        print(health_line.refused(str(error)))
        print("\n".join(map(printable, str(error).split("\n"))), file=sys.stderr)
        return NPD_UNKNOWN if args.npd else exits.WRONG
    fresh = checked.age <= args.max_age
    simulated = "SIMULATED " if args.simulate else ""
    room = health_line.WIDTH - len(simulated)
    print(f"{simulated}{health_line.line(checked, fresh=fresh, path=args.record, width=room)}")
    if args.all:
        print("\n".join(health_line.lines(checked)))
    sys.stdout.flush()
    status = _status(checked, fresh=fresh, required=args.require_run)
    return NPD.get(status, NPD_UNKNOWN) if args.npd else status


def _status(checked: Check, *, fresh: bool, required: bool) -> int:
    """Return the exit status of a check that was made."""
    last = checked.last_run if fresh else None
    result = checked.result
    if (result and result.rejections) or (last and last.rejects):
        return exits.REJECTED
    if result is None or result.undecided or (required and not (last and last.good)):
        return exits.NOT_JUDGED
    return exits.HOLDS


_timeout = value_that(
    lambda seconds: SHORTEST <= seconds <= LONGEST, f"at least {SHORTEST:g} s, at most {LONGEST:g} s", duration
)


def _spent(limit: float) -> float:
    """Return the seconds since this process was started, in which Python and our modules were loaded.

    Where the kernel states nothing that can be so, they are a tenth of the limit.
    """
    try:
        ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        spent = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        spent = -1.0
    return min(spent, MOST_STARTING * limit) if spent >= 0 else 0.1 * limit
