"""Measurements made of the results that workers sent. Pure."""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.details import SAMPLED, Details
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import (
    LEFT_OUT,
    NODE,
    Measurement,
    Peak,
    Trouble,
    estimate_of,
    is_rate,
    is_time,
)
from pytest_accel.core.messages import CallTrouble, Message, Outcome
from pytest_accel.core.method import AS_FOUND
from pytest_accel.core.metric_name import parse
from pytest_accel.core.reasons import Note
from pytest_accel.core.sku_types import Sku
from pytest_accel.core.stats import next_run, significant
from pytest_accel.core.untrusted import BadFile
from pytest_accel.judging.verdicts.limit import MOST_OF_PEAK
from pytest_accel.probes.declare import finder_of
from pytest_accel.probes.request import Request

PeakOf = Callable[[str], "tuple[float, str] | None"]
"""A function that returns the datasheet peak of a metric and its label, or None."""


RESULT_BYTES = untrusted.MIB
"""Size of the largest result of a user's probe that is kept. Ten thousand samples have a fifth of it."""


def per_device(outcome: Outcome, call: Request, peak_of: PeakOf) -> list[Measurement]:
    """Return the measurements of one worker's devices, including what is left of a call that broke."""
    measurements = []
    # narrowed to the time from the first block to the last: outside of it processes start and results are checked
    times = [block["at"] for block in outcome.blocks]
    call = replace(call, started=min(times), ended=max(times)) if len(times) > 1 else call
    for device in outcome.group:
        results = [result for result in outcome.results if result["subject"] in (None, device.uuid)]
        measurements += [_measurement(result, device.uuid, call, peak_of) for result in results]
        if outcome.trouble:  # kept beside the results: a worker that dies after its last result has died
            troubled = _troubled(outcome, outcome.trouble, device.uuid, call)
            measurements.append(_shared(troubled, outcome, call.lost) if len(outcome.group) > 1 else troubled)
    return measurements


def _shared(measurement: Measurement, outcome: Outcome, lost_devices: Mapping[str, str]) -> Measurement:
    """Return the trouble of a process that works for several devices, as it concerns one of them.

    It is attributed to the devices that are lost; if none is, to the devices of the last step that the process began;
    without a step to no device. For the other devices the metric could not be measured, which is a need.
    """
    trouble, step = measurement.trouble, outcome.step
    assert trouble
    if step is None and trouble.kind != "device":
        return measurement
    lost_here = [device for device in outcome.group if device.uuid in lost_devices]
    if measurement.subject in ([device.uuid for device in lost_here] or (step or {}).get("subjects", ())):
        reason = f"{step['what']}: {trouble.reason}" if step else trouble.reason
        return replace(measurement, trouble=replace(trouble, reason=reason))
    names = ", ".join(device.name for device in lost_here)
    step_words = f"(step: {step['what']})" if step else "before its first step"
    cause = f"{names} was lost {step_words}" if lost_here else f"the process broke {step_words}"
    return replace(measurement, trouble=Trouble("need", cause, event=LEFT_OUT, untried=True))


def per_node(outcomes: Sequence[Outcome], call: Request, peak_of: PeakOf) -> list[Measurement]:
    """Return the measurements of a collective: those of its slowest rank, or the trouble of the rank that failed."""
    failures = [(outcome, outcome.trouble) for outcome in outcomes if outcome.trouble and not outcome.trouble.secondary]
    failures.sort(key=lambda pair: pair[0].group[0].uuid not in call.lost)  # others noticed, and may have said so first
    if failures:
        measurement = _troubled(*failures[0], NODE, call)
        assert measurement.trouble
        if not failures[0][1].culprit_unknown and measurement.trouble.kind != "external":
            device = failures[0][0].group[0]
            reason = f"{device.name}: {measurement.trouble.reason}"
            measurement = replace(measurement, trouble=replace(measurement.trouble, reason=reason, blamed=device.uuid))
        return [measurement]
    if not outcomes:
        trouble = Trouble("need", "there is no device to measure")
        return [replace(_bare(call.metric, NODE, call), trouble=trouble)]
    return [
        _slowest([_measurement(result, NODE, call, peak_of) for result in ranks])
        for ranks in zip(*(outcome.results for outcome in outcomes), strict=True)
    ]


