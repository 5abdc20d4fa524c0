"""The keys of the details of a measurement are those that are declared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest_accel
from pytest_accel.core.details import Cell, Details, TelemetrySummary

SOURCES = sorted(Path(pytest_accel.__file__).parent.rglob("*.py"))
TYPES = {"details": Details, "summary": TelemetrySummary, "cell": Cell}
"""The type of variables and attributes, by the name that the package gives them everywhere."""


def keys_read(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Name, key and line of every `name.get("key")` and `"key" in name`, which mypy does not check."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="get"), args=[ast.Constant(value=str(key)), *_]):
                pass
            case ast.Compare(left=ast.Constant(value=str(key)), ops=[ast.In() | ast.NotIn()], comparators=[of]):
                pass
            case _:
                continue
        name = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
        if name in TYPES:
            yield name, key, node.lineno


def test_no_key_is_read_that_is_not_declared() -> None:
    """mypy finds a misspelt key in `details["key"]` and where one is written, but not in `.get()` and `in`."""
    keys = [
        (path.name, line, name, key)
        for path in SOURCES
        for name, key, line in keys_read(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(keys) > 20
    assert [key for key in keys if key[3] not in TYPES[key[2]].__annotations__] == []
