"""Lint over what people publish: every anomalous threshold is found in the file that repeats it, no healthy value is.

`tests/data/anomalies.csv` has the published thresholds that proved wrong, with what is wrong, and the limit of ours
that they would be: of the SKU itself, or of the nearest one that has a file.
"""

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus import lint

DATA = Path(__file__).parents[1] / "data"
TODAY = "2026-11-24"
Row = dict[str, str]


def rows(name: str) -> list[Row]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


ANOMALIES = rows("anomalies.csv")
HEALTHY = [row for row in rows("published.csv") if not row["exception"]]


def own_file(folder: Path, row: Row, *limits: str) -> str:
    """Write a user's file with limits, over the shipped file of the SKU and platform of a row, and return its path."""
    every = f"limits: {{{', '.join(limits)}}}"
    placed = f"platforms: {{{row['platform']}: {{{every}}}}}" if row["platform"] else every
    path = folder / f"{len(list(folder.iterdir()))}.yaml"
    path.write_text(f"sku: ours\nextends: {row['sku']}\n{placed}\n")
    return str(path)


def limit(row: Row, figures: str) -> str:
    """Return the limit on the metric of a row with these figures, as YAML."""
    source = "source: {kind: agreed, by: both, date: 2026-08}"
    return f'"{row["metric"]}": {{{figures}, unit: {row["unit"]}, {source}}}'


def marked(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the errors and warnings of lint by file, as "rule: key: value, expectation"."""
    found: dict[str, list[str]] = {path: [] for path in paths}
    for each in lint.lint(list(found), TODAY).open:
        found[each.file].append(f"{each.rule}: {each.key}: {each.value}, {each.expected}")
    return found


@pytest.mark.nightly
def test_a_published_anomaly_is_found_in_the_file_that_repeats_it(tmp_path: Path) -> None:
    reference = "floor: {floor}, reference: {reference}".format
    paths = {
        own_file(tmp_path, row, limit(row, reference(**row) if row["reference"] else f"floor: {row['floor']}")): row
        for row in ANOMALIES
    }
    found = marked(paths)
    assert len(ANOMALIES) == 46
    assert [(row["published_sku"], row["published_metric"]) for path, row in paths.items() if not found[path]] == []


@pytest.mark.nightly
def test_no_published_healthy_value_is_called_implausible(tmp_path: Path) -> None:
    """A file has one figure of each metric; the next figures of a metric are in further files."""
    files: dict[tuple[str, str, int], list[Row]] = {}
    times: Counter[tuple[str, str, str]] = Counter()
    for row in HEALTHY:
        key = row["sku"], row["platform"], row["metric"]
        times[key] += 1
        files.setdefault((row["sku"], row["platform"], times[key]), []).append(row)
    paths = [own_file(tmp_path, each[0], *(limit(row, as_healthy(row)) for row in each)) for each in files.values()]
    assert {path: found for path, found in marked(paths).items() if found} == {}


def as_healthy(row: Row) -> str:
    """Return floor and reference of a limit by a healthy figure; without a derived floor it is 0.93 of it."""
    declared = declaration_of(row["metric"])
    derived = declared is not None and declared.derived_floor is not None
    floor = "derived" if derived else f"{0.93 * float(row['value']):g}"
    return f"floor: {floor}, reference: {row['value']}"
