"""A test of every row of a table, as one test: it fails with all rows for which it does, each with the reason."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., None]
CHARACTERS = 200
"""What is shown of a row."""


def each_row(columns: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each row, as `pytest.mark.parametrize` does, which makes a test of each.

    Every row has a `tmp_path` and a `monkeypatch` of its own. Any other fixture is the same for all.
    """
    names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else list(columns)
    listed = list(rows)
    assert listed, "a table without rows"
    assert not any(isinstance(row, type(pytest.param())) for row in listed), "only pytest.mark.parametrize reads marks"

    def decorated(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[tuple[Any, BaseException]] = []
            for number, row in enumerate(listed):
                values = row if len(names) > 1 else (row,)
                try:
                    with _own(fixtures, number) as given:
                        test(**dict(zip(names, values, strict=True)), **given)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                    failures.append((row, error))
            if failures:
                raise AssertionError(_told(failures, len(listed))) from failures[0][1]

        signature = inspect.signature(test)
        rest = [each for each in signature.parameters.values() if each.name not in names]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return decorated


@contextmanager
def _own(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    given = dict(fixtures)
    if "tmp_path" in given:
        given["tmp_path"] = fixtures["tmp_path"] / f"row-{number}"
        given["tmp_path"].mkdir()
    if "monkeypatch" not in given:
        yield given
        return
    with fixtures["monkeypatch"].context() as given["monkeypatch"]:
        yield given


def _told(failures: list[tuple[Any, BaseException]], count: int) -> str:
    texts = [f"{repr(row)[:CHARACTERS]}: {type(error).__name__}: {error}" for row, error in failures]
    return "\n".join([f"{len(failures)} of {count} rows fail:", *texts])
