"""The command-line options of a run: their declaration for pytest, and their values as a typed object."""

from __future__ import annotations

import argparse
import math
import os
import re
import resource
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.core.durations import duration, value_that
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.printable import SHOWN
from pytest_accel.run.deadline import SHORTEST

if TYPE_CHECKING:
    import pytest

    from pytest_accel.core.run import Launch, Objection

MOST_HOURS = 672
"""The longest run in hours: four weeks."""
LEAST_PATIENCE = 5.0
"""Seconds of silence that a healthy device may need: to allocate its memory, or to load the kernels of a library."""


STANDARD = "standard"
"""The level of a run whose user names none."""

PAGE_ENDINGS = (".html", ".htm")
"""The endings of the file that --accel-report names, so that it is no test whose path follows the option."""

FOLLOWS = "PYTEST_ACCEL_FOLLOWS"
"""The variable by which a series tells each of its runs the record of the run before it."""
NO_PREVIOUS_RUN = "none"
"""The value of that variable in the first run."""

AUTO, NONE = "auto", "none"
"""The values of --accel-baseline that name no file."""


class Refused(WrongUse):
    """An error that keeps a run from starting: a wrong option or file, a device in use, an unwritable output folder."""


@dataclass(frozen=True)
class Options:
    """The values of the options of a run.

    `devices` are indices, names or UUIDs, empty for all devices. `patience` and `time_limit` are in seconds.
    `command` is the command line as it was given.
    """

    sku: str
    platform: str = "auto"
    level: str = STANDARD
    devices: tuple[str, ...] = ()
    output: Path | None = None
    waivers: Path | None = None
    packing_list: Path | None = None
    diag: Path | None = None
    """The output of the vendor's diagnostic that takes the place of running it."""
    bug_report: bool = False
    baseline: str = AUTO
    patience: float = 60.0
    time_limit: float | None = None
    hours: float | None = None
    """The hours that a series of runs goes on; None for one run."""
    previous_record: str = ""
    """The record of the run before in a series, or NO_PREVIOUS_RUN; empty for a run by itself."""
    simulate: str | None = None
    network: bool = False
    """True if the network between the nodes of a job is measured."""
    nonce: str = ""
    """The text that whoever wants the record gave out for this run, so that it cannot be an older one."""
    sign: Path | None = None
    """The key to sign the record with; None to leave it unsigned."""
    report: str | bool = False
    """The file to write as an HTML page; True for the one beside the record, False for none."""
    command: tuple[str, ...] = ()
    objections: tuple[Objection, ...] = ()
    """The objections to an acceptance that follow from the options, such as -k."""
    prefix: str = "--accel-"
    """The beginning of the options in messages: those of a command are shorter."""
    launch: Launch | None = None
    """The launcher that started the run on one of many nodes; None without one."""

    @property
    def shares_folder(self) -> bool:
        """True if other nodes of a job may write into the same output folder; that of a series is the node's own."""
        return self.launch is not None and self.launch.shares_folder and not self.previous_record


def options_of(namespace: argparse.Namespace, **extra: Any) -> Options:
    """Return the options of a run from those that pytest has read, and `extra` ones from the configuration."""
    values = {field.name: getattr(namespace, f"accel_{field.name}", None) for field in fields(Options)}
    values["level"] = namespace.accel_level or (STANDARD if namespace.accel_hours is None else "long")
    # by a variable, since the command of each run of a series is that of the series
    values["previous_record"] = None if namespace.accel_hours is None else os.environ.get(FOLLOWS)
    values |= {"sku": namespace.accel_sku or "", **extra}
    return Options(**{name: value for name, value in values.items() if value is not None})


OPEN_FILES = 128
"""Files that a run may have open at once: eight devices take about 60, with their workers and locks."""


