"""What other tools get of a run: hooks, columns of pytest-html, annotations of GitHub; options of the ini file."""

from __future__ import annotations

import html
import itertools
import json
import subprocess
from pathlib import Path

import pytest
from support import as_user, data_files
from support.as_user import Ran, write

TABLES = data_files.tables("plugin/hookspecs")

INI = "[pytest]\nstrict = true\naccel_sku = h100-sxm\naccel_platform = hgx8\naccel_level = quick\n"
CONFTEST = """
import json, pathlib

def pytest_accel_verdict(verdict, item):
    with open("verdicts", "a") as file:
        file.write(f"{item.name} {verdict.metric} {verdict.status.value}\\n")

def pytest_accel_closing(record, closing):
    told = {"result": closing.result, "exit": closing.exit, "devices": len(record.devices)}
    told["level"] = record.info["level"]
    pathlib.Path("closing.json").write_text(json.dumps(told))
"""
TESTS = """
@accel_limit(unit="count", floor=9)
def test_count(accel_check, accel_devices):
    accel_check(probes.inventory, fact="count")

def test_parts(accel_check, accel_device, subtests):
    with subtests.test("part"):
        accel_check(probes.inventory, fact="sku")
"""


def simulated(folder: Path, *options: str, env: dict[str, str] | None = None, autoload: bool = False) -> Ran:
    options = ("--accel-simulate=h100-sxm", "--accel-baseline=none", "--accel-output=out", *options)
    return as_user.pytest(folder, *options, sku=None, output=folder / "out", env=env, autoload=autoload)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A rejected run whose SKU, platform and level the ini file names; its folder is that of the user."""
    folder = tmp_path_factory.mktemp("hooked")
    (folder / "pytest.ini").write_text(INI, encoding="utf-8")
    write(folder, conftest=CONFTEST, test_mine=TESTS)
    done = simulated(folder, "--html=page.html", env={"GITHUB_ACTIONS": "true"}, autoload=True)
    return Ran(done.exit, done.out, folder)


def test_the_hooks_get_every_verdict_the_record_and_the_result(ran: Ran) -> None:
    lines = (ran.folder / "verdicts").read_text(encoding="utf-8").splitlines()
    assert "test_count[node] inventory.count FAIL" in lines
    assert sum(line.endswith("inventory.sku PASS") for line in lines) == 8
    told = json.loads((ran.folder / "closing.json").read_text(encoding="utf-8"))
    assert told == {"result": "REJECTED", "exit": 1, "devices": 8, "level": "quick"}


def test_what_a_run_prints_and_where_other_tools_show_it(ran: Ran) -> None:
    """The ini file names what the node is; pytest-html has columns of the verdict; GitHub is told in its own words."""
    assert ran.exit == 1, ran.out
    assert "accel: SIMULATED by h100-sxm: h100-sxm, platform hgx8, level quick" in ran.out
    page = html.unescape((ran.folder / "page.html").read_text(encoding="utf-8"))
    for text in ("Status</th>", "Margin</th>", "FAIL</td>", "9.0</td>"):
        assert text in page
    line = next(line for line in ran.out.splitlines() if line.startswith("::"))
    assert line.startswith("::error title=REJECTED::SIMULATED REJECTED node: inventory.count 8")


FAILS = ("raise KeyError('x')", "pytest.fail('x')", "pytest.skip('x')", "raise SystemExit('x')")
QUICK = (("closing", FAILS[0]), ("verdict", FAILS[3]))


@pytest.mark.parametrize(
    ("hook", "does"),
    [
        pytest.param(*case, marks=[pytest.mark.nightly] * (case not in QUICK))
        for case in itertools.product(("closing", "verdict"), FAILS)
    ],
)
def test_a_hook_that_fails_breaks_the_run(tmp_path: Path, hook: str, does: str) -> None:
    """It neither accepts nor rejects, also where the packaged suite gives the verdicts."""
    write(tmp_path, conftest=f"import pytest\ndef pytest_accel_{hook}():\n    {does}\n")
    done = as_user.pytest(
        tmp_path, "--accel-simulate=h100-sxm", "--accel-level=quick", "-k", "inventory_node", sku=None, paths=()
    )
    assert done.exit == 3, done.out
    assert done.closing.startswith("SIMULATED BROKEN ")
    assert "Traceback" not in done.out


ATTACKS = {
    "closing": """
