"""What workers sent, as measurements, with the interval in which the next run of the same device will lie. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.measurement import NODE, Measurement, Peak, Trouble, estimate_of, is_rate
from pytest_accel.core.messages import Message, Outcome, WorkerRequest
from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Sku
from pytest_accel.core.stats import next_run

PeakOf = Callable[[str], "tuple[float, str] | None"]
"""The datasheet figure that a metric is a fraction of."""


@dataclass(frozen=True)
class Context:
    """What every measurement of one go at a probe shares. Times are seconds since the epoch."""

    request: WorkerRequest
    peak_of: PeakOf
    started: float
    ended: float
    how: str = "together"
    lost: Mapping[str, str] = field(default_factory=dict)
    """The devices that the management library calls lost after it: UUID to name."""

    def under_load(self, outcome: Outcome) -> Context:
        """The same from the first block to the last: before and after it, processes start and results are checked."""
        at = [block["at"] for block in outcome.blocks]
        return replace(self, started=min(at), ended=max(at)) if len(at) > 1 else self


def per_device(outcome: Outcome, context: Context) -> list[Measurement]:
    """The measurements of one worker's devices, what is left of a call that broke included."""
    found = []
    context = context.under_load(outcome)
    for device in outcome.group:
        own = [each for each in outcome.findings if each["subject"] in (None, device.uuid)]
        found += [_measurement(each, device.uuid, context) for each in own]
        if outcome.trouble:  # beside what was found: one that dies after its last figure died all the same
            broken = _troubled(outcome, device.uuid, context)
            found.append(_shared(broken, outcome, context.lost) if len(outcome.group) > 1 else broken)
    return found


def _shared(broken: Measurement, outcome: Outcome, lost: Mapping[str, str]) -> Measurement:
    """The trouble of a process that works for several devices, for one of them.

    It is laid to the devices that are lost; if none is, to those whom the last step of the process concerned; without
    a step to nobody.
    """
    trouble, step = broken.trouble, outcome.step
    assert trouble
    if step is None and trouble.kind != "device":
        return broken
    what = step["what"] if step else "what comes before the first step"
    gone = [device for device in outcome.group if device.uuid in lost]
    if broken.subject in ([device.uuid for device in gone] or (step or {}).get("subjects", ())):
        return replace(broken, trouble=replace(trouble, reason=f"{what}: {trouble.reason}" if step else trouble.reason))
    names = ", ".join(device.name for device in gone)
    why = f"{names} was lost ({what})" if gone else f"the process broke with {what}"
    return replace(broken, trouble=Trouble("need", f"not measured: {why}"))


def per_node(outcomes: Sequence[Outcome], context: Context) -> list[Measurement]:
    """A collective is judged by its slowest rank; whoever failed in it is named."""
    guilty = [each for each in outcomes if each.trouble and each.trouble.get("kind") != "stopped"]
    guilty.sort(key=lambda each: each.group[0].uuid not in context.lost)  # others noticed, and may have said so first
    if guilty:
        broken = _troubled(guilty[0], NODE, context)
        assert broken.trouble
        told = not (guilty[0].trouble or {}).get("shared")
        reason = f"{guilty[0].group[0].name}: {broken.trouble.reason}" if told else broken.trouble.reason
        return [replace(broken, trouble=replace(broken.trouble, reason=reason))]
    if not outcomes:
        trouble = Trouble("need", "there is no device to measure")
        return [replace(_bare(context.request.metric, NODE, context), trouble=trouble)]
    return [
        _slowest([_measurement(each, NODE, context) for each in ranks])
        for ranks in zip(*(outcome.findings for outcome in outcomes), strict=True)
    ]


def _slowest(ranks: list[Measurement]) -> Measurement:
    """The rank with the lowest rate or the longest time; before all, one that found no number."""
    sign = 1.0 if is_rate(ranks[0].unit) else -1.0

    def speed(rank: Measurement) -> float:
        value = math.nan if rank.value is None else float(rank.value)
        return -math.inf if math.isnan(value) else sign * value

    slowest = min(ranks, key=speed)
    return replace(slowest, details={**slowest.details, "ranks": [each.value for each in ranks]})


def _bare(metric: str, subject: str, context: Context) -> Measurement:
    return Measurement(
        metric=metric,
        subject=subject,
        unit="",
        conditions=context.request.conditions,
        how=context.how,
        started=context.started,
        ended=context.ended,
    )


