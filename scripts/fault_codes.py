"""Writes docs/fault-codes.md from the table of fault codes, in an environment that has the package."""

from pathlib import Path

from pytest_accel.views.fault_codes import page

if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs/fault-codes.md").write_text(page(), encoding="utf-8")
