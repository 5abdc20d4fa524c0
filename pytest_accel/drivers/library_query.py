"""Queries a management library by tables, which map a fact to the library function that returns it.

A function may be missing in an old library or wrapper, unsupported by the device, forbidden to the user, or fail. Such
a refusal is kept with its reason; only a lost device is an error.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.core.printable import printable
from pytest_accel.drivers import pci
from pytest_accel.drivers.host.host_environment import host_environment


class Answerer:
    """A source of a fact: the function or field to ask (its name, or the id of a field), and how to read its answer."""

    name: str | int
    read: Callable[[Any], Any]


def as_it_is(answer: Any) -> Any:
    """Return the answer unchanged."""
    return answer


@dataclass(frozen=True)
class LibraryCall(Answerer):
    """A call of one library function. A text among the arguments is the name of a constant of the library.

    `fills` names the struct that the function fills by reference; if it is empty, the function returns its answer.
    `target` is "device", or "system" for a function that takes no device.
    """

    name: str
    arguments: tuple[str | int, ...] = ()
    read: Callable[[Any], Any] = as_it_is
    fills: str = ""
    target: str = "device"


Table = Mapping[str, Answerer | tuple[Answerer, ...]]
"""Each fact with its sources; the first one that answers counts."""


class Refusal(Exception):
    """The library gave no answer.

    `unsupported` is True if this device or driver does not have the fact at all, False if this user, this moment or an
    error hides it.
    """

    def __init__(self, reason: str, unsupported: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.unsupported = reason, unsupported


class Asker:
    """One round of queries to one device: every function is called once, and its answer is remembered."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle
        self._answers: dict[Any, Any] = {}
        self.facts: dict[str, Any] = {}
        self.unread: dict[str, str] = {}
        """Facts that exist but could not be read, with the reason: a missing permission, an error."""
        self.unsupported: dict[str, str] = {}
        """Facts that this device or driver does not have, with the reason."""

    def ask(self, table: Table) -> dict[str, Any]:
        """Query the facts of a table, add them to `facts`, and return them. Raises DriverProblem for a lost device."""
        answers = {}
        for fact, sources in table.items():
            try:
                answers[fact] = self._first(several(sources))
            except Refusal as refusal:
                (self.unsupported if refusal.unsupported else self.unread)[fact] = refusal.reason
        self.facts.update(answers)
        return answers

    def sheet(self) -> dict[str, Any]:
        """Return all facts of the round, with `unread` and `unsupported` if these are not empty."""
        facts = {key: value for key, value in self.facts.items() if value is not None}
        refusals = {"unread": self.unread, "unsupported": self.unsupported}
        return {**facts, **{key: dict(sorted(reasons.items())) for key, reasons in refusals.items() if reasons}}

    def add_path(self, address: str | None, virtual: str, *, proxied: bool = False) -> None:
        """Add the PCI class of the device, and the bridges above it, which a virtual machine (its kind) emulates.

        `proxied` says that the driver is another kernel's, which this one's bus shows nothing of.
        """
        hidden = "/sys/bus/pci does not show the GPU here"
        if kind := pci.read(address, "class"):
            self.facts["pci_class"] = kind
        else:
            self.unsupported["pci_class"] = hidden
        # NVML calls the devices of some virtual machines bare metal, such as V100 of a cloud at 00:04.0
        if (kind or proxied) and not virtual and host_environment().machine:
            virtual = self.facts["virtualization"] = "passthrough"
        if virtual:
            self.unsupported["pcie_path"] = f"the bridges of a virtual machine are emulated ({virtual})"
        elif path := pci.path(address):
            self.facts["pcie_path"] = path
        else:
            self.unsupported["pcie_path"] = hidden

    def device(self, uuid: str, index: int, address: str | None, *, driver: str, of_device: Sequence[str]) -> Device:
        """Return the device with the facts of the round; answers named in `of_device` are its fields, and no facts."""
        facts = {name: value for name, value in self.facts.items() if value is not None}
        node, library_node = pci.numa_node(address), facts.get("numa_node", -1)
        return Device(
            uuid=uuid,
            index=index,
            driver=driver,
            model=facts.get("model", ""),
            memory_bytes=facts.get("memory_bytes", 0),
            # a board's memory may hold bytes that are no text: as escapes, since no record with them is read
            serial=printable(str(facts["serial"])) if "serial" in facts else None,
            pci_id=facts.get("pci_id"),
            pci_address=address,
            numa_node=node if node is not None else (library_node if library_node >= 0 else None),
            cpus=pci.near_cpus(address),
            facts={key: value for key, value in self.sheet().items() if key not in of_device},
        )

    def _first(self, sources: tuple[Answerer, ...]) -> Any:
        """Return the first answer; if all sources refuse, raise the most informative refusal."""
        refusals = []
        for source in sources:
            try:
                return self._read(source)
            except Refusal as refusal:
                refusals.append(refusal)
        # a fact that is hidden by an error is more informative than one that another version names differently
        raise min(refusals, key=lambda refusal: refusal.unsupported)

    def _read(self, source: Answerer) -> Any:
        answer = self._answer(source)
        try:
            return source.read(answer)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise Refusal(f"the library's answer cannot be interpreted: {error}") from None

    def _answer(self, source: Answerer) -> Any:
        """Return the library's answer, which is asked for once. Raises Refusal."""
        assert isinstance(source, LibraryCall)
        key = (source.name, source.arguments, source.fills)
        if key not in self._answers:
            self._answers[key] = self._attempt(lambda: self._invoke(source))
        return or_raise(self._answers[key])

    def _invoke(self, call: LibraryCall) -> Any:
        function = self._constant(call.name)
        arguments = [self._constant(argument) for argument in call.arguments]
        device = [self._handle] if call.target == "device" else []
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
        """Return the answer to a question, or the refusal. Raises DriverProblem for a lost device."""
        raise NotImplementedError

    def _error(self, status: int) -> Exception:
        """Return the library's exception for a status."""
        raise NotImplementedError


def several(sources: Answerer | tuple[Answerer, ...]) -> tuple[Answerer, ...]:
    """Return one source or several as a tuple."""
    return sources if isinstance(sources, tuple) else (sources,)


def or_raise(answer: Any) -> Any:
    """Return the answer, or raise it if it is a Refusal."""
    if isinstance(answer, Refusal):
        raise answer
    return answer


LIMITS_THAT_CHANGE = (
    "power_limit_w",
    "power_limit_requested_w",
    "power_limit_default_w",
    "power_limit_max_w",
    "clock_max_mhz",
    "memory_clock_max_mhz",
)
"""Facts of power and clock that somebody, or a controller of the chassis, may change while the node runs."""


def part(table: Table, names: Iterable[str]) -> Table:
    """Return the queries of a table for these facts."""
    return {name: table[name] for name in names}


def sources_of(table: Table) -> Iterator[Answerer]:
    """Yield every source of a table."""
    for sources in table.values():
        yield from several(sources)


def scaled(scale: float) -> Callable[[Any], float]:
    """Return a reader that multiplies a number by `scale`, to convert its unit."""
    return lambda value: value * scale


def named(names: Mapping[int, str]) -> Callable[[Any], str]:
    """Return a reader that turns a number of an enumeration into its name, or "unknown (N)"."""
    return lambda number: names.get(number, f"unknown ({number})")
