"""A record in the format of OCP Test & Validation: JSON Lines of specification 2.0.

https://github.com/opencomputeproject/ocp-diag-core (json_spec). The package `ocptv` writes the same lines while a test
runs, with the time of writing. Here the run is over, so the lines are made from the record, with its times.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Device, finite
from pytest_accel.core.metrics import parse
from pytest_accel.core.printable import printable_data
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.causes.findings import Finding
from pytest_accel.run.record import findings_of
from pytest_accel.views.exports.figures import device_names, seconds_of

VERSION: Final = {"major": 2, "minor": 0}
TYPES: Final = {
    Status.PASS: "PASS",
    Status.MARGINAL: "PASS",
    Status.FAIL: "FAIL",
    Status.UNMEASURED: "UNKNOWN",
    Status.INCONCLUSIVE: "UNKNOWN",
}
"""The type of the diagnosis for each status; what does not apply has none."""
DUT: Final = "node"
KINDS: Final = {"vbios": "FIRMWARE", "gsp_firmware": "FIRMWARE", "kernel": "SYSTEM", "driver": "SYSTEM"}
"""The kind of each software of the record in the words of the specification, if it is no application."""
LONG: Final = 2000
"""Characters of the longest text."""

Span = tuple[float, float]
"""Begin and end in seconds since the epoch."""
Artifact = tuple[float, dict[str, Any]]
"""A line without its number, and its time in seconds since the epoch."""


def text(record: Run) -> str:
    """Return a record as JSON Lines."""
    lines = []
    latest = 0.0
    for number, (at, artifact) in enumerate(_artifacts(record)):
        latest = max(latest, at)  # a line is never older than the one before
        moment = datetime.fromtimestamp(latest, timezone.utc).isoformat(timespec="microseconds")
        line = {**printable_data(artifact, LONG), "sequenceNumber": number, "timestamp": moment.replace("+00:00", "Z")}
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)


def _artifacts(record: Run) -> Iterator[Artifact]:
    """Return the lines of a record in order: the run, a step for every probe, the closing line."""
    started = seconds_of(record.run.get("started")) or 0.0
    yield started, {"schemaVersion": VERSION}
    yield started, {"testRunArtifact": {"testRunStart": _start(record)}}
    found, names = findings_of(record), device_names(record)
    times = {(each.metric, each.subject): (each.started, each.ended) for each in record.measurements}
    told = [
        (each, times.get((each.metric, each.subject), (0.0, 0.0)), _diagnosis(each, found.get(each.key), names))
        for each in record.verdicts
    ]
    steps = grouped(told, lambda one: parse(one[0].metric).probe)
    by_end = sorted(steps.items(), key=lambda step: max(end for _, (_, end), _ in step[1]))
    for number, (probe, own) in enumerate(by_end):
        yield from _step(str(number), probe, own)
    ended = seconds_of(record.run.get("ended")) or 0.0
    status, result = _result(record)
    message = {"severity": "INFO", "message": record.closing.line or "The run did not end."}
    yield ended, {"testRunArtifact": {"log": message}}
    yield ended, {"testRunArtifact": {"testRunEnd": {"status": status, "result": result}}}


def _step(number: str, probe: str, told: Sequence[tuple[Verdict, Span, dict[str, Any]]]) -> Iterator[Artifact]:
    """Return the lines of a probe: its measurements with their limits, and the diagnoses."""

    def at(moment: float, **artifact: Any) -> Artifact:
        return moment, {"testStepArtifact": {"testStepId": number, **artifact}}

    yield at(min(start for _, (start, _), _ in told), testStepStart={"name": probe})
    for verdict, (_, ended), diagnosis in told:
        if verdict.value is not None:
            yield at(ended, measurement=_measurement(verdict))
        if verdict.status in TYPES:
            yield at(ended, diagnosis=diagnosis)
    yield at(max(end for _, (_, end), _ in told), testStepEnd={"status": "COMPLETE"})


def _measurement(verdict: Verdict) -> dict[str, Any]:
    """Return a measurement with validators for the limits that judged it."""
    bounds = [
        ("floor", "GREATER_THAN_OR_EQUAL", verdict.floor),
        ("ceiling", "LESS_THAN_OR_EQUAL", verdict.ceiling),
        ("expected", "EQUAL", verdict.expected),
    ]
    validators = [
        {"name": name, "type": kind, "value": _value(bound)} for name, kind, bound in bounds if bound is not None
    ]
    limit_from = verdict.limit.origin if verdict.limit else None
    metadata = {"status": verdict.status.value, "limit_from": limit_from, "margin": finite(verdict.margin)}
    return {
        "name": verdict.metric,
        "value": _value(verdict.value),
        **({"unit": verdict.unit} if verdict.unit else {}),
        **({"validators": validators} if validators else {}),
        "hardwareInfoId": verdict.subject,
        "metadata": {name: each for name, each in metadata.items() if each is not None},
    }


def _diagnosis(verdict: Verdict, finding: Finding | None, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the diagnosis of a verdict; its short text is the fault code, or the metric that passes."""
    parts = [f"{names[verdict.subject]} {verdict.metric} {verdict.status.value}: {sentence_of(verdict)}."]
    if finding:
        vendor = f" {finding.vendor};" if finding.vendor else ""
        parts.append(f"Next ({finding.severity.value}):{vendor} {finding.do}.")
    if waiver := verdict.waiver:
        parts.append(f"Waived by {waiver.by} until {waiver.until}: {waiver.reason}.")
    short = f"{finding.code}-{finding.fault.name}" if finding else f"{verdict.metric}-pass"
    kind = TYPES.get(verdict.status, "UNKNOWN")
    return {"verdict": short, "type": kind, "message": " ".join(parts), "hardwareInfoId": verdict.subject}


