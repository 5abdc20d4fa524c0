"""The package is a house of rooms: one duty and one process each. `make lint` checks which imports which."""

import ast
import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from support.rows import each_row

import pytest_accel
from pytest_accel.cli.main import COMMANDS

PACKAGE = Path(pytest_accel.__file__).parent
SUITE = sorted((PACKAGE / "suite").glob("test_*.py"))


def name_of(path: Path) -> str:
    """The dotted name of a module of ours; a package goes by its own name."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
INSIDE = [name for name in MODULES if name.count(".")]


@lru_cache(None)
def tree(path: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """The modules that a file names in its imports."""
    nodes = list(ast.walk(tree(path)))
    of_names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return of_names | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


def room(module: str) -> str:
    """The folder below the package; "" for the package itself."""
    return module.removeprefix("pytest_accel").lstrip(".").partition(".")[0]


VENDORS = {path.stem for path in (PACKAGE / "drivers" / "vendors").iterdir() if path.stem[0] != "_"}


def test_no_module_outside_of_its_package_asks_for_a_vendor_by_name() -> None:
    """Neither compares it nor looks it up in a table: what others need to know of a vendor is in its declaration."""
    outside = [
        name for name in INSIDE if room(name) != "simulate" and not name.startswith("pytest_accel.drivers.vendors")
    ]
    assert not {module: names for module in outside if (names := asked_for(tree(MODULES[module])) & VENDORS)}


def asked_for(code: ast.Module) -> set[object]:
    """The constants that a module compares something with or looks up."""
    asked: list[ast.AST] = []
    for node in ast.walk(code):
        if isinstance(node, ast.Compare):
            asked += [each for part in (node.left, *node.comparators) for each in ast.walk(part)]
        elif isinstance(node, ast.Dict):
            asked += [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchValue):
            asked.append(node.value)
        elif isinstance(node, ast.Subscript):
            asked.append(node.slice)
    return {node.value for node in asked if isinstance(node, ast.Constant)}


def test_the_suite_uses_public_names_only() -> None:
    """It is written like a user's own tests."""
    public = {"pytest", "pytest_accel", *(f"pytest_accel.{name}" for name in pytest_accel.__all__)}
    assert {path.stem: imports(path) - public for path in SUITE if imports(path) - public} == {}
    arguments = {node.arg for path in SUITE for node in ast.walk(tree(path)) if isinstance(node, ast.arg)}
    assert not any(argument.startswith("_") for argument in arguments)


def test_the_suite_is_ordered_completely() -> None:
    from pytest_accel.suite import ORDER

    assert sorted(ORDER) == [path.stem for path in SUITE], "a name in FIRST or LAST has no module"


@each_row("name", ["plugin", "probes", "suite", "shapes", "drivers"])
def test_public_paths_can_be_imported(name: str) -> None:
    code = f"import pytest_accel.{name}; from pytest_accel.{name} import *; from pytest_accel import {name} as one"
    subprocess.run([sys.executable, "-c", f"{code}; dir(one)"], check=True)


def imported_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `code`, beyond those that pytest brings."""
    program = (
        "import sys, json, pytest, _pytest.config, _pytest.pytester\n"
        "before = set(sys.modules)\n"
        f"{code}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_loading_the_plugin_imports_nothing_but_pytest_and_the_standard_library() -> None:
    found = imported_by("import pytest_accel.plugin")
    tops = {name.partition(".")[0] for name in found}
    assert "pytest_accel" in tops
    foreign = {top for top in tops if top not in sys.stdlib_module_names} - {"pytest_accel", "pytest", "_pytest"}
    assert not foreign


def test_the_process_of_pytest_touches_no_compute_api_and_no_management_library() -> None:
    """Both can block for ever on a sick GPU. (YAML is harmless, but slow: not for runs without a SKU.)"""
    code = "import pytest_accel.plugin, pytest_accel.probes"
    assert "yaml" not in imported_by(code)
    code += ", pytest_accel.run.session, pytest_accel.views.terminal, pytest_accel.views.benchmark_replay"
    assert not {"torch", "pynvml", "psutil", "amdsmi"} & {name.partition(".")[0] for name in imported_by(code)}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_is_said_of_all_commands_imports_none(option: str) -> None:
    code = f"from pytest_accel.cli import main\ntry: main.main(['{option}'])\nexcept SystemExit: pass\nprint()"
    program = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    found = {name for name in said.splitlines()[-1].split() if name.startswith("pytest_accel")}
    assert "pytest_accel.cli.main" in found
    assert len(found) < 16
    assert not found & {f"pytest_accel.cli.{name}" for name in COMMANDS}
