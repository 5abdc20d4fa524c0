"""The one way to read files from outside: what is refused, with which words, and that nothing blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.rows import each_row

from pytest_accel.core import untrusted
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import BadFile


def refusal(path: Path, **options: object) -> str:
    """Return why a file is refused."""
    with pytest.raises(BadFile) as error:
        untrusted.read_json(path, **options)  # type: ignore[arg-type]
    return str(error.value).replace(printable(str(path)), "x", 1)


def test_a_pipe_a_device_and_a_folder_are_refused_at_once(tmp_path: Path) -> None:
    """Opening a pipe would wait for a writer, and /dev/zero has no end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert refusal(pipe) == "x: is a pipe, not a regular file"
    assert refusal(Path("/dev/zero")) == "x: is a device, not a regular file"
    assert refusal(tmp_path) == "x: is a folder, not a regular file"


def test_a_large_file_is_refused_by_its_size(tmp_path: Path) -> None:
    """A sparse file of a terabyte takes no space, and would take all memory."""
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert refusal(path).startswith("x: is 1,099,511,627,776 bytes large; the largest")


def test_a_link_is_followed_only_where_nobody_else_can_place_one(tmp_path: Path) -> None:
    """A user's own file may be a link; in a folder of everybody, a link is another one's."""
    (tmp_path / "file").write_text("[1]")
    link = tmp_path / "link"
    link.symlink_to("file")
    assert untrusted.read_json(link) == [1]
    assert refusal(link, follow=False) == "x: is a symbolic link, not a regular file"


def test_a_missing_file_names_the_folder_that_a_relative_path_begins_at(tmp_path: Path) -> None:
    """A path relative to another folder is the usual reason."""
    assert refusal(tmp_path / "none") == "x: cannot be read: No such file or directory"
    assert refusal(Path("none.json")) == (
        f"x: cannot be read: No such file or directory (the current folder is {Path.cwd()})"
    )
    assert refusal(Path("a\0b")) == "x: is not the name of a file"


@each_row(
    ("raw", "why"),
    [
        (b"[" * 200_000, "x: is nested more than 64 levels deep"),
        (b"[" + b"9" * 5_000 + b"]", "x: holds a whole number of 5,000 digits (9999999999...)"),
        (b"[-1e200]", "x: holds a number that nothing measures (-1e200)"),
        (b"[NaN]", "x: holds NaN, which is no number of JSON"),
        (b"{\n1}", "x:2: is not JSON: Expecting property name enclosed in double quotes (column 1)"),
        (b"", "x:1: is not JSON: Expecting value (column 1)"),
        (b"[\n\xff]", "x:2: is not UTF-8 text"),
        (b'["\n\0"]', "x:2: is not text: it holds a NUL character"),
        (b'["' + b'\\"' * 100_000, "x:1: is not JSON: Unterminated string starting at (column 2)"),
    ],
)
def test_json_is_counted_before_it_is_built(raw: bytes, why: str) -> None:
    """Each was a traceback, a crash of the interpreter, or gigabytes of memory."""
    with pytest.raises(BadFile) as error:
        untrusted.parse_json(raw, "x")
    assert str(error.value) == why


def test_brackets_inside_of_strings_are_no_depth() -> None:
    """A sentence of a record may hold brackets and escaped quotes."""
    assert untrusted.parse_json(b'["' + b'[\\"\\\\' * 500 + b'"]', "x") == ['["\\' * 500]


def test_a_line_of_csv_has_an_end() -> None:
    """The csv module raises its own error for long cells."""
    assert untrusted.cells('a, "b,c",') == ["a", "b,c", ""]
    with pytest.raises(BadFile, match=r"^the line has 200,000 characters; the longest that is read has 20,000$"):
        untrusted.cells("a" * 200_000)


@each_row(
    ("text", "line", "why"),
    [
        ("serial\rnode\n1,n1\n", 1, "new-line character seen in unquoted field"),
        ("serial,node\r1,n1\r", 1, "new-line character seen in unquoted field"),
        ("serial,node\r\n1,n1\r\n2,n\r2\r\n", 3, "new-line character seen in unquoted field"),
        (f"serial,node\n1,{'n' * 200_000}\n", 2, "field larger than field limit (131072)"),
    ],
)
def test_a_table_that_is_not_csv_is_refused_with_its_line(tmp_path: Path, text: str, line: int, why: str) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode())
    with pytest.raises(BadFile) as error:
        untrusted.table(tmp_path / "x.csv")
    assert str(error.value) == f"{tmp_path}/x.csv:{line}: the line is not CSV: {why}"


def test_a_table_has_columns_and_rows(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b'serial,node\r\n1,"n\r1"\r\n2\r\n')
    rows = [{"serial": "1", "node": "n\r1"}, {"serial": "2", "node": ""}]
    assert untrusted.table(tmp_path / "x.csv") == (["serial", "node"], rows)
    (tmp_path / "x.csv").write_bytes(b"")
    assert untrusted.table(tmp_path / "x.csv") == ((), [])


def test_a_file_of_the_kernel_is_read_though_it_states_no_size() -> None:
    """Files in /proc have a size of zero."""
    assert untrusted.read_host("/proc/self/status").startswith(b"Name:")
    assert len(untrusted.read_host("/proc/self/status", most=10)) == 10
    with pytest.raises(OSError, match="not a regular file"):
        untrusted.read_host("/dev/zero")


def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo")
    assert list(untrusted.lines(tmp_path / "log")) == [b"one\n", b"two"]
    (tmp_path / "log").write_bytes(b"one\n" + b"x" * 100_000)
    with pytest.raises(BadFile, match=r"log: holds a line of 65,536 bytes or more"):
        list(untrusted.lines(tmp_path / "log"))


def test_the_lines_of_a_pipe_or_behind_a_link_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(BadFile, match="is a pipe, not a regular file"):
        list(untrusted.lines(tmp_path / "pipe"))
    with pytest.raises(BadFile, match="is a symbolic link, not a regular file"):
        list(untrusted.lines(tmp_path / "link"))


def test_what_an_error_quotes_cannot_end_its_line() -> None:
    bad = BadFile("a.json: x\nACCEPTED 8/8 devices\x1b[2K is not known", "b.json: is empty")
    assert str(bad).splitlines() == [r"a.json: x\nACCEPTED 8/8 devices\x1b[2K is not known", "b.json: is empty"]
    assert bad.prefixed("--accel-sku")[0].startswith("--accel-sku: a.json: ")
