"""Differences in what two records state of devices, host, software and limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_accel.core.device_facts import DEVICE_FACTS, IDENTITY, NOW, VERSIONS
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.run import Run
from pytest_accel.core.sku import DeclaredBy
from pytest_accel.core.software import OF_DEVICES
from pytest_accel.core.verdict import show
from pytest_accel.judging import error_counters
from pytest_accel.judging.difference import Difference, Direction, Pair, SubjectKind, Subjects
from pytest_accel.judging.fact_metrics import FACT_METRICS
from pytest_accel.judging.inventory import read
from pytest_accel.judging.limit_differences import differences, facts_of, stated

LESS_IS_WORSE = frozenset(
    {
        "compute_units", "cuda_cores", "memory_bus_bits", "memory_bytes", "power_limit_w", "power_limit_default_w",
        "power_limit_max_w", "clock_max_mhz", "memory_clock_max_mhz", "clock_application_mhz", "pcie_width",
        "pcie_gen_max", "pcie_width_max", "nvlink_count", "nvlink_up", "nvlink_gb_per_s", "xgmi_up", "xgmi_gb_per_s",
        "host.cpus", "host.memory", "host.numa_nodes", "host.nics", "host.nic_rate", "host.nvme",
    }
)  # fmt: skip
"""Facts of which a smaller value is a loss."""
MORE_IS_WORSE = frozenset(
    {
        "ecc_uncorrectable_aggregate", "ecc_uncorrectable_volatile", "ecc_sram_uncorrectable_aggregate",
        "ecc_sram_uncorrectable_volatile", "ecc_dram_uncorrectable_aggregate", "ecc_dram_uncorrectable_volatile",
        "ecc_deferred_volatile", "remapped_uncorrectable", "retired_pages_uncorrectable", "bad_pages",
        "bad_pages_pending", "bad_pages_unreservable", "pcie_fatal", "xgmi_down", "ecc_sram_threshold_exceeded",
        "remap_pending", "remap_failure", "retired_pages_pending", "channel_repair_pending", "tpc_repair_pending",
        "memory_unrepairable", "host.pcie_fatal", "host.ecc_uncorrected", "host.machine_checks", "host.fan_alarms",
    }
)  # fmt: skip
"""Facts of which a larger value is a loss: errors that nothing corrected, and flags of what is broken."""
HEALTHY: Mapping[str, Any] = {
    "ecc": True,
    "recovery_action": "none",
    "fabric_state": "completed",
    "fabric_status": 0,
    "fabric_faults": [],
    "fabric_health": "healthy",
    "xgmi_errors": "none",
}
"""Facts with one value that is right."""
NOT_COMPARED = frozenset(NOW) | {
    "pcie_gen", "nvlinks", "pcie_path", "xgmi_links", "xgmi_states", "ecc_blocks", "remap_banks", "sole", "visible_as",
    "unread", "unsupported",
}  # fmt: skip
"""Facts that differ from one moment to the next, and lists whose counts and errors other facts state."""
FROM_LISTS = ("health.pcie_path_width", "health.nvlink_errors", "health.remap_banks_exhausted")
"""The metrics that are made of such lists. More is worse but for the width."""
COUNTERS_OF_USE = ("correctable", "replays", "recoveries", "naks")
"""Parts of the names of facts that count what is usual."""
HOST_NOW = ("shm_free", "inlet", "memory_usable", "kernel_log", "accelerator_numa")
"""Facts of the host that differ from one moment to the next, or from user to user."""
NEAR_SAME = 0.001
"""Sizes in GB that differ by less are the same: the kernel reserves some memory anew at each boot."""

_DRIVEN = frozenset(OF_DEVICES.values()) - {"vbios", "firmware_bundle"}
"""Versions of what is installed on the host, which come with its software."""


def devices(first: Run, last: Run, shared: Subjects) -> list[Difference]:
    """Return the devices that are gone, new, in another slot, or another one in the same slot."""
    then = {pair.then.uuid for pair in shared.pairs}
    now = {pair.now.uuid for pair in shared.pairs}
    gone = [device for device in first.devices if device.uuid not in then]
    new = [device for device in last.devices if device.uuid not in now]
    found = []
    for device in gone:
        other = next((each for each in new if _same_place(device, each)), None)
        if other is not None:
            new.remove(other)
            note = f"another device in slot {other.pci_address}" if other.pci_address else "another device"
            found.append(
                Difference(SubjectKind.DEVICE, (other.name,), "serial", _id(device), _id(other), note=note, rank=2)
            )
        else:
            place = f" in slot {device.pci_address}" if device.pci_address else ""
            said = f"{_id(device)}{place}"
            found.append(
                Difference(SubjectKind.DEVICE, (device.name,), "device", said, "gone", Direction.WORSE, counts=True)
            )
    for device in new:
        place = f" in slot {device.pci_address}" if device.pci_address else ""
        found.append(
            Difference(
                SubjectKind.DEVICE, (device.name,), "device", "not there", f"{_id(device)}{place}", Direction.BETTER
            )
        )
    return found + [each for pair in shared.pairs for each in _moved(pair)]


def _same_place(then: Device, now: Device) -> bool:
    return then.uuid == now.uuid or bool(then.pci_address and then.pci_address == now.pci_address)


def _id(device: Device) -> str:
    return f"serial {device.serial}" if device.serial else device.uuid


def _moved(pair: Pair) -> Iterable[Difference]:
    slots = pair.then.pci_address, pair.now.pci_address
    if slots[0] and slots[1] and slots[0] != slots[1]:
        yield Difference(SubjectKind.DEVICE, (pair.name,), "slot", slots[0], slots[1], rank=3)
    if pair.then.uuid != pair.now.uuid:
        note = f"the same serial {pair.now.serial}"
        yield Difference(SubjectKind.DEVICE, (pair.name,), "UUID", pair.then.uuid, pair.now.uuid, note=note, rank=4)
    if pair.then.model != pair.now.model:
        yield Difference(SubjectKind.DEVICE, (pair.name,), "model", pair.then.model, pair.now.model, rank=1)


def facts(first: Run, last: Run, shared: Subjects) -> list[Difference]:
    """Return the facts and settings of devices, host and run that differ."""
    versions = {fact for name, fact in OF_DEVICES.items() if name in first.software and name in last.software}
    known = _DRIVEN & versions
    found = [each for pair in shared.pairs for each in _of_pair(pair, known)]
    found += _of_host(first, last) if shared.whole else []
    before, after = _settings(first), _settings(last)
    for name in sorted({*before, *after}):
        then, now = before.get(name, "not set"), after.get(name, "not set")
        if then != now:
            found.append(Difference(SubjectKind.FACT, ("run",), name, then, now, rank=4))
    return found


def _settings(run: Run) -> dict[str, str]:
    """Return what the user chose or set: level, platform, variables of the environment."""
    chosen = {"level": run.run.get("level"), "platform": run.run.get("platform")}
    chosen.update(run.run.get("environment", {}).get("kept", {}))
    return {name: value for name, value in chosen.items() if value}


def _of_pair(pair: Pair, known: frozenset[str]) -> Iterable[Difference]:
    stated = [{**device.facts, "memory_bytes": device.memory_bytes or None} for device in (pair.then, pair.now)]
    for name in [*DEVICE_FACTS, "memory_bytes"]:
        if name in known or name in NOT_COMPARED:
            continue
        then, now = (_comparable(facts_.get(name)) for facts_ in stated)
        if then is None or now is None or then == now:
            continue
        unit = DEVICE_FACTS[name].unit if name in DEVICE_FACTS else "B"
        yield fact(pair.name, name, then, now, unit)
    for metric in FROM_LISTS:
        (unit, before, _), (_, after, _) = read(metric, pair.then), read(metric, pair.now)
        if isinstance(before, int | float) and isinstance(after, int | float) and before != after:
            less = (after < before) == (metric == "health.pcie_path_width")
            direction = Direction.WORSE if less else Direction.BETTER
            counts = less and metric != "health.nvlink_errors"
            yield Difference(
                SubjectKind.FACT, (pair.name,), metric, show(before, unit), show(after, unit), direction, counts
            )


def _comparable(value: Any) -> Any:
    """Return a fact as something that can be compared: a list of a record as one, too."""
    return list(value) if isinstance(value, tuple) else value


def fact(where: str, name: str, then: Any, now: Any, unit: str = "") -> Difference:
    """Return the difference between two values of a fact; that of a host is called "host.NAME"."""
    direction = direction_of(name, then, now)
    usual = any(part in name for part in COUNTERS_OF_USE) and name not in MORE_IS_WORSE
    rank = 3 if usual else 2 if name in IDENTITY else 1 if name in VERSIONS else 0
    unit = unit if unit in ("W", "MHz", "GB/s", "GB", "C", "K", "s") else ""
    worse = direction is Direction.WORSE
    return Difference(
        SubjectKind.FACT, (where,), name, _words(then, unit), _words(now, unit), direction, worse, rank=rank
    )


def direction_of(name: str, then: Any, now: Any) -> Direction:
    """Return what it means that a fact changed from one value to another."""
    if name in HEALTHY:
        if now == HEALTHY[name]:
            return Direction.BETTER
        return Direction.WORSE if then == HEALTHY[name] else Direction.OTHER
    numbers = isinstance(then, int | float) and isinstance(now, int | float)
    if not numbers or name not in LESS_IS_WORSE | MORE_IS_WORSE:
        return Direction.OTHER
    return Direction.WORSE if (now < then) == (name in LESS_IS_WORSE) else Direction.BETTER


def _words(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in sorted(value.items()))
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value} {unit}" if unit else str(value)


def _of_host(first: Run, last: Run) -> Iterable[Difference]:
    then, now = _host(first), _host(last)
    for name in HOST_FACTS:
        if name in HOST_NOW or name not in then or name not in now or then[name] == now[name]:
            continue
        before, after = then[name], now[name]
        near = HOST_FACTS[name].unit == "GB" and abs(after - before) <= NEAR_SAME * abs(before)
        if not near:
            yield fact(NODE, f"host.{name}", before, after, HOST_FACTS[name].unit)
    if first.host != last.host:
        yield Difference(SubjectKind.FACT, (NODE,), "host", first.host, last.host)


def _host(contents: Run) -> dict[str, Any]:
    stated = {each.metric: each.value for each in contents.measurements if each.subject == NODE and not each.trouble}
    return {name: stated[f"host.{name}"] for name in HOST_FACTS if stated.get(f"host.{name}") is not None}


def software(first: Run, last: Run) -> list[Difference]:
    """Return the versions of software and threshold files that differ."""
    hidden = {name for name, fact_ in OF_DEVICES.items() if fact_ not in _DRIVEN}
    found, versions = [], [each.software for each in (first, last)]
    for name in dict.fromkeys([*OF_DEVICES, *versions[0], *versions[1]]):
        then, now = (each.get(name) for each in versions)
        if then != now and name not in hidden:
            before, after = (str(each) if each is not None else "not stated" for each in (then, now))
            found.append(Difference(SubjectKind.SOFTWARE, (), name, before, after, rank=0 if then and now else 1))
    then_files, now_files = (_by_name(each.sku.get("files", {})) for each in (first, last))
    for name in dict.fromkeys([*then_files, *now_files]):
        before, after = (files.get(name, "")[:12] or "not used" for files in (then_files, now_files))
        if before != after:
            found.append(Difference(SubjectKind.SOFTWARE, (), f"file {name}", before, after, rank=2))
    return found


def _by_name(files: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of files by path, or by the name alone where no other file has it: folders may move."""
    names = [path.rpartition("/")[2] for path in files]
    return {path if names.count(name) > 1 else name: files[path] for path, name in zip(files, names, strict=True)}