def _measurement(finding: Message, subject: str, context: Context) -> Measurement:
    samples = tuple(finding["samples"])
    value = finding["value"]
    if value is None and samples:
        value = estimate_of(samples, finding["unit"]).mean
    return replace(
        _bare(_named(finding, context.request), subject, context),
        unit=finding["unit"],
        value=value,
        samples=samples,
        seconds=tuple(finding["seconds"]),
        peak=_peak(finding["peak"], context.peak_of(finding["metric"])),
        conditions=finding["conditions"],
        details=finding["details"],
        trouble=Trouble("device", finding["wrong"]) if finding.get("wrong") else None,
    )


def of_alone(measured: Measurement, earlier: Sequence[Measurement]) -> float | None:
    """Of a host copy with all devices at once, the share of what the same device moved alone; None for anything else.

    Low alone is the device's or its link's, low only together that of a shared uplink or of the host's memory.
    """
    return _share_of_last(measured, "host_copy_all", earlier, "host_copy")


def droop(measured: Measurement, earlier: Sequence[Measurement]) -> float | None:
    """Of a burst, the share that is lost when the same product goes on; None for anything else.

    5 to 20 % is the power limit, and usual; that is why a burst is no measure of what is sustained.
    """
    share = _share_of_last(measured, "matmul_burst", earlier, "matmul")
    return 1 - 1 / share if share else None


def _share_of_last(measured: Measurement, probe: str, earlier: Sequence[Measurement], other: str) -> float | None:
    """A measurement of `probe` as a share of the last one that `other` made of the same subject and variant."""
    own = parse(measured.metric)
    if own.probe != probe or not isinstance(measured.value, int | float):
        return None
    metric = str(replace(own, probe=other))
    same = [each for each in earlier if (each.metric, each.subject) == (metric, measured.subject)]
    found = [each.value for each in same if isinstance(each.value, int | float) and each.value > 0]
    return measured.value / found[-1] if found else None


def compared(found: Sequence[Measurement]) -> list[Measurement]:
    """The measurements with those blamed whose result is not that of the others, where it has to be the same.

    The checksums of a metric are of the same exact result on every device: who differs from most is wrong; where no
    majority agrees, any may be.
    """
    groups: dict[str, list[int]] = {}
    for each in found:
        if "checksum" in each.details:
            groups.setdefault(each.metric, []).append(each.details["checksum"])
    return [_odd(each, groups[each.metric]) if "checksum" in each.details else each for each in found]


def _odd(one: Measurement, checksums: list[int]) -> Measurement:
    own = one.details["checksum"]
    agreeing = checksums.count(own)
    if one.trouble or agreeing == len(checksums) or 2 * agreeing > len(checksums):
        return one
    text = f"its result differs from that of {len(checksums) - agreeing} of {len(checksums)} devices"
    return replace(one, trouble=Trouble("device", f"{text}, to the bit it should be the same"))


def _named(finding: Message, request: WorkerRequest) -> str:
    """The metric of a finding; under conditions of one's own it is another metric than the packaged one."""
    name = str(finding["metric"])
    return name if name.endswith(request.suffix) else name + request.suffix


def _peak(beside: Mapping[str, Any] | None, datasheet: tuple[float, str] | None) -> Peak | None:
    if beside:
        return Peak(beside["value"], beside["source"], tuple(beside["samples"]), beside["provisional"])
    return Peak(*datasheet) if datasheet else None


def _troubled(outcome: Outcome, subject: str, context: Context) -> Measurement:
    """What is left: the blocks that were sent, as seconds per operation, and the reason."""
    message = outcome.trouble or {}
    reason = message.get("reason", "it failed")
    if message.get("event") == "died" and "kind" not in message:
        reason = f"its worker process died: {reason}"
    if outcome.blocks:
        reason += f", after {len(outcome.blocks)} blocks"
    return replace(
        _bare(context.request.metric, subject, context),
        seconds=tuple(each["seconds"] for each in outcome.blocks),
        trouble=Trouble(message.get("kind", "device"), reason),
        details={"traceback": message["traceback"]} if "traceback" in message else {},
    )


def foreseen(measurement: Measurement, sku: Sku | None) -> Measurement:
    """The measurement with the interval that the next run's value lies in (95 %), where its spread is known."""
    spread, found = sku.spread_of(measurement.metric) if sku else None, measurement.estimate
    if spread is None or found is None or measurement.trouble:
        return measurement
    interval = next_run(found, spread.between_runs, spread.runs)
    if not math.isfinite(interval.high - interval.low):
        return measurement
    return replace(measurement, details={**measurement.details, "next_run": [interval.low, interval.high]})
