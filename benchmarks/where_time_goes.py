"""Where the time of an acceptance run went: what its record states, as shares of the wall clock."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

MEANS = {
    "wall": "from the start of the run to its end",
    "starting": "processes, imports, discovery",
    "preparing": "memory allocated, data made",
    "warm_up": "blocks that warm the devices up",
    "measuring": "blocks that are sampled",
    "checks": "results compared, judged, written",
    "waiting": "for the sensor",
    "rest": "pytest itself",
}

OF_A_PROBE = ("preparing", "warm_up", "measuring", "checks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path, metavar="RECORD", help="a record.json, or the directory that holds it")
    path = parser.parse_args().record
    record = json.loads((path / "record.json" if path.is_dir() else path).read_text(encoding="utf-8"))
    seconds = record["info"].get("seconds")
    if seconds is None:
        sys.exit(f"{path} is the record of a run that has not ended (state: {record['state']})")
    wall = seconds["wall"]
    for name in [each for each in MEANS if each in seconds]:
        print(f"{name:<10}{seconds[name]:9.2f} s {seconds[name] / wall if wall else 0.0:7.1%}   {MEANS[name]}")
    print(f"\n{'seconds of each probe':<32}{''.join(f'{name:>11}' for name in OF_A_PROBE)}")
    for metric, spent in record["info"].get("probes", {}).items():
        print(f"{metric:<32}{''.join(f'{spent.get(name, 0.0):11.2f}' for name in OF_A_PROBE)}")


if __name__ == "__main__":
    main()
