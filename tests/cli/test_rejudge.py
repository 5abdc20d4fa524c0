"""Judging a saved record again: limits may be exchanged, what forbade an acceptance may not."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.cli.rejudge import judge_again
from pytest_accel.core import structured
from pytest_accel.core.details import Details
from pytest_accel.core.measurement import NODE, Device, Measurement, Peak, Trouble
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Circumstances, Objection, ObjectionKind, Run
from pytest_accel.core.sku_types import Datasheet, DeclaredBy, Limit, Platform, Sku, Source
from pytest_accel.core.verdict import Status, Verdict, Waiver
from pytest_accel.judging.records.differences import judged_otherwise
from pytest_accel.run import record
from pytest_accel.run.record import FILE, write
from pytest_accel.run.terms import Terms
from pytest_accel.skus.packing_list import PackingList, parse

SOURCE = Source("measured", "us", "2026-11", nodes=3)
DEVICE = Device("GPU-0", 0, "nvidia", "Part", memory_bytes=80 * 10**9, pci_id="10de:2330")
VALUES = {
    "matmul.bf16": ("TFLOPS", 700.0),
    "stream.copy": ("GB/s", 2900.0),
    "host_copy.h2d": ("GB/s", 52.0),
    "soak.rate": ("TFLOPS", 680.0),
    "health.links": ("count", 18),
}

OWN = "matmul, memory, host link by own floors of 2026-11, 3 nodes"


def limit(metric: str, floor: float, **changed: Any) -> Limit:
    fields = {"unit": VALUES[metric][0], "floor": floor, "source": SOURCE, "origin": f"part.yaml:{len(metric)}"}
    return Limit(metric, **{**fields, **changed})


def sku(**changed: Any) -> Sku:
    """A product that one can be accepted against, with floors 10 % under what the record holds."""
    limits = {metric: limit(metric, 0.9 * value) for metric, (_, value) in VALUES.items()}
    fields: dict[str, Any] = {
        "name": "part",
        "title": "Part",
        "vendor": "nvidia",
        "match": {"names": ["Part"]},
        "datasheet": Datasheet(tflops={"bf16": 1000.0}),
        "limits": limits,
        "platforms": {"single": Platform("single", 1), "hgx2": Platform("hgx2", 2)},
        "probes": {},
        "budgets": {},
        "not_applicable": {},
        "files": {"part.yaml": "a" * 64},
    }
    return Sku(**{**fields, **changed})


def with_limits(**floors: float) -> Sku:
    """`matmul_bf16=650` puts another floor in place of the file's."""
    changed = {name.replace("_bf16", ".bf16"): floor for name, floor in floors.items()}
    return sku(limits={**sku().limits, **{metric: limit(metric, floor) for metric, floor in changed.items()}})


def terms(of: Sku, platform: str = "single", level: str = "standard") -> Terms:
    return Terms(of, of.platforms[platform], level)


def measured() -> list[Measurement]:
    found = [
        Measurement("inventory.driver", NODE, "text", "ok"),
        Measurement("inventory.count", NODE, "count", 1),
        Measurement("inventory.sku", "GPU-0", "text", "part"),
    ]
    return found + [Measurement(metric, "GPU-0", unit, value) for metric, (unit, value) in VALUES.items()]


def ran(**changed: Any) -> Run:
    """The record of a run that was accepted."""
    bare = Run(
        info={"level": "standard", "platform": "single"},
        sku={"name": "part", "asked": "part", "files": {"part.yaml": "a" * 64}},
        devices=[DEVICE],
        software={"nccl": "2.16.2"},
        measurements=measured(),
        state="finished",
        circumstances=Circumstances(
            against=[], broken_tests=[], failed_tests=[], rejected_before=[], other_datasheet=[]
        ),
    )
    return replace(judge_again(bare, terms(sku())), **changed)


def word(record: Run) -> str:
    return record.closing.result.value if record.closing.result else ""


def status(record: Run, metric: str) -> Status:
    (found,) = [each.status for each in record.verdicts if each.metric == metric]
    return found


def test_unchanged_terms_change_nothing() -> None:
    old = ran()
    new = judge_again(old, terms(sku()))
    assert new.closing.line == (f"JUDGED AGAIN ACCEPTED 1/1 devices as part at standard ({OWN})")
    assert judged_otherwise(old, new) == []
    assert new.verdicts == old.verdicts


