"""Reads the records of a delivery one by one, and keeps of each what concerns the delivery.

Every record is read whole, and believed only if its parts follow from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pytest_accel.core.fault_codes import of_metric
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.ranking import worst_first
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.summary import Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.fleet.processes import in_processes
from pytest_accel.judging.causes.findings import Finding
from pytest_accel.judging.closing.line import close
from pytest_accel.run import folder_summary, record, summaries
from pytest_accel.run.record import FILE
from pytest_accel.run.record_files import RecordFiles
from pytest_accel.skus.packing_list import VERSIONS

TERMS: Mapping[str, Callable[[Run], object]] = {
    "SKU": lambda run: run.sku.get("name"),
    "platform": lambda run: run.info.get("platform"),
    "level": lambda run: run.info.get("level"),
    "threshold files": lambda run: ", ".join(
        f"{name} {str(sha)[:12]}" for name, sha in sorted(run.sku.get("files", {}).items())
    ),
    "packing list of the runs": lambda run: run.packing_list.get("sha256"),
    "pytest_accel": lambda run: run.software.get("pytest_accel"),
}
"""The terms on which all nodes of one delivery should be judged, each with what reads it from a record."""
AGAIN = "judges another record again ({record}); a delivery counts what the runs themselves judged"

ACCEPTED, REJECTED, OPEN, MISSING = "accepted", "rejected", "not judged", "missing"
"""The results of a node and of a board."""


class Rejection(NamedTuple):
    """A verdict that rejects a device, or the node (`uuid`, `location` are NODE): its code, sentence and next step."""

    uuid: str
    location: str
    serial: str
    metric: str
    title: str
    words: str
    do: str


@dataclass(frozen=True)
class NodeRecord(Summary):
    """The summary of a node's run with what the document of a delivery needs besides."""

    name: str = ""
    """The name that tells it from the other nodes: that of the host, with its folder where several nodes share it."""
    sha256: str = ""
    """The hash that the record states."""
    judged_on: Mapping[str, str] = field(default_factory=dict)
    """The `TERMS` that are known."""
    rejections: Sequence[Rejection] = ()
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The facts by which nodes are compared (`alike.facts_of`), by subject: a UUID, or "node"."""
    demanded: Sequence[str] = ()
    """The facts that the buyer's file demands to be the same on all nodes."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each threshold file that judged it."""
    objection: str = ""
    """The reason why the result of its run does not count here; empty if it does."""
    signed_by: str = ""
    """The name of its signer; empty where no signature was verified."""
    counted: bool = True
    """False for a record in the run of a fleet, whose report does not count it."""
    waived: Sequence[str] = ()
    """The limits that waivers covered."""
    overridden: int = 0
    """The number of limits that are other than those of the shipped threshold file."""
    rejected_before: Sequence[str] = ()
    """The devices that an earlier record rejects, each with the day ("gpu3 on 2026-11-20"), or the record that does."""

    @property
    def accepted(self) -> bool:
        """True if the run accepted the node, and nothing in the record speaks against it. HELD accepts nothing."""
        return self.finished and self.accepts and not self.objection

    @property
    def outcome(self) -> str:
        """The result of the node in the delivery."""
        return REJECTED if self.rejects else ACCEPTED if self.accepted else OPEN

    @property
    def told(self) -> str:
        """Its closing line, with why that does not count here."""
        return f"{self.line}; NOT JUDGED here: {self.objection}" if self.objection else self.line


@dataclass
class Records:
    """The records of a delivery, and the files that could not be used."""

    nodes: list[NodeRecord] = field(default_factory=list)
    """Every record; after `choice.choose` those that count."""
    older: int = 0
    """The records that a newer one of the same node replaces."""
    shared: list[str] = field(default_factory=list)
    """Hosts of which several records with different devices count, each as a node of its own."""
    refused: list[str] = field(default_factory=list)
    """A line, path and reason, on every file that could not be used."""


Examine = Callable[[NodeRecord, Run, RecordFiles], NodeRecord]
"""Returns what the buyer says of a record that was read from these files."""


