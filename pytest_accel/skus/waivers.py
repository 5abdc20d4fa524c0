"""Waivers: broken limits that the owner of a node accepts, for a reason and until a date. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from pytest_accel.core import yaml_nodes
from pytest_accel.core.run import WaiversEntry
from pytest_accel.core.verdict import Verdict, Waiver
from pytest_accel.core.words import did_you_mean
from pytest_accel.core.yaml_nodes import Located, Mistakes

NEVER = ("inventory.driver", "inventory.count", "inventory.sku")
"""Limits that cannot be waived, because they identify the devices."""


def waivable(verdict: Verdict) -> bool:
    """Return True if a verdict can be waived: a limit is broken or was not judged, and the device is not at fault."""
    return verdict.status.fails and not verdict.device_failed and verdict.metric not in NEVER


@dataclass(frozen=True)
class Waivers:
    """The entries of one waiver file, and the host and date on which they are applied. Without a file: none."""

    entries: tuple[Waiver, ...] = ()
    file: str = ""
    sha256: str = ""
    host: str = ""
    today: date = date.min

    def apply(self, verdict: Verdict, identities: Iterable[str] = ()) -> Verdict:
        """Return the verdict with the first waiver that covers it. Its status and sentence do not change."""
        if not waivable(verdict):
            return verdict
        names = {verdict.subject, *identities}
        applicable = (entry for entry in self.entries if self._inapplicable(entry) is None)
        waiver = next((entry for entry in applicable if entry.covers(verdict, names)), None)
        return replace(verdict, waiver=waiver) if waiver else verdict

    def _inapplicable(self, waiver: Waiver) -> str | None:
        """Return the reason why an entry does not apply on this host and date, or None."""
        if waiver.until < self.today:
            return f"it expired on {waiver.until}"
        if waiver.host not in (None, self.host):
            return f"it is for host {waiver.host}, and this host is {self.host}"
        return None

    def notes(self, verdicts: Sequence[Verdict]) -> list[str]:
        """Return a sentence with the reason for every entry that was not used."""
        metrics = sorted({verdict.metric for verdict in verdicts})
        return [
            f"waiver of {entry.limit} ({entry.origin}) was not used: "
            f"{self._inapplicable(entry) or _unneeded(entry, metrics)}"
            for entry in self.entries
            if entry not in used(verdicts)
        ]

    def summary(self, verdicts: Sequence[Verdict]) -> WaiversEntry:
        """Return the file, its SHA-256 and the entries that were used, for the record; empty without a file."""
        return {"file": self.file, "sha256": self.sha256, "used": used(verdicts)} if self.file else {}


def used(verdicts: Iterable[Verdict]) -> list[Waiver]:
    """Return the waivers of the verdicts, each once."""
    return list(dict.fromkeys(verdict.waiver for verdict in verdicts if verdict.waiver))


def _unneeded(waiver: Waiver, metrics: Sequence[str]) -> str:
    """Return the reason why an entry that applies here covers no verdict."""
    if waiver.limit not in metrics:
        return "no limit of this name was judged" + did_you_mean(waiver.limit, metrics)
    return "no limit that it covers was broken"


# -- the file


def _metric(entry: Located, key: str, mistakes: Mistakes) -> str | None:
    """Return the metric of a limit that can be waived."""
    metric = yaml_nodes.text(entry, key, mistakes)
    if metric in NEVER:
        mistakes.add(entry, f"{key}: {metric} can never be waived, because it identifies what was measured")
    elif metric and "." not in metric:
        mistakes.add(entry, f"{key}: {metric!r} is not a metric, such as host.acs or matmul.bf16")
    return metric


def _day(entry: Located, key: str, mistakes: Mistakes) -> date | None:
    """Return a date in ISO format."""
    try:
        return date.fromisoformat(str(entry.plain()))
    except ValueError:
        mistakes.add(entry, f"{key}: expected a date such as 2026-12-31, found {entry.plain()!r}")
        return None


def _devices(entry: Located, key: str, mistakes: Mistakes) -> Any:
    """Return the UUIDs or serial numbers of at least one device."""
    devices = yaml_nodes.list_of(yaml_nodes.text)(entry, key, mistakes)
    if devices == []:
        mistakes.add(entry, f"{key}: names no device; to waive the limit on all devices, remove the key")
    return devices


_FILE = yaml_nodes.record_of(
    {
        "waivers": yaml_nodes.list_of(
            yaml_nodes.record_of(
                {
                    "limit": _metric,
                    "reason": yaml_nodes.text,
                    "by": yaml_nodes.text,
                    "until": _day,
                    "devices": _devices,
                    "host": yaml_nodes.text,
                },
                required=("limit", "reason", "by", "until"),
            )
        )
    },
    required=("waivers",),
)


def load(path: Path, host: str, today: date) -> Waivers:
    """Read a waiver file. Raises BadFile with all mistakes, each with its line."""
    root, digest = yaml_nodes.read(path, str(path), "waivers:")
    mistakes = Mistakes()
    contents: Mapping[str, Any] = _FILE(root, "", mistakes) or {}
    mistakes.raise_if_any()
    entries = [
        Waiver(**{**fields, "devices": tuple(fields.get("devices", ()))}, origin=entry.where)
        for fields, entry in zip(contents["waivers"], root.data["waivers"].data, strict=True)
    ]
    return Waivers(tuple(entries), str(path), digest, host, today)
