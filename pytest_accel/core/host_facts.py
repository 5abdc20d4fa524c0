"""The facts of the host (`host.NAME`): host_facts.yaml has unit, meaning and source of each.

drivers/host reads them, judging takes units from here, and docs/checks.md is generated from that table.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_accel.core.data_file import read


@dataclass(frozen=True)
class HostFact:
    """One fact. `source` names the files or the command that it is read from.

    `counts`: it counts errors, is read again after the last probe, and is judged as `host_counters.NAME` too.
    """

    unit: str
    means: str
    source: str
    counts: bool = False


HOST_FACTS = {name: HostFact(**fact) for name, fact in read(__file__).items()}
"""The facts by name, in the order of display."""
COUNTED_HOST_FACTS = tuple(name for name, fact in HOST_FACTS.items() if fact.counts)
"""The names of the facts that count errors."""
