"""The conclusion from the rounds of a network run on each node, pair and part, and its closing line.

A node is named where nothing else explains its results. A network that is short as a whole names nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median_high
from typing import Final

from pytest_accel.core import exits
from pytest_accel.core.details import NetworkOutcome, NetworkPart, NodeRound, RoundKind
from pytest_accel.core.measurement import NODE
from pytest_accel.core.network_run import (
    NAMED,
    SCORED,
    SHORT,
    Conclusion,
    GroupResult,
    NetworkRun,
    NodeConclusion,
    NodePair,
    short_rails,
)
from pytest_accel.core.reasons import BehindNodes
from pytest_accel.core.sentences import words
from pytest_accel.core.verdict import Closing, Result, Status, Verdict, show, show_margin
from pytest_accel.core.words import counted, listed
from pytest_accel.judging.closing.line import SIMULATED
from pytest_accel.judging.network.rounds import PATH_TIMES, short_pairs
from pytest_accel.judging.network.standing import Standing, standing

UNIT: Final = "GB/s"
TOLD: Final = 3
"""Nodes, pairs and parts that the closing line tells."""
LARGE: Final[tuple[RoundKind, ...]] = ("domain", "all")
"""The rounds of groups of more than a pair."""
OF_NODE: Final = Verdict("network.pairs", NODE, Status.FAIL, unit=UNIT)
"""The verdict that the words of a reason are made for."""


def conclude(run: NetworkRun) -> Conclusion:
    """Return the conclusion from the rounds of a network run: its nodes, pairs, islands, and the closing line."""
    state = standing(run)
    conclusions = []
    for node, (outcome, text) in enumerate(_outcomes(state)):
        rails = _rails(run, node) if outcome in NAMED else ()
        conclusions.append(NodeConclusion(outcome, state.best_value(node), _partners(state, node), rails, text))
    together = next((result.value for result in _results(run, "all")), None)
    islands = [island for island in state.islands if conclusions[island[0]].found == "island"]
    conclusion = Conclusion(conclusions, state.median, _paths(state), islands, together)
    return replace(conclusion, closing=_closing(state, conclusion))


def node_parts(run: NetworkRun) -> list[NetworkPart]:
    """Return the part of a concluded network run for the record of each node, in the order of its nodes."""
    rounds: list[list[NodeRound]] = [[] for _ in run.nodes]
    names = [node.name for node in run.nodes]
    for network_round in run.rounds:
        for result in network_round.results:
            for node in result.nodes:
                partners = [names[other] for other in result.nodes if network_round.kind != "all" and other != node]
                rounds[node].append(NodeRound(network_round.kind, partners, result.value))
    median, count = run.conclusion.median, sum(not node.left_out for node in run.nodes)
    return [
        NetworkPart(part.found, part.score, median, part.partners, count, part.rails, part.text, node_rounds)
        for part, node_rounds in zip(run.conclusion.nodes, rounds, strict=True)
    ]


def _rails(run: NetworkRun, node: int) -> list[float]:
    """Return the best rate of each device of a node in its pairs; empty where none was measured."""
    pairs = (result for result in _results(run, *SCORED) if node in result.nodes)
    reports = (result.reports[result.nodes.index(node)] for result in pairs)
    return [max(rail) for rail in zip(*(report.rails for report in reports if report.rails), strict=False)]


def _results(run: NetworkRun, *kinds: RoundKind) -> list[GroupResult]:
    return [result for network_round in run.rounds if network_round.kind in kinds for result in network_round.results]


# -- the nodes


def _outcomes(state: Standing) -> list[tuple[NetworkOutcome, str]]:
    """Return the conclusion on each node, and its words."""
    run, reason = state.run, _why_nobody(state)
    outcomes: dict[int, tuple[NetworkOutcome, str]] = dict(state.excluded)
    for node in set(state.slow) - outcomes.keys():
        partners = counted(_partners(state, node), "partner")
        out_of_reach = state.best_value(node) is None
        outcomes[node] = "slow", f"no pair could be measured, with any of {partners}" if out_of_reach else ""
    for island in state.islands if not (state.too_many or state.all_short) else ():
        if all(state.lacks(node) == (0, []) for node in island):
            names = listed([run.nodes[node].name for node in island])
            outcomes.update(dict.fromkeys(island, ("island", names)))
    domain_texts = {node: text for nodes, text in _short_domains(state) for node in nodes}
    for node in state.active:
        score = state.best_value(node)
        if node in state.corrupt:
            outcomes[node] = "wrong", _wrong_data(state, node)
        elif node in outcomes:
            continue
        elif state.all_short and score is not None:
            outcomes[node] = ("good", "") if score >= (run.floor or 0.0) else ("unclear", reason)
        elif node in state.good_nodes:
            outcomes[node] = ("unclear", domain_texts[node]) if node in domain_texts else ("good", "")
        elif score is None:
            outcomes[node] = "unmeasured", "none of its pairs could be measured"
        else:
            outcomes[node] = "unclear", reason
    return [outcomes[node] for node in range(len(run.nodes))]


def _why_nobody(state: Standing) -> str:
    """Return the reason why nodes that are short are not named."""
    if state.all_short:
        return f"all nodes are short, the median is {show(state.median, UNIT)}"
    if state.too_many or len(state.suspects) > 1:
        return f"{len(state.suspects)} of {len(state.participants)} nodes are short"
    return "it was not measured with enough good nodes"


def _wrong_data(state: Standing, node: int) -> str:
    """Return the words of the agents on the wrong data of a node."""
    results = (result for network_round in state.run.rounds for result in network_round.results if node in result.nodes)
    texts = (report.text for result in results for report in result.reports if report.outcome == "wrong")
    return next(filter(None, texts), "") or "data arrived changed"


def _partners(state: Standing, node: int) -> int:
    pairs = (meeting.nodes for meeting in state.pairs_of.get(node, ()) if meeting.tried)
    return len({other for pair in pairs for other in pair} - {node})


# -- the pairs and the parts


def _paths(state: Standing) -> list[NodePair]:
    """Return the pairs that are to blame: those with wrong data, then those that were short every time."""
    paths = [NodePair(pair, wrong=True) for pair in dict.fromkeys(meeting.nodes for meeting in state.wrong_pairs)]
    for pair in sorted(pair for pair, times in short_pairs(state).items() if times >= PATH_TIMES):
        values = [meeting.value for meeting in state.pairs_of[pair[0]] if {*meeting.nodes} == {*pair}]
        paths.append(NodePair(pair, max((value for value in values if value is not None), default=None)))
    return paths


def _short_domains(state: Standing) -> list[tuple[Sequence[int], str]]:
    """Return the NVLink domains that are slow beside the others, each in words; not for a node that is named."""
    blamed = {*state.slow, *state.corrupt, *(node for node, (outcome, _) in state.excluded.items() if outcome in NAMED)}
    domains = [(result.nodes, result.value) for result in _results(state.run, "domain") if result.value is not None]
    middle = median_high(value for _, value in domains) if domains else 0.0
    return [
        (
            nodes,
            f"NVLink domain {state.run.nodes[nodes[0]].domain} {show(value, UNIT)}, others {show(middle, UNIT)}",
        )
        for nodes, value in domains
        if value < SHORT * middle and blamed.isdisjoint(nodes)
    ]


def _in_group(state: Standing, result: GroupResult) -> str:
    """Return a group of more than a pair in words."""
    domain = state.run.nodes[result.nodes[0]].domain
    same_domain = domain and all(state.run.nodes[node].domain == domain for node in result.nodes)
    return f"NVLink domain {domain}" if same_domain else f"all {len(result.nodes)} good nodes together"


# -- the closing line


def _closing(state: Standing, conclusion: Conclusion) -> Closing:
    """Return the closing line of a network run, its exit status and its result."""
    simulated = f"{SIMULATED} " if state.run.simulated else ""
    for result, parts in (
        (Result.REJECTED, _rejects(state, conclusion)),
        (Result.NOT_JUDGED, _not_judged(state, conclusion)),
    ):
        if parts:
            more = f" and {len(parts) - TOLD} more" if len(parts) > TOLD else ""
            return Closing(f"{simulated}{result.value} network: {'; '.join(parts[:TOLD])}{more}", result.exit, result)
    scores = [finding.score for finding in conclusion.nodes if finding.score is not None]
    text = f"{len(scores)} nodes, slowest {show(min(scores), UNIT)}, median {show(conclusion.median, UNIT)}"
    text += f", floor {show(state.run.floor, UNIT)}" if state.run.floor is not None else ""
    text += f", together {show(conclusion.together, UNIT)}"
    against = _against(state, conclusion)
    if against:
        line = f"{simulated}HELD network: {text}; no acceptance: {'; '.join(against)}"
        return Closing(line, exits.NOT_JUDGED, Result.HELD)
    return Closing(f"{simulated}ACCEPTED network: {text}", exits.HOLDS, Result.ACCEPTED)


def _rejects(state: Standing, conclusion: Conclusion) -> list[str]:
    """Return the nodes, pairs and parts that reject the network, and the whole if it does, in words."""
    run, median = state.run, conclusion.median or 0.0
    names, nodes = [node.name for node in run.nodes], len(state.participants)
    rejected = [item for item in zip(names, conclusion.nodes, strict=True) if item[1].found in NAMED]
    texts = []
    for name, finding in sorted(rejected, key=lambda item: (-NAMED.index(item[1].found), item[1].score or 0.0)):
        if finding.found == "slow" and finding.score is not None:
            loss = 1 - finding.score / median
            reason = BehindNodes(loss, median, UNIT, nodes, finding.partners, short_rails(finding.rails))
            texts.append(f"{name} {words(reason, OF_NODE)}")
        else:
            texts.append(f"{name} {'wrong data: ' * (finding.found == 'wrong')}{finding.text or finding.found}")
    for path in conclusion.paths:
        text = "wrong data" if path.wrong else show(path.value, UNIT) if path.value is not None else "not measurable"
        texts.append(f"between {names[path.nodes[0]]} and {names[path.nodes[1]]} {text}, good with others")
    for island in conclusion.islands:
        text = f"{len(island)} nodes fast among themselves and slow with the rest"
        texts.append(f"{text} ({listed([names[node] for node in island])})")
    texts += [text for _, text in _short_domains(state)]
    if not any(finding.found == "wrong" for finding in conclusion.nodes) and not state.wrong_pairs:
        outcomes = ((group, {report.outcome for report in group.reports}) for group in _results(run, *LARGE))
        texts += [f"{_in_group(state, group)} wrong data" for group, kinds in outcomes if "wrong" in kinds]
    for text, value, floor in (
        ("median of the nodes", conclusion.median, run.floor),
        ("all good nodes together", conclusion.together, run.together_floor),
    ):
        if value is not None and floor is not None and value < floor:
            texts.append(f"{text} {show(value, UNIT)}, floor {show(floor, UNIT)} ({show_margin(value / floor - 1)})")
    return texts


def _not_judged(state: Standing, conclusion: Conclusion) -> list[str]:
    """Return the nodes and parts that were not judged although it was asked for, in words."""
    if conclusion.median is None:
        is_few = len(state.participants) < 2
        return [f"{counted(len(state.participants), 'node')} took part" if is_few else "no pair could be measured"]
    names = [node.name for node in state.run.nodes]
    texts: dict[tuple[NetworkOutcome, str], list[str]] = {}
    for name, finding in zip(names, conclusion.nodes, strict=True):
        if finding.found in ("unclear", "unmeasured"):
            texts.setdefault((finding.found, finding.text), []).append(name)
    nobody = "no node could be named: "
    parts = [f"{listed(group)}: {nobody * (outcome == 'unclear')}{text}" for (outcome, text), group in texts.items()]
    unmeasured = [group for group in _results(state.run, *LARGE) if group.value is None]
    failures = [f"{_in_group(state, group)} could not be measured" for group in unmeasured]
    missing = len(state.good_nodes) > 1 and not _results(state.run, "all")
    return parts + failures + ["the good nodes were not measured together"] * missing


def _against(state: Standing, conclusion: Conclusion) -> list[str]:
    """Return the reasons why a network in which nothing is wrong is not accepted."""
    exclusions = [
        f"{node.name} left out: {finding.text}"
        for node, finding in zip(state.run.nodes, conclusion.nodes, strict=True)
        if finding.found == "left out"
    ]
    texts = [listed(exclusions, TOLD)] if exclusions else []
    return texts + ["the platform states no floor for pairs of nodes"] * (state.run.floor is None)
