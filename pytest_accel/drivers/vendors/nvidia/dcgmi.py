"""The output of `dcgmi diag -j`, of DCGM 2 to 4. Pure.

Sources: NVIDIA/DCGM v2.4.7 to v4.6.0, dcgmi/Diag.cpp (the JSON) and dcgmlib/dcgm_errors.h (categories and severities).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_accel.core.printable import printable
from pytest_accel.drivers.diagnostic_report import MOST, NoReport, Outcome, Report, TestResult

NAME = "DCGM (?:GPU )?Diagnostic"
BEGINS = re.compile(rf'\{{\s*"{NAME}"\s*:')
"""The first key of the JSON, whose keys are in order. Warnings may be printed before it."""
LEVELS = {
    "pcie": 2, "memory": 2, "gpu_memory": 2, "diagnostic": 3, "memory_bandwidth": 3, "targeted_stress": 3,
    "targeted_power": 3, "nvbandwidth": 3, "memtest": 4, "pulse_test": 4,
}  # fmt: skip
"""The least level (-r) that runs a test (nvvs/src/NvidiaValidationSuite.cpp, FillTestVectors)."""
DEPLOYMENT = "Deployment"
"""The category of tests of the software."""
OF_DEVICE = ("Page Retirement/Row Remap", "Inforom")
"""Tests of that category that are about a device."""
CONFIGURED = 5
"""The severity of what can be configured (DCGM_ERROR_CONFIG), in the versions that state a category."""
SOFTWARE = (3, 4, 6, 7, 8, 16)
"""The categories of faults of the software (DCGM_FR_EC_SOFTWARE_* but for Xids, DCGM_FR_EC_INTERNAL_OTHER)."""
OF_HARDWARE = (46, 95)
"""Errors that are of the hardware all the same: a narrow link (DCGM_FR_PCIE_WIDTH), which can be configured, and a
failure of the extended utility diagnostics (DCGM_FR_EUD_TEST_FAILED)."""


def arguments(level: int, indices: Sequence[int]) -> list[str]:
    """Return the arguments of `dcgmi` for a level (-r) on devices."""
    return ["diag", "-r", str(level), "-j", "-i", ",".join(map(str, indices))]


def read(text: str) -> Report:
    """Return the results in an output. Raises NoReport for one without any."""
    documents = _json(text)
    inner = [document[name] for document in documents for name in document if re.fullmatch(NAME, name)]
    results = [result for part in inner for result in _results(part)]
    problems = [
        part[key] for part in _mappings([*inner, *documents]) for key in ("runtime_error", "Warning") if key in part
    ]
    words = [printable(str(text).strip(), MOST) for text in problems]
    if not results:
        raise NoReport(next(filter(None, words), "it has no result"))
    serials = {index: serial for part in documents for index, serial in _serials(part) if re.fullmatch(r"\w+", serial)}
    return Report([*results, *(TestResult("dcgmi", "untested", text) for text in words)], serials)


def _json(text: str) -> list[Mapping[str, Any]]:
    """Return the JSON objects of the tool in a text, one for each of its iterations. Raises NoReport."""
    starts = [match.start() for match in BEGINS.finditer(text)]
    if not starts:
        lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it printed nothing"]
        raise NoReport("it is a table; run it with -j" if "+---" in text else printable(lines[-1], MOST))
    try:
        return [json.JSONDecoder().raw_decode(text, start)[0] for start in starts]
    except (ValueError, RecursionError):
        raise NoReport("its JSON is cut off or damaged") from None


def _mappings(items: object) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of a list. Some versions leave empty places in their lists."""
    yield from (part for part in (items if isinstance(items, list) else ()) if isinstance(part, Mapping))


