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
"""Limits that cannot be waived, because they identify what was measured."""


def waivable(verdict: Verdict) -> bool:
    """Return whether a verdict can be waived: a limit is broken or was not judged, and the device is not at fault."""
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
        covering = [each for each in self.entries if self._inapplicable(each) is None and each.covers(verdict, names)]
        return replace(verdict, waiver=covering[0]) if covering else verdict

    def _inapplicable(self, waiver: Waiver) -> str | None:
        """Return why an entry does not apply on this host and date, or None."""
        if waiver.until < self.today:
            return f"it expired on {waiver.until}"
        if waiver.host not in (None, self.host):
            return f"it is for host {waiver.host}, and this host is {self.host}"
        return None

    def notes(self, verdicts: Sequence[Verdict]) -> list[str]:
        """Return a sentence with the reason for every entry that was not used."""
        known = sorted({each.metric for each in verdicts})
        return [
            f"waiver of {each.limit} ({each.origin}) was not used: {self._inapplicable(each) or _unneeded(each, known)}"
            for each in self.entries
            if each not in used(verdicts)
        ]

    def summary(self, verdicts: Sequence[Verdict]) -> WaiversEntry:
        """Return the file, its SHA-256 and the entries that were used, for the record; empty without a file."""
        return {"file": self.file, "sha256": self.sha256, "used": used(verdicts)} if self.file else {}


def used(verdicts: Iterable[Verdict]) -> list[Waiver]:
    """Return the waivers of the verdicts, each once."""
    return list(dict.fromkeys(each.waiver for each in verdicts if each.waiver))


def _unneeded(waiver: Waiver, known: Sequence[str]) -> str:
    """Return why an entry that applies here covers no verdict."""
    if waiver.limit not in known:
        return "no limit of this name was judged" + did_you_mean(waiver.limit, known)
    return "no limit that it covers was broken"


# -- the file


def _metric(at: Located, key: str, mistakes: Mistakes) -> str | None:
    """Return the metric of a limit that can be waived."""
    metric = yaml_nodes.text(at, key, mistakes)
    if metric in NEVER:
        mistakes.add(at, f"{key}: {metric} can never be waived, because it identifies what was measured")
    elif metric and "." not in metric:
        mistakes.add(at, f"{key}: {metric!r} is not a metric, such as host.acs or matmul.bf16")
    return metric


def _day(at: Located, key: str, mistakes: Mistakes) -> date | None:
    """Return a date in ISO format."""
    try:
        return date.fromisoformat(str(at.plain()))
    except ValueError:
        mistakes.add(at, f"{key}: expected a date such as 2026-12-31, found {at.plain()!r}")
        return None


def _devices(at: Located, key: str, mistakes: Mistakes) -> Any:
    """Return the UUIDs or serial numbers of at least one device."""
    devices = yaml_nodes.list_of(yaml_nodes.text)(at, key, mistakes)
    if devices == []:
        mistakes.add(at, f"{key}: names no device; to waive the limit on all devices, remove the key")
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
        Waiver(**{**fields, "devices": tuple(fields.get("devices", ()))}, origin=at.where)
        for fields, at in zip(contents["waivers"], root.data["waivers"].data, strict=True)
    ]
    return Waivers(tuple(entries), str(path), digest, host, today)
