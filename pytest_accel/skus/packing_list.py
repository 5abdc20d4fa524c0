"""Packing lists of a delivery: CSV tables of serial numbers, with the node and slot of each board."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.words import did_you_mean

MOST_ERRORS = 20
"""Errors of one file that are listed; the others are counted."""
LINE_ENDS = re.compile(r"\r\n|\r|\n")
DELIMITERS = ",;\t"
AS_A_NUMBER = re.compile(r"\d(?:[.,]\d+)?[eE]\+\d{2,}|\d+\.0+")
"""The forms in which tables write a long number: the last digits of the serial number, or its leading zeros, are lost.

A spreadsheet writes the sign and two digits of the exponent: 7E12 is a serial number.
"""
INDEX = re.compile(r"(?:gpu)?([0-9]{1,4})", re.IGNORECASE)
"""A slot as the index of a device: 3, or gpu3 as the verdicts call it."""
PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.IGNORECASE)
SEPARATOR = re.compile(rf"sep=([{DELIMITERS}])", re.IGNORECASE)
"""The line above the header by which a table tells a spreadsheet what separates its cells."""
AS_TEXT = re.compile(r'="(.*)"')
"""The form by which some tables keep a spreadsheet from making a number of it."""


@dataclass(frozen=True)
class ListedBoard:
    """A board of the list. A column that the list does not have, or an empty cell, is an empty text."""

    serial: str
    node: str = ""
    """The name of the node that it belongs in."""
    slot: str = ""
    """The index of the device in its node, also as gpu3, or its PCI address."""
    model: str = ""
    uuid: str = ""
    node_serial: str = ""
    """The serial number of the node. It is shown, and compared with nothing: no library states it for all products."""
    returned: str = ""
    """The number (RMA) or the date of its return, if the board was sent back before."""
    vbios: str = ""
    inforom: str = ""
    firmware_bundle: str = ""
    line: int = 0


VERSIONS = ("vbios", "inforom", "firmware_bundle")
"""The columns of facts of a device (`Device.facts`) that the list demands."""
COLUMNS = tuple(column.name for column in fields(ListedBoard) if column.name != "line")


@dataclass(frozen=True)
class PackingList:
    """The boards that were ordered or announced, in the order of the list, with the hash of the file."""

    file: str
    sha256: str
    rows: tuple[ListedBoard, ...]

    @cached_property
    def by_serial(self) -> Mapping[str, ListedBoard]:
        """Each row by its serial number, as `same` writes it."""
        return {same(row.serial): row for row in self.rows}

    @cached_property
    def _without_zeros(self) -> Mapping[str, ListedBoard]:
        return {same(row.serial).lstrip("0"): row for row in self.rows}

    @cached_property
    def nodes(self) -> NodeNames:
        """The names of the nodes."""
        return NodeNames(row.node for row in self.rows if row.node)

    @cached_property
    def by_node(self) -> Mapping[str, Sequence[ListedBoard]]:
        """The rows that name a node, by that name as `nodes` finds it."""
        return grouped((row for row in self.rows if row.node), lambda row: self.nodes.find(row.node))

    def but_for_zeros(self, serial: str) -> ListedBoard | None:
        """Return the row whose serial number differs from this one by leading zeros alone, None if there is none."""
        row = self._without_zeros.get(same(serial).lstrip("0"))
        return row if row and same(row.serial) != same(serial) else None

    def returned_among(self, devices: Iterable[Device]) -> list[str]:
        """Return the devices that were sent back before: "gpu3 (serial 165, returned: RMA 17)"."""
        rows = ((device, self.by_serial.get(same(device.serial or ""))) for device in devices)
        return [
            f"{device.name} (serial {device.serial}, returned: {printable(row.returned)})"
            for device, row in rows
            if row and row.returned
        ]

    def of_node(self, node: str) -> Sequence[ListedBoard]:
        """Return the rows of a node; none if the list names no such node."""
        return self.by_node.get(self.nodes.find(node), ())


def same(serial: str) -> str:
    """Return the form of a serial number in which two writings of it are equal: in capitals, without spaces around."""
    return serial.strip().upper()


class NodeNames:
    """Names of nodes, in which a node is found by its name with its domain and by its name without one.

    Two names with different domains are two nodes. A name without domain is the node of that name with one, if there is
    only one.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Take the names as they were written."""
        self._names = {_written(name) for name in names}
        self._with_domain = grouped((name for name in sorted(self._names) if _short(name) != name), _short)

    def find(self, name: str) -> str:
        """Return the name under which a node is known; empty if none, or more than one, could be meant."""
        name = _written(name)
        longer = self._with_domain.get(name, [])
        if len(longer) == 1:
            return longer[0]
        if name in self._names:
            return name
        stem = _short(name)
        return stem if stem in self._names and stem not in self._with_domain else ""


def _written(name: str) -> str:
    return name.strip().lower().rstrip(".") or name


def _short(name: str) -> str:
    """Return the name of a node without its domain. An IP address has none."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.partition(".")[0] or name
    return name


def index_of(slot: str) -> int | None:
    """Return the index of the device that a slot names, None for a PCI address."""
    match = INDEX.fullmatch(slot.strip())
    return int(match[1]) if match else None


