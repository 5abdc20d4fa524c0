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
from pytest_accel.core.sku import DELIVERY, Sku
from pytest_accel.core.words import listed
from pytest_accel.fleet.delivery import alike
from pytest_accel.fleet.delivery.records import NodeRecord, judged_again
from pytest_accel.run import signature
from pytest_accel.run.record import FILE
from pytest_accel.run.record_files import RecordFiles
from pytest_accel.run.signature import Trust
from pytest_accel.run.statement import SUMS
from pytest_accel.run.terms import Wanted
from pytest_accel.skus import loader

LONGEST = 300
"""Characters of the longest closing line that is shown in full."""
UNSIGNED = "as stated by the supplier, unsigned"


@dataclass(frozen=True)
class Buyer:
    """The buyer's threshold file (None for the shipped one of each record's SKU), and whose signatures count."""

    sku: Sku | None
    trust: Trust | None

    def examined(self, one: NodeRecord, run: Run, files: RecordFiles) -> NodeRecord:
        """Return a record with its signer. It accepts nothing unless it is proven, and judged by the buyer's files.

        What it rejects stays rejected. `run` is what was read from its `files`.
        """
        found = self._judged(one, run)
        signer, not_proven = self._signer(run, files)
        if not found.rejects and (one.accepted or one.objection):
            found = replace(found, objection="; ".join(filter(None, [found.objection, not_proven])))
        demanded = self._demanded(run)
        return replace(found, signed_by=signer, demanded=demanded, facts=alike.facts_of(run, demanded))

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
        found = signature.verify(files, self.trust, run)
        return found.signer, f"it is not proven: {found.objections[0]}" if found.objections else ""

    def _judged(self, one: NodeRecord, run: Run) -> NodeRecord:
        """Return a record; one that other limits than the buyer's judged with what those say of its measurements."""
        if one.rejects or one.objection:
            return one
        sku = self.sku or _shipped(one.sku)
        if sku is None:
            unknown = f"made as {one.sku}, which is no shipped SKU (--sku names the buyer's threshold file)"
            return replace(one, objection=unknown) if one.accepts else one
        stated = set(one.files.values()) == set(sku.files.values())
        made = "it is judged otherwise by the files that it states" if stated else _made(one.files, sku)
        try:
            again = rejudge.judge_again(run, rejudge.terms_of(Wanted(sku.name, prefix="--"), sku, run))
        except WrongUse as wrong:
            return replace(one, objection=f"{made}, which cannot judge it: {wrong}")
        line = printable(again.closing.line.removeprefix(f"{rejudge.AGAIN} "), LONGEST)
        same = stated and again.result is run.result
        return judged_again(one, again, "" if same else f"{made}; by the buyer's limits: {line}")


@cache
def _shipped(name: str) -> Sku | None:
    """Return a shipped SKU; None for any other name, which is never taken as that of a file."""
    return loader.load(name) if name in loader.names() else None


def _made(files: Mapping[str, str], sku: Sku) -> str:
    """Return which files made a record, and which are the buyer's."""
    shipped = f"{sku.name}.yaml"
    own, buyers = _apart(files, sku.files, shipped), _apart(sku.files, files, sku.own_file or shipped)
    return f"made by {own}, not the buyer's {buyers}"


def _apart(files: Mapping[str, str], others: Mapping[str, str], whole: str) -> str:
    """Return the files that are not among the others; the whole one if all are."""
    apart = {name: sha256 for name, sha256 in files.items() if sha256 not in others.values()}
    named = apart or {whole: files.get(whole, "no hash")}
    return listed([f"{Path(name).name} {sha256[:12]}" for name, sha256 in named.items()])
