"""The results of AMD's GPU Field Health Check (agfhc), by its file results.json. Pure.

Sources: ROCm/device-metrics-exporter, pkg/testrunner/agfhc.go and docs/configuration/agfhc.md (arguments, the keys that
are read here, subjects, recipes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_accel.core.printable import printable
from pytest_accel.drivers.diagnostic_report import MOST, NoReport, Outcome, Report, TestResult

OUTCOMES: Mapping[str, Outcome] = {"passed": "pass", "skipped": "skip", "failed": "pass"}
"""The outcome of a state for the devices that the subject does not name. A test that is queued was never begun."""


def arguments(level: int, indices: Sequence[int]) -> list[str]:
    """Return the arguments of `agfhc` for the recipe of a level on devices: about 5, 10, 30, 60 and 120 minutes."""
    return ["-r", f"all_lvl{level}", "-i", *map(str, indices), "-o", "."]


def read(text: str) -> Report:
    """Return the results in a text. Raises NoReport for one without any."""
    try:
        document = dict(json.loads(text))
        devices = [_index(name) for name in (document.get("program_args") or {}).get("device_ids") or ()]
        tests = (document.get("test_results") or {}).values()
        results = [result for test in tests for result in _results(test, devices)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise NoReport("results.json is damaged") from None
    if not results:
        raise NoReport("results.json has no result")
    return Report(results)


def _results(test: Mapping[str, Any], devices: Sequence[str]) -> Iterator[TestResult]:
    """Yield the result of a test for each device.

    The subject says whose a failure is: "GPU-00:GPU-01", SYSTEM (no GPU can be named), PROGRAM (a fault of the tool) or
    UNKNOWN.
    """
    name, state = (printable(str(test.get(key)), MOST) for key in ("test", "state"))
    subject, has_failed = str(test.get("primary_action_subject") or "UNKNOWN"), state.lower() == "failed"
    outcome = OUTCOMES.get(state.lower(), "untested")
    culprits = [_index(part) for part in subject.split(":") if part.startswith("GPU-")]
    if has_failed:
        words = printable(f"{subject}: {test.get('primary_suggested_action') or 'no action stated'}", MOST)
        blame: Outcome = "untested" if subject == "PROGRAM" else "fail"
        yield from (TestResult(name, blame, words, device) for device in culprits or [""])
    words = f"its state is {state}" if outcome == "untested" else ""
    remaining = [device for device in devices if not has_failed or (culprits and device not in culprits)]
    yield from (TestResult(name, outcome, words, device) for device in remaining)


def _index(name: str) -> str:
    """Return the index in the name of a device: "GPU-01" is 1."""
    return str(int(re.sub(r"\D", "", str(name))))
