"""The HTML report: what it says of a record, and that nothing in a record can be more than text in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import html5lib
import pytest
from support import report_record
from support.data_files import tables
from support.reasons import worded
from support.report_record import FLOOR, SLOW, device, readings, record, saved

from pytest_accel.cli.main import main
from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.reasons import Expected
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Closing, Comparison, Result, Status, Verdict
from pytest_accel.judging.verdicts.attempts import RunAttempts
from pytest_accel.run import telemetry_file
from pytest_accel.run.record import names_of, read
from pytest_accel.views.html import blocks, page, traces
from pytest_accel.views.html.report_words import SIGNS

HTML = "{http://www.w3.org/1999/xhtml}"
URLS = ("src", "href", "action", "data", "poster", "srcset", "background", "xlink:href")


def made(folder: Path, found: Run | None = None) -> str:
    """The report of a record that was written and read again."""
    path = saved(folder, found or record())
    return page.report(read(path), folder)


@cache
def usual() -> str:
    """The report of a record without its readings."""
    return page.page(record(), None, "no file")


def tree(text: str) -> Any:
    """The elements of a page as a browser reads them; an error of its HTML raises an exception."""
    return html5lib.HTMLParser(strict=True).parse(text)


def words(text: str) -> str:
    """What a person reads: without scripts, styles and white space."""
    root = tree(text)
    for parent in list(root.iter()):
        for each in list(parent):
            if each.tag in (f"{HTML}script", f"{HTML}style"):
                parent.remove(each)
    return " ".join(" ".join(root.itertext()).split())


# -- nothing from outside is more than text


def test_hostile_text_stays_text_in_every_place_of_a_record(tmp_path: Path) -> None:
    raw = report_record.made_hostile(json.loads(saved(tmp_path, record()).read_text()))
    (tmp_path / "record.json").write_text(json.dumps(raw))

    text = page.report(read(tmp_path / "record.json"), tmp_path)

    plain, clean = tree(text), tree(made(tmp_path / "clean"))
    assert {each.tag for each in plain.iter()} == {each.tag for each in clean.iter()}
    assert not [name for each in plain.iter() for name in each.attrib if str(name).startswith("on")]
    assert len(list(plain.iter(f"{HTML}script"))) == 2
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    assert text.count("onerror") > 100  # it is shown, as text
    assert "\\x1b[2J" in text


def test_the_data_of_the_plots_cannot_end_their_element() -> None:
    found = record()
    found.devices = [replace(each, called="</script><b>") for each in found.devices]

    plots = next(each for each in tree(page.page(found, None)).iter(f"{HTML}script") if each.get("id") == "data")

    assert any("</script><b>0" in json.dumps(each) for each in json.loads(plots.text).values())


def test_nothing_is_loaded_and_only_our_own_script_may_run() -> None:
    root = tree(usual())
    addresses = [each.get(name) for each in root.iter() for name in URLS if each.get(name)]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    script = next(each.text for each in root.iter(f"{HTML}script") if not each.get("type"))
    style = next(each.text for each in root.iter(f"{HTML}style"))
    assert not re.search(r"url\(|@import", style)
    policy = next(each.get("content") for each in root.iter(f"{HTML}meta") if each.get("http-equiv"))
    for what, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{what}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not [each for each in root.iter() if each.get("style")]  # the policy would ignore it


def test_every_link_leads_somewhere() -> None:
    root = tree(usual())
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    missing = {each.get("href") for each in root.iter(f"{HTML}a")} - {f"#{name}" for name in ids}
    assert not missing


def test_eight_devices_take_less_than_two_megabytes() -> None:
    """A run at `standard` has about 40 plots. No device has more than 400 points in one."""
    assert len(page.page(record(number=400, metrics=40), None).encode()) < 2_000_000


# -- what it says


def test_the_first_words_are_result_node_serials_and_reasons() -> None:
    text = words(usual())
    beginning = text[: text.index("Figures of every device")]
    decided = text[text.index("Limits that decided") :]
    assert f"FAIL gpu{SLOW} matmul.bf16 ≥ 650 TFLOPS" in decided
    assert [wanted for wanted in tables("views/html")["beginning"] if wanted not in beginning] == []


def test_what_fell_short_is_told_by_device_and_cause() -> None:
    """Every device has one item, with one next step for all that one cause made fall short."""
    found = record()
    slow = next(each for each in found.verdicts if each.status is Status.FAIL and not each.waiver)
    also = [replace(slow, metric=f"matmul.fp{each}") for each in (8, 16)]
    other = replace(slow, metric="stream.triad", subject=device(1).uuid)
    text = page.page(replace(found, verdicts=[*found.verdicts, *also, other]), None, "no file")
    section = text[text.index('id="findings"') : text.index('id="devices"')]
    items = [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", each)) for each in section.split("<li>")[1:]]
    (of_slow,) = [each for each in items if f" gpu{SLOW} " in each]
    assert all(name in of_slow for name in ("matmul.bf16", "matmul.fp8", "matmul.fp16"))
    assert of_slow.count("Next") == 1
    assert sum(" gpu1 " in each for each in items) == 1


def devices_of(found: Run) -> list[str]:
    """The rows below "Devices", each as its text."""
    table = next(each for each in tree(page.page(found, None)).iter(f"{HTML}table") if each.get("class") == "devices")
    return [" ".join(" ".join(row.itertext()).split()) for row in table.iter(f"{HTML}tr")][1:]


@pytest.mark.parametrize(("gone", "name"), [(5, "gpu5"), (7, "1 of 8")])
def test_a_device_that_is_missing_has_the_first_row(gone: int, name: str) -> None:
    """It is known by its name where the library counts on behind it."""
    found = record()
    found.devices = [each for each in found.devices if each.index != gone]
    limit = Limit("inventory.count", "count", equals=8)
    count = Verdict(limit.metric, NODE, Status.FAIL, (Expected(),), "count", 7, expected=8, limit=limit)
    assert f"{name} ✖ FAIL expected, not found 7 of 8 devices" in devices_of(replace(found, verdicts=[count]))[0]
    assert devices_of(replace(found, verdicts=[]))[0].startswith("gpu0")


def test_the_devices_that_fail_come_first_with_what_happened() -> None:
    """A device that was lost during the run before one that is slow."""
    found = record()
    lost = Verdict(
        "soak.rate", device(5).uuid, Status.FAIL, worded("no answer"), limit=FLOOR, device_failed=True, event="lost"
    )
    first, second, third, *_ = devices_of(replace(found, verdicts=[*found.verdicts, lost]))
    assert first.startswith("gpu5 ✖ FAIL 1")
    assert "A102 device-lost: soak.rate no answer" in first
    assert second.startswith(f"gpu{SLOW} ✖ FAIL 1")
    assert "matmul.bf16 629.3 TFLOPS, floor 650 TFLOPS (-3.2%)" in second
    assert third.startswith("gpu0")


def test_every_status_is_told_by_word_and_sign() -> None:
    text = words(usual())
    applying = [status for status in Status if status is not Status.NOT_APPLICABLE]
    assert [status for status in applying if f"{SIGNS[status]} {status.value}" not in text] == []
    assert len(set(SIGNS.values())) == len(SIGNS)
    badges = [each for each in tree(usual()).iter(f"{HTML}span") if "badge" in each.get("class", "")]
    told = " ".join("".join(each.itertext()) for each in badges)
    assert [status for status in Status if status.value not in told] == [Status.NOT_APPLICABLE]


def row_of(name: str, text: str, metric: str = "matmul.bf16") -> tuple[str, list[str]]:
    """The row of a metric of a device in the table of figures: its reason, and its cells."""
    rows = next(each for each in tree(text).iter(f"{HTML}table") if each.get("id") == "table-figures").iter(f"{HTML}tr")
    row = next(each for each in rows if each.get("data-device") == name and metric in "".join(each[2].itertext()))
    reasons = ["".join(each.itertext()) for each in row.iter(f"{HTML}p")]
    return " ".join(reasons), ["".join(each.itertext()) for each in row]


def test_a_row_has_all_that_a_value_can_be_compared_with() -> None:
    found = record()
    found.info["level"] = "quick"
    reason, (_, name, _, value, of_peak, limit, margin, healthy, neighbours, _) = row_of(
        f"gpu{SLOW}", page.page(found, None)
    )
    assert (name, value) == (f"gpu{SLOW}", "629.3 TFLOPS")
    assert (limit, margin, of_peak) == ("≥ 650", "-3.2%", "63.6%")
    assert healthy == "676 to 730"
    assert neighbours == "10.7% behind median of 7: 704.9"
    assert "HW thermal" in reason
    assert not row_of("gpu0", page.page(found, None))[0]


COPIES = Limit("host_copy.h2d", "GB/s", floor=30.0)
NEAR, FAR = (55.0, 55.1, 54.9, 49.0), (40.1, 40.0, 40.2, 39.9)
"""Rates of copies to the host in GB/s, of four devices on each of two NUMA nodes; gpu3 is short."""


def test_the_page_has_the_comparison_of_the_verdict_on_two_numa_nodes() -> None:
    """A device is compared with those on its own NUMA node; the page once compared it with all eight."""
    found = record()
    found.devices = [replace(each, numa_node=each.index // 4) for each in found.devices]
    copies = {
        each.uuid: Measurement(
            "host_copy.h2d", each.uuid, "GB/s", rate, tuple(rate + step / 100 for step in range(-4, 5)), (0.1,) * 9
        )
        for each, rate in zip(found.devices, NEAR + FAR, strict=True)
    }
    found.measurements = list(copies.values())
    attempts = RunAttempts.of(found.measurements, found.devices)
    found.verdicts = [attempts.verdict(place, COPIES) for place in attempts.by_key]
    short = found.verdicts[3]
    assert short.neighbours is not None
    assert (round(short.neighbours.lost, 3), short.neighbours.middle, short.neighbours.count) == (0.109, 55.0, 3)
    assert "10.9% behind its 3 neighbours (median 55" in sentence_of(short)
    text = page.page(found, None)
    reason, cells = row_of("gpu3", text, "host_copy.h2d")
    assert cells[-2] == "10.9% behind median of 3: 55"
    assert "10.9% behind its 3 neighbours (median 55" in reason
    assert "A303 host-link-slow: host_copy.h2d 49 GB/s, 10.9% behind" in words(text), "not the floor that holds"
    assert "18.2% behind" in sentence_of(found.verdicts[4]), "a whole socket is behind: MARGINAL"
    assert row_of("gpu4", text, "host_copy.h2d")[1][-2] == "18.2% behind median of 7: 49"


def test_the_last_run_of_the_device_is_beside_its_value() -> None:
    found = record()
    place, slow = next((place, each) for place, each in enumerate(found.verdicts) if each.subject == device(SLOW).uuid)
    differs = {"driver": ("570", "580")}
    past = Comparison(0.101, 0.05, 700.0, since="last", day="2026-11-20", differs=differs)
    found.verdicts[place] = replace(slow, past=past)
    _, cells = row_of(f"gpu{SLOW}", page.page(found, None))
    assert cells[-1] == "10.1% behind last run of 2026-11-20: 700, driver was 570"


def test_the_blocks_have_limit_and_healthy_range() -> None:
    found = record()
    plots = blocks.blocks(found, names_of(found))
    first = plots[0]
    assert [plot.title for plot in plots] == ["matmul.bf16", "matmul.bf16, attempt 2", "soak.rate"]
    assert len(first.series) == 8
    assert len(first.x) == 40
    assert list(first.marks) == [("floor", 650.0)]
    assert first.band == (676.0, 730.0)


def test_a_long_series_keeps_its_dip() -> None:
    found = record(number=5000)
    slow = found.measurements[SLOW]
    dipped = (*slow.samples[:3210], 12.0, *slow.samples[3211:])
    found.measurements[SLOW] = replace(slow, samples=dipped)
    plot = blocks.blocks(found, names_of(found))[0]
    assert len(plot.x) == 400
    assert 12 in dict(plot.series)[f"gpu{SLOW}"]


def test_short_pairs_are_marked_in_the_matrix() -> None:
    heat = next(each for each in tree(usual()).iter(f"{HTML}table") if each.get("class") == "heat")
    rows = {"".join(row[0].itertext()): row[1:] for row in heat.iter(f"{HTML}tr")}
    assert [cell.get("class") for cell in rows["gpu0"]].count("none") == 1
    assert ["▼" in "".join(cell.itertext()) for cell in rows["gpu0"][1:]] == [place == SLOW for place in range(1, 8)]
    assert "14 pairs are more than 3 % below that" in words(usual())
    assert "50.2% of the fastest pairs" in rows[f"gpu{SLOW}"][0].get("data-tip")


def test_a_record_without_an_end_says_so() -> None:
    found = record()
    found.closing, found.state, found.verdicts, found.measurements = Closing(), "running", [], []
    text = words(page.page(found, None, "nothing was measured"))
    assert "NO RESULT" in text
    assert "state 'running'" in text
    assert "ACCEPTED" not in text.replace("ACCEPTED 8/8 devices", "")  # that is the earlier record


def test_a_simulated_node_is_told_first() -> None:
    found = record()
    found.info["simulated"] = {"node": "node.yaml", "faults": []}
    text = words(page.page(found, None, "no file"))
    assert text.startswith("SIMULATED REJECTED: "), "the title of the page"
    assert "The node is a simulated one" in text


def test_a_node_without_devices_has_a_report() -> None:
    found = Run(info={"host": "n"}, closing=Closing(line="NOT JUDGED nothing", exit=6, result=Result.NOT_JUDGED))
    assert "No device was found." in words(page.page(found, None, "nothing was measured"))


# -- the sensor's readings


def drawn(lines: list[dict[str, Any]]) -> traces.Traces:
    found = record()
    shown = traces.window(found)
    assert shown
    return traces.traces(lines, shown, names_of(found))


def test_the_traces_are_those_of_the_soak() -> None:
    found = drawn(readings())
    assert [plot.title for plot in found.plots] == ["Clock", "Power", "Temperature"]
    assert found.window.of_soak
    clock = dict(found.plots[0].series)
    assert min(each for each in clock[f"gpu{SLOW}"] if each) == 1000
    assert min(each for each in clock["gpu0"] if each) == 1584


def test_throttle_reasons_are_told_by_device() -> None:
    reasons = {
        label: {name: (path, told) for name, path, told in strips} for label, _, strips in drawn(readings()).reasons
    }
    assert set(reasons) == {"Power limit (normal under full load)", "Heat: slowed down by the device itself"}
    heat = reasons["Heat: slowed down by the device itself"]
    assert heat["gpu0"] == ("", "never")
    path, told = heat[f"gpu{SLOW}"]
    assert told == "8% of the readings"
    assert path.count("M") == 1  # one stretch, without holes between readings


def test_junk_among_the_readings_is_passed_over(tmp_path: Path) -> None:
    junk: list[Any] = [
        *readings(),
        {"uuid": 7, "at": report_record.BEGAN + 20},
        {"uuid": device(0).uuid, "at": "now"},
        {
            "uuid": device(0).uuid,
            "at": report_record.BEGAN + 20,
            "clock_mhz": "1e400",
            "reasons": True,
            "power_w": 1e400,
        },
        ["no reading"],
    ]
    path = saved(tmp_path, record(), junk)
    with (tmp_path / "telemetry.jsonl").open("a") as side:
        side.write("{cut off")
    raw = json.loads(path.read_text())
    raw["telemetry"]["sha256"] = hashlib.sha256((tmp_path / "telemetry.jsonl").read_bytes()).hexdigest()
    path.write_text(json.dumps(raw))
    text = page.report(read(path), tmp_path)
    assert "There are no traces" not in text
    assert "Infinity" not in text


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.unlink(), "telemetry.jsonl is not beside the record"),
        (lambda path: path.write_text("{}\n"), "telemetry.jsonl is not the file that the record states the hash of"),
    ],
)
def test_without_the_readings_the_report_says_why(tmp_path: Path, harm: Any, said: str) -> None:
    path = saved(tmp_path, record())
    harm(tmp_path / "telemetry.jsonl")
    text = words(page.report(read(path), tmp_path))
    assert f"There are no traces: {said}." in text
    assert "highest 88 C" in text  # the record's own summary


def test_a_small_file_of_many_readings_is_not_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed, a terabyte of them has a few megabytes."""
    monkeypatch.setattr(telemetry_file, "MOST_READINGS", 100)
    path = saved(tmp_path, record(), [*readings()] * (100 // len([*readings()]) + 1))
    text = words(page.report(read(path), tmp_path))
    assert "There are no traces: telemetry.jsonl: holds more than 100 readings, which are not looked through." in text
    assert "highest 88 C" in text


def test_a_file_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    found = record()
    path = saved(tmp_path / "one", found)
    found.telemetry = {"file": "../two.jsonl", "sha256": found.telemetry["sha256"]}
    (tmp_path / "two.jsonl").write_bytes((tmp_path / "one/telemetry.jsonl").read_bytes())
    assert "../two.jsonl is not beside the record" in page.report(found, path.parent)


def test_devices_without_gauges_are_said_to_have_none() -> None:
    bare = drawn([{"uuid": each["uuid"], "at": each["at"], "busy_s": 1.0} for each in readings()])
    found = record()
    found.measurements = [
        replace(each, details={}) if each.metric == "soak.rate" else each for each in found.measurements
    ]
    assert "Neither clock nor power nor temperature of these devices was read." in words(page.page(found, bare))


# -- the command


def test_the_command_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, record())
    assert main(["report", str(path.parent), "--output", str(tmp_path / "a.html")]) == 0
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out == (tmp_path / "a.html").read_text()


def test_the_command_tells_that_a_record_was_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, record())
    path.write_text(path.read_text().replace("rack7-n04", "rack8-n05"))
    assert main(["report", str(path)]) == 0
    assert "the record was changed after it was written" in words(capsys.readouterr().out)


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    path = saved(tmp_path, record())
    script = "import sys; sys.modules['jinja2'] = None; from pytest_accel.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "report", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 4
    assert (
        ran.stderr.splitlines()[-1]
        == "HTML and the document of a delivery need Jinja2: pip install 'pytest-accel[report]'"
    )
