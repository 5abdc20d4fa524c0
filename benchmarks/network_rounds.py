"""Counts the rounds that a network run needs, and the nodes that it misses or blames wrongly, on simulated clusters.

    python benchmarks/network_rounds.py                     # 64 to 10,000 nodes, an hour and a half on one core
    python benchmarks/network_rounds.py --nodes 64 --runs 20

The nodes are those of `simulate/cluster.py`, the rounds and the conclusion those of the package. Bad nodes lose `--by`
of the rate of every pair, as with one dead rail of eight; the congested leaf switch of 16 nodes loses a quarter to all
other leaves. A node is missed if it is not named, and blamed wrongly if it is named and nothing is wrong with it.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean

from pytest_accel.core.network_run import NAMED, NetworkRun
from pytest_accel.core.verdict import Result
from pytest_accel.simulate.cluster import SECONDS, ClusterFault, SimulatedCluster, run_simulated
from pytest_accel.skus import loader

SKU = loader.load("h100-sxm")
GB_PER_S, FLOOR = 46.0, 0.9
LEAF = 16
RUNS = {64: 200, 256: 60, 1024: 20, 10_000: 3}
BAD = (0, 1, 3, 10)
HEAD = (
    "nodes", "bad", "slow leaf", "runs", "rounds", "most", "minutes", "missed", "blamed wrongly", "leaf named whole",
    "paths", "result", "s to decide",
)  # fmt: skip


@dataclass
class Row:
    """The results of the runs with one number of nodes and one number of bad nodes."""

    rounds: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)

    def add(self, run: NetworkRun, bad: set[int], leaf: set[int], seconds: float) -> None:
        """Count one run, with the nodes that are bad and those behind the slow leaf switch."""
        found = run.conclusion
        named = {place for place, each in enumerate(found.nodes) if each.found in NAMED}
        self.counts += Counter(missed=len(bad - named), blamed=len(named - bad), paths=len(found.paths))
        self.counts["whole"] += [set(each) for each in found.islands] == ([leaf - bad] if leaf else [])
        self.words[Result.words(found.closing.result)] += 1
        self.rounds.append(len(run.rounds))
        self.seconds.append(seconds)


def row(nodes: int, bad: int, by: float, runs: int, *, slow_leaf: bool) -> Row:
    """Return the results of `runs` runs, of which each has another seed."""
    found = Row()
    platform = SKU.platform_named("hgx8")
    assert platform
    for number in range(runs):
        rng = random.Random(f"{nodes} {bad} {slow_leaf} {number}")  # noqa: S311
        places, leaf = rng.sample(range(nodes), bad), rng.randrange(nodes // LEAF)
        faults = [ClusterFault("slow-node", {"node": each, "by": by}) for each in places]
        faults += [ClusterFault("slow-leaf", {"leaf": leaf, "by": 0.25})] if slow_leaf else []
        cluster = SimulatedCluster(
            "drawn", SKU, SKU.name, platform, nodes, GB_PER_S, 8, LEAF, seed=rng.randrange(2**32), faults=tuple(faults)
        )
        began = time.process_time()
        run = run_simulated(cluster, NetworkRun((), floor=FLOOR * GB_PER_S))
        behind = set(range(leaf * LEAF, (leaf + 1) * LEAF)) if slow_leaf else set()
        found.add(run, set(places), behind, time.process_time() - began)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(RUNS))
    parser.add_argument("--runs", type=int, help=f"runs of each row (default {RUNS} by the number of nodes)")
    parser.add_argument("--by", type=float, default=0.125, help="share that a bad node loses (default 0.125)")
    asked = parser.parse_args()
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    for nodes in asked.nodes:
        for slow_leaf in (False, True):
            for bad in BAD:
                runs = asked.runs or RUNS.get(nodes, 20)
                got = row(nodes, bad, asked.by, runs, slow_leaf=slow_leaf)
                cells = [
                    f"{nodes:,}", bad, "yes" if slow_leaf else "no", runs, f"{fmean(got.rounds):.1f}", max(got.rounds),
                    f"{fmean(got.rounds) * SECONDS / 60:.1f}", f"{got.counts['missed']}/{bad * runs}",
                    f"{got.counts['blamed']}/{(nodes - bad) * runs}",
                    f"{got.counts['whole']}/{runs}" if slow_leaf else "", got.counts["paths"],
                    ", ".join(f"{word} {count}" for word, count in got.words.items()), f"{fmean(got.seconds):.1f}",
                ]  # fmt: skip
                print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
