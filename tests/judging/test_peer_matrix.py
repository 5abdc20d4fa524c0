"""The matrix of copies between devices: whom a short or wrong pair is laid to."""

from dataclasses import replace
from itertools import permutations
from typing import Any

from support.judged_tables import tabled

from pytest_accel.core.measurement import Measurement, Names, Trouble
from pytest_accel.core.messages import Pair
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.causes.peer_matrix import (
    attribute,
    attributed_after_repeat,
    culprits_of,
    fastest,
    pairs_below,
    seconds_again,
)
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.probes.peer_copy import rounds

FLOOR = Limit("peer_copy.one_way", "GB/s", floor=0.965 * 400)


def names(count: int) -> list[str]:
    return [f"gpu{place}" for place in range(count)]


def matrix(count: int, **slow: float) -> dict[tuple[str, str], float]:
    """400 GB/s, but for `out2=0.9` (what gpu2 sends), `into3=0.5`, `pair_1_4=0.5`."""
    found = {pair: 400.0 - 0.1 * place for place, pair in enumerate(permutations(names(count), 2))}
    for fault, share in slow.items():
        kind, *who = fault.replace("out", "out_").replace("into", "into_").split("_")
        for pair in found:
            hit = {"out": pair[0], "into": pair[1]}.get(kind) == f"gpu{who[0]}" or (
                kind == "pair" and pair == (f"gpu{who[0]}", f"gpu{who[1]}")
            )
            found[pair] *= share if hit else 1
    return found


def rows(rates: dict[tuple[str, str], float], wrong: tuple[tuple[str, str], ...] = ()) -> list[Measurement]:
    found: dict[str, dict[str, Any]] = {}
    for (sender, receiver), rate in rates.items():
        told = "the data that arrived differ from the data that were sent" if (sender, receiver) in wrong else None
        found.setdefault(sender, {})[receiver] = {"samples": [rate] * 5, "seconds": [1.0] * 5, "wrong": told}
    return [
        Measurement("peer_copy.one_way", sender, "GB/s", value=1.0, details={"cells": cells})
        for sender, cells in found.items()
    ]


def verdicts(rates: dict[tuple[str, str], float], **more: Any) -> dict[str, str]:
    """The failing devices, with what is said of them."""
    found = attribute(rows(rates, **more), Names({name: name for pair in rates for name in pair}))
    judged = {each.subject: judge([each], FLOOR) for each in found}
    return {subject: sentence_of(verdict) for subject, verdict in judged.items() if verdict.status is Status.FAIL}


@tabled("slow, words", "data/judging/peer-matrix.yaml")
def test_a_short_device_is_blamed_and_no_other(slow: dict[str, float], words: str) -> None:
    for count in (3, 4, 8):
        found = verdicts(matrix(count, **slow))
        assert (list(found), words in found["gpu2"]) == (["gpu2"], True), count


def test_a_device_has_no_times_of_another_pair() -> None:
    """Its slowest pair may be one that another device sent; a record with times of more blocks contradicts itself."""
    found = [replace(row, details={**row.details, "ends": [0.1] * 9}) for row in rows(matrix(4, into2=0.5))]
    told = attribute(found, Names({name: name for name in names(4)}))
    assert all(len(each.samples) == 5 and "ends" not in each.details for each in told)


def test_who_is_blamed_where_several_are_short_or_none() -> None:
    two = verdicts(matrix(2, out0=0.5))
    assert (set(two), "two devices are too few to tell" in two["gpu0"]) == ({"gpu0", "gpu1"}, True)
    assert set(verdicts(matrix(8, into1=0.5, into6=0.9))) == {"gpu1", "gpu6"}
    whole = {pair: 0.5 * rate for pair, rate in matrix(4).items()}
    assert set(verdicts(whole)) == set(names(4)), "nobody is slower than the others: each has its own row"
    assert not culprits_of(matrix(8))
    assert not verdicts(matrix(8))
    assert fastest(matrix(3, out1=0.5, into1=0.5)) > 399, "half of a small matrix may be slow for one device"


# -- a second go


def again(first: dict[Pair, float], **fresh: float) -> dict[str, tuple[Status, int]]:
    """What two goes make of every device: the second at the short pairs only, `gpu0_gpu1=390` what it finds there."""
    assert FLOOR.floor
    before = rows(first)
    attempts = {each.subject: [each] for each in attribute(before, Names())}
    pairs = pairs_below(before, FLOOR.floor)
    assert {"_".join(pair) for pair in pairs} == set(fresh)
    second = rows({pair: fresh["_".join(pair)] for pair in pairs})
    for each in attributed_after_repeat(before, second, Names()):
        attempts[each.subject].append(each)
    judged = {subject: judge(several, FLOOR) for subject, several in attempts.items()}
    return {subject: (verdict.status, round(float(verdict.value or 0))) for subject, verdict in judged.items()}


