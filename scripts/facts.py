"""Writes docs/facts.md from the tables of facts: scripts/facts.py, in an environment that has the package."""

from pathlib import Path

from pytest_accel.views.facts import page

if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs/facts.md").write_text(page(), encoding="utf-8")
