"""A user's own tests: beside the packaged suite, with their own assertions, and with mistakes in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import as_user, data_files
from support.as_user import Ran, write

TABLES = data_files.tables("plugin/own_tests")

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

ALIKE = """
def numbered(device):
    raise ValueError(f"after {time.perf_counter_ns()} blocks")

def wrong(device):
    return device.sample(lambda: None, amount=1, unit="GB/s")

def misspelt(device):
    return device.torch_dev

def test_without(accel_check): ...

@accel_limit(unit="GB/s", floor=5)
def test_numbered(accel_check):
    accel_check(numbered)

@accel_limit(unit="ms", ceiling=5)
def test_wrong(accel_check):
    accel_check(wrong)

@accel_limit(unit="GB/s", floor=5)
def test_misspelt(accel_check):
    accel_check(misspelt)
"""
FACTS = """
def test_vbios(accel_device):
    assert accel_device.facts["vbios"] == "x"

def test_index(accel_device):
    assert accel_device.index > 8
"""


def simulated(folder: Path, *options: str, paths: tuple[str, ...] = (), refused: bool = False) -> Ran:
    """A run on a simulated node; it locks no device of this machine."""
    return as_user.pytest(folder, *SIMULATE, *options, sku=None, paths=paths, env=as_user.STUB_TORCH, refused=refused)


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_an_error_is_told_once_whatever_number_stands_in_it(tmp_path: Path) -> None:
    write(tmp_path, test_mine=ALIKE)
    ran = simulated(tmp_path, paths=("test_mine.py",))
    assert ran.exit == 3
    assert "4 failed, 28 not measured" in ran.out
    assert ran.out.count("records no measurement; call accel_check in it") == 2, (
        "one block, and its line of the summary"
    )
    assert len(re.findall(r"^E .*ProbeError: ValueError: after \d+ blocks", ran.out, re.MULTILINE)) == 1
    assert "E       TypeError: wrong: the limit is in ms, but the measurement is in GB/s; state the limit" in ran.out
    assert ran.closing.endswith("; 0/8 limits hold"), "the marker in another unit judged nothing, on eight devices"
    assert re.search(r"has no attribute 'torch_dev'; did you mean 'torch_device'.*\? \(test_mine\.py:\d+\)", ran.out)


def test_an_assertion_that_fails_alike_is_told_once_with_all_devices(tmp_path: Path) -> None:
    """The first report also has the texts of the others, as far as they differ."""
    write(tmp_path, test_mine=FACTS)
    ran = simulated(tmp_path, paths=("test_mine.py",))
    assert ran.exit == 6
    assert "2 failed, 14 failed alike" in ran.out
    assert "\ngpu1, gpu2, gpu3, gpu4, gpu5, gpu6, gpu7\n" in ran.out
    assert "\ngpu1 (AssertionError: assert 1 > 8), gpu2 (AssertionError: assert 2 > 8), " in ran.out
    assert len(re.findall("^>  ", ran.out, re.MULTILINE)) == 2
    assert "which is not a verdict on the hardware (and 15 more)" in ran.closing


@pytest.mark.parametrize("kept", ["failed", pytest.param("broken", marks=pytest.mark.nightly)])
def test_a_test_that_is_rerun_fails_once(tmp_path: Path, kept: str) -> None:
    error = "assert accel_devices == []" if kept == "failed" else "raise RuntimeError"
    write(tmp_path, test_mine=f"def test_flaky(accel_devices):\n    {error}\n")
    args = (*SIMULATE, "--reruns=2")
    ran = as_user.pytest(tmp_path, *args, sku=None, paths=("test_mine.py",), env=as_user.STUB_TORCH, autoload=True)
    assert "1 failed, 2 rerun" in ran.out
    assert "test_mine.py::test_flaky (" in ran.closing
    assert " more)" not in ran.closing


FACT_ONLY = ("-k", "inventory_node")


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(FACT_ONLY, marks=pytest.mark.nightly, id="run"),
        pytest.param(("--collect-only", *FACT_ONLY), id="plan"),
    ],
)
def test_tests_of_the_folder_that_are_not_run_are_said(tmp_path: Path, look: tuple[str, ...]) -> None:
    """No module is imported for it, and plain tests are not meant."""
    (tmp_path / "tests/deep").mkdir(parents=True)
    write(tmp_path, test_mine="raise SystemExit('imported')\ndef test_mine(accel_check): ...\n")
    (tmp_path / "test_plain.py").write_text("def test_plain(): ...\n", encoding="utf-8")
    ran = simulated(tmp_path, *look)
    assert "note: the tests of test_mine.py are not run; --accel-with=test_mine.py adds them" in ran.out
    write(tmp_path / "tests", test_other="def test_other(accel_device): ...\n")
    write(tmp_path / "tests/deep", test_far="def test_far(accel_device): ...\n")  # no other folder is entered
    (tmp_path / "test_pipe.py").symlink_to("/dev/zero")
    ran = simulated(tmp_path, *look)
    assert "note: the tests of test_mine.py and 1 more are not run; --accel-with=. adds them" in ran.out
    assert "are not run" not in simulated(tmp_path, *look, "--accel-with=tests").out
    assert "are not run" not in simulated(tmp_path, *look, paths=("tests",)).out


@pytest.mark.parametrize("ours", [True, False], ids=["of this plugin", "of a conftest.py"])
def test_a_misspelt_option_of_the_ini_file_is_an_error(tmp_path: Path, ours: bool) -> None:
    """The run would be none of acceptance, and green."""
    if not ours:
        (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addini('accel_skus', 'of mine')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naccel_skus = h100-sxm\n", encoding="utf-8")
    (tmp_path / "test_plain.py").write_text("def test_plain(): ...\n", encoding="utf-8")
    ran = as_user.pytest(tmp_path, sku=None, paths=("test_plain.py",))
    assert ran.exit == (4 if ours else 0), ran.out
    assert ("pytest.ini: there is no option accel_skus; did you mean 'accel_sku'" in ran.out) is ours


@pytest.mark.devices
def test_a_test_of_a_device_is_skipped_where_there_is_none(tmp_path: Path) -> None:
    write(tmp_path, test_mine="def test_mine(accel_device): ...\n")
    ran = as_user.pytest(tmp_path, "-rs", sku="gaudi2", paths=("test_mine.py",))
    assert ran.exit == 6, ran.out
    assert re.search(r"^SKIPPED \[1\] test_mine.py:.* no device: \w", ran.out, re.MULTILINE)
    assert "empty parameter set" not in ran.out


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
    ("tests", "says"),
    [
        pytest.param(*row, id=name, marks=[pytest.mark.nightly] * (name != "test skipped"))
        for name, row in zip(
            ("no test", "file skipped", "test skipped", "test that may fail"), TABLES["not_passed"], strict=True
        )
    ],
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
