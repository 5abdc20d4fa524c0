"""What is published: the source distribution and the wheel that is built from it."""

import json
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.wheels import CHECKOUT, build, environment, only, run

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with what `python -m build` makes of this checkout, from a copy of it."""
    return build(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel, and with our dependencies but not the checkout."""
    return environment(tmp_path_factory.mktemp("wheel") / "venv", only(dist, "*.whl"))


def test_wheel_has_thresholds(dist: Path) -> None:
    """Every threshold file of the checkout is inside the package, with their changelog."""
    shipped = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "thresholds").rglob("*") if path.is_file()}
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel, tarfile.open(only(dist, "*.tar.gz")) as source:
        in_wheel, in_source = wheel.namelist(), source.getnames()

    assert {"thresholds/CHANGELOG.md", "thresholds/vendor/nvidia.yaml"} <= shipped
    inside = {name.removeprefix("pytest_accel/") for name in in_wheel if name.startswith("pytest_accel/thresholds/")}
    assert shipped == inside
    assert shipped <= {name.partition("/")[2] for name in in_source}


def test_wheel_has_the_schemas_and_the_files_for_monitoring(dist: Path) -> None:
    """At the paths that the documentation names."""
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        assert {f"pytest_accel/views/exports/{name}" for name in ("alerts.yaml", "dashboard.json")} <= {
            *wheel.namelist()
        }
        for name in ("skus/threshold-file.schema.json", "run/record.schema.json"):
            assert "$schema" in json.loads(wheel.read(f"pytest_accel/{name}"))


def test_wheel_has_the_tables_beside_the_modules(dist: Path) -> None:
    """The modules read them when they are imported."""
    tables = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "pytest_accel").rglob("*.yaml")}
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        inside = wheel.namelist()

    assert {f"pytest_accel/core/{name}.yaml" for name in ("device_facts", "fact_metrics", "fault_codes")} <= tables
    assert tables <= set(inside)


def test_wheel_has_the_parts_of_the_html_report(dist: Path) -> None:
    """Templates, styles and scripts are inside, and the licence of the library that draws the plots."""
    folder = CHECKOUT / "pytest_accel/views/html"
    parts = [*(folder / "templates").iterdir(), *(folder / "assets").iterdir()]
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        inside = wheel.namelist()

    assert {str(path.relative_to(CHECKOUT)) for path in parts} <= set(inside)
    assert [name for name in inside if name.endswith("uPlot-LICENSE.txt") and ".dist-info/licenses/" in name]


def test_wheel_has_only_the_package(dist: Path) -> None:
    """Nothing else lands in site-packages: no tests, no top-level thresholds."""
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}

    assert {"pytest_accel"} == {top for top in tops if not top.endswith(".dist-info")}


def test_wheel_is_what_is_imported(installed: Path, tmp_path: Path) -> None:
    """The environment of these tests has the wheel's copy, so the tests after it speak of the wheel."""
    found = run([installed / "python", "-c", "import pytest_accel; print(pytest_accel.__file__)"], cwd=tmp_path)

    assert Path(found.strip()).is_relative_to(installed.parent)


def test_wheel_adds_the_plugin(installed: Path, tmp_path: Path) -> None:
    """With the wheel installed, pytest has our options without being told anything."""
    assert "--accel-sku" in run([installed / "python", "-m", "pytest", "--help"], cwd=tmp_path)


def test_wheel_has_the_suite(installed: Path, tmp_path: Path) -> None:
    """From an empty directory, naming a SKU is enough to collect the packaged suite."""
    out = run([installed / "python", "-m", "pytest", "--accel-sku=auto", "--collect-only", "-q"], cwd=tmp_path)

    assert "test_" in out
    assert "::" in out
