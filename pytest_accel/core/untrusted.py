"""Reads files that somebody else wrote: threshold files, waivers, records, tables, lock files.

Only regular files are read, up to a number of bytes. Every error of a file raises BadFile, which names file and line.
"""

from __future__ import annotations

import csv
import errno
import gzip
import hashlib
import io
import json
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from pytest_accel.core import paths
from pytest_accel.core.exits import WrongUse

MIB = 1 << 20

JSON_BYTES = 24 * MIB
"""Size of the largest JSON file that is read. A record of eight devices has about 2 MB."""
DEPTH = 64
"""Deepest nesting of a file. A record has 8 levels, a threshold file 6."""
TABLE_BYTES = 8 * MIB
"""Size of the largest CSV file that is read."""
LINE_CHARACTERS = 20_000
"""Length of the longest line of a CSV file."""
NUMBER_CHARACTERS = 40
"""Length of the longest number: 64-bit integers have 20 characters, exact binary fractions about as many as this."""
LARGEST = 1e100
"""Largest number of a JSON file: the square of a larger one is infinite, and no sample or time comes near."""
LOG_BYTES = 2048 * MIB
"""Size of the largest file that is read line by line. The readings of eight devices over eight hours have 600 MB."""
LOG_LINE_BYTES = MIB // 16
"""Length of the longest line of such a file. A reading has about 500 bytes."""
HOST_BYTES = MIB
"""The most bytes of a file in /proc or /sys that are read: these files state no size."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}


_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""Errors that say that nothing is under a path."""

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class ErrorAt(NamedTuple):
    """An error with the file and the line that it is in."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class BadFile(WrongUse):
    """A file cannot be used. The text lists every error with file and line; `errors` are the same, line for line."""

    def __init__(self, *errors: str | ErrorAt) -> None:
        super().__init__(*errors)
        self.errors = errors


def read_bytes(
    path: Path, name: str = "", *, most: int = JSON_BYTES, follow: bool = True, folder: int | None = None
) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes. Raises BadFile, which calls the file `name`.

    A larger file is refused, and so is what is no regular file: a pipe would block, and a device has no end.
    `follow` allows a symbolic link at the end of the path; where others can write into the folder, it has to be False.
    `folder` is the handle of the folder that holds the file, which need not lie under its path any more.
    """
    with _naming(path, name):
        with open(_open(path, follow, folder), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            raw = _fill(file.fileno(), most + 1) if size <= most else b""  # one byte more: it may grow meanwhile
        if max(size, len(raw)) > most:
            raise _Unfit(f"is {max(size, len(raw)):,} bytes large; the largest file that is read has {most:,}")
    return raw


def read_end(path: Path, most: int) -> bytes:
    """Return the last `most` bytes of a regular file, which is no link. Raises BadFile."""
    with _naming(path), open(_open(path, follow=False), "rb") as file:
        return os.pread(file.fileno(), most, max(0, os.fstat(file.fileno()).st_size - most))


def exists(path: Path, *, folder: int | None = None) -> bool:
    """Return True if there is anything under a path that somebody gave; False for a name that cannot be one.

    `folder` is as in `read_bytes`. Raises BadFile where the system does not tell.
    """
    try:
        os.stat(path if folder is None else path.name, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOTHING:
            return False
        raise BadFile(paths.refusal(error)) from None  # such as ESTALE: the server of a network file system forgot it
    except ValueError:  # a NUL character
        return False
    return True


def read_text(path: Path, *, most: int = TABLE_BYTES, follow: bool = True) -> str:
    """Return the text of a regular UTF-8 file, without the mark at its beginning. Raises BadFile as `read_bytes`."""
    return decode(read_bytes(path, most=most, follow=follow), str(path))


def lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a regular file that may be too large for the memory. Raises BadFile as `read_bytes`.

    A file whose name ends in .gz is unpacked on the way; the limits hold for the unpacked lines.
    """
    with _naming(path), open(_open(path, follow=False), "rb") as file:
        yield from _lines(gzip.open(file) if path.suffix == ".gz" else file)


def read_json(path: Path, *, most: int = JSON_BYTES, follow: bool = True) -> Any:
    """Return the content of a regular JSON file. Raises BadFile as `read_bytes` and `parse_json`."""
    return parse_json(read_bytes(path, most=most, follow=follow), str(path))


def decode(raw: bytes, name: str) -> str:
    """Return bytes of UTF-8 as text. Raises BadFile with the line of the first byte that is none."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadFile(ErrorAt(name, line, "is not UTF-8 text")) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise BadFile(ErrorAt(name, line, "is not text: it holds a NUL character"))
    return text


def parse_json(raw: bytes, name: str) -> Any:
    """Return the content of a JSON text. Raises BadFile.

    NaN, infinities and numbers with which nothing can be computed are refused.
    """
    try:
        _demand_flat(raw)  # before anything is built
        return json.loads(decode(raw, name), parse_int=_whole, parse_float=_finite, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadFile(f"{name}:{error.lineno}: is not JSON: {error.msg} (column {error.colno})") from None
    except (_Unfit, RecursionError) as error:
        raise BadFile(f"{name}: {error}") from None


def cells(line: str, delimiter: str = ",", *, strict: bool = False) -> list[str]:
    """Return the cells of one line of CSV, stripped. Raises BadFile with the error of the line."""
    if len(line) > LINE_CHARACTERS:
        raise BadFile(f"the line has {len(line):,} characters; the longest that is read has {LINE_CHARACTERS:,}")
    try:
        row = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=strict), [])
    except csv.Error as error:
        raise BadFile(f"the line is not CSV: {error}") from None
    return [cell.strip() for cell in row]


def table(path: Path) -> tuple[Sequence[str], list[dict[str, str]]]:
    """Return the columns of a CSV file, and its rows by column. Raises BadFile as `read_text`, or with the line."""
    rows = csv.DictReader(io.StringIO(read_text(path)), restval="")
    try:
        return rows.fieldnames or (), list(rows)
    except csv.Error as error:
        message = str(error).partition(" - ")[0]  # a hint for authors of Python follows
        raise BadFile(ErrorAt(str(path), rows.reader.line_num, f"the line is not CSV: {message}")) from None


def read_host(path: str | Path, most: int = HOST_BYTES) -> bytes:
    """Return the first `most` bytes of a file of the kernel, in /proc or /sys. Raises OSError.

    Such files state a size of zero or of a page. Anything but a regular file raises OSError, too.
    """
    try:
        handle = _open(path, follow=True)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    try:
        return _fill(handle, most)
    finally:
        os.close(handle)


class _Unfit(ValueError):
    """A reason why a file is not read."""


@contextmanager
def _naming(path: Path, name: str = "") -> Iterator[None]:
    """Raise BadFile with the name of the file for every error of it."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadFile(f"{name or path}: is no gzip file, or a part of one: {error}") from None
    except _Unfit as unfit:
        raise BadFile(f"{name or path}: {unfit}") from None
    except OSError as error:
        raise BadFile(f"{name or path}: cannot be read: {_why(path, error)}") from None
    except ValueError:
        raise BadFile(f"{name or path}: is not the name of a file") from None


def _lines(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """Yield the lines of an open file. Raises _Unfit where it or a line is too long."""
    remaining = LOG_BYTES
    while line := file.readline(LOG_LINE_BYTES):
        remaining -= len(line)
        if remaining < 0:
            raise _Unfit(f"is too large; the largest file that is read line by line has {LOG_BYTES:,} bytes")
        if len(line) == LOG_LINE_BYTES:
            raise _Unfit(f"holds a line of {LOG_LINE_BYTES:,} bytes or more")
        yield line


def open_folder(path: Path) -> int:
    """Return a handle of the folder that a file is in. Raises BadFile, which names the file."""
    with _naming(path):
        return os.open(path.absolute().parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def sha256(path: Path, *, follow: bool = True, folder: int | None = None) -> str | None:
    """Return the SHA-256 of a regular file in hexadecimal, None if the file cannot be read.

    A file of more than `LOG_BYTES` is not read: a run writes none as large. `follow` and `folder` are as in
    `read_bytes`.
    """
    digest = hashlib.sha256()
    try:
        with open(_open(path, follow, folder), "rb") as file:
            if os.fstat(file.fileno()).st_size > LOG_BYTES:
                return None
            while chunk := file.read(MIB):
                digest.update(chunk)
    except (OSError, ValueError):
        return None
    return digest.hexdigest()


def _open(path: str | Path, follow: bool, folder: int | None = None) -> int:
    """Open a regular file for reading, without waiting for anything. Raises _Unfit or OSError."""
    path = path if folder is None else Path(path).name
    # before, since opening a device may do something to it, and a pipe would block
    _demand_regular(os.stat(path, dir_fd=folder, follow_symlinks=follow).st_mode)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags, dir_fd=folder)
    try:
        _demand_regular(os.fstat(handle).st_mode)  # another file may have been put in its place
    except _Unfit:
        os.close(handle)
        raise
    return handle


def _demand_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise _Unfit(f"is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file")


def _fill(handle: int, most: int) -> bytes:
    """Return at most `most` bytes from an open file."""
    chunks, remaining = [], most
    while remaining > 0 and (chunk := os.read(handle, min(remaining, MIB))):
        chunks.append(chunk)
        remaining -= len(chunk)
    return b"".join(chunks)


def _why(path: Path, error: OSError) -> str:
    """Return the reason why a file cannot be read; with the current folder where a relative path leads nowhere."""
    if error.errno == errno.ENOENT and not Path(path).is_absolute():
        return f"{error.strerror} (the current folder is {Path.cwd()})"
    return error.strerror or "an error without a name"


def _demand_flat(raw: bytes) -> None:
    """Raise _Unfit if a JSON text is nested too deeply."""
    without_escapes = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_of_strings = b"".join(without_escapes.split(b'"')[::2])
    depth = 0
    for bracket in outside_of_strings.translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEPTH:
            raise _Unfit(f"is nested more than {DEPTH} levels deep")


def _whole(digits: str) -> int:
    if len(digits) > NUMBER_CHARACTERS // 2:
        raise _Unfit(f"holds a whole number of {len(digits):,} digits ({digits[:10]}...)")
    return int(digits)


def _finite(digits: str) -> float:
    if len(digits) > NUMBER_CHARACTERS or abs(number := float(digits)) > LARGEST:
        raise _Unfit(f"holds a number that nothing measures ({digits[:20]})")
    return number


def _refuse_constant(name: str) -> float:
    raise _Unfit(f"holds {name}, which is no number of JSON")
