"""What a verdict says in words: one sentence for each kind of reason, and how reasons are joined.

`sentences.golden` holds them; to write it anew after a change of wording:
PYTHONPATH=tests python tests/core/test_sentences.py.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.data_files import content
from support.rows import each_row

from pytest_accel.core import reasons, structured
from pytest_accel.core.reasons import NOTES, Note, Reason
from pytest_accel.core.sentences import details, headline, note_of, sentence_of
from pytest_accel.core.sku_types import Basis, Limit
from pytest_accel.core.verdict import Comparison, Status, Verdict

GOLDEN = Path(__file__).with_name("sentences.golden")
SHORT = Verdict("stream.triad", "GPU-0", Status.FAIL, unit="GB/s", value=2500.0, floor=2700.0, margin=-0.0741)
FACT = Verdict("inventory.vbios", "GPU-0", Status.FAIL, unit="text", value="96.00", expected="97.00")
LINKS = Verdict("health.nvlink_up", "GPU-0", Status.FAIL, unit="count", value=17, expected=18)
VERSION = Verdict(
    "inventory.driver_version", "GPU-0", Status.FAIL, unit="text", value="535.1", expected=">=550",
    limit=Limit("inventory.driver_version", "text", version=">=550"),
)  # fmt: skip
BESIDE = replace(
    SHORT,
    neighbours=Comparison(0.061, 0.03, 2900.0, 7),
    past=Comparison(0.12, 0.05, 2840.0, since="first accepted", day="2026-01-01", differs={"torch": ("2.6", "2.7")}),
)
AT_FIRST = replace(SHORT, neighbours=Comparison(0.061, 0.053, 746.8, 7, 0.012, at_clock=True, at_first=True))
LONGER = replace(SHORT, unit="ms", past=Comparison(0.12, 0.05, 12.0, since="last", day="2026-01-01"))
VERDICTS = {
    "short": SHORT, "of_class": replace(SHORT, basis=Basis.CLASS), "fact": FACT, "links": LINKS, "version": VERSION,
    "beside": BESIDE, "at_first": AT_FIRST, "longer": LONGER,
}  # fmt: skip


def reason(raw: dict[str, object]) -> Reason:
    """A reason as a record has it."""
    stated = {"metric": "a", "subject": "b", "status": "FAIL", "reasons": [raw]}
    return structured.structure(Verdict, stated).reasons[0]


MORE = [(VERDICTS[verdict], reason(raw)) for verdict, raw in yaml.safe_load(content("core/reasons.yaml"))]
"""Reasons with figures, each with a verdict that has it."""


def noted() -> list[tuple[Verdict, Reason]]:
    """A reason of every kind without figures."""
    return [(VERSION if kind == "not_a_version" else SHORT, Note(kind, "its text")) for kind in NOTES]


def golden() -> str:
    """One line for each reason: its kind, and the sentence."""
    pairs = [(reason.kind, verdict.because(reason)) for verdict, reason in [*noted(), *MORE]]
    return "".join(f"{kind}: {sentence_of(verdict) or note_of(verdict)}\n" for kind, verdict in pairs)


def test_every_kind_of_reason_has_its_words() -> None:
    assert golden() == GOLDEN.read_text(encoding="utf-8")
    assert {reason.kind for _, reason in [*noted(), *MORE]} == set(reasons.BY_KIND), "a kind without an example"


def test_every_note_of_the_code_has_its_words() -> None:
    """A kind without words would fail only where its sentence is said."""
    package = Path(reasons.__file__).parents[1]
    code = "".join(file.read_text(encoding="utf-8") for file in package.rglob("*.py"))
    kinds_of_notes = re.findall(r'\bNote\(\s*"(\w+)"(?: if [^"]* else "(\w+)")?', code)
    assert {kind for kinds in kinds_of_notes for kind in kinds if kind} == set(NOTES)


BEHIND = replace(SHORT, margin=0.05, neighbours=Comparison(0.11, 0.09, 2900.0, 7, at_clock=True, status=Status.FAIL))


@each_row(
    ("verdict", "first", "further"),
    [
        (SHORT.because(reasons.Compared("floor", 0.93, "a", 2970.0), reasons.Cause("heat", 0.1, 2990.0, "all")),
         "2500 GB/s, floor 2700 GB/s (-7.4%)", "10.0% slower than all (2990 GB/s): heat; the floor is 0.93 of a 2970"),
        # the limit holds: it is no reason, and neither is the distance to the neighbours told twice
        (BEHIND.because(reasons.Compared("floor", 0.5, "peak"), reasons.BehindNeighbours(),
                        reasons.Cause("unexplained", 0.11, 2900.0, "the median")),
         "2500 GB/s, 11.0% behind its 7 neighbours at its clock (median 2900), at most 9.0%", "unexplained"),
        (SHORT.because(reasons.Compared("floor"), reasons.Cause("HW thermal"), Note("disturbed", "in use by pid 4"),
                       status=Status.INCONCLUSIVE),
         "2500 GB/s, floor 2700 GB/s (-7.4%); disturbed: in use by pid 4", "HW thermal"),
        (BEHIND.because(reasons.Compared("floor"), *[Note("repeat_without_time", "0 s are left")] * 2,
                        status=Status.INCONCLUSIVE),
         "2500 GB/s, floor 2700 GB/s (+5.0%); not measured again: 0 s are left", ""),
        # a version that is not known excuses nothing
        (SHORT.because(reasons.Compared("floor"), reasons.OtherVersion("torch", ">=2.6"), Note("disturbed", "by pid 4"),
                       status=Status.INCONCLUSIVE),
         "2500 GB/s, floor 2700 GB/s (-7.4%); disturbed: by pid 4",
         "the limit was validated on torch >=2.6; the version in use is not known"),
        # the floor is broken too
        (replace(BEHIND, margin=-0.07).because(reasons.Compared("floor"), reasons.BehindNeighbours()),
         "2500 GB/s, floor 2700 GB/s (-7.0%); 11.0% behind its 7 neighbours at its clock (median 2900), at most 9.0%",
         ""),
        (SHORT.because(Note("value"), reasons.MayTrain(60.0), status=Status.INCONCLUSIVE),
         "2500 GB/s, up 1 min, may still train", ""),
        (SHORT.because(Note("trouble", "a"), Note("at", "p0"), Note("during", "x"), Note("warns")),
         "a, at p0, during x", "a warning, which rejects nothing"),
        (SHORT.because(reasons.WrongData("3 wrong elements")), "wrong results: 3 wrong elements", ""),
        (SHORT, "", ""),
    ],
)  # fmt: skip
def test_the_headline_has_the_reason_that_decided_and_the_details_the_others(
    verdict: Verdict, first: str, further: str
) -> None:
    assert (headline(verdict), details(verdict)) == (first, further)
    assert sentence_of(verdict) == "; ".join(filter(None, (first, further)))


def test_reasons_go_through_json() -> None:
    verdict = SHORT.because(*(reason for _, reason in [*noted(), *MORE]))
    raw = structured.plain(verdict)
    assert raw["reasons"][-1] == {"up": 120.0, "kind": "may_train"}, "what is as usual is left out, but not the kind"
    assert structured.structure(Verdict, json.loads(json.dumps(raw))) == verdict


@each_row(
    ("raw", "says"),
    [
        ({"kind": "bribed"}, r"reasons\[0\]\.kind is \"bribed\", not one of"),
        ({"text": "a"}, r"reasons\[0\]\.kind is null"),
        ({"kind": "close", "within": 0.02, "side": "left"}, r"reasons\[0\]\.side is \"left\""),
        ({"kind": "close", "side": "floor"}, r"reasons\[0\]\.within is missing"),
    ],
)
def test_a_reason_that_is_none_is_refused(raw: dict[str, object], says: str) -> None:
    with pytest.raises(structured.Misfit, match=says):
        reason(raw)


def test_what_nobody_judges_keeps_its_value_alone_when_it_becomes_worse() -> None:
    free = Verdict("soak.power", "GPU-0", Status.NOT_APPLICABLE, (Note("no_limit"), Note("at", "p0")), "W", 700.0)
    worse = free.worsened(Status.MARGINAL, reasons.AllAlike(8))
    assert (worse.status, worse.reasons) == (Status.MARGINAL, (Note("value"), reasons.AllAlike(8)))
    assert worse.worsened(Status.PASS, Note("warns")).status is Status.MARGINAL, "never better"


if __name__ == "__main__":
    GOLDEN.write_text(golden(), encoding="utf-8")
