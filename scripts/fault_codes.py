"""The page docs/fault-codes.md: every fault code with its severity, next step and metrics. Made from the table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_accel.drivers import xids
from pytest_accel.judging import findings
from pytest_accel.judging.fault_codes import (
    ACTIONS,
    DCGM,
    DEVICE,
    HEAT_AND_POWER,
    HOST,
    INVENTORY,
    LINKS,
    MEMORY,
    NOT_JUDGED,
    RESULTS,
    SEVERITIES,
    FaultCode,
)
from pytest_accel.views.markdown import table

PARTS = (
    ("The device", DEVICE),
    ("Memory", MEMORY),
    ("Links", LINKS),
    ("Heat, power and clocks", HEAT_AND_POWER),
    ("Speed and results", RESULTS),
    ("The host", HOST),
    ("Inventory and settings", INVENTORY),
    ("Not judged", NOT_JUDGED),
)
"""The headings of the page, and the codes below them."""
HEAD = """# Fault codes and next steps

Made by `scripts/fault_codes.py` from `pytest_accel/judging/fault_codes.py`. Every verdict that fails or is marginal
has a code, a severity and a next step. They are printed below the closing line (`next: gpu6 (serial ...) A401 ...`;
`-v` prints those of marginal verdicts too), and are in `findings` of the record, in JUnit and in all
[exports](exports.md).

**A code never changes its meaning**, so that tickets and scripts can rely on it. The cause counts more than the metric:
a product that is slow because the device slowed itself down for heat has A401, not A501. Where no cause accounts for
half of the lost clock, the code is that of the metric. An error that the driver reported has the code of that error.

The last column names DCGM's errors of the same kind, with DCGM's severity in parentheses
([source]({dcgm}), November 2026),
for those whose runbooks go by DCGM's names. The figures are not DCGM's.
"""


def page() -> str:
    """Return the whole page in Markdown."""
    lines = [HEAD.format(dcgm=DCGM)]
    lines += ["## Severities", "", *table(("severity", "meaning"), _words(SEVERITIES.items())), ""]
    lines += [
        "A marginal or waived verdict is a `warning` whatever its code. Drain and return hardware on exit status 1"
    ]
    lines += ["alone ([verdicts.md](verdicts.md#closing-lines-and-exit-statuses)); the code says how.", ""]
    lines += ["## Actions", "", *table(("action", "meaning"), _words(ACTIONS.items())), ""]
    for title, codes in PARTS:
        head = ("code", "name", "severity", "action", "meaning", "next step", "metrics", "DCGM")
        lines += [f"## {title}", "", *table(head, map(_row, codes)), ""]
    lines += ["## Xids", "", *_xids()]
    return "\n".join(lines) + "\n"


def _row(fault: FaultCode) -> tuple[str, ...]:
    metrics = ", ".join(f"`{each}`" for each in fault.metrics)
    dcgm = ", ".join(f"`{error}` ({severity})" for error, severity in fault.dcgm)
    return fault.code, fault.name, fault.severity.value, fault.action.value, fault.means, fault.do, metrics, dcgm


def _xids() -> list[str]:
    """Return the part on Xids: the code of each, and NVIDIA's immediate action."""
    text = [
        "An Xid of NVIDIA's driver is a finding with NVIDIA's immediate action in parentheses: `A102 device-lost, Xid",
        f"79 (RESTART_BM)`. The actions are those of [NVIDIA's catalogue]({xids.CATALOGUE}) as of October 2025;",
        "`RESTART_BM` is a restart of the machine. Information is neither judged nor shown.",
        "",
    ]
    codes = {number: name for name, numbers in findings.XIDS.items() for number in numbers}
    others = {xids.HARDWARE: "driver-error", xids.APPLICATION: "driver-notice"}
    rows: dict[tuple[str, ...], list[str]] = {}
    for number, known in sorted(xids.XIDS.items()):
        if known.kind != xids.INFORMATION:
            name = codes.get(number, others[known.kind])
            rows.setdefault((name, known.means, xids.immediate_action(number), known.do), []).append(str(number))
    head = ("Xid", "name of the code", "meaning", "NVIDIA's action", "next step")
    return [*text, *table(head, [(", ".join(numbers), *row) for row, numbers in rows.items()])]


def _words(items: Iterable[tuple[object, str]]) -> list[tuple[str, str]]:
    return [(f"`{getattr(each, 'value', each)}`", words) for each, words in items]


if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs/fault-codes.md").write_text(page(), encoding="utf-8")
