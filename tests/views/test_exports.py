"""Exports: what other tools read of a record is what the record says, and outside text stays text."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import exported
import pytest
from exported import HOSTILE
from markdown_it import MarkdownIt
from markdown_it.token import Token
from prometheus_client.parser import text_string_to_metric_families
from worded import worded

from pytest_accel.core.measurement import NODE
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.views.exports import markdown, prometheus
from pytest_accel.views.markdown import code, escaped

CHECKOUT = Path(__file__).parents[2]
EVERY = {"markdown": markdown.text, "prometheus": prometheus.text}


@pytest.fixture(scope="module")
def faulty() -> Run:
    return exported.faulty()


@pytest.fixture(params=HOSTILE, ids=[str(place) for place in range(len(HOSTILE))])
def hostile(request: pytest.FixtureRequest) -> Run:
    return exported.hostile(request.param)


def failing(record: Run) -> list[Verdict]:
    return [each for each in record.verdicts if each.fails]


@pytest.mark.parametrize("form", EVERY)
def test_no_export_lets_control_characters_through(form: str, hostile: Run) -> None:
    """Neither an escape sequence for a terminal nor a byte that no parser takes."""
    text = EVERY[form](hostile)
    assert not [each for each in text if not each.isprintable() and each != "\n"]
    text.encode("utf-8")


@pytest.mark.parametrize("form", EVERY)
def test_a_run_that_did_not_end_is_exported(form: str) -> None:
    assert EVERY[form](exported.unended())


# -- Markdown


def tokens(text: str) -> Iterator[Token]:
    """What a parser of GitHub's Markdown finds, without the white space between."""
    for block in MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(text):
        yield block
        yield from block.children or ()


def shape(text: str) -> list[str]:
    return [each.type for each in tokens(text) if each.type not in ("text", "text_special", "code_inline")]


def test_markdown_is_short_and_has_the_devices_and_their_faults(faulty: Run) -> None:
    text = markdown.text(faulty)
    assert text.count("\n") < 60
    assert text.startswith("## :x: SIMULATED REJECTED: ")
    assert faulty.closing.line.partition(":")[0] in text
    assert faulty.sha256 in text
    cells = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("| ")]
    steps = {(row[1], row[2], row[3]) for row in cells}
    assert ("A208 memory-slow", "error", "gpu1") in steps
    assert ("A203 memory-unrepairable", "critical", "gpu3") in steps
    assert ("A301 host-link-narrow", "error", "gpu2") in steps
    for device in faulty.devices:
        assert f"`{device.serial}`" in text


def test_markdown_of_a_hundred_faults_is_short(faulty: Run) -> None:
    many = [replace(each, status=Status.FAIL, reasons=worded(str(place))) for place, each in enumerate(faulty.verdicts)]
    devices = [replace(faulty.devices[0], uuid=str(place), index=place) for place in range(100)]
    text = markdown.text(replace(faulty, verdicts=many, devices=devices))
    assert text.count("\n") < 60
    assert "more are in the record" in text


def test_hostile_text_adds_nothing_to_the_shape_of_markdown(hostile: Run) -> None:
    """No HTML, link, emphasis or heading of its own, and no cell more: the parts are those of a harmless record."""
    expected = shape(markdown.text(exported.hostile("harmless")))
    found = shape(markdown.text(hostile))
    assert not {"html_inline", "html_block", "link_open", "image", "em_open", "s_open", "softbreak"} & set(found)
    assert [each for each in found if "strong" not in each] == [each for each in expected if "strong" not in each]


@pytest.mark.parametrize("text", [each for each in HOSTILE if each.strip() and len(each) < 200])
def test_markdown_shows_outside_text_as_it_is(text: str) -> None:
    for written in (escaped(text), code(text)):
        line = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(f"| a |\n| --- |\n| {written} |")
        inline = [each for each in line if each.type == "inline"][-1]
        assert (
            "".join(each.content for each in inline.children or ()).replace("\u200b", "").strip()
            == printable(text).strip()
        )


def test_no_renderer_takes_outside_text_for_html() -> None:
    """Some leave "\\<script>" as it is, behind a backslash."""
    assert "<" not in escaped("<script>alert(1)</script>\n<img onerror=x>")
    assert html.unescape(escaped("a&lt;b")) == "a&lt;b"