def _start(record: Run) -> dict[str, Any]:
    """Return the beginning of the run: command, terms, and what was tested."""
    run = record.run
    terms = {"sku": record.sku.get("name"), "platform": run.get("platform"), "level": run.get("level")}
    return {
        "name": "pytest-accel" + (" (SIMULATED)" if "simulated" in run else ""),
        "version": record.software.get("pytest_accel", "unknown"),
        "commandLine": shlex.join(run.get("command", [])),
        "parameters": {name: each for name, each in terms.items() if each},
        "dutInfo": _dut(record),
        "metadata": {
            "simulated": "simulated" in run,
            "record": run.get("output", ""),
            "recordSha256": record.sha256,
        },
    }


def _dut(record: Run) -> dict[str, Any]:
    """Return the node: its software, and its hardware with serial numbers.

    Verdicts on subjects that are no devices of the record, such as missing ones, refer to hardware as well.
    """
    hardware = {NODE: {"name": record.run.get("host", NODE), "hardwareInfoId": NODE, "partType": "node"}}
    hardware |= {device.uuid: _hardware(device) for device in record.devices}
    for verdict in record.verdicts:
        hardware.setdefault(verdict.subject, {"name": verdict.subject, "hardwareInfoId": verdict.subject})
    software = [
        {"softwareInfoId": name, "name": name, "version": str(version), "softwareType": KINDS.get(name, "APPLICATION")}
        for name, version in record.software.items()
        if version is not None
    ]
    return {
        "dutInfoId": DUT,
        "name": record.run.get("host", ""),
        "platformInfos": [{"info": record.run.get("platform", "unknown")}],
        "softwareInfos": software,
        "hardwareInfos": list(hardware.values()),
    }


def _hardware(device: Device) -> dict[str, str]:
    """Return a device as hardware."""
    facts = device.facts
    known = {
        "serialNumber": device.serial,
        "partNumber": facts.get("board_part"),
        "location": device.pci_address,
        "version": facts.get("vbios"),
        "manufacturer": device.driver,
    }
    stated = {name: str(each) for name, each in known.items() if each}
    name = f"{device.name} {device.product}"
    return {"name": name, "hardwareInfoId": device.uuid, "partType": "accelerator", **stated}


def _result(record: Run) -> tuple[str, str]:
    """Return status and result of the run. It passes only where its exit status is 0.

    A run that judged too little to pass is skipped; one that was interrupted, broke or did not end has an error.
    """
    if record.closing.exit == 0:
        return "COMPLETE", "PASS"
    if record.closing.word == "REJECTED":
        return "COMPLETE", "FAIL"
    judged = record.closing.word in ("HELD", "NOT JUDGED")
    return "SKIP" if judged else "ERROR", "NOT_APPLICABLE"


def _value(value: Any) -> Any:
    """Return a value as JSON has it; a number that is not finite becomes text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
