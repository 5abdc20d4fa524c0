"""Asking a management library by tables: a fact's name, the function that knows it, how to read the answer.

Every call may be missing in an old library or an old wrapper, unsupported by the device, forbidden to the user, or
fail: that is an answer, kept with its reason. Only a lost device is an error.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Answerer(Protocol):
    """What knows a fact, and how to read its answer."""

    @property
    def name(self) -> str | int: ...

    @property
    def read(self) -> Callable[[Any], Any]: ...


def as_it_is(answer: Any) -> Any:
    return answer


@dataclass(frozen=True)
class LibraryCall:
    """One function of the library. An argument that is a text is the name of a constant in it.

    `fills` names the struct that the function fills by reference; without, it returns its answer. `about` is
    "device", or "system" for a function that takes no device.
    """

    name: str
    arguments: tuple[str | int, ...] = ()
    read: Callable[[Any], Any] = as_it_is
    fills: str = ""
    about: str = "device"


Table = Mapping[str, Answerer | tuple[Answerer, ...]]
"""Fact to what knows it; of several the first that answers is believed."""


class Refusal(Exception):
    """Why there is no answer. `unsupported`: this device or this driver has no such thing, whoever asks."""

    def __init__(self, reason: str, unsupported: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.unsupported = reason, unsupported


class Asker:
    """One round of questions to one device: every function is called once, its answer is remembered."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle
        self._known: dict[Any, Any] = {}
        self.facts: dict[str, Any] = {}
        self.unread: dict[str, str] = {}
        """Facts that this user, this driver or this moment does not give, with the reason."""
        self.unsupported: dict[str, str] = {}
        """Facts that there is no such thing as, on this device or with this driver."""

    def ask(self, table: Table) -> dict[str, Any]:
        """Add what the table knows, and return it. Raises DriverProblem for a lost device."""
        found = {}
        for fact, sources in table.items():
            try:
                found[fact] = self._first(several(sources))
            except Refusal as refusal:
                (self.unsupported if refusal.unsupported else self.unread)[fact] = refusal.reason
        self.facts.update(found)
        return found

    def sheet(self) -> dict[str, Any]:
        """All facts of the round, `unread` and `unsupported` among them where there are any."""
        kept = {key: value for key, value in self.facts.items() if value is not None}
        lacking = {"unread": self.unread, "unsupported": self.unsupported}
        return {**kept, **{key: dict(sorted(each.items())) for key, each in lacking.items() if each}}

    def _first(self, sources: tuple[Answerer, ...]) -> Any:
        """The first answer. Of several refusals the one that tells most: not that an older name is gone."""
        refusals = []
        for source in sources:
            try:
                return self._read(source)
            except Refusal as refusal:
                refusals.append(refusal)
        raise min(refusals, key=lambda refusal: refusal.unsupported)

    def _read(self, source: Answerer) -> Any:
        answer = self._answer(source)
        try:
            return source.read(answer)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise Refusal(f"an answer that is not understood: {error}") from None

    def _answer(self, source: Answerer) -> Any:
        """What the library answers, asked once. Raises Refusal."""
        assert isinstance(source, LibraryCall)
        key = (source.name, source.arguments, source.fills)
        if key not in self._known:
            self._known[key] = self._attempt(lambda: self._invoke(source))
        return or_raise(self._known[key])

    def _invoke(self, call: LibraryCall) -> Any:
        function = self._constant(call.name)
        arguments = [self._constant(each) for each in call.arguments]
        device = [self._handle] if call.about == "device" else []
        if not call.fills:
            return function(*device, *arguments)
        struct = self._constant(call.fills)()
        status = function(*device, *arguments, ctypes.byref(struct))
        if status:  # some wrappers return what others raise
            raise self._error(status)
        return struct

    def _constant(self, argument: str | int) -> Any:
        return operator.attrgetter(argument)(self._library) if isinstance(argument, str) else argument

    def _attempt(self, question: Callable[[], Any]) -> Any:
        """The answer, or the refusal. Raises DriverProblem for a lost device."""
        raise NotImplementedError

    def _error(self, status: int) -> Exception:
        """The library's exception for a status."""
        raise NotImplementedError


def several(sources: Answerer | tuple[Answerer, ...]) -> tuple[Answerer, ...]:
    return sources if isinstance(sources, tuple) else (sources,)


def or_raise(answer: Any) -> Any:
    if isinstance(answer, Refusal):
        raise answer
    return answer


def sources_of(table: Table) -> Iterator[Answerer]:
    """Every source of a table."""
    for sources in table.values():
        yield from several(sources)


def flag(value: Any) -> bool:
    return bool(value)


def scaled(scale: float) -> Callable[[Any], float]:
    """Reads a number in another unit."""
    return lambda value: value * scale


def named(names: Mapping[int, str], place: int | None = None) -> Callable[[Any], str]:
    """Reads a number of an enumeration as its name; one that is not known stays a number."""

    def read(value: Any) -> str:
        number = value if place is None else value[place]
        return names.get(number, f"unknown ({number})")

    return read
