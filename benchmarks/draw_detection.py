"""Draws the picture of what detection.py wrote.

python benchmarks/draw_detection.py benchmarks/detection.json docs/detection.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

FAMILIES = {"memory": "memory and links (stream.triad)", "products": "products (matmul.bf16)"}
WAYS = {
    "floor": "floor alone",
    "neighbours": "neighbours",
    "handover": "one earlier run",
    "history": "30 earlier runs",
}
COLOURS = ("#0072b2", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#56b4e9", "#000000")
"""Okabe and Ito's colours, which the colour-blind can tell apart."""
MARKS = "os^Dv<x"


def draw(told: dict[str, Any], path: Path) -> None:
    """Draw one panel for each family and way: the share of devices found by loss, a line for each spread."""
    mpl.rcParams.update({"svg.fonttype": "none", "font.size": 11, "svg.hashsalt": "detection"})
    figure, rows = plt.subplots(len(FAMILIES), len(WAYS), figsize=(14, 7), sharex=True, sharey=True, squeeze=False)
    losses = [100 * each for each in told["losses"]]
    for row, (family, title) in zip(rows, FAMILIES.items(), strict=True):
        for panel, (way, name) in zip(row, WAYS.items(), strict=True):
            curves = [each for each in told["curves"] if (each["family"], each["way"]) == (family, way)]
            for each, colour, mark in zip(curves, COLOURS, MARKS, strict=True):
                found = [100 * share for share in each["found"]]
                panel.plot(losses, found, color=colour, marker=mark, markersize=4, label=f"{each['spread']:.1%}")
            panel.set_title(f"{name}", fontsize=12)
            panel.axhline(95, color="#999999", linewidth=0.8, linestyle="--")
            panel.grid(color="#dddddd", linewidth=0.6)
            panel.set_xlim(0, 20.5)
            panel.set_ylim(-2, 102)
        row[0].set_ylabel(f"{title}\nfound, %")
    for panel in rows[-1]:
        panel.set_xlabel("one device of eight slower by, %")
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, title="spread of healthy devices and runs", loc="lower center", ncols=len(labels))
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(path, metadata={"Date": None, "Title": "Which loss of one device of eight is found"})


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
