"""Plausibility of threshold files: every slip is caught by the right rule, in its line, and by nothing else."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.rows import each_row

from pytest_accel.cli import main
from pytest_accel.skus import lint, loader
from pytest_accel.skus.lint.linted_file import LintedFile
from pytest_accel.skus.lint.physics import physics, reach
from pytest_accel.views import lint_report

TODAY = "2026-11-29"
SOURCE = "{kind: measured, by: us, date: 2026-08}"
OTHERS = "{kind: published, by: them, date: 2026-08}"
DATA = Path(__file__).parents[1] / "data/lint"
SLIPS = yaml.safe_load((DATA / "slips.yaml").read_text(encoding="utf-8"))


@pytest.mark.nightly
def test_our_own_files_leave_nothing_unexplained() -> None:
    report = lint.lint([], TODAY)
    assert report.clean, lint_report.text(report)
    assert report.files == len(loader.names()) + 1 + len(list((loader.SHIPPED / loader.VENDOR_FILES).glob("*.yaml")))


def test_a_power_of_ten_in_any_of_our_limits_would_be_seen() -> None:
    unseen = []
    for name in sorted(set(loader.names()) - {"cpu"}):
        sku, root = loader.read(name)
        for _, limit, platform in LintedFile(sku, root).limits():
            if limit.floor is None or reach(sku, limit, platform) is None:
                continue
            for factor in (10, 0.1, 1000, 0.001):
                slipped = replace(limit, floor=factor * limit.floor, reference=None)
                alone = replace(platform, limits={limit.metric: slipped})
                subject = LintedFile(replace(sku, limits={}, platforms={platform.name: alone}), root)
                if not [*physics(subject)]:
                    unseen.append(f"{name} {platform.name} {limit.metric} times {factor}")
    assert unseen == []


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two good threshold files that is taken for the shipped ones."""
    return two_files(tmp_path, monkeypatch)


def two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "thresholds"
    folder.mkdir()
    for name in ("mine.yaml", "sister.yaml"):
        shutil.copy(DATA / name, folder)
    monkeypatch.setattr(loader, "SHIPPED", folder)
    return folder


def edit(folder: Path, *changes: tuple[str, str], name: str = "mine") -> None:
    path = folder / f"{name}.yaml"
    text = path.read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new.replace("SOURCE", SOURCE))
    path.write_text(text)


def found(*names: str) -> list[tuple[str, int, str]]:
    """Every unexplained message as (rule, line, key)."""
    return [(each.rule, each.line, each.key) for each in lint.lint(names, TODAY).open]


@each_row("slip", SLIPS)
def test_a_slip_is_caught_by_its_rule_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slip: dict[str, Any]
) -> None:
    old, new = slip["change"]
    edit(two_files(tmp_path, monkeypatch), (old.replace("SOURCE", SOURCE), new.replace("OTHERS", OTHERS)))
    expected = map(tuple, slip["found"])
    assert sorted(found()) == sorted(expected)


@pytest.mark.parametrize(
    ("rule", "severity", "says"),
    [
        ("healthy", "warning", "expected a message: delete the entry"),
        ("helthy", "error", "expected a rule; did you mean 'healthy'"),
    ],
)
def test_an_explanation_of_nothing_is_found_itself(shipped: Path, rule: str, severity: str, says: str) -> None:
    with (shipped / "mine.yaml").open("a") as file:
        file.write(f"explained:\n  - {{rule: {rule}, key: limits.matmul.fp8, reason: it was}}\n")
    (message,) = lint.lint([], TODAY).open
    assert (message.rule, message.severity, message.line) == ("explained", severity, 38)
    assert says in message.expected


def test_everything_that_no_run_accepts_is_found_at_once_and_the_other_files_too(shipped: Path) -> None:
    edit(shipped, ("floor: 48", "flor: 48"), ("devices: 8\n", "devices: 0\n"))
    edit(shipped, ("vendor: nvidia", "vendor: nvida"), name="sister")
    report = lint.lint([], TODAY)
    assert [(each.file, each.line) for each in report.open] == [
        ("mine.yaml", 16),
        ("mine.yaml", 27),
        ("sister.yaml", 2),
    ]
    assert "unknown key 'limits.matmul.fp32.flor'; did you mean 'floor'" in report.open[0].value


