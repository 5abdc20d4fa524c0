"""README and the pages in docs/: links that lead somewhere, and pages that do what they say."""

from __future__ import annotations

import ast
import io
import pkgutil
import re
import shutil
import subprocess
import sys
import tokenize
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support import as_user, pages, wheels
from support.rows import each_row

from pytest_accel import probes
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.reasons import Note
from pytest_accel.core.sku_types import ClassFloor, Limit
from pytest_accel.core.verdict import Status
from pytest_accel.core.yaml_nodes import Located, Mistakes
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.probes.declare import declarations
from pytest_accel.skus import schema
from pytest_accel.skus.waivers import waivable

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
PACKAGE = CHECKOUT / "pytest_accel"
HELPERS = [CHECKOUT / name for name in ("tests", "scripts", "benchmarks")]
PAGES = sorted(
    page for folder in (".", "docs", "benchmarks", "thresholds") for page in (CHECKOUT / folder).glob("*.md")
)
EXTENDING = DOCS / "architecture.md"  # a probe in a checkout; test_third_party_driver.py follows the other chapter
FOLLOWED = [page for page in PAGES if any(block.language == "console" for block in pages.blocks(page))]
"""Pages with commands that a reader is told to type."""
ELSEWHERE = [page for page in FOLLOWED if page != EXTENDING]
"""Those whose commands are typed in any folder."""
AT_NIGHT = {DOCS / f"{name}.md" for name in ("fleet", "own-tests", "record", "thresholds")}
"""Those that are followed every night only: half a minute or more each."""
_OWN = as_user.environment({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_accel.plugin"})
ENVIRONMENT = {**_OWN, "PATH": f"{as_user.BIN}:{_OWN['PATH']}"}
"""An environment that has no plugin but ours."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


def test_the_readme_lists_every_page() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    linked = {link.partition("#")[0] for link in LINK.findall(readme)}
    assert {name_of(page) for page in DOCS.glob("*.md")} <= linked


@pytest.mark.nightly
def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    """A warning would be a link, or an anchor, that leads nowhere."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-E", "-c", str(DOCS), str(CHECKOUT), str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert 'href="docs/status.html"' in (tmp_path / "README.html").read_text(encoding="utf-8")


def test_the_job_of_the_page_and_the_containerfile_agree_on_the_user() -> None:
    (text,) = [block.text for block in pages.blocks(DOCS / "fleet.md") if "kind: Job" in block.text]
    pod = yaml.safe_load(text)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    file, user = (CHECKOUT / "scripts/Containerfile").read_text(encoding="utf-8"), pod["securityContext"]["runAsUser"]
    assert f"\nUSER {user}:{user}\n" in file


@pytest.mark.nightly
@pytest.mark.parametrize(
    "page",
    [pytest.param(each, marks=[pytest.mark.nightly] * (each in AT_NIGHT), id=name_of(each)) for each in ELSEWHERE],
)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """The commands run in a folder with nothing but the files that the page has one save."""
    pages.follow(page, tmp_path, ENVIRONMENT)


@pytest.mark.nightly
@pytest.mark.devices
def test_a_probe_is_added_to_a_checkout_as_the_page_says(tmp_path: Path) -> None:
    """The commands run in a copy of the repository, whose package is imported."""
    as_user.check_serial()
    copy = tmp_path / "checkout"
    shutil.copytree(CHECKOUT, copy, ignore=wheels.NOT_SOURCE)
    plugins = "pytest_accel.plugin,pytest_benchmark.plugin"  # tests/pytest.ini has an option of pytest-benchmark
    environment = {**ENVIRONMENT, "PYTHONPATH": str(copy), "PYTEST_PLUGINS": plugins}
    pages.follow(pages.chapter(EXTENDING, "A packaged probe", tmp_path), copy, environment)


REFERENCE = (DOCS / "thresholds.md").read_text(encoding="utf-8").partition("\n## Reference\n")[2]
SECTIONS = {
    heading.strip("`"): set(re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))))
    for heading, text in re.findall(r"^### (.+)\n((?:(?!### ).*\n)*)", REFERENCE, re.MULTILINE)
}
"""The keys of each section of the reference, by its heading."""
PLACES = {"The file": "", "source": "datasheet.source"}
"""Where in a threshold file a section's keys stand, if its heading does not say it."""


