"""Reads YAML files, and checks their values so that an error names its file and line."""

from __future__ import annotations

import difflib
import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pytest_accel.core import untrusted, yaml_events
from pytest_accel.core.located import Findings as Findings  # noqa: PLC0414  exported from here, too
from pytest_accel.core.located import Located as Located  # noqa: PLC0414
from pytest_accel.core.untrusted import BadFile as BadFile  # noqa: PLC0414


def read(path: Path, shown: str, begins: str = "sku: NAME") -> tuple[Located, str]:
    """Parse one YAML file; return its root mapping and the SHA-256 of its bytes.

    Messages call the file `shown`, and show `begins` as the first line of a valid file. Raises BadFile.
    """
    raw = untrusted.read_bytes(path, shown, most=yaml_events.FILE_BYTES)
    findings = Findings()
    root = yaml_events.compose(untrusted.decode(raw, shown), shown, findings)
    if root is None:
        raise BadFile(f"{shown}:1: the file is empty; it must begin with '{begins}'")
    if not isinstance(root.data, dict):
        findings.add(root, f"the file is not a mapping; it must begin with '{begins}'")
    findings.raise_if_any()
    return root, hashlib.sha256(raw).hexdigest()


def merge(base: Located, over: Located, whole: Collection[str] = ()) -> Located:
    """Merge `over` into `base` key by key; values that are not mappings, and the keys in `whole`, are replaced."""
    if isinstance(base.data, dict) and isinstance(over.data, dict):
        merged = dict(base.data)
        for key, value in over.data.items():
            merged[key] = merge(merged[key], value, whole) if key in merged and key not in whole else value
        return Located(merged, over.file, over.line)
    return over


def nearest(word: str, choices: Iterable[str], listed_by: str = "") -> str:
    """Return a hint with the choices closest to `word`, followed by all choices.

    Where these are too many to print, `listed_by` is what to do to see them: "'pytest-accel sku list' shows all".
    """
    known = sorted(choices)
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    listed = listed_by or f"known: {', '.join(known)}"
    return f"did you mean {' or '.join(repr(match) for match in close)}? ({listed})" if close else listed


Check = Callable[[Located, str, Findings], Any]
"""A function that returns a located value as plain data, or adds a finding and returns None."""

