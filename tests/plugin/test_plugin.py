"""What a user of the plugin sees: options, markers, fixtures, exit statuses, and other plugins running along."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support import as_user, data_files, packaged_suite
from support.as_user import STUB_TORCH, Ran, write

import pytest_accel
from pytest_accel.drivers.host.host_environment import host_environment

TABLES = data_files.tables("plugin/plugin")

NOT_ASKED = "".join(f'  {metric}: "not asked for"\n' for _, _, metric in packaged_suite.requests())
"""What a threshold file says so that nothing but facts is asked for."""

FACTS = """
@accel_limit(unit="count", floor=1)
def test_enough(accel_check, accel_devices):
    accel_check(probes.inventory, fact="count")

@pytest.mark.usefixtures("accel_devices")
@accel_limit(unit="count", floor=1000)
def test_few(accel_check, accel_devices):
    accel_check(probes.inventory, fact="count")
"""
"""Two limits on a fact, which takes no time: one that holds and one that does not."""


def facts_only(folder: Path, *, match: str = "") -> str:
    """A threshold file by which the packaged suite asks for nothing but the inventory; its path."""
    text = f"sku: facts\nvendor: cpu\n{match}not_applicable:\n{NOT_ASKED}platforms:\n  host: {{}}\n"
    path = folder / "facts.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def wrong(folder: Path) -> str:
    """The same, for another product than the one that is here."""
    return facts_only(folder, match="match: {names: [Another Product]}\n")


def properties(xml: Path) -> dict[str, dict[str, str]]:
    """JUnit's properties by test case."""
    return {
        str(case.get("name")): {str(each.get("name")): str(each.get("value")) for each in case.iter("property")}
        for case in ET.parse(xml).iter("testcase")  # noqa: S314  pytest wrote it
    }


# -- options

WRONG_OPTIONS = TABLES["wrong_options"]


