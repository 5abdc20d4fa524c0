"""Reads the records of a delivery one by one, and keeps of each what concerns the delivery.

A record holds some hundred samples for each figure. The records of a thousand nodes do not fit into memory.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pytest_accel.core import simulated, untrusted
from pytest_accel.core.measurement import Device
from pytest_accel.core.sku import DeclaredBy
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Status
from pytest_accel.judging.fault_codes import of_metric
from pytest_accel.probes.declare import declaration_of
from pytest_accel.run import node_results, summaries
from pytest_accel.run.record import FILE, READABLE, seal
from pytest_accel.run.summaries import Summary

ACCEPTED = "ACCEPTED"
"""The word of a run that accepts its node."""
TERMS = (
    "contract",
    "SKU",
    "platform",
    "level",
    "thresholds",
    "threshold files",
    "packing list of the runs",
    "pytest_accel",
    "torch",
    "driver",
)
"""The terms on which all nodes of one delivery should be judged."""
AGAIN = "judges another record again ({record}); a delivery counts what the runs themselves judged"
BEGIN, END = b'\n"measurements": [\n', b"\n],\n"
"""The beginning and the end of the measurements in the file of a record, which has a line for each."""
MANY, CHUNK = 100, 20
"""Records from which on several processes read them, and how many each takes at a time."""
UNJUDGED = Status.UNMEASURED.value
HOLDS = (Status.PASS.value, Status.MARGINAL.value)
NOT_FIGURES = ("text", "version", "count")
"""Units of values that have no distribution."""


@dataclass(frozen=True)
class Fault:
    """A verdict that rejects a device, or the node (`uuid` is NODE): its fault code, sentence and next step."""

    uuid: str
    metric: str
    code: str
    title: str
    words: str
    do: str
    severity: str = ""


@dataclass(frozen=True)
class NodeRecord:
    """The part of a node's record that the document of a delivery needs."""

    path: str
    host: str
    """The name of the node, as its run states it."""
    node: str
    """The name that tells it from the other nodes: that of the host, with its folder where several nodes share it."""
    started: str
    exit: int | None
    """The exit status of the run; None if it did not end."""
    word: str
    line: str
    simulated: bool
    sha256: str
    """The hash that the record states."""
    changed: bool | None
    """True if it does not fit what the record holds; None if that was not checked."""
    summary: Summary = field(default_factory=Summary)
    """Time, result and exit status of the run, by which the records that count are chosen."""
    devices: Sequence[Device] = ()
    terms: Mapping[str, str] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    marginal: frozenset[str] = frozenset()
    """UUIDs of the devices with a MARGINAL verdict."""
    figures: Sequence[tuple[str, str, str, float, str]] = ()
    """Metric, unit, subject, value, and the key of the limit among `Records.limits` (empty without one)."""
    objection: str = ""
    """Why the node is not accepted here though its run accepted it, in words; empty if it is."""
    waived: Sequence[str] = ()
    """The limits that waivers covered."""
    overridden: int = 0
    """The number of limits that are other than those of the shipped threshold file."""
    rejected_before: Sequence[str] = ()
    """The devices that an earlier record rejects, each with the day: "gpu3 on 2026-11-20"."""

    @property
    def accepted(self) -> bool:
        """True if the run accepted the node, and nothing in the record speaks against it. HELD accepts nothing."""
        return self.exit == 0 and self.word == ACCEPTED and not self.changed and not self.objection


@dataclass
class Records:
    """The records of a delivery, the limits that they hold, and the files that could not be used."""

    nodes: list[NodeRecord] = field(default_factory=list)
    """Every record; after `choice.choose` those that count."""
    limits: dict[str, Any] = field(default_factory=dict)
    """Each limit as the records hold it, by its JSON text."""
    older: int = 0
    """The records that a newer one of the same node replaces."""
    rejected_before: list[str] = field(default_factory=list)
    """Nodes whose newest record does not reject, and of which an older one does."""
    shared: list[str] = field(default_factory=list)
    """Hosts of which several records with different devices count, each as a node of its own."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Path and reason of every file that could not be used."""


def read(paths: Sequence[Path], *, verify: bool = False) -> Records:
    """Read records, in several processes if they are many.

    With `verify` the hash of every record is checked, which needs all of it; else the samples are not read.
    """
    found = Records()
    for path, one, limits, why in _read_each(paths, partial(_read, verify=verify)):
        if one is None:
            found.refused += [(str(path), why)] if why else []
            continue
        found.limits |= limits
        found.nodes.append(one)
    return found


