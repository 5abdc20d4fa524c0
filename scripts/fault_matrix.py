"""Writes tests/data/fault-matrix.md: runs all of tests/data/fault-cases.yaml for some minutes; torch is needed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support import fault_page, in_process  # noqa: E402
from support.fault_cases import BY_A_USER, CASES  # noqa: E402

if __name__ == "__main__":
    rows = {}
    with in_process.fast():
        for case in CASES:
            with tempfile.TemporaryDirectory() as folder:
                run = in_process.by_a_user if case in BY_A_USER else in_process.seen
                outcome = run(case, Path(folder))
            if outcome.missed(case):
                print(f"{case.asked}: not caught by {', '.join(outcome.missed(case))}: {outcome.line}", file=sys.stderr)
            rows[fault_page.key(case)] = fault_page.caught(case, outcome)
    (ROOT / "tests/data/fault-matrix.md").write_text(fault_page.page(rows), encoding="utf-8")
