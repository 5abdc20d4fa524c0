"""Makes the summary of a run, by which later runs know of it and of its figures."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Final

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.run import Run
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import Status
from pytest_accel.judging.verdicts.history import is_baseline, key, plausible, terms_of
from pytest_accel.judging.verdicts.like_devices import value_of

SUMMARY: Final = "summary.json"
DIGITS = 6
"""Significant digits of a figure."""


def summary(run: Run) -> Summary:
    """Return the summary of a run."""
    info, closing = run.info, run.closing
    unjudged = {(verdict.metric, verdict.subject) for verdict in run.verdicts if verdict.status is Status.UNMEASURED}
    return Summary(
        started=info.get("started", ""),
        host=info.get("host", ""),
        job=info["launcher"].job if "launcher" in info else "",
        state=run.state,
        line=closing.line,
        result=closing.result,
        exit=closing.exit if closing.exit >= 0 else None,
        filtered=bool(run.circumstances and run.circumstances.narrowed),
        sku=run.sku.get("name", ""),
        terms=terms_of(info.get("level", ""), info.get("platform", ""), run.software),
        simulated=bool(info.get("simulated")),
        judged_again=bool(run.judged_from),
        devices=[_identity(device) for device in run.devices],
        rejected=run.rejected,
        marked=sorted({verdict.subject for verdict in run.verdicts if verdict.rejects and not verdict.by_own_limit}),
        figures=plausible(_figures(run.measurements, unjudged)) if run.finished else {},
        path=run.path,
    )


def _identity(device: Device) -> Device:
    """Return a device with what identifies it."""
    facts = {"vbios": str(device.facts["vbios"])} if device.facts.get("vbios") else {}
    return replace(device, facts=facts, cpus=())


def _figures(measurements: Iterable[Measurement], unjudged: Container[tuple[str, str]]) -> dict[str, dict[str, float]]:
    """Return the figures of a record that a later run is compared with; of several attempts the last one counts.

    `unjudged` are those that no verdict could judge, such as an implausible value.
    """
    figures: dict[str, dict[str, float]] = {}
    previous: object = None
    name = ""
    for attempt in measurements:
        if is_baseline(attempt) and value_of(attempt) > 0 and (attempt.metric, attempt.subject) not in unjudged:
            method = attempt.metric, attempt.unit, attempt.conditions
            name = name if method == previous else key(attempt)  # like devices follow each other
            figures.setdefault(name, {})[attempt.subject] = float(f"{attempt.value:.{DIGITS}g}")
            previous = method
    return figures
