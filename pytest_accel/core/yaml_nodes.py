"""YAML files as values with their lines, and checks of the values: an error names file, line, key and value."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from yaml.composer import Composer, ComposerError
from yaml.resolver import Resolver

from pytest_accel.core import untrusted
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.untrusted import MIB, NUMBER_CHARACTERS, ErrorAt
from pytest_accel.core.untrusted import BadFile as BadFile  # noqa: PLC0414  exported from here, too
from pytest_accel.core.words import did_you_mean

MOST_MISTAKES = 100
"""The most errors of one file that are reported. A file with more is another kind of file, or made to keep us busy."""
MISTAKE_CHARACTERS = 1_000
"""Length of the longest error."""
FILE_BYTES = MIB
"""Size of the largest YAML file that is read. The largest shipped one has 13 kB."""
PRECISE_BYTES = MIB // 8
"""Size up to which a file with an error of syntax is parsed again in Python, at about 1 s per 500 kB."""
VALUES = 20_000
"""Most values of a file, those that aliases repeat included. The largest shipped file has 1,000."""
DEPTH = 32
"""Deepest nesting of a file. A shipped file has 6 levels."""

_SCALARS = yaml.SafeLoader("")
_TAG = "tag:yaml.org,2002:"
_EXPECTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "timestamp": "a date: 2026-11-23"}
"""The form that a scalar of each type has, for the error on one that cannot be read."""
_READ = (*_EXPECTED, "null", "str", "merge", "value")
"""The tags of scalars that are read; no object is ever made."""
_CLEARER = {
    "'\\t'": "a tab is used for indentation; YAML requires spaces",
    "another document": "a second document begins; one file holds one",
}
"""The message in place of an error of the parser, by a part of that error."""
_UNREADABLE = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError)
"""Errors of YAML's parser in Python and of its constructors for a text that does not fit the type: "!!bool maybe", an
"!!int" without a digit, a 13th month, an escape beyond Unicode."""


@dataclass
class Located:
    """One value of a file: `data` is a scalar, a list of Located, or a dict of key to Located."""

    data: Any
    file: str
    line: int

    @property
    def where(self) -> str:
        """The location of the value: "file:line"."""
        return f"{self.file}:{self.line}"

    def plain(self) -> Any:
        """Return the value as plain Python data, without locations."""
        if isinstance(self.data, dict):
            return {key: value.plain() for key, value in self.data.items()}
        if isinstance(self.data, list):
            return [value.plain() for value in self.data]
        return self.data


@dataclass
class Mistakes:
    """The errors of a file, collected so that all of them are reported at once."""

    errors: list[ErrorAt] = field(default_factory=list)

    def add(self, entry: Located, text: str) -> None:
        """Add an error with the location of the value. Raises BadFile if the file has too many."""
        self.errors.append(ErrorAt(printable(entry.file), entry.line, printable(text, MISTAKE_CHARACTERS)))
        if len(self.errors) >= MOST_MISTAKES:
            raise BadFile(*self.errors, f"{entry.file}: further errors are not looked for")

    def raise_if_any(self) -> None:
        """Raise BadFile with all errors, if there are any."""
        if self.errors:
            raise BadFile(*self.errors)


def items_of(entry: Located | None) -> list[tuple[str, Located]]:
    """Return the keys and values of a mapping; empty if there is none."""
    return list(entry.data.items()) if entry is not None and isinstance(entry.data, dict) else []


# -- reading


def read(path: Path, name: str, begins: str = "sku: NAME") -> tuple[Located, str]:
    """Parse one YAML file; return its root mapping and the SHA-256 of its bytes.

    Messages call the file `name`, and state `begins` as the first line of a valid file. Raises BadFile.
    """
    raw = untrusted.read_bytes(path, name, most=FILE_BYTES)
    return parse(raw, name, begins), hashlib.sha256(raw).hexdigest()


@lru_cache(128)  # all products of a vendor are merged on top of one file; nobody changes the mapping
def parse(raw: bytes, name: str, begins: str = "sku: NAME") -> Located:
    """Return the root mapping of the bytes of a YAML file, with messages as `read` has them. Raises BadFile."""
    mistakes = Mistakes()
    node = _compose(untrusted.decode(raw, name), name)
    if node is None or (isinstance(node, yaml.ScalarNode) and not (node.value or node.style)):
        raise BadFile(ErrorAt(name, 1, f"the file is empty; it must begin with '{begins}'"))
    root = _Values(name, mistakes).of(node)
    if not isinstance(root.data, dict):
        mistakes.add(root, f"the file is not a mapping; it must begin with '{begins}'")
    mistakes.raise_if_any()
    return root


class _Nodes(Composer, Resolver):
    """Composes the events of a parser to nodes, nested up to DEPTH levels."""

    def __init__(self, parser: Any) -> None:
        # the composer of the C parser recurses in C, without a limit
        Composer.__init__(self)
        Resolver.__init__(self)
        self.check_event, self.peek_event, self.get_event = parser.check_event, parser.peek_event, parser.get_event
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if self._depth > DEPTH:
            raise ComposerError(None, None, f"the values are nested more than {DEPTH} levels deep", event.start_mark)
        if not isinstance(event, yaml.AliasEvent):
            self.anchors.pop(event.anchor, None)  # a name may be given to another value
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _compose(text: str, name: str) -> yaml.Node | None:
    """Return the root of the only document, None for an empty one. Raises BadFile."""
    try:  # the C parser is ten times as fast
        return _Nodes(getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)).get_single_node()
    except _UNREADABLE as error:
        cause = error
    if len(text) <= PRECISE_BYTES:
        try:  # the errors of the parser in Python are more precise
            return _Nodes(yaml.SafeLoader(text)).get_single_node()
        except _UNREADABLE as error:
            cause = error if isinstance(error, yaml.YAMLError) else cause
    if isinstance(cause, yaml.reader.ReaderError):
        raise BadFile(f"{name}: holds a character that YAML does not allow (U+{cause.character:04X})") from None
    mark = getattr(cause, "problem_mark", None) or getattr(cause, "context_mark", None)
    message = str(getattr(cause, "problem", None) or cause)
    for part, better in _CLEARER.items():
        message = better if part in message else message
    raise BadFile(ErrorAt(name, mark.line + 1 if mark else 1, printable(message, 200)))


class _Values:
    """The values of the nodes of one document. A value that aliases repeat is made once, and counted each time."""

    def __init__(self, file: str, mistakes: Mistakes) -> None:
        self._file = file
        self._mistakes = mistakes
        self._count = 0
        self._made: dict[int, tuple[Located, int] | None] = {}
        """The value of each node with the number of values in it; None while it is being made."""

    def of(self, node: yaml.Node, key: str = "") -> Located:
        """Return the value of a node, which has the key `key` if it is in a mapping."""
        located, start = Located(None, self._file, node.start_mark.line + 1), self._count
        if id(node) in self._made and self._made[id(node)] is None:
            raise BadFile(ErrorAt(located.file, located.line, "an alias stands inside of the value that it repeats"))
        cached = self._made.setdefault(id(node), None)
        self._count += cached[1] if cached else 1
        if self._count > VALUES:
            raise BadFile(ErrorAt(located.file, located.line, f"the file has more than {VALUES:,} values"))
        if cached:
            return cached[0]
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.ScalarNode):
            located.data = self._scalar(node, kind, located, key)
        else:
            if kind != ("map" if isinstance(node, yaml.MappingNode) else "seq"):
                self._mistakes.add(located, f"the tag {node.tag} is not known")
            located.data = self._mapping(node) if isinstance(node, yaml.MappingNode) else [*map(self.of, node.value)]
        self._made[id(node)] = located, self._count - start
        return located

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Located]:
        values: dict[str, Located] = {}
        inherited: dict[str, Located] = {}
        for name, child in node.value:
            line = name.start_mark.line + 1
            if not isinstance(name, yaml.ScalarNode):
                raise BadFile(ErrorAt(self._file, line, "a key is text or a number"))
            key = printable(_one_line(name.value))
            value = self.of(child, key)
            if key == "<<" and isinstance(value.data, dict):
                inherited.update(value.data)
                continue
            value = replace(value, line=line)
            if key in values:
                self._mistakes.add(value, f"key '{key}' is given twice (first in line {values[key].line})")
            values[key] = value
        return {**inherited, **values}

    def _scalar(self, node: yaml.ScalarNode, kind: str, located: Located, key: str) -> Any:
        """Return a scalar as text, number, truth value, date or None."""
        if kind in _READ and not (kind in ("int", "float") and len(node.value) > NUMBER_CHARACTERS):
            try:
                value = _SCALARS.construct_object(node)
                return self._visible(value, located, key) if isinstance(value, str) else value
            except _UNREADABLE:
                pass
            finally:
                _SCALARS.constructed_objects.clear()  # it would keep every node of every file
        scalar = f"{key and f'{key}: '}{printable(repr(node.value), NUMBER_CHARACTERS)}"
        self._mistakes.add(located, f"{scalar} cannot be read as {_EXPECTED.get(kind, kind)}")
        return None

    def _visible(self, text: str, located: Located, key: str) -> str:
        """Return a text as one line. An invisible character in it is a mistake."""
        line = _one_line(text)
        if not line.isprintable():  # a reader would see another text
            quote = f"{key and f'{key}: '}'{printable(line, SHOWN)}'"
            self._mistakes.add(located, f"{quote} holds an invisible character; write it anew")
        return line


def _one_line(text: str) -> str:
    """Return a text as one line, for tables, errors and closing lines."""
    return " ".join(text.split("\n")).strip() if "\n" in text else text


def merge(base: Located, overlay: Located, whole: Collection[str] = ()) -> Located:
    """Merge `overlay` into `base` key by key; values that are not mappings, and the keys in `whole`, are replaced."""
    if isinstance(base.data, dict) and isinstance(overlay.data, dict):
        merged = dict(base.data)
        for key, value in overlay.data.items():
            merged[key] = merge(merged[key], value, whole) if key in merged and key not in whole else value
        return Located(merged, overlay.file, overlay.line)
    return overlay


MANY = 20
"""More choices than this hide those that are close."""


def nearest(word: str, choices: Iterable[str], listed_by: str = "") -> str:
    """Return a hint with the choices closest to `word`, followed by all choices, or by `listed_by`.

    `listed_by` is the advice how to list them: "'pytest-accel sku list' shows all". More than MANY follow only where
    no choice is close.
    """
    names = sorted(choices)
    listing = listed_by or f"known: {', '.join(names)}"
    if not (hint := did_you_mean(word, names).removeprefix("; ")):
        return listing
    return f"{hint} ({listing})" if listed_by or len(names) <= MANY else hint


# -- checks

Check = Callable[[Located, str, Mistakes], Any]
"""A function that returns a located value as plain data, or adds a mistake and returns None."""

Schema = dict[str, Any]
"""A JSON Schema, draft 2020-12."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class StatedCheck(Generic[Found]):
    """A check that states the JSON Schema of the values that it accepts."""

    check: Callable[[Located, str, Mistakes], Found]
    schema: Schema

    def __call__(self, entry: Located, key: str, mistakes: Mistakes) -> Found:
        """Return the checked value of `entry`, whose key is `key`; its errors are added to `mistakes`."""
        return self.check(entry, key, mistakes)

    def stating(self, **keywords: Any) -> StatedCheck[Found]:
        """Return the same check with more keywords in its schema."""
        return replace(self, schema={**self.schema, **keywords})


