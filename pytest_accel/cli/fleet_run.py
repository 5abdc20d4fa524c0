"""The actions `run`, `status`, `wait`, `cancel` and `report` of `pytest-accel fleet`."""

from __future__ import annotations

import argparse
import math
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Final

import pytest_accel
from pytest_accel.cli import delivery, result_file
from pytest_accel.cli.parser import Actions, Subcommand
from pytest_accel.core import exits
from pytest_accel.core.durations import value_that
from pytest_accel.core.groups import grouped
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.words import counted
from pytest_accel.fleet.delivery import document
from pytest_accel.fleet.jobs import fleet_metrics, ledger, run_folder, slurm, states, submission
from pytest_accel.fleet.jobs import fleet_report as reports
from pytest_accel.fleet.jobs.run_folder import FleetRequest
from pytest_accel.fleet.jobs.states import NodeResult, State
from pytest_accel.fleet.jobs.submission import Submitter
from pytest_accel.fleet.jobs.waiting import NIGHTS, ProgressLine, RunWatch, Watch, until_done, watch_of
from pytest_accel.run.options import AUTO
from pytest_accel.run.processes.supervisor import python
from pytest_accel.skus import loader

MINUTES = {"quick": 10, "standard": 30}
"""The time limit of a job by level: twice the time that the level may take, and the start of the processes."""
SBATCH = (
    ("--account", "NAME", "account"),
    ("--qos", "NAME", "quality of service"),
    ("--begin", "TIME", "earliest start"),
    ("--nice", "N", "lowered priority"),
)
"""Options that are handed to sbatch as they are: name, value, and what they set."""
QUIET = ("-p", "no:cacheprovider")
"""Options of pytest for all nodes: they share a folder, in which each would write pytest's cache."""

RUN = """Submit one job for each node, which runs pytest with the given SKU there. The list of expected nodes is in
DIR/fleet.json before the first job is submitted, the record of a node is in DIR/NODE. Drained, down and reserved nodes
are skipped. Given the DIR of a run, submit jobs for the nodes without a result and for those whose run failed with an
error; only --time and --reservation may differ from the first call. The exit status is 0 if all jobs were submitted, 6
if --timeout ended before, with --wait that of 'fleet wait'."""
STATUS = """Show the state of every expected node of a run, worst first, by the queue and the files. The exit status is
0 if all nodes are accepted or held, 1 if one is rejected, 6 if another one has no verdict, 4 for a wrong folder."""
WAIT = """Wait until every expected node of a run has a result or no job, and show the states. The exit statuses are
those of 'fleet status'."""
CANCEL = (
    """End the jobs of a run that are waiting or running, and a 'fleet run' that still submits some. Records stay."""
)
PRUNE = """Remove the records of all but the last runs in a folder of nights, or print which it would remove. Runs
stay that reject a node without a later acceptance, have jobs in the queue, or are the last one without --nodes. The
exit status is 0."""
REPORT = (
    """Write the states of all expected nodes of a run, worst first: the reason of each node that is not accepted,
on at most 60 lines of text or Markdown, an entry for each node as JSON, or the number of nodes in each state and the
rejected ones that are not drained as metrics for Prometheus. The exit statuses are those of 'fleet status'. """
    + delivery.DESCRIPTION
)


STATES: Final[Mapping[str, Callable[[FleetRequest, Sequence[NodeResult]], str]]] = {
    "text": partial(reports.text, fold=slurm.fold),
    "json": reports.as_json,
    "md": partial(reports.markdown, fold=slurm.fold),
    "prometheus": fleet_metrics.text,
}
"""The function that writes the report on the states of nodes, by the name of the format."""