def limits(first: Run, last: Run) -> list[Difference]:
    """Return the limits that differ, by metric, where both records have a verdict. Markers of tests are no limits."""
    then, now = _limits(first), _limits(last)
    both = {each.metric for each in first.verdicts} & {each.metric for each in last.verdicts}
    found = []
    for metric in dict.fromkeys([*then, *now]):
        if metric not in both:
            continue
        if metric not in then or metric not in now:
            before, after = ("no limit" if metric not in each else _bounds(each[metric]) for each in (then, now))
            found.append(Difference(SubjectKind.LIMIT, (), metric, before, after, rank=1))
        elif moved := differences(then[metric], now[metric]):
            before, after = (_bounds(each[metric]) for each in (then, now))
            found.append(Difference(SubjectKind.LIMIT, (), metric, before, after, note=", ".join(moved)))
    return found


def _limits(contents: Run) -> dict[str, dict[str, Any]]:
    limits_ = [each.limit for each in contents.verdicts if each.limit]
    return {each.metric: facts_of(each) for each in limits_ if each.declared_by is not DeclaredBy.MARKER}


def _bounds(facts: Mapping[str, Any]) -> str:
    return stated(facts) or "no bound"


def metrics_of(name: str) -> tuple[str, ...]:
    """Return the metrics that judge a fact of a device or of the host."""
    if name.startswith("host.") or name in FACT_METRICS:
        return (name,)
    return error_counters.judged_by(name) if name in DEVICE_FACTS else ()