def too_few_files() -> str | None:
    """Return a sentence if this process may not open enough files for a run, else None."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= OPEN_FILES:
        return None
    return f"ulimit -n is {limit}: a run opens up to {OPEN_FILES} files; raise it (ulimit -n 1024)"


def add_options(parser: pytest.Parser) -> None:
    """Declare the options of an acceptance run to pytest."""
    add = parser.getgroup("accel", "acceptance of accelerator hardware").addoption
    add(
        "--accel-sku",
        metavar="NAME|FILE|auto",
        type=_name,
        help="Run acceptance tests and judge this node by the limits of a SKU (a product in one form factor): by NAME "
        "(such as h100-sxm; 'pytest-accel sku list' shows all), by a threshold FILE of your own, or 'auto' to "
        "recognise it. Only a node whose SKU was named can be ACCEPTED. If no path is given, the packaged tests are "
        "run and their table replaces pytest's short summary (-ra restores it).",
    )
    add(
        "--accel-platform",
        metavar="NAME|auto",
        default="auto",
        help="Kind of machine that the devices are in (such as hgx8), one of those that the SKU's threshold file "
        "defines; with a number behind the name of one that has any number of devices (pcie8). It sets the expected "
        "number of devices, and limits such as those of links. Default: %(default)s, chosen by the number found.",
    )
    add(
        "--accel-level",
        choices=LEVELS,
        help="How long to measure: quick (nightly check, under 2 minutes), standard (handover, under 15 minutes) or "
        "long (burn-in, hours). Default: standard.",
    )
    add(
        "--accel-devices",
        metavar="0,2|UUID",
        type=_words,
        default=(),
        help="Measure only these devices, given by index, name or beginning of the UUID. The expected number of "
        "devices does not change, so such a run never ends as ACCEPTED. Default: all devices.",
    )
    add(
        "--accel-waivers",
        metavar="FILE",
        type=_path,
        help="YAML file of waivers: broken or unmeasured limits that do not reject this node. Each waiver states the "
        "limit, the reason, who grants it and its last day. The closing line counts the waivers used. The product, "
        "the number of devices and the driver cannot be waived.",
    )
    add(
        "--accel-packing-list",
        metavar="FILE",
        type=_file,
        help="Packing list of the delivery: a CSV table with the column serial, and if they are known node, slot "
        "(index or PCI address), model, uuid, node_serial and returned. A device that is not on it, or is listed for "
        "another node, rejects the node, and so does a board that is listed for this node and absent. One whose column "
        "returned is not empty was sent back before, and the closing line names it.",
    )
    add(
        "--accel-diag",
        metavar="FILE",
        type=_file,
        help="Output of NVIDIA's diagnostic, made on this node since it was booted (dcgmi diag -r 3 -j > FILE), in "
        "place of running it. A device that failed in it fails. Without this option the diagnostic is run where a "
        "threshold file has a limit on diag.vendor.",
    )
    add(
        "--accel-bug-report",
        action="store_true",
        help="If the node is rejected, run the vendor's report (nvidia-bug-report.sh, rocm_techsupport.sh) before "
        "anything is reset, and keep it beside the record, where 'pytest-accel claim' packs it. It needs root.",
    )
    add(
        "--accel-with",
        metavar="PATH",
        action="append",
        type=_file,
        default=[],
        help="Also run tests of your own, a folder or a file, in one run with the packaged tests. An acceptance needs "
        "them to pass, and its line names them. May be given several times.",
    )
    add(
        "--accel-output",
        metavar="DIR",
        type=_path,
        help="Folder for the record of the run and the logs of its processes; it must not hold another record. In a "
        "job of Slurm and under torchrun, MPI or Kubernetes on several nodes it is DIR/<node>, for a second run of the "
        "node DIR/<node>-2. Default: accel-records/<host>-<UTC time>.",
    )
    add(
        "--accel-baseline",
        metavar="RECORD|DIR|auto|none",
        type=_name,
        default=AUTO,
        help="Earlier runs that every device is compared with: a RECORD, a DIR of records, or those beside the record "
        "of this run (auto). A device that lost more than two runs differ by, since its first accepted or its last "
        "run, is MARGINAL. Default: %(default)s.",
    )
    add(
        "--accel-network",
        action="store_true",
        help="Measure the network between nodes: started once on each node of a job (srun, torchrun or mpirun, one "
        "task a node), the runs meet, exchange data in pairs, and name the node or the path that is slow. A node's own "
        "checks are those of facts and of the all-reduce. network.json in the --accel-output folder holds all pairs.",
    )
    add(
        "--accel-patience",
        metavar="SECONDS",
        type=_patience,
        default=60.0,
        help="Give up on a device whose process sends nothing for this many seconds (at least 5), or three times as "
        "many while the probes of most devices are not ready to be timed. Default: %(default)g.",
    )
    add(
        "--accel-time-limit",
        metavar="TIME",
        type=time_limit,
        help="End the whole run within this time, such as 900 (seconds), 15m or 1h30m; at least 20 s. What was not "
        "reached is UNMEASURED, and the record is complete. Default: no "
        "limit.",
    )
    add(
        "--accel-hours",
        metavar="N",
        type=_hours,
        help="Make complete runs for N hours, at level long if no other is named, each with a record of its own in the "
        "folder that --accel-output names, and compare each with the first. After a stop, a kill or a reboot the same "
        "command goes on with the time that is left. Published acceptance standards ask for 72 or 168 hours. Default: "
        "one run.",
    )
    for name in INI:
        parser.addini(f"accel_{name}", f"the value of --accel-{name.replace('_', '-')} where it is not given")
    parser.addini(
        "accel_required",
        "make a run without --accel-sku an error if it collects tests that measure an accelerator, instead of skipping "
        "them",
        type="bool",
        default=False,
    )
    add(
        "--accel-report",
        metavar="FILE",
        nargs="?",
        const=True,
        default=False,
        type=page_name,
        help="At the end also write the record as one HTML page that opens without a network: to FILE, whose name ends "
        "in .html, or to report.html beside the record. Needs pip install 'pytest-accel[report]'.",
    )
    add(
        "--accel-sign",
        metavar="KEY",
        type=_file,
        help="At the end sign the record, and all files beside it, with a KEY of OpenSSH: a private key, or the public "
        "key of one that ssh-agent holds. 'pytest-accel sign' does it later, on another machine; 'pytest-accel verify' "
        "checks it.",
    )
    add(
        "--accel-nonce",
        metavar="TEXT",
        type=nonce,
        help="A text that whoever takes the delivery gave out for this run. It is kept in the record, and shows that "
        "the record is not an older one.",
    )
    add(
        "--accel-simulate",
        metavar="FILE|SKU",
        type=_name,
        help="Rehearse a run on a simulated node: the one that a YAML FILE describes (SKU, platform, faults), or a "
        "healthy node of a SKU. It needs no accelerator, and is refused on a machine that has one. "
        "'pytest-accel simulate --list' lists the faults.",
    )


INI = ("sku", "platform", "level", "packing_list", "time_limit")
"""The options that the ini file can set, so that it is the whole configuration of a node."""


def ini_words(config: pytest.Config, arguments: Sequence[str]) -> list[str]:
    """Return the options of the ini file that the words of the command line do not give; files are relative to it."""
    words = []
    for name in INI:
        option, value = f"--accel-{name.replace('_', '-')}", str(config.getini(f"accel_{name}") or "")
        if value and config.inipath and (name == "packing_list" or value.endswith((".yaml", ".yml"))):
            value = str(config.inipath.parent / value)
        if value and not any(word.partition("=")[0] == option for word in arguments):
            words.append(f"{option}={value}")
    return words


def is_acceptance_run(option: argparse.Namespace) -> bool:
    """Return True if the options ask for an acceptance run. A simulated node needs no SKU option: it names its own."""
    return bool(option.accel_sku or option.accel_simulate)


def shows_only(option: argparse.Namespace) -> bool:
    """Return True if pytest only prints something about itself, such as --help: no device and no process is needed."""
    names = ("help", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow")
    return _any_set(option, names)


def shows_by_command(words: Iterable[object]) -> bool:
    """Return True if one of the words of a command line asks pytest to print something about itself."""
    flags = ("--help", "--version", "--markers", "--fixtures", "--funcargs", "--cache-show")
    return any(str(word).startswith(flags) or re.match(r"-[A-Za-z]*[hV]", str(word)) for word in words)


def is_series(option: argparse.Namespace) -> bool:
    """Return True if the options ask for a series of runs, and this is none of these."""
    requested = is_acceptance_run(option) and option.accel_hours is not None and FOLLOWS not in os.environ
    return requested and not shows_only(option) and not plans_only(option)


def plans_only(option: argparse.Namespace) -> bool:
    """Return True if tests are collected and not called: devices are discovered, but nothing is measured or written."""
    return _any_set(option, ("collectonly", "setupplan", "setuponly"))


def _any_set(option: argparse.Namespace, names: Iterable[str]) -> bool:
    """Return True if one of the options is set."""
    # an option whose plugin is blocked (-p no:setupplan) does not exist
    return any(getattr(option, name, None) for name in names)


def option_words(config: pytest.Config) -> list[str]:
    """Return the words of all options that the user gave: in the ini file, PYTEST_ADDOPTS and the command line."""
    ini = [str(word) for word in config.getini("addopts")]
    environment = shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    return [*ini, *environment, *(str(word) for word in config.invocation_params.args)]


def _name(text: str) -> str:
    """Return a name or path. Raises ArgumentTypeError for an empty one, which a variable that is not set leaves."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} names nothing; is a variable of the command line not set?")
    return text


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _file(text: str) -> Path:
    """Return a path. Raises ArgumentTypeError for an empty one."""
    return Path(_name(text))


def nonce(text: str) -> str:
    """Return a nonce. Raises ArgumentTypeError for one that cannot be printed or is too long."""
    if not _name(text).isprintable() or len(text) > SHOWN:
        raise argparse.ArgumentTypeError(f"not a text of up to {SHOWN} printable characters")
    return text


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def page_name(text: str) -> str:
    """Return the name of a page. Raises ArgumentTypeError for another file, such as the path of a test after it."""
    if not text.endswith(PAGE_ENDINGS):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .html; name the page as --accel-report=FILE.html")
    return text


_patience = value_that(lambda value: LEAST_PATIENCE <= value < math.inf, f"at least {LEAST_PATIENCE:g} seconds", float)
_hours = value_that(lambda value: 0 < value <= MOST_HOURS, f"above 0, at most {MOST_HOURS} hours", float)
time_limit = value_that(
    lambda value: value >= SHORTEST, f"too short; at least {SHORTEST:g} s, of which closing needs half", duration
)
"""Reads a duration in seconds that a run can be ended in."""
