"""The HTML report in a browser: it opens from the disk, its script works, hostile names do no harm, all can use it."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
from support import report_record
from support.report_record import record, saved

from pytest_accel.run.record import read
from pytest_accel.views.html import page

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(chromium.found() is None, reason=f"needs one of {', '.join(chromium.NAMES)} on PATH"),
]

ROWS = "[...document.querySelectorAll('#table-figures tbody tr:not([hidden])')]"
HEAD = "[...document.querySelectorAll('#table-figures th[data-sortable]')].find(each => each.textContent === {!r})"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    opened = chromium.Page(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a record with its readings."""
    folder = tmp_path_factory.mktemp("usual")
    path = saved(folder, record())
    (folder / "report.html").write_text(page.report(read(path), folder))
    return folder / "report.html"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a record with hostile text in every place."""
    folder = tmp_path_factory.mktemp("hostile")
    path = saved(folder, record())
    path.write_text(json.dumps(report_record.made_hostile(json.loads(path.read_text()))))
    (folder / "report.html").write_text(page.report(read(path), folder))
    return folder / "report.html"


@pytest.fixture
def opened(browser: chromium.Page, usual: Path) -> chromium.Page:
    browser.size(1280, 900)
    browser.open(usual)
    return browser


def test_it_opens_from_the_disk_without_network_and_errors(opened: chromium.Page, usual: Path) -> None:
    assert opened.requests() == [usual.as_uri()]
    assert opened.complaints() == []
    assert opened.evaluate("document.querySelectorAll('.canvas canvas').length") == opened.evaluate(
        "document.querySelectorAll('.canvas').length"
    )


def test_the_plots_are_drawn(opened: chromium.Page) -> None:
    """The line of the floor is red on every plot of blocks with a floor."""
    inked = """[...document.querySelectorAll('#blocks-0 canvas')].map(each => {
        const data = each.getContext('2d').getImageData(0, 0, each.width, each.height).data;
        let red = 0;
        for (let at = 0; at < data.length; at += 4)
            red += data[at] === 179 && data[at + 1] === 32 && data[at + 3] === 255;
        return red;
    })[0]"""
    assert opened.evaluate(inked) > 200


def test_a_click_on_a_column_sorts_by_its_numbers(opened: chromium.Page) -> None:
    head = HEAD.format("Margin")
    values = f"{ROWS}.map(row => row.cells[6].dataset.sort).filter(each => each !== undefined).map(Number)"
    opened.evaluate(f"{head}.querySelector('button').click()")
    rising = opened.evaluate(values)
    assert rising == sorted(rising)
    assert len(set(rising)) > 5
    assert opened.evaluate(f"{head}.getAttribute('aria-sort')") == "ascending"
    opened.evaluate(f"{head}.querySelector('button').click()")
    assert opened.evaluate(values) == rising[::-1]
    assert opened.evaluate(f"{ROWS}.at(-1).cells[6].dataset.sort ?? null") is None  # rows without a number stay last


def test_the_filters_narrow_the_table(opened: chromium.Page) -> None:
    form = "document.querySelector('[data-filters=table-figures]')"
    every = opened.evaluate(f"{ROWS}.length")

    def chosen(name: str, value: str) -> list[str]:
        change = "new Event('input', {bubbles: true})"
        opened.evaluate(f"{form}.elements.{name}.value = {value!r}; {form}.elements.{name}.dispatchEvent({change})")
        found: list[str] = opened.evaluate(f"{ROWS}.map(row => row.textContent)")
        assert opened.evaluate(f"{form}.querySelector('.shown').textContent") == f"{len(found)} of {every} rows"
        return found

    assert len(chosen("status", "FAIL")) == 1
    assert chosen("device", "gpu0") == []
    assert all("gpu0" in each for each in chosen("status", ""))
    (only,) = chosen("text", "FOREIGN host_copy")
    assert "a foreign process took 40% of the time" in only


def test_the_pair_is_told_when_a_cell_is_pointed_at(opened: chromium.Page) -> None:
    told = "document.getElementById('tip').hidden ? null : document.getElementById('tip').textContent"
    opened.evaluate("document.querySelector('.heat [data-tip]').scrollIntoView({block: 'center'})")
    place = opened.evaluate(
        "(() => { const at = document.querySelector('.heat [data-tip]').getBoundingClientRect();"
        "return [at.x + at.width / 2, at.y + at.height / 2]; })()"
    )
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    assert "of the fastest pairs" in opened.evaluate(told)


def test_a_phone_does_not_scroll_sideways(opened: chromium.Page) -> None:
    opened.size(390, 844)
    opened.evaluate("new Promise(done => setTimeout(done, 200))")
    assert opened.evaluate("document.documentElement.scrollWidth") == 390


def test_it_prints_with_everything_open(opened: chromium.Page) -> None:
    assert opened.printed().startswith(b"%PDF")
    heads = "[...document.querySelectorAll('#table-figures th[data-label]')].map(each => each.dataset.label)"
    assert opened.evaluate(heads)[:3] == ["Status", "Device", "Metric"]  # a button is not printed on a second sheet
    assert opened.evaluate("document.querySelectorAll('details[open]').length") == 0  # closed again


def test_hostile_names_do_no_harm(browser: chromium.Page, hostile: Path) -> None:
    browser.open(hostile)
    assert browser.complaints() == []
    assert browser.requests() == [hostile.as_uri()]
    assert browser.evaluate("document.title") != "owned"
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.querySelectorAll('.uplot').length") > 3
    browser.evaluate("document.querySelector('[data-tip]').focus()")
    assert browser.evaluate("document.getElementById('tip').children.length") == 0


@pytest.mark.parametrize(
    ("of", "look"), [("usual", "light"), ("usual", "dark"), ("usual", "phone"), ("hostile", "light")]
)
def test_axe_finds_nothing_serious(browser: chromium.Page, of: str, look: str, request: pytest.FixtureRequest) -> None:
    browser.size(*((390, 844) if look == "phone" else (1280, 900)))
    browser.dark(look == "dark")
    browser.open(request.getfixturevalue(of))
    axe = importlib.resources.files("axe_core_python") / "axe.min.js"
    browser.evaluate(f"{axe.read_text(encoding='utf-8')}; null")
    found = browser.evaluate(
        "axe.run().then(found => found.violations.map(each => [each.impact, each.id, each.nodes[0].html]))"
    )
    assert [each for each in found if each[0] not in (None, "minor")] == []