Read = tuple[Path, "NodeRecord | None", dict[str, Any], str]
"""The path of a file, what is kept of its record, its limits, and the reason why it could not be used.

Without record and reason the file is none, and does not claim to be one.
"""


def _read_each(paths: Sequence[Path], one: Callable[[Path], Read]) -> Iterator[Read]:
    """Yield what is kept of each record."""
    processes = len(os.sched_getaffinity(0))
    if len(paths) < MANY or processes < 2:
        yield from map(one, paths)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, paths, chunksize=CHUNK)


def _read(path: Path, *, verify: bool) -> Read:
    limits: dict[str, Any] = {}
    try:
        return path, _kept(path, limits, verify=verify), limits, ""
    except _NoRecord:
        return path, None, {}, ""
    except BadFile as bad:
        return path, None, {}, str(bad).removeprefix(f"{path}: ")


class _NoRecord(Exception):
    """A JSON file is something else than a record."""


def _kept(path: Path, limits: dict[str, Any], *, verify: bool) -> NodeRecord:
    """Return what is kept of one record, and add its limits. Raises BadFile or _NoRecord."""
    text = untrusted.read_bytes(path)
    raw = untrusted.parse_json(text if verify else _without_measurements(text), str(path))
    if path.name != FILE and not (isinstance(raw, dict) and "schema" in raw):
        raise _NoRecord
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if schema not in READABLE or isinstance(schema, bool):
        raise BadFile(f"{path}: is not a record of pytest-accel that this version reads")
    try:
        if raw.get("judged_from"):
            raise BadFile(f"{path}: {AGAIN.format(record=raw['judged_from'].get('record', 'not named'))}")
        return _node(path, raw, limits, verify=verify)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise BadFile(f"{path}: is damaged: {type(error).__name__}: {error}") from None


def _without_measurements(text: bytes) -> bytes:
    """Return a record without its measurements, which hold the samples; another layout than ours as it is."""
    begin = text.find(BEGIN)
    end = text.find(END, begin) if begin >= 0 else -1
    if end < 0 or text.count(BEGIN) > 1:
        return text
    return text[:begin] + BEGIN + text[end + 1 :]


def _node(path: Path, raw: Mapping[str, Any], limits: dict[str, Any], *, verify: bool) -> NodeRecord:
    """Return what is kept of the content of a record. Raises what access to a missing part of it raises."""
    run, closing, around = raw["run"], raw.get("closing") or {}, raw.get("circumstances") or {}
    devices = sorted((_device(each) for each in raw["devices"]), key=lambda device: device.index)
    verdicts = [each for each in raw.get("verdicts", ()) if isinstance(each, dict)]
    own = [_key(each, limits) for each in raw.get("limits", ())]
    ended = closing.get("exit") if raw.get("state") == "finished" else None
    waived = {str(each["metric"]): None for each in verdicts if each.get("waiver")}
    told = summaries.summary({**raw, "measurements": ()})
    return NodeRecord(
        path=str(path),
        host=str(run["host"]),
        node=str(run["host"]),
        started=str(run.get("started") or ""),
        exit=ended if isinstance(ended, int) and not isinstance(ended, bool) else None,
        word=str(closing.get("word") or raw.get("state") or ""),
        line=str(closing.get("line") or "the run did not end"),
        simulated=bool(run.get("simulated")) or any(map(simulated.shown_by, devices)),
        sha256=str(raw.get("sha256") or ""),
        changed=seal(raw) != raw.get("sha256") if verify else None,
        summary=told,
        devices=devices,
        terms=_terms(raw),
        faults=list(_faults(verdicts, raw.get("findings", ()))),
        marginal=frozenset(str(each["subject"]) for each in verdicts if each["status"] == Status.MARGINAL.value),
        figures=list(_figures(verdicts, own, limits)),
        objection=_contradiction(told, devices, verdicts) if closing.get("word") == ACCEPTED else "",
        waived=list(waived),
        overridden=int(around.get("overridden") or 0),
        rejected_before=[str(each) for each in around.get("rejected_before") or ()],
    )


