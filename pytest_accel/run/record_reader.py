"""Reads a saved record back into the classes that it was written from. Errors name the place in the record."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union

from pytest_accel.core import details, untrusted
from pytest_accel.core.sku import DeclaredBy
from pytest_accel.core.untrusted import BadFile
from pytest_accel.drivers import registry
from pytest_accel.judging.closing import WORDS
from pytest_accel.probes.declare import declaration_of
from pytest_accel.run.record import FILE, READABLE, SCHEMA, Record, seal

NO_NUMBERS = ("nan", "inf", "-inf")
"""Values that JSON has no number for; a record holds them as text."""

_SCALARS = {float: "a number", int: "a whole number", str: "text", bool: "true or false", type(None): "null"}

_ORIGINS = (
    ("marker ", DeclaredBy.MARKER),
    (("platform ", "the machine shows "), DeclaredBy.RUN),
    ("vendor/", DeclaredBy.VENDOR_FILE),
    ((".", "/"), DeclaredBy.OWN_FILE),
)
"""The beginnings of `origin` in the limits of older records, and the kind of place that each stands for."""


class BadRecord(BadFile):
    """An error for a file that is not a record, or a damaged one; the message names the file and the place."""


class _Mismatch(Exception):
    """A value that does not fit its field; the message says which."""


@functools.cache
def _hints(declared: Any) -> dict[str, Any]:
    """Return the types of the fields of a class. To work them out takes as long as to read a record by them."""
    return typing.get_type_hints(declared)


def find(path: Path) -> Path:
    """Return the file of a record, given the file itself or its folder."""
    return path / FILE if path.is_dir() else path


@dataclasses.dataclass(frozen=True)
class SavedRecord:
    """A record as it was read from its file."""

    path: Path
    record: Record
    schema: int
    """The version of the format that the file is in."""
    sha256: str
    """The hash of what the file holds, by the rule of `Record.sha256`, which holds what the file states."""


def load(path: Path) -> Record:
    """Read a record, without a look at its hash. Raises BadRecord."""
    return read(path).record


def read(path: Path) -> SavedRecord:
    """Read a record. Raises BadRecord."""
    try:
        return parse(untrusted.read_json(path), path)
    except BadFile as bad:
        raise BadRecord(str(bad)) from None


def parse(raw: Any, path: Path) -> SavedRecord:
    """Return the record that the content of its file, `raw`, holds. Raises BadRecord.

    An unknown field is an error as well, since it may be one that rules out acceptance.
    """
    if not isinstance(raw, dict) or "schema" not in raw:
        raise BadRecord(f"{path}: is not a record of pytest-accel: it has no 'schema'")
    schema = raw["schema"]
    if schema not in READABLE or isinstance(schema, bool):
        versions = f"{', '.join(map(str, READABLE[:-1]))} and {READABLE[-1]}"
        raise BadRecord(f"{path}: was written in schema {_short(schema)}; this version reads schema {versions}")
    try:
        record = typing.cast(Record, _as(Record, _upgraded(_with_limits(raw)), ""))
    except _Mismatch as error:
        raise BadRecord(f"{path}: is damaged or of another version: {error}") from None
    return SavedRecord(path, record, schema, seal(raw))


def _with_limits(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a record with the limits in the verdicts that refer to them by place.

    Raises _Mismatch for a place that the record does not have. Records of schema 1 hold the limits in the verdicts.
    """
    if raw["schema"] == 1:
        return raw
    limits = _checked(list, raw.get("limits"), "limits")
    verdicts = []
    for place, verdict in enumerate(_checked(list, raw.get("verdicts"), "verdicts")):
        number = _checked(dict, verdict, f"verdicts[{place}]").get("limit")
        if number is None:
            verdicts.append(verdict)
            continue
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(limits):
            raise _Mismatch(f"verdicts[{place}].limit is {_short(number)}, not a place in 'limits'")
        verdicts.append({**verdict, "limit": limits[number]})
    return {**{key: value for key, value in raw.items() if key != "limits"}, "verdicts": verdicts}