def accepts(schema: Schema) -> Callable[[Callable[[Located, str, Mistakes], Found]], StatedCheck[Found]]:
    """Make a function a check that states `schema`."""
    return lambda check: StatedCheck(check, schema)


def schema_of(check: Check) -> Schema:
    """Return the JSON Schema of a check; that which accepts everything if the check states none."""
    return check.schema if isinstance(check, StatedCheck) else {}


@accepts({"type": "string", "pattern": r"\S"})
def text(entry: Located, key: str, mistakes: Mistakes) -> str | None:
    """Require a text that is not empty; return it stripped."""
    if not isinstance(entry.data, str) or not entry.data.strip():
        mistakes.add(entry, f"{key}: expected text, found {entry.plain()!r}")
        return None
    return entry.data.strip()


def _meant(literal: str) -> str:
    """Return a hint at the number that a text means; empty if it means none."""
    if re.fullmatch(r"\d{1,3}([,' ]\d{3})+(\.\d+)?", literal):  # separators of thousands
        return f"; write {float(re.sub(r'[^0-9.]', '', literal)):.12g}, without separators"
    if re.fullmatch(r"\d+,\d+", literal):
        return f"; write {literal.replace(',', '.')}, with a point"
    try:
        value = float(literal)
    except ValueError:
        return "; the unit has its own key" if literal[:1].isdigit() else ""
    return f"; YAML reads {literal} as text, write {value:.12g}" if math.isfinite(value) else ""


