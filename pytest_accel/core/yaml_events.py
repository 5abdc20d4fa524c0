"""Builds located values from the events of the YAML parser.

The limits hold while the events arrive, before anything large is built: the parser's own composer recurses without a
limit in C, and multiplies aliases. Only the tags of YAML's own scalars are read; no object is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import yaml

from pytest_accel.core.located import Findings, Located
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import MIB, NUMBER_CHARACTERS, BadFile

FILE_BYTES = MIB
"""Size of the largest YAML file that is read. The largest shipped one has 13 kB."""
PRECISE_BYTES = MIB // 8
"""Size up to which a file with an error of syntax is parsed again in Python, at about 1 s per 500 kB."""
VALUES = 20_000
"""Most values of a file, those that aliases repeat included. The largest shipped file has 1,000."""
DEPTH = 32
"""Deepest nesting of a file. A shipped file has 6 levels."""
SCALAR_CHARACTERS = 20_000
"""Length of the longest text."""

_RESOLVER = yaml.SafeLoader("")
_TAG = "tag:yaml.org,2002:"
_SCALARS = tuple(_TAG + name for name in ("null", "bool", "int", "float", "timestamp", "str", "merge", "value"))
_NUMBERS = (_TAG + "int", _TAG + "float")
_MAPPING = (None, "!", _TAG + "map")
_LIST = (None, "!", _TAG + "seq")
_EXPECTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "timestamp": "a date: 2026-11-23"}
"""The form that a scalar of each type has, for the error on one that cannot be read."""
_UNREADABLE = (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, OverflowError)
"""Errors of the constructors of YAML's scalars for a text that does not fit the type: "!!bool maybe", a 13th month."""


def compose(text: str, shown: str, findings: Findings) -> Located | None:
    """Return the root of a YAML document, None for an empty one. Raises BadFile, which calls the file `shown`.

    The C parser is used if there is one, since it is ten times as fast. A text that it refuses is parsed again in
    Python, whose errors are more precise.
    """
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    before = len(findings.lines)
    try:
        return _Builder(yaml.parse(text, Loader=fast), shown, findings).document()
    except yaml.YAMLError as error:
        if len(text) > PRECISE_BYTES:
            raise BadFile(_syntax(shown, error)) from None
    del findings.lines[before:]
    try:
        return _Builder(yaml.parse(text, Loader=yaml.SafeLoader), shown, findings).document()
    except yaml.YAMLError as error:
        raise BadFile(_syntax(shown, error)) from None


