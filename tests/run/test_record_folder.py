"""The folder of a run: one run each, and a record somewhere even if its place cannot be written."""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.rows import each_row

from pytest_accel.core.run import Run
from pytest_accel.run.options import Refused
from pytest_accel.run.record import FILE, LOGS, TELEMETRY
from pytest_accel.run.record_folder import RecordFolder, file_name
from pytest_accel.run.telemetry_file import Telemetry
from pytest_accel.views.terminal import record_lines


def created(chosen: Path | None, host: str = "node1") -> RecordFolder:
    folder = RecordFolder()
    folder.create(chosen, host, f"{host}-20261122T220000Z")
    return folder


def host_in(folder: Path) -> str:
    return str(json.loads((folder / FILE).read_text())["info"]["host"])


def test_every_node_of_a_job_has_its_record(tmp_path: Path) -> None:
    """As srun starts them: at once, all with the same folder on a shared file system."""
    shared, hosts = tmp_path / "out", [f"node{place}" for place in range(16)]
    with ThreadPoolExecutor(16) as pool:
        places = list(pool.map(lambda host: created(shared, host).path, hosts))
    assert sorted(host_in(place) for place in places if place) == sorted(hosts)
    first = hosts[places.index(shared)]
    assert {place.name for place in places if place} == {"out", *hosts} - {first}


def test_a_second_run_of_the_same_host_is_refused(tmp_path: Path) -> None:
    created(tmp_path / "out")
    with pytest.raises(Refused, match="holds the record of another run; name a new folder"):
        created(tmp_path / "out")
    with pytest.raises(Refused, match="holds the record of another run"):
        [created(tmp_path / "out", "node2") for _ in range(2)]
    assert host_in(tmp_path / "out") == "node1"


@pytest.mark.parametrize("name", ["logs/mine.log", "summary.json", "telemetry.jsonl"])
def test_a_folder_with_files_of_somebody_else_is_refused(tmp_path: Path, name: str) -> None:
    """A run that is refused afterwards removes what it made, which must not be theirs."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(Refused, match="which is of no record; name a new folder"):
        RecordFolder().create(tmp_path, "host", "run")
    assert (tmp_path / name).read_text() == "mine"


def test_runs_that_begin_in_the_same_second_have_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        places = list(pool.map(lambda _: created(None).path, range(8)))
    assert len(set(places)) == 8
    assert {place.parent for place in places if place} == {tmp_path / "accel-records"}


@each_row("host", ["../../x", "/etc", "..", "a\nb", "x" * 300, ""])
def test_the_name_of_a_host_stays_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = created(None, host).path
    assert path
    assert path.resolve().parent == tmp_path / "accel-records"
    assert len(path.name) <= 100
    shared = tmp_path / "out"
    created(shared)
    if host:
        inner = created(shared, host).path
        assert inner
        assert inner.resolve().parent == shared
        assert inner.name == file_name(host)


def test_a_record_that_cannot_be_written_to_its_place_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place is replaced by a file; afterwards it is there again."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = created(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "gone")
    (tmp_path / "out").write_text("")
    folder.save(Run(info={"host": "one"}))
    folder.save(Run(info={"host": "two"}))
    assert folder.file
    assert folder.file.parent.name.startswith("accel-record-")
    assert host_in(folder.file.parent) == "two"
    assert (folder.loss, folder.instead_of) == (None, f"{tmp_path / 'out'} could not be written: Not a directory")
    (tmp_path / "out").unlink()
    (tmp_path / "gone").rename(tmp_path / "out")
    folder.save(Run(info={"host": "three"}))
    assert (folder.file, folder.instead_of) == (tmp_path / "out" / FILE, None)
    assert host_in(tmp_path / "out") == "three"


def test_a_record_that_can_be_written_nowhere_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    folder = created(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "gone")
    folder.save(Run(info={}))
    assert folder.loss == "No such file or directory"
    (line,) = record_lines(folder.file, folder.instead_of, lost=bool(folder.loss))
    assert line[0] == (
        f"record: lost ({tmp_path / 'out'} could not be written: No such file or directory); "
        f"{tmp_path / 'out' / FILE} ends before the run did"
    )


def test_the_telemetry_gives_up_its_room_once(tmp_path: Path) -> None:
    telemetry = Telemetry()
    telemetry.write_to(tmp_path / TELEMETRY)
    telemetry.hear({"uuid": "GPU-0", "at": 1.0})
    assert telemetry.give_up("a full disk")
    assert not (tmp_path / TELEMETRY).exists()
    assert telemetry.problem == f"{tmp_path / TELEMETRY}: a full disk"
    telemetry.hear({"uuid": "GPU-0", "at": 2.0})
    assert len(telemetry.window("GPU-0", 0.0, 3.0)) == 2, "the run goes on with what is in memory"
    assert not telemetry.give_up("again")


def test_telemetry_and_logs_follow_no_link(tmp_path: Path) -> None:
    from pytest_accel.run.processes.supervisor import Child

    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / LOGS).mkdir()
    for path in (tmp_path / TELEMETRY, tmp_path / LOGS / "gpu0.log"):
        path.symlink_to(victim)
    telemetry = Telemetry()
    telemetry.write_to(tmp_path / TELEMETRY)
    telemetry.hear({"uuid": "GPU-0", "at": 1.0})
    telemetry.close()
    child = Child("gpu0", "no.such.module", tmp_path / LOGS / "gpu0.log", {})
    child.kill("the test is over")
    assert victim.read_text() == "precious"
    assert (tmp_path / TELEMETRY).read_text() == '{"uuid": "GPU-0", "at": 1.0}\n'