@accepts({"type": "number"})
def number(entry: Located, key: str, mistakes: Mistakes) -> float | None:
    """Require a finite number."""
    if isinstance(entry.data, bool) or not isinstance(entry.data, (int, float)):
        hint = _meant(entry.data) if isinstance(entry.data, str) else ""
        mistakes.add(entry, f"{key}: expected a number, found {entry.plain()!r}{hint}")
        return None
    try:
        finite = math.isfinite(entry.data)
    except OverflowError:  # a whole number of hundreds of digits
        finite = False
    if not finite:
        mistakes.add(entry, f"{key}: expected a finite number, found {str(entry.data)[:20]}")
        return None
    return entry.data


def number_that(fits: Callable[[float], bool], expected: str, **schema: Any) -> StatedCheck[float | None]:
    """Return a check that requires a finite number that `fits`; `expected` says that in words."""

    @accepts({"type": "number", **schema})
    def check(entry: Located, key: str, mistakes: Mistakes) -> float | None:
        value = number(entry, key, mistakes)
        if value is not None and not fits(value):
            mistakes.add(entry, f"{key}: expected {expected}, found {value:g}")
            return None
        return value

    return check


def that(fits: Callable[[Any], bool], expected: str, **schema: Any) -> StatedCheck[Any]:
    """Return a check that requires a value that `fits`; `expected` says that in words."""

    @accepts(schema)
    def check(entry: Located, key: str, mistakes: Mistakes) -> Any:
        if fits(entry.data):
            return entry.data
        mistakes.add(entry, f"{key}: expected {expected}, found {entry.plain()!r}")
        return None

    return check


