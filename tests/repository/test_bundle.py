"""What a node without a network gets: one file, and an installer that fetches nothing."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

# The interpreter below every environment, which has no torch where ours came from constraints.txt.
BASE = Path(sys.base_prefix, "bin", f"python{PYTHON}")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="bundles are for Linux nodes"),
]


def test_bundle_installs_without_a_network(bundle: Path, tmp_path: Path) -> None:
    """An environment made from the bundle alone has a pytest that knows our options."""
    done = install(bundle, BASE, "--without-torch", "--venv", tmp_path / "venv")
    found = on_node(tmp_path / "venv" / "bin" / "pytest", "--help")

    assert done.returncode == 0, done.stderr
    assert "--accel-sku" in found.stdout
    assert f"{tmp_path}/venv/bin/pytest --accel-sku=auto" in done.stdout


def test_bundle_sees_the_torch_of_the_node(bundle: Path, tmp_path: Path) -> None:
    """An environment made from the bundle has the torch of the interpreter that it was made with."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        pytest.skip("torch is not installed")

    done = install(bundle, Path(sys.executable), "--venv", tmp_path / "venv")
    found = on_node(tmp_path / "venv" / "bin" / "python", "-c", "import torch; print(torch.__file__)")

    assert done.returncode == 0, done.stderr
    assert torch.origin == found.stdout.strip()


