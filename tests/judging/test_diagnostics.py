"""The verdicts on outputs of a vendor's diagnostic: published ones, and ones that follow the source of the tool."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from support import data_files
from support.rows import each_row

from pytest_accel.core.measurement import Device
from pytest_accel.core.sentences import sentence_of
from pytest_accel.drivers import registry
from pytest_accel.drivers.diagnostic_report import NoReport, Report
from pytest_accel.judging.facts import diagnostics
from pytest_accel.judging.verdicts.judge_attempts import judge

TABLES = data_files.tables("judging/diagnostics")
PUBLISHED = Path(__file__).parents[1] / "real" / "diagnostics"


def judged(text: str, vendor: str, devices: int, level: int) -> list[str]:
    """Status and sentence of every device by an output."""
    diagnostic = registry.vendor(vendor).diagnostic
    assert diagnostic
    report: Report | str
    try:
        report = diagnostic.read(text)
    except NoReport as why:
        report = str(why)
    node = [Device(f"GPU-{index}", index, vendor, "a product") for index in range(devices)]
    verdicts = [judge([each], diagnostics.OF_GIVEN) for each in diagnostics.measurements(report, node, level)]
    return [f"{verdict.status.value} {sentence_of(verdict)}" for verdict in verdicts]


def holds(found: Sequence[str], expected: Sequence[str]) -> bool:
    """True if each sentence has the status and the words that are expected."""
    pairs = zip(found, expected, strict=True)
    return all(
        one.split()[0] == two.split()[0] and two.partition(" ")[2].removeprefix("noticed ") in one for one, two in pairs
    )


@each_row(
    ("file", "devices", "level", "expected"),
    [*TABLES["published"], *TABLES["published by amd"]],
)
def test_published_outputs_mean_what_a_person_concludes(
    file: str, devices: int, level: int, expected: list[str]
) -> None:
    vendor = "amd" if file.startswith("agfhc") else "nvidia"
    found = judged((PUBLISHED / file).read_text(encoding="utf-8"), vendor, devices, level)
    assert holds(found, expected), found


@each_row(
    ("name", "devices", "level", "expected", "vendor"),
    [(*row, vendor) for table, vendor in (("written", "nvidia"), ("amd", "amd")) for row in TABLES[table]],
)
def test_a_fault_of_a_device_fails_it_and_one_of_the_software_does_not(
    name: str, devices: int, level: int, expected: list[str], vendor: str
) -> None:
    text = "" if name not in TABLES["made"] else json.dumps(TABLES["made"][name])
    found = judged(text, vendor, devices, level)
    assert holds(found, expected), found


def test_every_error_of_dcgm_blames_the_device_by_the_category_that_dcgm_gives_it() -> None:
    with (PUBLISHED / "dcgm_errors.csv").open(encoding="utf-8") as file:
        rows = [*csv.DictReader(line for line in file if not line.startswith("#"))]
    blamed = []
    for row in rows:
        error = {"error_category": int(row["category_number"]), "error_id": int(row["id"]), "warning": row["name"]}
        error["error_severity"] = int(row["severity_number"])
        result = {"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [error]}
        test = {"category": "Hardware", "tests": [{"name": "memory", "results": [result]}]}
        text = json.dumps({"DCGM Diagnostic": {"test_categories": [test]}})
        blamed += [row for status in judged(text, "nvidia", 1, 2) if status.startswith("FAIL")]
    ours = [row for row in rows if row not in blamed]
    assert {row["category"].partition("_")[0] for row in blamed} == {"HARDWARE", "PERF", "SOFTWARE", "NONE"}
    assert {row["name"] for row in blamed if row["category"].startswith("SOFTWARE")} == {
        *(row["name"] for row in rows if row["category"] == "SOFTWARE_XID"), "DCGM_FR_EUD_TEST_FAILED"
    }  # fmt: skip
    assert {row["name"] for row in ours if row["category"].startswith("HARDWARE")} == {
        "DCGM_FR_ECC_DISABLED", "DCGM_FR_ECC_UNSUPPORTED", "DCGM_FR_ENFORCED_POWER_LIMIT"
    }  # fmt: skip


def test_a_notice_is_part_of_the_sentence_of_a_device_that_passes() -> None:
    text = (PUBLISHED / "dcgmi-4.5.2-gb10-level-2-allowed.json").read_text(encoding="utf-8")
    (sentence,) = judged(text, "nvidia", 1, 2)
    assert sentence.startswith("PASS pass; noticed: software: Persistence Mode: Persistence mode for GPU 0 is disabled")


def test_a_device_never_gets_the_results_of_another_one() -> None:
    """One whose serial number the output does not state was not tested; of boards that share one, both fail."""
    test_categories = TABLES["made"]["faulty memory of GPU 1"]["DCGM Diagnostic"]["test_categories"]
    diagnostic = registry.vendor("nvidia").diagnostic
    assert diagnostic

    def verdicts(*stated: str) -> list[str]:
        entities = [{"entity_id": index, "serial_num": serial} for index, serial in enumerate(stated)]
        groups = [{"entity_group": "GPU", "entities": entities}]
        text = json.dumps({"DCGM Diagnostic": {"test_categories": test_categories}, "entity_groups": groups})
        node = [Device(f"GPU-{place}", place, "nvidia", "a product", serial=each) for place, each in enumerate("AB")]
        found = diagnostics.measurements(diagnostic.read(text), node, 2)
        return [judge([each], diagnostics.OF_GIVEN).status.value for each in found]

    assert verdicts("A", "B") == ["PASS", "FAIL"]
    assert verdicts("C", "A") == ["FAIL", "UNMEASURED"]
    assert verdicts("A", "A") == ["FAIL", "UNMEASURED"]


def test_serial_numbers_tell_devices_that_the_program_counts_otherwise() -> None:
    results = {
        "DCGM Diagnostic": {
            "test_categories": TABLES["made"]["faulty memory of GPU 1"]["DCGM Diagnostic"]["test_categories"]
        }
    }
    entities = [{"entity_id": 0, "serial_num": "B"}, {"entity_id": 1, "serial_num": "A"}]
    text = json.dumps({**results, "entity_groups": [{"entity_group": "GPU", "entities": entities}]})
    diagnostic = registry.vendor("nvidia").diagnostic
    assert diagnostic
    node = [Device(f"GPU-{serial}", index, "nvidia", "a product", serial=serial) for index, serial in enumerate("AB")]
    found = {each.subject: each.value for each in diagnostics.measurements(diagnostic.read(text), node, 2)}
    assert found == {"GPU-A": "memory: A GPU memory fault was found on GPU 1", "GPU-B": "pass"}
