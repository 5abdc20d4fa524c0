"""The statements of pyproject.toml, and the files that must agree with them, such as the public CI file."""

from __future__ import annotations

import re
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from build.util import project_wheel_metadata
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import pytest_accel

CHECKOUT = Path(__file__).parents[2]
WORKFLOW = CHECKOUT / ".github/workflows/ci.yml"
HOME = "https://github.com/pytest-accel/pytest-accel"
RAW = "https://raw.githubusercontent.com/pytest-accel/pytest-accel"


@pytest.fixture(scope="module")
def described() -> Message:
    """The metadata that a wheel of this checkout would have."""
    return project_wheel_metadata(CHECKOUT, isolated=False)  # type: ignore[return-value]  # it is a Message, too


@pytest.fixture(scope="module")
def jobs() -> Any:
    """The jobs of the public CI file."""
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


@pytest.fixture(scope="module")
def bounds(described: Message) -> dict[str, str]:
    """The lowest version of each dependency that has a lower bound, those of the extra `torch` included."""
    needs = [Requirement(line) for line in described.get_all("Requires-Dist", [])]
    return {
        need.name: bound.version
        for need in needs
        for bound in need.specifier
        if bound.operator == ">=" and (need.marker is None or need.marker.evaluate({"extra": "torch"}))
    }


def pythons(described: Message) -> list[str]:
    """The versions of Python that the classifiers claim."""
    found = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line)
        for line in described.get_all("Classifier", [])
    ]
    return [each[1] for each in found if each]


def same(one: str, other: str) -> bool:
    """Return True for two spellings of one version: 9.0 and 9.0.0."""
    return SpecifierSet(f"=={one}").contains(other)


# -- metadata


def test_the_version_is_that_of_the_distribution() -> None:
    assert pytest_accel.__version__ == metadata.version("pytest-accel")


def test_every_dependency_has_a_lower_bound(described: Message, bounds: dict[str, str]) -> None:
    needs = [Requirement(line) for line in described.get_all("Requires-Dist", [])]
    assert {need.name for need in needs if need.marker is None} <= set(bounds)


def test_the_links_of_the_readme_work_on_a_package_index(described: Message) -> None:
    """An index shows the text alone: relative links would be dead, and the picture would be missing."""
    text = str(described.get_payload())
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert all(re.match("https?://|#", link) for link in links)
    version = described["Version"]
    assert f"{RAW}/v{version}/docs/terminal.svg" in links
    for link in links:
        if link.startswith((f"{HOME}/blob/v{version}/", f"{RAW}/v{version}/")):
            path = link.partition(f"/v{version}/")[2].partition("#")[0]
            assert (CHECKOUT / path).exists(), link


# -- the public CI file


def test_the_matrix_has_the_oldest_and_the_newest_python_that_is_claimed(described: Message, jobs: Any) -> None:
    versions = [entry["python"] for entry in jobs["tests"]["strategy"]["matrix"]["include"]]
    claimed = pythons(described)
    assert (versions[0], versions[-1]) == (claimed[0], claimed[-1])
    assert set(versions) <= set(claimed)


def test_the_lower_bounds_are_tested_together(jobs: Any, bounds: dict[str, str]) -> None:
    oldest, *others = jobs["tests"]["strategy"]["matrix"]["include"]
    needs = [Requirement(package) for package in oldest["packages"].split()]
    pinned = {need.name: str(need.specifier).removeprefix("==") for need in needs}
    assert pinned.keys() == bounds.keys()
    assert all(same(bounds[name], version) for name, version in pinned.items())
    assert not any("packages" in entry for entry in others)


def test_what_is_run_exists(jobs: Any) -> None:
    """The targets of make that CI names, import contracts among them, and both halves of the quick tests."""
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    targets = {target for rule in re.findall(r"^([\w -]+):", makefile, re.MULTILINE) for target in rule.split()}
    lines = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    named = {line.split()[1] for commands in lines.values() for line in commands if line.startswith("make ")}
    assert {"lint", "test-nightly"} <= named <= targets
    assert "lint-imports" in makefile.partition("\nlint:")[2].partition("\n\n")[0]
    selected = {line.partition(" -m ")[2].strip('"') for line in lines["tests"] if line.startswith("pytest")}
    assert selected == {"not nightly and not devices and not cuda_build", "not nightly and devices", "fault_kind"}
