"""The summary of a record, a small file beside it by which later runs know of the run and of its figures.

A summary is written by us and read as somebody else's text: whoever can write into the folder can change it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from datetime import datetime, timezone
from typing import Any, Final, TypedDict, cast

from pytest_accel.core.details import Details
from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.verdict import Status
from pytest_accel.judging.history import TERMS, EarlierRun, KnownDevice, kept, key_of, plausible, terms_of
from pytest_accel.judging.like_devices import value_of

SCHEMA: Final = 2
SUMMARY = "summary.json"
DIGITS = 6
"""Significant digits of a figure."""


class SummaryDevice(TypedDict, total=False):
    """A device in the summary of a record."""

    uuid: str
    model: str
    driver: str
    serial: str | None
    slot: str | None
    """Its PCI address."""
    vbios: str | None


class Summary(TypedDict, total=False):
    """What a later run has to know of a record, beside which it lies."""

    schema: int
    started: str
    host: str
    job: str
    """The id of the job that a launcher ran it in; empty without one, and in summaries of older versions."""
    state: str
    line: str
    """The closing line; empty until the run has ended."""
    exit: int | None
    """The exit status of the run; None until it has ended, and in summaries of older versions."""
    word: str
    """The result, such as ACCEPTED; empty until the run has ended, and in summaries of older versions."""
    filtered: bool
    """True if the run measured less than the level has."""
    sku: str
    terms: dict[str, str]
    """Level, platform and software (`judging.history.TERMS`), as far as they are known."""
    simulated: bool
    judged_again: bool
    devices: list[SummaryDevice]
    rejected: list[str]
    """UUIDs of the devices that the record rejects, or "node" for what concerns all."""
    figures: dict[str, dict[str, float]]
    """The value of each metric of each device (UUID, or "node"), by `judging.history.key`; empty until the run has
    ended."""


def summary(raw: Mapping[str, Any]) -> Summary:
    """Return the summary of the content of a record, of any version.

    Raises KeyError, TypeError, AttributeError or ValueError for a content that is no record.
    """
    run, closing, software = raw["run"], raw.get("closing") or {}, raw.get("software") or {}
    circumstances, ended = raw.get("circumstances") or {}, raw.get("state") == "finished"
    rejected = {
        str(each["subject"])
        for each in raw.get("verdicts", ())
        if each["status"] == Status.FAIL.value and not each.get("waiver")
    }
    return {
        "schema": SCHEMA,
        "started": str(run.get("started") or ""),
        "host": str(run.get("host") or ""),
        "job": str((run.get("launcher") or {}).get("job") or ""),
        "state": str(raw.get("state") or ""),
        "line": str(closing.get("line") or ""),
        "word": str(closing.get("word") or ""),
        "exit": _exit(closing.get("exit")),
        "filtered": bool(circumstances.get("filtered")),
        "sku": str((raw.get("sku") or {}).get("name") or ""),
        "terms": terms_of(str(run.get("level") or ""), str(run.get("platform") or ""), software),
        "simulated": bool(run.get("simulated")),
        "judged_again": bool(raw.get("judged_from")),
        "devices": [
            _device(each, each.get("pci_address"), (each.get("facts") or {}).get("vbios")) for each in raw["devices"]
        ],
        "rejected": sorted(rejected),
        "figures": plausible(_figures(raw.get("measurements", ()), _unjudged(raw))) if ended else {},
    }


def _exit(value: Any) -> int | None:
    """Return the exit status of a run, None if it is not known."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _unjudged(raw: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return metric and subject of the verdicts that found nothing to judge, such as an implausible value."""
    found = (each for each in raw.get("verdicts", ()) if each["status"] == Status.UNMEASURED.value)
    return {(str(each["metric"]), str(each["subject"])) for each in found}


def _device(raw: Mapping[str, Any], slot: Any, vbios: Any) -> SummaryDevice:
    known = {"serial": raw.get("serial"), "slot": slot, "vbios": vbios}
    return {
        "uuid": str(raw["uuid"]),
        "model": str(raw["model"]),
        "driver": str(raw["driver"]),
        **{name: str(value) for name, value in known.items() if value},  # type: ignore[typeddict-item]
    }


def _figures(measurements: Any, unjudged: Container[tuple[str, str]]) -> dict[str, dict[str, float]]:
    """Return the figures of a record that a later run is compared with; of several attempts the last one counts."""
    figures: dict[str, dict[str, float]] = {}
    for raw in measurements:
        if (raw.get("details") or {}).get("round"):  # a later round of a long run, of which only bad ones are held
            continue
        one = Measurement(
            metric=str(raw["metric"]),
            subject=str(raw["subject"]),
            unit=str(raw["unit"]),
            value=raw.get("value"),
            conditions=raw.get("conditions") or {},
            trouble=Trouble("need", "") if raw.get("trouble") else None,
            disturbance=raw.get("disturbance"),
            how=str(raw.get("how") or "together"),
            details=cast("Details", raw.get("details") or {}),
        )
        if kept(one) and value_of(one) > 0 and (one.metric, one.subject) not in unjudged:
            name = key_of(one.metric, one.unit, one.conditions)
            figures.setdefault(name, {})[one.subject] = float(f"{raw['value']:.{DIGITS}g}")
    return figures


def moment(text: str) -> datetime | None:
    """Return a time of ISO 8601, in UTC if it names no zone; None for any other text."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def checked(raw: Any) -> Summary:
    """Return a summary as it was read. Raises KeyError, TypeError, AttributeError or ValueError for anything else."""
    return {
        "schema": SCHEMA,
        "started": _time(raw["started"]),
        "host": str(raw["host"]),
        "job": str(raw.get("job", "")),
        "state": str(raw["state"]),
        "line": str(raw["line"]),
        "word": str(raw.get("word", "")),
        "exit": _exit(raw.get("exit")),
        "filtered": bool(raw.get("filtered", False)),
        "sku": str(raw.get("sku", "")),
        "terms": {name: str(value) for name, value in raw.get("terms", {}).items() if name in TERMS},
        "simulated": bool(raw["simulated"]),
        "judged_again": bool(raw["judged_again"]),
        "devices": [_device(each, each.get("slot"), each.get("vbios")) for each in raw["devices"]],
        "rejected": [str(each) for each in raw["rejected"]],
        "figures": {
            str(name): {str(subject): _value(value) for subject, value in values.items()}
            for name, values in raw.get("figures", {}).items()
        },
    }


def _time(value: Any) -> str:
    """Return when a run began; empty if it has not. Raises ValueError for other text, since runs are ordered by it."""
    if value != "" and moment(str(value)) is None:
        raise ValueError(value)
    return str(value)


def _value(value: Any) -> float:
    """Return a figure. Raises ValueError for anything but a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise ValueError(value)
    return float(value)


def run_of(path: str, found: Summary) -> EarlierRun:
    """Return the earlier run that a summary tells of."""
    devices = {
        each["uuid"]: KnownDevice(each["uuid"], each.get("serial"), each.get("slot"), each.get("vbios"))
        for each in found["devices"]
    }
    return EarlierRun(path, found["started"], found["word"], found["terms"], devices, found["figures"])


def is_history(found: Summary, sku: str, simulated: bool) -> bool:
    """Return True for a complete run that judged the devices as the same SKU; filtered and re-judged ones are none.

    Runs of simulated nodes are the history of simulated nodes.
    """
    complete = found["state"] == "finished" and bool(found["word"]) and not found["filtered"]
    return complete and not found["judged_again"] and found["sku"] == sku and found["simulated"] == simulated
