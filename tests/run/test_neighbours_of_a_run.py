"""Like devices in a run: what is far behind is measured again before it is blamed, and a record tells the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import data_files, in_process

from pytest_accel import probes
from pytest_accel.cli.rejudge import judge_again
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.run.session import Session

pytestmark = pytest.mark.usefixtures("fast")


def measured(folder: Path, fault: str, dtype: str) -> tuple[Session, dict[str, Verdict]]:
    """The verdicts on one product of four devices, by the name of the device."""
    (folder / "mine.yaml").write_text(data_files.content("run/four.yaml"))
    (folder / "node.yaml").write_text(f"sku: ./mine.yaml\nplatform: four\nfaults: [{{{fault}}}]\n")
    here = in_process.opened(folder / "node.yaml", folder / "out")
    for device in here.target.devices:
        here.check(probes.matmul, {"dtype": dtype}, device.uuid)
    return here, {here.ledger.names[each.subject]: each for each in here.ledger.verdicts}


@pytest.mark.parametrize(
    ("dtype", "by", "status", "attempts"),
    [("fp16", 0.3, Status.FAIL, 2), ("fp64", 0.9, Status.FAIL, 2)],
)
def test_a_dtype_without_a_limit_is_compared(
    tmp_path: Path, dtype: str, by: float, status: Status, attempts: int
) -> None:
    fault = f"fault: slow-dtype, device: 1, dtype: {dtype}, by: {by}"
    here, verdicts = measured(tmp_path, fault, dtype)
    assert verdicts["gpu1"].status is status
    assert "behind its 3 neighbours" in sentence_of(verdicts["gpu1"])
    others = {each.status for name, each in verdicts.items() if name != "gpu1"}
    assert others <= {Status.NOT_APPLICABLE, Status.PASS}
    together = [each for each in here.ledger.record.measurements if each.how == "together"]
    assert len(together) == 4 * attempts, "what fails is measured again, on all devices at once"

    here.finish()
    again = judge_again(here.ledger.record, here.target.terms)
    told = {here.ledger.names[each.subject]: (each.status, sentence_of(each)) for each in again.verdicts}
    assert told == {name: (each.status, sentence_of(each)) for name, each in verdicts.items()}


def test_a_setting_that_changes_in_mid_run_is_judged_again_from_the_record(tmp_path: Path) -> None:
    here, _ = measured(tmp_path, "fault: power-cap-lowered, device: 1, by: 0.1, at: matmul", "fp16")
    changed = {each.metric: each for each in here.ledger.verdicts if each.metric.startswith(("health.", "inventory."))}
    lowered = changed["health.power_limit_lowered"]
    assert here.ledger.names[lowered.subject] == "gpu1"
    assert lowered.status is Status.FAIL
    assert sentence_of(lowered).endswith("power limit requested 700 W -> 630 W between the start and matmul.fp16")
    assert [each.metric for each in here.changes_of(lowered.subject)] == list(changed), "a test of the device fails"
    assert here.changes_of(lowered.subject) == []

    closing = here.finish()
    assert closing.exit == 1
    again = judge_again(here.ledger.record, here.target.terms)
    told = {each.metric: (each.status, sentence_of(each)) for each in again.verdicts}
    assert {metric: told[metric] for metric in changed} == {m: (v.status, sentence_of(v)) for m, v in changed.items()}


def test_the_closing_lines_say_which_loss_the_run_would_have_rejected(tmp_path: Path) -> None:
    here, _ = measured(tmp_path, "fault: slow-dtype, device: 1, dtype: fp64, by: 0.001", "fp16")
    said = here.finish().sensitivity
    assert said.startswith("with 95% probability this run rejects one of 4 devices that is slower than the others by ")
    assert here.ledger.record.closing.sensitivity == said
    again = judge_again(here.ledger.record, here.target.terms)
    assert again.closing.sensitivity == said