def asked_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say what is run on which nodes."""
    add = parser.add_argument
    add("--sku", metavar="NAME|FILE|auto", help="the SKU that the nodes are judged as, as pytest's --accel-sku")
    add("--level", choices=LEVELS, help="how long to measure, as pytest's --accel-level")
    add("--nodes", metavar="LIST", help="the nodes, such as node[001-064] (default: those of the partition)")
    add("--partition", metavar="NAME", default="", help="the partition of the jobs (default: that of Slurm)")
    add("--reservation", metavar="NAME", default="", help="the reservation of the jobs; its nodes are not skipped")
    for option, metavar, meaning in SBATCH:
        add(option, metavar=metavar, help=f"the {meaning} of the jobs, as sbatch's {option}")
    add("--idle", action="store_true", help="submit jobs for idle nodes only; the others are expected and skipped")
    add("--output", metavar="DIR", type=Path, help="the folder of the run (default: accel-fleet/<UTC time>)")
    text = "the time limit of a job (default: 10 at level quick, 30 at standard)"
    add("--time", metavar="MIN", type=_positive, help=text)
    add("--dry-run", action="store_true", help="show what would be submitted")
    add("pytest", nargs="*", metavar="-- ARGUMENT", help="further arguments of pytest, after --")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    asked_arguments(parser)
    add = parser.add_argument
    text = "a shell command that each job runs after pytest, with ACCEL_OUTPUT (the folder of the run) and ACCEL_STATUS"
    add("--after", metavar="COMMAND", default="", help=text)
    text = "the most jobs of the run in the queue at a time; the command goes on until all are submitted"
    add("--at-once", metavar="N", type=_positive, default=0, help=text)
    add(
        "--again",
        metavar="LIST",
        action="append",
        default=[],
        help="submit jobs for these nodes though they have results",
    )
    add("--wait", action="store_true", help="wait for the results")
    text = (
        "submit jobs, and with --wait wait for the results, no longer than this many minutes; then jobs that have not "
        "begun are cancelled"
    )
    add("--timeout", metavar="MIN", type=_minutes, help=text)


_positive = value_that(lambda value: value > 0, "a whole number above 0", int)
_minutes = value_that(lambda value: 0 < value < math.inf, "a number of minutes above 0", float)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder of the run")


def folder_or_nights(parser: argparse.ArgumentParser) -> None:
    """Declare the folder of a run, or of several."""
    add = parser.add_argument
    add("folder", metavar="DIR", type=Path, help="the folder of the run, or of the runs of several nights")
    text = "number of last runs to look at in a folder of several (default: %(default)s)"
    add("--nights", metavar="N", type=_positive, default=NIGHTS, help=text)


def _wait_arguments(parser: argparse.ArgumentParser) -> None:
    _folder(parser)
    parser.add_argument("--timeout", metavar="MIN", type=_minutes, help="wait no longer than this many minutes")


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    folder_or_nights(parser)
    text = "default: text, with --acceptance md; html is for --acceptance alone"
    parser.add_argument("--format", choices=(*STATES, "html"), help=text)
    text = "the file to replace, in one step (default: standard output)"
    parser.add_argument("--output", metavar="FILE", type=Path, help=text)
    text = "the expected nodes, with commas, where other launchers than 'fleet run' started them"
    parser.add_argument("--nodes", metavar="A,B,C", type=_names, default=(), help=text)
    delivery.arguments(parser)


# -- run


def run(args: argparse.Namespace) -> int:
    """Submit the jobs that are needed. Raises BadFile or SlurmError."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    folder = (args.output or Path("accel-fleet") / stamp).absolute()
    quoted = shlex.quote(str(folder))
    end = time.monotonic() + 60.0 * args.timeout if args.timeout else None
    fleet = _asked(args, f"{stamp}-{secrets.token_hex(2)}", folder)  # a mistake is reported before there is a folder
    if args.dry_run:
        if not run_folder.exists(folder):
            return _show_plan(fleet, folder, [node.name for node in fleet.expected if not node.skipped])
        nodes, notes = _needed(fleet, folder, args)
        tell_all(notes)
        return _show_plan(fleet, folder, nodes)
    folder.mkdir(parents=True, exist_ok=True)
    with run_folder.submitting(folder):
        if run_folder.exists(folder):  # another process may have begun the run, or submitted jobs, before the lock
            fleet = _asked(args, fleet.id, folder)
        run_folder.save(fleet, folder)
        nodes, notes = _needed(fleet, folder, args)
        skipped = sum(bool(node.skipped) for node in fleet.expected)
        print(f"{folder}: {counted(len(fleet.expected), 'expected node')}, {skipped} skipped, {len(nodes)} to submit")
        tell_all(notes)
        progress = ProgressLine()
        submitter = Submitter(fleet, folder, progress.text)
        try:
            remaining = submitter.submit(nodes, args.at_once, end)
        finally:
            progress.end()
            submitted = len(submitter.fleet.jobs) - len(fleet.jobs)
            print(f"{counted(submitted, 'job')} submitted; wait for the results: pytest-accel fleet wait {quoted}")
    if remaining:
        text = f"{counted(len(remaining), 'node')} left when {submitter.ended}"
        print(f"{text}; submit their jobs: pytest-accel fleet run --output {quoted}", file=sys.stderr)
    if args.wait:
        return _wait(folder, end and max(0.0, end - time.monotonic()), cancel_waiting=True)
    return exits.NOT_JUDGED if remaining else exits.HOLDS