def read(paths: Sequence[Path], examine: Examine) -> Records:
    """Read and examine records, in several processes if they are many."""
    records = Records()
    for node, reason in in_processes(partial(_read, examine), paths):
        records.nodes += [node] if node else []
        records.refused += [reason] if reason else []
    return records


def _read(examine: Examine, path: Path) -> tuple[NodeRecord | None, str]:
    """Return a record, or why its file could not be used; neither if it does not claim to be a record."""
    try:
        with RecordFiles(path) as files:
            raw = files.record()
            if path.name != FILE and not (isinstance(raw, dict) and "schema" in raw):
                return None, ""
            run = record.parse(raw, files)
            if run.judged_from:
                return None, f"{path}: {AGAIN.format(record=run.judged_from.get('record', 'not named'))}"
            # The record itself is dropped: it holds some hundred samples for each figure, and those of a thousand nodes
            # do not fit into memory.
            return examine(_node(run), run, files), ""
    except BadFile as bad:
        return None, str(bad)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        return None, f"{path}: is damaged: {type(error).__name__}: {error}"


def _node(run: Run) -> NodeRecord:
    """Return the part of a record that concerns the delivery. Raises what access to a missing part of it raises."""
    circumstances, summary = run.circumstances or Circumstances(), summaries.summary(run)
    reported = folder_summary.of_series(summary, run)
    is_complete = run.finished and reported is summary
    line = close(run.verdicts, circumstances).line if is_complete else reported.line or "the run did not end"
    names = ("unread", *VERSIONS)  # what a packing list is compared with
    stripped = [replace(device, facts={name: device.facts.get(name) or {} for name in names}) for device in run.devices]
    devices = sorted(stripped, key=lambda device: device.index)
    return NodeRecord(
        **{**vars(reported), "line": line, "devices": devices},
        name=run.host,
        sha256=run.sha256,
        judged_on={name: str(value) for name, read in TERMS.items() if (value := read(run))},
        rejections=list(_rejections(run)),
        files=run.sku.get("files", {}),
        objection=f"the record is not believed: {run.objections[0]}" if run.objections else "",
        waived=list(dict.fromkeys(verdict.metric for verdict in run.verdicts if verdict.waiver)),
        overridden=circumstances.overridden,
        rejected_before=circumstances.rejected_before,
    )


def judged_again(node: NodeRecord, rejudged: Run, words: str) -> NodeRecord:
    """Return a record with what its measurements are by the buyer's limits.

    `words` say which files judged it otherwise, and how it closes by the buyer's; empty if it closes as it states. They
    may reject it, and accept nothing.
    """
    judged = replace(node, rejections=list(_rejections(rejudged)))
    by_buyer = replace(judged, result=rejudged.result, line=words)
    return by_buyer if words and by_buyer.rejects else replace(judged, objection=words)


def _rejections(run: Run) -> Iterator[Rejection]:
    """Yield the verdicts that reject, worst first; the rejections of one board are together."""
    rejecting = worst_first([verdict for verdict in run.verdicts if verdict.rejects])
    findings = record.findings_of(run) if rejecting else {}
    devices = {device.uuid: device for device in run.devices}
    for uuid, of_board in grouped(rejecting, lambda verdict: verdict.culprit).items():
        device = devices.get(uuid)
        position, serial = (location_of(device), device.serial or "") if device else (NODE, "")
        for verdict, *_ in grouped(of_board, lambda verdict: (verdict.metric, verdict.subject)).values():
            code = of_metric(verdict.metric)
            # A wrong product has few findings.
            finding = findings.get(verdict.key) or Finding(code, code.severity, code.do)
            title = f"{finding.code} {finding.fault_code.name}"
            yield Rejection(uuid, position, serial, verdict.metric, title, sentence_of(verdict), finding.next_step)


def location_of(device: Device) -> str:
    """Return the location of a device in its node: "gpu3 (0000:1b:00.0)"."""
    return f"{device.name} ({device.pci_address})" if device.pci_address else device.name
