"""Writes docs/judged-by.md from the registries: scripts/judged_by.py, in an environment that has the package."""

from pathlib import Path

from pytest_accel.views.judged_by import page

if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs/judged-by.md").write_text(page(), encoding="utf-8")