Schema = dict[str, Any]
"""A JSON Schema, draft 2020-12."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class StatedCheck(Generic[Found]):
    """A check that states the JSON Schema of the values that it accepts."""

    check: Callable[[Located, str, Findings], Found]
    schema: Schema

    def __call__(self, at: Located, key: str, findings: Findings) -> Found:
        """Return the checked value under `key` of `at`; what is wrong with it is added to `findings`."""
        return self.check(at, key, findings)

    def stating(self, **keywords: Any) -> StatedCheck[Found]:
        """Return the same check with more keywords in its schema."""
        return replace(self, schema={**self.schema, **keywords})

    def described(self, description: str) -> StatedCheck[Found]:
        """Return the same check with a description for the reader of the schema."""
        return self.stating(description=description)


def accepts(schema: Schema) -> Callable[[Callable[[Located, str, Findings], Found]], StatedCheck[Found]]:
    """Make a function a check that states `schema`."""
    return lambda check: StatedCheck(check, schema)


def schema_of(check: Check) -> Schema:
    """Return the JSON Schema of a check; the one that accepts everything if the check states none."""
    return check.schema if isinstance(check, StatedCheck) else {}


@accepts({"type": "string", "pattern": r"\S"})
def text(at: Located, key: str, findings: Findings) -> str | None:
    """Require a text that is not empty; return it stripped."""
    if not isinstance(at.data, str) or not at.data.strip():
        findings.add(at, f"{key}: expected text, found {at.plain()!r}")
        return None
    return at.data.strip()


def _meant(written: str) -> str:
    """Return a hint at the number that a text means; empty if it means none."""
    thousands = re.fullmatch(r"\d{1,3}([,' ]\d{3})+(\.\d+)?", written)
    if thousands:
        return f"; write {float(re.sub(r'[^0-9.]', '', written)):.12g}, without separators"
    if re.fullmatch(r"\d+,\d+", written):
        return f"; write {written.replace(',', '.')}, with a point"
    try:
        value = float(written)
    except ValueError:
        return "; the unit has its own key" if written[:1].isdigit() else ""
    return f"; YAML reads {written} as text, write {value:.12g}" if math.isfinite(value) else ""


@accepts({"type": "number"})
def number(at: Located, key: str, findings: Findings) -> float | None:
    """Require a finite number."""
    if isinstance(at.data, bool) or not isinstance(at.data, (int, float)):
        hint = _meant(at.data) if isinstance(at.data, str) else ""
        findings.add(at, f"{key}: expected a number, found {at.plain()!r}{hint}")
        return None
    try:
        finite = math.isfinite(at.data)
    except OverflowError:  # a whole number of hundreds of digits
        finite = False
    if not finite:
        findings.add(at, f"{key}: expected a finite number, found {str(at.data)[:20]}")
        return None
    return at.data


@accepts({"type": "number", "exclusiveMinimum": 0})
def positive(at: Located, key: str, findings: Findings) -> float | None:
    """Require a finite number above zero."""
    value = number(at, key, findings)
    if value is not None and value <= 0:
        findings.add(at, f"{key}: expected a number above zero, found {value:g}")
        return None
    return value


@accepts({"type": "integer", "minimum": 1})
def count(at: Located, key: str, findings: Findings) -> int | None:
    """Require a whole number above zero."""
    if isinstance(at.data, bool) or not isinstance(at.data, int) or at.data < 1:
        findings.add(at, f"{key}: expected a whole number above zero, found {at.plain()!r}")
        return None
    return at.data


@accepts({})
def anything(at: Located, key: str, findings: Findings) -> Any:  # noqa: ARG001  a Check's signature
    """Accept any value."""
    return at.plain()


_DATE = r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?"


@accepts({"type": ["string", "integer"], "pattern": f"^{_DATE}$", "minimum": 1000, "maximum": 9999})
def date(at: Located, key: str, findings: Findings) -> str | None:
    """Require a year, a month or a day: 2026, 2026-11 or 2026-11-21."""
    shown = str(at.plain())
    if not re.fullmatch(_DATE, shown):
        findings.add(at, f"{key}: expected a date such as 2026-11 or 2026-11-21, found {shown!r}")
        return None
    return shown


@accepts({"type": "boolean"})
def flag(at: Located, key: str, findings: Findings) -> bool | None:
    """Require true or false."""
    if not isinstance(at.data, bool):
        findings.add(at, f"{key}: expected true or false, found {at.plain()!r}")
        return None
    return at.data


def one_of(*choices: str) -> StatedCheck[str | None]:
    """Return a check that requires one of the choices."""

    @accepts({"type": "string", "enum": list(choices)})
    def check(at: Located, key: str, findings: Findings) -> str | None:
        if at.data not in choices:
            findings.add(at, f"{key}: {at.plain()!r} is not known; {nearest(str(at.plain()), choices)}")
            return None
        return str(at.data)

    return check


def list_of(item: Check) -> StatedCheck[Any]:
    """Return a check that requires a list whose items pass `item`."""

    @accepts({"type": "array", "items": schema_of(item)})
    def check(at: Located, key: str, findings: Findings) -> list[Any] | None:
        if not isinstance(at.data, list):
            findings.add(at, f"{key}: expected a list, found {at.plain()!r}")
            return None
        return [item(each, key, findings) for each in at.data]

    return check


def mapping_of(value: Check) -> StatedCheck[Any]:
    """Return a check that requires a mapping with any keys, whose values pass `value`."""

    @accepts({"type": "object", "additionalProperties": schema_of(value)})
    def check(at: Located, key: str, findings: Findings) -> dict[str, Any] | None:
        if not isinstance(at.data, dict):
            findings.add(at, f"{key}: expected a mapping, found {at.plain()!r}")
            return None
        return {name: value(each, f"{key}.{name}", findings) for name, each in at.data.items()}

    return check


def record_of(fields: Mapping[str, Check], required: Sequence[str] = ()) -> StatedCheck[Any]:
    """Return a check that requires a mapping with the known keys `fields`, of which some are `required`."""
    properties = {name: schema_of(each) for name, each in fields.items()}
    demanded = {"required": list(required)} if required else {}

    @accepts({"type": "object", "properties": properties, "additionalProperties": False, **demanded})
    def check(at: Located, key: str, findings: Findings) -> dict[str, Any] | None:
        if not isinstance(at.data, dict):
            findings.add(at, f"{key}: expected a mapping, found {at.plain()!r}")
            return None
        checked: dict[str, Any] = {}
        prefix = f"{key}." if key else ""
        for name, each in at.data.items():
            if name in fields:
                checked[name] = fields[name](each, prefix + name, findings)
            else:
                findings.add(each, f"unknown key '{prefix}{name}'; {nearest(name, fields)}")
        for name in required:
            if name not in at.data:
                findings.add(at, f"{key or 'the file'}: '{name}' is missing")
        return checked

    return check
