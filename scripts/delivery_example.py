"""Makes the example of docs/delivery.md anew: simulated nodes, their packing list, and parts of the document.

scripts/delivery_example.py, in an environment that has the package; takes some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/delivery.md"
BEGIN, END = "<!-- begin of what scripts/delivery_example.py writes -->", "<!-- end -->"
HEALTHY = "{sku: h100-sxm, seed: 1}"
NODES = {
    "node01": HEALTHY,
    "node02": "{sku: h100-sxm, seed: 2}",
    "node03": "{sku: h100-sxm, seed: 3}",
    "node04": "{sku: h100-sxm, seed: 4, faults: [{fault: remap-failure, device: 6}]}",
    "node05": HEALTHY,  # it states the serial numbers of node01
}
"""The simulated node that runs under each name. node06 is listed and never runs."""
LISTED, BOARDS = 6, 8
SWAPPED = {"SIM00000205": "node03", "SIM00000301": "node02"}
"""Boards that the list has in another node than they are in."""
FAULTS_SHOWN = ("| node02 | gpu5", "| node04 | gpu6")
"""The beginnings of the rows that the page shows of the table."""


def main() -> None:
    """Run the commands of the example, and write their output into the page."""
    with tempfile.TemporaryDirectory() as folder:
        document = made(Path(folder))
    head, _, tail = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, foot = tail.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{shown(document)}\n{END}{foot}", encoding="utf-8")


def made(folder: Path) -> str:
    """Return the document of the delivery, which is examined in `folder`."""
    rows = ["serial,node"]
    for number in range(1, LISTED + 1):
        for slot in range(BOARDS):
            serial = f"SIM{number:06}{slot:02}"
            rows.append(f"{serial},{SWAPPED.get(serial, f'node{number:02}')}")
    (folder / "delivery.csv").write_text("\n".join(rows) + "\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
    (folder / "signers").write_text(f"acceptance@supplier.example {(folder / 'key.pub').read_text()}")
    for name, text in NODES.items():
        (folder / f"{name}.yaml").write_text(text + "\n")
        words = ["pytest", f"--accel-simulate={name}.yaml", "--accel-level=quick", "--accel-packing-list=delivery.csv"]
        ran(folder, ["-m", *words, f"--accel-output=records/{name}", "--accel-sign=key"], name=name)
    command = "import sys; from pytest_accel.cli.main import main; sys.exit(main())"
    words = ["fleet", "report", "records", "--acceptance", "--packing-list=delivery.csv", "--allowed-signers=signers"]
    return ran(folder, ["-c", command, *words, "--name=order 4711"])


def ran(folder: Path, words: list[str], name: str = "") -> str:
    """Return the output of a command of Python on a node of this name."""
    environment = {**os.environ, "SLURMD_NODENAME": name} if name else None
    process = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(words)}: exit {process.returncode}\n{process.stdout[-3000:]}{process.stderr[-3000:]}")
    return process.stdout


def shown(document: str) -> str:
    """Return the parts of a document that the page shows, as a quotation."""
    head, _, faults = document.split("\n## ")[:3]
    parts = [head.partition("\n> ")[0].rstrip(), _rows(faults, FAULTS_SHOWN)]
    lines = [line for part in parts for line in (*_with_bold_title(part).splitlines(), "")]
    return "\n".join(f"> {line}".rstrip() for line in lines[:-1]) + "\n"


def _with_bold_title(part: str) -> str:
    """Return a part with its heading in bold: the headings of a page are its own."""
    title, _, body = part.partition("\n")
    return f"**{title.removeprefix('# ')}**\n{body}"


def _rows(part: str, beginnings: tuple[str, ...]) -> str:
    """Return a section with the table cut down to the rows with these beginnings."""
    lines = part.splitlines()
    body = [index for index, line in enumerate(lines) if line.startswith("|")][2:]
    return "\n".join(line for index, line in enumerate(lines) if index not in body or line.startswith(beginnings))


if __name__ == "__main__":
    main()
