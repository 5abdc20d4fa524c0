"""docs/facts.md as text: every fact of the devices and of the host, from the tables that the code uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.device_facts import GROUPS, DeviceFact
from pytest_accel.core.host_facts import HOST_FACTS, HostFact
from pytest_accel.judging.error_counters import judged_by
from pytest_accel.views.markdown import table

RECORD_ONLY = "record only"


def page() -> str:
    """Return the whole page in Markdown."""
    return "\n".join(
        [
            "# Facts",
            "",
            "Made by `scripts/facts.py` from `device_facts`, `host_facts` and `clock_events` in `pytest_accel/core/`.",
            "Tests compare them with what the drivers state and with the metrics that judge it.",
            "",
            "## Of a device",
            "",
            "What a driver states of a device is in the record under `devices[].facts`. A driver that does not state a",
            "fact has no name in its column. A fact that could not be read is named under `unread`, one that device or",
            "driver do not have under `unsupported`, each with the reason.",
            "",
            *(line for title, facts in GROUPS.items() for line in _group(title, facts)),
            "## Clock event reasons",
            "",
            "The bits of `reasons`, with NVML's values (nvml.h). The drivers of other vendors use the same bits.",
            "",
            *table(("bit", "reason"), [(f"`{event.value:#05x}`", name) for name, event in _events()]),
            "",
            "## Of the host",
            "",
            "Each is judged as `host.NAME`. One that counts errors is read again after the last probe, and how far it",
            "moved is judged as `host_counters.NAME`. What hides a fact from you is in [needs.md](needs.md).",
            "",
            *table(
                ("fact", "unit", "meaning", "read from", "judged as"),
                [_host_row(name, fact) for name, fact in HOST_FACTS.items()],
            ),
            "",
        ]
    )


def _group(title: str, facts: Mapping[str, DeviceFact]) -> list[str]:
    head = ("fact", "unit", "meaning", "NVIDIA (NVML)", "AMD (amdsmi)", "without a library", "judged as, used for")
    return [f"### {title}", "", *table(head, [_device_row(name, fact) for name, fact in facts.items()]), ""]


def _device_row(name: str, fact: DeviceFact) -> Sequence[str]:
    use = ", ".join([*(f"`{metric}`" for metric in judged_by(name)), *([fact.used] if fact.used else [])])
    sources = (_code(source) for source in (fact.nvml, fact.amdsmi, fact.file))
    return f"`{name}`", fact.unit, fact.means, *sources, use or RECORD_ONLY


def _host_row(name: str, fact: HostFact) -> Sequence[str]:
    counter = f", `host_counters.{name}`" if fact.counts else ""
    return f"`{name}`", fact.unit, fact.means, fact.source.replace("*", r"\*"), f"`host.{name}`{counter}"


def _code(sources: str) -> str:
    return ", ".join(f"`{source}`" for source in sources.split(", ") if source)


def _events() -> Sequence[tuple[str, ClockEvent]]:
    return [(name.lower().replace("_", " "), event) for name, event in ClockEvent.__members__.items()]


if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs/facts.md").write_text(page(), encoding="utf-8")
