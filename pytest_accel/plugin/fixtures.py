"""The fixtures. Without `--accel-sku`, a test that uses one is skipped."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.plugin.stash import LIMITS, REPLAY, SESSION, VERDICTS
from pytest_accel.run.options import plans_only

if TYPE_CHECKING:
    from pytest_accel.core.measurement import Device
    from pytest_accel.core.sku_types import Sku
    from pytest_accel.core.verdict import Verdict
    from pytest_accel.run.session import Session


@pytest.fixture
def _accel_subject(request: pytest.FixtureRequest) -> str:
    """Return the UUID of the device that the test is about, or "node"."""
    return _parameter(request)


@pytest.fixture
def accel_device(request: pytest.FixtureRequest, _accel_subject: str) -> Device:
    """Return the device that this test is about; the test runs once for each device."""
    return copy.deepcopy(next(device for device in _session(request).target.devices if device.uuid == _accel_subject))


@pytest.fixture
def accel_devices(request: pytest.FixtureRequest) -> list[Device]:
    """Return all devices; a test that uses this fixture runs once, for the node."""
    return copy.deepcopy(list(_session(request).target.devices))


@pytest.fixture
def accel_inventory(request: pytest.FixtureRequest) -> str:
    """Return the name of an inventory fact, such as "vbios"; the test runs once for each fact that the SKU limits."""
    return _parameter(request)


@pytest.fixture
def accel_packing_list(request: pytest.FixtureRequest) -> str:
    """Return "packing_list", the fact that every listed board is here; without a list the test is left out."""
    return _parameter(request)


@pytest.fixture
def accel_health(request: pytest.FixtureRequest) -> str:
    """Return the name of a health fact, such as "remap_pending"; the test runs once for each that the SKU limits."""
    return _parameter(request)


@pytest.fixture
def accel_host(request: pytest.FixtureRequest) -> str:
    """Return the name of a fact of the host, such as "acs"; the test runs once for each fact that the SKU limits."""
    return _parameter(request)


@pytest.fixture
def accel_counters(request: pytest.FixtureRequest) -> str:
    """Return the name of an error counter, such as "nvlink_crc"; the test runs once for each that the SKU limits."""
    return _parameter(request)


@pytest.fixture
def accel_operation(request: pytest.FixtureRequest) -> str:
    """Return a collective, such as "all_reduce"; the test runs once for each of this run and each of its sizes."""
    return _parameter(request)


@pytest.fixture
def accel_size(request: pytest.FixtureRequest) -> str:
    """Return a size of the collective `accel_operation`, such as "8GiB"; the test runs once for each of this run."""
    return _parameter(request)


@pytest.fixture
def accel_sku(request: pytest.FixtureRequest) -> Sku:
    """Return the SKU that the node is judged as; skips the test if none was recognised."""
    sku = _session(request).target.terms.sku
    if sku is None:
        pytest.skip("no SKU was recognised")
    return copy.deepcopy(sku)  # so that no test changes the limits of others


@pytest.fixture
def accel_check(request: pytest.FixtureRequest, _accel_subject: str) -> Callable[..., list[Verdict]]:
    """Return the function that measures, records and judges: `accel_check(probe, **conditions)`.

    It fails the test if a limit is broken.
    """
    from pytest_accel.judging.verdicts.attempts import ProbeError

    session, item = _session(request), request.node

    def check(probe: Callable[..., Any], *, metric: str | None = None, **conditions: Any) -> list[Verdict]:
        """Run `probe` under `conditions` once, on every device at the same time, and judge the subject of this test.

        `metric` chooses one of the metrics of a probe that measures several. Returns one verdict for each limit.
        """
        __tracebackhide__ = True
        if plans_only(request.config.option):  # a user's fixture may measure, and --setup-only sets it up
            pytest.skip("--setup-only and --setup-plan measure nothing")
        marker_limits = item.stash.get(LIMITS, [])
        try:
            verdicts = session.check(probe, conditions, _accel_subject, marker_limits, metric)
        except ProbeError as error:
            raise error.with_traceback(None) from None  # the mistake is in the user's file, which the text names
        except (AssertionError, pytest.fail.Exception) as error:  # pytest-timeout's, or an assertion of this package
            raise ProbeError(f"the measurement was stopped: {error}") from error
        all_verdicts = [*verdicts, *session.changes_of(_accel_subject)]
        item.stash.setdefault(VERDICTS, []).extend(all_verdicts)
        _tell(item, all_verdicts)
        _publish(request, session, verdicts[0])
        _conclude(session, all_verdicts)
        return copy.deepcopy(verdicts)  # a test may change its copy, and not the verdicts of the run

    return check


def _session(request: pytest.FixtureRequest) -> Session:
    """Return the session of the acceptance run; skips the test if there is none."""
    session = request.config.stash.get(SESSION, None)
    if session is None:
        pytest.skip("needs --accel-sku=NAME")
    return session


def _parameter(request: pytest.FixtureRequest) -> str:
    """Return the parameter of a fixture; skips the test if there is no acceptance run."""
    _session(request)
    return str(request.param)


def _tell(item: pytest.Item, verdicts: list[Verdict]) -> None:
    """Call the hook for each verdict, also that of a conftest.py in the current folder, which `item.ihook` leaves out.

    Raises RuntimeError for an assertion, a failure or a skip of the hook: none of them says anything about the device.
    """
    try:
        hook = item.config.hook.pytest_accel_verdict
        for verdict in verdicts if hook.get_hookimpls() else ():
            hook(verdict=copy.deepcopy(verdict), item=item)
    except (AssertionError, pytest.fail.Exception, pytest.skip.Exception) as error:
        raise RuntimeError(f"pytest_accel_verdict: {type(error).__name__}: {error}") from error


def _conclude(session: Session, verdicts: list[Verdict]) -> None:
    """Fail the test, skip it or let it pass, depending on its worst verdict."""
    from pytest_accel.core.printable import SHOWN, printable
    from pytest_accel.core.ranking import worst_first
    from pytest_accel.core.sentences import sentence_of
    from pytest_accel.core.verdict import Status

    worst = worst_first([verdict for verdict in verdicts if verdict.fails] or verdicts)[0]
    text = f"{session.ledger.names[worst.subject]}: {printable(worst.metric, SHOWN)} {printable(sentence_of(worst))}"
    if worst.fails:
        prefix = "" if worst.status is Status.FAIL else f"{worst.status.value}: "
        pytest.fail(prefix + text, pytrace=False)
    if worst.status is Status.NOT_APPLICABLE and not worst.information:
        pytest.skip(sentence_of(worst))


def _publish(request: pytest.FixtureRequest, session: Session, verdict: Verdict) -> None:
    """Give the samples of a measurement to pytest-benchmark, named by device and metric instead of by test."""
    from pytest_accel.views.benchmark_replay import publish

    replay = request.node.stash.get(REPLAY, None)
    measurement = session.ledger.newest(verdict.metric, verdict.subject)
    if replay is not None and not replay.used and measurement is not None and measurement.seconds:
        ledger = request.getfixturevalue("benchmark")
        publish(ledger, replay, verdict, measurement)
        if node := session.inputs.simulated_node:
            ledger.extra_info["simulated"] = node.source
