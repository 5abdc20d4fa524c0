"""Concludes from the rounds of a fabric run what is wrong with which node, pair or part, and writes its closing line.

A node is named where nothing else explains what it shows. A fabric that is short as a whole names nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median_high
from typing import Final

from pytest_accel.core import exits
from pytest_accel.core.details import FabricPart, Found, NodeRound
from pytest_accel.core.fabric import (
    NAMED,
    SCORED,
    SHORT,
    Conclusion,
    Fabric,
    GroupResult,
    NodeFinding,
    NodePair,
    short_rails,
)
from pytest_accel.core.measurement import NODE
from pytest_accel.core.reasons import BehindNodes
from pytest_accel.core.sentences import words
from pytest_accel.core.verdict import Closing, Result, Status, Verdict, show, show_margin
from pytest_accel.core.words import counted, listed
from pytest_accel.judging.closing.line import SIMULATED
from pytest_accel.judging.fabric.rounds import PATH_TIMES, short_pairs
from pytest_accel.judging.fabric.standing import Standing, standing

UNIT: Final = "GB/s"
TOLD: Final = 3
"""Nodes, pairs and parts that the closing line tells."""
OF_NODE: Final = Verdict("fabric.pairs", NODE, Status.FAIL, unit=UNIT)
"""What the words of a reason are asked for."""


def conclude(fabric: Fabric) -> Conclusion:
    """Return what the rounds of a fabric run show about its nodes, and the closing line."""
    shown = standing(fabric)
    found = _found(shown)
    findings = [
        NodeFinding(what, shown.best(node), _partners(shown, node), _rails(fabric, node) if what in NAMED else (), text)
        for node, (what, text) in enumerate(found)
    ]
    together = next((each.value for each in _results(fabric, "all")), None)
    islands = [each for each in shown.islands if found[each[0]][0] == "island"]
    concluded = Conclusion(findings, shown.median, _paths(shown), islands, together)
    return replace(concluded, closing=_closing(shown, concluded))


def node_parts(fabric: Fabric) -> list[FabricPart]:
    """Return what the record of each node holds of a fabric run that was concluded, in the order of its nodes."""
    rounds: list[list[NodeRound]] = [[] for _ in fabric.nodes]
    names = [each.name for each in fabric.nodes]
    for each in fabric.rounds:
        for result in each.results:
            for node in result.nodes:
                others = [] if each.kind == "all" else [names[other] for other in result.nodes if other != node]
                rounds[node].append(NodeRound(each.kind, others, result.value))
    shown, nodes = fabric.conclusion, sum(not each.left_out for each in fabric.nodes)
    return [
        FabricPart(of.found, of.score, shown.median, of.partners, nodes, of.rails, of.text, its)
        for of, its in zip(shown.findings, rounds, strict=True)
    ]


def _rails(fabric: Fabric, node: int) -> list[float]:
    """Return the best rate of each device of a node in its pairs; empty where none was measured."""
    pairs = (result for each in fabric.rounds if each.kind in SCORED for result in each.results if node in result.nodes)
    reports = (report for each in pairs for of, report in zip(each.nodes, each.reports, strict=True) if of == node)
    return [max(rail) for rail in zip(*(each.rails for each in reports if each.rails), strict=False)]


def _results(fabric: Fabric, kind: str) -> list[GroupResult]:
    return [result for each in fabric.rounds if each.kind == kind for result in each.results]


# -- the nodes


def _found(shown: Standing) -> list[tuple[Found, str]]:
    """Return what is concluded of each node, and in which words."""
    fabric, why = shown.fabric, _why_nobody(shown)
    found: dict[int, tuple[Found, str]] = dict(shown.out)
    for node in set(shown.slow) - found.keys():
        partners = counted(_partners(shown, node), "partner")
        out_of_reach = shown.best(node) is None
        found[node] = "slow", f"no pair could be measured, with any of {partners}" if out_of_reach else ""
    for island in shown.islands if not (shown.too_many or shown.all_short) else ():
        if all(shown.lacks(each) == (0, []) for each in island):
            told = listed([fabric.nodes[each].name for each in island])
            found.update(dict.fromkeys(island, ("island", told)))
    of_domain = {node: text for nodes, text in _short_domains(shown) for node in nodes}
    for node in shown.here:
        score = shown.best(node)
        if node in shown.wrong:
            found[node] = "wrong", _said(shown, node)
        elif node in found:
            continue
        elif shown.all_short and score is not None:
            found[node] = ("good", "") if score >= (fabric.floor or 0.0) else ("unclear", why)
        elif node in shown.fabric_part:
            found[node] = ("unclear", of_domain[node]) if node in of_domain else ("good", "")
        elif score is None:
            found[node] = "unmeasured", "none of its pairs could be measured"
        else:
            found[node] = "unclear", why
    return [found[node] for node in range(len(fabric.nodes))]


def _why_nobody(shown: Standing) -> str:
    """Return why nodes that are short are not named."""
    if shown.all_short:
        return f"all nodes are short, the median is {show(shown.median, UNIT)}"
    if shown.too_many or len(shown.suspects) > 1:
        return f"{len(shown.suspects)} of {len(shown.taking)} nodes are short"
    return "it was not measured with enough good nodes"


def _said(shown: Standing, node: int) -> str:
    """Return what the agents saw of the wrong data of a node."""
    texts = (
        report.text
        for each in shown.fabric.rounds
        for result in each.results
        if node in result.nodes
        for report in result.reports
        if report.outcome == "wrong"
    )
    return next(filter(None, texts), "") or "data arrived changed"


def _partners(shown: Standing, node: int) -> int:
    met = (each.nodes for each in shown.of.get(node, ()) if each.tried)
    return len({other for pair in met for other in pair} - {node})


# -- the pairs and the parts


def _paths(shown: Standing) -> list[NodePair]:
    """Return the pairs that are to blame: those with wrong data, then those that were short every time."""
    found = [NodePair(pair, wrong=True) for pair in dict.fromkeys(each.nodes for each in shown.wrong_pairs)]
    for pair in sorted(pair for pair, times in short_pairs(shown).items() if times >= PATH_TIMES):
        values = [each.value for each in shown.of[pair[0]] if {*each.nodes} == {*pair} and each.value is not None]
        found.append(NodePair(pair, max(values, default=None)))
    return found


def _short_domains(shown: Standing) -> list[tuple[Sequence[int], str]]:
    """Return the NVLink domains that are slow beside the others, each in words; not for a node that is named."""
    named = {*shown.slow, *shown.wrong, *(node for node, (what, _) in shown.out.items() if what in NAMED)}
    measured = [(each.nodes, each.value) for each in _results(shown.fabric, "domain") if each.value is not None]
    middle = median_high(value for _, value in measured) if measured else 0.0
    return [
        (nodes, f"NVLink domain {shown.fabric.nodes[nodes[0]].domain} {show(value, UNIT)}, others {show(middle, UNIT)}")
        for nodes, value in measured
        if value < SHORT * middle and named.isdisjoint(nodes)
    ]


def _in_group(shown: Standing, result: GroupResult) -> str:
    """Return a group of more than a pair in words."""
    domain = shown.fabric.nodes[result.nodes[0]].domain
    alike = domain and all(shown.fabric.nodes[each].domain == domain for each in result.nodes)
    return f"NVLink domain {domain}" if alike else f"all {len(result.nodes)} good nodes together"


# -- the closing line


def _closing(shown: Standing, concluded: Conclusion) -> Closing:
    """Return the closing line of a fabric run, its exit status and its result."""
    simulated = f"{SIMULATED} " if shown.fabric.simulated else ""
    for result, parts in (
        (Result.REJECTED, _rejects(shown, concluded)),
        (Result.NOT_JUDGED, _not_judged(shown, concluded)),
    ):
        if parts:
            rest = f" and {len(parts) - TOLD} more" if len(parts) > TOLD else ""
            return Closing(f"{simulated}{result.value} fabric: {'; '.join(parts[:TOLD])}{rest}", result.exit, result)
    scores = [each.score for each in concluded.findings if each.score is not None]
    text = f"{len(scores)} nodes, slowest {show(min(scores), UNIT)}, median {show(concluded.median, UNIT)}"
    text += f", floor {show(shown.fabric.floor, UNIT)}" if shown.fabric.floor is not None else ""
    text += f", together {show(concluded.together, UNIT)}"
    against = _against(shown, concluded)
    if against:
        line = f"{simulated}HELD fabric: {text}; no acceptance: {'; '.join(against)}"
        return Closing(line, exits.NOT_JUDGED, Result.HELD)
    return Closing(f"{simulated}ACCEPTED fabric: {text}", exits.HOLDS, Result.ACCEPTED)


def _rejects(shown: Standing, concluded: Conclusion) -> list[str]:
    """Return what rejects the fabric, in words: nodes, pairs, parts, and the whole."""
    fabric, median = shown.fabric, concluded.median or 0.0
    names, nodes = [each.name for each in fabric.nodes], len(shown.taking)
    named = [(name, each) for name, each in zip(names, concluded.findings, strict=True) if each.found in NAMED]
    found = []
    for name, each in sorted(named, key=lambda item: (-NAMED.index(item[1].found), item[1].score or 0.0)):
        if each.found == "slow" and each.score is not None:
            lost = 1 - each.score / median
            reason = BehindNodes(lost, median, UNIT, nodes, each.partners, short_rails(each.rails))
            found.append(f"{name} {words(reason, OF_NODE)}")
        else:
            found.append(f"{name} {'wrong data: ' * (each.found == 'wrong')}{each.text or each.found}")
    for path in concluded.paths:
        what = "wrong data" if path.wrong else show(path.value, UNIT) if path.value is not None else "not measurable"
        found.append(f"between {names[path.nodes[0]]} and {names[path.nodes[1]]} {what}, good with others")
    for island in concluded.islands:
        told = f"{len(island)} nodes fast among themselves and slow with the rest"
        found.append(f"{told} ({listed([names[each] for each in island])})")
    found += [text for _, text in _short_domains(shown)]
    if not any(each.found == "wrong" for each in concluded.findings) and not shown.wrong_pairs:
        found += [f"{_in_group(shown, each)} wrong data" for each in _groups(fabric) if _outcome(each, "wrong")]
    for what, value, floor in (
        ("median of the nodes", concluded.median, fabric.floor),
        ("all good nodes together", concluded.together, fabric.together_floor),
    ):
        if value is not None and floor is not None and value < floor:
            found.append(f"{what} {show(value, UNIT)}, floor {show(floor, UNIT)} ({show_margin(value / floor - 1)})")
    return found


def _not_judged(shown: Standing, concluded: Conclusion) -> list[str]:
    """Return what was not judged although it was asked for, in words."""
    if concluded.median is None:
        few = len(shown.taking) < 2
        return [f"{counted(len(shown.taking), 'node')} took part" if few else "no pair could be measured"]
    names = [each.name for each in shown.fabric.nodes]
    texts: dict[tuple[Found, str], list[str]] = {}
    for name, each in zip(names, concluded.findings, strict=True):
        if each.found in ("unclear", "unmeasured"):
            texts.setdefault((each.found, each.text), []).append(name)
    nobody = "no node could be named: "
    found = [f"{listed(some)}: {nobody * (what == 'unclear')}{text}" for (what, text), some in texts.items()]
    lost = [f"{_in_group(shown, each)} could not be measured" for each in _groups(shown.fabric) if each.value is None]
    missing = len(shown.fabric_part) > 1 and not _results(shown.fabric, "all")
    return found + lost + ["the good nodes were not measured together"] * missing


def _against(shown: Standing, concluded: Conclusion) -> list[str]:
    """Return why a fabric in which nothing is wrong is not accepted."""
    left = [
        f"{node.name} left out: {each.text}"
        for node, each in zip(shown.fabric.nodes, concluded.findings, strict=True)
        if each.found == "left out"
    ]
    told = [listed(left, TOLD)] if left else []
    return told + ["the platform states no floor for pairs of nodes"] * (shown.fabric.floor is None)


def _groups(fabric: Fabric) -> list[GroupResult]:
    """Return the groups of more than a pair."""
    return [*_results(fabric, "domain"), *_results(fabric, "all")]


def _outcome(result: GroupResult, outcome: str) -> bool:
    return any(each.outcome == outcome for each in result.reports)
