"""The conclusion of a network run on a node is judged in the record of the node, where a change of it is found."""

import json
from dataclasses import replace

from support.rows import each_row

from pytest_accel.core import structured
from pytest_accel.core.details import NetworkOutcome, NetworkPart, NodeRound
from pytest_accel.core.measurement import NODE, Measurement
from pytest_accel.core.reasons import BehindNodes, Compared, Note
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.closing import anew
from pytest_accel.judging.verdicts.background import no_past
from pytest_accel.judging.verdicts.judge_attempts import judge

FLOOR = Limit("network.pairs", "GB/s", floor=42.0, origin="h100-sxm.yaml:80")
ROUNDS = (NodeRound("pairs", ("n2",), 37.0), NodeRound("confirm", ("n7",), 39.6), NodeRound("all", (), 300.0))


def found(how: NetworkOutcome, value: float = 39.6, text: str = "") -> Measurement:
    part = NetworkPart(how, value, 45.0, 5, 64, (40.0, 41.0, 3.0, 40.0), text, ROUNDS)
    return Measurement("network.pairs", NODE, "GB/s", value, details={"network": part})


def test_a_slow_node_is_rejected_although_it_holds_its_limit() -> None:
    verdict = judge([found("slow")], replace(FLOOR, floor=30.0))
    assert verdict.status is Status.FAIL
    assert verdict.reasons[1:] == (BehindNodes(1 - 39.6 / 45.0, 45.0, "GB/s", 64, 5, (2,)),)
    said = "12.0% behind the median of 64 nodes (45 GB/s) with each of 5 partners; slow by itself: device 2"
    assert sentence_of(verdict).endswith(said)
    assert judge([found("slow")], None).status is Status.FAIL, "no limit is needed"


@each_row(("how", "reason"), [("island", Note("island", "n3, n4")), ("unclear", Note("nobody_named", "n3, n4"))])
@each_row("limit", [None, FLOOR, replace(FLOOR, floor=30.0)])
def test_a_short_node_that_is_not_named_is_not_rejected(how: NetworkOutcome, reason: Note, limit: Limit | None) -> None:
    verdict = judge([found(how, text="n3, n4")], limit)
    assert (verdict.status, verdict.reasons[-1]) == (Status.INCONCLUSIVE, reason)


def test_a_good_node_is_judged_by_its_limit() -> None:
    assert judge([found("good")], FLOOR).status is Status.FAIL
    assert judge([found("good", 44.0)], FLOOR).reasons == (Compared("floor"),)


def test_a_record_that_hides_a_slow_node_is_not_believed() -> None:
    slow = found("slow")
    verdict = replace(judge([slow], replace(FLOOR, floor=30.0)), status=Status.PASS)
    run = Run({}, measurements=[slow], verdicts=[verdict], circumstances=Circumstances(), state="finished")
    assert anew.objections(run, no_past)[0].startswith("node network.pairs is PASS at 39.6 GB/s, floor 30, and FAIL")


def test_the_part_goes_through_json() -> None:
    measured = found("slow")
    again = structured.structure(Measurement, json.loads(json.dumps(structured.plain(measured))))
    assert judge([again], FLOOR) == judge([measured], FLOOR)
