"""Compares the outliers of a night with the result diagnosis of microsoft/superbenchmark, on the same drawn night.

    python benchmarks/fleet_peer.py FOLDER --superbench SOURCE --python PYTHON --nodes 1000

SOURCE is a checkout of superbenchmark, PYTHON an interpreter with what its analyzer imports (pandas, jsonlines,
openpyxl, xlsxwriter, natsort, markdown, joblib, seaborn, matplotlib, colorlog, urllib3, requests, and what they need).
Both take one night from files, in turns. Theirs needs a baseline and a threshold: the median of each metric, and 5 %,
which its example of rules has; ours takes both from the night.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import fleet_store

from pytest_accel.fleet.nights import database, night_store

DIAGNOSE = """
import json, logging, resource, sys, time
logging.disable(logging.INFO)
sys.path.insert(0, sys.argv[1])
start, cpu = time.perf_counter(), time.process_time()
from superbench.analyzer import DataDiagnosis, file_handler
folder = sys.argv[2]
diagnosis = DataDiagnosis()
rules = diagnosis._preprocess(f"{folder}/results.jsonl", f"{folder}/rules.yaml")
read = time.perf_counter() - start
bad, _ = diagnosis.run_diagnosis_rules(rules, file_handler.read_baseline(f"{folder}/baseline.json"))
found = {node: row["Defective Details"] for node, row in bad.iterrows()}
print(json.dumps({"found": found, "seconds": time.perf_counter() - start, "read": read,
                  "cpu": time.process_time() - cpu, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def export(folder: Path, nodes: int) -> None:
    """Write the night in the form that superbench reads, with a baseline and rules."""
    night = folder / "store" / f"night={fleet_store.FIRST}" / night_store.FIGURES
    connection = database.connect()
    rows = connection.execute(
        f"SELECT node, metric, name, value FROM {database.parquet([night])} ORDER BY node"  # noqa: S608
    ).fetchall()
    by_node: dict[str, dict[str, object]] = {}
    for node, metric, name, value in rows:
        probe, _, variant = metric.partition(".")
        by_node.setdefault(node, {"node": node})[f"{probe}/{variant}:{name.removeprefix('gpu')}"] = value
    assert len(by_node) == nodes
    (folder / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in by_node.values()))
    middles = connection.execute(
        f"SELECT metric, median(value) FROM {database.parquet([night])} GROUP BY metric"  # noqa: S608
    ).fetchall()
    (folder / "baseline.json").write_text(
        json.dumps({metric.replace(".", "/", 1): middle for metric, middle in middles})
    )
    rules = ["version: v0.4", "superbench:", "  rules:"]
    for name, criterion in (("slow", "lambda x:x<-0.05"), ("late", "lambda x:x>0.05")):
        units = {"late": ("ms",), "slow": ("TFLOPS", "TOPS", "GB/s")}[name]
        metrics = [metric for metric, (unit, _) in fleet_store.METRICS.items() if unit in units]
        rules += [
            f"    {name}:",
            "      function: variance",
            f"      criteria: '{criterion}'",
            "      categories: Slow",
        ]
        rules += ["      metrics:", *(f"        - {metric.replace('.', '/', 1)}:\\d+" for metric in metrics)]
    (folder / "rules.yaml").write_text("\n".join(rules) + "\n")


def theirs(folder: Path, source: Path, python: Path) -> dict[str, object]:
    """Run superbench's diagnosis in a process of its own."""
    words = [str(python), "-c", DIAGNOSE, str(source), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--superbench", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=1000)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    planned = fleet_store.plan(chosen.nodes, 1)
    if not (chosen.folder / "store").exists():
        fleet_store.draw(database.connect(), chosen.folder / "store", planned)
        export(chosen.folder, chosen.nodes)
    sick = planned["sick"]
    for _ in range(2):
        start = time.perf_counter()
        own = fleet_store.ask("one night", chosen.folder, 1)
        fleet_store.told("pytest-accel", own)
        print(f"  {time.perf_counter() - start:.2f} s with the start of Python")
        found = {(device, metric) for device, *metrics in own["found"]["behind"] for metric in metrics}
        report("pytest-accel", found, set(sick.items()))
        start = time.perf_counter()
        other = theirs(chosen.folder, chosen.superbench, chosen.python)
        fleet_store.told("superbench", other)
        print(f"  {time.perf_counter() - start:.2f} s with the start of Python, {other['read']:.2f} s to read the file")
        report("superbench", pairs_of(other["found"]), set(sick.items()))
    print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def pairs_of(found: object) -> set[tuple[int, str]]:
    """Return device and metric of each finding of superbench: "stream/triad:3(B/L: ...)" of node00017."""
    pairs = set()
    assert isinstance(found, dict)
    for node, details in found.items():
        for each in details.split(","):
            metric, _, rank = each.partition("(")[0].partition(":")
            device = int(node.removeprefix("node")) * fleet_store.GPUS + int(rank) + 1
            pairs.add((device, metric.replace("/", ".", 1)))
    return pairs


def report(name: str, found: set[tuple[int, str]], sick: set[tuple[int, str]]) -> None:
    print(f"  {name}: {len(found & sick)} of {len(sick)} planted, {len(found - sick)} invented")


if __name__ == "__main__":
    main()
