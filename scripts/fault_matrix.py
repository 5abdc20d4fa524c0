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
    found = {}
    with in_process.fast():
        for case in CASES:
            with tempfile.TemporaryDirectory() as folder:
                run = in_process.by_a_user if case in BY_A_USER else in_process.seen
                seen = run(case, Path(folder))
            if seen.missed(case):
                print(f"{case.asked}: not caught by {', '.join(seen.missed(case))}: {seen.line}", file=sys.stderr)
            found[fault_page.key(case)] = fault_page.caught(case, seen)
    (ROOT / "tests/data/fault-matrix.md").write_text(fault_page.page(found), encoding="utf-8")