def _slowest(ranks: list[Measurement]) -> Measurement:
    """Return the rank with the lowest rate or the longest time; a rank without a number counts as the slowest."""
    sign = 1.0 if is_rate(ranks[0].unit) else -1.0

    def speed(rank: Measurement) -> float:
        value = math.nan if rank.value is None else float(rank.value)
        return -math.inf if math.isnan(value) else sign * value

    slowest = min(ranks, key=speed)
    return replace(slowest, details={**slowest.details, "ranks": [rank.value for rank in ranks]})


def _bare(metric: str, subject: str, call: Request) -> Measurement:
    return Measurement(
        metric=metric,
        subject=subject,
        unit="",
        conditions=call.conditions,
        how=call.how,
        started=call.started,
        ended=call.ended,
    )


def _measurement(result: Message, subject: str, call: Request, peak_of: PeakOf) -> Measurement:
    samples = tuple(result["samples"])
    value = result["value"]
    if value is None and samples:
        value = significant(estimate_of(samples, result["unit"], result["statistic"]).mean)
    ends = [math.inf]
    if call.declaration.packaged:  # a user's probe may have a detail of its own with that name
        ends = result["details"].get("ends") or ends  # a result may be of the first part of the load alone
    trouble = Trouble("device", result["wrong"], wrong=True) if result.get("wrong") else None
    peak = peak_of(result["metric"])
    if not call.declaration.packaged:
        defect, reading_error = _impossible(value, samples, result["unit"], peak), _unreadable(result)
        if reading_error:
            return replace(_bare(_named(result, call), subject, call), trouble=Trouble("bug", defect or reading_error))
        trouble = Trouble("bug", defect) if defect else trouble
    return replace(
        _bare(_named(result, call), subject, call),
        ended=min(call.ended, call.started + ends[-1]),
        unit=result["unit"],
        value=value,
        samples=samples,
        statistic=result["statistic"],
        seconds=tuple(result["seconds"]),
        peak=_peak(result["peak"], peak),
        conditions={**_method(result["metric"], call), **result["conditions"]},
        details=details_of(result["details"], packaged=call.declaration.packaged),
        notes=tuple(Note(note["kind"], note["text"]) for note in result["notes"]),
        trouble=trouble,
    )


def _unreadable(result: Message) -> str | None:
    """Return the reason why a record with the result of a user's probe could not be read again, or None."""
    raw = json.dumps([[[[result]]]]).encode()  # as deep as it would be in a record
    if len(raw) > RESULT_BYTES:
        return f"the probe returned {len(raw):,} bytes; the largest result that is kept has {RESULT_BYTES:,}"
    try:
        untrusted.parse_json(raw, "what the probe returned")
    except BadFile as error:
        return str(error)
    return None


def _impossible(value: float | None, samples: Sequence[float], unit: str, peak: tuple[float, str] | None) -> str | None:
    """Return the reason why no device can have the values that a user's probe returned, or None.

    `peak` is the figure that the probe declares as its peak, and its name. No limit is compared with such a value: it
    says something of the probe, and nothing of the hardware.
    """
    for number in (*samples, *([] if value is None else [value])):
        returned = f"the probe returned {number:.6g}{'' if unit == '1' else f' {unit}'}"
        if not math.isfinite(number) or number < 0:
            return f"{returned}; a measurement is finite and not negative"
        if number == 0 and (is_time(unit) or is_rate(unit)):
            return f"{returned}; a time or a rate is above 0"
    if peak and value and value > MOST_OF_PEAK * peak[0]:
        return f"the probe returned {value:.6g} {unit}, but declares a peak: the {peak[1]}, {peak[0]:.6g} {unit}"
    return None


def _method(metric: str, call: Request) -> dict[str, Any]:
    """Return the method that a packaged probe declares for its main metric, as far as it is known before the run.

    One probe may measure the metric of another: a short soak that of `matmul`.
    """
    declaration = finder_of(str(metric)) or finder_of(parse(str(metric)).base)
    if declaration is None or not declaration.packaged or metric in declaration.also:
        return {}
    if not call.declaration.packaged:  # a user's probe that uses the name of ours
        return {}
    return {key: value for key, value in declaration.method_under(call.conditions).items() if value != AS_FOUND}