def _serials(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield index and serial number of each GPU that states one."""
    for serials in _mappings([document.get("GPU Device Serials")]):  # before 4.0
        yield from ((str(index), str(serial)) for index, serial in serials.items())
    for group in _mappings(document.get("entity_groups")):
        if group.get("entity_group") == "GPU":
            entities = _mappings(group.get("entities"))
            yield from ((str(entity.get("entity_id")), str(entity.get("serial_num", ""))) for entity in entities)


def _results(inner: object) -> Iterator[TestResult]:
    """Yield the result of each test for each device, or for the node."""
    categories = inner.get("test_categories") if isinstance(inner, Mapping) else inner
    for category in _mappings(categories):
        hardware = category.get("category") != DEPLOYMENT
        for test in _mappings(category.get("tests")):
            results, name = [*_mappings(test.get("results"))], printable(str(test.get("name")), MOST)
            level = LEVELS.get(re.sub(r"\W", "_", name.lower()), 1)
            results = [part for result in results for part in ([result] if hardware else _by_error(result))]
            failures = [result for result in results if _failed(result)]
            reported = [error for result in results for error in _mappings(result.get("warnings"))]
            # the summary has the errors that are of no device, too
            for overall in filter(_failed, _mappings([test.get("test_summary")])):
                extra = [error for error in _mappings(overall.get("warnings")) if error not in reported]
                failures += [{**overall, "warnings": extra}] if extra or not failures else []
            results = [*(result for result in results if not _failed(result)), *failures]
            explained = any(map(_words, failures))
            for result in results:
                # it names all devices, and gives a reason for others
                blames_others = explained and not _words(result)
                outcome = _outcome(result, of_device=hardware or name in OF_DEVICE, blames_others=blames_others)
                for device in _devices(result):
                    yield TestResult(name, outcome, _words(result), device, hardware, level)


def _failed(result: Mapping[str, Any]) -> bool:
    return str(result.get("status")).lower() == "fail"


def _by_error(result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a check of the software for each of its errors. Version 3.3 names the device of the last error alone."""
    errors = [*_mappings(result.get("warnings"))]
    if "entity_group" in result or not errors:
        yield result
        return
    for error in errors:
        match = re.search(r"\bGPU (\d+)", _words({"warnings": [error]}))
        yield {**result, "warnings": [error], "gpu_id": match[1] if match else result.get("gpu_id", "")}


def _devices(result: Mapping[str, Any]) -> Sequence[str]:
    """Return the indices of the GPUs of a result. Earlier versions name them by `gpu_id` or `gpu_ids`: "0,1"."""
    if "entity_group" in result:  # a CPU or a switch is of the node
        return [str(result.get("entity_id"))] if result["entity_group"] == "GPU" else [""]
    return re.findall(r"(?<![-\d])\d+", str(result.get("gpu_id", result.get("gpu_ids", "")))) or [""]


def _outcome(result: Mapping[str, Any], *, of_device: bool, blames_others: bool) -> Outcome:
    """Return the outcome of a result for the hardware, by the vendor's own categories of its errors.

    A test may pass although it states an error, as where it found too little free memory (NVIDIA/DCGM issue 284).
    """
    status = str(result.get("status")).lower()
    errors = [error for error in _mappings(result.get("warnings")) if "error_category" in error]
    if status == "warn":
        return "note"
    if status not in ("pass", "fail"):
        return "skip"
    if errors and all(map(_of_software, errors)):
        return "untested" if of_device else "note"
    if status == "pass":
        return "pass"
    if not errors and not of_device:
        return "note"
    return "untested" if blames_others else "fail"


def _of_software(error: Mapping[str, Any]) -> bool:
    """Return True for an error of the software, or one that a setting ends."""
    software = error["error_category"] in SOFTWARE or error.get("error_severity") == CONFIGURED
    return software and error.get("error_id") not in OF_HARDWARE


def _words(result: Mapping[str, Any]) -> str:
    """Return the words on what is wrong: a text, texts, or mappings whose key is `warnings` in some versions."""
    warnings = result.get("warnings") or []
    warnings = warnings if isinstance(warnings, list) else [warnings]
    texts = [error.get("warning", error.get("warnings")) if isinstance(error, Mapping) else error for error in warnings]
    return printable("; ".join(" ".join(str(text).split()).rstrip(".") for text in texts), MOST)
