"""Records to export: of a run on a simulated node, with what outsiders may have put into them, and of older kinds."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import in_process
from worded import worded

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.run import Run
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Closing, Status, Verdict, Waiver
from pytest_accel.run import record

NODE_FILE = """
sku: h100-sxm
platform: hgx8
seed: 7
faults:
  - {fault: slow-memory, device: 1}
  - {fault: narrow-pcie, device: 2}
  - {fault: remap-failure, device: 3}
  - {fault: reading-denied, device: 4}
"""
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\x1b[2J\x1b]0;owned\x07",
    "first\nsecond\r\n# third",
    "a \"quoted\" 'text' \\ with \\n backslashes",
    "a | b | c",
    "`code` ``more`` **bold** _it_ ~~no~~ [link](https://evil.example/) ![x](y)",
    "@everyone #123 https://evil.example www.evil.example x@evil.example",
    "]]> <!-- --> &amp; <script>alert(1)</script> <!DOCTYPE x>",
    'a"} 1\naccel_run_exit_status 0\n# HELP x',
    "\x00\x0b\ufffe\ud800 \u202egnp.exe \U000e0001",
    "{{ $labels.x }} ${datasource} $x^2$",
    "- item",
    "1. item",
    "---",
    "    indented",
    "",
    "x" * 5000,
)
"""Texts that mean something in one format or another."""


@functools.cache
def faulty() -> Run:
    """The record of a run in which one device has slow memory, one a narrow link, and so on, as read from its file."""
    with tempfile.TemporaryDirectory() as folder, in_process.fast():
        place = Path(folder)
        (place / "node.yaml").write_text(NODE_FILE, encoding="utf-8")
        here, _ = in_process.run(place / "node.yaml", place / "out", measured=("stream",))
        record.write(here.ledger.record, place)
        return record.read(place / record.FILE)


def hostile(text: str) -> Run:
    """A record in which everything that comes from outside is this text.

    The reader refuses a serial number or UUID with an invisible character, so theirs have none.
    """
    seen = "".join(filter(str.isprintable, text))
    device = Device(seen, 0, "nvidia", text, serial=seen, pci_address=text, facts={"board_part": text, "vbios": text})
    other = replace(device, uuid=f"{seen} 2", index=1, called=text)
    limit = Limit("stream.copy", "GB/s", floor=1.0, origin=text)
    shared: dict[str, Any] = {"reasons": worded(text), "unit": "GB/s", "value": 0.5, "floor": 1.0, "margin": -0.5}
    waiver = Waiver("host.acs", text, text, date(2027, 1, 1))
    verdicts = [
        Verdict("stream.copy", device.uuid, Status.FAIL, limit=limit, **shared),
        Verdict("stream.copy", other.uuid, Status.UNMEASURED, worded(text), limit=limit),
        Verdict(
            "health.pcie_width",
            other.uuid,
            Status.FAIL,
            worded(text),
            unit=text,
            value=text,
            expected=text,
            limit=limit,
        ),
        Verdict(f"own.{text}", device.uuid, Status.MARGINAL, worded(text), unit=text, value=3.0, margin=0.01),
        Verdict("host.acs", NODE, Status.FAIL, worded(text), unit="text", value=text, waiver=waiver),
        Verdict("stream.read", f"missing {text}", Status.NOT_APPLICABLE, worded(text)),
    ]
    return Run(
        run={
            "started": text, "ended": text, "host": text, "command": [text, text], "level": text, "platform": text,
            "user": text, "output": text,
        },
        sku={"name": text, "files": {text: text}},
        devices=[device, other],
        software={"pytest_accel": text, "driver": text, text: text},
        verdicts=verdicts,
        notes=[text],
        state="finished",
        closing=Closing(line=text, exit=1, word="REJECTED"),
        sha256=text,
    )  # fmt: skip


def unended() -> Run:
    """The record of a run that was killed before its first measurement."""
    return Run(run={"started": "2026-11-23T10:00:00+00:00", "host": "n1"})
