"""A record that was changed: which change contradicts what, and what an honest record must not be accused of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pytest_accel.core.contradiction import Contradicts
from pytest_accel.judging.closing.contradictions import of_verdict

from pytest_accel.cli.main import main
from pytest_accel.core.measurement import NODE, Device, Measurement, Peak
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sku import ClassFloor, DeclaredBy, Limit, Source
from pytest_accel.core.stats import significant
from pytest_accel.core.verdict import Status
from pytest_accel.judging.causes.diagnosis import variation
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.judging.verdicts.limit import of_peak_of
from pytest_accel.probes.declare import declarations
from pytest_accel.run import record
from pytest_accel.run.record import FILE, TELEMETRY

Edit = Callable[[dict[str, Any]], object]

SOURCE = Source("measured", "us", "2026-11")
DEVICES = [
    Device(f"GPU-{place}", place, "nvidia", "Part", serial=f"16{place}", facts={"pcie_width": 16}) for place in range(2)
]
CLASS = ClassFloor(600.0, 0.6, 0.71, "row", "bf16 datasheet peak", "classes.yaml:1")
LIMIT = Limit(
    "matmul.bf16",
    "TFLOPS",
    floor=672.0,
    source=SOURCE,
    origin="marker of t",
    declared_by=DeclaredBy.MARKER,
    beneath=CLASS,
)
WORK = 1.0995
STARTED, ENDED = "2026-11-24T03:00:00+00:00", "2026-11-24T03:01:00+00:00"
AT = datetime.fromisoformat(STARTED).timestamp() + 10


def rate(uuid: str, *seconds: float) -> Measurement:
    """A product as it is measured, with its details."""
    samples = tuple(significant(WORK / each) for each in seconds)
    seconds = tuple(map(significant, seconds))
    bare = Measurement("matmul.bf16", uuid, "TFLOPS", None, samples, seconds, peak=Peak(989.4, "datasheet"))
    assert bare.estimate
    bare = replace(bare, value=bare.estimate.mean)
    of_peak, varied = of_peak_of(bare), variation(samples)
    assert of_peak is not None
    assert varied is not None
    return replace(
        bare, details={"of_peak": of_peak, "variation": varied, "ends": [*seconds]}, started=AT, ended=AT + 1
    )


def measurements(*first: float) -> list[Measurement]:
    return [
        rate("GPU-0", *first or (0.0015, 0.00151, 0.00149, 0.0015)),
        rate("GPU-1", 0.0019, 0.00191, 0.00189, 0.0019),
        rate("GPU-1", 0.0019, 0.00192, 0.00189, 0.0019),
        Measurement("health.pcie_width", "GPU-0", "count", 16),
        Measurement("all_reduce.busbw@8GiB", NODE, "GB/s", 470.0, details={"ranks": [470.0, 480.0]}),
        Measurement("counters.ecc_uncorrectable", "GPU-0", "count", 0, details={"windows": []}),
    ]


def rejected(tmp_path: Path, *first: float) -> Path:
    """The folder of a run of two devices, of which the second was measured twice and is slow.

    `first` are the durations of the blocks of the first device, in seconds.
    """
    found = measurements(*first)
    attempts = [[found[0]], found[1:3]]
    verdicts = [judge(each, LIMIT) for each in attempts]
    around = Circumstances(
        required=[each.key for each in verdicts], names={"GPU-0": "gpu0", "GPU-1": "gpu1"}, expected_devices=2
    )
    folder = tmp_path / "rec"
    folder.mkdir()
    (folder / TELEMETRY).write_text('{"uuid": "GPU-0"}\n')
    whole = Run(
        run={"started": STARTED, "ended": ENDED, "level": "quick", "platform": "single"},
        devices=DEVICES,
        measurements=found,
        verdicts=verdicts,
        telemetry={"file": TELEMETRY, "sha256": record.hash_file(folder / TELEMETRY)},
        state="finished",
        circumstances=around,
        closing=close(verdicts, around),
    )
    record.write(whole, folder)
    return folder


def edited(folder: Path, edit: Edit, *, sealed: bool = True) -> list[str]:
    """What contradicts what after an edit; by default of somebody who computes the hash of the record anew."""
    raw = json.loads((folder / FILE).read_text())
    edit(raw)
    if sealed:
        raw["sha256"] = record.seal(raw)
    (folder / FILE).write_text(json.dumps(raw))
    return list(map(str, record.read(folder / FILE).contradictions))


def put(path: str, value: object) -> Edit:
    """Put `value` at a path such as "verdicts.1.status"."""

    def edit(raw: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = raw
        for key in way:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(last) if isinstance(place, list) else last] = value

    return edit


def scaled(raw: dict[str, Any]) -> None:
    """The slow device's samples and values made good, but nothing else."""
    for each in raw["measurements"][1:3]:
        each["samples"] = [sample * 1.5 for sample in each["samples"]]
        each["value"] *= 1.5