def test_another_floor_changes_its_verdict_alone() -> None:
    old = ran()
    new = judge_again(old, terms(with_limits(matmul_bf16=750)))
    change, result = judged_otherwise(old, new)
    assert (change.item, change.before[:5], change.after[:5]) == ("matmul.bf16", "PASS ", "FAIL ")
    assert (result.item, result.before, result.after) == ("result", "ACCEPTED", "REJECTED")
    assert (word(new), new.closing.exit) == ("REJECTED", 1)
    assert word(judge_again(new, terms(sku()))) == "ACCEPTED", "a corrected floor clears it"


@each_row("case", data_files.tables("cli/circumstances"))
def test_what_the_run_was_still_counts_and_what_is_not_known_accepts_nothing(case: dict[str, Any]) -> None:
    around = {"circumstances": structured.structure(Circumstances, case["around"])} if "around" in case else {}
    new = judge_again(ran(**around, **case.get("run", {})), terms(sku()))
    assert new.closing.line.startswith(f"JUDGED AGAIN {case['line']}")


@pytest.mark.parametrize("kind", ["unasked", "tests"])
def test_who_names_a_sku_asks_for_an_acceptance_that_nobody_asked_the_run_for(kind: ObjectionKind) -> None:
    then = ran(circumstances=Circumstances(against=[Objection(kind, "SKU part was recognised, not named")]))
    unnamed, named = (judge_again(then, replace(terms(sku()), sku_named=named)) for named in (False, True))
    assert (unnamed.closing.exit, named.closing.exit) == (0, 6)
    assert unnamed.closing.line == named.closing.line


def test_an_override_of_the_run_is_still_counted() -> None:
    own = sku(limits={**sku().limits, "matmul.bf16": limit("matmul.bf16", 600.0, overridden=True)})
    new = judge_again(judge_again(ran(), terms(own)), terms(sku()))
    assert new.closing.line.endswith(f"ACCEPTED 1/1 devices as part at standard ({OWN}; 1 limit overridden)")


def test_a_limit_that_another_file_requires_nowhere_is_counted() -> None:
    own = sku(limits={**sku().limits, "health.links": limit("health.links", 1.0, levels=(), overridden=True)})
    own = replace(own, limits={**own.limits, "health.ecc": replace(limit("health.links", 9.0), metric="health.ecc")})
    record = ran(measurements=[*measured(), Measurement("health.ecc", "GPU-0", "count", 18)])
    assert judge_again(record, terms(own)).closing.line.endswith(
        f"ACCEPTED 1/1 devices as part at standard ({OWN}; 1 limit overridden)"
    )


@pytest.mark.parametrize(("dtype", "status_"), [("bf16", Status.PASS), ("fp16", Status.UNMEASURED)])
def test_a_condition_that_contradicts_the_metric_is_not_judged(dtype: str, status_: Status) -> None:
    measurements = [
        replace(each, conditions={"dtype": dtype}) if each.metric == "matmul.bf16" else each for each in measured()
    ]
    assert status(judge_again(ran(measurements=measurements), terms(sku())), "matmul.bf16") is status_


def test_missing_devices_and_missing_metrics_are_not_judged() -> None:
    assert word(judge_again(ran(), terms(sku(), "hgx2"))) == "REJECTED"  # inventory.count is 1 of 2
    more = sku(limits={**sku().limits, "stream.read": replace(limit("stream.copy", 1.0), metric="stream.read")})
    new = judge_again(ran(), terms(more))
    assert new.closing.line.endswith("no verdict on gpu0 stream.read")


def test_which_product_a_device_is_is_asked_again() -> None:
    """A file of one's own has another name for the same product; another product is another product."""
    ours = sku(name="ours")
    assert word(judge_again(ran(), terms(ours))) == "ACCEPTED"
    other = sku(match={"names": ["Other"]})
    new = judge_again(ran(), terms(other))
    assert (word(new), status(new, "inventory.sku")) == ("REJECTED", Status.FAIL)
    assert status(new, "matmul.bf16") is Status.UNMEASURED


def test_a_fact_of_the_host_is_judged_where_a_file_limits_it() -> None:
    old = ran(measurements=[*measured(), Measurement("host.smt", NODE, "text", "on")])
    assert judge_again(old, terms(sku())).verdicts == old.verdicts
    smt = Limit("host.smt", "text", equals="off", source=SOURCE, origin="part.yaml:9")
    new = judge_again(old, terms(sku(limits={**sku().limits, smt.metric: smt})))
    assert status(new, smt.metric) is Status.FAIL