def test_each_short_pair_is_compared_with_itself() -> None:
    """Each go has a worst pair; by chance alone both may be below the floor, but not the same one twice."""
    first = {**matrix(4), ("gpu2", "gpu3"): 380.0}
    found = again(first, gpu2_gpu3=399.0)
    assert {name for name, (status, _) in found.items() if status is not Status.PASS} == {"gpu2"}
    assert found["gpu2"][0] is Status.MARGINAL
    found = again({**first, ("gpu2", "gpu0"): 381.0}, gpu2_gpu3=398.0, gpu2_gpu0=397.0)
    assert found["gpu2"] == (Status.MARGINAL, 397)
    found = again({**first, ("gpu2", "gpu0"): 384.0}, gpu2_gpu3=399.0, gpu2_gpu0=379.0)
    assert found["gpu2"] == (Status.FAIL, 379)
    assert [status for status, _ in found.values()].count(Status.FAIL) == 1


def test_a_slow_device_is_the_only_one_to_blame_after_the_second_go() -> None:
    short = {pair: rate for pair, rate in matrix(4, out1=0.8, into1=0.8).items() if "gpu1" in pair}
    found = again({**matrix(4), **short}, **{"_".join(pair): rate + 1 for pair, rate in short.items()})
    assert [subject for subject, (status, _) in found.items() if status is Status.FAIL] == ["gpu1"]


def test_who_was_not_measured_again_is_not_said_to_have_been_and_what_breaks_is_kept() -> None:
    before = rows({**matrix(4), ("gpu2", "gpu3"): 380.0})
    (only,) = attributed_after_repeat(before, rows({("gpu2", "gpu3"): 399.0}), Names())
    assert only.subject == "gpu2"
    broken = replace(before[2], details={}, trouble=Trouble("device", "lost"))
    assert attributed_after_repeat(before, [broken], Names()) == [broken]


def test_each_pair_gets_the_time_of_the_matrix_but_not_all_of_them() -> None:
    pairs = tuple(permutations(names(8), 2))
    assert (seconds_again(pairs[:2], 10), seconds_again(pairs, 10)) == (20, 30)


def test_a_payload_that_arrives_wrong_is_laid_to_who_makes_it_wrong() -> None:
    wrong = tuple((name, "gpu1") for name in names(4) if name != "gpu1")
    found = verdicts(matrix(4), wrong=wrong)
    assert list(found) == ["gpu1"]
    assert "the data that arrived differ from the data that were sent" in found["gpu1"]
    wrong = tuple(pair for pair in permutations(names(4), 2) if "gpu3" in pair)
    found = verdicts(matrix(4, out1=0.9, into1=0.9), wrong=wrong)
    assert {name: "differ" in said for name, said in found.items()} == {"gpu1": False, "gpu3": True}
    assert "gpu1 falls short to and from every other device" in found["gpu1"]


def staged(rates: dict[Pair, float], *pairs: Pair) -> dict[str, Measurement]:
    """What becomes of copies of which these go through the host."""
    found = rows(rates)
    for row in found:
        for receiver, cell in row.details["cells"].items():
            cell["direct"] = (row.subject, receiver) not in pairs
    return {each.subject: each for each in attribute(found, Names())}


def test_a_short_pair_without_peer_access_says_so() -> None:
    """Also where nobody is slower than the others; no other pair says so."""
    pair = ("gpu0", "gpu1")
    one = staged({**matrix(3), pair: 25.0}, pair)
    said = {name: "copies through the host" in sentence_of(judge([each], FLOOR)) for name, each in one.items()}
    assert said == {"gpu0": True, "gpu1": False, "gpu2": False}
    for each in staged(dict.fromkeys(matrix(3), 25.0), *matrix(3)).values():
        assert "copies through the host" in sentence_of(judge([each], FLOOR))
        assert each.conditions["peer_access"] is False


def test_the_row_of_the_matrix_is_kept() -> None:
    (first, *_) = attribute(rows(matrix(3)), Names({"gpu1": "second"}))
    assert set(first.details["row"]) == {"second", "gpu2"}
    assert "cells" not in first.details


def test_in_rounds_everybody_meets_everybody_once() -> None:
    for count in range(2, 10):
        found = rounds(count)
        met = [frozenset(pair) for some in found for pair in some]
        assert len(met) == len(set(met)) == count * (count - 1) // 2
        assert all(len({place for pair in some for place in pair}) == 2 * len(some) for some in found)
