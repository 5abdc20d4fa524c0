"""Waivers: what they cover, what they never cover, and a file with every mistake named."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from support import as_user
from support.data_files import content, tables
from support.rows import each_row

from pytest_accel.core.measurement import NODE, Measurement, Trouble
from pytest_accel.core.run import Circumstances, Objection
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status, Verdict, Waiver
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.judge_attempts import judge, worse
from pytest_accel.skus.waivers import NEVER, Waivers, load, used, waivable

ROWS = tables("skus/waivers")

TODAY = date(2026, 11, 21)
LIMIT = Limit("host.memory", "GB", floor=100.0, origin="own.yaml:5")
BROKEN = judge([Measurement("host.memory", NODE, "GB", 25.0)], LIMIT)
ENTRY = Waiver("host.memory", "half of it arrives in January", "ops", date(2026, 12, 31), origin="waivers.yaml:2")


def waivers(*entries: Waiver) -> Waivers:
    return Waivers(entries or (ENTRY,), "waivers.yaml", "5ha", "node17", TODAY)


def test_a_waived_failure_keeps_what_was_found() -> None:
    found = waivers().apply(BROKEN)
    assert (found.status, sentence_of(found), found.value) == (Status.FAIL, sentence_of(BROKEN), 25.0)
    assert found.waiver == ENTRY
    assert BROKEN.fails
    assert not found.fails


def test_only_what_would_fail_is_waived_and_never_what_says_what_was_measured() -> None:
    waived = {status for status in Status if waivers().apply(replace(BROKEN, status=status)).waiver}
    assert waived == {Status.FAIL, Status.UNMEASURED, Status.INCONCLUSIVE}
    for metric in NEVER:
        assert waivers(replace(ENTRY, limit=metric)).apply(replace(BROKEN, metric=metric)).waiver is None


def test_a_device_at_fault_is_never_waived() -> None:
    """It was lost, hung, crashed, or its result was wrong: that is no matter of limits."""
    lost = Measurement("host.memory", NODE, "GB", 700.0, trouble=Trouble("device", "GPU is lost"))
    assert not waivable(judge([replace(lost, value=None)], LIMIT))
    assert not waivable(judge([lost], LIMIT))
    assert waivable(judge([replace(lost, trouble=Trouble("need", "root"))], LIMIT))
    assert waivable(judge([replace(lost, trouble=Trouble("external", "steal"))], LIMIT))


@each_row(("changes", "covered"), ROWS["covering"])
def test_a_waiver_covers_what_it_names(changes: dict[str, Any], covered: bool) -> None:
    found = waivers(replace(ENTRY, **changes)).apply(replace(BROKEN, subject="GPU-1"), ["1650"])
    assert bool(found.waiver) == covered


def test_the_first_that_covers_is_taken() -> None:
    expired, other = replace(ENTRY, until=date(2026, 1, 1)), replace(ENTRY, reason="another")
    assert waivers(expired, ENTRY, other).apply(BROKEN).waiver == ENTRY


@each_row(("changes", "words"), ROWS["unused"])
def test_what_was_not_used_is_named_with_the_reason(changes: dict[str, Any], words: str) -> None:
    unused = replace(ENTRY, origin="waivers.yaml:7", **changes)
    book = waivers(ENTRY, unused)
    (note,) = book.notes([book.apply(BROKEN)])
    assert note == f"waiver of {unused.limit} (waivers.yaml:7) was not used: {words}"


def test_the_record_has_the_file_and_what_was_used() -> None:
    book = waivers(ENTRY, replace(ENTRY, limit="a.b"))
    assert book.summary([book.apply(BROKEN)]) == {"file": "waivers.yaml", "sha256": "5ha", "used": [ENTRY]}
    assert Waivers().summary([BROKEN]) == {}
    assert used([book.apply(BROKEN), book.apply(replace(BROKEN, subject="GPU-1"))]) == [ENTRY]


def test_a_failure_stands_over_a_waived_one() -> None:
    """Whichever came first: a rerun hides nothing."""
    lost = judge([Measurement("host.memory", NODE, "GB", trouble=Trouble("device", "lost"))], LIMIT)
    waived = waivers().apply(BROKEN)
    good = replace(BROKEN, status=Status.PASS)
    assert worse(lost, waived) == worse(waived, lost) == lost
    assert worse(good, waived) == worse(waived, good) == waived


# -- the closing line


def closed(*verdicts: Verdict, **changes: Any) -> tuple[str, int]:
    required = [("host.memory", NODE, "own.yaml:5")]
    found = close(verdicts, Circumstances(**{"required": required, "expected_devices": 8, **changes}))
    return found.line, found.exit


def test_the_closing_line_counts_waivers_and_overridden_limits() -> None:
    waived = waivers().apply(BROKEN)
    again = waivers().apply(replace(BROKEN, subject="GPU-1"))
    other = waivers(replace(ENTRY, limit="a.b")).apply(replace(BROKEN, metric="a.b"))
    terms = "by ops until 2026-12-31, for all devices"
    assert closed(waived, again) == (f"ACCEPTED 8/8 devices (1 waiver: host.memory -75.0% {terms})", 0)
    both = f"2 waivers: host.memory -75.0% {terms}; a.b -75.0% by ops until 2026-12-31"
    assert closed(waived, again, other, overridden=3) == (f"ACCEPTED 8/8 devices ({both}; 3 limits overridden)", 0)
    assert closed(waived, against=[Objection("filter", "filtered by -k")])[0].startswith(
        "HELD 0/1 limits (1 waiver: host.memory -75.0%"
    )


@pytest.mark.parametrize(
    ("status", "line", "code"),
    [(Status.FAIL, "REJECTED GPU-1", 1), (Status.UNMEASURED, "NOT JUDGED", 6)],
)
def test_a_waiver_of_one_limit_accepts_no_other(status: Status, line: str, code: int) -> None:
    found, exit_ = closed(waivers().apply(BROKEN), replace(BROKEN, metric="a.b", subject="GPU-1", status=status))
    assert found.startswith(line)
    assert exit_ == code


# -- the file


def written(folder: Path, text: str) -> Path:
    path = folder / "waivers.yaml"
    path.write_text(text, encoding="utf-8")
    return path


WHOLE = content("waivers/whole.yaml")


def test_a_file_is_read_with_its_lines_and_its_hash(tmp_path: Path) -> None:
    book = load(written(tmp_path, WHOLE), "node17", TODAY)
    expected = Waiver(
        "host.acs",
        "no peer copies here",
        "ops@example.org",
        date(2026, 12, 31),
        ("GPU-1", "1650"),
        "node17",
        f"{tmp_path}/waivers.yaml:2",
    )
    assert book.entries == (expected,)
    assert len(book.sha256) == 64


@each_row(("old", "new", "sentence"), ROWS["mistakes"])
def test_a_mistake_is_named_with_its_line(tmp_path: Path, old: str | None, new: str, sentence: str) -> None:
    text = WHOLE.replace(old, new) if old else new
    with pytest.raises(BadFile) as bad:
        load(written(tmp_path, text), "node17", TODAY)
    assert f"waivers.yaml{sentence}" in str(bad.value)


# -- as a user sees it

TESTS = """
@accel_limit(unit="count", floor=1000)
def test_few(accel_check, accel_devices):
    accel_check(probes.inventory, fact="count")