def _asked(args: argparse.Namespace, name: str, folder: Path) -> FleetRequest:
    """Return the request of the run in a folder, or that of a new one of that name. Raises BadFile or SlurmError."""
    exists = run_folder.exists(folder)
    return submission.without_busy(
        _continued(run_folder.load(folder), args, folder) if exists else begun(args, name, folder)
    )


def begun(args: argparse.Namespace, name: str, folder: Path) -> FleetRequest:
    """Return the request of a new run. Raises BadFile or SlurmError."""
    if folder.exists() and (not folder.is_dir() or any(path.name != run_folder.LOCK for path in folder.iterdir())):
        raise BadFile(f"--output: {folder} exists and holds no {run_folder.FILE}; name a new folder")
    if not args.sku:
        raise BadFile("--sku: name the SKU that the nodes are judged as, or the folder of a run with --output")
    sku, arguments = loader.load(args.sku) if args.sku != AUTO else None, _arguments(args)
    level = run_folder.level_of(arguments)
    minutes = args.time or MINUTES.get(level)
    if minutes is None:
        raise BadFile(f"--time: level {level} needs a time limit of its jobs, in minutes")
    names = slurm.expand(args.nodes) if args.nodes else []
    nodes = slurm.nodes(names, args.partition)
    if unknown := sorted(set(names) - {node.name for node in nodes}):
        scope = f" in partition {args.partition}" if args.partition else ""
        raise BadFile(f"--nodes: Slurm knows no {slurm.fold(unknown)}{scope}")
    if not args.nodes and not args.partition:
        nodes = [node for node in nodes if not node.partition] or nodes
    if not nodes:
        raise BadFile(f"--partition: there is no node in {args.partition or 'Slurm'}")
    return FleetRequest(
        id=name,
        created=submission.now(),
        version=pytest_accel.__version__,
        arguments=arguments,
        minutes=minutes,
        partition=args.partition,
        reservation=args.reservation,
        sku=sku.name if sku else "",
        level=level,
        named=bool(args.nodes),
        sbatch=_sbatch(args),
        idle=args.idle,
        after=getattr(args, "after", ""),
        expected=tuple(submission.expected_of(node, args.partition, args.reservation, args.idle) for node in nodes),
    )


def _sbatch(args: argparse.Namespace) -> tuple[str, ...]:
    pairs = ((option, getattr(args, option[2:])) for option, _, _ in SBATCH)
    return tuple(f"{option}={value}" for option, value in pairs if value)


