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


def test_the_matrix_has_every_python_that_is_claimed(described: Message, jobs: Any) -> None:
    assert jobs["tests"]["strategy"]["matrix"]["python"] == pythons(described)


def test_the_lower_bounds_are_tested_together(described: Message, jobs: Any, bounds: dict[str, str]) -> None:
    job = jobs["lowest"]
    pinned = {
        need.name: str(need.specifier).removeprefix("==") for need in map(Requirement, job["env"]["LOWEST"].split())
    }
    assert pinned.keys() == bounds.keys()
    assert all(same(bounds[name], version) for name, version in pinned.items())
    (python,) = [step["with"]["python-version"] for step in job["steps"] if "python-version" in step.get("with", {})]
    assert python == pythons(described)[0]


def test_what_is_run_exists(jobs: Any) -> None:
    """The targets of make that CI names, and both halves of the tests in every job that runs any."""
    rules = re.findall(r"^([\w -]+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    for name, job in jobs.items():
        lines = [step["run"] for step in job["steps"] if "run" in step]
        assert {line.split()[1] for line in lines if line.startswith("make ")} <= targets, name
        selected = {line.partition(" -m ")[2].strip('"') for line in lines if line.startswith("$PYTEST")}
        speed = "slow" if name == "slow" else "not slow"
        alone, beside = f"{speed} and devices", f"{speed} and not nightly and not devices and not cuda_build"
        night = {f"nightly and {which}devices and not cuda_build" for which in ("", "not ")}
        assert selected - night in (set(), {alone, beside}), name