def details_of(reported: Details, *, packaged: bool) -> Details:
    """Return the details that a probe reported; those that a probe of the user's own adds are under `own`."""
    if packaged:
        return reported
    keys: dict[str, Any] = dict(reported)
    own_details = {**keys.pop("own", {}), **{key: keys.pop(key) for key in list(keys) if key not in SAMPLED}}
    return typing.cast(Details, {**keys, **({"own": own_details} if own_details else {})})


def of_alone(measurement: Measurement, earlier: Sequence[Measurement]) -> float | None:
    """Return the rate of a host copy on all devices at once as a fraction of the same device's rate alone.

    None for any other measurement. A copy that is slow alone points to the device or its link; one that is slow only
    together points to a shared uplink or the host's memory.
    """
    name = parse(measurement.metric)
    if name.probe != "host_copy_all" or not isinstance(measurement.value, int | float):
        return None
    metric = str(replace(name, probe="host_copy"))
    attempts = [attempt for attempt in earlier if (attempt.metric, attempt.subject) == (metric, measurement.subject)]
    values = [attempt.value for attempt in attempts if isinstance(attempt.value, int | float) and attempt.value > 0]
    return measurement.value / values[-1] if values else None


def compare_checksums(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return the measurements, with a device trouble for each whose checksum differs from the majority's.

    The checksums of one metric are those of the same result on every device of a kind. Without a majority every device
    is suspect, but for one that differs from those alone which are known to compute wrongly.
    """
    groups = grouped((row for row in measurements if _has_checksum(row)), _of_checksum)
    return [_by_majority(row, groups[_of_checksum(row)]) if _has_checksum(row) else row for row in measurements]


def _has_checksum(measurement: Measurement) -> bool:
    return "checksum" in measurement.details and not measurement.trouble


def _of_checksum(measurement: Measurement) -> tuple[str, str]:
    """Return the key of the measurements whose checksums have to be equal."""
    return measurement.metric, measurement.details.get("checksum_of", "")


def _by_majority(measurement: Measurement, group: Sequence[Measurement]) -> Measurement:
    agreeing = sum(other.details["checksum"] == measurement.details["checksum"] for other in group)
    if 2 * agreeing > len(group):
        return measurement
    text = f"its result differs from that of {len(group) - agreeing} of {len(group)} devices"
    return replace(measurement, trouble=Trouble("device", f"{text}, but should be identical to the bit", wrong=True))


def _named(result: Message, call: Request) -> str:
    """Return the metric of a result; conditions that are not the packaged ones add a suffix."""
    name = str(result["metric"])
    return name if name.endswith(call.suffix) else name + call.suffix


def _peak(reported: Mapping[str, Any] | None, datasheet: tuple[float, str] | None) -> Peak | None:
    if reported:
        return Peak(reported["value"], reported["source"], tuple(reported["samples"]), reported["provisional"])
    return Peak(*datasheet) if datasheet else None


def _troubled(outcome: Outcome, cause: CallTrouble, subject: str, call: Request) -> Measurement:
    """Return the measurement of a broken call: the reason, and the seconds per call of the blocks so far."""
    if any(device.uuid in call.lost for device in outcome.group):
        cause = cause.unless_lost or cause  # the management library says what the error left open
    reason = cause.reason
    if cause.event == "crashed":
        reason = f"its worker process died: {reason}"
        if cause.exited and not call.declaration.packaged:  # no signal ended it, so its own code may have
            cause = cause.acquitted("external", reason)
    if outcome.blocks:
        reason += f", after {len(outcome.blocks)} blocks"
    return replace(
        _bare(call.metric, subject, call),
        seconds=tuple(block["seconds"] for block in outcome.blocks),
        trouble=Trouble(cause.kind, reason, cause.event, wrong=cause.wrong, untried=cause.untried),
        details={"traceback": cause.traceback} if cause.traceback else {},
    )


def foreseen(measurement: Measurement, sku: Sku | None) -> Measurement:
    """Return the measurement with the 95 % interval of the next run's value, if the spread of its metric is known."""
    spread, estimate = sku.spread_of(measurement.metric) if sku else None, measurement.estimate
    if spread is None or not spread.between_runs or not spread.runs or estimate is None or measurement.trouble:
        return measurement
    interval = next_run(estimate, spread.between_runs, spread.runs)
    if not math.isfinite(interval.high - interval.low):
        return measurement
    return replace(measurement, next_run=(interval.low, interval.high))