def _contradiction(told: Summary, devices: Sequence[Device], verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return why these verdicts cannot be those of an accepted node, empty if they can."""
    failed = [each for each in verdicts if _fails(each)]
    judged = {each["subject"] for each in verdicts if each["status"] in HOLDS and each.get("limit") is not None}
    bare = [each.name for each in devices if each.uuid not in judged]
    why = (
        node_results.contradiction(told),
        f"{failed[0]['metric']} is {failed[0]['status']}" if failed else "",
        "" if devices else "it holds no device",
        f"no limit was judged on {', '.join(bare)}" if bare else "",
    )
    return next((f"the record contradicts itself: {each}" for each in why if each), "")


def _device(raw: Mapping[str, Any]) -> Device:
    """Return a device with what identifies it."""
    return Device(
        uuid=str(raw["uuid"]),
        index=int(raw["index"]),
        driver=str(raw["driver"]),
        model=str(raw["model"]),
        serial=str(raw["serial"]) if raw.get("serial") else None,
        pci_address=str(raw["pci_address"]) if raw.get("pci_address") else None,
        called=str(raw.get("called") or "gpu"),
        facts={"unread": dict((raw.get("facts") or {}).get("unread") or {})},
    )


def _terms(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the terms of a record that are known, by their names in `TERMS`."""
    run, sku, software = raw["run"], raw.get("sku") or {}, raw.get("software") or {}
    shipped = sku.get("files") or {}
    known = {
        "contract": (sku.get("contract") or {}).get("sha256"),
        "SKU": sku.get("name"),
        "platform": run.get("platform"),
        "level": run.get("level"),
        "thresholds": sku.get("thresholds"),
        "threshold files": ", ".join(f"{name} {str(sha)[:12]}" for name, sha in sorted(shipped.items())),
        "packing list of the runs": (raw.get("packing_list") or {}).get("sha256"),
        "pytest_accel": software.get("pytest_accel"),
        "torch": software.get("torch"),
        "driver": software.get("driver"),
    }
    return {name: str(known[name]) for name in TERMS if known[name]}


def _faults(verdicts: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    """Yield the verdicts that reject, in the order of the record's findings, worst first."""
    failed = {(str(each["metric"]), str(each["subject"])): each for each in verdicts if _fails(each)}
    for each in findings:
        verdict = failed.pop((str(each["metric"]), str(each["subject"])), None)
        if verdict is not None:
            title = f"{each['code']} {each['name']}"
            yield _fault(verdict, str(each["code"]), title, str(each["do"]), str(each["severity"]))
    for verdict in failed.values():  # of a record that is older than fault codes
        code = of_metric(str(verdict["metric"]))
        yield _fault(verdict, code.code, f"{code.code} {code.name}", code.do, code.severity.value)


def _fails(verdict: Mapping[str, Any]) -> bool:
    return verdict["status"] == Status.FAIL.value and not verdict.get("waiver")


def _fault(verdict: Mapping[str, Any], code: str, title: str, do: str, severity: str) -> Fault:
    subject = str(verdict.get("blamed") or verdict["subject"])
    return Fault(subject, str(verdict["metric"]), code, title, str(verdict["sentence"]), do, severity)


def _key(limit: Any, limits: dict[str, Any]) -> str:
    """Return the key of a limit, and keep the limit under it."""
    text = json.dumps(limit, sort_keys=True)
    limits.setdefault(text, limit)
    return text


def _figures(
    verdicts: Sequence[Mapping[str, Any]], own: Sequence[str], limits: dict[str, Any]
) -> Iterator[tuple[str, str, str, float, str]]:
    """Yield the measured figures of a record: those that have a distribution over devices, each once.

    A value that a verdict left unjudged, such as an implausible one, is no figure.
    """
    seen = {(str(each["metric"]), str(each["subject"])) for each in verdicts if each["status"] == UNJUDGED}
    for each in verdicts:
        metric, subject, unit = str(each["metric"]), str(each["subject"]), str(each.get("unit", ""))
        value: Any = each.get("value")
        limit = each.get("limit")
        key = "" if limit is None else own[limit] if isinstance(limit, int) else _key(limit, limits)
        by_marker = bool(key) and limits[key].get("declared_by") == DeclaredBy.MARKER.value
        if (metric, subject) in seen or by_marker or not _is_figure(metric, unit, value):
            continue
        seen.add((metric, subject))
        yield metric, unit, subject, float(value), key


def _is_figure(metric: str, unit: str, value: Any) -> bool:
    declared = declaration_of(metric)
    if unit in NOT_FIGURES or (declared and declared.fact) or isinstance(value, bool):
        return False
    return isinstance(value, int | float) and math.isfinite(value)


def place_of(device: Device) -> str:
    """Return the place of a device in its node: "gpu3 (0000:1b:00.0)"."""
    return f"{device.name} ({device.pci_address})" if device.pci_address else device.name