def one_sample_left(raw: dict[str, Any]) -> None:
    each = raw["measurements"][1]
    each["samples"], each["seconds"], each["value"] = each["samples"][:1], each["seconds"][:1], each["samples"][0]


def other_level(raw: dict[str, Any]) -> None:
    raw["circumstances"].update(level="standard", sku="h100-sxm")
    raw["sku"] = {"name": "h200-sxm"}


def nothing_required(raw: dict[str, Any]) -> None:
    raw["circumstances"].update(level="quick", required=[])
    raw["limits"][0]["declared_by"] = DeclaredBy.SKU_FILE.value


def twins(raw: dict[str, Any]) -> None:
    raw["measurements"][0]["samples"] = raw["measurements"][1]["samples"] = [600.0, 601.0, 602.0, 603.0, 604.0]


def without_triad(raw: dict[str, Any]) -> None:
    """The verdicts of an acceptance on all that the suite asks for, but one metric."""
    asked = {one for each in declarations() for one in [*each.asked()] or each.forms[:1]} - {"stream.triad"}
    raw["verdicts"] += [{"metric": each, "subject": NODE, "status": "NOT APPLICABLE"} for each in asked]
    accepted(raw)


def suite(raw: dict[str, Any]) -> None:
    """The verdicts of an acceptance, of which one device lacks a metric and the node most."""
    raw["verdicts"].append({**raw["verdicts"][0], "metric": "host.a"})
    accepted(raw)


def passed(raw: dict[str, Any]) -> None:
    raw["verdicts"][1]["status"] = "PASS"


def advisory(raw: dict[str, Any]) -> None:
    """The slow device made good by a limit that only advises, although it is below the floor of its class."""
    raw["verdicts"][1].update(status="MARGINAL", advisory=["another shape"])


def accepted(raw: dict[str, Any]) -> None:
    raw["closing"] = {"line": "ACCEPTED 2/2 devices", "exit": 0, "word": "ACCEPTED"}


def cut(raw: dict[str, Any]) -> None:
    accepted(raw)
    del raw["verdicts"][1]


def bare(raw: dict[str, Any]) -> None:
    cut(raw)
    raw["circumstances"] = None


def without_the_first_attempt(raw: dict[str, Any]) -> None:
    del raw["measurements"][1]