@pytest.mark.parametrize(("options", "sentence"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_wrong_option(tmp_path: Path, options: list[str], sentence: str) -> None:
    """One sentence with the choices, exit 4, and nothing is collected or written."""
    (tmp_path / "ours.yaml").touch()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/record.json").write_text("{}")
    ran = as_user.pytest(tmp_path, *options, paths=(), refused=True)

    assert ran.exit == 4, ran.out
    assert sentence in ran.out
    assert len(re.findall("^ERROR: ", ran.out, re.MULTILINE)) == 1
    assert "Traceback" not in ran.out
    assert "collected" not in ran.out
    assert not ran.folder.exists()
    assert (tmp_path / "taken/record.json").read_text() == "{}"


def test_xdist_is_refused(tmp_path: Path) -> None:
    """The node is measured as a whole."""
    pytest.importorskip("xdist")
    write(tmp_path, test_facts=FACTS)
    ran = as_user.pytest(tmp_path, "-n", "2", autoload=True, refused=True)

    assert ran.exit == 4, ran.out
    assert "measures all devices of the node from one pytest process; remove -n (pytest-xdist)" in ran.out
    assert "Traceback" not in ran.out


def test_broken_threshold_file(tmp_path: Path) -> None:
    """Every mistake at once, with file and line."""
    shutil.copy(data_files.DATA / "plugin/mistakes.yaml", tmp_path / "mine.yaml")
    ran = as_user.pytest(tmp_path, "--accel-sku=mine.yaml", paths=(), refused=True)

    assert ran.exit == 4, ran.out
    assert "mine.yaml:4: unknown key 'budgts'; did you mean 'budgets'" in ran.out
    assert "mine.yaml:6: limits.stream.copy.floor: expected a number, found 'ten'" in ran.out
    assert "mine.yaml:7: limits.stream.read.unit: TB is not used; write floor: 3000, unit: GB" in ran.out
    assert "Traceback" not in ran.out


@pytest.mark.devices
def test_devices(tmp_path: Path) -> None:
    """Some devices only: the rest stays expected, so nothing is accepted."""
    ran = as_user.pytest(tmp_path, "--accel-devices=1", f"--accel-sku={facts_only(tmp_path)}", paths=())

    assert ran.exit == 0, ran.out
    assert ran.closing.startswith("HELD")
    assert "--accel-devices chose 1 of 2 devices" in ran.closing
    assert ran.statuses("inventory.sku") == {"cpu1": "PASS"}


@pytest.mark.devices
def test_named_accelerator_that_is_not_here(tmp_path: Path) -> None:
    """Whoever names an H100 on a machine without one is told so, and nothing of the CPU is measured."""
    if shutil.which("nvidia-smi"):
        pytest.skip("there may be an NVIDIA GPU here")
    ran = as_user.pytest(tmp_path, "--accel-sku=h100-sxm", paths=())

    lacking = host_environment().container
    assert ran.exit == (6 if lacking else 1), ran.out
    assert "node inventory.driver" in ran.closing if lacking else ran.closing.startswith("REJECTED node: inventory")
    valued = {each["metric"].partition(".")[0] for each in ran.record["measurements"] if each["value"] is not None}
    assert valued - {"host_counters", "inventory"} == {"host"}


@pytest.mark.devices
def test_host_facts(tmp_path: Path) -> None:
    """They are judged once, for the node; those without a limit are in the record, and no test of their own."""
    (tmp_path / "hosted.yaml").write_text(f"{data_files.content('plugin/hosted.yaml')}not_applicable:\n{NOT_ASKED}")
    ran = as_user.pytest(tmp_path, "--accel-sku=./hosted.yaml", "-v", paths=())

    assert ran.exit == 0, ran.out
    assert ran.closing.startswith("HELD")
    assert ran.statuses("host.cpus") == {"node": "PASS"}
    assert ran.statuses("host.memory") == {"node": "MARGINAL"}
    assert "a warning, which rejects nothing" in ran.out
    assert ran.measurements("host.numa_balancing", "node")
    assert not ran.statuses("host.numa_balancing")
    assert "test_host[numa_balancing" not in ran.out


@pytest.mark.devices
def test_default_output(tmp_path: Path) -> None:
    """The record goes to accel-records/<host>-<time>; its place and, with -v, its hash are the last lines."""
    options = ["--accel-sku", facts_only(tmp_path), "--accel-level=quick", "-k", "count", "-v"]
    ran = as_user.pytest(tmp_path, *options, sku=None, paths=())
    last, sha256 = ran.out.splitlines()[-2:]

    assert ran.exit == 0, ran.out
    assert re.fullmatch(r"sha256: [0-9a-f]{64}, unsigned", sha256)
    assert re.fullmatch(rf"record: {tmp_path}/accel-records/[^/]+-\d{{8}}T\d{{6}}Z(-\d+)?/record\.json", last)
    assert json.loads(Path(last.partition(" ")[2]).read_text())["state"] == "finished"


def test_help_and_markers(tmp_path: Path) -> None:
    """Options and markers document themselves, also beside a SKU."""
    shown = as_user.pytest(tmp_path, "--help", sku=None, paths=())
    markers = as_user.pytest(tmp_path, "--markers", paths=())

    assert shown.exit == markers.exit == 0, shown.out + markers.out
    for option in ("sku", "platform", "level", "devices", "waivers", "output", "patience"):
        assert f"--accel-{option}" in shown.out
    for marker in ("accel_min_tflops(of_peak", "accel_min_gbps(of_peak", "accel_limit(*, unit"):
        assert f"@pytest.mark.{marker}" in markers.out


# -- a user's own test file

MINE = """
@accel_min_tflops(0.3)
def test_matmul(accel_check):
    accel_check(probes.matmul, dtype="fp32", m=256, n=256, k=256)

@accel_min_gbps(gbps=1e-6)
def test_tiny(accel_check, accel_device, accel_sku):
    assert accel_device.name.startswith("cpu")
    assert accel_sku.name == "cpu"
    (verdict,) = accel_check(tiny)
    assert verdict.metric == "tiny"
"""
STRICT = "[pytest]\nstrict = true\nfilterwarnings = error\n"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A user's five lines pass, under a strict configuration and with every other plugin along."""
    folder = tmp_path_factory.mktemp("mine")
    write(folder, test_mine=MINE)
    (folder / "pytest.ini").write_text(STRICT)
    return as_user.pytest(
        folder,
        *("--junitxml=junit.xml", "--benchmark-json=benchmark.json", "--benchmark-save=first"),
        *("--html=report.html", "--self-contained-html", "--cov=.", "--timeout=300"),
        *("-p", "randomly"),
        autoload=True,
    )


@pytest.mark.devices
def test_own_file_holds(mine: Ran) -> None:
    """Everything passes; the closing line says why that is no acceptance."""
    assert mine.exit == 0, mine.out
    assert mine.closing.startswith("HELD 4/4 limits")
    assert "tests were named on the command line" in mine.closing
    assert "warning" not in mine.out
    assert set(mine.statuses("tiny")) == {"cpu0", "cpu1"}
    assert len(mine.statuses("matmul.fp32@m=256,n=256,k=256")) == 2
    assert mine.record["software"]["pytest_accel"] == pytest_accel.__version__
    assert mine.record["software"]["torch"]
    assert "test_tiny[cpu0]" in (mine.folder.parent / "report.html").read_text(), "the plugins of others are at work"
    assert "TOTAL" in mine.out


@pytest.mark.devices
def test_junit(mine: Ran) -> None:
    """Every test case has its verdict in flat properties."""
    found = properties(mine.folder.parent / "junit.xml")["test_tiny[cpu0]"]

    assert found["accel.metric"] == "tiny"
    assert found["accel.unit"] == "GB/s"
    assert found["accel.status"] in ("PASS", "MARGINAL")
    assert float(found["accel.floor"]) == 1e-6
    assert float(found["accel.value"]) > 0
    assert found["accel.device"].startswith("CPU-")
    assert "accel_min_gbps" in found["accel.limit_from"]


@pytest.mark.devices
def test_where_the_time_went(mine: Ran) -> None:
    """Every second of the run was spent on something, and the record says on what."""
    seconds = dict(mine.record["info"]["seconds"])
    wall, _ = seconds.pop("wall"), seconds.pop("device")

    assert sum(seconds.values()) == pytest.approx(wall, rel=0.02)
    assert min(seconds.values()) >= 0
    assert min(seconds[name] for name in ("starting", "preparing", "warm_up", "measuring")) > 0
    probes = mine.record["info"]["probes"]
    assert {"tiny", "matmul.fp32@m=256,n=256,k=256"} <= set(probes)
    for phase in ("preparing", "warm_up", "measuring"):
        assert sum(each.get(phase, 0.0) for each in probes.values()) == pytest.approx(seconds[phase], abs=0.05)


@pytest.mark.devices
def test_benchmark_json(mine: Ran) -> None:
    """pytest-benchmark holds the samples by device and metric, and is silent on the terminal."""
    found = {
        each["fullname"]: each for each in json.loads((mine.folder.parent / "benchmark.json").read_text())["benchmarks"]
    }
    (uuid,) = [uuid for uuid, name in mine.names.items() if name == "cpu0"]
    entry = found[f"{uuid}/tiny"]
    (measured,) = mine.measurements("tiny", "cpu0")

    assert len(found) == 4
    assert entry["group"] == "tiny"
    assert entry["extra_info"]["value"] == pytest.approx(measured["value"])
    assert entry["extra_info"]["unit"] == "GB/s"
    assert entry["extra_info"]["floor"] == 1e-6
    assert entry["stats"]["data"] == pytest.approx(measured["seconds"])
    assert "Median" not in mine.out


TINY_FAST = """
@accel_min_gbps(gbps=1e9)
def test_fast(accel_check):
    accel_check(tiny)
"""


@pytest.mark.devices
def test_own_limit_is_broken(tmp_path: Path) -> None:
    """One line says device, metric, value, limit and margin; the other says how to run just that again."""
    write(tmp_path, test_mine=TINY_FAST)
    ran = as_user.pytest(tmp_path, "--junitxml=junit.xml", env=STUB_TORCH)

    assert ran.exit == 1, ran.out
    assert re.match(r"REJECTED .*cpu[01]:? tiny [\d.]+ (to [\d.]+ )?GB/s, floor 1000000000 GB/s", ran.closing)
    assert set(ran.statuses("tiny").values()) <= {"FAIL", "INCONCLUSIVE"}, "other work may excuse one processor"
    attempts = ran.measurements("tiny", "cpu0")
    assert [each["how"] for each in attempts] == ["together", "together"], "level quick has no time for one alone"
    assert "Traceback" not in ran.out
    assert properties(tmp_path / "junit.xml")["test_fast[cpu0]"]["accel.status"] == "FAIL"


@pytest.mark.devices
def test_again(tmp_path: Path) -> None:
    """The command that the run prints runs just the failed test again."""
    write(tmp_path, test_facts=FACTS)
    ran = as_user.pytest(tmp_path)
    (line,) = re.findall(r"^again: (.*)$", ran.out, re.MULTILINE)
    _, *arguments = shlex.split(line)
    again = as_user.pytest(tmp_path, *arguments, sku=None, paths=(), output=tmp_path / "unused")

    assert ran.exit == again.exit == 1, ran.out + again.out
    assert "1 failed" in again.out
    assert "passed" not in again.out


WRONG_MARKERS = TABLES["wrong_markers"]


@pytest.mark.parametrize("sku", [pytest.param("cpu", marks=pytest.mark.devices), None], ids=["with", "without"])
def test_wrong_markers(tmp_path: Path, sku: str | None) -> None:
    """Each is an error at collection, with or without a SKU, that names the test, the value and the choices."""
    for name, (marker, _) in WRONG_MARKERS.items():
        write(tmp_path, **{f"test_{name}": f"{marker}\ndef test_it(accel_check):\n    accel_check(tiny)\n"})
    ran = as_user.pytest(tmp_path, sku=sku)

    assert ran.exit == 2, ran.out
    assert f"{len(WRONG_MARKERS)} errors during collection" in ran.out
    for name, (_, sentences) in WRONG_MARKERS.items():
        assert f"test_{name}.py::test_it" in ran.out
        for sentence in sentences:
            assert sentence in ran.out
    assert "Traceback" not in ran.out
    assert "markers.py" not in ran.out


@pytest.mark.devices
def test_nothing_measured_fails(tmp_path: Path) -> None:
    """A test with a marker of ours, or accel_check, that records nothing cannot fail, so it fails."""
    write(
        tmp_path,
        test_mine="""
        @accel_min_tflops(0.5)
        def test_marker():
            pass

        def test_fixture(accel_check):
            pass

        def test_device(accel_device):
            pass
        """,
    )
    ran = as_user.pytest(tmp_path)

    assert ran.exit == 3, ran.out
    assert ran.closing.startswith("BROKEN test_mine.py::test_")
    assert "records no measurement" in ran.closing
    assert "2 failed, 2 passed, 1 not measured" in ran.out


def test_without_sku(tmp_path: Path) -> None:
    """Such tests are skipped with that reason, and the plugin says nothing else."""
    write(tmp_path, test_mine=FACTS + "\ndef test_plain():\n    pass\n")
    ran = as_user.pytest(tmp_path, "-rs", sku=None)

    assert ran.exit == 0, ran.out
    assert "needs --accel-sku=NAME" in ran.out
    assert "1 passed, 2 skipped" in ran.out
    assert "accel:" not in ran.out
    assert not as_user.CLOSING.search(ran.out)
    assert not (tmp_path / "accel-records").exists()


@pytest.mark.devices
def test_probe_that_raises(tmp_path: Path) -> None:
    """A bug is no verdict on the hardware: exit 3, with the error; what else was measured is kept."""
    write(
        tmp_path,
        test_mine="""
        def buggy(device):
            return {}["nothing"]

        def backwards(device):
            return device.sample(lambda: None, amount=-1.0, unit="GB/s")

        @accel_limit(unit="GB/s", floor=1)
        def test_buggy(accel_check):
            accel_check(buggy)

        @accel_limit(unit="GB/s", floor=1)
        def test_calls_backwards(accel_check):
            accel_check(backwards)

        @accel_limit(unit="count", floor=1)
        def test_enough(accel_check, accel_devices):
            accel_check(probes.inventory, fact="count")
        """,
    )
    ran = as_user.pytest(tmp_path, env=STUB_TORCH)

    assert ran.exit == 3, ran.out
    assert ran.closing.startswith("BROKEN test_mine.py::test_buggy[cpu0] (ProbeError: ")
    assert "KeyError: 'nothing'" in ran.closing
    assert "ValueError: sample: amount=-1.0; it is what one call does, finite and above 0" in ran.out
    assert "FAIL" not in (*ran.statuses("buggy").values(), *ran.statuses("backwards").values())
    (measured,) = ran.measurements("buggy", "cpu0")
    assert "test_mine.py" in measured["details"]["traceback"]
    assert ran.statuses("inventory.count")["node"] in ("PASS", "MARGINAL")


@pytest.mark.devices
def test_plain_assert(tmp_path: Path) -> None:
    """A user's own assertion is no verdict on the hardware: nothing is sent back for it."""
    write(
        tmp_path,
        test_mine="""
        def test_mine(accel_check, accel_devices):
            (verdict,) = accel_check(probes.inventory, fact="count")
            assert verdict.value == 1000
        """,
    )
    ran = as_user.pytest(tmp_path)

    assert ran.exit == 6, ran.out
    assert ran.closing.startswith("NOT JUDGED")
    assert "test_mine.py::test_mine[node] (AssertionError: " in ran.closing
    assert "failed by its own assertion, which is not a verdict on the hardware" in ran.closing


# -- attempts to turn a failing run green

FEW = "@accel_limit(unit='count', floor=1000)\ndef test_{name}(accel_check, accel_devices):\n"
ATTEMPTS = TABLES["attempts"]


@pytest.mark.devices
def test_no_test_hides_its_failure(tmp_path: Path) -> None:
    """Whatever surrounds a broken limit, its test case has failed."""
    check = "accel_check(probes.inventory, fact='count')"
    tests = "".join(f"{mark}{FEW}{body}\n" for mark, body in ATTEMPTS.values())
    for name in ATTEMPTS:
        tests = tests.replace("{name}", name, 1)
    write(tmp_path, test_mine=tests.replace("{check}", check))
    ran = as_user.pytest(tmp_path, "--junitxml=junit.xml", "--reruns", "2", autoload=True)
    failed = {
        case.get("name")
        for case in ET.parse(tmp_path / "junit.xml").iter("testcase")  # noqa: S314  pytest wrote it
        if case.find("failure") is not None
    }

    assert ran.exit == 1, ran.out
    assert ran.closing.startswith("REJECTED node: inventory.count 2, floor 1000")
    assert failed == {f"test_{name}[node]" for name in ATTEMPTS}
    broken = [each for each in ran.record["verdicts"] if each["status"] == "FAIL"]
    assert len(broken) == len(ATTEMPTS)


@pytest.mark.devices
@pytest.mark.parametrize(("options", "status", "word"), TABLES["options"])
def test_no_option_hides_a_failure(tmp_path: Path, options: str, status: int, word: str) -> None:
    """A limit that was measured and is broken rejects."""
    write(tmp_path, test_facts=FACTS)
    ran = as_user.pytest(tmp_path, *options.split(), autoload="--reruns" in options)

    assert ran.exit == status, ran.out
    assert ran.closing.startswith(word)
    assert "REJECTED node: inventory.count 2, floor 1000" in ran.closing


@pytest.mark.devices
@pytest.mark.parametrize(
    ("options", "says"), TABLES["filters"], ids=lambda each: " ".join(each) if isinstance(each, list) else each
)
def test_failure_that_was_filtered_out(tmp_path: Path, options: list[str], says: str) -> None:
    """Nobody measured it, so nobody is rejected, nothing is accepted, and the line says what narrowed the run."""
    ran = as_user.pytest(tmp_path, f"--accel-sku={wrong(tmp_path)}", *options, paths=())

    assert ran.exit == 0, ran.out
    assert ran.closing.startswith("HELD")
    assert f"filtered by {says}" in ran.closing


@pytest.mark.devices
def test_last_failed(tmp_path: Path) -> None:
    """Repeating what failed still fails; once it holds, the run is a filtered one."""
    sku = wrong(tmp_path)
    first = as_user.pytest(tmp_path, f"--accel-sku={sku}", "-k", "inventory", paths=())
    again = as_user.pytest(tmp_path, f"--accel-sku={sku}", "--lf", paths=())
    healed = as_user.pytest(tmp_path, f"--accel-sku={facts_only(tmp_path)}", "--lf", paths=())

    assert first.exit == again.exit == 1, first.out + again.out
    assert again.closing.startswith("REJECTED 2/2: cpu0, cpu1 inventory.sku ")
    assert healed.exit == 0, healed.out
    assert healed.closing.startswith("HELD 2/2 limits")
    assert "filtered by --lf" in healed.closing


CONFTESTS = TABLES["conftests"]


@pytest.mark.devices
@pytest.mark.parametrize(("status", "conftest"), CONFTESTS.values(), ids=CONFTESTS)
def test_no_conftest_hides_a_failure(tmp_path: Path, status: int, conftest: str) -> None:
    """The packaged suite on the wrong product, with a conftest that would rather not know."""
    write(tmp_path, conftest=conftest)
    ran = as_user.pytest(tmp_path, f"--accel-sku={wrong(tmp_path)}", paths=())

    assert ran.exit == status, ran.out
    assert not ran.closing.startswith(("ACCEPTED", "HELD"))
    assert ran.record["closing"]["exit"] == status


@pytest.mark.devices
def test_nothing_missing_is_held(tmp_path: Path) -> None:
    """The same without a conftest and on the right product holds: the tests above fail for their own reason."""
    ran = as_user.pytest(tmp_path, f"--accel-sku={facts_only(tmp_path)}", paths=())

    assert ran.exit == 0, ran.out
    held = r"HELD 4/4 limits \(by .*facts\.yaml\); no acceptance: a CPU is not an accelerator"
    assert re.fullmatch(held, ran.closing)


@pytest.mark.devices
def test_collection_error_is_no_verdict(tmp_path: Path) -> None:
    """A file that cannot be imported is nobody's hardware, and not green either."""
    write(tmp_path, test_facts=FACTS, test_broken="import nothing_of_that_name\n")
    plain = as_user.pytest(tmp_path, "-k", "enough")
    going_on = as_user.pytest(tmp_path, "-k", "enough", "--continue-on-collection-errors")

    assert plain.exit == 2, plain.out
    assert going_on.exit == 3, going_on.out
    assert going_on.closing.startswith("BROKEN test_broken.py")


@pytest.mark.devices
def test_error_in_another_test_is_no_verdict(tmp_path: Path) -> None:
    """A plain test beside ours that raises is a bug, one that asserts keeps the run from being judged."""
    write(tmp_path, test_facts=FACTS, test_other="def test_enough(): 1 / 0\n")
    ran = as_user.pytest(tmp_path, "-k", "enough")
    write(tmp_path, test_other="def test_enough(): assert False\n")
    asserted = as_user.pytest(tmp_path, "-k", "enough")

    assert asserted.exit == 6, asserted.out
    assert "test_other.py::test_enough (AssertionError: assert False) failed by its own assertion" in asserted.closing
    assert ran.exit == 3, ran.out
    assert ran.closing.startswith("BROKEN test_other.py::test_enough")


# -- surroundings


@pytest.mark.nightly
def test_the_packaged_suite_runs_without_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("sku: h100-sxm\nplatform: single\n", encoding="utf-8")
    words = ["--accel-simulate=good.yaml", "--accel-level=quick", f"--accel-output={tmp_path / 'out'}"]
    silent = as_user.pytest(tmp_path, *words, "-p", "no:terminal", sku=None, paths=(), output=tmp_path / "out")

    assert (silent.exit, silent.out) == (0, "")
    assert silent.record["closing"]["result"] == "ACCEPTED"


@pytest.mark.devices
def test_no_colour_and_no_terminal(tmp_path: Path) -> None:
    """NO_COLOR and a pipe are respected, --color=yes colours the closing line.

    Without pytest's terminal reporter, exit status and record say it all.
    """
    write(tmp_path, test_facts=FACTS)
    plain = as_user.pytest(tmp_path, env={"NO_COLOR": "1"})
    coloured = as_user.pytest(tmp_path, "--color=yes", "-q")
    silent = as_user.pytest(tmp_path, "-p", "no:terminal")

    assert "\x1b[" not in plain.out
    assert plain.closing.startswith("REJECTED")
    (line,) = [each for each in coloured.out.splitlines() if "REJECTED" in each]
    assert line.startswith("\x1b[31m")
    assert silent.exit == coloured.exit == plain.exit == 1
    assert silent.out == ""
    assert silent.record["closing"]["line"].startswith("REJECTED")


PLAIN = """
import atexit
import pathlib
import sys

atexit.register(lambda: pathlib.Path("loaded").write_text(" ".join(sys.modules)))

def test_plain():
    pass
"""
"""It says what was loaded in the end."""


def test_plugin_costs_nothing_unused(tmp_path: Path) -> None:
    """Without --accel-sku a few modules of our own are imported, and nothing else because of them."""
    (tmp_path / "test_plain.py").write_text(PLAIN)
    loaded = {}
    for name, options in (("with", []), ("without", ["-p", "no:accel"])):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
            cwd=tmp_path,
            env=as_user.environment(),
            capture_output=True,
            text=True,
            timeout=as_user.SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert "accel" not in done.stdout
        loaded[name] = set((tmp_path / "loaded").read_text().split())
    ours = {module for module in loaded["with"] if module.partition(".")[0] == "pytest_accel"}
    more = {module.partition(".")[0] for module in loaded["with"] - loaded["without"]}
    assert more - {"pytest_accel"} <= set(sys.stdlib_module_names)
    rooms = {"core", *(f"core.{name}" for name in ("durations", "exits", "levels", "output", "printable"))}
    rooms |= {"run", "run.deadline", "run.options", "shapes", "plugin", "plugin.unasked_benchmark"}
    rooms |= {f"plugin.{name}" for name in ("fixtures", "hookspecs", "markers", "series_main", "stash")}
    assert ours <= {"pytest_accel", *(f"pytest_accel.{name}" for name in rooms)}
