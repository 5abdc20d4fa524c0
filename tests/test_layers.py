"""Imports point one way, and a pytest run that does not use the plugin does not pay for it."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_accel

PACKAGE = Path(pytest_accel.__file__).parent
SUITE = sorted((PACKAGE / "suite").glob("test_*.py"))

LAYERS = [
    # a module imports of its own layer and of those above it
    {
        "clocks",
        "consistency",
        "foresight",
        "kernel_messages",
        "levels",
        "lint",
        "located",
        "measurement",
        "metrics",
        "options",
        "peers",
        "plausible",
        "refusals",
        "schema",
        "shapefile",
        "shapes",
        "sku",
        "skufile",
        "standing",
        "stats",
        "steady",
        "versions",
        "visible",
        "xids",
    },
    {
        "child",
        "drivers",
        "host",
        "hostlock",
        "telemetry",
        "timeline",
        "timing",
    },
    {
        "backend",
        "blame",
        "compute",
        "probes",
        "sensor",
        "simulate",
        "worker",
        "workers",
    },
    {
        "collect",
        "compare",
        "counters",
        "crew",
        "facts",
        "factsheet",
        "gate",
        "host_counters",
        "judge",
        "marks",
        "observer",
        "processes",
        "reported",
        "verdict",
        "waivers",
    },
    {
        "asked",
        "attempts",
        "cause",
        "closing",
        "entrance",
        "expected",
        "recognise",
        "record",
        "simulation",
    },
    {
        "again",
        "figures",
        "saved",
    },
    {
        "run",
        "scene",
        "suite",
        "views",
    },
    {
        "acceptance",
        "fixtures",
        "keys",
        "reports",
    },
    {
        "judging",
    },
    {
        "cli",
        "plugin",
    },
]
PURE = {
    "again",
    "asked",
    "attempts",
    "blame",
    "cause",
    "clocks",
    "closing",
    "compare",
    "counters",
    "expected",
    "factsheet",
    "figures",
    "foresight",
    "gate",
    "host_counters",
    "judge",
    "kernel_messages",
    "levels",
    "located",
    "measurement",
    "peers",
    "reported",
    "schema",
    "shapes",
    "sku",
    "skufile",
    "standing",
    "stats",
    "verdict",
    "versions",
    "visible",
    "waivers",
    "xids",
}
SPEC = "pytest_accel.probes.spec"
"""What a probe declares; it is no more than a dataclass, and the markers and the run read it."""


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "suite" not in path.parts and path.name != "__init__.py")


def imports(path: Path) -> Iterator[str]:
    """What a file imports of this package when it runs, imports within functions included; not for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "pytest_accel":
            yield from (f"pytest_accel.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def layer(module: str) -> int:
    """The place of a module of ours, 0 first. An unknown one has to be given a place here."""
    name = module.removeprefix("pytest_accel.").partition(".")[0]
    places = [place for place, names in enumerate(LAYERS) if name in names]
    assert places, f"{module} has no place in LAYERS"
    return places[0]


def name_of(path: Path) -> str:
    return ".".join(["pytest_accel", *path.relative_to(PACKAGE).with_suffix("").parts])


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    own = name_of(path)
    for module in imports(path):
        if module.startswith("pytest_accel.") and module != SPEC:
            assert layer(module) <= layer(own), f"{own} imports {module}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_the_simulation_is_beneath_and_nothing_knows_of_it(path: Path) -> None:
    """But what chooses it, and the command that lists its faults."""
    if path.parent.name != "simulate" and path.stem not in ("simulation", "cli"):
        assert not [module for module in imports(path) if module.startswith("pytest_accel.simulate")]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_modules_that_judge_touch_no_process_and_no_device(path: Path) -> None:
    if path.stem in PURE and path.parent == PACKAGE:
        banned = {"subprocess", "socket", "torch", "pynvml", "psutil", "amdsmi", "time", "pytest"}
        assert not banned & {module.partition(".")[0] for module in imports(path)}


@pytest.mark.parametrize("path", SUITE, ids=lambda path: path.stem)
def test_the_suite_uses_public_names_only(path: Path) -> None:
    """It is written like a user's own tests."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert set(imports(path)) <= {"pytest", *(f"pytest_accel.{name}" for name in pytest_accel.__all__)}
    arguments = {
        argument.arg for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for argument in node.args.args
    }
    assert not any(argument.startswith("_") for argument in arguments)


def test_the_suite_is_ordered_completely() -> None:
    from pytest_accel.suite import ORDER

    assert sorted(ORDER) == [path.stem for path in SUITE]


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


@pytest.mark.parametrize("library", ["torch", "yaml", "pynvml", "psutil", "amdsmi"])
def test_the_process_of_pytest_touches_no_compute_api_and_no_management_library(library: str) -> None:
    """Both can block for ever on a sick GPU. (YAML is harmless, but slow: not for runs without a SKU.)"""
    code = "import pytest_accel.plugin, pytest_accel.probes"
    if library != "yaml":
        code += ", pytest_accel.run, pytest_accel.views.terminal, pytest_accel.views.benchmark"
    assert library not in {name.partition(".")[0] for name in imported_by(code)}
