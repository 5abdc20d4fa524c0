"""The plugin as a guest of pytest: what it starts and when, whose options it leaves alone, what it imports."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from support import as_user, data_files
from support.as_user import write

from pytest_accel.core.messages import Message
from pytest_accel.run.processes.supervisor import Child, listen

TABLES = data_files.tables("plugin/collection")

QUICK = ("--accel-sku=cpu", "--accel-level=quick")
LIST_PROCESSES = """
    import os, pathlib

    def pytest_sessionfinish():
        children = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        lines = [pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace(chr(0), " ") for pid in children]
        pathlib.Path("children.txt").write_text(chr(10).join(lines))
"""
FACTS_ONLY = """
def test_count(accel_check, accel_devices):
    accel_check(probes.inventory, fact="count")
"""


def run(folder: Path, *args: str) -> as_user.Ran:
    """A run that measures nothing. What it writes lies in the current folder."""
    return as_user.pytest(folder, *QUICK, *args, sku=None, paths=(), refused=True)


# -- what only shows or plans


@pytest.mark.parametrize("option", ["--markers", "--fixtures", "--fixtures-per-test", "--cache-show", "--help", "-VV"])
def test_what_only_shows_starts_nothing(tmp_path: Path, option: str) -> None:
    """No process, no folder, no closing line: not even the sensor looks at the devices."""
    write(tmp_path, conftest=LIST_PROCESSES)
    ran = run(tmp_path, option, "--accel-patience=5")

    assert ran.exit == 0, ran.out
    assert not as_user.CLOSING.search(ran.out)
    assert "accel:" not in ran.out
    assert not (tmp_path / "accel-records").exists()
    children = tmp_path / "children.txt"
    assert not children.exists() or children.read_text() == ""


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan", "--setup-only"])
def test_what_only_plans_discovers_and_measures_nothing(tmp_path: Path, option: str) -> None:
    """The sensor tells the names of the devices; no worker, no record, no verdict, and the plan in their place."""
    write(tmp_path, conftest=LIST_PROCESSES)
    ran = run(tmp_path, option, "-v")

    assert ran.exit == (0 if option == "--collect-only" else 6), ran.out
    assert ("nothing was measured" in ran.out) == (option != "--collect-only")
    assert "test_matmul[cpu1-bf16]" in ran.out
    assert re.search(r"^matmul +bf16 +up to 5 s$", ran.out, re.MULTILINE)
    assert re.search(r"^at most about \d+ s on 2 devices, \d+ s of it for what falls short; ", ran.out, re.MULTILINE)
    assert not as_user.CLOSING.search(ran.out)
    assert not (tmp_path / "accel-records").exists()
    assert "pytest_accel.probes.device.worker" not in (tmp_path / "children.txt").read_text()


def test_a_plan_on_a_machine_without_the_devices_is_that_of_the_expected_ones(tmp_path: Path) -> None:
    """Whoever plans on the login node of a cluster sees the tests and the time of the node."""
    ran = as_user.pytest(tmp_path, "--accel-sku=gaudi2", "--collect-only", sku=None, paths=())

    assert ran.exit == 0, ran.out
    assert "8 x gaudi2 (expected; none is here)" in ran.out
    assert "NOTSET" not in ran.out
    assert re.search(r"^at most about \d+ s on 8 devices, ", ran.out, re.MULTILINE)
    assert "it cannot end in ACCEPTED: there is no device here; " in ran.out


PLANNED = re.compile(r"^(matmul +bf16|collective +all_reduce, 8GiB|soak) +up to [\d.]+ s$", re.MULTILINE)
LATE = """
def pytest_sessionfinish(session):
    print(len(session.items), "items are here still")
