"""Boards that were sent back before: a table with the column serial, such as the ledger of a fleet.

A board that was rejected in one node and comes back in another one is known by its serial number alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.measurement import Device
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.untrusted import BadFile
from pytest_accel.skus.packing_list import same


def load(path: Path) -> dict[str, str]:
    """Return what a table says of every serial number, the last row counts: "RMA 17, 2026-11-20". Raises BadFile."""
    columns, rows = untrusted.table(path)
    if "serial" not in columns:
        raise BadFile(f"{path}:1: has no column 'serial'; other columns that are read: rma, node, at")
    found = {}
    for row in rows:
        if serial := same(row["serial"]):
            told = (f"RMA {row['rma']}" if row.get("rma") else "", row.get("node", ""), row.get("at", "")[:10])
            found[serial] = printable(", ".join(filter(None, told)), SHOWN)
    return found


def named(found: Mapping[str, str], devices: Iterable[Device]) -> list[str]:
    """Return the devices that were sent back before: "gpu3 (serial 165, returned: RMA 17, 2026-11-20)"."""
    return [
        f"{each.name} (serial {each.serial}, returned{f': {told}' if (told := found[same(each.serial)]) else ''})"
        for each in devices
        if each.serial and same(each.serial) in found
    ]
