"""Measurements made of the report of the vendor's diagnostic on each device. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_accel.core.measurement import Device, Measurement, Trouble
from pytest_accel.core.reasons import Note
from pytest_accel.core.sku_types import DeclaredBy, Limit
from pytest_accel.drivers.diagnostic_report import Report, TestResult

METRIC, PASS = "diag.vendor", "pass"
"""The metric, and its value for a device that passes."""
OF_GIVEN = Limit(METRIC, "text", equals=PASS, origin="--accel-diag", declared_by=DeclaredBy.RUN)
"""The limit where an output was given to the run and no file has a limit."""


def measurements(report: Report | str, devices: Sequence[Device], level: int) -> Iterator[Measurement]:
    """Yield the measurement of each device by the report of a diagnostic at a level; a text is why there is none."""
    for device in devices:
        results = [] if isinstance(report, str) else _of_device(report, device)
        failed = _words(results, "fail")
        noticed = "; ".join(filter(None, (_words(results, "note", "pass"), _skipped(results))))
        reason = report if isinstance(report, str) else "" if failed else _untested(report, results, level)
        yield Measurement(
            METRIC,
            device.uuid,
            "text",
            None if reason else failed or PASS,
            conditions={"level": level},
            trouble=Trouble("need", reason) if reason else None,
            notes=(Note("noticed", noticed),) if noticed else (),
        )


def _of_device(report: Report, device: Device) -> list[TestResult]:
    """Return the results of a device, which the program calls by an index, and those of the node."""
    indices = {index for index, serial in report.serials.items() if serial == device.serial}
    if not (device.serial and report.serials):
        indices = {str(device.index)}
    return [result for result in report.results if not result.device or result.device in indices]


def _words(results: Sequence[TestResult], *outcomes: str) -> str:
    """Return the tests with one of the outcomes and the words of the program, without passed ones that have none."""
    reported = [result for result in results if result.words or result.outcome != "pass"]
    words = "it failed, without a reason"
    return "; ".join(f"{result.test}: {result.words or words}" for result in reported if result.outcome in outcomes)


def _skipped(results: Sequence[TestResult]) -> str:
    """Return the tests of the hardware that were skipped; empty if none was."""
    skipped = [result.test for result in results if result.hardware and result.outcome == "skip"]
    return f"skipped: {', '.join(dict.fromkeys(skipped))}" if skipped else ""


def _untested(report: Report, results: Sequence[TestResult], level: int) -> str:
    """Return the reason why a device without a failure has not passed either; empty if it has."""
    if undone := _words(results, "untested"):
        return f"could not be tested: {undone}"
    device_results = [result for result in results if result.device]
    if not device_results and any(result.device and result.outcome == "pass" for result in report.results):
        return "its output does not name the device"
    # a test has to have been run, and from level 2 on one of the hardware has to have passed: where a setting stops the
    # program, and on a product that it does not support, it skips them all; every level has tests of its own
    executed = [result for result in results if result.outcome != "skip"]
    passed = any(level == 1 or (result.device and result.hardware and result.outcome == "pass") for result in executed)
    missing = [lower for lower in range(2, level + 1) if not any(result.level in (lower, None) for result in executed)]
    if missing or not passed:
        scope = f"tests of level {missing[0] - 1} were run" if passed else "no test of the hardware was run"
        return "; ".join(filter(None, (f"{scope}, level {level} is required", _skipped(device_results))))
    return ""