def whole(low: int, high: float, expected: str) -> StatedCheck[Any]:
    """Return a check that requires a whole number within bounds."""
    return that(lambda value: type(value) is int and low <= value <= high, expected, type="integer", minimum=low)


positive = number_that(lambda value: value > 0, "a number above zero", exclusiveMinimum=0)
count = whole(1, math.inf, "a whole number above zero")
flag = that(lambda value: isinstance(value, bool), "true or false", type="boolean")


@accepts({})
def anything(entry: Located, key: str, mistakes: Mistakes) -> Any:  # noqa: ARG001  a Check's signature
    """Accept any value."""
    return entry.plain()


_DATE = r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?"


@accepts({"type": ["string", "integer"], "pattern": f"^{_DATE}$", "minimum": 1000, "maximum": 9999})
def date(entry: Located, key: str, mistakes: Mistakes) -> str | None:
    """Require a year, a month or a day: 2026, 2026-11 or 2026-11-21."""
    value = str(entry.plain())
    if not re.fullmatch(_DATE, value):
        mistakes.add(entry, f"{key}: expected a date such as 2026-11 or 2026-11-21, found {value!r}")
        return None
    return value


def one_of(*choices: str) -> StatedCheck[str | None]:
    """Return a check that requires one of the choices."""

    @accepts({"type": "string", "enum": list(choices)})
    def check(entry: Located, key: str, mistakes: Mistakes) -> str | None:
        if entry.data not in choices:
            mistakes.add(entry, f"{key}: {entry.plain()!r} is not known; {nearest(str(entry.plain()), choices)}")
            return None
        return str(entry.data)

    return check


def list_of(item: Check) -> StatedCheck[Any]:
    """Return a check that requires a list whose items pass `item`."""

    @accepts({"type": "array", "items": schema_of(item)})
    def check(entry: Located, key: str, mistakes: Mistakes) -> list[Any] | None:
        if not isinstance(entry.data, list):
            mistakes.add(entry, f"{key}: expected a list, found {entry.plain()!r}")
            return None
        return [item(child, key, mistakes) for child in entry.data]

    return check


def mapping_of(value: Check) -> StatedCheck[Any]:
    """Return a check that requires a mapping with any keys, whose values pass `value`."""

    @accepts({"type": "object", "additionalProperties": schema_of(value)})
    def check(entry: Located, key: str, mistakes: Mistakes) -> dict[str, Any] | None:
        if not isinstance(entry.data, dict):
            mistakes.add(entry, f"{key}: expected a mapping, found {entry.plain()!r}")
            return None
        return {name: value(child, f"{key}.{name}", mistakes) for name, child in entry.data.items()}

    return check


def record_of(fields: Mapping[str, Check], required: Sequence[str] = ()) -> StatedCheck[Any]:
    """Return a check that requires a mapping with the known keys `fields`, of which some are `required`."""
    properties = {name: schema_of(check) for name, check in fields.items()}
    demanded = {"required": list(required)} if required else {}

    @accepts({"type": "object", "properties": properties, "additionalProperties": False, **demanded})
    def check(entry: Located, key: str, mistakes: Mistakes) -> dict[str, Any] | None:
        if not isinstance(entry.data, dict):
            mistakes.add(entry, f"{key}: expected a mapping, found {entry.plain()!r}")
            return None
        values: dict[str, Any] = {}
        prefix = f"{key}." if key else ""
        for name, child in entry.data.items():
            if name in fields:
                values[name] = fields[name](child, prefix + name, mistakes)
            else:
                mistakes.add(child, f"unknown key '{prefix}{name}'; {nearest(name, fields)}")
        for name in required:
            if name not in entry.data:
                mistakes.add(entry, f"{key or 'the file'}: '{name}' is missing")
        return values

    return check