@accel_limit(unit="GB", floor=1e6)
def test_memory(accel_check, accel_devices):
    accel_check(probes.host, fact="memory")
"""
WAIVED = content("waivers/two.yaml")


@pytest.mark.devices
def test_a_waived_limit_passes_and_is_seen(tmp_path: Path) -> None:
    as_user.write(tmp_path, test_own=TESTS)
    written(tmp_path, WAIVED)
    ran = as_user.pytest(tmp_path, "--accel-waivers=waivers.yaml", "--junitxml=junit.xml", "-v", "-k", "memory")

    assert ran.exit == 0, ran.out
    waiver = "1 waiver: host.memory -100.0% by ops until 2999-12-31, more than a year ahead"
    assert ran.closing.startswith(f"HELD 0/1 limits ({waiver})")
    assert "WAIVED" in ran.out
    assert "FAIL waived" in ran.out
    assert "waived: node host.memory: a small one (by ops, until 2999-12-31, waivers.yaml:2)" in ran.out
    assert "note: waiver of host.cpus (waivers.yaml:3) was not used" in ran.out
    assert "again:" not in ran.out
    assert ran.statuses("host.memory") == {"node": "FAIL"}
    assert [each["reason"] for each in ran.record["waivers"]["used"]] == ["a small one"]
    assert len(ran.record["waivers"]["sha256"]) == 64
    assert 'name="accel.waived" value="a small one"' in (tmp_path / "junit.xml").read_text()


def test_a_bad_file_refuses_the_run(tmp_path: Path) -> None:
    as_user.write(tmp_path, test_own=TESTS)
    written(tmp_path, WAIVED.replace("host.cpus", "inventory.sku"))
    for name, sentence in (
        ("waivers.yaml", "--accel-waivers: waivers.yaml:3: waivers.limit: inventory.sku can never be waived"),
        ("none.yaml", "--accel-waivers: none.yaml: cannot be read: No such file or directory"),
    ):
        ran = as_user.pytest(tmp_path, f"--accel-waivers={name}", refused=True)
        assert ran.exit == 4, ran.out
        assert sentence in ran.out
        assert "Traceback" not in ran.out
        assert not ran.folder.exists()