"""


@pytest.mark.nightly
def test_a_plan_is_no_list_of_hundreds_of_tests(tmp_path: Path) -> None:
    """The tests of the user are listed, and those of the suite for whoever asks: a script with -q, a person with -v."""
    write(tmp_path, conftest=LATE)
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "test_ours.py").write_text("def test_ours(): ...\n")
    words = ("--accel-simulate=h100-sxm", "--collect-only", f"--accel-with={ours}")
    ran = as_user.pytest(tmp_path, *words, sku=None, paths=())

    assert ran.exit == 0, ran.out
    assert len(ran.out.splitlines()) < 80, ran.out
    assert "test_matmul[gpu7-bf16]" not in ran.out
    assert "<Function test_ours>" in ran.out
    places = {match.group().index(" up to ") for match in PLANNED.finditer(ran.out)}
    assert (len(PLANNED.findall(ran.out)), len(places)) == (3, 1), "the times are in one column"
    (collected,) = re.findall(r"(\d+) tests collected", ran.out)
    assert f"{collected} items are here still" in ran.out

    for option in ("-q", "-v"):
        assert "test_matmul[gpu7-bf16]" in as_user.pytest(tmp_path, *words, option, sku=None, paths=()).out


@pytest.mark.devices
@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan"])
def test_a_plan_takes_no_device(tmp_path: Path, option: str) -> None:
    """It works beside a run that measures, and is in nobody's way."""
    write(tmp_path, test_slow=FACTS_ONLY + "    time.sleep(60)\n")
    with as_user.going(tmp_path) as other:
        ran = run(tmp_path, option)
        assert other.process.poll() is None

    assert ran.exit in (0, 6), ran.out


def test_a_fixture_that_measures_does_not_under_setup_only(tmp_path: Path) -> None:
    """The fixtures of the user do run; what they ask to be measured is skipped."""
    write(
        tmp_path,
        test_mine="""
        @pytest.fixture
        def warm(accel_check):
            pathlib.Path("reached").touch()
            accel_check(tiny)
            pathlib.Path("measured").touch()

        def test_mine(accel_check, warm):
            accel_check(tiny)
        """,
    )
    ran = as_user.pytest(tmp_path, "--setup-only")

    assert ran.exit == 6, ran.out
    assert (tmp_path / "reached").exists()
    assert not (tmp_path / "measured").exists()
    assert not ran.folder.exists()


def test_a_broken_fixture_under_setup_only_is_no_rejection(tmp_path: Path) -> None:
    """Exit status 1 is kept for REJECTED."""
    write(
        tmp_path,
        test_mine="""
        @pytest.fixture
        def broken():
            raise RuntimeError("no")

        def test_mine(accel_check, broken): ...
        """,
    )
    assert as_user.pytest(tmp_path, "--setup-only").exit == 3


@pytest.mark.devices
def test_setup_show_runs_the_tests(tmp_path: Path) -> None:
    write(tmp_path, test_facts=FACTS_ONLY)
    ran = as_user.pytest(tmp_path, "--setup-show")

    assert ran.exit == 0, ran.out
    assert ran.closing.startswith("HELD 1/1 limits")
    assert "SETUP    F _accel_subject" in ran.out


