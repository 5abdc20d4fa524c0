"""The fault code of a verdict, with severity and next step. Pure.

The cause counts more than the metric: a product that is slow because of heat has the code of heat. It is taken from
the evidence beside the measurement, as in the sentence of the verdict (`judging/causes/diagnosis.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_accel.core.details import ErrorReport
from pytest_accel.core.fact_metrics import ERROR_COUNTERS
from pytest_accel.core.fault_codes import BY_NAME, Action, FaultCode, Severity, of_metric
from pytest_accel.core.measurement import LEFT_OUT, NODE, Device, Measurement, is_rate
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.reasons import AllAlike, Cause, WrongData
from pytest_accel.core.sentences import decider
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import xids
from pytest_accel.drivers.kernel_messages import known
from pytest_accel.judging.causes import shares as causes
from pytest_accel.judging.causes.clock_losses import JOINT
from pytest_accel.judging.verdicts.attempts import RunAttempts
from pytest_accel.judging.verdicts.judge_attempts import fallen_short
from pytest_accel.judging.verdicts.like_devices import Attempts
from pytest_accel.probes.declare import declaration_of

FINE = (Status.PASS, Status.NOT_APPLICABLE)
"""The statuses without a finding."""
EVENTS = {
    "lost": "device-lost",
    "hung": "device-hung",
    "crashed": "device-crashed",
    "uncorrectable": "memory-uncorrectable",
}
"""The code of each way in which a device fails."""
REASONS = {
    "hw_thermal_s": "hw-thermal",
    "sw_thermal_s": "sw-thermal",
    "hw_power_brake_s": "power-brake",
    "hw_slowdown_s": "hw-slowdown",
    causes.LOWERED_LIMIT: "power-limit-lowered",
    causes.LOCK: "clock-locked",
    "sync_boost": "clock-locked",
}
"""The code of each reason for a low clock. The usual power cap is none, and neither is what no reason explains."""
MOST = 0.5
"""The share of the lost clock from which on a reason is the cause."""
CAUSES = {"compute-slow": "soak.throttle.", "unsteady": "soak.throttle.", "host-link-slow": "health.pcie_width"}
"""The prefix of the metrics whose failure on the same device causes a fault, by fault code."""
COUNTED = tuple(f"counters.{name}" for name in ERROR_COUNTERS)
"""The metrics of counters that are read of the device."""
PRODUCT = "inventory.sku"
"""The metric that fails for a device of another product."""

ALIKE = "compare what all {} devices share (power, cooling, settings, software) with a good node"
"""The next step where all devices fall short alike."""
OF_ONE = (Action.INVESTIGATE, Action.CHECK_LINKS, Action.RESEAT, Action.RETURN)
"""The actions on a single device, which are no first step where all fall short alike."""

Key = tuple[str, str, str]
"""The identity of a verdict (`Verdict.key`)."""


@dataclass(frozen=True)
class Finding:
    """The fault code of a verdict, as severe as the verdict makes it, and the next step.

    `vendor` is the vendor's own code for what its driver reported: "Xid 79 (RESTART_BM)".
    """

    fault_code: FaultCode
    severity: Severity
    next_step: str
    vendor: str = ""

    @property
    def code(self) -> str:
        """The stable code: "A401"."""
        return self.fault_code.code

    @property
    def action(self) -> Action:
        """The next step in one word; a warning asks to watch, unless a setting has to be set right."""
        mild = self.severity is Severity.WARNING and self.fault_code.action is not Action.CONFIGURE
        return Action.WATCH if mild else self.fault_code.action

    @property
    def title(self) -> str:
        """Code, name and the vendor's code: "A102 device-lost, Xid 79 (RESTART_BM)"."""
        return f"{self.fault_code.code} {self.fault_code.name}{f', {self.vendor}' if self.vendor else ''}"


def findings(
    verdicts: Sequence[Verdict], measurements: Iterable[Measurement], devices: Iterable[Device]
) -> dict[Key, Finding]:
    """Return the finding of every verdict that has one, by the key of the verdict, worst verdict first.

    A device of another product has the finding "wrong-product", and else only those of faults that no limit tells, such
    as a device that was lost.
    """
    by_uuid = {device.uuid: device for device in devices}
    strange = _of_other_product(verdicts, set(by_uuid))
    remarkable = [
        verdict
        for verdict in verdicts
        if verdict.status not in FINE
        # a limit of the SKU says nothing of another product
        and (verdict.subject not in strange or verdict.device_failed or verdict.metric == PRODUCT)
    ]
    if not remarkable:
        return {}
    run_attempts = RunAttempts.of(measurements, by_uuid.values())
    by_key: dict[Key, Finding] = {}
    for verdict in worst_first(remarkable):
        key = verdict.metric, verdict.subject
        attempts, like_devices = run_attempts.by_key.get(key, ()), run_attempts.background(key).like_devices
        if finding := finding_of(verdict, attempts, by_uuid.get(verdict.subject), like_devices):
            by_key[verdict.key] = finding
    return _by_cause(by_key)


def _by_cause(by_key: dict[Key, Finding]) -> dict[Key, Finding]:
    """Return findings with the code of what made the same device slow, such as the power brake or a narrow link."""
    origins: dict[tuple[str, str], Finding] = {}
    for (metric, subject, _), finding in by_key.items():
        for prefix in {*CAUSES.values()}:
            if metric.startswith(prefix) and finding.severity is Severity.ERROR:
                origins.setdefault((subject, prefix), finding)
    results = dict(by_key)
    for key, finding in by_key.items():
        if cause := origins.get((key[1], CAUSES.get(finding.fault_code.name, ""))):
            results[key] = replace(finding, fault_code=cause.fault_code, next_step=cause.next_step)
    return results


