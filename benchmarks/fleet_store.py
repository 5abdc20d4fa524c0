"""Measures the store of a fleet on a drawn one: 10,000 nodes of 8 devices with 25 metrics, and planted faults.

    python benchmarks/fleet_store.py FOLDER                    # 30 nights, 12 minutes on two cores, 1 GB of disk
    python benchmarks/fleet_store.py FOLDER --nights 365       # a year: 40 minutes, 6 GB of disk
    python benchmarks/fleet_store.py FOLDER --nodes 200        # a look
    python benchmarks/fleet_store.py FOLDER --add 10000        # `store add` of so many record folders

The nights are Parquet files as `store add` writes them, made by the database; `--add` makes record folders, and adds
them by the command. Every question runs in a process of its own, whose wall time and peak memory count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pytest_accel.core.run import Run
from pytest_accel.fleet.nights import database, night_store
from pytest_accel.fleet.nights.database import literal
from pytest_accel.fleet.nights.night import look, window
from pytest_accel.fleet.nights.queries import StoredNights

FIRST = date(2026, 10, 1)
SKUS = ("h100-sxm", "h200-sxm", "b200-sxm", "mi300x")
METRICS = {
    "matmul.bf16": ("TFLOPS", 700.0),
    "matmul.fp16": ("TFLOPS", 690.0),
    "matmul.tf32": ("TFLOPS", 360.0),
    "matmul.fp8": ("TFLOPS", 1250.0),
    "matmul.int8": ("TOPS", 1300.0),
    "matmul.fp32": ("TFLOPS", 50.0),
    "matmul.fp64": ("TFLOPS", 55.0),
    "matmul_mamf.bf16": ("TFLOPS", 780.0),
    "matmul_mamf.fp8": ("TFLOPS", 1400.0),
    "matmul_best.bf16": ("TFLOPS", 760.0),
    "stream.copy_kernel": ("GB/s", 2900.0),
    "stream.triad": ("GB/s", 2950.0),
    "stream.read": ("GB/s", 3000.0),
    "mine.rate": ("GB/s", 2990.0),
    "stream.copy": ("GB/s", 2700.0),
    "stream.dot": ("GB/s", 2600.0),
    "host_copy.h2d": ("GB/s", 55.0),
    "host_copy.d2h": ("GB/s", 53.0),
    "host_copy.both": ("GB/s", 90.0),
    "host_copy_all.h2d": ("GB/s", 54.0),
    "host_copy_all.d2h": ("GB/s", 52.0),
    "host_copy_all.both": ("GB/s", 85.0),
    "peer_copy.one_way": ("GB/s", 390.0),
    "peer_copy.both": ("GB/s", 770.0),
    "ddp.step_ms": ("ms", 31.0),
}
BETWEEN, NIGHTLY = 0.01, 0.003
"""Standard deviations between devices and from night to night, as shares."""
SICK, SHORT = 40, 0.12
"""Devices that are short in one metric in every night, and by how much."""
DRIFTING, LOST = 40, 0.045
"""Devices that lose speed, and the share over all nights. An update splits a series, so none is of that SKU."""
FAILING, MARGINAL = 10, 10
"""Devices that fail in three runs, and those that are MARGINAL in two of the last three nights."""
UPDATED, CHANGE = "mi300x", 0.04
"""The SKU whose driver is updated in the middle of the nights, and the share that one metric loses by it."""
DOUBTFUL, LOOSE = "matmul.fp64", "stream.dot"
"""The metric whose limit fires on too many nodes of the first SKU, and the one whose limit finds nothing."""
GPUS = 8


def plan(nodes: int, nights: int) -> dict[str, Any]:
    """Draw which devices have which fault: devices have numbers from 1."""
    drawn = random.Random(18)  # noqa: S311  the same every time
    steady = [each for each in range(1, nodes * GPUS + 1) if SKUS[(each - 1) // GPUS % len(SKUS)] != UPDATED]
    devices = drawn.sample(steady, SICK + DRIFTING + FAILING + MARGINAL)
    names = [name for name in METRICS if name not in (DOUBTFUL, LOOSE)]
    sick, rest = devices[:SICK], devices[SICK:]
    drifting, rest = rest[:DRIFTING], rest[DRIFTING:]
    return {
        "nodes": nodes,
        "nights": nights,
        "sick": {each: drawn.choice(names) for each in sick},
        "drifting": {each: drawn.choice(names) for each in drifting},
        "failing": rest[:FAILING],
        "marginal": rest[FAILING:],
    }


def draw(connection: Any, folder: Path, planned: dict[str, Any]) -> None:
    """Write the nights of a store."""
    nodes, nights = planned["nodes"], planned["nights"]
    folder.mkdir(parents=True)
    (folder / night_store.ABOUT).write_text(json.dumps({"schema": night_store.SCHEMA, "simulated": False}))
    skus = ", ".join(map(literal, SKUS))
    connection.execute("SELECT setseed(0.18)")
    connection.execute("CREATE TABLE metrics (metric VARCHAR, unit VARCHAR, centre DOUBLE, place INTEGER)")
    connection.executemany(
        "INSERT INTO metrics VALUES (?, ?, ?, ?)",
        [(name, *each, at) for at, (name, each) in enumerate(METRICS.items())],
    )
    connection.execute(
        f"""
        CREATE TABLE devices AS SELECT n * {GPUS} + g + 1 AS device,
               'GPU-' || md5((n * {GPUS} + g)::VARCHAR) AS uuid, format('165{{:09d}}', n * {GPUS} + g) AS serial,
               [{skus}][1 + n % {len(SKUS)}] AS sku, n + 1 AS number,
               format('node{{:05d}}', n) AS node, 'gpu' || g AS name, format('0000:{{:02x}}:00.0', 16 * g + 1) AS slot
        FROM range({nodes}) a(n), range({GPUS}) b(g)
        """  # noqa: S608
    )
    connection.execute(
        f"CREATE TABLE lottery AS SELECT device, place, 1 + {BETWEEN} * {NORMAL} AS own FROM devices, metrics"  # noqa: S608
    )
    connection.execute("CREATE TABLE planted (device INTEGER, metric VARCHAR, short DOUBLE, nightly DOUBLE)")
    rows = [(device, metric, SHORT, 0.0) for device, metric in planned["sick"].items()]
    rows += [(device, metric, 0.0, LOST / planned["nights"]) for device, metric in planned["drifting"].items()]
    connection.executemany("INSERT INTO planted VALUES (?, ?, ?, ?)", rows)
    for at in range(nights):
        draw_night(connection, folder, planned, at)
        print(f"\rdrawn: {at + 1} of {nights} nights", end="", file=sys.stderr)
    print(file=sys.stderr)


NORMAL = "sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())"


def draw_night(connection: Any, folder: Path, planned: dict[str, Any], at: int) -> None:
    """Write one night of a store."""
    night = FIRST + timedelta(days=at)
    last = planned["nights"] - 1
    place = night_store.folder_of(folder, night.isoformat())
    place.mkdir()
    updated = 0 < planned["nights"] // 2 <= at
    driver = f"CASE WHEN d.sku = '{UPDATED}' THEN '{'6.4.1' if updated else '6.3.0'}' ELSE '580.95.05' END"
    change = (
        f"CASE WHEN d.sku = '{UPDATED}' AND m.metric = 'matmul.bf16' THEN {1 - CHANGE if updated else 1.0} ELSE 1.0 END"
    )
    pace = (
        f"(CASE WHEN m.unit = 'ms' THEN 1 / (1 - coalesce(p.short, 0) - {at} * coalesce(p.nightly, 0)) "
        f"ELSE 1 - coalesce(p.short, 0) - {at} * coalesce(p.nightly, 0) END)"
    )
    failing = literal_list(planned["failing"]) if at in (last, last - 2, last - 4) else "()"
    marginal = literal_list(planned["marginal"]) if at in (last, last - 2) else "()"
    status = f"""
        CASE WHEN m.metric = '{DOUBTFUL}' AND d.sku = '{SKUS[0]}' AND d.number % 5 < 2 AND d.name = 'gpu0' THEN 'FAIL'
             WHEN m.metric = 'matmul.bf16' AND d.device IN {failing} THEN 'FAIL'
             WHEN m.metric = 'stream.triad' AND d.device IN {marginal} THEN 'MARGINAL' ELSE 'PASS' END
    """.replace("d.device IN ()", "false")
    floor = f"CASE WHEN m.unit = 'ms' THEN NULL WHEN m.metric = '{LOOSE}' THEN 0.5 * m.centre ELSE 0.92 * m.centre END"
    value = f"m.centre * l.own * (1 + {NIGHTLY} * {NORMAL}) * {pace} * {change}"
    rows = f"""
        SELECT format('{{:016x}}', hash(d.node || '{night}')) AS run, DATE '{night}' AS night, d.node, d.uuid, d.serial,
               d.name, d.slot, 'a model' AS model, '96.00.61' AS vbios, m.metric, m.unit, 'ab12cd34' AS method,
               CAST(printf('%.6g', {value}) AS FLOAT) AS value, {status} AS status, CAST({floor} AS FLOAT) AS floor,
               CAST(CASE WHEN m.unit = 'ms' THEN 1.1 * m.centre END AS FLOAT) AS ceiling, '' AS code,
               d.sku, 'hgx8' AS platform, 'quick' AS level, {driver} AS driver
        FROM devices d CROSS JOIN metrics m JOIN lottery l ON l.device = d.device AND l.place = m.place
             LEFT JOIN planted p ON p.device = d.device AND p.metric = m.metric
    """  # noqa: S608
    database.write(connection, f"{rows} {night_store.SORTED}", place / night_store.FIGURES)
    runs = f"""
        SELECT format('{{:016x}}', hash(node || '{night}')) AS id,
               format('{{:016x}}', hash(node || 'c{night}')) AS content,
               '/srv/accel/{night}/' || node || '/record.json' AS record, DATE '{night}' AS night, node,
               '{night}T02:00:00+00:00' AS started, '{night}T02:02:00+00:00' AS ended, 'finished' AS state,
               'ACCEPTED' AS result, 'ACCEPTED 8/8 devices' AS line, 0 AS exit, any_value(sku) AS sku,
               'hgx8' AS platform, 'quick' AS level, '580.95.05' AS driver, '2.13.0' AS torch, '0.1.0' AS version,
               '' AS contract, false AS simulated, string_agg(uuid, ' ' ORDER BY uuid) AS uuids
        FROM devices GROUP BY node ORDER BY node
    """  # noqa: S608
    database.write(connection, runs, place / night_store.RUNS)


def literal_list(numbers: list[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


# -- the questions, each in a process of its own


def ask(question: str, folder: Path, nights: int) -> dict[str, Any]:
    """Run one question in a process, and return what it found with its time and memory."""
    done = subprocess.run(
        [sys.executable, __file__, str(folder), "--nights", str(nights), "--ask", question],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout))


def answer(question: str, folder: Path, nights: int) -> dict[str, Any]:
    """Answer one question, and say how long it took."""
    start, cpu = time.perf_counter(), time.process_time()
    count = 1 if question == "one night" else nights
    fleet = StoredNights(folder / "store", window(folder / "store", None, count))
    found = _of_fleet(question, fleet)
    return {"found": found, **taken(start, cpu)}


def taken(start: float, cpu: float) -> dict[str, float]:
    """Return the seconds since a start, those of the processor, and the largest memory in MB."""
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "mb": peak()}


def number(row: dict[str, Any]) -> int:
    """Return the number of a device, which its serial number tells."""
    return int(row["serial"][3:]) + 1


def _of_fleet(question: str, fleet: StoredNights) -> Any:
    """Answer a question on a whole night."""
    if question.startswith("device"):
        ((uuid, _, _),) = fleet.device("165000000470")
        return len(fleet.history(uuid, "matmul.bf16" if "metric" in question else ""))
    night = look(fleet)
    return {
        name: [
            (number(row) if row.get("serial") else row.get("location", ""), row.get("metric"), *row.get("also", ()))
            for row in rows
        ]
        for name, rows in night.anomalies.items()
    }


def peak() -> float:
    """Return the largest memory of this program, in MB; getrusage() counts that of the parent before exec, too."""
    status = Path("/proc/self/status").read_text()
    return float(status.partition("VmHWM:")[2].split()[0]) / 1024


QUESTIONS = ("device", "device, one metric", "one night", "all")


def told(name: str, each: dict[str, Any]) -> None:
    spent = f"{each['cpu']:8.2f} s of processor" if "cpu" in each else ""
    print(f"{name:20} {each['seconds']:8.2f} s {spent} {each['mb']:8.0f} MB", flush=True)


def check(planned: dict[str, Any], answers: dict[str, dict[str, Any]]) -> None:
    """Print what was found of what was planted, and what was invented."""
    every = answers["all"]["found"]
    sick = {(int(device), metric) for device, metric in planned["sick"].items()}
    drifting = {(int(device), metric) for device, metric in planned["drifting"].items()}
    found = {(device, metric) for device, *metrics in every["behind"] for metric in metrics}
    losses = {(device, metric) for device, *metrics in every["losses"] for metric in metrics}
    print(
        f"behind: {len(found & sick)} of {len(sick)} planted, {len(found - sick - drifting)} invented, "
        f"{len(found & drifting)} are devices that lose speed"
    )
    print(f"losses: {len(losses & drifting)} of {len(drifting)} planted, {len(losses - drifting)} invented")
    for name, of in (("failed_again", "failing"), ("marginal_again", "marginal")):
        devices = {device for device, *_ in every[name]}
        print(
            f"{name}: {len(devices & set(planned[of]))} of {len(planned[of])}, {len(devices - set(planned[of]))} others"
        )
    for name, rows in every.items():
        if name not in ("behind", "losses", "failed_again", "marginal_again") and rows:
            print(f"{name}: {rows[:5]}")


# -- store add of record folders


def add_records(folder: Path, nodes: int) -> None:
    """Make record folders of one night, and add them by the command."""
    records = folder / "records"
    if not records.exists():
        make_records(records, nodes)
    size = sum(each.stat().st_size for each in records.rglob("record.json"))
    print(f"{nodes} records, {size / nodes / 1e3:.0f} kB each, {size / 1e9:.2f} GB")
    command = [str(Path(sys.executable).with_name("pytest-accel")), "store", "add", str(folder / "added"), str(records)]
    for name in ("store add", "store add again"):
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        told(name, {"seconds": time.perf_counter() - start, "mb": after.ru_maxrss / 1024})
        print(f"  {cpu:.1f} s of processor; {done.stdout.strip()}")
    print(f"  night: {sum(each.stat().st_size for each in (folder / 'added').glob('*/*.parquet')) / 1e6:.1f} MB")


def make_records(folder: Path, nodes: int) -> None:
    """Write record folders: valid records with a measurement and a verdict for each figure, alike but for names."""
    from pytest_accel.core.measurement import Device, Measurement, estimate_of
    from pytest_accel.core.run import Circumstances, Objection
    from pytest_accel.core.sku_types import Limit
    from pytest_accel.core.verdict import Status, Verdict
    from pytest_accel.judging.closing.line import close
    from pytest_accel.run import record

    drawn = random.Random(18)  # noqa: S311
    start = time.perf_counter()
    limits = {
        name: Limit(name, unit, **{"ceiling" if unit == "ms" else "floor": (1.1 if unit == "ms" else 0.9) * centre})
        for name, (unit, centre) in METRICS.items()
    }
    text = ""
    for hexa, node in (("H" * 8, "N" * 8),):  # what each record has in their place
        devices = [
            Device(f"GPU-{hexa}-{place:04x}", place, "nvidia", "a model", serial=f"165{node}{place}",
                   pci_address=f"0000:{16 * place + 1:02x}:00.0", facts={"vbios": "96.00.61"})
            for place in range(GPUS)
        ]  # fmt: skip
        measured, verdicts = [], []
        for name, (unit, centre) in METRICS.items():
            for each in devices:
                centred = centre * drawn.gauss(1, BETWEEN)
                conditions = {"dtype": "bf16", "shape": "8192x8192x8192", "seconds": 5.0, "operations_per_block": 3}
                samples = tuple(float(f"{centred * drawn.gauss(1, 0.003):.6g}") for _ in range(5))
                value = estimate_of(samples, unit, "mean").mean
                measured.append(Measurement(name, each.uuid, unit, value, samples=samples, conditions=conditions))
                kept = {"limit": limits[name], "floor": limits[name].floor, "ceiling": limits[name].ceiling}
                verdicts.append(Verdict(name, each.uuid, Status.PASS, (), unit, value, **kept))
        around = Circumstances(
            required=[each.key for each in verdicts], names={each.uuid: each.name for each in devices},
            expected_devices=GPUS, sku="h100-sxm", level="quick", against=[Objection("unasked", "drawn")],
        )  # fmt: skip
        made = Run(
            info={"started": "2026-11-23T02:00:00+00:00", "ended": "2026-11-23T02:02:00+00:00",
                 "host": f"node{node}", "user": "operator", "output": f"/srv/accel/node{node}", "level": "quick",
                 "command": ["pytest", "--accel-sku=h100-sxm"], "platform": "hgx8"},
            sku={"name": "h100-sxm", "asked": "h100-sxm", "files": {}},
            devices=devices,
            software={"torch": "2.13.0", "driver": "580.95.05", "pytest_accel": "0.1.0"},
            measurements=measured,
            verdicts=verdicts,
            state="finished",
            telemetry={"file": "telemetry.jsonl", "sha256": "0" * 64},
            circumstances=around,
            closing=close(verdicts, around),
        )  # fmt: skip
        text = json.dumps(record.content(made))
    for node in range(nodes):
        place = folder / f"node{node:05}"
        place.mkdir(parents=True)
        named = text.replace("H" * 8, f"{node:08x}").replace("N" * 8, f"{node:08}")
        raw = json.loads(named)
        (place / record.FILE).write_text(json.dumps({**raw, "sha256": record.seal(raw)}))
    print(f"made {nodes} records in {time.perf_counter() - start:.0f} s", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the store is drawn, if it is not there yet")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument(
        "--add", type=int, metavar="RECORDS", help="measure `store add` of so many record folders instead"
    )
    parser.add_argument("--ask", choices=QUESTIONS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ask:
        print(json.dumps(answer(chosen.ask, chosen.folder, chosen.nights)))
        return
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.add:
        add_records(chosen.folder, chosen.add)
        return
    planned = plan(chosen.nodes, chosen.nights)
    if not (chosen.folder / "store").exists():
        start = time.perf_counter()
        draw(database.connect(), chosen.folder / "store", planned)
        print(f"drawn in {time.perf_counter() - start:.0f} s")
    rows = chosen.nodes * GPUS * len(METRICS) * chosen.nights
    size = sum(each.stat().st_size for each in (chosen.folder / "store").glob(f"{night_store.NIGHT}*/*"))
    print(f"{chosen.nights} nights, {rows:,} figures, {size / 1e6:.0f} MB, {size / 1e6 / chosen.nights:.1f} MB a night")
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    answers = {}
    for question in QUESTIONS:
        answers[question] = ask(question, chosen.folder, chosen.nights)
        told(question, answers[question])
    check(planned, answers)


if __name__ == "__main__":
    main()