def test_the_time_of_own_tests_is_not_made_up(tmp_path: Path) -> None:
    """A test called like a packaged one may measure anything."""
    write(tmp_path, test_mine="def test_matmul(accel_check):\n    accel_check(tiny)\n")
    beside = as_user.pytest(tmp_path, "--collect-only", paths=("--pyargs", "pytest_accel.suite", "test_mine.py"))

    assert beside.exit == 0, beside.out
    unknown = "the time of 2 tests of your own is not known before a run"
    assert re.search(rf"^at most about \d+ s .* for what falls short; {unknown}$", beside.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("option", "where"),
    [
        pytest.param(option, where, marks=[pytest.mark.nightly] * ((place % 2 == 0) == (where == "ini")))
        for place, option in enumerate(
            ("--collect-only", "--setup-plan", "--version", "--help", "--markers", "--cache-show")
        )
        for where in ("ini", "environment")
    ],
)
def test_a_configuration_that_measures_nothing_is_not_green(tmp_path: Path, option: str, where: str) -> None:
    """A nightly run would pass for ever."""
    if where == "ini":
        (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {option}\n")
    line = (*QUICK, "--accel-simulate=h100-sxm")  # which locks no device
    env = {"PYTEST_ADDOPTS": option} if where == "environment" else {}
    ran = as_user.pytest(tmp_path, *line, sku=None, paths=(), env=env)

    assert ran.exit == 6, ran.out
    assert "nothing was measured: " in ran.out


# -- opening


@pytest.mark.devices
@pytest.mark.parametrize(("does", "status"), TABLES["beginnings"])
def test_a_session_that_does_not_start_leaves_no_running_record(tmp_path: Path, does: str, status: int) -> None:
    """Another plugin fails in pytest_sessionstart: no verdict, and no attempt that still goes on to later runs."""
    fails = f"import os, pytest, signal\ndef pytest_sessionstart(session):\n    {does}\n"
    write(tmp_path, conftest=fails, test_facts=FACTS_ONLY)
    ran = as_user.pytest(tmp_path)

    assert ran.exit == status, ran.out
    assert ran.record["state"] == "interrupted"
    assert ran.record["closing"]["exit"] == status


WITHOUT_A_LINE = """
import sys

def pytest_sessionstart():
    code = compile("raise KeyboardInterrupt", __file__, "exec")
    size = len(code.co_code)
    none = bytes([size, 0x80]) if sys.version_info < (3, 11) else bytes([0xF8 | size // 2 - 1])
    exec(code.replace(co_linetable=none))
"""
"""An interrupt at an instruction that Python added itself: its table of lines has none for it."""


@pytest.mark.devices
def test_an_interrupt_at_an_instruction_without_a_line_is_no_traceback(tmp_path: Path) -> None:
    write(tmp_path, conftest=WITHOUT_A_LINE, test_facts=FACTS_ONLY)
    ran = as_user.pytest(tmp_path)

    assert ran.exit == 2, ran.out
    assert "TypeError" not in ran.out
    assert "Traceback" not in ran.out


ENDS = ["pytest.exit('no', returncode=0)", "pytest.exit('no', returncode=1)", "raise RuntimeError('no')"]


@pytest.mark.nightly
@pytest.mark.devices
@pytest.mark.parametrize("does", ENDS)
@pytest.mark.parametrize(("sku", "status", "word"), [("other", 1, "REJECTED"), ("cpu", 3, "BROKEN")])
def test_no_plugin_changes_a_verdict_at_the_end(tmp_path: Path, does: str, sku: str, status: int, word: str) -> None:
    """A rejection stays one; what held is not said to, and is no rejection."""
    write(tmp_path, conftest=f"import pytest\ndef pytest_sessionfinish():\n    {does}\n")
    name = str(other_product(tmp_path)) if sku == "other" else sku
    ran = as_user.pytest(tmp_path, f"--accel-sku={name}", "-k", "inventory", paths=())

    assert ran.exit == status, ran.out
    assert ran.closing.startswith(word)
    assert ran.record["closing"]["exit"] == status


QUIETLY = """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "soak.power" not in item.nodeid]
"""


TAKEN_OVER = """
def pytest_runtest_protocol(item):
    return "soak.power" in item.nodeid or None
"""


LATER = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    session.items[:] = [item for item in session.items if "soak.power" not in item.nodeid]
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("does", "said"),
    [(QUIETLY, "1 test was taken out"), (TAKEN_OVER, "1 test was never run"), (LATER, "1 test was never run")],
    ids=["at the collection", "in the protocol", "in the loop"],
)
def test_tests_that_are_taken_out_without_a_word_are_no_acceptance(tmp_path: Path, does: str, said: str) -> None:
    """No limit requires them, so nothing else would miss what they tell of a device far behind its neighbours."""
    write(tmp_path, quietly=does)
    line = ("-p", "quietly", "--accel-sku=h100-sxm", "--accel-level=quick", f"--accel-simulate={single(tmp_path)}")
    ran = as_user.pytest(
        tmp_path, *line, "--accel-platform=single", sku=None, paths=(), env={"PYTHONPATH": str(tmp_path)}
    )

    assert ran.exit == 6, ran.out
    assert f"no acceptance: {said}" in ran.closing


