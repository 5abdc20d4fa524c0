"""Queries on the errors of the memory and of the other blocks, and on retired memory pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_accel.drivers.library_query import Asker, LibraryCall, Table
from pytest_accel.drivers.vendors.amd.query import value

TOTAL, PAGES, FEATURES = (
    "amdsmi_get_gpu_total_ecc_count",
    "amdsmi_get_gpu_bad_page_info",
    "amdsmi_get_gpu_ras_feature_info",
)
UMC = 1
"""The bit of the memory controllers in the mask of blocks with ECC (AMDSMI_GPU_BLOCK_UMC)."""
KINDS = {"correctable": "correctable_count", "uncorrectable": "uncorrectable_count", "deferred": "deferred_count"}
BLOCKS = ("UMC", "SDMA", "GFX", "MMHUB", "ATHUB", "PCIE_BIF", "HDP", "XGMI_WAFL", "DF", "SMN", "SEM", "MP0", "MP1",
          "FUSE", "MCA", "VCN", "JPEG", "IH", "MPIO")  # fmt: skip
RESERVED, PENDING, UNRESERVABLE = 0, 1, 2
"""AMDSMI_MEM_PAGE_STATUS_*: retired, marked for retirement, and not retirable."""

ERRORS: Table = {
    "ecc": LibraryCall("amdsmi_get_gpu_ecc_enabled", read=lambda blocks: bool(blocks & UMC)),
    **{f"ecc_{kind}_volatile": LibraryCall(TOTAL, read=value(key)) for kind, key in KINDS.items()},
    "poison": LibraryCall(FEATURES, read=value("poison_schema")),
    "ras_eeprom": LibraryCall(FEATURES, read=value("eeprom_version")),
}
"""The errors are counted since the driver was loaded, over all blocks."""


def _pages(status: int | None) -> Callable[[Any], int]:
    def read(pages: Any) -> int:
        if isinstance(pages, str):  # older versions return a sentence if there are none
            return 0
        return sum(status is None or page["status"] == status for page in pages)

    return read


REPAIRS: Table = {
    "bad_pages": LibraryCall(PAGES, read=_pages(None)),
    "bad_pages_reserved": LibraryCall(PAGES, read=_pages(RESERVED)),
    "bad_pages_pending": LibraryCall(PAGES, read=_pages(PENDING)),
    "bad_pages_unreservable": LibraryCall(PAGES, read=_pages(UNRESERVABLE)),
    "bad_pages_threshold": LibraryCall("amdsmi_get_gpu_bad_page_threshold", read=value()),
}


def blocks(asker: Asker) -> None:
    """Add the error counts of every block that has counters; a block without any is not noted as missing."""
    counts_by_fact = asker.ask({f"ecc_in_{name}": _block(name) for name in BLOCKS})
    for name in BLOCKS:
        for notes in (asker.facts, asker.unsupported, asker.unread):
            notes.pop(f"ecc_in_{name}", None)
    if counts_by_fact:
        by_block = {key.removeprefix("ecc_in_").lower(): counts for key, counts in counts_by_fact.items()}
        asker.facts["ecc_blocks"] = by_block


def _block(name: str) -> LibraryCall:
    def read(answer: Any) -> dict[str, int]:
        return {kind: value(key)(answer) for kind, key in KINDS.items()}

    return LibraryCall("amdsmi_get_gpu_ecc_count", (f"AmdSmiGpuBlock.{name}",), read)
