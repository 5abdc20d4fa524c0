"""The states of a fleet's nodes, what is submitted, and what is drained."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support import data_files

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.run import Circumstances, FindingEntry, Run
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import Result, Status, Verdict, Waiver
from pytest_accel.fleet.jobs import drain, fleet_report, slurm, submission
from pytest_accel.fleet.jobs.drain import Failure
from pytest_accel.fleet.jobs.run_folder import (
    ExpectedNode,
    FleetRequest,
    Results,
    SubmittedJob,
    Unreadable,
    last_words,
    level_of,
    request_of,
)
from pytest_accel.fleet.jobs.slurm import JobState, NodeState, SlurmError
from pytest_accel.fleet.jobs.states import NodeResult, State, exit_status, of_all, others
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.smallest_losses import RejectedLosses, sentence
from pytest_accel.run.record import write

EARLY, LATE = "2026-11-20T01:00:00+00:00", "2026-11-21T01:00:00+00:00"


def fleet(*expected: ExpectedNode, jobs: tuple[SubmittedJob, ...] = ()) -> FleetRequest:
    return FleetRequest("1", EARLY, "0", ("--accel-sku=h100-sxm",), 10, expected=expected, jobs=jobs)


def result(started: str = EARLY, **fields: Any) -> Summary:
    usual = {"state": "finished", "result": "ACCEPTED", "exit": 0, "line": "ACCEPTED 8/8", "job": "7"}
    made: dict[str, Any] = {"simulated": False, **usual, **fields}
    made["result"] = made["result"] and Result(made["result"])
    return Summary(started=started, host="n", path=Path("n/record.json"), **made)


def state(*results: Summary, job: JobState | None = None, submitted: str = "7", skipped: str = "") -> NodeResult:
    """The state of a node n, for which one job was submitted in the night between EARLY and LATE."""
    jobs = (SubmittedJob("n", submitted, "2026-11-20T12:00:00+00:00"),) if submitted else ()
    asked = fleet(ExpectedNode("n", skipped=skipped), jobs=jobs)
    if results and all(each.simulated for each in results):
        asked = replace(asked, arguments=(*asked.arguments, "--accel-simulate=h100-sxm"))
    return of_all(asked, {"n": list(results)}, [job] if job else [], lambda node, job: f"last words of {job}")[0]


def test_state() -> None:
    """The newest run counts, unless a later job was submitted; a job of a killed submission is known by its name."""
    offenders = []
    for case in data_files.tables("fleet/states"):
        results = [result(**case["result"])] if "result" in case else []
        job = JobState(*case["job"]) if "job" in case else None
        given = state(*results, job=job, submitted=case.get("submitted", "7"), skipped=case.get("skipped", ""))
        if given.state is not State[case["state"]] or case["told"] not in given.sentence:
            offenders.append((given.state, given.sentence, case))
    assert offenders == []


def test_a_run_by_hand_may_name_the_host_with_its_domain() -> None:
    found = of_all(
        fleet(ExpectedNode("n1")), {"n1.example": [result(LATE, result=Result.REJECTED, exit=1), result(EARLY)]}, []
    )
    assert found[0].state is State.REJECTED


def test_an_acceptance_of_a_machine_of_another_domain_hides_no_rejection() -> None:
    results = {"n.a": [result(EARLY, **BAD)], "n.b": [result(LATE)]}
    found = of_all(fleet(ExpectedNode("n")), results, [])[0]
    assert (found.state, found.result) == (State.NO_RESULT, None)
    assert found.reason.endswith("results do not count that may be those of several machines: n.a, n.b")


def test_a_rejected_host_that_was_not_expected_is_shown_and_not_drained() -> None:
    bad = replace(result(LATE, job="", **BAD), path=Path("zz/record.json"))
    results = {"n": [result()], "zz": [bad], "yy": [result(LATE, job="")], "xx": [result(simulated=True, **BAD)]}
    asked = fleet(ExpectedNode("n"))
    found = of_all(asked, results, [])
    assert [(each.node, each.state, each.expected) for each in found] == [
        ("n", State.ACCEPTED, True),
        ("zz", State.REJECTED, False),
    ]
    assert found[1].reason == "not among the expected nodes; REJECTED gpu3"
    assert exit_status(found) == 1
    plan = drain.plan_of(found, {"zz": [SLOW]}, [NodeState("zz", "idle")], most=1)
    assert (plan.steps, plan.left) == ([], [("zz", "it is not among the expected nodes")])
    told = replace(asked, others=others(asked, results))
    lines = [
        "note: xx: not among the expected nodes; n does not count: it is simulated, which was not asked",
        "note: yy: not among the expected nodes; ACCEPTED 8/8",
    ]
    for form in (fleet_report.text, fleet_report.markdown):
        assert all(line in form(told, found, ",".join) for line in ("not among the expected nodes; REJECTED", *lines))
    assert fleet_report.notes(told) == lines
    assert not of_all(replace(asked, listed=False), results, [])[1:]


def test_a_damaged_folder_may_be_named_by_the_host_with_its_domain_or_without() -> None:
    names = {
        "n": ("n.example.org", "n.example.org-2", "n-2"),
        "n.example.org": ("n", "n-2"),
    }
    its_own = {(folder, name) for name, folders in names.items() for folder in folders}

    def counts(folder: str, name: str) -> State:
        damaged = Unreadable(folder, datetime(2026, 11, 22, tzinfo=timezone.utc), "damaged")
        return of_all(fleet(ExpectedNode(name)), {name: [result(LATE)]}, [], unreadable=[damaged])[0].state

    assert {each for each in its_own if counts(*each) is not State.NO_RESULT} == set()
    assert counts("n.else.org", "n.example.org") is counts("m.example.org", "n") is State.ACCEPTED


FITTING = {"sku": "h100-sxm", "terms": {"level": "quick"}}
BAD: dict[str, Any] = {"result": Result.REJECTED, "exit": 1, "line": "REJECTED gpu3"}


def test_a_later_run_of_something_else_hides_nothing() -> None:
    asked = replace(fleet(ExpectedNode("n")), sku="h100-sxm", arguments=("--accel-sku=h100-sxm", "--accel-level=quick"))
    others: list[tuple[dict[str, Any], str]] = [
        ({"simulated": True}, "simulated"),
        ({"sku": "cpu"}, "of SKU cpu"),
        ({"terms": {"level": "standard"}}, "of level standard"),
    ]
    for other, said in others:
        bad, good = result(EARLY, **FITTING, **BAD), result(LATE, **{**FITTING, **other})
        found = of_all(asked, {"n": [good, bad]}, [])[0]
        assert (found.state, found.result) == (State.REJECTED, bad)
        assert f"n does not count: it is {said}, which was not asked" in found.reason
        assert of_all(asked, {"n": [result(LATE, **{**FITTING, **other, **BAD})]}, [])[0].state is State.NO_RESULT


def test_a_result_counts_that_fits_or_does_not_tell() -> None:
    asked = replace(fleet(ExpectedNode("n")), sku="own", arguments=("--accel-sku=/a/file.yaml", "--accel-level=quick"))
    assert of_all(asked, {"n": [result(sku="own", terms={"level": "quick"})]}, [])[0].state is State.ACCEPTED
    assert of_all(asked, {"n": [result(sku="", terms={})]}, [])[0].state is State.ACCEPTED
    unknown = fleet(ExpectedNode("n"))
    assert of_all(unknown, {"n": [result(sku="any", terms={"level": "standard"})]}, [])[0].state is State.ACCEPTED


def test_without_a_list_simulated_results_do_not_count_beside_real_ones() -> None:
    asked = replace(fleet(ExpectedNode("n"), ExpectedNode("s")), listed=False, arguments=())
    bad = result(LATE, simulated=True, **BAD)
    real, simulated = of_all(asked, {"n": [bad, result(EARLY)], "s": [bad]}, [])
    assert (real.state, simulated.state) == (State.ACCEPTED, State.REJECTED)
    plan = drain.plan_of([real, simulated], {"s": [SLOW]}, [NodeState("s", "idle")])
    assert plan.left == [("s", "its run was simulated, and those of other nodes were not")]
    assert not plan.steps
    assert drain.plan_of([simulated], {"s": [SLOW]}, [NodeState("s", "idle")]).steps, "a rehearsal drains"


# -- which result counts


def two(first: Summary, second: Summary, *, at: str = "2026-11-20T12:00:00+00:00", job: str = "8") -> NodeResult:
    """The state of a node n whose jobs 7 and 8 were submitted in one night, of which the second has not ended yet."""
    jobs = (SubmittedJob("n", "7", EARLY), SubmittedJob("n", job, at))
    return of_all(fleet(ExpectedNode("n"), jobs=jobs), {"n": [first, second]}, [])[0]


AHEAD = "2026-11-20T18:00:00+00:00"
"""When a run began by the clock of a node that is hours ahead: after the second job was submitted."""


def test_the_result_of_the_last_job_counts_whatever_the_clock_of_the_node_says() -> None:
    bad = result("2026-11-20T12:01:00+00:00", job="8", **BAD)
    assert two(result(AHEAD, job="7"), bad).state is State.REJECTED
    lost = two(result(AHEAD, job="7"), result(EARLY, job="1"))
    assert (lost.state, lost.sentence) == (State.NO_RESULT, "job 8 ended without a record")
    assert two(result(AHEAD, job="7", **BAD), result("2026-11-20T12:01:00+00:00", job="8")).state is State.ACCEPTED
    assert two(result("2099-01-01T00:00:00+00:00", job="8", **BAD), result(AHEAD, job="7")).state is State.REJECTED


def test_an_impossible_time_of_the_last_job_hides_no_later_run_by_hand() -> None:
    for of_job, by_hand, counts in (({}, BAD, State.REJECTED), (BAD, {}, State.ACCEPTED)):
        ahead = result("2099-01-01T00:00:00+00:00", job="8", **of_job)
        assert two(ahead, result(LATE, job="", **by_hand)).state is counts
    alone = two(result("2099-01-01T00:00:00+00:00", job="8"), result(EARLY, job="7"))
    assert alone.began == datetime(2026, 11, 20, 12, tzinfo=timezone.utc), "its submission"
    since = datetime(2026, 11, 20, 13, tzinfo=timezone.utc)
    drained = NodeState("n", "drained", reason="[accel] A401 gpu3 matmul.bf16", since=since)
    assert not drain.resume_plan([alone], [drained], {"n": {"matmul.bf16"}}, datetime.now(timezone.utc)).steps


def test_a_lost_job_does_not_hide_that_an_earlier_one_rejected_the_node() -> None:
    bad = result(EARLY, job="7", **BAD)
    jobs = (SubmittedJob("n", "7", EARLY), SubmittedJob("n", "8", "2026-11-20T12:00:00+00:00"))
    asked = fleet(ExpectedNode("n"), jobs=jobs)
    assert of_all(asked, {"n": [bad]}, [JobState("8", "accel-1-n", "RUNNING")])[0].state is State.RUNNING
    lost = of_all(asked, {"n": [bad]}, [JobState("8", "accel-1-n", "NODE_FAIL")])[0]
    assert (lost.state, lost.result) == (State.REJECTED, bad)
    assert lost.sentence == "REJECTED gpu3; job 8 left no result"


@pytest.mark.parametrize("jobs", [("7", "8"), ("9", "10")])
def test_a_queue_that_shows_only_an_older_job_hides_no_result_of_the_last_one(jobs: tuple[str, str]) -> None:
    first, last = jobs
    asked = fleet(
        ExpectedNode("n"), jobs=(SubmittedJob("n", first, EARLY), SubmittedJob("n", last, "2026-11-20T12:00:00+00:00"))
    )
    good, bad = result(EARLY, job=first), result(LATE, job=last, **BAD)
    for shown in ("COMPLETED", "RUNNING"):
        assert of_all(asked, {"n": [good, bad]}, [JobState(first, "accel-1-n", shown)])[0].state is State.REJECTED
    lost = of_all(asked, {"n": [good]}, [JobState(first, "accel-1-n", "NODE_FAIL")])[0]
    assert (lost.state, lost.sentence) == (State.NO_RESULT, f"job {last} ended without a record")


def test_held_takes_back_a_rejection_by_a_job_that_was_asked_the_same_and_no_other() -> None:
    bad, held = result(EARLY, job="7", **BAD), {"result": Result.HELD, "filtered": True}
    later = "2026-11-20T12:01:00+00:00"
    assert two(bad, result(later, job="8", **held)).state is State.HELD
    by_hand = two(result(later, job="8", **BAD), result(LATE, job="by-hand", **held))
    assert by_hand.state is State.REJECTED
    assert by_hand.reason == "REJECTED gpu3; n does not count: it was narrowed to a part of the checks"
    assert two(result(later, job="8", **BAD), result(LATE, job="by-hand")).state is State.ACCEPTED
    before = two(result(EARLY, job="by-hand", **BAD), result(later, job="8", **held))
    assert before.state is State.REJECTED, "which no job was asked to measure again"


def test_a_last_job_that_judged_a_part_of_the_checks_left_a_result() -> None:
    part = {"result": Result.NOT_JUDGED, "exit": 6, "line": "NOT JUDGED 1/2", "filtered": True}
    by_hand, of_last = result(EARLY, job=""), result("2026-11-20T12:01:00+00:00", job="8", **part)
    found = two(by_hand, of_last)
    assert (found.state, found.reason, found.result) == (State.NOT_JUDGED, "NOT JUDGED 1/2", of_last)
    assert not submission.needed([found], ())
    assert two(result(EARLY, job="", **BAD), of_last).state is State.REJECTED
    assert two(result(LATE, job=""), of_last).state is State.ACCEPTED
    unfinished = result(
        "2026-11-20T12:01:00+00:00", job="8", **{**part, "result": None, "exit": None, "state": "running"}
    )
    assert two(by_hand, unfinished).state is State.NO_RESULT


def test_without_a_level_results_are_held_to_that_of_a_run_that_names_none() -> None:
    asked = fleet(ExpectedNode("n"))
    bad, quick = result(EARLY, terms={"level": "standard"}, **BAD), result(LATE, terms={"level": "quick"})
    found = of_all(asked, {"n": [bad, quick]}, [])[0]
    assert (found.state, found.result) == (State.REJECTED, bad)
    assert "it is of level quick, which was not asked" in found.reason
    at_quick = replace(asked, level="quick")
    assert of_all(at_quick, {"n": [quick]}, [])[0].state is State.ACCEPTED
    assert level_of(["--accel-sku=h100-sxm", "--accel-level=quick"]) == "quick"
    assert level_of(["--accel-sku=/a/own.yaml"]) == "standard"
    assert level_of(["--accel-sku=x", "--accel-hours=8"]) == "long"


def test_an_accepted_node_with_a_run_whose_time_cannot_be_right_is_told() -> None:
    runs = {"n": [result(LATE), result("2999-01-01T00:00:00+00:00", **BAD)]}
    found = of_all(fleet(ExpectedNode("n")), runs, [])
    told = "accepted    n  n does not count: it began in the future, 2999-01-01T00:00:00+00:00"
    assert fleet_report.text(fleet(), found, ",".join).splitlines()[0] == told


def test_a_damaged_folder_is_of_the_node_that_is_called_so() -> None:
    now = datetime(2026, 11, 22, tzinfo=timezone.utc)
    damaged = [Unreadable("rack1-2", now, "rack1-2/record.json is damaged")]
    results = {"rack1": [result(LATE)]}
    one, two = of_all(fleet(ExpectedNode("rack1"), ExpectedNode("rack1-2")), results, [], unreadable=damaged)
    assert (one.state, two.state, two.reason) == (State.ACCEPTED, State.NO_RESULT, damaged[0].why)
    (one,) = of_all(fleet(ExpectedNode("rack1")), results, [], unreadable=damaged)
    assert one.state is State.NO_RESULT
    (one,) = of_all(fleet(ExpectedNode("rack1")), {"rack1": [result(LATE, **BAD)]}, [], unreadable=damaged)
    assert (one.state, one.reason) == (State.REJECTED, "REJECTED gpu3; rack1-2/record.json is damaged")


def test_hosts_of_two_domains_are_two_nodes() -> None:
    results = {"n1.a": [result(LATE)], "n1.b": [result(LATE, **BAD)]}
    found = of_all(fleet(ExpectedNode("n1.a"), ExpectedNode("n1.b")), results, [])
    assert [each.state for each in found] == [State.ACCEPTED, State.REJECTED]


def of(**states: State) -> list[NodeResult]:
    return [NodeResult(name, each, "why") for name, each in states.items()]


def test_exit_status_is_that_of_the_worst_node() -> None:
    assert exit_status(of(a=State.ACCEPTED, b=State.HELD)) == 0
    assert exit_status(of(a=State.ACCEPTED, b=State.SKIPPED)) == 6
    assert exit_status(of(a=State.ERROR, b=State.REJECTED)) == 1


def test_only_what_is_missing_and_can_start_is_submitted() -> None:
    nodes = [*of(a=State.ACCEPTED, b=State.NO_RESULT, c=State.RUNNING, d=State.ERROR, e=State.REJECTED)]
    nodes.append(NodeResult("f", State.NO_RESULT, "lost", skipped="down"))
    assert submission.needed(nodes, ()) == ["b", "d"]
    assert submission.needed(nodes, {"a", "c", "f"}) == ["a", "b", "d"]


def test_nodes_that_start_no_job_are_skipped() -> None:
    """A reservation opens its nodes."""
    shown = data_files.tables("fleet/states-of-slurm")
    assert {each: submission.skipped_of(NodeState("n", each, reason="fan")) for each in shown} == shown
    assert submission.skipped_of(NodeState("n", "down*", reason="Not responding")) == "down: Not responding"
    assert submission.skipped_of(NodeState("n", "maint"), reserved=True) == ""
    assert submission.skipped_of(NodeState("n", "drained"), reserved=True) == "drained"


def test_all_gpus_of_a_node_are_asked_for() -> None:
    shown = {
        "gpu:h100:8": "gpu:h100:8",
        "gpu:8(S:0-1)": "gpu:8",
        "gpu:a:4(S:0,1),gpu:b:2,nvme:1": "gpu:a:4,gpu:b:2",
        "": "",
    }
    assert {each: submission.gres_of(each) for each in shown} == shown


def test_output_of_sinfo() -> None:
    """A node is listed once for each partition; a reason may hold line breaks and bars."""
    lines = ["n1 idle gpu:8 all Unknown none", "n2 down* (null) gpu* 2026-11-20T01:00:00 a|b", "forged n3 idle"]
    text = "\n".join(line.replace(" ", "\x1f") if not line.startswith("forged") else line for line in lines)
    one, two = slurm.parse_nodes(text)
    assert (one.name, one.gres, one.reason, one.since) == ("n1", "gpu:8", "", None)
    assert (two.partition, two.reason) == ("", "a|b forged n3 idle")
    assert two.since is not None


def test_the_hour_that_is_repeated_in_autumn_is_the_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that began between the two was before the drain, and resumes nothing."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        (shown,) = slurm.parse_nodes("n1|drained||all|2026-10-25T02:30:00|[accel] x".replace("|", "\x1f"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert shown.since == datetime(2026, 10, 25, 1, 30, tzinfo=timezone.utc)


def test_a_full_queue_is_waited_for_and_other_refusals_are_not() -> None:
    limit = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, ...)"
    assert SlurmError(["sbatch"], limit).is_limit
    assert not SlurmError(["sbatch"], "sbatch: error: invalid partition specified: gpus").is_limit
    assert str(SlurmError(["sbatch", "-w", "n\x1b[1m"], "no\nway")) == "sbatch -w n\\x1b[1m: no way"


def test_without_a_list_a_report_says_what_it_cannot_know(tmp_path: Path) -> None:
    put(tmp_path / "node1", "node1", EARLY, Status.PASS)
    asked = request_of(Results(tmp_path))
    said = fleet_report.text(asked, of_all(asked, Results(tmp_path).read(), []), ",".join)
    assert "node1  NOT JUDGED" in said
    assert "a node that left no record is not in this report" in said


def put(folder: Path, host: str, started: str, status: Status) -> None:
    """Write the record of a run with one verdict."""
    folder.mkdir()
    verdicts = [Verdict("matmul.bf16", NODE, status)]
    made = Run({"host": host, "started": started}, verdicts=verdicts, telemetry={"file": "t", "sha256": "0"})
    made.state, made.closing = "finished", close(verdicts, Circumstances())
    write(made, folder)


def test_a_damaged_summary_is_made_up_for_by_the_record_and_hides_no_older_result(tmp_path: Path) -> None:
    def state_of_n() -> tuple[State, str]:
        results = Results(tmp_path)
        (one,) = of_all(fleet(ExpectedNode("n")), results.read(), [], unreadable=results.unreadable)
        return one.state, one.reason

    put(tmp_path / "n", "n", EARLY, Status.UNMEASURED)
    (tmp_path / "n/summary.json").unlink()
    put(tmp_path / "n-2", "n", LATE, Status.FAIL)
    (tmp_path / "n-2/summary.json").write_text('{"started":')
    assert state_of_n()[0] is State.REJECTED
    (tmp_path / "n-2/record.json").write_text("")
    assert state_of_n() == (State.NO_RESULT, "n-2/summary.json is damaged")
    put(tmp_path / "n-3", "n", datetime.now(timezone.utc).isoformat(), Status.FAIL)
    assert state_of_n()[0] is State.REJECTED, "what was repeated after the damage counts"
    (tmp_path / "other/record.json").mkdir(parents=True)
    assert [each.name for each in request_of(Results(tmp_path)).expected] == ["n", "other"]


def test_the_output_of_a_job_is_read_from_regular_files_alone(tmp_path: Path) -> None:
    log, other = tmp_path / "jobs/n-7.out", tmp_path / "other"
    log.parent.mkdir()
    other.write_text("first\nanother file\n")
    os.mkfifo(log)
    assert last_words(tmp_path, "n", "7") == ""
    log.unlink()
    log.symlink_to(other)
    assert last_words(tmp_path, "n", "7") == ""


def test_the_line_that_tells_the_cause_is_the_one_that_is_shown(tmp_path: Path) -> None:
    """What a run would have rejected does not say how it ended."""
    log = tmp_path / "jobs/n-7.out"
    log.parent.mkdir()
    usage = "pytest: error: unrecognized arguments: --x"
    full = "record: r.json (r could not be written: No space left on device)"
    shown = {
        f"ERROR: usage: pytest [options]\n{usage}\n  rootdir: /n": usage,
        f"{full}\n../test_own.py": full,
        "first\nlast": "last",
        f"HELD 3/3 limits\nsensitivity: {sentence({'memory': RejectedLosses(below=0.5)})}\n": "HELD 3/3 limits",
    }
    for output, said in shown.items():
        log.write_text(output)
        assert last_words(tmp_path, "n", "7") == said


# -- the report


def test_a_report_on_any_fleet_fits_a_page() -> None:
    """Ten thousand nodes, each with a reason of its own: every state is still seen."""
    kinds = list(State)
    nodes = [NodeResult(f"n{place}", kinds[place % len(kinds)], f"reason {place}") for place in range(10_000)]
    lines = fleet_report.text(fleet(), nodes, ",".join).splitlines()
    assert len(lines) <= fleet_report.MOST_LINES
    assert [line for line in lines if line.startswith("accepted")]
    assert all(any(line.startswith(each.value) for line in lines) for each in kinds)
    assert lines[0].startswith("rejected")
    assert len(fleet_report.markdown(fleet(), nodes, ",".join).splitlines()) <= fleet_report.MOST_LINES


def test_nodes_with_one_kind_of_reason_share_a_line() -> None:
    ended = "ended as NODE_FAIL without a record"
    full = "record: /tmp/accel-record-{1}/record.json (run/n{0} could not be written: No space left on device)"
    outputs = {1: full.format(1, "z8nwtdno"), 2: full.format(2, "q_ak7orz")}
    nodes = [NodeResult(f"n{at}", State.NO_RESULT, ended, job=str(at), output=said) for at, said in outputs.items()]
    nodes.append(NodeResult("n3", State.NO_RESULT, ended, job="3", output="slurmstepd: error: execve(): Killed"))
    assert fleet_report.text(fleet(), nodes, ",".join).splitlines()[:-1] == [
        f"no result   n1,n2  job {ended}; their output ends: {outputs[1]}",
        f"no result   n3  job 3 {ended}; its output ends: slurmstepd: error: execve(): Killed",
    ]


def test_a_forged_reason_stays_in_its_line_and_a_list_of_nodes_is_whole() -> None:
    names = [f"n{place:04}x" for place in range(500)]
    nodes = [NodeResult(name, State.NO_RESULT, "a\nACCEPTED | \x1b[1m") for name in names]
    line, _ = fleet_report.text(fleet(), nodes, ",".join).splitlines()
    assert ",".join(names) in line
    assert "\\|" in fleet_report.markdown(fleet(), nodes, ",".join)


def test_the_report_in_markdown_shows_markup_from_outside_as_text() -> None:
    forged = 'node1"><script>alert(1)</script>'
    asked = replace(fleet(), arguments=(f"-k={forged}",), others=(forged,))
    lines = fleet_report.markdown(asked, [NodeResult(forged, State.NO_RESULT, f"[{forged}](https://x)")], ",".join)

    assert ("<script" in lines, lines.count("&lt;script"), lines.count("]("), lines.count("\\](")) == (False, 4, 1, 1)


# -- draining

SLOW = Failure("A401", "gpu3", "matmul.bf16")


def rejected(*names: str, of_all_nodes: int = 0) -> list[NodeResult]:
    others = [NodeResult(f"ok{place}", State.ACCEPTED, "") for place in range(of_all_nodes - len(names))]
    return [*(NodeResult(name, State.REJECTED, "", result(LATE, exit=1)) for name in names), *others]


def test_a_reason_begins_with_its_essence() -> None:
    more = [SLOW, Failure("A401", "gpu3", "matmul.fp8"), Failure("A204", "gpu5", "health.remapped_uncorrectable")]
    reason = drain.reason_of(more)
    assert reason == "[accel] A401 gpu3 matmul.bf16 matmul.fp8; A204 gpu5 health.remapped_uncorrectable"
    assert reason[:20] == "[accel] A401 gpu3 ma"
    assert drain.metrics_of(reason) == {"matmul.bf16", "matmul.fp8", "health.remapped_uncorrectable"}
    long = drain.reason_of([Failure("A401", f"gpu{place}", "matmul.bf16") for place in range(64)])
    assert len(long) <= drain.REASON_CHARACTERS
    assert long.endswith("more")
    assert drain.is_cut(long)
    assert drain.metrics_of(long) == {"matmul.bf16"}


def test_a_reason_has_a_longest_length_and_cuts_no_metric() -> None:
    """Reasons fit however the metrics are spread over devices, and every one that is not named is counted."""
    for count in range(1, 40):
        names = [f"matmul.precision{place}" for place in range(count)]
        reason = drain.reason_of([*(Failure("A401", "gpu3", name) for name in names), Failure("A204", "gpu4", "pages")])
        assert len(reason) <= drain.REASON_CHARACTERS
        missing = {*names, "pages"} - drain.metrics_of(reason)
        assert drain.metrics_of(reason) <= {*names, "pages"}
        assert reason.endswith(f"; and {len(missing)} more") == drain.is_cut(reason) == bool(missing)
    assert len(drain.reason_of([Failure("A" * 60, "g" * 60, "m" * 60)] * 2, simulated=True)) <= drain.REASON_CHARACTERS


def test_only_rejected_nodes_without_a_reason_of_others_are_drained() -> None:
    nodes = rejected("bad", "theirs", "ours", "quiet", of_all_nodes=100)
    nodes += of(sick=State.NOT_JUDGED, lost=State.NO_RESULT)
    now = [NodeState("bad", "idle"), NodeState("theirs", "drained", reason="fan"), NodeState("sick", "idle")]
    now += [NodeState("ours", "drained", reason="[accel] A401 gpu0 x"), NodeState("quiet", "down*")]
    plan = drain.plan_of(nodes, {name: [SLOW] for name in ("bad", "theirs", "ours", "quiet")}, now, most=0.1)
    assert [step.command for step in plan.steps] == [
        ("scontrol", "update", "nodename=bad", "state=drain", "reason=[accel] A401 gpu3 matmul.bf16")
    ]
    assert [node for node, _ in plan.left] == ["theirs", "ours", "quiet"]


def test_a_step_is_not_taken_on_a_node_that_changed() -> None:
    idle, drained = NodeState("n", "idle"), NodeState("n", "drained", reason="[accel] x")
    same = [(idle, NodeState("n", "allocated")), (NodeState("n", "draining", reason="[accel] x"), drained)]
    other = [
        (idle, NodeState("n", "draining")),
        (idle, NodeState("n", "idle", reason="fan")),
        (idle, None),
        (drained, NodeState("n", "down*", reason="[accel] x")),
        (drained, NodeState("n", "drained", reason="fan")),
    ]
    assert [each for each in same if drain.changed(*each)] == []
    assert [each for each in other if not drain.changed(*each)] == []


def plan_for(
    wanted: int, ours: int, expected: int, ours_reason: str = "[accel] A401 gpu0 x", most: float = drain.MOST
) -> drain.DrainPlan:
    """The plan for so many newly rejected nodes of a fleet, of which others were drained in earlier nights."""
    bad, out = [f"bad{place}" for place in range(wanted)], [f"out{place}" for place in range(ours)]
    nodes = rejected(*bad, of_all_nodes=expected - ours)
    nodes += [NodeResult(name, State.SKIPPED, "drained") for name in out]
    failed = {name: [Failure("A401", f"gpu{place}", name) for place in range(number + 1)]
              for number, name in enumerate(bad)}  # fmt: skip
    now = [
        *(NodeState(name, "idle") for name in bad),
        *(NodeState(name, "drained", reason=ours_reason) for name in out),
    ]
    return drain.plan_of(nodes, failed, now, most)


def test_a_mass_drain_is_refused_also_over_several_nights() -> None:
    """Within the limit the nodes with the most broken limits are drained, and the others are named."""
    for (wanted, ours, expected), drained in {(5, 0, 100): 5, (3, 3, 100): 2, (3, 98, 2000): 2, (1, 0, 4): 1}.items():
        plan = plan_for(wanted, ours, expected)
        assert not plan.refused
        assert {step.node for step in plan.steps} == {f"bad{place}" for place in range(wanted - drained, wanted)}
        assert {node for node, _ in plan.left} == {f"bad{place}" for place in range(wanted - drained)}
        assert all(f"of which {ours} are drained by us already" in why for _, why in plan.left)
    refusals = {
        (6, 0, 100): "6 nodes would be drained, and at most 5 of 100 nodes may be (--most=0.05)",
        (6, 3, 100): "6 nodes would be drained",
        (1, 100, 2000): "and at most 100 of 2000 nodes may be (--most=0.05), of which 100 are",
        (1, 1, 4): "1 node would be drained, and at most 1 of 4 nodes may be (--most=0.05), of which 1 is",
    }
    assert [each for each, refused in refusals.items() if refused not in plan_for(*each).refused] == []
    allowing = {(6, 0, 100): "0.06", (6, 3, 100): "0.09", (1, 100, 2000): "0.0505", (7, 0, 30): "0.2334"}
    for each, most in allowing.items():
        assert plan_for(*each).refused.endswith(f"; --most={most} allows it")
        assert not plan_for(*each, most=float(most)).refused


def test_nodes_that_a_health_check_drained_do_not_stop_draining() -> None:
    plan = plan_for(1, 10, 100, "[accel] ERROR gpu3 A202 repair-pending: 1, not 0")
    assert ([step.node for step in plan.steps], plan.refused) == (["bad0"], "")


def test_the_age_of_a_rejection() -> None:
    """It is that of its end, and without one that of its start; at a time that is not known it drains no node."""
    noon = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    for ended, began, why in data_files.tables("fleet/ages"):
        said = drain.too_old(Run({"ended": ended}), began, noon, 86400.0)
        assert said.removeprefix("its run began ") == why
    assert drain.too_old(None, EARLY, noon, 1e9) == ""


def test_no_node_is_drained_for_a_limit_that_many_break() -> None:
    names = ["a", "b", "c", "d"]
    failed = {name: [SLOW] for name in names}
    failed["d"] = [SLOW, Failure("A204", "gpu1", "health.pages")]
    plan = drain.plan_of(rejected(*names, of_all_nodes=10), failed, [NodeState(name, "idle") for name in names], most=1)
    assert plan.doubtful == [
        "matmul.bf16 fails on 4 of 10 judged nodes: its limit is in doubt, so no node is drained for it"
    ]
    assert [(step.node, step.reason) for step in plan.steps] == [("d", "[accel] A204 gpu1 health.pages")]


def test_only_our_nodes_that_were_accepted_since_are_resumed() -> None:
    """And by a run that measured what they were drained for; one by a clock that is ahead may have begun before."""
    since = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
    held, again, simulated = (
        result(LATE, **more) for more in ({"result": Result.HELD}, {"exit": 1}, {"simulated": True})
    )
    matmul, copy = "[accel] A401 gpu3 matmul.bf16", "[accel] A401 gpu3 stream.copy"
    cut, repair = f"{matmul}; and 3 more", "[accel] ERROR gpu3 A202 repair-pending: 1, not 0"

    def plan(reason: str, newest: Summary, days: float = 2) -> drain.DrainPlan:
        node = NodeResult("n", State.ACCEPTED, "", newest) if newest.started != LATE else state(newest)
        now = [NodeState("n", "drained", reason=reason, since=since)]
        return drain.resume_plan([node], now, {"n": {"matmul.bf16"}}, since + timedelta(days))

    resumed = [(matmul, result(LATE)), (matmul, held), (cut, result(LATE)), (repair, result(LATE))]
    resumed.append(("[accel] simulated A401 gpu3 matmul.bf16", simulated))
    left = [("fan", result(LATE)), (matmul, result(EARLY)), (matmul, again), (matmul, simulated), (copy, held)]
    left += [(copy, result(LATE)), (cut, held), (repair, held), (repair, result(EARLY))]
    assert [each for each in resumed if [step.node for step in plan(*each).steps] != ["n"]] == []
    assert [each for each in left if plan(*each).steps] == []
    ahead = plan(matmul, result("2027-01-01T00:00:00+00:00"), 1 / 24)
    assert not ahead.steps
    assert "the later run began in the future, 2027-01-01T00:00:00+00:00" in ahead.left[0][1]


def judged(metric: str, status: Status, subject: str = "u3", **changes: Any) -> Verdict:
    return Verdict(metric, subject, status, limit=Limit(metric, ""), **changes)


WAIVER = Waiver("stream.copy", "known", "me", date(2099, 12, 31))


def test_what_an_accepted_node_measured_is_read_from_its_record() -> None:
    kinds = (Status.PASS, Status.MARGINAL, Status.FAIL, Status.UNMEASURED, Status.NOT_APPLICABLE)
    verdicts = [judged(name, status) for name, status in zip("abcde", kinds, strict=True)]
    run = Run({}, verdicts=[*verdicts, judged("f", Status.FAIL, waiver=WAIVER)])
    assert drain.measured(run) == {"a", "b", "f"}
    assert drain.held(run) == {"a", "b"}


def test_what_rejects_a_node_is_read_from_its_record() -> None:
    def finding(metric: str, code: str) -> FindingEntry:
        return {"metric": metric, "subject": "u3", "origin": "", "code": code, "name": "", "severity": "", "action": "",
                "do": "", "vendor": ""}  # fmt: skip

    verdicts = [
        judged("matmul.bf16", Status.FAIL),
        judged("stream.copy", Status.FAIL, waiver=WAIVER),
        judged("host.bad name", Status.FAIL, "node"),
        judged("soak.power", Status.MARGINAL),
    ]
    findings = [finding("matmul.bf16", "A401"), finding("soak.power", "A500")]
    run = Run({}, devices=[Device("u3", 3, "nvidia", "H100")], verdicts=verdicts, findings=findings)
    assert drain.failures(run) == [SLOW, Failure("", "node", "host.bad_name")]
    assert drain.failures(None) == []
    assert drain.held(None) == drain.measured(None) == set()
