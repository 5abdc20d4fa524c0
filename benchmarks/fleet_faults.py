"""Plants in a drawn fleet what happens to fleets over weeks, and asks its store: found, missed, invented.

    python benchmarks/fleet_faults.py FOLDER                  # 2,000 nodes of 8 devices, 25 metrics, 13 nights

The faults are those of an operator who tried the store by hand: single devices, a node, whole racks, boards that moved,
slips of units, what is missing. Devices differ by 0.35 % in memory, 0.2 % in links and 1.2 % in products, from night to
night by a third of that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from fleet_store import FIRST, GPUS, METRICS, NORMAL

from pytest_accel.fleet.nights import database, night_store

RACK = 40
LINKS = ("host_copy", "peer_copy", "ddp")
RACKS = {"links, VBIOS new": 3, "links": 10, "matmul": 15}
"""The racks that are slow as a whole, by number."""


def spread(metric: str) -> float:
    return 0.0035 if metric.startswith("stream") else 0.002 if metric.startswith(LINKS) else 0.012


def draw(folder: Path, nodes: int, nights: int) -> None:
    """Write the nights of a store, and where its nodes stand."""
    folder.mkdir(parents=True)
    (folder / night_store.ABOUT).write_text(json.dumps({"schema": night_store.SCHEMA, "simulated": False}))
    places = [f"node{each:05},r{each // RACK:02},{'AB'[each // RACK % 2]}" for each in range(nodes)]
    (folder / "locations.csv").write_text("node,rack,feed\n" + "\n".join(places) + "\n")
    db = database.connect()
    db.execute("SELECT setseed(0.18)")
    db.execute("CREATE TABLE metrics (metric VARCHAR, unit VARCHAR, centre DOUBLE, spread DOUBLE, family VARCHAR)")
    families = [(name, *each, spread(name)) for name, each in METRICS.items()]
    kinds = {0.0035: "memory", 0.002: "links", 0.012: "matmul"}
    db.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", [(*each, kinds[each[3]]) for each in families])
    db.execute(f"CREATE TABLE lottery AS SELECT n, g, m.*, 1 + spread * {NORMAL} AS own "  # noqa: S608
               f"FROM range({nodes}) a(n), range({GPUS}) b(g), metrics m")  # fmt: skip
    for at in range(nights):
        if at != 5:  # a night without any run
            draw_night(db, folder, at, nights - 1)


def draw_night(db: Any, folder: Path, at: int, last: int) -> None:
    night = FIRST + timedelta(days=at)
    place = night_store.folder_of(folder, night.isoformat())
    place.mkdir()
    rack = f"n // {RACK}"
    slow = f"""
        CASE WHEN n = 100 AND g = 3 AND metric = 'stream.triad' AND {at} >= 8 THEN 0.03
             WHEN {rack} = {RACKS["links, VBIOS new"]} AND family = 'links' AND {at} >= 6 THEN 0.02
             WHEN {rack} = {RACKS["links"]} AND family = 'links' AND {at} >= 7 THEN 0.02
             WHEN {rack} = {RACKS["matmul"]} AND family = 'matmul' AND {at} >= 3 THEN 0.03
             WHEN n = 1200 AND family = 'memory' THEN 0.015
             WHEN n = 1300 AND g = 6 AND metric = 'stream.copy' THEN 0.0025 * {at} ELSE 0 END
    """
    status = f"""
        CASE WHEN {at} % 3 = 0 AND n = 150 AND g = 1 AND metric = 'matmul.bf16' THEN 'FAIL'
             WHEN {at} % 3 = 0 AND n = 160 AND g = 2 AND metric = 'stream.triad' THEN 'MARGINAL' ELSE 'PASS' END
    """
    board = "n * 8 + g"
    if at >= 6:
        board = "CASE WHEN n = 170 AND g = 0 THEN 171 * 8 + 1 WHEN n = 171 AND g = 1 THEN 170 * 8 ELSE n * 8 + g END"
    if at == last:  # a board that two nodes claim
        board = f"CASE WHEN n = 181 AND g = 0 THEN 180 * 8 + 4 ELSE {board} END"
    tonight = at == last
    gone = f"(n = 1900 AND {at} > {last - 4}) OR ((n = 1901 OR n BETWEEN 1920 AND 1959) AND {tonight})"
    value = (
        f"centre * own * (1 + spread / 3 * {NORMAL}) * CASE WHEN unit = 'ms' THEN 1 / (1 - {slow}) ELSE 1 - {slow} END"
    )
    slips = "(n = 1501 AND metric LIKE 'peer_copy%') OR (n = 1500 AND family = 'memory')"
    value += f" * CASE WHEN {slips} THEN 1000 ELSE 1 END"
    new = f"{rack} = {RACKS['links, VBIOS new']} AND {at} >= 6"
    rows = f"""
        SELECT format('{{:016x}}', hash(n || '{night}')) AS run, DATE '{night}' AS night,
               format('node{{:05d}}', n) AS node,
               'GPU-' || md5(({board})::VARCHAR) AS uuid, format('165{{:09d}}', {board}) AS serial, 'gpu' || g AS name,
               format('0000:{{:02x}}:00.0', 16 * g + 1) AS slot, 'a model' AS model,
               CASE WHEN {new} THEN '96.00.99' ELSE '96.00.61' END AS vbios,
               metric, CASE WHEN n = 1500 AND family = 'memory' THEN 'MB/s' ELSE unit END AS unit, 'ab12cd34' AS method,
               CAST(printf('%.6g', {value}) AS FLOAT) AS value, {status} AS status, NULL::FLOAT AS floor,
               NULL::FLOAT AS ceiling, '' AS code, 'h100-sxm' AS sku, 'hgx8' AS platform, 'quick' AS level,
               '580.95.05' AS driver
        FROM lottery WHERE NOT ({gone})
    """  # noqa: S608
    database.write(db, f"{rows} {night_store.SORTED}", place / night_store.FIGURES)
    runs = f"""
        SELECT any_value(run) AS id, any_value(run) AS content, '/srv/' || node || '/record.json' AS record,
               DATE '{night}' AS night, node, '{night}T02:00:00+00:00' AS started, '{night}T02:02:00+00:00' AS ended,
               'finished' AS state, 'ACCEPTED' AS result, 'ACCEPTED 8/8 devices' AS line, 0 AS exit, 'h100-sxm' AS sku,
               'hgx8' AS platform, 'quick' AS level, '580.95.05' AS driver, '2.13.0' AS torch, '0.1.0' AS version,
               '' AS contract, false AS simulated, string_agg(DISTINCT uuid, ' ') AS uuids
        FROM read_parquet('{place / night_store.FIGURES}') GROUP BY node ORDER BY node
    """  # noqa: S608
    database.write(db, runs, place / night_store.RUNS)


EXPECTED = {
    "behind": {"node00100 gpu3", "r03", "r10", "r15", "node01200", "node01300 gpu6"},
    "losses": {"node00100 gpu3", "node01300 gpu6"},
    "failed_again": {"node00150 gpu1"},
    "marginal_again": {"node00160 gpu2"},
    "moved": {"node00170 gpu0", "node00171 gpu1"},
    "unlike": {"node01500", "node01501"},
    "doubled": {"GPU"},
    "missing_nights": {(FIRST + timedelta(days=5)).isoformat()},
    "absent": {"node01900", "node01901", *(f"node{each:05}" for each in range(1920, 1960))},
    "updates": {"host_copy", "peer_copy", "ddp"},
}
"""The answers that the planted faults have, by question; of those that name several nodes each is one."""


def answers(name: str, rows: list[dict[str, Any]]) -> set[str]:
    """Return the answers to a question as `EXPECTED` names them."""
    if name == "absent":
        return {node for row in rows for node in row["nodes"]}
    if name == "updates":
        return {row["metric"].split(".")[0].replace("_all", "") for row in rows}
    if name == "doubled":
        return {row["name"][:3] if row["what"] == "UUID" else row["name"] for row in rows}
    key = {"unlike": "node", "missing_nights": "night"}.get(name, "location")
    return {str(row[key]) for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--nights", type=int, default=13)
    chosen = parser.parse_args()
    place = chosen.folder / "store"
    if not place.exists():
        draw(place, chosen.nodes, chosen.nights)
    print(f"{sum(each.stat().st_size for each in place.rglob('*.parquet')) / 1e6:.1f} MB")
    start = time.perf_counter()
    text = "import runpy, resource, sys; sys.argv[0] = 'pytest-accel'; from pytest_accel.cli.main import main\n"
    text += "status = main(sys.argv[1:]); used = resource.getrusage(resource.RUSAGE_SELF)\n"
    text += "print(status, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)"
    command = [sys.executable, "-c", text, "store", "show", str(place), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    status, cpu, memory = done.stderr.split()[-3:]
    seconds = time.perf_counter() - start
    print(f"store show: exit {status}, {seconds:.1f} s, {float(cpu):.1f} s of processor, {float(memory):.0f} MB")
    findings = json.loads(done.stdout)["anomalies"]
    for name, rows in findings.items():
        found, planted = answers(name, rows), EXPECTED.get(name, set())
        if found or planted:
            told = {"found": found & planted, "missed": planted - found, "invented": found - planted}
            words = (f"{what} {len(some)} ({', '.join(sorted(some)[:7])})" for what, some in told.items() if some)
            print(f"{name:16} {'; '.join(words)}")
    for row in findings["behind"][:12]:
        since, also = row["since"], len(row["also"])
        print(f"  {row['what']} {row['location']}: {row['metric']} {-row['lost']:.1%} since {since}, also {also}")


if __name__ == "__main__":
    main()