def test_github_makes_no_links_and_notifies_nobody() -> None:
    text = html.unescape(escaped("@everyone #123 https://evil.example www.evil.example"))
    assert not re.search(r"@\w|#\d|://|www\.\w", text)


# -- Prometheus


def samples(record: Run) -> dict[tuple[str, ...], float]:
    """The samples by name and the values of their labels, sorted by label."""
    families = text_string_to_metric_families(prometheus.text(record))
    found = [each for family in families for each in family.samples]
    keyed = {(each.name, *(each.labels[name] for name in sorted(each.labels))): float(each.value) for each in found}
    assert len(keyed) == len(found), "no series twice"
    return keyed


def test_prometheus_has_the_result_figures_and_findings(faulty: Run) -> None:
    found = samples(faulty)
    assert found["accel_run_result", "REJECTED"] == 1
    assert found["accel_run_result", "ACCEPTED"] == 0
    assert found["accel_run_exit_status",] == 1
    assert found["accel_run_devices",] == found["accel_run_devices_expected",] == 8
    slow = next(each for each in failing(faulty) if each.metric.startswith("stream"))
    assert found["accel_value_bytes_per_second", "gpu1", slow.metric] == pytest.approx(1e9 * float(slow.value or 0))
    assert found["accel_floor_bytes_per_second", "gpu1", slow.metric] == pytest.approx(1e9 * float(slow.floor or 0))
    assert found["accel_margin_ratio", "gpu1", slow.metric] == slow.margin
    assert found["accel_finding_verdicts", "investigate", "A208", "gpu1", "memory-slow", "error"] >= 1
    statuses = [found["accel_run_verdicts", each.value] for each in Status]
    assert sum(statuses) == len(faulty.verdicts)
    first = faulty.devices[0]
    assert found["accel_device_info", "gpu0", first.model, str(first.serial), first.uuid] == 1


def test_of_two_limits_on_a_metric_prometheus_has_the_one_that_fails(faulty: Run) -> None:
    slow = next(each for each in failing(faulty) if each.metric.startswith("stream"))
    held = replace(slow, status=Status.PASS, floor=1.0, margin=9.0, limit=None)
    found = samples(replace(faulty, verdicts=[held, *faulty.verdicts]))
    assert found["accel_margin_ratio", "gpu1", slow.metric] == slow.margin


def test_prometheus_keeps_labels_few(faulty: Run) -> None:
    """UUID and serial number only to join by, and nothing that changes with every run."""
    families = list(text_string_to_metric_families(prometheus.text(faulty)))
    labels = {family.name: {name for each in family.samples for name in each.labels} for family in families}
    assert {"uuid", "serial"} <= labels.pop("accel_device_info")
    assert "host" in labels.pop("accel_run_info")
    assert set().union(*labels.values()) == {
        "device", "metric", "status", "result", "code", "name", "severity", "action",
    }  # fmt: skip
    assert sum(len(family.samples) for family in families) < 1000


def test_every_metric_is_explained(faulty: Run) -> None:
    """By its help, and on the page of the exports."""
    page = (CHECKOUT / "docs/record.md").read_text(encoding="utf-8")
    units = {unit for unit, _ in prometheus.UNITS.values()}
    for name in prometheus.METRICS:
        assert f"`{name}`" in page
    for unit in units:
        assert f"`_{unit}`" in page
    for family in text_string_to_metric_families(prometheus.text(faulty)):
        assert family.documentation


def test_hostile_text_stays_text_in_prometheus(hostile: Run) -> None:
    found = samples(hostile)
    assert found["accel_run_exit_status",] == 1
    host = hostile.run["host"]
    shown = printable(host, 200)
    assert ("accel_run_info", shown, shown, shown, "false", shown, shown) in found


def test_numbers_that_are_not_finite_are_left_out() -> None:
    verdicts = [
        Verdict("stream.copy", NODE, Status.FAIL, unit="GB/s", value=math.nan, margin=math.nan),
        Verdict("soak.throttle.hw_thermal", NODE, Status.FAIL, unit="s", value=2.0, ceiling=0.0, margin=-math.inf),
    ]
    found = samples(replace(exported.unended(), verdicts=verdicts))
    assert found["accel_value_seconds", NODE, "soak.throttle.hw_thermal"] == 2.0
    assert not [key for key in found if key[0] == "accel_margin_ratio"]
    assert not [key for key in found if "stream.copy" in key]
