"""What a run loads that is no installed package is named by the line of an acceptance, and in full by its record."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import as_user

GOOD = "sku: h100-sxm\nplatform: single\n"
OBJECT = "class Ours: ...\ndef pytest_configure(config):\n    config.pluginmanager.register(Ours())\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a healthy simulated node."""
    (tmp_path / "good.yaml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def accepted(place: Path, *words: str, **more: Any) -> as_user.Ran:
    output = as_user.fresh(place)
    asked = ["--accel-simulate=good.yaml", "--accel-level=quick", f"--accel-output={output}", *words]
    ran = as_user.pytest(place, *asked, sku=None, paths=(), output=output, **more)
    assert (ran.exit, ran.closing.startswith("SIMULATED ACCEPTED ")) == (0, True), ran.out
    return ran


@pytest.mark.nightly
def test_an_acceptance_names_what_it_loaded_and_a_record_that_is_judged_anew_too(place: Path) -> None:
    files = {
        "conftest.py": OBJECT,
        "mine.py": OBJECT,
        "theirs.py": "pytest_plugins = ['mine']",
        "pytest.ini": "[pytest]\naddopts = -p theirs\npythonpath = .\n",
    }
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")
    env = {"PYTHONPATH": str(place), "PYTEST_ADDOPTS": "-p pytest_timeout", "LD_PRELOAD": "libc.so.6"}
    ran = accepted(place, env=env)

    names = "LD_PRELOAD, PYTHONPATH, PYTEST_ADDOPTS, addopts of pytest.ini, pythonpath of pytest.ini"
    assert ran.closing.endswith(f"; with {names}, plugin theirs, plugin mine, conftest.py)")
    assert ran.record["info"]["loaded"] == [
        "LD_PRELOAD=libc.so.6",
        f"PYTHONPATH={place}",
        "PYTEST_ADDOPTS=-p pytest_timeout",
        f"addopts of {place}/pytest.ini: -p theirs",
        f"pythonpath of {place}/pytest.ini: {place}",
        f"plugin theirs of {place}",
        f"plugin mine of {place}",
        f"conftest.py of {place}",
    ]
    line = [str(as_user.BIN / "pytest-accel"), "judge", str(ran.folder)]
    again = subprocess.run(line, capture_output=True, text=True, check=False)
    assert f"JUDGED AGAIN {ran.closing}\n" in again.stdout, again.stdout


@pytest.mark.nightly
def test_installed_plugins_and_the_package_itself_are_not_named(place: Path) -> None:
    """Our checkout has a conftest.py, which pytest reads beside the packaged suite."""
    ran = accepted(place, "-p", "pytest_timeout", "-p", "xdist.plugin")

    assert (" with " in ran.closing, "loaded" in ran.record["info"]) == (False, False)
    assert " with " not in accepted(place, autoload=True).closing


@pytest.mark.nightly
def test_a_plugin_that_is_installed_in_a_folder_of_its_own_is_named(place: Path) -> None:
    """Whoever can write into a folder that Python searches can put the metadata of a distribution there."""
    (place / "mine.py").touch()
    about = place / "mine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: mine\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[pytest11]\nmine = mine\n", encoding="utf-8")
    ran = accepted(place, autoload=True, env={"PYTHONPATH": str(place)})

    assert ran.closing.endswith("; with PYTHONPATH, plugin mine)")


@pytest.mark.nightly
def test_a_conftest_beside_tests_that_are_added_is_named(place: Path) -> None:
    (place / "site").mkdir()
    (place / "site" / "conftest.py").touch()
    as_user.write(place / "site", test_site="def test_site(accel_device):\n    assert accel_device\n")
    ran = accepted(place, "--accel-with=site")

    assert ran.closing.endswith("; with conftest.py)")
    assert ran.record["info"]["loaded"] == [f"conftest.py of {place}/site"]


@pytest.mark.nightly
def test_a_series_names_what_its_runs_loaded(place: Path) -> None:
    ran = accepted(place, "--accel-hours=0.001", env={"PYTEST_ADDOPTS": "-q"})
    assert "; with PYTEST_ADDOPTS); 1 run in " in ran.out


@pytest.mark.parametrize(
    "name", ["random", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("pytest", "pluggy"))]
)
def test_a_module_in_the_current_folder_is_never_run(place: Path, name: str) -> None:
    """Whoever submits jobs as root in a folder of all users runs nothing that others put there."""
    (place / f"{name}.py").write_text(f"open({str(place / 'ran')!r}, 'w')\n", encoding="utf-8")
    programs = place / "bin"
    programs.mkdir()
    shown = r"n1\037idle\037(null)\037all*\037Unknown\037none"
    for program, script in {"sinfo": f"printf '{shown}\\n'", "squeue": ":"}.items():
        (programs / program).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (programs / program).chmod(0o755)
    env = as_user.environment({"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}, autoload=False)
    words = ["fleet", "run", "--sku=h100-sxm", f"--output={place / 'r'}", "--dry-run", "--", "--version"]
    done = subprocess.run(
        [as_user.BIN / "pytest-accel", *words], cwd=place, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    script = done.stdout[done.stdout.index("#!/bin/sh") :]
    ran = subprocess.run(["/bin/sh", "-c", script], cwd=place, env=env, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout.startswith("pytest ")) == (0, True), ran.stdout + ran.stderr
    assert not (place / "ran").exists()
