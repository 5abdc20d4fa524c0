"""A user's own tests: beside the packaged suite, with their own assertions, and with mistakes in them."""

from __future__ import annotations

import re
from pathlib import Path

import as_user
import pytest
import tabled
from as_user import Ran, write

TABLES = tabled.tables("plugin/beside_the_suite")

SIMULATE = ("--accel-simulate=h100-sxm", "--accel-level=quick", "--accel-baseline=none")
LIMIT = """
@accel_limit(unit="count", floor={floor})
def test_count(accel_check, accel_devices):
    accel_check(probes.inventory, fact="count")
"""
ASSERT = """
def test_memory(accel_device):
    assert accel_device.memory_bytes > {least}

def test_driver(accel_devices):
    assert len({{each.facts["driver_version"] for each in accel_devices}}) == 1
"""
TEST_CASE = """
import unittest

class Mine(unittest.TestCase):
    @pytest.mark.accel_min_tflops(0.5)
    def test_mine(self): ...
"""
MISTAKES = """
def wrong(device):
    return device.sample(lambda: undefined_name, amount=1, unit="GB/s")

@accel_limit(unit="GB/s", floor=5)
def test_wrong(accel_check):
    accel_check(wrong)

def test_argument(accel_check):
    accel_check(wrong, mbi=4)
"""


def simulated(folder: Path, *options: str, paths: tuple[str, ...] = (), refused: bool = False) -> Ran:
    """A run on a simulated node; it locks no device of this machine."""
    return as_user.pytest(folder, *SIMULATE, *options, sku=None, paths=paths, env=as_user.STUB_TORCH, refused=refused)


def test_a_mistake_is_told_once_with_the_line_of_the_users_file(tmp_path: Path) -> None:
    """Two tests, each with a mistake that every device meets."""
    write(tmp_path, test_mine=MISTAKES)
    ran = simulated(tmp_path, paths=("test_mine.py",))
    assert ran.exit == 3
    assert "2 failed, 14 not measured" in ran.out
    assert len(re.findall("^E .*ProbeError: NameError: ", ran.out, re.MULTILINE)) == 1
    before, _, _ = (as_user.HEAD + MISTAKES).partition("lambda: undefined_name")
    assert f"name 'undefined_name' is not defined (test_mine.py:{len(before.splitlines())})" in ran.out
    assert len(re.findall("^E .*TypeError: wrong has no condition 'mbi'", ran.out, re.MULTILINE)) == 1
    shown = re.findall(r"^(\S+\.py):\d+: ", ran.out, re.MULTILINE)
    assert set(shown) == {"test_mine.py"}, "no frame of ours"


def test_an_assertion_about_a_device_is_a_test(tmp_path: Path) -> None:
    """It can fail, and it can hold, without a measurement."""
    write(tmp_path, test_mine=ASSERT.format(least=1e9))
    ran = simulated(tmp_path, paths=("test_mine.py",))
    assert ran.exit == 0, ran.out
    assert ran.closing.startswith("SIMULATED HELD 9 tests of test_mine.py; no acceptance: tests were named")


def test_a_plain_test_alone_is_no_judgement(tmp_path: Path) -> None:
    """Nothing of a device stands behind it."""
    write(tmp_path, test_mine="def test_plain():\n    assert True\n")
    ran = simulated(tmp_path, paths=("test_mine.py",))
    assert ran.exit == 6, ran.out
    assert ran.closing == "SIMULATED NOT JUDGED nothing was measured against a limit"


@pytest.mark.slow
@pytest.mark.nightly
def test_an_acceptance_names_the_tests_beside_the_suite(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("sku: h100-sxm\nplatform: single\n", encoding="utf-8")
    beside(tmp_path, LIMIT.format(floor=1) + ASSERT.format(least=1e9))
    line = ("--accel-sku=h100-sxm", "--accel-simulate=node.yaml", "--accel-platform=single", "--accel-level=quick")
    ran = as_user.pytest(tmp_path, *line, "--accel-with=site", sku=None, paths=())
    assert ran.exit == 0, ran.out
    assert ran.closing.startswith("SIMULATED ACCEPTED 1/1 devices as h100-sxm at quick with 3 tests of site (")


@pytest.mark.parametrize(("floor", "least", "status", "line"), TABLES["broken"], ids=["limit", "assertion"])
def test_an_acceptance_needs_the_tests_beside_the_suite(
    tmp_path: Path, floor: int, least: float, status: int, line: str
) -> None:
    """A broken limit rejects; a broken assertion judges nothing."""
    beside(tmp_path, LIMIT.format(floor=floor) + ASSERT.format(least=least))
    ran = simulated(tmp_path, "--accel-with=site", "-k", "count or mine")
    assert ran.exit == status, ran.out
    assert re.match(line, ran.closing)


@pytest.mark.parametrize(
    ("tests", "says"), TABLES["not_passed"], ids=["no test", "file skipped", "test skipped", "test that may fail"]
)
def test_tests_beside_the_suite_that_did_not_pass_are_no_acceptance(tmp_path: Path, tests: str, says: str) -> None:
    beside(tmp_path, tests)
    ran = simulated(tmp_path, "--accel-with=site", "-k", "inventory_node or mine")
    assert ran.exit == 6, ran.out
    assert says in ran.closing


def beside(folder: Path, tests: str) -> None:
    """Write tests into a folder `site`."""
    (folder / "site").mkdir()
    write(folder / "site", test_mine=tests)


@pytest.mark.parametrize(("options", "paths", "says"), TABLES["paths"])
def test_a_wrong_path_is_refused_before_a_record(
    tmp_path: Path, options: tuple[str, ...], paths: tuple[str, ...], says: str
) -> None:
    ran = simulated(tmp_path, *options, paths=paths, refused=True)
    assert (ran.exit, ran.folder.exists()) == (4, False)
    assert ran.out.startswith(says)


def test_what_can_take_no_fixture_says_so(tmp_path: Path) -> None:
    write(tmp_path, test_async="async def test_mine(accel_check): ...", test_case=TEST_CASE)
    ran = as_user.pytest(tmp_path, "--collect-only", sku=None)
    assert ran.exit == 4, ran.out
    assert "is an async function, which cannot measure" in ran.out
    assert "is a method of unittest.TestCase, which cannot measure" in ran.out


def test_an_id_that_is_shown_can_be_given_back(tmp_path: Path) -> None:
    shown = simulated(tmp_path, "--collect-only", "-q", "-k", "inventory_sku")
    first = next(line for line in shown.out.splitlines() if line.startswith("test_inventory.py::"))
    ran = simulated(tmp_path, "-q", paths=(first,))
    assert ran.exit == 0, ran.out
    assert "HELD 1/1 limits" in ran.closing
