"""Writes docs/limits.md from threshold files and probes: scripts/limits.py, in an environment that has the package."""

from pathlib import Path

from pytest_accel.views.limits import page

if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs/limits.md").write_text(page(), encoding="utf-8")