def test_limits_for_another_shape_say_nothing() -> None:
    measurements = [replace(each, conditions={"m": 1024}) if each.unit == "TFLOPS" else each for each in measured()]
    new = judge_again(ran(measurements=measurements), terms(sku()))
    assert status(new, "matmul.bf16") is Status.UNMEASURED
    assert "measured with m=1024, but the limits of part are for m=8192" in new.closing.line
    same = sku(probes={"matmul": {"m": 1024}, "soak": {"m": 1024}})
    assert word(judge_again(ran(measurements=measurements), terms(same))) == "ACCEPTED"


def test_the_limits_of_a_test_stay_and_are_not_the_files() -> None:
    marker = Limit("matmul.bf16@m=64", "TFLOPS", floor=100.0, origin="test_x", declared_by=DeclaredBy.MARKER)
    held = Verdict(marker.metric, "GPU-0", Status.PASS, limit=marker)
    old = ran()
    old = replace(
        old,
        verdicts=[*old.verdicts, held],
        measurements=[*measured(), Measurement(marker.metric, "GPU-0", "TFLOPS", 50.0)],
    )
    new = judge_again(old, terms(sku()))
    assert status(new, marker.metric) is Status.FAIL
    assert new.verdicts[-1].limit == marker


def test_a_fraction_is_held_against_the_datasheet_of_today_or_a_peak_that_was_measured_beside() -> None:
    half = sku(limits={**sku().limits, "matmul.bf16": limit("matmul.bf16", 0.5, unit="of peak")})
    corrected = terms(replace(half, datasheet=Datasheet(tflops={"bf16": 2000.0})))
    old = judge_again(ran(), terms(half))
    assert status(old, "matmul.bf16") is Status.PASS
    assert status(judge_again(old, corrected), "matmul.bf16") is Status.FAIL
    beside: dict[str, Any] = {"peak": Peak(1000.0, "measured in alternation", (1000.0,) * 4), "samples": (700.0,) * 4}
    measurements = [replace(each, **beside) if each.metric == "matmul.bf16" else each for each in measured()]
    old = judge_again(ran(measurements=measurements), terms(half))
    assert judge_again(old, corrected).verdicts == old.verdicts


def test_a_power_is_held_against_the_limit_that_was_in_force_in_the_run() -> None:
    bound = Limit("soak.power", "of peak", floor=0.9, warns=True, source=SOURCE)
    reached = Measurement("soak.power", "GPU-0", "W", 390.0, peak=Peak(400.0, "the power limit in force"))
    old = ran(measurements=[*measured(), reached])
    new = judge_again(old, terms(sku(limits={**sku().limits, "soak.power": bound})))
    assert status(new, "soak.power") is Status.PASS
    tighter = sku(limits={**sku().limits, "soak.power": replace(bound, floor=0.98)})
    assert status(judge_again(old, terms(tighter)), "soak.power") is Status.MARGINAL


def test_a_device_that_was_lost_stays_lost() -> None:
    lost = Trouble("device", "its worker process died")
    measurements = [replace(each, trouble=lost) if each.metric == "soak.rate" else each for each in measured()]
    new = judge_again(ran(measurements=measurements), terms(with_limits(matmul_bf16=1)))
    assert (word(new), status(new, "soak.rate")) == ("REJECTED", Status.FAIL)


def test_software_of_the_record_counts() -> None:
    narrow = sku(limits={**sku().limits, "matmul.bf16": limit("matmul.bf16", 750.0, software={"nccl": ">=2.18"})})
    new = judge_again(ran(), terms(narrow))
    assert (word(new), new.closing.exit, status(new, "matmul.bf16")) == ("HELD", 6, Status.NOT_APPLICABLE)
    assert "part has no floor in force at level standard for matrix units" in new.closing.line


def test_files_that_changed() -> None:
    then, now = {"a.yaml": "1" * 64, "b.yaml": "2" * 64, "c.yaml": "3" * 64}, {"a.yaml": "1" * 64, "b.yaml": "4" * 64}
    found = judged_otherwise(replace(ran(), sku={"files": then}), replace(ran(), sku={"files": now}))
    assert [(each.item, each.before, each.after) for each in found] == [
        ("file b.yaml", "222222222222", "444444444444"), ("file c.yaml", "333333333333", "not stated"),
    ]  # fmt: skip