def test_a_file_that_its_vendors_file_breaks_is_not_called_good(shipped: Path) -> None:
    (shipped / "vendor").mkdir()
    (shipped / "vendor" / "nvidia.yaml").write_text(
        "vendor: nvidia\nlimits: {soak.throttle.sw_thermal: {ceiling: low}}\n"
    )
    for names in ((), ("mine",), (str(shipped / "vendor" / "nvidia.yaml"),)):
        assert ("schema", 2) in {(rule, line) for rule, line, _ in found(*names)}


# -- files of one's own, and those below


def own(folder: Path, text: str) -> str:
    path = folder.parent / "own.yaml"
    path.write_text(text.replace("SOURCE", SOURCE))
    return str(path)


def test_only_the_lines_of_an_own_file_are_examined(shipped: Path) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"))
    path = own(shipped, "extends: mine\nlimits:\n  stream.read: {floor: 3000, reference: 4480, source: SOURCE}\n")
    report = lint.lint([path], TODAY)
    assert [(each.rule, each.file, each.line) for each in report.open] == [
        ("physics", path, 3),
        ("healthy", path, 3),
    ]
    assert [(each.rule, each.file, each.line) for each in report.below] == [("healthy", "mine.yaml", 15)]
    assert (report.files, report.limits) == (1, 1)


def test_what_a_file_of_the_vendor_says_is_found_once(shipped: Path) -> None:
    (shipped / "vendor").mkdir()
    (shipped / "vendor" / "nvidia.yaml").write_text(
        f"vendor: nvidia\nlimits:\n  soak.throttle.sw_thermal: {{ceiling: 0.9, unit: '1', source: {SOURCE}}}\n"
    )
    expected = [("ceiling", 3, "limits.soak.throttle.sw_thermal")]
    assert found() == expected
    assert found(str(shipped / "vendor" / "nvidia.yaml")) == expected
    assert found("mine") == []


# -- the command


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    status = main.main(["sku", "lint", *arguments])
    return status, capsys.readouterr().out.splitlines()


def test_good_files_are_counted(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys) == (0, ["2 files, 16 limits: 0 errors, 0 warnings, 0 explained"])


def test_messages_are_one_a_line_errors_first(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"), ("reference: 3180", "reference: 3.18"))
    status, (first, second, summary) = run(capsys)
    assert status == 4
    assert first == (
        "mine.yaml:19: error[physics] limits.stream.read: 2.9574, expected another unit or digit: "
        "2957 would be 0.88 of memory datasheet peak, this is 0.00088"
    )
    assert second.startswith("mine.yaml:15: warning[healthy] limits.matmul.fp8: 880, expected at least 1096, ")
    assert summary == "2 files, 16 limits: 1 error, 1 warning, 0 explained"


def test_what_is_explained_is_shown_on_demand(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"))
    with (shipped / "mine.yaml").open("a") as file:
        file.write("explained: [{rule: healthy, key: limits.matmul.*, reason: the only one in use}]\n")
    assert run(capsys) == (0, ["2 files, 16 limits: 0 errors, 0 warnings, 1 explained"])
    status, lines = run(capsys, "--all")
    assert status == 0
    assert lines[0].startswith("mine.yaml:15: warning[healthy] limits.matmul.fp8: 880, ")
    assert lines[0].endswith("(explained: the only one in use)")


def test_the_report_as_json(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(shipped, ("floor: 1200", "floor: 880"))
    status, lines = run(capsys, "--format", "json")
    report = json.loads("\n".join(lines))
    (message,) = report.pop("messages")
    assert status == 4
    assert report == {"files": 2, "limits": 16, "errors": 0, "warnings": 1}
    assert (message["file"], message["line"], message["rule"]) == ("mine.yaml", 15, "healthy")


def test_a_file_that_is_not_there_ends_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["sku", "lint", "gone/own.yaml"]) == 4
    assert "gone/own.yaml: there is no such threshold file" in capsys.readouterr().err


def test_every_rule_is_listed_and_has_a_slip_above(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = run(capsys, "--list")
    names = [line.split()[0] for line in lines]
    assert status == 0
    assert set(names) == {rule for slip in SLIPS for rule, _, _ in slip["found"]} | {"explained"}
    assert all(len(line.split(maxsplit=1)[1]) > 20 for line in lines)
