"""The version and the changelog of the thresholds: nothing moves without an entry that says what and why."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import as_user
import pytest

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.run import Run
from pytest_accel.core.sku import Limit, Source
from pytest_accel.judging.judge import judge
from pytest_accel.run import record
from pytest_accel.skus import loader, releases, shipped

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

import threshold_changes  # noqa: E402  a program, not a package

SOURCE = Source("published", "them", "2026-08", conditions="8192^3")
LIMIT = Limit("matmul.bf16", "TFLOPS", floor=671.6, reference=730.0, source=SOURCE)


def test_the_version_is_that_of_the_limits_in_effect() -> None:
    _, digest = (loader.SHIPPED / "VERSION").read_text(encoding="utf-8").splitlines()
    assert digest == f"sha256 {threshold_changes.digest(threshold_changes.content())}", (
        "limits in effect changed: give them a version and an entry in thresholds/CHANGELOG.md by "
        'make thresholds-changelog ARGS="--reason ..."'
    )


def test_the_newest_entry_is_that_of_the_version() -> None:
    assert releases.shipped()[0].version == shipped.version()


def test_version_and_changelog_are_no_skus() -> None:
    assert not {"VERSION", "CHANGELOG"} & set(loader.names())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"floor": 671.6}, {"floor": 690.0}, ["floor 671.6 -> 690 TFLOPS (+2.7%)"]),
        ({"floor": 1290.1}, {"floor": 1290.4}, ["floor 1290.1 -> 1290.4 TFLOPS (+0.0%)"]),
        ({"floor": 5.0}, {"ceiling": 7.0}, ["floor 5 TFLOPS -> none", "ceiling none -> 7 TFLOPS"]),
        ({"severity": "warn"}, {}, ["severity warn -> fail"]),
        ({}, {"levels": ["long"]}, ["levels all -> long"]),
        ({"levels": []}, {}, ["levels none -> all"]),
        ({"if_supported": True}, {}, ["if supported True -> none"]),
        ({"software": {"nccl": ">=2.18"}}, {}, ["software nccl >=2.18 -> none"]),
        ({"equals": "off"}, {"equals": "on"}, ["equals off -> on TFLOPS"]),
        ({"floor": 5.0}, {"floor": 5.0}, []),
    ],
)
def test_what_differs_between_two_limits_is_said(old: releases.Facts, new: releases.Facts, said: list[str]) -> None:
    unit = {"unit": "TFLOPS"}
    assert releases.differences({**old, **unit}, {**new, **unit}) == said


def test_the_facts_of_a_limit_are_those_that_decide_and_those_behind_them() -> None:
    assert releases.facts_of(LIMIT) == {
        "unit": "TFLOPS",
        "floor": 671.6,
        "reference": 730.0,
        "source": {"kind": "published", "by": "them", "date": "2026-08", "conditions": "8192^3"},
    }


LOG = """\
# Changelog of the thresholds

Newest first.

## 2026.12.1

Floors follow
our own record.

### h100-sxm, h200-sxm

- `matmul.bf16` on hgx8: floor 671.6 -> 690 TFLOPS (+2.7%). Why: H100 measured on 64 devices (abc1234)

### h100-sxm

- `matmul.bf16.x` on single: removed; it was floor 5 GB/s.

## 2026.11.1

