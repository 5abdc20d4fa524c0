"""The schema of a threshold file: every key, the values that it may have, and the keys that are required."""

from __future__ import annotations

from pytest_accel.core import versions, yaml_lines
from pytest_accel.core.sku import DTYPES, LEVELS, TOPOLOGIES, UNITS
from pytest_accel.core.yaml_lines import Findings, Located

SOURCE_KINDS = ("datasheet", "published", "measured", "derived")
VENDORS = ("nvidia", "amd", "intel", "habana", "google", "ascend", "neuron", "cpu")

_source = yaml_lines.record_of(
    {
        "kind": yaml_lines.one_of(*SOURCE_KINDS),
        "by": yaml_lines.text,
        "date": yaml_lines.date,
        "software": yaml_lines.text,
        "conditions": yaml_lines.text,
        "url": yaml_lines.text,
        "devices": yaml_lines.count,
        "nodes": yaml_lines.count,
    },
    required=("kind", "by", "date"),
)


def _range(at: Located, key: str, findings: Findings) -> str | None:
    """Return a range of versions such as ">=1.2"."""
    text = yaml_lines.text(at, key, findings)
    try:
        return text and versions.parse(text).text
    except versions.BadRange as bad:
        findings.add(at, f"{key}: {bad}")
        return None


def _floor(at: Located, key: str, findings: Findings) -> float | str | None:
    """Return a floor: a number, or "derived"."""
    return "derived" if at.data == "derived" else yaml_lines.number(at, key, findings)


_limit = yaml_lines.record_of(
    {
        "floor": _floor,
        "ceiling": yaml_lines.number,
        "warn": yaml_lines.number,
        "equals": yaml_lines.anything,
        "version": _range,
        "same_on_all": yaml_lines.flag,
        "severity": yaml_lines.one_of("fail", "warn"),
        "if_supported": yaml_lines.flag,
        "reference": yaml_lines.positive,
        "unit": yaml_lines.one_of(*UNITS),
        "levels": yaml_lines.list_of(yaml_lines.one_of(*LEVELS)),
        "source": _source,
        "ranks": yaml_lines.count,
        "algorithm": yaml_lines.text,
        "software": yaml_lines.mapping_of(_range),
    },
    required=("unit", "source"),
)

_link = yaml_lines.record_of(
    {
        "type": yaml_lines.text,
        "topology": yaml_lines.one_of(*TOPOLOGIES),
        "count": yaml_lines.count,
        "gb_per_s": yaml_lines.positive,
    },
    required=("type",),
)

_platform = yaml_lines.record_of(
    {
        "title": yaml_lines.text,
        "devices": yaml_lines.count,
        "virtual": yaml_lines.flag,
        "passed_through": yaml_lines.flag,
        "power_watts": yaml_lines.positive,
        "pcie": yaml_lines.record_of(
            {"gen": yaml_lines.count, "lanes": yaml_lines.count, "gb_per_s": yaml_lines.positive}
        ),
        "host_link": _link,
        "link": _link,
        "limits": yaml_lines.mapping_of(_limit),
        "source": _source,
    }
)

_datasheet = yaml_lines.record_of(
    {
        "tflops": yaml_lines.record_of(dict.fromkeys(DTYPES, yaml_lines.positive)),
        "unsupported": yaml_lines.list_of(yaml_lines.one_of(*DTYPES)),
        "memory": yaml_lines.record_of(
            {
                "type": yaml_lines.text,
                **dict.fromkeys(("gb", "gb_per_s", "clock_mhz", "bus_bits"), yaml_lines.positive),
            }
        ),
        "compute": yaml_lines.record_of(
            {
                "units": yaml_lines.count,
                "kind": yaml_lines.text,
                **dict.fromkeys(
                    (
                        "tensor_clock_mhz",
                        "tensor_flops_per_clock",
                        "fp32_clock_mhz",
                        "fp32_flops_per_clock",
                        "max_clock_mhz",
                    ),
                    yaml_lines.positive,
                ),
            }
        ),
        "power": yaml_lines.record_of(dict.fromkeys(("watts", "min_watts", "max_watts"), yaml_lines.positive)),
        "temperature": yaml_lines.record_of(
            dict.fromkeys(("max_operating_c", "slowdown_c", "shutdown_c", "memory_max_c"), yaml_lines.positive)
        ),
        "source": _source,
        "sources": yaml_lines.mapping_of(_source),
    }
)

SKU = yaml_lines.record_of(
    {
        "sku": yaml_lines.text,
        "title": yaml_lines.text,
        "vendor": yaml_lines.one_of(*VENDORS),
        "extends": yaml_lines.text,
        "architecture": yaml_lines.text,
        "match": yaml_lines.record_of(
            {
                **dict.fromkeys(
                    ("names", "pci_ids", "subsystems", "virtual_functions"), yaml_lines.list_of(yaml_lines.text)
                ),
                "compute_units": yaml_lines.list_of(yaml_lines.count),
                "source": _source,
            }
        ),
        "datasheet": _datasheet,
        "precision": yaml_lines.positive,
        "spread": yaml_lines.mapping_of(
            yaml_lines.record_of(
                {"between_runs": yaml_lines.positive, "runs": yaml_lines.count, "source": _source},
                required=("between_runs", "runs", "source"),
            )
        ),
        "probes": yaml_lines.mapping_of(yaml_lines.mapping_of(yaml_lines.anything)),
        "budgets": yaml_lines.record_of(dict.fromkeys(LEVELS, yaml_lines.mapping_of(yaml_lines.positive))),
        "not_applicable": yaml_lines.mapping_of(yaml_lines.text),
        "limits": yaml_lines.mapping_of(_limit),
        "platforms": yaml_lines.mapping_of(_platform),
        "siblings": yaml_lines.mapping_of(
            yaml_lines.record_of(dict.fromkeys(("same", "differ"), yaml_lines.list_of(yaml_lines.text)))
        ),
        "explained": yaml_lines.list_of(
            yaml_lines.record_of(
                dict.fromkeys(("rule", "key", "reason"), yaml_lines.text), required=("rule", "key", "reason")
            )
        ),
    },
    required=("sku", "vendor", "platforms"),
)
