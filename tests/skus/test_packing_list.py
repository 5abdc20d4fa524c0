"""Packing lists: every mistake is named with its place; what spreadsheets do to serial numbers is undone or told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_accel.core.untrusted import BadFile
from pytest_accel.skus import packing_list


def listed(folder: Path, text: str, encoding: str = "utf-8") -> packing_list.PackingList:
    path = folder / "delivery.csv"
    path.write_bytes(text.encode(encoding))
    return packing_list.load(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1: the file is empty"),
        ("serial\n", ":1: there is no row below the header"),
        ("node,slot\n", ":1: column 'serial' is missing; choose from serial, node, slot"),
        ("serial,nod\n", ":1: column 'nod' is not known; choose from"),
        ("serial,node,\na,n1,7\n", ":2: "),
        ("serial,,node\na,,n1\n", ":1: "),
        ("serial,node,serial\n", ":1: column 'serial' is there twice"),
        ("serial,node\na\n", ":2: has 1 cells, the header 2"),
        ("serial,node\n,n1\n", ":2: column 'serial' is empty"),
        (
            "serial\n1.65052E+12\n",
            ":2: column 'serial': '1.65052E+12': a spreadsheet wrote a number, and digits are lost",
        ),
        ("serial\na\nb\u200b\n", r":3: column 'serial': 'b\u200b' holds an invisible character"),
        ("serial\nSIM\uff10\uff11\n", r":2: column 'serial': 'SIM\uff10\uff11' holds a character that is not ASCII"),
        ("serial,node\na,n1\u202e\n", r":2: column 'node': 'n1\u202e' holds an invisible character"),
        ("serial,slot\na,\nb,slot 3\n", ":3: column 'slot': 'slot 3' is no slot; write the index of the device"),
        ("serial,node,slot\na,n1,3\nb,n1,gpu3\n", ":3: column 'slot': 'gpu3' of n1 is listed in line 2"),
        ('serial\n"a\n', ":2: the line is not CSV"),
        ("serial\na\n\nA\n", ":4: column 'serial': 'A' is in line 2 already"),
        (
            "serial,node,slot\na,n1,3\nb,n1.example.org,3\n",
            ":3: column 'slot': '3' of n1.example.org is listed in line 2",
        ),
        ("serial,uuid\na,GPU-1\nb,gpu-1\n", ":3: column 'uuid': 'GPU-1' is in line 2 already"),
        (f"serial\n{'x' * 500}\n", ":2: column 'serial': has 500 characters"),
    ],
)
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


@pytest.mark.parametrize(
    "text",
    [
        "serial,node\n0123,n1\nb,n2\n",
        "\ufeffserial,node\r\n0123,n1\r\nb,n2\r\n",
        'Serial;Node\n"0123";n1\nb;"n2"\n',
        '"serial"\t"node"\r"0123"\tn1\rb\tn2',
        'serial,node\n"=""0123""",n1\n\n,\nb, n2\n',
        "serial,node\n'0123,n1\nb,n2\n",
    ],
    ids=["plain", "Windows", "semicolons", "tabs and old Mac", "formula", "apostrophe"],
)
def test_what_spreadsheets_write_is_read(tmp_path: Path, text: str) -> None:
    found = listed(tmp_path, text)
    assert [(each.serial, each.node) for each in found.rows] == [("0123", "n1"), ("b", "n2")]
    alike = listed(tmp_path, "serial,slot\n7E12,gpu0\n7e+1,1\n1.5,00000000:1B:00.0\n")
    assert [each.serial for each in alike.rows] == ["7E12", "7e+1", "1.5"], "no number of a spreadsheet"


@pytest.mark.parametrize(
    ("names", "name", "found"),
    [
        (["n1"], "N1.example.org", "n1"),
        (["n1.example.org"], "n1", "n1.example.org"),
        (["n1.a", "n1.b"], "n1", ""),
        (["n1.a"], "n1.b", ""),
        (["n1", "n1.a"], "n1", "n1.a"),
        (["n1", "n1.a"], "n1.b", ""),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.2", "10.0.0.2"),
        (["10.0.0.1"], "10.0.0.2", ""),
    ],
)
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


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\nserial;node\na;n1\n",
        "serial,node,,\na,n1,,\n",
        "serial,node,\na,n1\n",
        'SEP=,\r\n"serial","node"\r\na,n1,,,\r\n',
    ],
)
def test_what_a_spreadsheet_adds_around_the_table_is_passed_over(tmp_path: Path, text: str) -> None:
    (row,) = listed(tmp_path, text).rows
    assert (row.serial, row.node) == ("a", "n1")


def test_another_encoding_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match='is not UTF-8 text; a spreadsheet writes it as "CSV UTF-8"'):
        listed(tmp_path, "serial\na\n", "utf-16")
