"""What the hooks do in a run with --accel-sku: between pytest on one side and the Run on the other."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.keys import (
    CLOSING,
    COLLECTED,
    COUNT,
    HANDLERS,
    LIMITS,
    OWN_PATHS,
    PLACE,
    RUN,
    STOPPED_BY,
    SUBJECT,
    VERDICTS,
)

if TYPE_CHECKING:
    from pytest_accel.run import Run

FILTERS = {
    "keyword": "-k",
    "markexpr": "-m",
    "lf": "--lf",
    "stepwise": "--sw",
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
}
TABLE_OPTIONS = tuple(f"--benchmark-{name}" for name in ("verbose", "sort", "columns", "group-by", "name", "compare"))
"""Options that ask pytest-benchmark for its table."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("accel", "acceptance of accelerator hardware")
    add = group.addoption
    add(
        "--accel-sku",
        metavar="NAME|FILE|auto",
        help="Judge this node as SKU NAME (for instance h100-sxm), by a threshold FILE of your own, or as whatever "
        "it is (auto). Without paths, the packaged suite is run. Only a named SKU can be ACCEPTED.",
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


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def begin(config: pytest.Config) -> None:
    """Open the run; whatever is wrong with it is one sentence and exit status 4."""
    from pytest_accel.options import Options, Refused
    from pytest_accel.run import Run
    from pytest_accel.views.progress import Progress

    option = config.option
    if getattr(option, "numprocesses", None) or getattr(option, "tx", None) or hasattr(config, "workerinput"):
        raise pytest.UsageError("--accel-sku measures the node as a whole, in parallel already: leave -n (xdist) out")
    measuring = not option.collectonly
    run = Run(
        Options(
            sku=option.accel_sku,
            platform=option.accel_platform,
            level=option.accel_level,
            devices=tuple(filter(None, (part.strip() for part in option.accel_devices.split(",")))),
            output=Path(option.accel_output) if option.accel_output else None,
            patience=option.accel_patience,
            command=("pytest", *config.invocation_params.args),
        ),
        Progress(lambda: config.pluginmanager.get_plugin("terminalreporter")),
    )
    config.stash[RUN] = run
    config.pluginmanager.register(Interrupts(config))
    if measuring:
        _handle_signals(config)
    try:
        run.open(measuring=measuring)
    except (Refused, KeyboardInterrupt) as refused:
        end(config)
        if isinstance(refused, KeyboardInterrupt):
            raise
        raise pytest.UsageError(str(refused)) from None
    for name, shown in FILTERS.items():
        if getattr(option, name, None):
            run.narrow(f"filtered by {shown}")
    if config.stash.get(OWN_PATHS, False):
        run.narrow("tests were named on the command line")
    if not any(str(arg).startswith(TABLE_OPTIONS) for arg in config.invocation_params.args):
        option.benchmark_quiet = True


class Interrupts:
    """A plugin object, since this hook is not told the config: remembers why pytest stopped."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """A signal has said so already; errors while collecting come as an interrupt too, with a text."""
        self._config.stash.setdefault(STOPPED_BY, str(excinfo.value) or "Ctrl-C")


def _handle_signals(config: pytest.Config) -> None:
    """SIGTERM and SIGHUP end the run as Ctrl-C does: with its record."""

    def stop(number: int, _frame: object) -> None:
        config.stash[STOPPED_BY] = signal.Signals(number).name
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, stop)
    config.stash[HANDLERS] = before


def end(config: pytest.Config) -> None:
    """Leave nothing behind, whatever happened."""
    config.stash[RUN].stop()
    for number, handler in config.stash.get(HANDLERS, {}).items():
        signal.signal(number, handler)
    config.stash[HANDLERS] = {}


def header(run: Run) -> list[str]:
    """One line, and one more if these devices were measured before."""
    models = sorted({device.model for device in run.devices})
    count = f"{len(run.devices)} x " if run.devices else "no device"
    sku = run.sku.name if run.sku else "no SKU"
    lines = [f"accel: {sku}, platform {run.platform.name}, {run.options.level}: {count}{', '.join(models)}"]
    if run.record.earlier_attempts:
        last = run.record.earlier_attempts[-1]
        said = last["line"] or last["state"]
        lines.append(f"accel: measured {len(run.record.earlier_attempts)} times before, last: {said}")
    return lines


def subjects(run: Run, fixturenames: Collection[str]) -> dict[str, str]:
    """What a test is repeated for: subject to id."""
    if "accel_devices" in fixturenames and "accel_device" not in fixturenames:
        return {"node": "node"}
    return {device.uuid: device.name for device in run.devices}


def is_ours(item: pytest.Item) -> bool:
    """True for a test that measures: it asks for a device, or carries a marker of ours."""
    return SUBJECT in getattr(item, "fixturenames", ()) or bool(item.stash.get(LIMITS, []))


def deselected(run: Run, count: int) -> None:
    """Tests were taken out; by an option that has been named, or by something else."""
    if not run.narrowed:
        run.narrow(f"{count} tests were deselected")


def number(item: pytest.Item) -> None:
    """Remember the place at which an item was collected."""
    item.stash[PLACE] = item.config.stash.setdefault(COUNT, 0)
    item.config.stash[COUNT] += 1


def keep_order(items: list[pytest.Item], suite: str) -> None:
    """The packaged suite keeps its order whatever shuffles tests: links before collectives, the soak last."""
    from pytest_accel.suite import ORDER

    places = {f"{suite}.{name}": place for place, name in enumerate(ORDER)}

    def place(item: pytest.Item) -> int | None:
        return places.get(getattr(getattr(item, "module", None), "__name__", ""))

    ours = [item for item in items if place(item) is not None]
    ours.sort(key=lambda item: (place(item), item.stash[PLACE]))
    ordered = iter(ours)
    items[:] = [item if place(item) is None else next(ordered) for item in items]


def amend(run: Run, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A report says what the verdicts say: no xfail hides a failure, no test passes without a measurement."""
    verdicts = item.stash.get(VERDICTS, [])
    if call.when == "call":
        for verdict in verdicts:
            run.tests[verdict.key] = item.name
            _properties(report, verdict)
        bad = [each for each in verdicts if each.status.fails]
        if bad and report.outcome != "failed":
            _fail(report, f"{run.names.get(bad[0].subject, bad[0].subject)}: {bad[0].metric} {bad[0].sentence}")
        elif not verdicts and report.outcome == "passed":
            _fail(report, "the test has an accel marker or fixture and records no measurement: it cannot fail")
            run.failed_tests.append(f"{item.nodeid} records no measurement")
        if bad:
            return
    _remember(run, item, call)


def _remember(run: Run, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Tell apart a test's own assertion, which is a verdict, and an error, which is none."""
    if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
        return
    text = f"{item.nodeid} ({call.excinfo.typename}: {str(call.excinfo.value).strip().partition(chr(10))[0]})"
    if call.excinfo.errisinstance((AssertionError, pytest.fail.Exception)):
        run.failed_tests.append(text)
    else:
        run.broken_tests.append(text)


def _fail(report: pytest.TestReport, sentence: str) -> None:
    report.outcome = "failed"
    report.longrepr = sentence
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _properties(report: pytest.TestReport, verdict: Any) -> None:
    """JUnit properties, flat: value, unit, limit and status of each verdict."""
    pairs = {
        "metric": verdict.metric,
        "device": verdict.subject,
        "value": verdict.value,
        "unit": verdict.unit,
        "floor": verdict.floor,
        "ceiling": verdict.ceiling,
        "expected": verdict.expected,
        "margin": verdict.margin,
        "status": verdict.status.value,
        "limit_from": verdict.limit.origin if verdict.limit else None,
    }
    report.user_properties += [(f"accel.{key}", str(value)) for key, value in pairs.items() if value is not None]


def finish(session: pytest.Session, exitstatus: int) -> None:
    """Close the run and set the exit status that its verdicts ask for."""
    config = session.config
    run = config.stash[RUN]
    interrupted = None
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        interrupted = config.stash.get(STOPPED_BY, "Ctrl-C")
    if exitstatus == pytest.ExitCode.TESTS_FAILED and not (
        run.failed_tests or run.broken_tests or any(each.status.fails for each in run.verdicts)
    ):
        run.failed_tests.append(f"{session.testsfailed} tests failed that measure nothing")
    closing = run.finish(interrupted, usable=exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED))
    config.stash[CLOSING] = closing
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        session.exitstatus = closing.exit


def write_summary(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table; with --collect-only, the plan."""
    from pytest_accel.views import plan, terminal

    run = config.stash[RUN]
    if config.option.collectonly:
        lines = plan.lines(run, config.stash[COLLECTED])
    else:
        lines = terminal.table(run.verdicts, run.names)
    if lines:
        reporter.section(f"accel: {run.sku.name if run.sku else 'no SKU'}, {run.options.level}", sep="=", bold=True)
    for text, colour in lines:
        reporter.write_line(text, **({colour: True} if colour else {}))


def write_closing(config: pytest.Config) -> None:
    from pytest_accel.views.terminal import closing_lines, first_to_repeat

    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    run = config.stash[RUN]
    lines = closing_lines(config.stash[CLOSING], run.verdicts)
    worst = first_to_repeat(run.verdicts)
    test = run.tests.get(worst.key) if worst else None
    if test:
        lines.append((f"again: {shlex.join([*_without_filters(run.options.command), '-k', test])}", ""))
    if run.output:
        lines.append((f"record: {run.output / 'record.json'}", ""))
    for text, colour in lines:
        reporter.write_line(text, **({colour: True, "bold": True} if colour else {}))


def _without_filters(command: Sequence[str]) -> list[str]:
    """The command line without an output that is taken and without the -k that another one replaces."""
    kept: list[str] = []
    skip = False
    for word in command:
        if not skip and word not in ("-k", "--accel-output") and not word.startswith(("--accel-output=", "-k")):
            kept.append(word)
        skip = word in ("-k", "--accel-output")
    return kept
