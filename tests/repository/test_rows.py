"""The helper that makes one test of a table: it must be able to fail, and name the rows that do."""

from pathlib import Path

import pytest
from support.rows import each_row


def test_every_row_that_fails_is_named_with_its_reason() -> None:
    @each_row("number, word", [(1, "one"), (2, "two"), (3, "three")])
    def test(number: int, word: str) -> None:
        assert number == 2, f"it is {word}"

    with pytest.raises(AssertionError) as raised:
        test()
    first, *others = str(raised.value).splitlines()
    assert first == "2 of 3 rows fail:"
    assert others[0].startswith("(1, 'one'): AssertionError: it is one")
    assert any(line.startswith("(3, 'three'): AssertionError: it is three") for line in others)


@each_row("name", ["a", "b"])
def test_a_row_has_a_folder_and_changes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert [path.name for path in Path.cwd().iterdir()] == [name]


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(AssertionError, match="a table without rows"):
        each_row("name", [])