def _arguments(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the arguments of pytest on every node. Raises BadFile for a wrong one."""
    if any(word.startswith(("--accel-output", "--accel-sku", "--accel-level")) for word in args.pytest):
        raise BadFile("after --: give --sku, --level and --output as options of 'fleet run'")
    sku = args.sku
    if sku != AUTO:
        loader.load(sku)  # a wrong name is reported here, and not by every node
    if sku.endswith((".yaml", ".yml")) or "/" in sku:
        sku = str(Path(sku).absolute())
    level = [f"--accel-level={args.level}"] if args.level else []
    words = (f"--accel-sku={sku}", *level, *QUIET, *args.pytest)
    if args.pytest:
        _demand_known(words)
    return words


def _demand_known(words: Sequence[str]) -> None:
    """Raise BadFile for an option that pytest does not know, which else every node would say."""
    command = python("pytest", *words, "--markers")  # which ends once the options are read
    process = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if process.returncode == exits.WRONG:
        message = next((line for line in process.stderr.splitlines() if ": error: " in line), process.stderr)
        raise BadFile(f"after --: {printable(message.partition('error: ')[2] or message, 300)}")


def _continued(fleet: FleetRequest, args: argparse.Namespace, folder: Path) -> FleetRequest:
    """Return the request of the run in a folder, with the present states of its nodes.

    The command line that began it may be given again; another one raises BadFile.
    """
    if fleet.joint:
        raise BadFile(f"--output: {folder} holds a 'fleet network', which is not continued; name a new folder")
    names = [node.name for node in fleet.expected]
    arguments = (*QUIET, *args.pytest)
    differences = (
        ("after --", bool(args.pytest) and fleet.arguments[-len(arguments) :] != arguments),
        ("--sku", bool(args.sku) and _arguments(args) != fleet.arguments),
        ("--nodes", bool(args.nodes) and set(slurm.expand(args.nodes)) != set(names)),
        ("--partition", bool(args.partition) and args.partition != fleet.partition),
        ("--level", bool(args.level) and f"--accel-level={args.level}" not in fleet.arguments),
    )
    for option, differs in differences:
        if differs:
            command = shlex.join(fleet.arguments)
            raise BadFile(f"{option}: {folder} belongs to a run with other options ({command}); name a new folder")
    reservation = args.reservation or fleet.reservation
    fleet = replace(fleet, minutes=args.time or fleet.minutes, reservation=reservation)
    fleet = replace(fleet, sbatch=_sbatch(args) or fleet.sbatch, after=args.after or fleet.after)
    return submission.with_states(fleet, slurm.nodes(names))


def _needed(fleet: FleetRequest, folder: Path, args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the nodes to submit jobs for, and sentences on why there is none for others.

    Raises BadFile for a node of --again that is not expected.
    """
    again = {name for names in args.again for name in slurm.expand(names)}
    if unknown := sorted(again - {node.name for node in fleet.expected}):
        raise BadFile(f"--again: {', '.join(unknown)} is not among the expected nodes of {folder}")
    jobs, results = submission.jobs_of(fleet, folder), run_folder.Results(folder)
    node_results = states.of_all(fleet, results.read(), jobs, unreadable=results.unreadable)
    nodes = submission.needed(node_results, again)
    notes = [f"no job for {node} of --again: {reason}" for node, reason in submission.not_again(node_results, again)]
    return nodes, [*notes, *([] if nodes else submission.nothing_measured(node_results))]


def tell_all(sentences: Sequence[str]) -> None:
    """Print sentences, one a line."""
    for sentence in sentences:
        print(printable(sentence))


def _show_plan(fleet: FleetRequest, folder: Path, nodes: Sequence[str]) -> int:
    """Print what would be submitted; return 0."""
    for reason, group in grouped(fleet.expected, lambda node: node.skipped).items():
        if reason:
            print(printable(f"skipped {slurm.fold([node.name for node in group])}: {reason}"))
    print(printable(f"{counted(len(nodes), 'job')} for {slurm.fold(nodes)}" if nodes else "no job"))
    if nodes:
        first = next(node for node in fleet.expected if node.name == nodes[0])
        print(printable(f"the first one: {shlex.join(submission.command_of(fleet, folder, first))}"))
        print(submission.script_of(fleet, folder), end="")
    return 0


# -- looking


def status(args: argparse.Namespace) -> int:
    """Print the states of a run. Raises BadFile."""
    watch = watch_of(args.folder.absolute(), args.nights)
    results = _look(watch)
    print(reports.text(watch.fleet, results, slurm.fold), end="")
    return states.exit_status(results)


def _look(watch: Watch) -> list[NodeResult]:
    """Return the states, and say on standard error if the queue could not be asked."""
    results, problem = watch.look_anywhere()
    tell(problem)
    return results


def tell(problem: str) -> None:
    """Say on standard error that the queue could not be asked, if there was a problem with it."""
    if problem:
        print("note: Slurm does not answer; states are from the files", file=sys.stderr)


def wait(args: argparse.Namespace) -> int:
    """Wait for the results of a run, and print its states. Raises BadFile."""
    return _wait(args.folder.absolute(), 60.0 * args.timeout if args.timeout else None)


def _wait(folder: Path, seconds: float | None, *, cancel_waiting: bool = False) -> int:
    watch = Watch([RunWatch(folder)])
    results, problem = until_done(watch, seconds)
    tell(problem)
    waiting = [result.job for result in results if result.state is State.WAITING and result.job]
    if waiting and cancel_waiting:
        slurm.cancel(waiting)
        print(f"{counted(len(waiting), 'job')} cancelled that had not begun when --timeout was over")
        results = _look(watch)
    print(reports.text(watch.fleet, results, slurm.fold), end="")
    return states.exit_status(results)


def cancel(args: argparse.Namespace) -> int:
    """End the jobs of a run. Raises BadFile or SlurmError."""
    folder = args.folder.absolute()
    run_folder.load(folder)  # which demands a run
    with run_folder.submitting(folder, end_others=True):
        jobs = submission.jobs_of(run_folder.load(folder), folder)
        active = [job.id for job in jobs if job.state in slurm.ACTIVE]
        slurm.cancel(active)
    print(f"{counted(len(active), 'job')} cancelled")
    return 0


def report(args: argparse.Namespace) -> int:
    """Write the report of a run, or the document of a delivery. Raises BadFile."""
    form = args.format or ("md" if args.acceptance else "text")
    if form not in (document.FORMATS if args.acceptance else STATES):
        raise BadFile(f"--format={form}: {'not for' if args.acceptance else 'only with'} --acceptance")
    if args.acceptance:
        return delivery.report(args, form)
    if surplus := [f"--{name.replace('_', '-')}" for name in delivery.OPTIONS if getattr(args, name)]:
        raise BadFile(f"only with --acceptance: {', '.join(surplus)}")
    watch = watch_of(args.folder.absolute(), args.nights)
    if args.nodes:
        if watch.fleet.listed:
            raise BadFile(f"--nodes: {args.folder} holds the list of a 'fleet run'")
        watch.runs[0].expect(args.nodes)
    results = _look(watch)
    if form == "prometheus":
        result_file.write(args.output, fleet_metrics.text(watch.fleet, results, ledger.last(args.folder.absolute())))
    else:
        result_file.write(args.output, STATES[form](watch.fleet, results))
    return states.exit_status(results)


def _prune_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder of the runs of several nights")
    parser.add_argument(
        "--keep-nights", metavar="N", type=_positive, required=True, help="how many of the last runs stay"
    )
    parser.add_argument("--yes", action="store_true", help="remove them")


def prune(args: argparse.Namespace) -> int:
    """Remove the records of old runs, or print which; return 0. Raises BadFile, OSError or SlurmError."""
    watch = watch_of(args.folder.absolute(), sys.maxsize)
    if watch.runs[0].folder == args.folder.absolute():
        raise BadFile(f"{args.folder}: holds one run, and not those of several nights")
    needed = watch.needed()
    for folder in [night.folder for night in watch.runs[: -args.keep_nights]]:
        if reason := needed.get(folder):
            print(printable(f"kept {folder.name}: {reason}"))
            continue
        if args.yes:
            shutil.rmtree(folder)
        print(printable(f"{'removed' if args.yes else 'would remove'} {folder.name}"))
    if not args.yes:
        print("nothing was removed; --yes removes them")
    return exits.HOLDS


ACTIONS: Actions = {
    "run": Subcommand("submit a job for each node", RUN, _run_arguments, run),
    "status": Subcommand("show the state of every node", STATUS, folder_or_nights, status),
    "wait": Subcommand("wait for the results", WAIT, _wait_arguments, wait),
    "cancel": Subcommand("end the jobs", CANCEL, _folder, cancel),
    "prune": Subcommand("remove the records of old nights", PRUNE, _prune_arguments, prune),
    "report": Subcommand("write a report on all nodes", REPORT, _report_arguments, report),
}
