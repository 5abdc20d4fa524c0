"""The devices of a node against a packing list: the right boards, in the right node, and all of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pytest_accel.core.measurement import EVERYTHING_ELSE, NODE, Device, Measurement, Trouble
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.sku_types import DeclaredBy, Limit, Sku
from pytest_accel.core.words import listed
from pytest_accel.drivers import registry
from pytest_accel.judging.facts.inventory import missing_fact
from pytest_accel.skus.packing_list import VERSIONS, ListedBoard, PackingList, index_of, pci_address, same

SERIAL, LIST = "inventory.serial", "inventory.packing_list"
METRICS = (SERIAL, LIST)
"""The metrics: the serial number of each device, and the completeness of the node."""
AS_LISTED, COMPLETE = "as listed", "complete"
"""Their values where nothing is wrong."""


def limits(sha256: str, sku: Sku | None, *, names_nodes: bool) -> dict[str, Limit]:
    """Return the limits that a packing list with this hash adds, by metric; none where no SKU is known.

    A list that names no nodes cannot say that one is complete.
    """
    if sku is None:
        return {}
    is_processor = not registry.vendor(sku.vendor).accelerator
    expected = {SERIAL: AS_LISTED, **({LIST: COMPLETE} if names_nodes else {})}
    return {
        metric: Limit(
            metric,
            "text",
            equals=value,
            if_supported=is_processor,  # which has no serial number that a program reads
            origin=f"packing list, sha256 {sha256[:12]}",
            declared_by=DeclaredBy.RUN,
        )
        for metric, value in expected.items()
    }


class ListState(Enum):
    """The state of a device by the list."""

    AS_LISTED = "as listed"
    NOT_LISTED = "not listed"
    ELSEWHERE = "elsewhere"
    """Listed for another node of the list."""
    DIFFERENT = "different"
    """Listed with another UUID, model, slot or version."""
    BUT_FOR_ZEROS = "but for zeros"
    NODE_UNKNOWN = "node unknown"
    """The list has the board, and no row for the node that it is in."""
    NO_SERIAL = "no serial"
    NO_VERSION = "no version"
    """A version that the list demands cannot be read."""
    NOT_APPLICABLE = "not applicable"


UNKNOWN = (ListState.BUT_FOR_ZEROS, ListState.NODE_UNKNOWN, ListState.NO_SERIAL, ListState.NO_VERSION)
"""The states in which nothing is known of the board: the list, or what can be read, has to become better."""


@dataclass(frozen=True)
class Listing:
    """The state of a device by the list, with words that a verdict shows, and its row if there is one."""

    state: ListState
    words: str
    row: ListedBoard | None = None


def facts(
    metric: str, boards: PackingList, devices: Sequence[Device], host: str, now: float = 0.0
) -> list[Measurement]:
    """Return the measurements of one of the metrics, made at `now` (seconds since the epoch), on the node `host`."""
    if metric == LIST:
        return [_of_node(boards, devices, host, now)]
    return [_of_device(standing(boards, device, host), device, now) for device in devices]


def _of_device(entry: Listing, device: Device, now: float) -> Measurement:
    trouble: Trouble | None = None
    if entry.state in UNKNOWN:
        trouble = Trouble("need", entry.words)
    elif entry.state is ListState.NOT_APPLICABLE:
        trouble = Trouble("not_applicable", entry.words)
    value = None if trouble else entry.words
    return Measurement(SERIAL, device.uuid, "text", value, trouble=trouble, started=now, ended=now)


def standing(boards: PackingList, device: Device, host: str) -> Listing:
    """Return the state of a device of the node `host` by the list, for its run and the document of the delivery."""
    if no_serial := _no_serial(device):
        return no_serial
    serial = printable(device.serial or "", SHOWN)
    row = boards.by_serial.get(same(device.serial or ""))
    if row is None:
        other = boards.but_for_zeros(device.serial or "")
        if other is None:
            return Listing(ListState.NOT_LISTED, f"{serial} is not on the list")
        return Listing(ListState.BUT_FOR_ZEROS, f"{serial} is not on the list, but {_but_for_zeros(other)}", other)
    if row.node and boards.nodes.find(row.node) != boards.nodes.find(host):
        return _elsewhere(boards, row, host)
    if deviations := differences(row, device):
        words = f"{serial} is on the list (line {row.line}), but {'; '.join(deviations)}"
        return Listing(ListState.DIFFERENT, words, row)
    for name in VERSIONS:
        if getattr(row, name) and not device.facts.get(name):
            reason = missing_fact(device.facts, name).reason
            words = f"{serial}: the list (line {row.line}) demands a version; {reason}"
            return Listing(ListState.NO_VERSION, words, row)
    return Listing(ListState.AS_LISTED, AS_LISTED, row)


def _no_serial(device: Device) -> Listing | None:
    """Return the standing of a device whose serial number is not known, None if it is."""
    vendor = registry.vendor(device.driver)
    if not vendor.accelerator:
        reason = f"a {vendor.title} states no serial number, so no list can name it"
        return Listing(ListState.NOT_APPLICABLE, reason)
    if device.serial and device.serial.strip():
        return None
    unread = device.facts.get("unread", {})
    reason = unread.get("serial") or unread.get(EVERYTHING_ELSE) or "the driver does not report it"
    return Listing(ListState.NO_SERIAL, f"serial number: {reason}")


def _but_for_zeros(row: ListedBoard) -> str:
    return (
        f"line {row.line} has {row.serial}, which differs by leading zeros alone: a spreadsheet drops them; correct "
        "the list, with the column as text"
    )


def _elsewhere(boards: PackingList, row: ListedBoard, host: str) -> Listing:
    """Return the standing of a board that the list has in another node; unknown if it does not know this node."""
    node = printable(row.node, SHOWN)
    if not boards.of_node(host):
        hint = f"the list has no row for this node, {printable(host, SHOWN)}: correct its names"
        return Listing(ListState.NODE_UNKNOWN, f"listed for {node} (line {row.line}), and {hint}", row)
    words = f"{row.serial} is listed for {node} (line {row.line}): a board of another node"
    return Listing(ListState.ELSEWHERE, words, row)


def differences(row: ListedBoard, device: Device) -> list[str]:
    """Return the deviations of a device from its row of the list besides node and serial number, in words."""
    deviations = []
    if row.uuid and same(row.uuid) != same(device.uuid):
        deviations.append(f"its UUID is {printable(device.uuid, SHOWN)}, listed {printable(row.uuid)}")
    if row.model and _words(row.model) != _words(device.model):
        deviations.append(f"its model is {printable(device.product, SHOWN)}, listed {printable(row.model)}")
    for name in VERSIONS:
        version, demanded = str(device.facts.get(name) or ""), getattr(row, name)
        if version and demanded and same(version) != same(demanded):
            deviations.append(f"its {name} is {printable(version, SHOWN)}, listed {printable(demanded)}")
    if row.slot and not in_slot(row.slot, device):
        deviations.append(f"it is in slot {device.index} ({device.pci_address or 'no PCI address'}), listed {row.slot}")
    return deviations


def in_slot(slot: str, device: Device) -> bool:
    """Return True if a slot of the list, an index or a PCI address, is that of the device."""
    index = index_of(slot)
    if index is not None:
        return index == device.index
    return pci_address(slot) == pci_address(device.pci_address or "")


def _words(text: str) -> list[str]:
    return text.lower().split()


def _of_node(boards: PackingList, devices: Sequence[Device], host: str, now: float) -> Measurement:
    """Return the measurement of completeness: every board that the list has for this node is in it."""
    value, trouble = None, None
    if devices and not any(registry.vendor(device.driver).accelerator for device in devices):
        trouble = Trouble("not_applicable", "processors state no serial number, so no list can name them")
    elif not boards.of_node(host):
        trouble = Trouble("need", f"the list has no row for this node, {host}; it has {listed(sorted(boards.by_node))}")
    else:
        value, trouble = _absent(boards, devices, host)
    return Measurement(LIST, NODE, "text", value, trouble=trouble, started=now, ended=now)


def _absent(boards: PackingList, devices: Sequence[Device], host: str) -> tuple[str | None, Trouble | None]:
    """Return the boards that are listed for this node and absent, in words, or why that is not known."""
    serials = {same(device.serial) for device in devices if device.serial}
    missing = [board for board in boards.of_node(host) if same(board.serial) not in serials]
    if not missing:
        return COMPLETE, None
    words = listed([f"{board.serial} (line {board.line})" for board in missing], 8)
    # a device whose serial number is not known, or that the list has but for leading zeros, may be a missing one
    others = [device for device in devices if not device.serial or same(device.serial) not in boards.by_serial]
    doubtful = [one.name for one in others if not one.serial or boards.but_for_zeros(one.serial) is not None]
    if len(doubtful) >= len(missing):
        return None, Trouble("need", f"absent, unless {listed(doubtful, 8)} is meant: {words}")
    return f"absent: {words}", None
