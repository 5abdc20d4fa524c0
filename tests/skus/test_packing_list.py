"""Packing lists: every mistake is named with its place; what spreadsheets do to serial numbers is undone or told."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.data_files import tables
from support.rows import each_row

from pytest_accel.core.untrusted import BadFile
from pytest_accel.skus import packing_list

ROWS = tables("skus/packing-list")


def listed(folder: Path, text: str, encoding: str = "utf-8") -> packing_list.PackingList:
    path = folder / "delivery.csv"
    path.write_bytes(text.encode(encoding))
    return packing_list.load(path)


@each_row(("text", "words"), ROWS["wrong"])
def test_a_wrong_list_is_refused_with_line_and_column(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadFile) as refused:
        listed(tmp_path, text)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path / 'delivery.csv'}:")


def test_all_errors_are_told_at_once_and_no_flood_of_them(tmp_path: Path) -> None:
    with pytest.raises(BadFile) as refused:
        listed(tmp_path, "serial,node\n" + ",n\n" * 50)
    assert len(str(refused.value).splitlines()) == packing_list.MOST_ERRORS + 1
    assert str(refused.value).endswith("and 30 more")


@each_row("text", ROWS["written"])
def test_what_spreadsheets_write_is_read(tmp_path: Path, text: str) -> None:
    found = listed(tmp_path, text)
    assert [(each.serial, each.node) for each in found.rows] == [("0123", "n1"), ("b", "n2")]
    alike = listed(tmp_path, "serial,slot\n7E12,gpu0\n7e+1,1\n1.5,00000000:1B:00.0\n")
    assert [each.serial for each in alike.rows] == ["7E12", "7e+1", "1.5"], "no number of a spreadsheet"


@each_row(("names", "name", "found"), ROWS["nodes"])
def test_a_node_is_found_with_and_without_its_domain(names: list[str], name: str, found: str) -> None:
    assert packing_list.NodeNames(names).find(name) == found


def test_a_serial_is_found_in_any_writing_and_one_without_its_zeros_is_told(tmp_path: Path) -> None:
    found = listed(tmp_path, "serial,node\nAbc,n1\n123,N2.example.org\n")
    assert packing_list.same(" aBC ") in found.by_serial
    zeros = found.but_for_zeros("000123")
    assert zeros is not None
    assert zeros.line == 3
    assert found.but_for_zeros("123") is None
    assert found.but_for_zeros("0124") is None
    assert [each.serial for each in found.of_node("n2")] == ["123"]


@each_row("text", ROWS["around"])
def test_what_a_spreadsheet_adds_around_the_table_is_passed_over(tmp_path: Path, text: str) -> None:
    (row,) = listed(tmp_path, text).rows
    assert (row.serial, row.node) == ("a", "n1")


def test_another_encoding_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match='is not UTF-8 text; a spreadsheet writes it as "CSV UTF-8"'):
        listed(tmp_path, "serial\na\n", "utf-16")