EDITS: dict[str, tuple[Edit, str]] = {
    "value": (
        put("measurements.1.value", 732.0),
        "gpu1 matmul.bf16: the value is 732 TFLOPS, but 578.7 TFLOPS by its samples",
    ),
    "sample": (put("measurements.1.samples.0", 900.0), "gpu1 matmul.bf16: the value is 578.7 TFLOPS, but"),
    "samples and value": (scaled, "gpu1 matmul.bf16: of_peak is 0.5849, but 0.8773 by the samples"),
    "all samples but one": (one_sample_left, "gpu1 matmul.bf16: 1 samples are left of 4"),
    "durations": (put("measurements.1.seconds.0", 0.0015), "gpu1 matmul.bf16: the samples do not follow from their"),
    "a duration less": (
        put("measurements.1.seconds", [0.0015]),
        "gpu1 matmul.bf16: the samples do not follow from their durations",
    ),
    "fact": (put("measurements.3.value", 8), "gpu0 health.pcie_width: the value is 8, but the device states 16"),
    "fact of the device": (put("devices.0.facts.pcie_width", 8), "the value is 16, but the device states 8"),
    "rank": (put("measurements.4.value", 479.0), "node all_reduce.busbw@8GiB: the value is that of no rank"),
    "counter": (
        put("measurements.5.value", 1),
        "counters.ecc_uncorrectable: the value is 1, but the counter increased",
    ),
    "status": (passed, "gpu1 matmul.bf16: the verdict is PASS, but the limit is broken by 577.9 TFLOPS"),
    "advice": (advisory, "gpu1 matmul.bf16: the verdict is MARGINAL, but 577.9 TFLOPS is below its class floor"),
    "status of a good device": (
        put("verdicts.0.status", "FAIL"),
        "gpu0 matmul.bf16: the verdict is FAIL, though every",
    ),
    "value of a verdict": (
        put("verdicts.1.value", 700.0),
        "gpu1 matmul.bf16: the verdict is on 700 TFLOPS, which was not",
    ),
    "floor": (put("verdicts.1.floor", 500.0), "the bounds of the verdict are not those of its limit"),
    "limit": (put("limits.0.floor", 500.0), "the bounds of the verdict are not those of its limit"),
    "margin": (put("verdicts.1.margin", 0.1), "the margin is 0.1, but -0.14 by value and limit"),
    "first attempt": (without_the_first_attempt, "the verdict is on 2 attempts, of which the record holds 1"),
    "closing": (accepted, "the run closed as ACCEPTED with exit status 0, but what it holds closes as REJECTED gpu1"),
    "failing verdict and closing": (cut, "but what it holds closes as NOT JUDGED 1/1 limits hold; no verdict on gpu1"),
    "closing without circumstances": (bare, "but what it holds closes as NOT JUDGED nothing was measured against"),
    "exit status": (put("closing.exit", 0), "the run closed as REJECTED with exit status 0, but what it holds closes"),
    "closing line": (put("closing.line", "ACCEPTED 2/2"), "the closing line does not say its result, REJECTED"),
    "no closing": (put("closing", {}), "the run has ended, but there is no closing line"),
    "device": (put("devices.1.uuid", "GPU-7"), "it speaks of GPU-1, which is not among its devices"),
    "names": (
        put("circumstances.names", {"GPU-0": "gpu1"}),
        "gpu0 is gpu1 in the circumstances",
    ),
    "one UUID twice": (put("devices.1.uuid", "GPU-0"), "two devices have the same UUID or name"),
    "a fact of another kind": (put("devices.0.facts.pcie_width", {"a": [1]}), "health.pcie_width: the value is 16"),
    "no telemetry": (put("telemetry", {}), "the record of a finished run states no hash of its telemetry"),
    "simulated device": (
        put("devices.0.serial", "SIM00000000"),
        "by gpu0 the node was simulated, and by the run",
    ),
    "simulated UUID": (put("devices.0.uuid", "GPU-51000000-5513-4e3e"), "by gpu0 the node was simulated"),
    "simulated circumstances": (
        put("circumstances.simulated", True),
        "by the circumstances the node was simulated",
    ),
    "simulated run": (put("run.simulated", {"node": "a.yaml"}), "by the run the node was simulated"),
    "simulated line": (
        put("closing.line", "SIMULATED REJECTED gpu1"),
        "by the closing line the node was simulated",
    ),
    "simulated measurement": (
        put("measurements.3.simulated", True),
        "by gpu0 health.pcie_width the node was simulated",
    ),
    "other samples": (twins, "gpu1 matmul.bf16: its samples are those of gpu0"),
    "another day": (put("run.started", "2026-11-24T04:00:00+00:00"), "gpu0 matmul.bf16: it was measured outside the"),
    "end of another day": (
        put("run.ended", "2026-11-24T02:00:00+00:00"),
        "it was measured outside the time of the",
    ),
    "telemetry elsewhere": (put("telemetry.file", "../telemetry.jsonl"), "../telemetry.jsonl would not lie beside the"),
    "level": (other_level, "the run states the level quick, and its circumstances standard"),
    "SKU": (other_level, "the run states the SKU h200-sxm, and its circumstances h100-sxm"),
    "nothing required": (nothing_required, "gpu0 matmul.bf16: the limit is required, and not among those that"),
    "no time of a measurement": (put("measurements.0.started", 0.0), "gpu0 matmul.bf16: it was measured outside the"),
    "suite": (suite, "node: the node was accepted without a verdict on collective, collective_latency"),
    "a metric less on all devices": (without_triad, "node: the node was accepted without a verdict on stream.triad"),
    "a metric less": (suite, "gpu1: the node was accepted without a verdict on host.a"),
}


