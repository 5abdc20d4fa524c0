"""What do the devices of a node take from each other? Each alone and all at once, by turns.

The probes of an acceptance run, in its worker processes. A turn is every device alone, one after the other, then all
together; the next turn the other way round. A share of 1 says that they do not feel each other; of what they share
(power, memory, links to the host), the share says how much is left to each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

from overhead import Ours, Workload

from pytest_accel import probes


def workloads(side: int, mib: int) -> list[Workload]:
    """What is measured; the amount is not used, the probes count their own work."""
    matmul = {"dtype": "fp32", "m": side, "n": side, "k": side}
    return [
        Workload("matmul.fp32", probes.matmul, matmul, 0.0, "TFLOPS", 0.0, []),
        *(
            Workload(f"stream.{op}", probes.stream, {"op": op, "mib": mib, "calls": 1}, 0.0, "GB/s", 0.0, [])
            for op in ("copy", "triad", "read")
        ),
        *(
            Workload(f"host_copy_all.{way}", probes.host_copy_all, {"direction": way, "mib": mib}, 0.0, "GB/s", 0.0, [])
            for way in ("h2d", "d2h")
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement, a quarter of them warm-up")
    parser.add_argument("--side", type=int, default=1024, help="of the matrices")
    parser.add_argument("--mib", type=int, default=256, help="of each array")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    chosen = parser.parse_args()
    every = {}
    with tempfile.TemporaryDirectory(prefix="pytest-accel-together-") as folder:
        ours = Ours(Path(folder), None)
        if len(ours.devices) < 2:
            raise SystemExit("one device has nobody to work together with")
        print(f"{'metric':<20}{'device':<8}{'alone':>10}{'together':>10}  {'share':>6}  all turns")
        try:
            for work in workloads(chosen.side, chosen.mib):
                every[work.metric] = _measured(ours, work, chosen.turns, chosen.seconds)
                for name, found in every[work.metric].items():
                    print(_line(work, name, found), flush=True)
        finally:
            ours.pool.stop()
    if chosen.json:
        chosen.json.write_text(json.dumps(every, indent=2) + "\n", encoding="utf-8")


def _measured(ours: Ours, work: Workload, turns: int, seconds: float) -> dict[str, list[tuple[float, float]]]:
    """Of each device the rate alone and together, turn by turn."""
    found: dict[str, list[tuple[float, float]]] = {each.name: [] for each in ours.devices}
    goes = {"alone": [[each] for each in ours.devices], "together": [ours.devices]}
    for turn in range(turns):
        rates = {
            name: [rate for group in goes[name] for rate in ours.rates(work, seconds, group)]
            for name in (goes if turn % 2 == 0 else reversed(goes))
        }
        for device, *pair in zip(ours.devices, rates["alone"], rates["together"], strict=True):
            found[device.name].append((pair[0], pair[1]))
    return found


def _line(work: Workload, name: str, found: list[tuple[float, float]]) -> str:
    shares = [together / alone for alone, together in found]
    alone, together = (median(column) for column in zip(*found, strict=True))
    spread = f"{min(shares):.2f} to {max(shares):.2f}"
    return f"{work.metric:<20}{name:<8}{alone:10.4g}{together:10.4g}  {median(shares):6.3f}  {spread} ({work.unit})"


if __name__ == "__main__":
    main()