def test_installer_wants_torch(bundle: Path, tmp_path: Path) -> None:
    """Where the interpreter has no torch, the installer says so, says what to do, and makes nothing."""
    if not subprocess.run([BASE, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"{BASE} has torch")

    done = install(bundle, BASE, "--venv", tmp_path / "venv")

    assert done.returncode == 4
    assert "cannot import torch" in done.stderr
    assert "--without-torch" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_installer_wants_its_python(bundle: Path, tmp_path: Path) -> None:
    """An interpreter of another version is refused, with both versions and the way out."""
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho 3.99\n")
    other.chmod(0o755)

    done = install(bundle, other, "--venv", tmp_path / "venv")

    assert done.returncode == 4
    assert "is Python 3.99" in done.stderr
    assert f"is for Python {PYTHON}" in done.stderr
    assert "scripts/bundle.sh --python 3.99" in done.stderr


def test_installer_wants_whole_files(bundle: Path, tmp_path: Path) -> None:
    """A bundle that was damaged on its way is refused, and the file is named."""
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    with (copy / "bundle.conf").open("a") as conf:
        conf.write("\n")

    done = install(copy, BASE, "--venv", tmp_path / "venv")

    assert done.returncode == 3
    assert "bundle.conf: FAILED" in done.stderr


@pytest.mark.nightly
def test_a_session_needs_the_bundle_and_torch_alone(session: Path, tmp_path: Path) -> None:
    """One command, in a folder of its own: our wheel and not the checkout, and the tools that were packed."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    where = "import pytest_accel; print(pytest_accel.__file__)"

    done = on_node(
        "sh", session / "run.sh", "--cpu", "--minutes", "3", "--steps", "V8", "nvbandwidth", "gpu-burn", "--", tmp_path,
        PYTHON=sys.executable,
    )  # fmt: skip
    found = on_node(session / "venv" / "bin" / "python", "-I", "-c", where).stdout

    assert done.returncode == 0, done.stdout + done.stderr
    assert Path(found.strip()).is_relative_to(session / "venv")
    assert re.search(r"^\| V8 .*wrong elements 0, wrong with K permuted 0", done.stdout, re.MULTILINE)
    assert "nvbandwidth: ended with 0" in done.stdout
    assert "gpu-burn: NOT RUN: there is no gpu_burn among the builds" in done.stdout
    with tarfile.open(tmp_path / "session.tar.gz") as results:
        assert {"session/session.md", "session/session.json", "session/V8.log"} <= set(results.getnames())


def test_a_session_names_the_interpreters_that_it_tried(session: Path, tmp_path: Path) -> None:
    """Where none has torch and the version of the bundle, with what each of them said."""
    other = tmp_path / "python9"
    other.write_text("#!/bin/sh\necho 3.99\n")
    other.chmod(0o755)

    done = on_node("sh", session / "run.sh", PYTHON=f"{other} {tmp_path}/nowhere")

    assert done.returncode == 4
    assert f"no interpreter here is Python {PYTHON} and has torch" in done.stderr
    assert f"{other} (3.99): this archive is for {PYTHON}" in done.stderr


@pytest.mark.parametrize(
    ("python", "missing"),
    [
        ("3.10", {"exceptiongroup", "tomli", "typing-extensions"}),
        ("3.12", set()),
    ],
)
def test_markers_are_read_as_on_the_node(tmp_path: Path, python: str, missing: set[str]) -> None:
    """What is needed on the node's Python alone is noticed, whichever Python makes the bundle."""
    pytest_needs = [
        'exceptiongroup>=1; python_version < "3.11"',
        'tomli>=2; python_version < "3.11"',
        "iniconfig>=2",
        'colorama; sys_platform == "win32"',
        'mock; extra == "dev"',
    ]
    fake_wheel(tmp_path, "pip", [])
    fake_wheel(tmp_path, "pytest-accel", ["pytest>=9.0", "packaging"])
    fake_wheel(tmp_path, "pytest", pytest_needs)
    fake_wheel(tmp_path, "iniconfig", ['typing-extensions>=4; python_version < "3.11"'])
    fake_wheel(tmp_path, "reached-by-none", [])
    fake_wheel(tmp_path, "packaging", [])

    script = str(CHECKOUT / "scripts" / "unmet.py")
    command = [sys.executable, script, str(tmp_path), python, "x86_64"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert missing == {line.split(">")[0] for line in out.split()}
    assert bool(missing) == (tmp_path / "reached_by_none-1.0-py3-none-any.whl").exists()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for the Python that runs this, unpacked."""
    return unpacked(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with a session, and with a folder of tools of others, unpacked."""
    root = tmp_path_factory.mktemp("session")
    (root / "builds").mkdir()
    (root / "builds" / "nvbandwidth").write_text("#!/bin/sh\nexit 1\n")
    return unpacked(root, "--session", "--peers", str(root / "builds"))


def unpacked(root: Path, *options: str) -> Path:
    """Make a bundle and unpack it."""
    script = str(CHECKOUT / "scripts" / "bundle.sh")
    command = [script, "--python", PYTHON, "--output", str(root / "bundle.tar.gz"), *options]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == os.EX_UNAVAILABLE and os.environ.get("CI") != "true":
        pytest.skip("a bundle is made of downloaded wheels, and no package index can be reached")
    assert done.returncode == 0, done.stderr
    subprocess.run(["tar", "-xzf", "bundle.tar.gz"], cwd=root, check=True)
    (found,) = root.glob("pytest-accel-*")
    return found


def install(bundle: Path, python: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the bundle's installer as on a node."""
    return on_node(bundle / "install.sh", "--python", python, *options)


def on_node(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command without a package index, and without a network where that can be arranged."""
    environment = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "PIP_INDEX_URL": "file:///nowhere", **more}
    words: list[str | Path] = [*without_network(), *command]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@functools.cache
def without_network() -> list[str]:
    """Return what to put before a command so that it has no network, if this user may do that."""
    if shutil.which("unshare"):
        for options in (["--net"], ["--net", "--map-root-user"]):
            tried = ["unshare", *options]
            if not subprocess.run([*tried, "true"], capture_output=True, check=False).returncode:
                return tried
    return []


def fake_wheel(directory: Path, name: str, needs: list[str]) -> None:
    """Write as much of a wheel as tells what it needs."""
    metadata = "".join(f"Requires-Dist: {need}\n" for need in needs)
    base = f"{name.replace('-', '_')}-1.0"
    with zipfile.ZipFile(directory / f"{base}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{base}.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n{metadata}\n")
