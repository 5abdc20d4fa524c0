"""Where the time of an acceptance run went: device work, and the rest of the wall clock."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path, metavar="RECORD", help="a record.json, or the directory that holds it")
    path = parser.parse_args().record
    record = json.loads((path / "record.json" if path.is_dir() else path).read_text(encoding="utf-8"))
    seconds = record["run"].get("seconds")
    if seconds is None:
        sys.exit(f"{path} is the record of a run that has not ended (state: {record['state']})")
    wall, device = seconds["wall"], seconds["device"]
    print("wall clock   ", _row(wall, wall), "from the start of the run to its end")
    print("device work  ", _row(device, wall), "between the first and the last block of each probe, warm-up included")
    print("rest         ", _row(wall - device, wall), "starting processes, discovery, preparing and checking data")


def _row(seconds: float, wall: float) -> str:
    return f"{seconds:9.2f} s {seconds / wall if wall else 0.0:7.1%}  "


if __name__ == "__main__":
    main()