The first version.
"""


def test_a_changelog_says_why_a_limit_moved() -> None:
    newest, first = releases.entries(LOG)
    assert (newest.version, first.version) == ("2026.12.1", "2026.11.1")
    said = "Floors follow our own record. H100 measured on 64 devices (abc1234)"
    assert newest.why("h200-sxm", "matmul.bf16") == said
    assert newest.why("h100-sxm", "matmul.bf16.x") == "Floors follow our own record."
    assert newest.why("h200-sxm", "stream.copy") == ""
    assert newest.why("a10", "matmul.bf16") == ""


@pytest.mark.parametrize(("old", "newer"), [("2026.12.1", 0), ("2026.11.1", 1), ("", 2)])
def test_entries_since_a_version(old: str, newer: int) -> None:
    assert len(releases.since(old, releases.entries(LOG))) == newer


# -- the program, in a repository of its own

Program = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a repository of the package and its thresholds, whose first version is committed."""
    for name in ("pytest_accel", "thresholds", "scripts"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("VERSION", "CHANGELOG.md"):
        (tmp_path / "thresholds" / name).unlink()
    git(tmp_path, "init", "-q")
    changed(tmp_path, "--write", "--version", "2026.1.1")
    commit(tmp_path, "The first version")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=us", "-c", "user.email=us@example.org")
    line = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def commit(folder: Path, subject: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", subject)


def changed(folder: Path, *arguments: str, fails: bool = False) -> str:
    line = [sys.executable, str(folder / "scripts/threshold_changes.py"), *arguments]
    done = subprocess.run(line, env=as_user.environment(), capture_output=True, text=True, check=False)
    assert bool(done.returncode) is fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def edit(folder: Path, path: str, old: str, new: str) -> None:
    text = (folder / path).read_text(encoding="utf-8")
    assert old in text
    (folder / path).write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.nightly
def test_an_entry_says_what_moved_and_which_commit_moved_it(repository: Path) -> None:
    assert changed(repository) == "no limit in effect changed\n"
    edit(repository, "thresholds/h100-sxm.yaml", "reference: 2900", "reference: 3000")
    commit(repository, "H100: a better figure")
    edit(repository, "thresholds/vendor/nvidia.yaml", "ceiling: 50000000", "ceiling: 40000000")
    edit(
        repository, "thresholds/h100-sxm.yaml", "# NVIDIA H100 SXM5", "# A comment decides nothing.\n# NVIDIA H100 SXM5"
    )
    commit(repository, "Fewer corrected errors")
    edit(repository, "pytest_accel/probes/peer_copy.py", "derived_floor=0.965", "derived_floor=0.97")
    edit(
        repository,
        "thresholds/h100-sxm.yaml",
        "  stream.triad:\n    floor: derived\n    reference: 2970",
        "  stream.write:\n    floor: 1",
    )
    edit(repository, "thresholds/h100-sxm.yaml", "gb_per_s: 3350", "gb_per_s: 3352")
    commit(repository, "A rule, a metric and a peak")

    said = changed(repository, "--write", "--version", "2026.1.2", "--reason", "What we learned.")

    assert said.startswith("## 2026.1.2\n\nWhat we learned.\n\n### ")
    sections = {part.partition("\n")[0]: part for part in said.split("### ")[1:]}
    h100 = sections["h100-sxm"]
    moved = "- `stream.copy_kernel` floor 2697 -> 2790 GB/s (+3.4%)"
    assert moved in h100
    assert "reference 2900 -> 3000 GB/s (+3.4%); source: published, Azure/AI-benchmarking-guide" in h100
    assert "Why: H100: a better figure (" in next(line for line in h100.splitlines() if line.startswith(moved))
    assert "- `stream.write` added: floor 1 GB/s, levels standard long; source: published" in h100
    assert "- `stream.triad` floor 2762.1 -> " in h100, "that of its class is left"
    assert "- `datasheet.memory.gb_per_s` 3350 -> 3352. Why: A rule, a metric and a peak (" in h100
    assert "of reference 0.965 -> 0.97" in said
    corrected = next(line for line in said.splitlines() if line.startswith("- `counters.ecc_corrected`"))
    assert "Why: Fewer corrected errors (" in corrected
    of_nvidia = next(name for name, part in sections.items() if corrected in part)
    assert {"a10", "h100-sxm", "v100-sxm2-32gb"} < set(of_nvidia.split(", "))
    assert "mi300x" not in of_nvidia

    assert (repository / "thresholds/VERSION").read_text().startswith("2026.1.2\nsha256 ")
    log = (repository / "thresholds/CHANGELOG.md").read_text()
    assert [each.version for each in releases.entries(log)] == ["2026.1.2", "2026.1.1"]
    commit(repository, "Version 2026.1.2")
    assert changed(repository) == "no limit in effect changed\n"
    assert said.partition("### ")[2] == changed(repository, "HEAD~4", "HEAD~1", "--version", "x").partition("### ")[2]


@pytest.mark.slow
def test_a_change_that_is_not_committed_needs_a_reason(repository: Path) -> None:
    edit(repository, "thresholds/h100-sxm.yaml", "reference: 2900", "reference: 3000")
    assert "give --reason" in changed(repository, fails=True)
    assert "We measured it." in changed(repository, "--reason", "We measured it.")


@pytest.mark.slow
def test_an_old_record_judged_by_new_thresholds_names_both_and_why_a_limit_moved(repository: Path) -> None:
    limit = loader.load("h100-sxm").limits["stream.copy_kernel"]
    found = Measurement("stream.copy_kernel", "GPU-0", "GB/s", 2740.0, (2740.0,) * 8)
    old = Run(
        run={"level": "quick", "platform": "hgx8"},
        sku={"name": "h100-sxm", "asked": "h100-sxm", "thresholds": "2026.1.1", "files": {}},
        devices=[Device("GPU-0", 0, "nvidia", "NVIDIA H100 80GB HBM3", pci_id="10de:2330")],
        measurements=[found],
        verdicts=[judge([found], limit)],
    )
    folder = repository / "rec"
    folder.mkdir()
    record.write(old, folder)
    edit(repository, "thresholds/h100-sxm.yaml", "reference: 2900", "reference: 3000")
    changed(repository, "--write", "--version", "2026.1.2", "--reason", "Eight nodes of ours reach 3000.")

    said = judged(repository, folder)

    assert "thresholds: 2026.1.1 then, 2026.1.2 now\n" in said
    moved = "limit: stream.copy_kernel: floor 2697 -> 2790 GB/s (+3.4%), reference 2900 -> 3000 GB/s (+3.4%)\n"
    assert f"{moved}  2026.1.2: Eight nodes of ours reach 3000.\n" in said
    assert "changed: gpu0 stream.copy_kernel: MARGINAL" in said


def judged(repository: Path, folder: Path) -> str:
    """Return what `pytest-accel judge` prints with the package of the repository."""
    code = "import sys; from pytest_accel.cli.main import main; sys.exit(main(sys.argv[1:]))"
    line = [sys.executable, "-c", code, "judge", str(folder)]
    environment = as_user.environment({"PYTHONPATH": str(repository)})
    return subprocess.run(line, cwd=repository, env=environment, capture_output=True, text=True, check=False).stdout
