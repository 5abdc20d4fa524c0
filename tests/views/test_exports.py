"""A record in Markdown: what a reader sees is what the record says, and outside text stays text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace

import exported
import pytest
from exported import HOSTILE
from markdown_it import MarkdownIt
from markdown_it.token import Token
from worded import worded

from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.views.exports import markdown
from pytest_accel.views.markdown import code, escaped


@pytest.fixture(scope="module")
def faulty() -> Run:
    return exported.faulty()


@pytest.fixture(params=HOSTILE, ids=[str(place) for place in range(len(HOSTILE))])
def hostile(request: pytest.FixtureRequest) -> Run:
    return exported.hostile(request.param)


def failing(record: Run) -> list[Verdict]:
    return [each for each in record.verdicts if each.fails]


def test_no_control_characters_come_through(hostile: Run) -> None:
    """Neither an escape sequence for a terminal nor a byte that no parser takes."""
    text = markdown.text(hostile)
    assert not [each for each in text if not each.isprintable() and each != "\n"]
    text.encode("utf-8")


def test_a_run_that_did_not_end_is_exported() -> None:
    assert "The run did not end" in markdown.text(exported.unended())


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