def _of_other_product(verdicts: Iterable[Verdict], uuids: set[str]) -> set[str]:
    """Return the devices that are another product than the SKU; with the node, if all of them are."""
    product = (verdict for verdict in verdicts if verdict.metric == PRODUCT and verdict.status is Status.FAIL)
    # a device whose owner waives that is judged by the limits of the SKU all the same
    subjects = {verdict.subject for verdict in product if verdict.waiver is None}
    return subjects | ({NODE} if uuids and uuids <= subjects else set())


def finding_of(
    verdict: Verdict, attempts: Attempts = (), device: Device | None = None, like_devices: Sequence[Attempts] = ()
) -> Finding | None:
    """Return the finding of a verdict; None if it holds without a remark or does not apply.

    `attempts` are those at its metric, `like_devices` has those of the like devices. Without them the metric decides.
    """
    if verdict.status in FINE:
        return None
    # the worst error that the driver or the kernel reported: one with a code of its own, else the first
    reports = attempts[-1].details.get("reports", ()) if attempts else ()
    coded = [report for report in reports if known(report).code]
    reported = next(iter([*coded, *reports]), None)
    fault = _fault(verdict, attempts, device, like_devices, reported)
    number = reported.number if reported and not reported.message else 0
    action = xids.immediate_action(number)
    vendor = f"Xid {number}{f' ({action})' if action else ''}" if number else ""
    do = _next_step(verdict, fault, known(reported).do if reported else fault.do)
    return Finding(fault, _severity(verdict, fault), do, vendor)


def _next_step(verdict: Verdict, fault: FaultCode, do: str) -> str:
    """Return the next step, where `do` is that of the fault or of its report.

    The cause that all devices share, or a limit of the user's own, is checked before a board is returned.
    """
    if verdict.status is not Status.FAIL:
        reason = decider(verdict)
        return fault.do_by.get(verdict.metric) or fault.do_by.get(reason.kind if reason else "", do)
    own_limit = verdict.limit.origin if verdict.limit and verdict.by_own_limit else ""
    counts = [reason.devices for reason in verdict.reasons if isinstance(reason, AllAlike)]
    if counts and fault.action in OF_ONE and do == fault.do:  # the driver reported nothing of this device
        do = ALIKE.format(*counts) + (", and check the limit" if not own_limit else "")
    return f"check the limit of your own first ({own_limit}); if it is right: {do}" if own_limit else do


def _severity(verdict: Verdict, fault: FaultCode) -> Severity:
    """Return the severity of a code under a verdict: one that holds, or that a waiver accepts, warns at most."""
    if fault.severity is Severity.UNKNOWN or (verdict.status is Status.FAIL and not verdict.waiver):
        return fault.severity
    return Severity.WARNING


def _fault(
    verdict: Verdict,
    attempts: Attempts,
    device: Device | None,
    like_devices: Sequence[Attempts],
    report: ErrorReport | None,
) -> FaultCode:
    if verdict.event == LEFT_OUT:
        return BY_NAME["not-tried"]
    if verdict.status is Status.UNMEASURED:
        return BY_NAME["unmeasured"]
    if verdict.status is Status.INCONCLUSIVE:
        return BY_NAME["inconclusive"]
    if verdict.event:
        return BY_NAME[EVENTS[verdict.event]]
    if verdict.device_failed:
        return BY_NAME[_of_failure(verdict, attempts)]
    if report:
        name = known(report).code
        return BY_NAME[name] if name else of_metric(verdict.metric)
    earlier = any(isinstance(reason, Cause) and reason.before for reason in verdict.reasons)
    evidence = (fallen_short(attempts, verdict) or attempts[-1:])[: None if earlier else 1]
    causes = (_cause(measurement, device, verdict, like_devices) for measurement in evidence if device)
    cause = next(filter(None, causes), None)
    return BY_NAME[cause] if cause else of_metric(verdict.metric)


def _of_failure(verdict: Verdict, attempts: Attempts) -> str:
    """Return the code of a device that failed while it was measured, and neither hung nor ended its process."""
    trouble = attempts[-1].trouble if attempts else None
    if verdict.metric == "inventory.driver":
        return of_metric(verdict.metric).name
    if verdict.metric.startswith(COUNTED):
        return "device-lost"  # counters are read of the device itself, and it did not answer
    if verdict.value is not None and trouble is None:
        return of_metric(verdict.metric).name
    if not any(isinstance(reason, WrongData) for reason in verdict.reasons):
        return "device-error"
    declaration = declaration_of(verdict.metric)
    return "wrong-transfer" if declaration and declaration.for_several else "wrong-result"


def _cause(measurement: Measurement, device: Device, verdict: Verdict, like_devices: Sequence[Attempts]) -> str | None:
    """Return the name of the code of what slowed the device down: the reason for most of the lost clock, or the link.

    Only rates, and what is computed from the rates of a soak, have such a cause.
    """
    if not is_rate(measurement.unit) and of_metric(verdict.metric).name != "unsteady":
        return None
    shares = causes.shares(measurement, device, verdict.limit, like_devices)
    if measurement.metric.startswith("host_copy") and shares.link and shares.link < causes.FULL_CLOCK:
        return "host-link-narrow"
    for names, share in shares.by_reason.items():
        codes = [REASONS[name] for name in names.split(JOINT) if name in REASONS]
        if codes and share >= MOST:
            return codes[0]
    return None
