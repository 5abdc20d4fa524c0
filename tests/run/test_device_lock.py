"""One run per device at a time: locks are exclusive, all or none, and follow nobody's links."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from pytest_accel.run import device_lock
from pytest_accel.run.device_lock import DeviceLocked

GPU0, GPU1 = ("GPU-aa", "gpu0"), ("GPU-bb", "gpu1")

Hold = Callable[[list[tuple[str, str]], str], list[IO[bytes]]]


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """`device_lock.hold` in a folder of its own; what it locked is freed afterwards."""
    monkeypatch.setattr(device_lock, "FOLDER", tmp_path)
    files: list[IO[bytes]] = []

    def kept(names: list[tuple[str, str]], about: str) -> list[IO[bytes]]:
        found = device_lock.hold(names, about)
        files.extend(found)
        return found

    yield kept
    for file in files:
        file.close()


def test_a_second_run_is_told_who_holds_the_device(hold: Hold) -> None:
    hold([GPU0], "record /here")
    with pytest.raises(DeviceLocked) as held:
        hold([GPU0], "record /there")
    assert str(held.value) == f"gpu0 (GPU-aa) is being measured by pid {os.getpid()}, record /here"


def test_closing_the_files_frees_the_devices(hold: Hold) -> None:
    for lock in hold([GPU0, GPU1], "first"):
        lock.close()
    assert len(hold([GPU1, GPU0], "second")) == 2


def test_one_device_in_use_leaves_the_others_unlocked(hold: Hold) -> None:
    """Or a refused run would block its next try."""
    hold([GPU1], "other")
    with pytest.raises(DeviceLocked, match="gpu1"):
        hold([GPU0, GPU1], "refused")
    assert len(hold([GPU0], "again")) == 1


def test_a_shorter_holder_leaves_nothing_of_a_longer_one(hold: Hold) -> None:
    for lock in hold([GPU0], "record /a/very/long/folder/name"):
        lock.close()
    hold([GPU0], "record /b")
    with pytest.raises(DeviceLocked, match=r"record /b$"):
        hold([GPU0], "third")


def test_every_user_may_lock(hold: Hold, tmp_path: Path) -> None:
    hold([GPU0], "first")
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o666


def test_a_name_from_the_driver_stays_in_the_folder(hold: Hold, tmp_path: Path) -> None:
    hold([("../../etc/x y", "gpu0")], "first")
    assert [path.name for path in tmp_path.iterdir()] == ["pytest-accel-______etc_x_y.lock"]


LOCK = "pytest-accel-GPU-aa.lock"
NOT_ITS_OWN = r"gpu0 \(GPU-aa\) cannot be locked: .*GPU-aa\.lock: is not a file of its own; remove it"


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (Path.symlink_to, r"gpu0 \(GPU-aa\) cannot be locked: .*GPU-aa\.lock"),
        (Path.hardlink_to, NOT_ITS_OWN),
        (lambda path, _: os.mkfifo(path), NOT_ITS_OWN),
        (lambda path, _: path.parent.rename(path.parent.with_name("gone")), r"gpu0 \(GPU-aa\) cannot be locked"),
    ],
    ids=["link", "hard link", "pipe", "no folder"],
)
def test_what_another_user_put_there_is_neither_followed_nor_overwritten(
    hold: Hold, tmp_path: Path, put: Callable[[Path, Path], object], said: str
) -> None:
    victim = tmp_path.with_name(f"{tmp_path.name}-victim")
    victim.write_text("precious")
    put(tmp_path / LOCK, victim)
    with pytest.raises(DeviceLocked, match=said):
        hold([GPU0], "first")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"\xff\xfe run", "\ufffd\ufffd run"),
        (b"\x1b[2J\nACCEPTED 8/8 devices", r"\x1b[2J\nACCEPTED 8/8 devices"),
        (b"", "an unknown process"),
        (b"x" * 5000, "x" * 400),
    ],
)
def test_whatever_the_holder_wrote_is_one_short_line(hold: Hold, tmp_path: Path, text: bytes, shown: str) -> None:
    hold([GPU0], "first")
    (tmp_path / LOCK).write_bytes(text)
    with pytest.raises(DeviceLocked) as held:
        hold([GPU0], "second")
    assert str(held.value) == f"gpu0 (GPU-aa) is being measured by {shown}"


def test_a_huge_held_file_is_not_read(hold: Hold, tmp_path: Path) -> None:
    """Its size costs nothing to whoever made it: the file is sparse."""
    hold([GPU0], "first")
    os.truncate(tmp_path / LOCK, 1 << 40)
    with pytest.raises(DeviceLocked, match=f"is being measured by pid {os.getpid()}, first$"):
        hold([GPU0], "second")


def test_a_device_that_is_listed_twice_is_not_held_by_itself(hold: Hold) -> None:
    assert len(hold([GPU0, ("GPU-aa", "gpu7")], "record /here")) == 1