def pytest_accel_closing(record, closing):
    change(closing, line="ACCEPTED 1/1 devices", result="ACCEPTED", exit=0)
    change(record.closing, line="ACCEPTED 1/1 devices", result="ACCEPTED", exit=0)
    record.verdicts.clear()
""",
    "verdict": """
def pytest_accel_verdict(verdict, item):
    change(verdict, status=Status.PASS)
""",
    "limit": """
def pytest_accel_verdict(verdict, item):
    if verdict.limit:
        change(verdict.limit, floor=0.0, ceiling=None)
""",
}
"""What a conftest.py may do to the objects that the hooks get."""
OURS = """
def pytest_{hook}():
    for each in gc.get_objects():
        if type(each) is Verdict and each.status is Status.FAIL:
            change(each, status=Status.PASS)
"""
"""What it may do to those that the run itself has."""
CHANGES = """
import gc
from pytest_accel.core.verdict import Result, Status, Verdict

def change(it, **fields):
    for name, value in fields.items():
        object.__setattr__(it, name, value)
"""
BROKEN = """
@accel_limit(unit="count", floor=9)
def test_count(accel_check, accel_devices):
    accel_check(probes.inventory, fact="count")
"""


@pytest.mark.parametrize(
    "attack", [pytest.param(attack, marks=[pytest.mark.nightly] * (attack != "closing")) for attack in ATTACKS]
)
def test_what_a_hook_does_to_what_it_gets_changes_no_result(tmp_path: Path, attack: str) -> None:
    write(tmp_path, conftest=CHANGES + ATTACKS[attack], test_mine=BROKEN)
    done = simulated(tmp_path, "--accel-level=quick")
    assert (done.exit, done.record["closing"]["result"]) == (1, "REJECTED"), done.out
    assert done.closing.startswith("SIMULATED REJECTED node: inventory.count 8")
    assert done.statuses("inventory.count") == {"node": "FAIL"}


@pytest.mark.parametrize(("hook", "junit"), [("accel_verdict", "NOT JUDGED"), ("accel_closing", "REJECTED")])
def test_a_result_that_does_not_follow_from_what_was_measured_is_not_judged(
    tmp_path: Path, hook: str, junit: str
) -> None:
    """It is told by the closing file, the summary and the page too, and by the JUnit file, if that is written later."""
    write(tmp_path, conftest=CHANGES + OURS.format(hook=hook), test_mine=BROKEN)
    env = {"PYTEST_ACCEL_CLOSING_FILE": str(tmp_path / "line")}
    done = simulated(tmp_path, "--accel-level=quick", "--junitxml=junit.xml", "--accel-report=page.html", env=env)
    assert done.exit == 6, done.out
    why = "SIMULATED NOT JUDGED the record is not believed: node inventory.count is PASS at 8, floor 9, and FAIL at 8"
    assert done.closing.startswith(why)
    assert (tmp_path / "line").read_text(encoding="utf-8").startswith(why)
    summary = json.loads((done.folder / "summary.json").read_text(encoding="utf-8"))
    for told in (done.record["closing"], summary):
        assert (told["result"], told["exit"], told["line"]) == ("NOT JUDGED", 6, done.closing)
    assert f'name="accel.result" value="{junit}"' in (tmp_path / "junit.xml").read_text(encoding="utf-8")
    assert why in html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_what_a_test_does_to_its_verdicts_changes_no_result(tmp_path: Path) -> None:
    changing = """
