"""Waivers: limits that the owner of a node takes as they are found, for a reason and until a day. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, TypedDict

from pytest_accel.core import yaml_lines
from pytest_accel.core.verdict import Verdict, Waiver
from pytest_accel.core.yaml_lines import Findings, Located

NEVER = ("inventory.driver", "inventory.count", "inventory.sku")
"""Without these nobody knows what was measured."""


def waivable(verdict: Verdict) -> bool:
    """A limit that is broken, or that could not be judged; a device that is at fault is no matter of limits."""
    return verdict.status.fails and not verdict.fault and verdict.metric not in NEVER


class WaiversEntry(TypedDict, total=False):
    """The file of waivers as the record holds it; empty in a run without one."""

    file: str
    sha256: str
    used: list[Waiver]
    """The waivers that cover a verdict."""


@dataclass(frozen=True)
class Waivers:
    """The entries of one file, on one host, on one day. Without a file nothing is waived."""

    entries: tuple[Waiver, ...] = ()
    file: str = ""
    sha256: str = ""
    host: str = ""
    today: date = date.min

    def apply(self, verdict: Verdict, identities: Iterable[str] = ()) -> Verdict:
        """The verdict with the first waiver that covers it. Status and sentence stay what they are."""
        if not waivable(verdict):
            return verdict
        names = {verdict.subject, *identities}
        covering = [each for each in self.entries if self._why_not(each) is None and each.covers(verdict, names)]
        return replace(verdict, waiver=covering[0]) if covering else verdict

    def _why_not(self, waiver: Waiver) -> str | None:
        """Why an entry does not apply here and today, or None."""
        if waiver.until < self.today:
            return f"it expired on {waiver.until}"
        if waiver.host not in (None, self.host):
            return f"it is for host {waiver.host}, this is {self.host}"
        return None

    def notes(self, verdicts: Sequence[Verdict]) -> list[str]:
        """Every entry that was not used, with the reason."""
        known = sorted({each.metric for each in verdicts})
        return [
            f"waiver of {each.limit} ({each.origin}) was not used: {self._why_not(each) or _unneeded(each, known)}"
            for each in self.entries
            if each not in used(verdicts)
        ]

    def summary(self, verdicts: Sequence[Verdict]) -> WaiversEntry:
        """Return the file with its hash and the entries that were used, for the record."""
        return {"file": self.file, "sha256": self.sha256, "used": used(verdicts)} if self.file else {}


def used(verdicts: Iterable[Verdict]) -> list[Waiver]:
    """The waivers behind the verdicts, each once."""
    return list(dict.fromkeys(each.waiver for each in verdicts if each.waiver))


def _unneeded(waiver: Waiver, known: Sequence[str]) -> str:
    if waiver.limit not in known:
        close = difflib.get_close_matches(waiver.limit, known, n=3)
        return "nothing of that name was judged" + (f"; did you mean {' or '.join(close)}?" if close else "")
    return "nothing that it covers was broken"


# -- the file


def _metric(at: Located, key: str, findings: Findings) -> str | None:
    found = yaml_lines.text(at, key, findings)
    if found in NEVER:
        findings.add(at, f"{key}: {found} can never be waived: without it nobody knows what was measured")
    elif found and "." not in found:
        findings.add(at, f"{key}: {found!r} is no metric, which is like host.acs or matmul.bf16")
    return found


def _day(at: Located, key: str, findings: Findings) -> date | None:
    try:
        return date.fromisoformat(str(at.plain()))
    except ValueError:
        findings.add(at, f"{key}: expected a day such as 2026-12-31, found {at.plain()!r}")
        return None


def _devices(at: Located, key: str, findings: Findings) -> Any:
    found = yaml_lines.list_of(yaml_lines.text)(at, key, findings)
    if found == []:
        findings.add(at, f"{key}: names no device; leave it out for all of them")
    return found


_FILE = yaml_lines.record_of(
    {
        "waivers": yaml_lines.list_of(
            yaml_lines.record_of(
                {
                    "limit": _metric,
                    "reason": yaml_lines.text,
                    "by": yaml_lines.text,
                    "until": _day,
                    "devices": _devices,
                    "host": yaml_lines.text,
                },
                required=("limit", "reason", "by", "until"),
            )
        )
    },
    required=("waivers",),
)


def load(path: Path, host: str, today: date) -> Waivers:
    """Read a file of waivers. Raises BadFile with every finding, each with its line."""
    root, digest = yaml_lines.read(path, str(path), "waivers:")
    findings = Findings()
    found: Mapping[str, Any] = _FILE(root, "", findings) or {}
    findings.raise_if_any()
    entries = [
        Waiver(**{**fields, "devices": tuple(fields.get("devices", ()))}, origin=at.where)
        for fields, at in zip(found["waivers"], root.data["waivers"].data, strict=True)
    ]
    return Waivers(tuple(entries), str(path), digest, host, today)