def test_the_record_of_a_run_is_consistent(tmp_path: Path) -> None:
    saved = record.read(rejected(tmp_path) / FILE)
    assert saved.contradictions == ()


def test_rounding_is_no_contradiction(tmp_path: Path) -> None:
    """Samples and durations are rounded to seven digits, which changes a number just above a power of ten the most."""
    folder = rejected(tmp_path, *(0.00100000001 + place * 1.37e-9 for place in range(300)))
    assert record.read(folder / FILE).contradictions == ()


@pytest.mark.parametrize(("edit", "says"), EDITS.values(), ids=EDITS)
def test_a_change_that_is_not_carried_through_is_named(tmp_path: Path, edit: Edit, says: str) -> None:
    found = edited(rejected(tmp_path), edit)
    assert any(says in each for each in found), found


def one_accepted(raw: dict[str, Any]) -> None:
    """The node as one of one device, which is accepted."""
    raw["devices"], raw["verdicts"] = raw["devices"][:1], raw["verdicts"][:1]
    raw["measurements"] = [each for each in raw["measurements"] if each["subject"] == "GPU-0"]
    raw["circumstances"].update(required=raw["circumstances"]["required"][:1], names={}, expected_devices=1)
    raw["closing"] = {"line": "ACCEPTED 1/1 devices (products by class floors)", "exit": 0, "word": "ACCEPTED"}


ACCEPTED: dict[str, tuple[Edit, str]] = {
    "line": (put("closing.line", "ACCEPTED 8/8 devices"), "but what it holds closes as ACCEPTED 1/1 devices"),
    "count": (put("circumstances.expected_devices", 8), "the run states the number of devices 1, and its"),
    "no end": (lambda raw: raw["run"].pop("ended"), "by a run that does not state when it began and ended"),
}


@pytest.mark.parametrize(("edit", "says"), ACCEPTED.values(), ids=ACCEPTED)
def test_an_acceptance_is_of_what_the_record_holds(tmp_path: Path, edit: Edit, says: str) -> None:
    folder = rejected(tmp_path)
    assert {each.split(":")[0] for each in edited(folder, one_accepted)} == {"node"}, "but the rest of the suite"
    assert any(says in each for each in edited(folder, edit))


def test_telemetry_of_no_device(tmp_path: Path) -> None:
    folder = rejected(tmp_path)
    edited(folder, one_accepted)
    (folder / TELEMETRY).write_text("\0" * 1000)
    found = edited(folder, put("telemetry.sha256", record.hash_file(folder / TELEMETRY)))
    assert f"{folder / TELEMETRY} holds no readings of the devices" in found


def test_copies_between_all_devices_have_the_samples_of_the_node(tmp_path: Path) -> None:
    def edit(raw: dict[str, Any]) -> None:
        twins(raw)
        for each in raw["measurements"][:2]:
            each["metric"] = "peer_copy_all.rounds"

    assert not [each for each in edited(rejected(tmp_path), edit) if "its samples are those of" in each]


def test_a_users_probe_may_give_a_value_of_its_own(tmp_path: Path) -> None:
    """Such as the slowest of its samples."""

    def edit(raw: dict[str, Any]) -> None:
        raw["measurements"].append({**raw["measurements"][0], "metric": "mine", "value": 1.0})

    assert edited(rejected(tmp_path), edit) == []


def test_any_change_shows_in_the_hash(tmp_path: Path) -> None:
    (found,) = edited(rejected(tmp_path), put("notes", ["it was fine"]), sealed=False)
    assert found.startswith("the record was changed after it was written: its hash is ")


