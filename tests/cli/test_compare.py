"""`pytest-accel compare` on simulated nodes: a lost link, a device that got slower, other nodes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import in_process
from support.fault_case import Case

from pytest_accel.cli.main import main
from pytest_accel.core import structured, untrusted
from pytest_accel.run import record, summaries
from pytest_accel.run.record import seal

HEALTHY = ()
LESS_LINK = ("nvlink-down, device: 1", 'wrong-driver, version: "590.10.02"')

Make = Callable[..., Path]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """A function that runs a simulated node with some faults, and returns the folder of the record; each node once."""
    pytest.importorskip("torch")
    made: dict[tuple[Any, ...], Path] = {}

    def run(*faults: str, sku: str = "four", platform: str = "four", seed: int = 0) -> Path:
        asked = (faults, sku, platform, seed)
        if asked not in made:
            made[asked] = _run(tmp_path_factory.mktemp("node"), *asked)
        return made[asked]

    with in_process.fast():
        yield run


def _run(folder: Path, faults: tuple[str, ...], sku: str, platform: str, seed: int) -> Path:
    node, output = Case("none", (), sku=sku, platform=platform).write(folder), folder / "out"
    listed = "".join(f"  - {{fault: {each}}}\n" for each in faults)
    node.write_text(f"sku: ./{sku}.yaml\nplatform: {platform}\nseed: {seed}\n" + (listed and f"faults:\n{listed}"))
    here, _ = in_process.run(node, output, measured=("stream", "peer_copy"))
    output.mkdir(exist_ok=True)
    (output / record.TELEMETRY).touch()
    here.ledger.record.telemetry = {"file": record.TELEMETRY, "sha256": untrusted.sha256(output / record.TELEMETRY)}
    record.write(here.ledger.record, output)
    return output


Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    """The command; returns its exit status, what it prints, and its errors."""

    def run(*args: Path | str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["compare", *map(str, args)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def changed(source: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Copy a record with a change, as a run would have written it."""
    shutil.copytree(source, folder)
    text = json.loads((folder / record.FILE).read_text())
    change(text)
    (folder / record.FILE).write_text(json.dumps({**text, "sha256": seal(text)}))
    told = structured.plain(summaries.summary(record.read(folder / record.FILE)))
    (folder / summaries.SUMMARY).write_text(json.dumps(told))
    return folder


def differences(out: str) -> list[str]:
    return [line.strip() for line in out.splitlines() if line.startswith("  ")]


def test_the_sku_of_a_rehearsal_is_that_of_the_record(make: Make, compare: Compare, tmp_path: Path) -> None:
    def rehearse(text: dict[str, Any]) -> None:
        text["sku"] |= {"asked": "", "name": "h100-sxm"}  # --accel-simulate alone asks for none

    _, out, err = compare(*(changed(make(), tmp_path / name, rehearse) for name in ("a", "b")))
    assert "was not found" not in out + err


@pytest.mark.nightly
def test_a_node_that_lost_a_link_and_got_another_driver(make: Make, compare: Compare) -> None:
    code, out, _ = compare(make(), make(*LESS_LINK))
    told = differences(out)
    assert code == 1
    assert told[0].startswith("gpu1 health.nvlink_up: PASS 18 -> FAIL 17")
    assert "driver: 580.95.05 -> 590.10.02" in told
    assert re.search(r"gpu1 peer_copy.one_way: 37\d.* slower; two runs differ by up to", told[-1] + told[-2])
    assert out.splitlines()[-1] == "WORSE gpu1 health.nvlink_up: PASS 18 -> FAIL 17 (and 3 more)"
    code, out, _ = compare(make(*LESS_LINK), make())
    assert code == 0, "it got its link back"
    assert "gpu1 health.nvlink_up: FAIL 17 -> PASS 18" in differences(out)


def test_two_equal_runs(make: Make, compare: Compare) -> None:
    code, out, _ = compare(make(), make() / "record.json")
    assert (code, differences(out)) == (0, [])
    assert out.splitlines()[-1] == "NOTHING WORSE in what was compared: 24 figures, the states of 4 devices"


def test_nothing_worse_is_not_said_of_figures_that_were_not_compared(
    make: Make, tmp_path: Path, compare: Compare
) -> None:
    def disturb(text: dict[str, Any]) -> None:
        for each in text["measurements"]:
            each.setdefault("conditions", {})["layout"] = "another"

    code, out, _ = compare(make(), changed(make(), tmp_path / "busy", disturb))
    assert code == 0
    assert "figures: 0 compared, " in out
    assert out.splitlines()[-1] == "NOTHING WORSE in what was compared: no figure, the states of 4 devices"


@pytest.mark.nightly
def test_other_products_other_nodes_and_simulated_ones_are_not_comparable(
    make: Make, tmp_path: Path, compare: Compare
) -> None:
    real = changed(make(), tmp_path / "real", lambda text: text["info"].pop("simulated"))
    others = {
        make(sku="older", platform="single"): "other SKU: four and older",
        make(seed=3): "none of the same devices",
        real: "one record is of a simulated node, the other one of hardware",
    }
    for other, why in others.items():
        code, out, _ = compare(make(), other)
        assert (code, out.splitlines()[-1]) == (6, f"NOT COMPARABLE {why}")


def test_a_record_that_was_judged_again_by_stricter_limits(make: Make, tmp_path: Path, compare: Compare) -> None:
    folder, strict = make(), tmp_path / "strict.yaml"
    text = (folder.parent / "four.yaml").read_text()
    strict.write_text(text.replace("floor: derived, reference: 2900", "floor: 2899, reference: 2900"))
    assert main(["judge", str(folder), f"--sku={strict}", f"--output={tmp_path / 'again'}"]) == 1
    code, out, _ = compare(folder, tmp_path / "again")
    assert code == 0, "no hardware is worse"
    assert "judged again" in out.splitlines()[1]
    assert "run result: HELD -> REJECTED" in differences(out)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_record_that_is_not_believed_is_not_compared(
    make: Make, tmp_path: Path, compare: Compare, sealed: bool
) -> None:
    forged = Path(shutil.copytree(make(*LESS_LINK), tmp_path / "forged")) / "record.json"
    raw = json.loads(forged.read_text().replace('"FAIL"', '"PASS"'))
    raw["sha256"] = record.seal(raw) if sealed else raw["sha256"]
    forged.write_text(json.dumps(raw))
    code, out, _ = compare(make(), forged)
    assert code == 6
    assert f"NOT COMPARABLE {forged} is not believed: " in out


def test_a_wrong_file_is_named(make: Make, tmp_path: Path, compare: Compare) -> None:
    (tmp_path / "garbage.json").write_text("garbage")
    (tmp_path / "empty").mkdir()
    for name in ("garbage.json", "empty", "nothing"):
        code, out, err = compare(make(), tmp_path / name)
        assert (code, out, str(tmp_path / name) in err) == (4, "", True)


def test_what_a_record_says_cannot_forge_the_text(make: Make, tmp_path: Path, compare: Compare) -> None:
    def forge(text: dict[str, Any]) -> None:
        text["software"]["torch"] = "2.9\n\x1b[2JNOTHING WORSE | `x`"

    forged = changed(make(), tmp_path / "forged", forge)
    _, out, _ = compare(make(), forged)
    assert "\x1b" not in out
    assert r"2.9\n\x1b[2JNOTHING WORSE" in out
