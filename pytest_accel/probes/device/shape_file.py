"""Shapes of matrix products from a file or a model, for `pytest.mark.parametrize`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.core.printable import printable

if TYPE_CHECKING:
    from pytest_accel.core.yaml_nodes import Located

COLUMNS = ("m", "n", "k", "dtype", "name")
MOST_SHAPES = 10_000
"""Most rows of a table of shapes, each of which becomes a test for every device."""


class Given(dict[str, Any]):
    """The conditions of one product: `accel_check(probes.matmul, **shape)`. Its name is part of the test's id."""

    def __init__(self, name: str, **conditions: Any) -> None:
        super().__init__(conditions)
        self.__name__ = name
        """Name that pytest uses for a parameter."""


def named(shapes: Mapping[str, tuple[int, int, int]], dtype: str | None = None) -> list[Given]:
    """Return the conditions of products by name: of `shapes.of_model(...)`, or of any (m, n, k).

    `dtype` is added to the conditions; without it the probe's default applies.
    """
    more = {"dtype": dtype} if dtype else {}
    return [Given(name, m=m, n=n, k=k, **more) for name, (m, n, k) in shapes.items()]


def read(path: str | Path) -> list[Given]:
    """Read products from a CSV file with the columns m, n, k (and dtype, name), or a YAML file with a list `shapes`.

    Lines of a CSV file that begin with # are comments. Raises BadFile, which lists every mistake with file, line and
    value.
    """
    from pytest_accel.core import yaml_nodes
    from pytest_accel.core.sku import MATMUL_DTYPES

    findings, path = yaml_nodes.Findings(), Path(path)
    whole = path.suffix.lower() in (".yaml", ".yml")
    root = yaml_nodes.read(path, str(path), "shapes:")[0] if whole else _table(path)
    one = yaml_nodes.record_of(
        {
            **dict.fromkeys(("m", "n", "k"), yaml_nodes.count),
            "dtype": yaml_nodes.one_of(*MATMUL_DTYPES),
            "name": yaml_nodes.text,
        },
        required=("m", "n", "k"),
    )
    rows = yaml_nodes.record_of({"shapes": yaml_nodes.list_of(one)}, required=("shapes",))(root, "", findings)
    findings.raise_if_any()
    if not rows["shapes"]:
        raise yaml_nodes.BadFile(f"{path}: the file has no shapes")
    return [_given(row) for row in rows["shapes"]]


def _given(row: dict[str, Any]) -> Given:
    """Return one row as conditions, named after its shape if it has no name."""
    name = row.pop("name", None) or "x".join(str(row[side]) for side in "mnk")
    return Given(name, **row)


def _table(path: Path) -> Located:
    """Return a CSV file in the form of the equivalent YAML file. Raises BadFile."""
    from pytest_accel.core.yaml_nodes import Findings, Located

    (first, header), *rows = _cells(path) or [(1, [])]
    findings = Findings()
    if not set("mnk") <= set(header) <= set(COLUMNS) or len(set(header)) < len(header):
        where = Located(None, str(path), first)
        findings.add(where, f"the header is '{','.join(header)}'; expected m, n, k, and optionally dtype and name")
        findings.raise_if_any()
    located = [Located(_row(header, row, str(path), place), str(path), place) for place, row in rows]
    for at, (_, row) in zip(located, rows, strict=True):
        if len(row) != len(header):
            findings.add(at, f"the row has {len(row)} cells for {len(header)} columns: '{','.join(row)}'")
    findings.raise_if_any()
    return Located({"shapes": Located(located, str(path), first)}, str(path), first)


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """Return the cells of every line that is neither empty nor a comment, with its line number."""
    from pytest_accel.core import untrusted

    found = []
    for place, line in enumerate(untrusted.read_text(path).splitlines(), 1):
        if line.strip() and line[0] != "#":
            try:
                found.append((place, [printable(cell) for cell in untrusted.cells(line)]))
            except untrusted.BadFile as bad:
                raise untrusted.BadFile(*bad.behind(f"{path}:{place}")) from None
            if len(found) > MOST_SHAPES:
                raise untrusted.BadFile(f"{path}:{place}: holds more than {MOST_SHAPES:,} shapes")
    return found


def _row(header: list[str], row: list[str], file: str, line: int) -> dict[str, Located]:
    """Return the cells that are not empty, by column. Whole numbers are converted."""
    from pytest_accel.core.untrusted import whole_number
    from pytest_accel.core.yaml_nodes import Located

    return {
        key: Located(whole_number(cell) if key in "mnk" and cell.isdigit() else cell, file, line)
        for key, cell in zip(header, row, strict=False)
        if cell
    }