def known(place: str) -> set[str]:
    """Return the keys that a threshold file may have at a place, as the refusal of another key lists them.

    Where any key may stand, or none, there are none.
    """
    value = Located({"surely-unknown": Located(1, "x.yaml", 1)}, "x.yaml", 1)
    for name in reversed(place.split(".") if place else []):
        listed = Located([value], "x.yaml", 1) if name.endswith("[]") else value
        value = Located({name.removesuffix("[]"): listed}, "x.yaml", 1)
    mistakes = Mistakes()
    schema.SKU(value, "", mistakes)
    return {
        key
        for line in map(str, mistakes.errors)
        if "unknown key" in line and "surely-unknown'" in line
        for key in line.partition("known: ")[2].rstrip(")").split(", ")
    }


def test_the_reference_has_every_key_of_a_threshold_file() -> None:
    assert all(SECTIONS.values())
    assert {section: known(PLACES.get(section, section)) for section in SECTIONS} == SECTIONS
    assert SECTIONS["budgets"] == set(LEVELS)


def test_the_picture_is_of_a_simulated_node_and_needs_nothing_else() -> None:
    picture = (DOCS / "terminal.svg").read_text(encoding="utf-8")
    shown = "".join(ET.fromstring(picture).itertext()).replace("\xa0", " ")  # noqa: S314
    assert "SIMULATED REJECTED gpu3" in shown
    assert re.search(r"HW\s*thermal\s*\d+%", shown), "the cause, which the caption promises"
    assert re.search(r"next: gpu3 \(.*?\) A401 hw-thermal", shown)
    assert not re.search(r"""(href|src)=|url\((?!["']?#)""", picture), "an image on a web page may load nothing else"


ROOMS = "|".join(sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()))
NAMING = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""Pages about the code as it is, and not as it was."""


def source(name: str) -> Path | None:
    """Return the file that a page names by its path from the checkout or from the package, or None."""
    return next((path for path in (CHECKOUT / name, PACKAGE / name) if path.is_file()), None)


def defines(path: Path, name: str) -> bool:
    """Return whether a module defines a function, class, method or constant of this name."""
    text = path.read_text(encoding="utf-8")
    return bool(re.search(rf"^\s*(?:(?:def|class) {name}\b|{name}\b[^=\n]*=)", text, re.MULTILINE))


def missing(name: str) -> bool:
    """Return whether a dotted name of the package leads nowhere."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return True
    return False


def test_the_modules_that_a_page_names_exist() -> None:
    wrong = []
    for page in NAMING:
        text, saved = page.read_text(encoding="utf-8"), {block.file for block in pages.blocks(page)}
        inline = set(re.findall(r"`([\w./-]+/[\w./-]*\.py)`", text)) - saved
        drawn = set(re.findall(rf"(?<![\w/])(?:{ROOMS})/[\w/]+\.py\b", text)) - saved
        wrong += [f"{name_of(page)}: {name}" for name in sorted(inline | drawn) if source(name) is None]
    assert wrong == []


def test_the_pages_that_the_code_names_exist() -> None:
    """In messages, options, schemas and threshold files."""
    folders, kinds = (PACKAGE, CHECKOUT / "thresholds", CHECKOUT / "scripts"), (".py", ".yaml", ".json", ".sh", ".j2")
    files = [path for folder in folders for path in folder.rglob("*.*") if path.suffix in kinds]
    named = {(path, page) for path in files for page in re.findall(r"docs/[\w-]+\.md", path.read_text("utf-8"))}
    assert [f"{name_of(path)}: {page}" for path, page in named if not (CHECKOUT / page).is_file()] == []


NOT_OURS = {
    "compute/accelerator/benchmarks/mamf-finder.py": "of another repository",
    "random.py": "a file of a user's that would replace a library",
    "pynvml.py": "likewise",
    "test_relu.py": "a user's test file",
    "test_a.py": "likewise",
}
"""Files that a docstring or a comment of the package names and that are not in the checkout, with the reason."""


def prose(path: Path) -> str:
    """Return the docstrings and the comments of a module."""
    text = path.read_text(encoding="utf-8")
    nodes = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    docstrings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*docstrings, *(token.string for token in tokens if token.type == tokenize.COMMENT)])


def test_the_modules_that_docstrings_and_comments_name_exist() -> None:
    """In the forms name.py, folder/name.py, and `room.module.NAME`, which may begin with the package."""
    paths = [f"/{name_of(path)}" for room in (PACKAGE, *HELPERS) for path in room.rglob("*.py")]
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = prose(path)
        files = set(re.findall(r"(?:[\w-]+/)*[\w-]+\.py\b", text)) - NOT_OURS.keys()
        wrong += [f"{name_of(path)}: {file}" for file in files if not any(each.endswith(f"/{file}") for each in paths)]
        dotted = re.findall(rf"`(?:pytest_accel\.)?((?:{ROOMS})(?:\.\w+)+)`", text)
        wrong += [f"{name_of(path)}: {name}" for name in dotted if missing(f"pytest_accel.{name}")]
    assert wrong == []


