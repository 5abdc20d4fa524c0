"""How long does the document of a delivery of a thousand nodes take? From one record, copied under other names.

    pytest --accel-simulate=h100-sxm --accel-level=quick --accel-output=one
    python benchmarks/delivery.py one --nodes 1000

Every copy has a host, serial numbers and UUIDs of its own. The document is made by the command in a process of its own,
in each format.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_accel.run.record import FILE, seal

RUN = "import sys; from pytest_accel.cli.main import main; sys.exit(main())"


def copy(raw: dict[str, object], number: int, text: str) -> str:
    """Return a record as that of another node."""
    for device in raw["devices"]:  # type: ignore[attr-defined]
        serial, uuid = str(device["serial"]), str(device["uuid"])
        text = text.replace(serial, f"SIM{number:06}{serial[-2:]}").replace(uuid, f"{uuid[:-6]}{number:06}")
    made = json.loads(text)
    made["info"]["host"] = f"node{number:05}"
    parts = {**made, "sha256": seal(made)}
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {lines(value)}" for key, value in parts.items()) + "\n}\n"


def lines(value: object) -> str:
    """Return a value as a record has it: a list with a line for each item."""
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f" {json.dumps(each)}" for each in value) + "\n]"


def main() -> None:
    """Write the records, make the documents, and print the time and the memory that each took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave the documents in this folder")
    chosen = parser.parse_args()
    path = chosen.record / FILE if chosen.record.is_dir() else chosen.record
    text = path.read_text(encoding="utf-8")
    raw = json.loads(text)
    with tempfile.TemporaryDirectory() as folder:
        rows = ["serial,node"]
        for number in range(chosen.nodes):
            place = Path(folder) / "records" / f"node{number:05}"
            place.mkdir(parents=True)
            (place / FILE).write_text(copy(raw, number, text), encoding="utf-8")
            rows += [f"SIM{number:06}{device['serial'][-2:]},node{number:05}" for device in raw["devices"]]
        (Path(folder) / "delivery.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        size = sum(each.stat().st_size for each in Path(folder).rglob(FILE))
        print(f"{chosen.nodes:,} records, {size / 1e6:,.0f} MB")
        before = 0.0
        for form in ("json", "html", "md"):
            output = Path(folder) / f"delivery.{form}"
            began = time.monotonic()
            words = ["-c", RUN, "fleet", "report", f"{folder}/records", "--acceptance"]
            words += [f"--packing-list={folder}/delivery.csv"]
            done = subprocess.run(
                [sys.executable, *words, f"--format={form}", f"--output={output}"],
                check=False,
                capture_output=True,
                text=True,
            )
            seconds = time.monotonic() - began
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            busy, before = used.ru_utime + used.ru_stime - before, used.ru_utime + used.ru_stime
            size = output.stat().st_size / 1e6
            if chosen.keep:
                chosen.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(output, chosen.keep)
            took = f"{seconds:.1f} s ({busy:.1f} s of processors), {used.ru_maxrss / 1024:,.0f} MB of memory"
            print(f"{form}: exit {done.returncode}, {took}, {size:.1f} MB written", flush=True)
            print(f"  {done.stdout.splitlines()[0] if done.stdout else done.stderr[-300:]}")


if __name__ == "__main__":
    main()
