"""Facts of the memory modules of the host: number, size, speed, and their errors."""

from __future__ import annotations

import struct
from collections import Counter
from functools import partial
from pathlib import Path

from pytest_accel.drivers.host import HiddenFact, HostAnswer, fact, number, some, sum_of, unroot

_HOST = "the host sees them"


def _edac(root: Path, counter: str) -> HostAnswer:
    """Return the sum of a counter, since the EDAC driver was loaded, over all memory controllers, and the worst one."""
    folder = root / "sys/devices/system/edac/mc"
    controllers = sorted(folder.glob("mc[0-9]*"))
    if not controllers:
        raise HiddenFact(f"{unroot(folder)} shows no memory controller: its EDAC driver is not loaded")
    return sum_of({controller.name: number(controller / counter) for controller in controllers})


fact(name="ecc_corrected", machine=_HOST)(partial(_edac, counter="ce_count"))
fact(name="ecc_uncorrected", machine=_HOST)(partial(_edac, counter="ue_count"))


@fact(
    user="only root may read the firmware's tables",
    container="/sys/firmware is masked",
    machine=_HOST,
)
def dimms(root: Path) -> str:
    """Return number, size and speed of the memory modules.

    Read from SMBIOS type 17, one entry per slot (DMTF DSP0134, 7.18); an empty slot has the size 0.
    """
    folder = root / "sys/firmware/dmi/entries"
    slots = sorted(folder.glob("17-*"))
    if not slots:
        raise HiddenFact(f"{unroot(folder)} shows no memory module")
    modules = Counter(filter(None, map(_module, slots)))
    return some([f"{count} x {module}" for module, count in sorted(modules.items())]) or "all slots are empty"


def _module(slot: Path) -> str:
    path = slot / "raw"
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise HiddenFact(f"{unroot(path)}: {error.strerror}") from None
    if len(raw) < 0x17:
        raise HiddenFact(f"{unroot(path)}: {len(raw)} bytes are too few for a memory module")
    (size,) = struct.unpack_from("<H", raw, 0x0C)
    if size in (0, 0xFFFF):
        return ""
    mib = size * (1 / 1024 if size & 0x8000 else 1)
    if size == 0x7FFF and len(raw) >= 0x20:
        mib = struct.unpack_from("<I", raw, 0x1C)[0] & 0x7FFFFFFF
    (rated,) = struct.unpack_from("<H", raw, 0x15)
    configured = struct.unpack_from("<H", raw, 0x20)[0] if len(raw) >= 0x22 else 0
    slower = f" (rated {rated})" if configured and configured < rated else ""
    return f"{mib / 1024:g} GiB at {configured or rated} MT/s{slower}"