def _upgraded(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a record of an older version as this version would have written it."""
    verdicts, devices, measurements = raw.get("verdicts"), raw.get("devices"), raw.get("measurements")
    upgraded = {**raw, "schema": SCHEMA}
    if isinstance(raw.get("closing"), dict):
        upgraded["closing"] = _with_result(raw["closing"])
    if isinstance(verdicts, list):
        upgraded["verdicts"] = verdicts if raw["schema"] == SCHEMA else [_with_declared_by(each) for each in verdicts]
    if isinstance(devices, list):
        upgraded["devices"] = [_with_called(each) for each in devices]
    if isinstance(measurements, list):
        upgraded["measurements"] = [_with_own_details(each) for each in measurements]
    return upgraded


def _with_result(closing: dict[str, Any]) -> dict[str, Any]:
    """Return the closing line with its result as the word; older versions wrote SIMULATED for a simulated node."""
    if closing.get("word") != "SIMULATED":
        return closing
    line = str(closing.get("line")).removeprefix("JUDGED AGAIN ").removeprefix("SIMULATED ")
    return {**closing, "word": next((word for word in WORDS if line.startswith(word)), "SIMULATED")}


def _with_own_details(measurement: Any) -> Any:
    """Return a measurement of a user's probe with the details that do not fit the declared types under `own`.

    Older versions wrote whatever the probe reported beside the details of other origin.
    """
    found = measurement.get("details") if isinstance(measurement, dict) else None
    declared = declaration_of(str(measurement.get("metric"))) if isinstance(found, dict) else None
    if not isinstance(found, dict) or (declared and declared.packaged):
        return measurement
    hints = _hints(details.Details)
    own = {key: value for key, value in found.items() if not _fits(hints.get(key, Any), value)}
    if not own:
        return measurement
    kept = {key: value for key, value in found.items() if key not in own}
    return {**measurement, "details": {**kept, "own": {**kept.get("own", {}), **own}}}


def _fits(hint: Any, value: Any) -> bool:
    try:
        _as(hint, value, "")
    except _Mismatch:
        return False
    return True


def _with_called(device: Any) -> Any:
    """Return a device that says how devices of its vendor are called; older versions left that to the reader."""
    if not isinstance(device, dict) or "called" in device:
        return device
    return {**device, "called": registry.vendor(str(device.get("driver"))).short_name}


def _with_declared_by(verdict: Any) -> Any:
    """Return a verdict whose limit says what kind of place declared it; older versions wrote `origin` alone."""
    limit = verdict.get("limit") if isinstance(verdict, dict) else None
    if not isinstance(limit, dict) or "declared_by" in limit:
        return verdict
    return {**verdict, "limit": {**limit, "declared_by": _declared_by(str(limit.get("origin", ""))).value}}


def _declared_by(origin: str) -> DeclaredBy:
    """Return the kind of place that an older version described as `origin`."""
    for beginning, kind in _ORIGINS:
        if origin.startswith(beginning):
            return kind
    return DeclaredBy.SKU_FILE


def _as(hint: Any, raw: Any, where: str) -> Any:
    """Return `raw`, a value of JSON, as the type `hint` of its field. Raises _Mismatch if it does not fit."""
    if hint is Any or (type(raw) is hint and hint in _SCALARS):
        return raw
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if kind in (Union, types.UnionType):
        return _one_of(inner, raw, where)
    if kind is Literal:
        return _choice(raw, inner, where)
    if dataclasses.is_dataclass(hint):
        return _fields(hint, raw, where)
    if typing.is_typeddict(hint):
        if hint.__module__ == details.__name__:
            return _details(hint, raw, where)
        return _known(hint, hint.__required_keys__, raw, where)
    if kind in (dict, Mapping):
        return {key: _as(inner[1], value, f"{where}.{key}") for key, value in _checked(dict, raw, where).items()}
    if kind in (list, tuple, Sequence):
        items = [_as(one, value, f"{where}[{place}]") for place, one, value in _items(inner, raw, where)]
        return tuple(items) if kind is tuple else items
    if inspect.isclass(hint) and issubclass(hint, Enum):
        return hint(_choice(raw, [member.value for member in hint], where))
    return _scalar(hint, raw, where)


def _fields(hint: Any, raw: Any, where: str) -> Any:
    """Return a mapping as an object of the dataclass `hint`. Raises _Mismatch."""
    required = {
        field.name
        for field in dataclasses.fields(hint)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    return hint(**_known(hint, required, raw, where))


def _known(hint: Any, required: Iterable[str], raw: Any, where: str) -> dict[str, Any]:
    """Return the mapping `raw` with each value as the type that a dataclass or a TypedDict `hint` declares for it.

    Raises _Mismatch for a value of another type, an unknown key or a missing `required` one.
    """
    hints = _hints(hint)
    unknown = set(_checked(dict, raw, where)) - set(hints)
    if unknown:
        raise _Mismatch(f"{where}.{min(unknown)} is not known".lstrip("."))
    for name in sorted(required):
        if name not in raw:
            raise _Mismatch(f"{where}.{name} is missing".lstrip("."))
    return {name: _as(hints[name], value, f"{where}.{name}".lstrip(".")) for name, value in raw.items()}


def _details(hint: Any, raw: Any, where: str) -> dict[str, Any]:
    """Return details, each known key with its declared type. Other keys stay as they are: nothing is judged by them.

    Raises _Mismatch for a value of another type, or a missing key.
    """
    hints, given = _hints(hint), _checked(dict, raw, where)
    lacking = sorted(hint.__required_keys__ - set(given))
    if lacking:
        raise _Mismatch(f"{where}.{lacking[0]} is missing".lstrip("."))
    return {key: _as(hints.get(key, Any), value, f"{where}.{key}".lstrip(".")) for key, value in given.items()}


def _items(inner: tuple[Any, ...], raw: Any, where: str) -> list[tuple[int, Any, Any]]:
    """Return place, type hint and value of every item. A tuple of fixed length has to have that length."""
    values = _checked(list, raw, where)
    hints = list(inner) if len(inner) > 1 and inner[-1] is not Ellipsis else [inner[0]] * len(values)
    if len(hints) != len(values):
        raise _Mismatch(f"{where} has {len(values)} items, not {len(hints)}")
    return [(place, hint, value) for place, (hint, value) in enumerate(zip(hints, values, strict=True))]


def _one_of(hints: tuple[Any, ...], raw: Any, where: str) -> Any:
    """Return a value as the first type of a union that it fits."""
    if raw is None and type(None) in hints:
        return None
    types_ = [hint for hint in hints if hint is not type(None)]
    for hint in types_[:-1]:
        try:
            return _as(hint, raw, where)
        except _Mismatch:
            continue
    return _as(types_[-1], raw, where)


def _choice(raw: Any, choices: Sequence[Any], where: str) -> Any:
    """Return a value that has to be one of `choices`."""
    if raw not in choices:
        raise _Mismatch(f"{where} is {_short(raw)}, not one of {', '.join(map(str, choices))}")
    return raw


def _checked(kind: type, raw: Any, where: str) -> Any:
    """Return a value that has to be a mapping or a list."""
    if not isinstance(raw, kind):
        name = "mapping" if kind is dict else "list"
        raise _Mismatch(f"{where or 'the whole file'} is {_short(raw)}, not a {name}")
    return raw


def _scalar(hint: type, raw: Any, where: str) -> Any:
    """Return a number, a text, a truth value or a date."""
    if hint is float and raw in NO_NUMBERS:
        return float(raw)
    if hint is date:
        return _day(raw, where)
    wanted: Any = (int, float) if hint is float else hint
    if not isinstance(raw, wanted) or (isinstance(raw, bool) and hint is not bool):
        raise _Mismatch(f"{where} is {_short(raw)}, not {_SCALARS[hint]}")
    return raw


def _day(raw: Any, where: str) -> date:
    """Return a date in ISO 8601."""
    try:
        return date.fromisoformat(raw)
    except (TypeError, ValueError):
        raise _Mismatch(f"{where} is {_short(raw)}, not a date such as 2026-12-31") from None


def _short(raw: Any) -> str:
    """Return a value as JSON, cut off after 40 characters."""
    text = json.dumps(raw)
    return text if len(text) <= 40 else f"{text[:40]}..."
