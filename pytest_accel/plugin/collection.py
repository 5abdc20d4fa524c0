"""Collects the tests of a run: one item for each device or fact, in the order of the packaged suite."""

from __future__ import annotations

from collections.abc import Generator, Sequence, Sized
from contextlib import suppress
from glob import glob
from pathlib import Path

import pytest

from pytest_accel.core import untrusted
from pytest_accel.core.words import listed
from pytest_accel.judging.facts import diagnostics
from pytest_accel.plugin import interrupts
from pytest_accel.plugin.stash import OWN_PATHS, SUBJECT
from pytest_accel.run.options import plans_only
from pytest_accel.run.session import Session
from pytest_accel.suite import LAST, NETWORK, ORDER, functions
from pytest_accel.views import plan
from pytest_accel.views.terminal_progress import TerminalProgress

LIMITED = ("inventory", "health", "host", "counters", "packing_list")
"""Probes of facts that have a fixture accel_PROBE: one item is made for each fact that the SKU limits."""


class Collection:
    """A plugin object that collects the tests of a run, and notes missing ones."""

    def __init__(self, session: Session, progress: TerminalProgress) -> None:
        self._session = session
        self._progress = progress
        self.items: list[pytest.Item] = []
        """The tests that were collected, and from the end of the collection on those that are to run."""
        self.broken: list[str] = []
        """A sentence for each file that could not be collected."""
        self._functions: set[tuple[int, str]] = set()
        """The functions of the packaged suite that pytest made tests of."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test once per device, or once for the node if it asks for all devices."""
        names = metafunc.fixturenames
        for probe in LIMITED:
            if f"accel_{probe}" in names:
                facts = self._session.target.limited_facts(probe)
                metafunc.parametrize(f"accel_{probe}", facts or [None], indirect=True)
        if "accel_size" in names:
            metafunc.parametrize(("accel_operation", "accel_size"), self._session.target.collectives(), indirect=True)
        if SUBJECT in names:
            subjects = {device.uuid: device.name for device in self._session.target.devices}
            if "accel_devices" in names and "accel_device" not in names:
                subjects = {"node": "node"}
            tests = [pytest.param(subject, id=name) for subject, name in subjects.items()]
            metafunc.parametrize(SUBJECT, tests or [self._no_device()], indirect=True)

    def _no_device(self) -> pytest.ParameterSet:
        """Return the parameter of a test that is skipped because there is no device."""
        problem = self._session.target.discovery.unreachable(None)
        reason = f"no device: {problem.reason if problem else 'pytest-accel discover tells more'}"
        return pytest.param("", id="none", marks=pytest.mark.skip(reason=reason))

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Generator[None, object, object]:
        """Leave out tests over the limited facts of a SKU that limits none."""
        result = yield
        if not isinstance(result, list):
            return result
        tests = [item for item in result if isinstance(item, pytest.Function)]
        self._functions |= {(index, item.originalname) for item in tests if (index := index_of(item)) is not None}
        return [item for item in result if self._belongs(item)]

    def _belongs(self, item: object) -> bool:
        """Return False for a packaged test that this run does not need: over no fact, or of another kind of run."""
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if any(parameters.get(f"accel_{probe}", "") is None for probe in LIMITED):
            return False
        if not isinstance(item, pytest.Item) or (index := index_of(item)) is None:
            return True
        if ORDER[index] == "test_vendor_diagnostic" and diagnostics.METRIC not in self._session.target.terms.required:
            return False
        return ORDER[index] in NETWORK if self._session.inputs.options.network else ORDER[index] != "test_network"

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember the order of collection.

        Raises pytest.UsageError for a marker by which pytest-timeout would end pytest itself.
        """
        if reason := interrupts.marker_ends_pytest(item):
            raise pytest.UsageError(reason)
        self.items.append(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Restore the order of the packaged suite after --ff, --nf or a user's hook has changed it.

        Links are measured before collectives, then the user's own tests and the soak run; error counters are read last,
        since they cover only the tests before them.
        """
        # Not in pytest_collection_modifyitems: --ff and --nf reorder in wrappers, after every implementation of it.
        collected = {item: position for position, item in enumerate(self.items)}
        self.note_missing(collected.keys() - {*session.items}, "taken out by a plugin or a conftest.py")
        missing = [name for _, name in sorted(functions() - self._functions)]
        if missing and not self._session.narrowed:  # by an ini file or a hook
            self._session.add_objection("run", f"the packaged suite was collected without {', '.join(missing)}")
        own_tests = [item for item in session.items if index_of(item) is None]
        for path in map(str, session.config.option.accel_with):
            folder = Path(path.partition("::")[0]).resolve()
            if not any(item.path.resolve().is_relative_to(folder) for item in own_tests):
                self._session.add_objection("run", f"--accel-with {path} has no test")
        positions = {item: (float(index_of(item) or 0), collected[item]) for item in session.items}
        positions |= {item: (ORDER.index(LAST[0]) - 0.5, position) for position, item in enumerate(own_tests)}
        session.items.sort(key=positions.__getitem__)
        self.items = list(session.items)  # a hook may take tests out of the session's own list later
        if not plans_only(session.config.option):
            self._progress.expect(plan.time_left(self._session.target, self._session.measuring, self.items))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note that tests were taken out, unless an option that does so is noted already."""
        if items and not self._session.narrowed:
            self._session.add_objection("filter", f"{len(items)} tests were deselected")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that could not be collected, or that skips itself: nothing in it was measured."""
        if report.failed:
            self.broken.append(f"{report.nodeid} could not be collected")
        elif report.skipped:
            self._session.add_objection("run", f"{report.nodeid} was skipped")

    def note_missing(self, items: Sized, cause: str) -> None:
        """Note tests that a hook took out or over without telling pytest, unless some are known to be missing."""
        if items and not self._session.narrowed:
            count = "1 test was" if len(items) == 1 else f"{len(items)} tests were"
            self._session.add_objection("run", f"{count} {cause}")


def index_of(item: pytest.Item) -> int | None:
    """Return the index of an item's module in the packaged suite, None for any other item."""
    module = getattr(getattr(item, "module", None), "__name__", "")
    package, _, name = module.rpartition(".")
    return ORDER.index(name) if package == "pytest_accel.suite" and name in ORDER else None


def note_on_skipped(config: pytest.Config) -> list[str]:
    """Return a sentence if tests of devices lie in the current folder, its `tests` or `testpaths`, and are not run.

    No other folder is entered: below `/` or a home may lie a file system that does not answer.
    """
    current, matches = config.invocation_params.dir, list[str]()
    # tests of this package are none of a site
    if config.stash[OWN_PATHS] or config.option.accel_with or config.rootpath == Path(__file__).parents[2]:
        return []
    folders = ["", "tests", *config.getini("testpaths")]
    names = [f"{folder}/{name}".lstrip("/") for folder in folders for name in config.getini("python_files")]
    for file in sorted({file for name in names for file in glob(name, root_dir=current)})[:200]:  # noqa: PTH207
        with suppress(untrusted.BadFile):
            # searched as text: to import them may take long, and do anything
            text = untrusted.read_bytes(current / file, most=untrusted.MIB)
            matches += [file] if b"accel_check" in text or b"accel_device" in text else []
    argument = "." if len(matches) > 1 else "".join(matches)
    return [f"the tests of {listed(matches, 1)} are not run; --accel-with={argument} adds them"] if matches else []