def test_the_names_that_a_page_says_a_module_has_exist() -> None:
    """In the forms `pytest_accel.module.NAME`, and `path/module.py` (`NAME`, `NAME`)."""
    wrong = []
    for page in NAMING:
        text = page.read_text(encoding="utf-8")
        wrong += [name for name in re.findall(r"`(pytest_accel(?:\.\w+)+)`", text) if missing(name)]
        for path, names in re.findall(r"`([\w./-]+\.py)`\s\(((?:`\w+`(?:, )?)+)\)", text):
            file = source(path)
            wrong += [f"{path}: {name}" for name in re.findall(r"\w+", names) if not (file and defines(file, name))]
    assert wrong == []


def test_the_packaged_probes_are_listed() -> None:
    page = (DOCS / "own-tests.md").read_text(encoding="utf-8")
    listed = page.partition("\n## Probes\n\n")[2].partition("\n\n")[0]
    measuring = {each.name for each in declarations() if each.packaged and not each.fact}
    assert set(re.findall(r"`(\w+)`", listed)) == measuring <= set(probes.__all__)


HEALTHY = (DOCS / "checks.md").read_text(encoding="utf-8").partition("\n## What a healthy device may show\n")[2]
HEALTHY = HEALTHY.partition("\n## ")[0]
ROWS = [[cell.strip() for cell in row] for row in re.findall(r"^\|" + r"([^|]+)\|" * 5 + "$", HEALTHY, re.MULTILINE)]


def test_what_a_healthy_device_may_show_is_said_of_every_check_of_data() -> None:
    """Each row says who states it, what the check was held against, and the verdict on anything else."""
    listed = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[0])}
    checked = {each.name for each in declarations() if each.packaged and each.verifies}
    assert checked - listed == set()
    statuses = "|".join(status.value for status in Status)
    assert [row[0] for row in ROWS[2:] if not (all(row) and re.search(rf"\b({statuses}|limit)\b", row[4]))] == []


HOLDS = Measurement("stream.copy", "GPU-1", "GB/s", value=150.0)
BREAKS = replace(HOLDS, value=50.0)
FAILS = replace(HOLDS, value=None)
OUTCOMES = {
    "the limit holds": HOLDS,
    "it holds by less than 2 %": replace(HOLDS, value=101.0),
    "it holds, but something disturbed the measurement": replace(HOLDS, notes=(Note("disturbed", "pid 7"),)),
    "the software is outside of its range, and no class has a floor": BREAKS,
    "the class floor is broken with software older than its figures": BREAKS,
    "it is broken": BREAKS,
    "it is broken, and something disturbed the measurement": replace(BREAKS, notes=(Note("disturbed", "pid 7"),)),
    "something is missing: a library, a permission, memory": replace(FAILS, trouble=Trouble("need", "no memory")),
    "the value cannot be compared with the limit": replace(HOLDS, unit="ms"),
    "the device or the driver does not have it": replace(FAILS, trouble=Trouble("not_applicable", "no counter")),
    "the device failed: lost, hung, crashed, wrong result": replace(FAILS, trouble=Trouble("device", "it hung")),
}
"""Rows of the table of verdicts that one measurement decides, and that measurement."""
REQUIRED = Limit("stream.copy", "GB/s", floor=100.0)
CLASS = ClassFloor(100.0, 0.5, 0.6, 0.7, 0.85, ("us",), "row", "a peak", "classes.yaml:1", unit="GB/s")
KINDS = (REQUIRED, replace(REQUIRED, if_supported=True), replace(REQUIRED, warns=True), None)
"""A limit of each kind, in the order of the columns."""


@each_row("outcome", OUTCOMES)
def test_the_table_of_verdicts_is_true(outcome: str) -> None:
    page = (DOCS / "verdicts.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| {outcome} |"))
    *statuses, again, waived = [cell.strip() for cell in row.strip("|").split("|")][1:]
    measured = OUTCOMES[outcome]
    for limit, stated in zip(KINDS, statuses, strict=True):
        of_class = replace(CLASS, software={"torch": ">=99"}) if "class floor" in outcome else None
        of_range = limit and replace(limit, software={"torch": ">=99"} if "software" in outcome else {})
        of_range = of_range and replace(of_range, class_floor=of_class)
        attempts = RequestAttempts(software={"torch": "2.7"})
        attempts.add(measured)
        verdict = attempts.verdict_on("stream.copy", "GPU-1", of_range)
        assert stated == ("info" if verdict.information else verdict.status.value)
        assert bool(attempts.shortfalls("stream.copy", of_range)) == (stated in again)
        assert waivable(verdict) == (stated in waived)
