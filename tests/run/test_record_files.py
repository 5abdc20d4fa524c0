"""What is verified is what is used: whoever exchanges files between two reads gets nothing accepted.

An audit hook of Python (PEP 578) exchanges them just before a file is opened, at every opening in turn.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.accepted_nodes import node, save_whole
from support.deliveries import keys, needs_openssh, save

from pytest_accel.cli.main import main
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import record, signature, statement
from pytest_accel.run.record_files import RecordFiles

pytestmark = needs_openssh
NAMES = {record.FILE, record.TELEMETRY, *statement.BESIDE, statement.STATEMENT, statement.SUMS, "SHA256SUMS.sig"}


class Exchange:
    """Calls what exchanges the files before the opening of a number is done."""

    def __init__(self) -> None:
        self.act: Callable[[], object] | None = None
        self.at = self.opened = 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or self.act is None or Path(str(arguments[0])).name not in NAMES:
            return
        self.opened += 1
        if self.opened == self.at:
            act, self.act = self.act, None
            act()


EXCHANGE = Exchange()


@pytest.fixture(scope="module", autouse=True)
def _hooked() -> None:
    sys.addaudithook(EXCHANGE)  # it cannot be taken away, and does nothing without `act`


@contextmanager
def exchanging(at: int, act: Callable[[], object]) -> Iterator[None]:
    EXCHANGE.act, EXCHANGE.at, EXCHANGE.opened = act, at, 0
    try:
        yield
    finally:
        EXCHANGE.act = None


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `signed`, a rejection that the supplier signed, and `forged`, an acceptance with its signature."""
    folder = tmp_path_factory.mktemp("two")
    save(node(0, fails=True), folder / "signed")
    accepted = save(node(0), folder / "forged", key="").parent
    for name in (statement.SUMS, "SHA256SUMS.sig"):
        shutil.copy(folder / "signed" / name, accepted / name)
    sums = statement.sums_of((accepted / statement.SUMS).read_text())
    others = {name: sha256 for name, sha256 in sums.items() if name != statement.STATEMENT}
    (accepted / statement.STATEMENT).write_text(statement.text_of(record.read(accepted / record.FILE), others))
    return folder


def turned(place: Path, to: Path) -> None:
    """Make the link that leads to a folder lead to another one."""
    (place.parent / "new").symlink_to(to)
    (place.parent / "new").replace(place)


def filled(place: Path, by: Path) -> None:
    """Exchange every file of a folder for that of another one."""
    for path in by.iterdir():
        if path.is_file():
            shutil.copy(path, place / "new")
            (place / "new").replace(place / path.name)


@pytest.mark.parametrize(
    ("first", "by_link"),
    [
        ("signed", True),
        ("forged", False),
        pytest.param("signed", False, marks=pytest.mark.nightly),
        pytest.param("forged", True, marks=pytest.mark.nightly),
    ],
)
def test_a_folder_that_is_exchanged_at_any_read_is_not_proven_accepted(
    first: str, by_link: bool, two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, status = two / ("forged" if first == "signed" else "signed"), 0
    for at in itertools.count(1):
        place = tmp_path / f"rec-{at}"
        place.symlink_to(two / first) if by_link else shutil.copytree(two / first, place)
        with exchanging(at, partial(turned if by_link else filled, place, other)):
            status = main(["verify", str(place), f"--allowed-signers={keys() / 'signers'}"])
        assert status != 0, f"exchanged at read {at}: {capsys.readouterr().out}"
        if EXCHANGE.opened < at:
            break
    assert at > 4
    assert first != "signed" or status == 1, "of which nothing is exchanged any more"


@pytest.mark.parametrize("first", ["signed", pytest.param("forged", marks=pytest.mark.nightly)])
def test_a_delivery_whose_folder_is_exchanged_at_any_read_is_not_accepted(
    first: str, two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = two / ("forged" if first == "signed" else "signed")
    for at in itertools.count(1):
        place = tmp_path / str(at) / "node0"
        place.parent.mkdir()
        place.symlink_to(two / first)
        with exchanging(at, partial(turned, place, other)):
            options = [f"--allowed-signers={keys() / 'signers'}", "--format=json"]
            main(["fleet", "report", str(place.parent), "--acceptance", *options])
        found = json.loads(capsys.readouterr().out)
        assert found["of_nodes"]["accepted"] == 0, f"exchanged at read {at}"
        if EXCHANGE.opened < at:
            break
    assert at > 4


def test_a_file_that_is_another_one_when_it_is_read_again_is_no_file_of_this_record(two: Path, tmp_path: Path) -> None:
    place = shutil.copytree(two / "signed", tmp_path / "rec")
    with RecordFiles(place / record.FILE) as files:
        files.read(statement.SUMS)
        (place / statement.SUMS).write_text("")
        with pytest.raises(BadFile, match="was changed while it was read"):
            files.read(statement.SUMS)


def test_a_record_that_is_exchanged_while_it_is_signed_is_not_signed(tmp_path: Path) -> None:
    """What the signer was shown is what is signed, so that the other one is refused with its signature."""
    place = save_whole(node(0), tmp_path / "rec")
    other = node(0)
    other.notes.append("another one")
    (tmp_path / "other").mkdir()
    record.write(replace(other, telemetry=record.read(place / record.FILE).telemetry), tmp_path / "other")
    with exchanging(3, partial(filled, place, tmp_path / "other")):
        signature.sign(place, keys() / "supplier", ask=False)
    assert "another one" in (place / record.FILE).read_text()
    assert main(["verify", str(place), f"--allowed-signers={keys() / 'signers'}"]) == 6