class _Builder:
    """The values of one document, built from its events."""

    def __init__(self, events: Iterator[yaml.Event], shown: str, findings: Findings) -> None:
        self._events = events
        self._shown = shown
        self._findings = findings
        self._values = 0
        self._anchors: dict[str, tuple[Located, int] | None] = {}
        """The value of each anchor with the number of values in it; None while it is being read."""

    def document(self) -> Located | None:
        """Return the root of the only document."""
        event = next(self._events)
        while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return None
        root = self._value(event, 0)
        after = [event for event in self._events if not isinstance(event, yaml.DocumentEndEvent)]
        if not isinstance(after[0], yaml.StreamEndEvent):
            raise self._bad(after[0], "a second document begins; one file holds one")
        return None if _is_empty(event) else root

    def _value(self, event: yaml.Event, depth: int, key: str = "") -> Located:
        """Return the value that begins with `event`, and that stands under `key` if it is one of a mapping."""
        if depth > DEPTH:
            raise self._bad(event, f"the values are nested more than {DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event)
        before, anchor = self._values, getattr(event, "anchor", None)
        self._add(event, 1)
        here = Located(None, self._shown, _line(event))
        if anchor:
            self._anchors[anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            here.data = self._scalar(event, here, key)
        elif isinstance(event, yaml.CollectionStartEvent):
            whole = isinstance(event, yaml.MappingStartEvent)
            if event.tag not in (_MAPPING if whole else _LIST):
                self._findings.add(here, f"the tag {event.tag} is not known")
            here.data = self._mapping(depth) if whole else self._list(depth)
        if anchor:
            self._anchors[anchor] = here, self._values - before
        return here

    def _list(self, depth: int) -> list[Located]:
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Located]:
        found: dict[str, Located] = {}
        inherited: dict[str, Located] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event)
            value = self._value(next(self._events), depth + 1, key)
            if key == "<<" and isinstance(value.data, dict):
                inherited.update(value.data)
                continue
            value = replace(value, line=_line(event))
            if key in found:
                self._findings.add(value, f"key '{key}' is given twice (first in line {found[key].line})")
            found[key] = value
        return {**inherited, **found}

    def _key(self, event: yaml.Event) -> str:
        """Return a key as text; a list, a mapping or an alias is none."""
        if not isinstance(event, yaml.ScalarEvent):
            raise self._bad(event, "a key is text or a number")
        return _one_line(str(self._checked(event)))

    def _scalar(self, event: yaml.ScalarEvent, here: Located, key: str) -> Any:
        """Return a scalar as text, number, truth value, date or None."""
        text = self._checked(event)
        implied: str = _RESOLVER.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
        tag = event.tag if event.tag not in (None, "!") else implied
        short = repr(text) if len(text) <= NUMBER_CHARACTERS else f"{text[:20]!r}... ({len(text):,} characters)"
        if tag in _NUMBERS and len(text) > NUMBER_CHARACTERS:
            self._findings.add(here, f"the number {short} is longer than {NUMBER_CHARACTERS} characters")
            return None
        if tag in _SCALARS:
            try:
                value = _RESOLVER.construct_object(yaml.ScalarNode(tag, text))
                return _one_line(value) if isinstance(value, str) else value
            except _UNREADABLE:
                pass
        kind = tag.rpartition(":")[2]
        under = f"{key}: " if key else ""
        self._findings.add(here, f"{under}{short} cannot be read as {_EXPECTED.get(kind, kind)}")
        return None

    def _checked(self, event: yaml.ScalarEvent) -> str:
        """Return the text of a scalar that is not too long."""
        if len(event.value) > SCALAR_CHARACTERS:
            raise self._bad(event, f"a text of {len(event.value):,} characters; the longest has {SCALAR_CHARACTERS:,}")
        return str(event.value)

    def _repeated(self, event: yaml.AliasEvent) -> Located:
        """Return the value that an alias repeats."""
        if event.anchor not in self._anchors:
            raise self._bad(event, f"the alias *{event.anchor} repeats a value that no anchor names")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise self._bad(event, f"the alias *{event.anchor} stands inside of the value that it repeats")
        value, size = anchored
        self._add(event, size)
        return value

    def _add(self, event: yaml.Event, values: int) -> None:
        """Count values, those that an alias repeats included."""
        self._values += values
        if self._values > VALUES:
            raise self._bad(event, f"the file has more than {VALUES:,} values")

    def _bad(self, event: yaml.Event, why: str) -> BadFile:
        return BadFile(f"{self._shown}:{_line(event)}: {printable(why)}")


def _one_line(text: str) -> str:
    """Return a text as one printable line: what a file says is shown in tables, errors and closing lines."""
    return text if text.isprintable() else printable(" ".join(text.split("\n")).strip())


def _line(event: yaml.Event) -> int:
    """Return the line of an event; the first line is 1."""
    return event.start_mark.line + 1 if event.start_mark else 1


def _is_empty(event: yaml.Event) -> bool:
    """Return whether a document consists of an empty scalar, as a file with only comments between marks does."""
    return isinstance(event, yaml.ScalarEvent) and not event.value and event.style is None


def _syntax(shown: str, error: yaml.YAMLError) -> str:
    """Return an error of the parser with its place."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"{shown}: holds a character that YAML does not allow (U+{error.character:04X})"
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    text = str(getattr(error, "problem", None) or error)
    if "'\\t'" in text:
        text = "a tab is used for indentation; YAML requires spaces"
    return f"{shown}:{mark.line + 1 if mark else 1}: {printable(text, 200)}"