def test_a_record_without_its_hash(tmp_path: Path) -> None:
    folder = rejected(tmp_path)
    assert edited(folder, lambda raw: raw.pop("sha256"), sealed=False) == ["the record states no hash of itself"]


def test_telemetry_that_was_changed(tmp_path: Path) -> None:
    folder = rejected(tmp_path)
    (folder / TELEMETRY).write_text("{}\n{}\n")
    (found,) = record.read(folder / FILE).contradictions
    assert (found.kind, found.said) == (Contradicts.FILE, str(folder / TELEMETRY))


def test_telemetry_of_other_devices(tmp_path: Path) -> None:
    """Its hash is computed anew: the first readings of the file tell."""
    folder = rejected(tmp_path)
    (folder / TELEMETRY).write_text('{"uuid": "GPU-0"}\n{"uuid": "GPU-9"}\n')
    (found,) = edited(folder, put("telemetry.sha256", record.hash_file(folder / TELEMETRY)))
    assert found == "the telemetry: it speaks of GPU-9, which is not among its devices"


def test_a_record_that_was_sent_without_its_telemetry_is_no_contradiction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rejected(tmp_path)
    (folder / TELEMETRY).unlink()
    assert record.read(folder / FILE).contradictions == ()
    assert main(["judge", str(folder)]) == 1
    assert "record: consistent; not verified: telemetry.jsonl is not there\n" in capsys.readouterr().out


def test_the_command_says_consistent_with_the_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = rejected(tmp_path)
    stated = json.loads((folder / FILE).read_text())["sha256"]
    assert main(["judge", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "record: consistent\n" in out
    assert f"sha256: {stated}, not signed\n" in out


def test_the_command_ends_with_a_status_that_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither an acceptance nor a rejection follows from such a record, and nothing is written from it."""
    folder = rejected(tmp_path)
    edited(folder, put("measurements.1.value", 732.0))
    assert main(["judge", str(folder), "--output", str(tmp_path / "new")]) == 6
    out = capsys.readouterr().out
    assert "contradiction: gpu1 matmul.bf16: the value is 732 TFLOPS, but 578.7 TFLOPS by its samples" in out
    assert "JUDGED AGAIN NOT JUDGED the record contradicts itself: gpu1 matmul.bf16: the value is 732" in out
    assert not (tmp_path / "new").exists()


def test_judged_from_a_record_that_has_changed_since(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = rejected(tmp_path)
    main(["judge", str(folder), "--output", str(tmp_path / "new")])
    assert main(["judge", str(tmp_path / "new")]) == 1
    raw = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps(raw))
    assert main(["judge", str(tmp_path / "new")]) == 6
    assert f"contradiction: {folder / FILE} was changed" in capsys.readouterr().out


@pytest.mark.parametrize("place", [1, -1, True, "0", 0.5, [], {}])
def test_a_limit_that_the_record_does_not_hold(tmp_path: Path, place: object) -> None:
    with pytest.raises(record.BadRecord, match=r"verdicts\[1\].limit is .*, not a place in 'limits'"):
        edited(rejected(tmp_path), put("verdicts.1.limit", place))


def test_the_hash_is_that_of_the_canonical_json(tmp_path: Path) -> None:
    raw = json.loads((rejected(tmp_path) / FILE).read_text())
    stated = raw.pop("sha256")
    assert hashlib.sha256(json.dumps(raw, sort_keys=True, separators=(",", ":")).encode()).hexdigest() == stated


@pytest.mark.parametrize(("value", "broken"), [("96.00.74", False), ("96.00.99", True)])
def test_a_value_that_is_not_listed_breaks_its_limit(value: str, broken: bool) -> None:
    limit = Limit("inventory.vbios", "text", one_of=("96.00.74", "96.00.89"), source=SOURCE)
    fact = Measurement(limit.metric, "GPU-0", "text", value)
    passed = replace(judge([fact], limit), status=Status.PASS)
    found = [kind for kind, *_ in of_verdict(passed, [fact])]
    assert found == [Contradicts.BROKEN] * broken
