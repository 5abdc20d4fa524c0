"""The threshold files and the signers by which the buyer of a delivery accepts a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pytest_accel.cli import rejudge
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import DELIVERY, Sku
from pytest_accel.core.words import listed
from pytest_accel.fleet.delivery import alike
from pytest_accel.fleet.delivery.records import NodeRecord, judged_again
from pytest_accel.run import signature
from pytest_accel.run.record import FILE
from pytest_accel.run.record_files import RecordFiles
from pytest_accel.run.signature import Trust
from pytest_accel.run.statement import SUMS
from pytest_accel.run.terms import TermOptions
from pytest_accel.skus import loader

LONGEST = 300
"""Characters of the longest closing line that is shown in full."""
UNSIGNED = "as stated by the supplier, unsigned"


@dataclass(frozen=True)
class Buyer:
    """The buyer's threshold file (None for the shipped one of each record's SKU), and whose signatures count."""

    sku: Sku | None
    trust: Trust | None

    def examined(self, node_record: NodeRecord, run: Run, files: RecordFiles) -> NodeRecord:
        """Return a record with its signer. It accepts nothing unless it is proven, and judged by the buyer's files.

        What it rejects stays rejected. `run` is what was read from its `files`.
        """
        judged = self._judged(node_record, run)
        signer, not_proven = self._signer(run, files)
        if not judged.rejects and (node_record.accepted or node_record.objection):
            judged = replace(judged, objection="; ".join(filter(None, [judged.objection, not_proven])))
        facts = self._demanded(run)
        return replace(judged, signed_by=signer, demanded=facts, facts=alike.facts_of(run, facts))

    def _demanded(self, run: Run) -> list[str]:
        """Return the facts that the buyer's file demands to be the same on all nodes of the delivery."""
        platform = self.sku.platform_named(str(run.info.get("platform"))) if self.sku else None
        limits = self.sku.limits_on(platform) if self.sku and platform else {}
        return [metric for metric, limit in limits.items() if limit.same_on_all == DELIVERY and not limit.warns]

    def _signer(self, run: Run, files: RecordFiles) -> tuple[str, str]:
        """Return who signed a record, and why it is not proven; empty if it is."""
        if self.trust is None:
            return "", f"{UNSIGNED} (--allowed-signers names who may sign)"
        if files.path.name != FILE or not files.has(f"{SUMS}.sig"):  # the sums name no other record
            return "", UNSIGNED
        proof = signature.verify(files, self.trust, run)
        return proof.signer, f"it is not proven: {proof.objections[0]}" if proof.objections else ""

    def _judged(self, node_record: NodeRecord, run: Run) -> NodeRecord:
        """Return a record; one that other limits than the buyer's judged with what those say of its measurements."""
        if node_record.rejects or node_record.objection:
            return node_record
        sku = self.sku or _shipped(node_record.sku)
        if sku is None:
            unknown = f"made as {node_record.sku}, which is no shipped SKU (--sku names the buyer's threshold file)"
            return replace(node_record, objection=unknown) if node_record.accepts else node_record
        same_files = set(node_record.files.values()) == set(sku.files.values())
        origin = "it is judged otherwise by the files that it states" if same_files else _made(node_record.files, sku)
        try:
            rejudged = rejudge.judge_again(run, rejudge.terms_of(TermOptions(sku.name, prefix="--"), sku, run))
        except WrongUse as error:
            return replace(node_record, objection=f"{origin}, which cannot judge it: {error}")
        line = printable(rejudged.closing.line.removeprefix(f"{rejudge.AGAIN} "), LONGEST)
        unchanged = same_files and rejudged.result is run.result
        return judged_again(node_record, rejudged, "" if unchanged else f"{origin}; by the buyer's limits: {line}")


@cache
def _shipped(name: str) -> Sku | None:
    """Return a shipped SKU; None for any other name, which is never taken as that of a file."""
    return loader.load(name) if name in loader.names() else None


def _made(files: Mapping[str, str], sku: Sku) -> str:
    """Return the names of the files that made a record, and of the buyer's."""
    shipped = f"{sku.name}.yaml"
    files_made, buyers = _apart(files, sku.files, shipped), _apart(sku.files, files, sku.own_file or shipped)
    return f"made by {files_made}, not the buyer's {buyers}"


def _apart(files: Mapping[str, str], others: Mapping[str, str], whole: str) -> str:
    """Return the files that are not among the others; the whole one if all are."""
    apart = {name: sha256 for name, sha256 in files.items() if sha256 not in others.values()}
    named = apart or {whole: files.get(whole, "no hash")}
    return listed([f"{Path(name).name} {sha256[:12]}" for name, sha256 in named.items()])
