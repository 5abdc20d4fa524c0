"""What is published: the source distribution and the wheel that is built from it."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parent.parent
NOT_SOURCE = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with what `python -m build` makes of this checkout, from a copy of it."""
    copy = tmp_path_factory.mktemp("build") / "checkout"
    shutil.copytree(CHECKOUT, copy, ignore=NOT_SOURCE)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"], cwd=copy)
    return copy / "dist"


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel, and with our dependencies but not the checkout."""
    root = tmp_path_factory.mktemp("wheel") / "venv"
    venv.create(root, symlinks=True, with_pip=True)
    python = root / "bin" / "python"
    run([python, "-m", "pip", "install", "--no-deps", "--no-index", only(dist, "*.whl")], cwd=root)
    # Directories that a .pth file names are searched, but the .pth files in them, an editable
    # install's among them, are not read.
    borrowed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    site = only(root, "lib/python*/site-packages")
    (site / "borrowed.pth").write_text("\n".join(borrowed))
    return root / "bin"


def test_wheel_has_thresholds(dist: Path) -> None:
    """Every threshold file of the checkout is inside the package, with their version and changelog."""
    shipped = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "thresholds").rglob("*") if path.is_file()}
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel, tarfile.open(only(dist, "*.tar.gz")) as source:
        in_wheel, in_source = wheel.namelist(), source.getnames()

    assert {"thresholds/VERSION", "thresholds/CHANGELOG.md", "thresholds/vendor/nvidia.yaml"} <= shipped
    inside = {name.removeprefix("pytest_accel/") for name in in_wheel if name.startswith("pytest_accel/thresholds/")}
    assert shipped == inside
    assert shipped <= {name.partition("/")[2] for name in in_source}


@pytest.mark.parametrize("name", ["thresholds", "record"])
def test_wheel_has_the_schemas(installed: Path, tmp_path: Path, name: str) -> None:
    """The command prints a JSON Schema."""
    assert "$schema" in json.loads(run([installed / "pytest-accel", "schema", name], cwd=tmp_path))


def test_wheel_has_the_version_of_its_thresholds(installed: Path, tmp_path: Path) -> None:
    version = (CHECKOUT / "thresholds/VERSION").read_text(encoding="utf-8").split()[0]
    assert run([installed / "pytest-accel", "--version"], cwd=tmp_path).endswith(f", thresholds {version}\n")
    assert run([installed / "pytest-accel", "sku", "list"], cwd=tmp_path).endswith(f"\nthresholds {version}\n")


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


def test_wheel_adds_the_command(installed: Path, tmp_path: Path) -> None:
    """With the wheel installed, there is a `pytest-accel` command."""
    assert run([installed / "pytest-accel", "--help"], cwd=tmp_path)


def test_wheel_has_the_suite(installed: Path, tmp_path: Path) -> None:
    """From an empty directory, naming a SKU is enough to collect the packaged suite."""
    out = run([installed / "python", "-m", "pytest", "--accel-sku=auto", "--collect-only", "-q"], cwd=tmp_path)

    assert "test_" in out
    assert "::" in out


def only(directory: Path, pattern: str) -> Path:
    """Return the one path that matches."""
    (path,) = directory.glob(pattern)
    return path


def run(command: Sequence[str | Path], cwd: Path) -> str:
    """Run a command that knows nothing of this run's surroundings; return what it printed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "COV"))}
    done = subprocess.run(command, cwd=cwd, env=inherited, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