@accel_limit(unit="count", floor=8)
def test_count(accel_check, accel_devices):
    for each in accel_check(probes.inventory, fact="count"):
        object.__setattr__(each, "value", 99.0)
        object.__setattr__(each.limit, "floor", 1.0)
"""
    write(tmp_path, test_mine=changing)
    done = simulated(tmp_path, "--accel-level=quick")
    assert {each["value"] for each in done.record["verdicts"]} == {8}, done.out
    assert 8.0 in [each.get("floor") for each in done.record["limits"]]


@pytest.mark.nightly
@pytest.mark.parametrize("attack", [*ATTACKS.values(), OURS.format(hook="accel_verdict")])
def test_no_conftest_accepts_a_node_that_is_rejected(tmp_path: Path, attack: str) -> None:
    node = "sku: h100-sxm\nplatform: single\nfaults: [{fault: slow-compute, device: 0, by: 0.6}]\n"
    (tmp_path / "node.yaml").write_text(node, encoding="utf-8")
    write(tmp_path, conftest=CHANGES + attack)
    options = ("--accel-simulate=node.yaml", "--accel-level=quick", "--accel-output=out", "--junitxml=junit.xml")
    done = as_user.pytest(tmp_path, *options, "--accel-report=page.html", sku=None, paths=(), output=tmp_path / "out")
    assert done.exit == (6 if "gc." in attack else 1), done.out
    told = [done.out, *(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.*ml"))]
    told += [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.json")]
    assert [text for text in told if "ACCEPTED" in text] == []


@pytest.mark.parametrize(("words", "says"), TABLES["options"])
def test_the_option_of_another_command_is_answered_with_the_right_one(words: tuple[str, ...], says: str) -> None:
    command = [str(as_user.BIN / words[0]), *words[1:]]
    done = subprocess.run(command, env=as_user.environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, says in done.stderr) == (4, True), done.stderr


NIGHTLY = Path(__file__).parents[2] / "docs/nightly"


@pytest.mark.nightly
@pytest.mark.parametrize(("fault", "drained"), [("faults: [{fault: remap-pending, device: 3}]", True), ("", False)])
def test_the_nightly_script_drains_what_was_rejected(tmp_path: Path, fault: str, drained: bool) -> None:
    """Rehearsed as the page says, with the files that it says to copy."""
    (tmp_path / "node.yaml").write_text(f"sku: h100-sxm\n{fault}\n", encoding="utf-8")
    told = {
        "ACCEL_PYTEST": str(as_user.BIN / "pytest"),
        "ACCEL_INI": str(NIGHTLY / "pytest.ini"),
        "ACCEL_RECORDS": str(tmp_path),
        "ACCEL_REHEARSE": str(tmp_path / "node.yaml"),
        "ACCEL_DRAIN": "echo would drain:",
    }
    command = [str(NIGHTLY / "accel-nightly.sh"), "-k", "remap_pending"]
    done = subprocess.run(command, env=as_user.environment(told), capture_output=True, text=True, check=False)
    assert done.returncode == (1 if drained else 6), done.stdout + done.stderr
    assert ("would drain: SIMULATED REJECTED gpu3: health.remap_pending" in done.stdout) == drained


def test_a_wrong_option_of_the_ini_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI.replace("quick", "slow"), encoding="utf-8")
    done = as_user.pytest(tmp_path, sku=None, paths=(), refused=True)
    assert done.exit == 4
    assert "argument --accel-level: invalid choice: 'slow'" in done.out


def test_the_command_line_goes_before_the_ini_file(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI, encoding="utf-8")
    line = ("--accel-simulate=l40s", "--accel-sku=l40s", "--accel-platform=pcie", "--collect-only")
    done = as_user.pytest(tmp_path, *line, sku=None, paths=())
    assert "accel: SIMULATED by l40s: l40s, platform pcie, level quick" in done.out
