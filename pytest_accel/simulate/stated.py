"""Faults that show only in what a device, the management library or the host reports: those of stated.yaml.

A row there is the whole fault. Those of the library as a whole follow here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pytest_accel.core.data_file import read
from pytest_accel.simulate.faults import Symptoms, fault

ACS_ON = b"\0" * 0x100 + struct.pack("<IHH", 0x000D | 1 << 16, 0xFF, 0x001D) + b"\0" * (4096 - 0x108)
"""Configuration space of a bridge whose access control redirects traffic between devices (PCIe, ACS)."""
BUS = {"nvidia": {"vendor": "0x10de", "kind": "0x030200"}, "amd": {"vendor": "0x1002", "kind": "0x120000"}}
"""Vendor and class that the PCI bus reports for a device (3D controller, processing accelerator)."""
PORT = "sys/class/infiniband/mlx5_0/ports/1"

_TABLES = read(__file__)
_TABLES["host"]["acs-on"]["shows"]["sys/devices/pci0000:10/0000:10:01.0/config"] = ACS_ON
ONLY_ON: Mapping[str, list[str]] = _TABLES["only_on"]
"""Faults that only the library of a vendor can report, or that only its limits catch, by that vendor."""


def _enter(symptom: str, name: str, row: Mapping[str, Any], *, of_node: bool) -> None:
    """Register a row as a fault, which adds what is shown to a symptom: `shows` of a device, `host`."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in row["shows"].items()}

    def apply(symptoms: Symptoms) -> None:
        getattr(symptoms, symptom).update(values)

    apply.__doc__ = row["does"]
    fault(name, row["caught_by"], of_node=of_node, begins=row.get("begins", False))(apply)


for _name, _row in _TABLES["device"].items():
    _enter("shows", _name, _row, of_node=False)
for _name, _row in _TABLES["host"].items():
    _enter("host", _name, _row, of_node=True)


@fault("wrong-driver", "inventory.driver_version where the SKU's file limits it", of_node=True)
def _(symptoms: Symptoms, version: str = "535.54.03") -> None:
    """Report another driver version than the threshold file requires."""
    symptoms.shows["driver"] = version


@fault("driver-mismatch", "inventory.driver", of_node=True)
def _(symptoms: Symptoms) -> None:
    """Give library and kernel module different versions, as after a driver update without a reboot."""
    symptoms.library = "mismatched"


@fault("driver-not-loaded", "inventory.driver", of_node=True)
def _(symptoms: Symptoms) -> None:
    """Let the management library report that the kernel module is not loaded."""
    symptoms.library = "not loaded"


@fault("library-missing", "inventory.driver", of_node=True)
def _(symptoms: Symptoms) -> None:
    """Remove the management library."""
    symptoms.library = "missing"


@fault("library-blocked", "inventory.driver, after --accel-patience seconds", of_node=True)
def _(symptoms: Symptoms) -> None:
    """Let the management library block for ever."""
    symptoms.library = "blocked"
