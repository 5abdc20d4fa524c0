"""What a network run found, as lines of 80 columns: no bad node is hidden, and the closing line is the last."""

from collections.abc import Sequence

from support.data_files import tables

from pytest_accel.core.details import NetworkOutcome
from pytest_accel.core.network_run import Conclusion, NetworkNode, NetworkRun, NodeConclusion, NodePair, Round
from pytest_accel.core.verdict import Closing, Result
from pytest_accel.views.network_table import lines

ROWS = tables("views/network-lines")

ENDING = Closing("REJECTED node3: slow with each of 5 partners; node4: data arrived changed", 1, Result.REJECTED)


def network(found: Sequence[tuple[NetworkOutcome, NodeConclusion]] = (), **more: object) -> NetworkRun:
    """Return a run of 64 nodes, of which the first are as given."""
    findings = [*(each for _, each in found), *[NodeConclusion("good", 45.0, 3)] * (64 - len(found))]
    nodes = [
        NetworkNode(f"node{place}", 8, left_out="late" if each.found == "left out" else "")
        for place, each in enumerate(findings)
    ]
    rounds = [Round("pairs", (), 1000.0 + 30 * place, 1030.0 + 30 * place) for place in range(7)]
    conclusion = Conclusion(findings, 45.1, together=352.0, closing=ENDING, **more)  # type: ignore[arg-type]
    return NetworkRun(nodes, rounds, floor=35.0, conclusion=conclusion)


def of(kind: NetworkOutcome, **more: object) -> tuple[NetworkOutcome, NodeConclusion]:
    return kind, NodeConclusion(kind, **more)  # type: ignore[arg-type]


BAD = network(
    [
        of("good", score=45.0, partners=3),
        of("left out"),
        of("left out"),
        of("slow", score=31.2, partners=5, rails=(45.0, 44.0, 12.0, 45.0)),
        of("wrong", text="sums differ on rank 3"),
        of("not reached", text="its worker died before the call"),
        of("unmeasured"),
        *[of("island", score=33.0)] * 12,
    ],
    paths=[NodePair((20, 31), 30.0), NodePair((21, 32), wrong=True)],
    islands=[range(7, 19)],
)


def test_every_node_that_is_not_good_is_shown_the_worst_first_in_80_columns() -> None:
    shown = lines(BAD, 80)
    assert [text for text, _ in shown] == ROWS["shown"]
    assert all(len(text) <= 80 for text, _ in shown)
    assert {colour for text, colour in shown if text.startswith(("wrong", "slow", "path", "island"))} == {"red"}


def test_a_healthy_network_is_its_figures_and_its_closing_line() -> None:
    healthy = network()
    figures, closing = lines(healthy)
    assert figures[0].startswith(
        "64 nodes, 64 good: 7 rounds in 210 s; median of a rank 45.1 GB/s (floor 35 GB/s); tog"
    )
    assert closing == (ENDING.line, "red")
    assert lines(NetworkRun([])) == [("0 nodes, 0 good: 0 rounds", ""), ("", "red")], "a file that holds nothing"
