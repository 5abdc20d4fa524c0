"""A plugin for pytest-html: the columns of a verdict in its table."""

from __future__ import annotations

import html

import pytest

COLUMNS = ("status", "value", "unit", "floor", "margin")


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_header(cells: list[str]) -> None:
    """Add the columns."""
    cells[2:2] = [f"<th>{name.capitalize()}</th>" for name in COLUMNS]


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_row(report: pytest.TestReport, cells: list[str]) -> None:
    """Fill the columns from the properties that the JUnit file shows, too."""
    properties = {name: str(value) for name, value in getattr(report, "user_properties", ())}
    cells[2:2] = [f"<td>{html.escape(properties.get(f'accel.{name}', ''))}</td>" for name in COLUMNS]
