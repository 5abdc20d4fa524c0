"""Verdicts on what can be read of a node without loading it: facts of its devices, and errors in the kernel log. Pure.

The limits are those of a run. Left out is what depends on the work that the devices do at the moment, since the devices
may be allocated to a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_accel.core.fault_codes import Severity, of_metric
from pytest_accel.core.metric_name import parse
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.reasons import MayTrain, Note
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.causes.findings import FINE, Finding, Key, findings
from pytest_accel.judging.facts.error_reports import counts_reports

WITH_THE_LOAD = {
    "health.clock_lock": "a job may set clocks",
    "health.foreign_processes": "a job is one",
    "health.perf_level": "a job may set it",
    "health.power_limit_lowered": "a job may set it",
    "health.slowdown": "a state of a moment under load",
    "health.thermal_margin": "a temperature of a moment under load",
    "inventory.power_limit": "a job may set it on some devices",
}
"""The metrics of facts that are not judged beside a job, each with the reason."""

TRAINS = ("peer-link-down", "fabric")
"""The fault codes of links between devices, and of their fabric, which are set up after each boot."""
TRAINING_SECONDS = 600.0
"""Seconds after a boot in which a link that is down may still train.

214 of 288 nodes of a fleet of GB200 NVL72 reported links as down after planned reboots, and none had a fault
(NVIDIA/NVSentinel issue 1701, pull request 1715). No source states how long links take; ten minutes are a choice.
"""
PENDING = ("health.ecc_pending_change", "health.mig_pending_change")
"""Modes that somebody changed and that wait for a reset: no fault of the device, so that no scheduler drains it."""
RAILS = ("host.nics_active", "host.nics", "host.nic_state", "host.nic_rate")
"""Facts of the RDMA ports, which are judged where the platform has a limit on them: the first where it states NICs."""
FACTS = ("inventory", "health")
"""The metric of the messages of the kernel about the node."""


@dataclass(frozen=True)
class PassiveResult:
    """The result of a passive check: the verdicts, worst first, and the findings by their keys."""

    verdicts: tuple[Verdict, ...] = ()
    findings: Mapping[Key, Finding] = field(default_factory=dict)

    @property
    def rejections(self) -> list[Verdict]:
        """The verdicts that reject the node, the most severe finding first."""
        failures = [verdict for verdict in self.verdicts if verdict.rejects]
        return sorted(failures, key=lambda verdict: list(Severity).index(self.findings[verdict.key].severity))

    @property
    def undecided(self) -> list[Verdict]:
        """The verdicts on what could not be judged."""
        return [verdict for verdict in self.verdicts if verdict.fails and verdict.status is not Status.FAIL]

    @property
    def training(self) -> bool:
        """True if nothing is broken, but a link is down that may still train."""
        inconclusive = [verdict for verdict in self.undecided if verdict.status is Status.INCONCLUSIVE]
        return not self.rejections and any(map(_trains, inconclusive))

    @property
    def marginal(self) -> list[Verdict]:
        """The verdicts that hold with a remark."""
        return [verdict for verdict in self.verdicts if verdict.status is Status.MARGINAL]


def metrics(limits: Mapping[str, Limit], *, logged: bool) -> list[str]:
    """Return the metrics among those with a limit that are judged without load; those of the log only if `logged`."""
    facts = [metric for metric in limits if parse(metric).probe in FACTS and metric not in WITH_THE_LOAD]
    reports = [metric for metric in limits if logged and counts_reports(metric)]
    return [*facts, *reports, *(metric for metric in RAILS if metric in limits)]


def conclude(record: Run, uptime: float) -> PassiveResult:
    """Return the result of a passive check by the verdicts in a record, `uptime` seconds after the boot."""
    verdicts = worst_first([_after_boot(verdict, uptime) for verdict in record.verdicts])
    by_key = findings(verdicts, record.measurements, record.devices)
    # what fails by limits of another product has no finding
    judged = tuple(verdict for verdict in verdicts if verdict.status in FINE or verdict.key in by_key)
    return PassiveResult(judged, by_key)


def _trains(verdict: Verdict) -> bool:
    return of_metric(verdict.metric).name in TRAINS


def _after_boot(verdict: Verdict, uptime: float) -> Verdict:
    """Return a verdict as it counts `uptime` seconds after the boot: a link that is down may still train."""
    if verdict.metric in PENDING and verdict.status is Status.FAIL:  # it waits for a reset at any time
        return verdict.because(Note("waits_for_reset"), status=Status.INCONCLUSIVE)
    if uptime >= TRAINING_SECONDS or verdict.status is not Status.FAIL or verdict.device_failed or not _trains(verdict):
        return verdict
    return verdict.because(MayTrain(uptime), status=Status.INCONCLUSIVE)