def pci_address(text: str) -> str:
    """Return a PCI address as 0000:1b:00.0; empty for any other text."""
    match = PCI_ADDRESS.fullmatch(text.strip())  # libraries write four or eight digits of domain
    if not match:
        return ""
    domain, bus, device, function = (int(group or "0", 16) for group in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def load(path: Path) -> PackingList:
    """Read a packing list. Raises BadFile with the errors, each with line and column."""
    raw = untrusted.read_bytes(path, most=untrusted.TABLE_BYTES)
    try:
        text = untrusted.decode(raw, str(path))
    except BadFile as bad:
        raise BadFile(f'{bad}; a spreadsheet writes it as "CSV UTF-8"') from None
    rows = parse(text, str(path))
    return PackingList(str(path), hashlib.sha256(raw).hexdigest(), tuple(rows))


def parse(text: str, file: str) -> list[ListedBoard]:
    """Return the rows of a packing list; `file` is its name in messages. Raises BadFile."""
    lines = [(number, line) for number, line in enumerate(LINE_ENDS.split(text), 1) if line.strip(f" {DELIMITERS}")]
    if not lines:
        raise BadFile(f"{file}:1: the file is empty; it begins with a header, of which 'serial' is required")
    separator = SEPARATOR.fullmatch(lines[0][1].strip())
    if separator and len(lines) > 1:
        lines = lines[1:]
    number, first = lines[0]
    delimiter = separator[1] if separator else max(DELIMITERS, key=first.count)
    header = _header(first, delimiter, f"{file}:{number}")
    rows, errors = [], []
    for number, line in lines[1:]:
        mistakes = list(_wrong(line, delimiter, header))
        errors += [f"{file}:{number}: {mistake}" for mistake in mistakes]
        if not mistakes:
            rows.append(ListedBoard(**dict(zip(header, _cells(line, delimiter), strict=False)), line=number))
    errors += _duplicates(rows, file)
    if not rows and not errors:
        errors = [f"{file}:{lines[0][0]}: there is no row below the header"]
    if errors:
        note = [f"and {len(errors) - MOST_ERRORS:,} more"] if len(errors) > MOST_ERRORS else []
        raise BadFile(*errors[:MOST_ERRORS], *note)
    return rows


def _header(line: str, delimiter: str, location: str) -> list[str]:
    """Return the names of the columns. Raises BadFile for unknown ones, one that is there twice, and no serial."""
    try:
        names = [cell.strip().lower().replace(" ", "_") for cell in _cells(line, delimiter)]
    except BadFile as bad:
        raise BadFile(*bad.prefixed(location)) from None
    while len(names) > 1 and not names[-1]:
        names.pop()
    for name in names:
        if name not in COLUMNS:
            hint = f"choose from {', '.join(COLUMNS)}{did_you_mean(name, COLUMNS)}"
            raise BadFile(f"{location}: column '{printable(name, SHOWN)}' is not known; {hint}")
        if names.count(name) > 1:
            raise BadFile(f"{location}: column '{name}' is there twice")
    if "serial" not in names:
        raise BadFile(f"{location}: column 'serial' is missing; choose from {', '.join(COLUMNS)}")
    return names


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of one line without the marks by which a table keeps a spreadsheet from making numbers of them.

    Raises BadFile with the error of the line.
    """
    cells = untrusted.cells(line, delimiter, strict=True)
    return [as_text[1].strip() if (as_text := AS_TEXT.fullmatch(cell)) else cell.removeprefix("'") for cell in cells]


def _wrong(line: str, delimiter: str, header: Sequence[str]) -> Iterator[str]:
    """Yield the errors of a line, each with the column."""
    try:
        cells = _cells(line, delimiter)
    except BadFile as bad:
        yield str(bad)
        return
    if len(cells) < len(header) or any(cells[len(header) :]):
        yield f"has {len(cells)} cells, the header {len(header)}"
        return
    for name, cell in zip(header, cells, strict=False):  # empty columns behind the last one mean nothing
        if name == "serial" and not cell:
            yield "column 'serial' is empty; every row names a board"
        elif not cell.isprintable():
            yield f"column '{name}': '{printable(cell, SHOWN)}' holds an invisible character; write the cell anew"
        elif name in ("serial", "node_serial") and not cell.isascii():
            yield f"column '{name}': {cell[:SHOWN]!a} holds a character that is not ASCII; write it anew"
        elif name in ("serial", "node_serial") and AS_A_NUMBER.fullmatch(cell):
            reason = "a spreadsheet wrote a number, and digits are lost; make the column text and export it again"
            yield f"column '{name}': '{cell}': {reason}"
        elif name == "slot" and cell and index_of(cell) is None and not pci_address(cell):
            reason = "is no slot; write the index of the device (3 or gpu3) or its PCI address (0000:1b:00.0)"
            yield f"column 'slot': '{printable(cell, SHOWN)}' {reason}"
        elif len(cell) > SHOWN:
            yield f"column '{name}': has {len(cell):,} characters; at most {SHOWN} are read"


def _duplicates(rows: Sequence[ListedBoard], file: str) -> Iterator[str]:
    """Yield every serial number, and every UUID, that is in two rows, and every slot that two boards are listed for."""
    for name in ("serial", "uuid"):
        rows_by_value: dict[str, ListedBoard] = {}
        for row in rows:
            value = same(getattr(row, name))
            first = rows_by_value.setdefault(value, row) if value else row
            if first is not row:
                yield f"{file}:{row.line}: column '{name}': '{printable(value)}' is in line {first.line} already"
    nodes = NodeNames(row.node for row in rows if row.node)
    slots: dict[tuple[str, object], ListedBoard] = {}
    for row in rows:
        if row.node and row.slot:
            index = index_of(row.slot)
            slot = pci_address(row.slot) if index is None else index
            first = slots.setdefault((nodes.find(row.node), slot), row)
            if first is not row:
                label = f"'{printable(row.slot)}' of {printable(row.node)}"
                yield f"{file}:{row.line}: column 'slot': {label} is listed in line {first.line} already"
