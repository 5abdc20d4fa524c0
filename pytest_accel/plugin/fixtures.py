"""The fixtures. Without `--accel-sku` whatever asks for one is skipped with that reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_accel.plugin.stash import LIMITS, REPLAY, RUN, VERDICTS
from pytest_accel.run.options import plans_only

if TYPE_CHECKING:
    from pytest_accel.core.measurement import Device
    from pytest_accel.core.sku import Sku
    from pytest_accel.core.verdict import Verdict
    from pytest_accel.run.session import Session


@pytest.fixture
def _accel_subject(request: pytest.FixtureRequest) -> str:
    """The UUID of the device that the test is about, or "node"."""
    _run(request)
    return str(request.param)


@pytest.fixture
def accel_device(request: pytest.FixtureRequest, _accel_subject: str) -> Device:
    """The device that this test is about; the test runs once for each."""
    return next(device for device in _run(request).devices if device.uuid == _accel_subject)


@pytest.fixture
def accel_devices(request: pytest.FixtureRequest) -> list[Device]:
    """All devices; a test that asks for them runs once, for the node."""
    return list(_run(request).devices)


@pytest.fixture
def accel_inventory(request: pytest.FixtureRequest) -> str:
    """A fact of the inventory (`vbios`) that the SKU limits on devices; the test runs once for each."""
    _run(request)
    return str(request.param)


@pytest.fixture
def accel_health(request: pytest.FixtureRequest) -> str:
    """A fact of the health (`remap_pending`) that the SKU limits; the test runs once for each."""
    _run(request)
    return str(request.param)


@pytest.fixture
def accel_counters(request: pytest.FixtureRequest) -> str:
    """A counter of errors (`nvlink_crc`) that the SKU limits; the test runs once for each."""
    _run(request)
    return str(request.param)


@pytest.fixture
def accel_sku(request: pytest.FixtureRequest) -> Sku:
    """The SKU that the node is judged as."""
    sku = _run(request).sku
    if sku is None:
        pytest.skip("no SKU was recognised")
    return sku


@pytest.fixture
def accel_check(request: pytest.FixtureRequest, _accel_subject: str) -> Callable[..., list[Verdict]]:
    """Measure, record and judge: `accel_check(probe, **conditions)`. Fails the test if a limit is broken."""
    run, item = _run(request), request.node

    def check(probe: Callable[..., Any], *, metric: str | None = None, **conditions: Any) -> list[Verdict]:
        """Run `probe` under `conditions` (once, on every device at the same time) and judge this test's subject.

        `metric` chooses one of several that a probe finds. Returns one verdict per limit.
        """
        if plans_only(request.config.option):  # a fixture of the user's that measures, under --setup-only
            pytest.skip("nothing is measured where no test is called")
        markers = item.stash.get(LIMITS, [])
        with _no_verdict():
            verdicts = run.check(probe, conditions, _accel_subject, markers, metric)
        item.stash.setdefault(VERDICTS, []).extend(verdicts)
        _publish(request, run, verdicts[0])
        _conclude(run, verdicts)
        return verdicts

    return check


def _run(request: pytest.FixtureRequest) -> Session:
    run = request.config.stash.get(RUN, None)
    if run is None:
        pytest.skip("needs --accel-sku=NAME")
    return run


@contextlib.contextmanager
def _no_verdict() -> Iterator[None]:
    """What stops a measurement (pytest-timeout, an assertion in our own code) is no assertion of the test's."""
    from pytest_accel.judging.judge import ProbeError

    try:
        yield
    except (AssertionError, pytest.fail.Exception) as error:
        raise ProbeError(f"stopped while it measured: {error}") from error


def _conclude(run: Session, verdicts: list[Verdict]) -> None:
    """Pass, fail or skip the test, as its worst verdict says."""
    from pytest_accel.core.verdict import Status
    from pytest_accel.judging.closing import worst_first

    worst = worst_first([each for each in verdicts if each.fails] or verdicts)[0]
    text = f"{run.names.get(worst.subject, worst.subject)}: {worst.metric} {worst.sentence}"
    if worst.fails:
        prefix = "" if worst.status is Status.FAIL else f"{worst.status.value}: "
        pytest.fail(prefix + text, pytrace=False)
    if worst.status is Status.NOT_APPLICABLE and not worst.information:
        pytest.skip(worst.sentence)


def _publish(request: pytest.FixtureRequest, run: Session, verdict: Verdict) -> None:
    """Give the samples to pytest-benchmark, under a key that stays the same everywhere: device and metric."""
    from pytest_accel.views.benchmark import publish

    replay = request.node.stash.get(REPLAY, None)
    measurement = run.last_measurement(verdict)
    if replay is not None and not replay.used and measurement is not None and measurement.seconds:
        ledger = request.getfixturevalue("benchmark")
        publish(ledger, replay, verdict, measurement)
        ledger.extra_info.update({"simulated": run.node.source} if run.node else {})
