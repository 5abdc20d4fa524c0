"""Mistakes in a threshold file: each line of the tables in tests/data gets the error, or the message, beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.rows import each_row

from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.skus import lint, loader

PAGE = (Path(__file__).parents[1] / "data" / "threshold-mistakes.md").read_text(encoding="utf-8")
SOURCE = "source: {kind: measured, by: us, date: 2026-11}"
TODAY = "2026-11-24"


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, without backquotes."""
    text = re.split(r"\n##+ ", PAGE.partition(f"\n### {heading}\n")[2])[0]
    rows = [re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip("`") for cell in row] for row in rows]


ERRORS = table("What an error means")
RULES = table("What lint means")


def write(folder: Path, line: str) -> str:
    path = folder / "ours.yaml"
    path.write_text(f"sku: ours\nextends: h100-sxm\n{line.replace('SOURCE', SOURCE)}\n")
    return str(path)


@each_row(("line", "error", "meaning"), ERRORS)
def test_the_line_gives_the_error(tmp_path: Path, line: str, error: str, meaning: str) -> None:
    with pytest.raises(BadFile) as bad:
        loader.load(write(tmp_path, line))
    assert re.sub(r"\s+", " ", error) in str(bad.value)
    assert meaning


def test_every_rule_of_lint_is_explained() -> None:
    assert {rule for rule, _, _ in RULES} == set(lint.explanations())


@pytest.mark.nightly
def test_the_line_gives_the_mistake(tmp_path: Path) -> None:
    paths = []
    for place, (rule, line, _) in enumerate(RULES):
        folder = tmp_path / str(place)
        folder.mkdir()
        paths.append((rule, write(folder, line)))
    report = lint.lint([path for _, path in paths], TODAY)
    found = {(each.rule, each.file) for each in report.messages}
    assert [each for each in paths if each not in found] == []