@pytest.mark.nightly
def test_an_ini_file_that_narrows_the_packaged_suite_is_no_acceptance(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(data_files.content("plugin/narrow.ini"))
    line = ("--accel-sku=h100-sxm", "--accel-level=quick", f"--accel-simulate={single(tmp_path)}")
    ran = as_user.pytest(tmp_path, *line, "--accel-platform=single", sku=None, paths=())

    assert ran.exit == 6, ran.out
    assert ran.closing.startswith("SIMULATED HELD ")
    assert ran.closing.endswith("no acceptance: the packaged suite was collected without test_matmul_best")


def single(folder: Path) -> Path:
    """The file of a simulated node of one healthy device."""
    path = folder / "node.yaml"
    path.write_text("sku: h100-sxm\nplatform: single\n")
    return path


def test_an_exit_in_mid_run_is_no_result(tmp_path: Path) -> None:
    """pytest.exit with the status 0 leaves tests that did not run."""
    ends = 'def test_ends():\n    pytest.exit("done", returncode=0)\n\n' + FACTS_ONLY
    write(tmp_path, test_mine=FACTS_ONLY.replace("test_count", "test_first") + "\n" + ends)
    ran = as_user.pytest(tmp_path, f"--accel-simulate={single(tmp_path)}", sku=None)

    assert ran.exit == 2, ran.out
    assert ran.closing.startswith("SIMULATED INTERRUPTED")


# -- the options of others


def other_product(folder: Path) -> Path:
    """A SKU file by which every device here is another product."""
    path = folder / "other.yaml"
    path.write_text("sku: other\nvendor: cpu\nmatch: {names: [Another Product]}\nplatforms: {host: {}}\n")
    return path


@pytest.mark.devices
@pytest.mark.parametrize("how", ["option", "ini", "default"])
def test_short_summary_is_the_users(tmp_path: Path, how: str) -> None:
    """The table replaces pytest's default summary alone, not one that was asked for."""
    if how == "ini":
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    more = ["-ra"] if how == "option" else []
    ran = as_user.pytest(tmp_path, f"--accel-sku={other_product(tmp_path)}", *more, "-k", "inventory", paths=())

    assert ran.exit == 1, ran.out
    assert ("short test summary info" in ran.out) == (how != "default")
    assert ("FAILED test_inventory.py" in ran.out) == (how != "default")


@pytest.mark.devices
def test_own_tests_keep_the_default_summary(tmp_path: Path) -> None:
    write(tmp_path, test_facts=FACTS_ONLY, test_other="def test_other():\n    assert False\n")
    ran = as_user.pytest(tmp_path)

    assert "FAILED test_other.py::test_other" in ran.out


@pytest.mark.nightly
@pytest.mark.devices
@pytest.mark.parametrize(("ini", "ours"), [("", False), ("--benchmark-columns=min,max", True)])
def test_benchmark_table(tmp_path: Path, ini: str, ours: bool) -> None:
    """The user's benchmarks stay in pytest-benchmark's table; our samples are there if it was asked for."""
    write(tmp_path, measured=["tiny"], test_mine="def test_sorting(benchmark):\n    benchmark(sorted, [3, 1, 2])\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {ini}\n")
    ran = as_user.pytest(tmp_path, "--benchmark-json=saved.json", autoload=True, env=as_user.STUB_TORCH)

    assert ran.exit == 0, ran.out
    assert re.search(r"^test_sorting +\d", ran.out, re.MULTILINE)
    assert bool(re.search(r"^CPU-\S+/tiny ", ran.out, re.MULTILINE)) == ours
    saved = json.loads((tmp_path / "saved.json").read_text())["benchmarks"]
    names = {each["name"].rpartition("/")[2] for each in saved}
    assert names == {"test_sorting", "tiny"}


# -- collecting


def test_every_collected_test_is_reported(tmp_path: Path) -> None:
    """The packaged suite has no test for the facts of a SKU that limits none, so nothing is dropped later."""
    ran = run(tmp_path, "--collect-only", "-q")
    found = re.findall(r"^test_\w+\.py::\S+$", ran.out, re.MULTILINE)

    assert f"{len(found)} tests collected" in ran.out
    assert "deselected" not in ran.out
    assert not [each for each in found if "None" in each]


@pytest.mark.parametrize(
    "options",
    [["-p", "randomly"], *(pytest.param([option], marks=pytest.mark.nightly) for option in ("--ff", "--nf"))],
    ids=" ".join,
)
def test_order_of_the_packaged_suite(tmp_path: Path, options: list[str]) -> None:
    """Links before collectives, the soak after them, counters last, whoever reorders tests."""
    cache = tmp_path / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(
        json.dumps({"judging/test_error_counters.py::test_host_counters[node-ecc_memory]": True})
    )
    ran = run(tmp_path, "--collect-only", "-q", *options)
    modules = list(dict.fromkeys(re.findall(r"^(test_\w+)\.py::", ran.out, re.MULTILINE)))

    assert modules.index("test_peer_copy") < modules.index("test_collectives") < modules.index("test_soak")
    assert modules[0] == "test_inventory"
    assert modules[-1] == "test_counters"


# -- the current folder

PLANTED = ("random", "json", "pynvml", "psutil", "torch", "numpy", "sitecustomize")


@pytest.mark.devices
def test_files_of_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    """Not by the sensor, not by a worker: they may run as root. Those beside a user's own probe replace no library."""
    planted = "open({!r}, 'a').write('{} ')\nraise OSError\n"
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(planted.format(str(tmp_path / "ran"), name))
    own = tmp_path / "own"
    own.mkdir()
    write(own, measured=["tiny"], test_mine="", random=planted.format(str(tmp_path / "ran"), "own/random"))
    ran = as_user.pytest(tmp_path, "--import-mode=importlib", paths=("own/test_mine.py",))

    assert ran.exit == 0, ran.out
    assert set(ran.statuses("tiny").values()) <= {"PASS", "MARGINAL"}, "MARGINAL: another test took processor time"
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_the_users_pythonpath_is_kept_without_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty entry would mean it, whatever the current folder is."""
    library, here = tmp_path / "library", tmp_path / "here"
    library.mkdir()
    here.mkdir()
    (library / "said.py").write_text("import json, sys\nprint(json.dumps({'event': 'path', 'path': sys.path}))\n")
    (here / "json.py").write_text("raise OSError\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", f":{library}::")
    child = Child("child", "said", tmp_path / "log", {})
    heard: list[Message] = []
    until = time.monotonic() + 60
    while not heard and time.monotonic() < until:
        heard = [message for _, message in listen([child], 1.0)]
    child.kill("the test is over")

    assert heard[0]["event"] == "path", (tmp_path / "log").read_text()
    assert str(library) in heard[0]["path"]
    assert not {"", ".", str(here)} & set(heard[0]["path"])


@pytest.mark.devices
def test_a_probe_in_a_package_finds_what_it_imports(tmp_path: Path) -> None:
    """In a worker as in pytest: by a relative name, and from the folder that holds the package."""
    checks = tmp_path / "checks"
    checks.mkdir()
    (tmp_path / "ours.py").write_text("SECONDS = 0.1\n")
    (tmp_path / "conftest.py").write_text("")
    (checks / "__init__.py").write_text("")
    (checks / "helpers.py").write_text("SIDE = 64\n")
    probe = """
from ours import SECONDS
from .helpers import SIDE

def own(device):
    a = device.torch.randn(SIDE, SIDE)
    return device.sample(lambda: a @ a, amount=1e-3, unit="GB/s", seconds=SECONDS)
"""
    write(checks, measured=["own"], test_own=probe)
    ran = as_user.pytest(tmp_path, paths=("checks",), env=as_user.STUB_TORCH)

    assert ran.exit == 0, ran.out
    assert set(ran.statuses("own").values()) <= {"PASS", "MARGINAL"}, ran.out


@pytest.mark.devices
def test_no_probe_is_taken_from_a_file_that_fails_in_a_worker(tmp_path: Path) -> None:
    """Neither the first time nor the second, when its module could be there half-loaded."""
    probe = """
def own(device, *, n=1):
    a = device.torch.randn(64, 64)
    return device.sample(lambda: a @ a, amount=1e-3, unit="GB/s", seconds=0.1)

if b"device.worker" in pathlib.Path("/proc/self/cmdline").read_bytes():
    raise ImportError("only in pytest")

@accel_min_gbps(gbps=1e-9)
@pytest.mark.parametrize("n", [1, 2])
def test_own(accel_check, n):
    accel_check(own, n=n)
"""
    write(tmp_path, test_own=probe)
    ran = as_user.pytest(tmp_path, env=as_user.STUB_TORCH)

    assert ran.exit == 6, ran.out
    own = [each for each in ran.record["measurements"] if each["metric"].startswith("own")]
    assert own
    assert {each["value"] for each in own} == {None}
