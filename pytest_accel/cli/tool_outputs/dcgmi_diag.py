"""Reader of the JSON of `dcgmi diag -j`: notes alone, because no limit is of a test of the tool. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.cli.tool_outputs.output import ToolOutput, entries, json_from
from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.untrusted import BadFile

TOOL = "dcgmi diag"
LOOKED_FOR = """dcgmi diag, by '"DCGM Diagnostic": {' or '"DCGM GPU Diagnostic": {' of its JSON"""
MOST = 32
"""Results that are named one by one."""

BEGINS = re.compile(r"(?:\{\s*)?\"DCGM (?:GPU )?Diagnostic\"\s*:")
_QUIET = ("pass", "skip", "not run")


@dataclass(frozen=True)
class _Result:
    """A result of a test: the indices of its GPUs, none for a test of the node, its status, and the tool's words."""

    test: str
    gpus: list[int]
    status: str
    words: str


def recognises(text: str) -> bool:
    """Return True for the JSON of dcgmi diag, of DCGM 4 or of an earlier version."""
    return BEGINS.search(text) is not None


def read(text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:  # noqa: ARG001
    """Return no figure, but the devices, and a note on each result that is no pass. Raises BadFile without one.

    The product is known by its PCI id, which DCGM 4 states.
    """
    key = BEGINS.search(text)
    stated = json_from(text, max(0, text.rfind("{", 0, key.end() if key else 0)), shown)
    inner = [each for name, each in stated.items() if name.startswith("DCGM ") and isinstance(each, dict)]
    results = list(_results(inner[0])) if inner else []
    ids = {int(index): "" for result in results for index in result.gpus}
    for group in entries(stated, "entity_groups", dict):
        for each in entries(group, "entities", dict) if group.get("entity_group") == "GPU" else []:
            ids |= {index: str(each.get("device_id")).lower() for index in _indices(each.get("entity_id"))}
    loud = [each for each in results if each.status.lower() not in _QUIET]
    counted = ", ".join(f"{n} {status}" for status, n in Counter(each.status for each in results).items())
    errors = [stated[name] for name in ("runtime_error", "Warning") if stated.get(name)]
    notes = [f"the tool states: {printable(str(each), 200)}" for each in errors]
    if not results:
        raise BadFile(f"{shown}: output of dcgmi diag, but no result is in it{'; '.join(['', *notes])}")
    notes += [_told(each) for each in loud[:MOST]] + [f"and {len(loud) - MOST} more"] * (len(loud) > MOST)
    notes += [f"results: {counted}; none is judged, because the tests are the tool's own and no limit is of one"]
    devices = [
        Device(f"gpu{n}", n, sku.vendor, "", pci_id=f"10de:{pci}" if re.fullmatch("[0-9a-f]{4}", pci) else None)
        for n, pci in sorted(ids.items())
    ]
    return ToolOutput(TOOL, [], devices, notes)


def _told(result: _Result) -> str:
    """Return a result that is no pass in words."""
    where = ", ".join(f"gpu{index}" for index in result.gpus) or NODE
    return f"not judged: {where} {result.test}: {result.status}" + (f": {result.words}" if result.words else "")


def _results(stated: Mapping[str, Any]) -> Iterator[_Result]:
    """Yield the results of the tests. Earlier versions name GPUs by `gpu_id` or `gpu_ids`, such as "0,1"."""
    for category in entries(stated, "test_categories", dict):
        for test in entries(category, "tests", dict):
            for each in entries(test, "results", dict):
                known = each.get("gpu_id", each.get("gpu_ids"))
                if known is None and each.get("entity_group") == "GPU":
                    known = each.get("entity_id")
                said = [one.get("warning") for one in entries(each, "warnings", dict)] + entries(each, "warnings", str)
                words = printable("; ".join(map(str, said)), 300)
                status = printable(str(each.get("status")), 20)
                yield _Result(printable(str(test.get("name")), 60), _indices(known), status, words)


def _indices(stated: object) -> list[int]:
    """Return the indices of GPUs in a number or a text."""
    return [int(index) for index in re.findall(r"\b[0-9]{1,3}\b", str(stated))]