WAIVER = Waiver("matmul.bf16", "agreed with the supplier", "us", date(2026, 12, 31))


def test_the_waiver_of_the_run_covers_what_it_covered_and_nothing_else() -> None:
    old = judge_again(ran(), terms(with_limits(matmul_bf16=750)))
    waived = replace(
        old,
        verdicts=[
            replace(each, waiver=WAIVER) if each.limit and each.limit.metric == WAIVER.limit else each
            for each in old.verdicts
        ],
    )
    assert judge_again(waived, terms(with_limits(matmul_bf16=760))).closing.line.endswith(
        f"as part at standard ({OWN}; 1 waiver: gpu0 matmul.bf16 -7.9% by us until 2026-12-31, for all devices)"
    )
    assert "waiver" not in judge_again(waived, terms(sku())).closing.line
    assert word(judge_again(old, terms(with_limits(matmul_bf16=760)))) == "REJECTED"


# -- reading a record back


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    own: Details = {"own": {"rows": [1, {"a": None}]}}
    strange = Measurement(
        "a",
        "GPU-0",
        "s",
        float("inf"),
        (1.0, -float("inf")),
        trouble=Trouble("need", "x"),
        details=own,
        notes=(Note("at", "p0"),),
        on_all={"gpu0": float("inf")},
    )
    old = ran(measurements=[*measured(), strange])
    old.verdicts[-1] = replace(old.verdicts[-1], waiver=WAIVER)
    write(old, tmp_path)
    assert record.read(tmp_path / FILE) == old


def test_details_that_this_version_does_not_know_are_kept(tmp_path: Path) -> None:
    """A user's probe may have written such details."""
    write(ran(), tmp_path)
    path = tmp_path / FILE
    text = path.read_text()
    path.write_text(text.replace('"metric": ', '"details": {"rows read": [1, 2]}, "metric": ', 1))
    assert dict(record.read(path).measurements[0].details) == {"rows read": [1, 2]}


@each_row(("old", "new", "says"), data_files.tables("cli/record-mistakes"))
def test_what_is_wrong_with_a_record_is_said_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    write(ran(), tmp_path)
    path = tmp_path / FILE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(record.BadRecord) as bad:
        record.read(path)
    assert str(bad.value).startswith(f"{path}:")
    assert says in str(bad.value)
    assert "\n" not in str(bad.value)


# -- the packing list


def by_list(text: str, record: Run | None = None) -> Run:
    """Return the record of an accepted run on n1, judged by a packing list."""
    old = ran()
    old = record or replace(old, devices=[replace(DEVICE, serial="165")], info={**old.info, "host": "n1"})
    boards = PackingList("delivery.csv", "5ha", tuple(parse(text, "delivery.csv")))
    return judge_again(old, terms(sku()), boards)


def test_a_packing_list_that_the_run_did_not_have_is_demanded() -> None:
    whole = by_list("serial,node\n165,n1\n")
    assert word(whole) == "ACCEPTED"
    assert (status(whole, "inventory.serial"), status(whole, "inventory.packing_list")) == (Status.PASS, Status.PASS)
    assert whole.packing_list == {"file": "delivery.csv", "sha256": "5ha", "boards": 1, "names_nodes": True}
    for text, metric in (
        ("serial\n7\n", "inventory.serial"),
        ("serial,node\n165,n2\n7,n1\n", "inventory.serial"),
        ("serial,node\n165,n1\n7,n1\n", "inventory.packing_list"),
    ):
        other = by_list(text)
        assert (word(other), status(other, metric)) == ("REJECTED", Status.FAIL)


def test_another_packing_list_leaves_nothing_of_the_one_before() -> None:
    rejected = by_list("serial,node\n7,n1\n")
    assert word(rejected) == "REJECTED"
    again = by_list("serial\n165\n", rejected)
    assert word(again) == "ACCEPTED"
    assert not [each for each in again.verdicts if each.metric == "inventory.packing_list"]
    assert word(judge_again(again, terms(sku()))) == "ACCEPTED"  # now its list is that of the record
    assert word(judge_again(rejected, terms(sku()))) == "REJECTED"
