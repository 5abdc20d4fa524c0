"""The facts that a driver states of a device (`Device.facts`): device_facts.yaml has unit and meaning of each.

docs/checks.md is generated from that table and those of the drivers, judging takes units from it, and tests compare it
with both and with the metrics. Beside these facts a device has `unread` and `unsupported`: the facts that could not be
read, and those that it does not have, each with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.data_file import read


@dataclass(frozen=True)
class DeviceFact:
    """One fact. `used` says which decisions use it beside the metrics that judge it (`error_counters.metrics_of`).

    `worse` is "less" or "more" if such a value is a loss, `right` the one value that is right if there is one.
    """

    unit: str
    means: str
    used: str = ""
    worse: str = ""
    right: Any = None


GROUPS = {
    heading: {name: DeviceFact(**fact) for name, fact in facts.items()} for heading, facts in read(__file__).items()
}
"""The facts by subject: the headings of the page, in its order."""
DEVICE_FACTS = {name: fact for facts in GROUPS.values() for name, fact in facts.items()}
NOW = GROUPS["State at the moment"]

LESS_IS_WORSE = {name for name, fact in DEVICE_FACTS.items() if fact.worse == "less"} | {
    *("host.cpus", "host.memory", "host.nvme", "host.numa_nodes", "host.nics", "host.nics_active", "host.nic_rate")
}
"""Facts of which a smaller value is a loss."""
MORE_IS_WORSE = {name for name, fact in DEVICE_FACTS.items() if fact.worse == "more"} | {
    *("host.pcie_fatal", "host.ecc_uncorrected", "host.machine_checks")
}
"""Facts of which a larger value is a loss: errors that nothing corrected, and flags of broken parts."""
RIGHT: Mapping[str, Any] = {name: fact.right for name, fact in DEVICE_FACTS.items() if fact.right is not None}
"""Facts with one value that is right."""
