"""The node file: which SKU on which platform is simulated, and its faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted, yaml_nodes
from pytest_accel.core.sku_types import Platform, Sku
from pytest_accel.core.yaml_nodes import BadFile, Check, Located, Mistakes
from pytest_accel.probes.declare import declarations
from pytest_accel.simulate import stated
from pytest_accel.simulate.faults import FAULTS, PARAMETERS
from pytest_accel.skus import loader

SIMULATED_VENDORS = ("nvidia", "amd")
"""Vendors whose management library can be simulated."""

NOT_OF = {"amd": stated.ONLY_ON["nvidia"], "nvidia": stated.ONLY_ON["amd"]}
"""Faults that cannot be simulated on the devices of a vendor. They are refused, because a rehearsal in which nothing
happens would look like a pass."""

PROBES = tuple(sorted(probe.name for probe in declarations() if probe.packaged and not probe.fact))
"""Probes that a fault may begin with: `at: soak`, or ten simulated seconds later `at: soak+10`."""

THRESHOLD_KEYS = frozenset({"extends", "vendor", "match", "datasheet", "limits"})
"""Keys by which a threshold file is told from a node file."""

DEFAULT_DEVICES = 1
"""Number of devices on a platform that declares none."""

MOST_DEVICES = 230
"""The most devices of a node. Each has a PCI bus of its own: a domain has 256, and the first 26 are not theirs."""


@dataclass(frozen=True)
class PlantedFault:
    """One fault of a node file. `devices` are indices in the node; `probe` and `seconds` say when it begins."""

    name: str
    devices: tuple[int, ...] = ()
    probe: str = ""
    seconds: float = 0.0
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedNode:
    """A node to simulate. `source` is the path of the node file, or the name of a SKU for a healthy node."""

    source: str
    sku: Sku
    sku_option: str
    """Name of the SKU for --accel-sku."""
    platform: Platform
    seed: int = 0
    faults: tuple[PlantedFault, ...] = ()
    sha256: str | None = None

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.platform.devices or DEFAULT_DEVICES


def load(name: str) -> SimulatedNode:
    """Load a node by the path of its file, or a healthy node by the name of a SKU.

    Raises BadFile with all mistakes.
    """
    if not name.endswith((".yaml", ".yml")) and "/" not in name:
        sku = loader.load(name)
        _check_vendor(sku, name)
        return SimulatedNode(name, sku, name, next(iter(sku.platforms.values())))
    path = Path(name)
    if not untrusted.exists(path):
        raise BadFile(f"{name}: there is no such node file")
    root, digest = yaml_nodes.read(path, name)
    check_kind(root, name)
    if isinstance(root.data, dict) and "nodes" in root.data:
        raise BadFile(f"{name}: is a cluster file (it has 'nodes'), which is rehearsed with --accel-network")
    mistakes = Mistakes()
    fields = _NODE(root, "", mistakes) or {}
    mistakes.raise_if_any()
    return _build(fields, root, path, digest)


def check_kind(root: Located, name: str) -> None:
    """Raise BadFile for a threshold file, which describes a product and not a node."""
    if isinstance(root.data, dict) and (of_product := sorted(set(root.data) & THRESHOLD_KEYS)):
        raise BadFile(
            f"{name}: is a threshold file (it has '{of_product[0]}'), not a node file; to rehearse with it, write a "
            f"node file that names it: 'sku: {Path(name).name}'"
        )


def _build(fields: dict[str, Any], root: Located, path: Path, digest: str) -> SimulatedNode:
    """Return the node of a file, after checking its keys against the SKU."""
    sku_name, sku, platform = product_of(fields, root, path)
    mistakes = Mistakes()
    faults = tuple(fields.get("faults", ()))
    for fault in faults:
        if fault.name in NOT_OF.get(sku.vendor, ()):
            mistakes.add(root.data["faults"], f"faults: {fault.name} cannot be simulated on a device of {sku.vendor}")
    mistakes.raise_if_any()
    node = SimulatedNode(str(path), sku, sku_name, platform, fields.get("seed", 0), faults, digest)
    for item, fault in zip(root.data["faults"].data if faults else (), faults, strict=True):
        if unknown_devices := [index for index in fault.devices if index >= node.devices]:
            hint = f"{platform.name} has {node.devices}, numbered from 0"
            mistakes.add(item, f"device: there is no device {unknown_devices[0]}; {hint}")
    mistakes.raise_if_any()
    return node


def product_of(fields: dict[str, Any], root: Located, path: Path) -> tuple[str, Sku, Platform]:
    """Return what a file of simulated hardware names: the SKU for --accel-sku, itself, and the platform.

    Raises BadFile.
    """
    sku_name = fields["sku"]
    if sku_name.endswith((".yaml", ".yml")) or "/" in sku_name:
        sku_name = str(path.parent / sku_name)
    try:
        sku = loader.load(sku_name)
    except BadFile as bad:
        raise BadFile(*bad.prefixed(f"{root.data['sku'].where}: sku")) from None
    _check_vendor(sku, root.data["sku"].where)
    platform_name = fields.get("platform", next(iter(sku.platforms)))
    platform = sku.platform_named(platform_name)
    if platform is None:
        hint = yaml_nodes.nearest(platform_name, sku.platform_names)
        raise BadFile(f"{root.data['platform'].where}: platform: {platform_name!r} is not known; {hint}")
    if (platform.devices or 0) > MOST_DEVICES:
        location = root.data.get("platform", root.data["sku"]).where
        raise BadFile(
            f"{location}: {platform.name} has {platform.devices} devices; at most {MOST_DEVICES} can be simulated"
        )
    return sku_name, sku, platform


def _check_vendor(sku: Sku, location: str) -> None:
    """Raise BadFile if the SKU's vendor cannot be simulated."""
    if sku.vendor not in SIMULATED_VENDORS:
        vendors = ", ".join(SIMULATED_VENDORS)
        raise BadFile(f"{location}: {sku.name} is of vendor {sku.vendor}; only devices of {vendors} can be simulated")


def fault_name(item: Located, key: str, mistakes: Mistakes, kinds: Mapping[str, Any], example: str) -> str | None:
    """Return the name of one entry of `faults`, whose other keys depend on its kind."""
    if not isinstance(item.data, dict) or "fault" not in item.data:
        mistakes.add(item, f"{key}: expected a mapping such as {{fault: {example}}}, found {item.plain()!r}")
        return None
    return yaml_nodes.one_of(*kinds)(item.data["fault"], f"{key}.fault", mistakes)


def _fault(item: Located, key: str, mistakes: Mistakes) -> PlantedFault | None:
    name = fault_name(item, key, mistakes, FAULTS, "slow-compute, device: 3")
    if name is None:
        return None
    kind = FAULTS[name]
    keys: dict[str, Check] = {"fault": yaml_nodes.text}
    keys.update({} if kind.of_node else {"device": _indices})
    keys.update({"at": _begin} if kind.begins else {})
    keys.update({parameter: PARAMETERS[parameter][0] for parameter in kind.parameters})
    fields = yaml_nodes.record_of(keys, required=() if kind.of_node else ("device",))(item, key, mistakes) or {}
    probe, seconds = fields.get("at") or ("", 0.0)
    parameters = {parameter: fields[parameter] for parameter in kind.parameters if fields.get(parameter) is not None}
    return PlantedFault(name, fields.get("device") or (), probe, seconds, parameters)


def _indices(item: Located, key: str, mistakes: Mistakes) -> tuple[int, ...] | None:
    """Return the indices of one device or several."""
    plain = item.plain()
    indices = plain if isinstance(plain, list) else [plain]
    if not indices or any(isinstance(index, bool) or not isinstance(index, int) or index < 0 for index in indices):
        mistakes.add(item, f"{key}: expected the number of a device, from 0 on, or a list of them; found {plain!r}")
        return None
    return tuple(indices)


def _begin(item: Located, key: str, mistakes: Mistakes) -> tuple[str, float] | None:
    """Return (probe, seconds after it begins). Without a probe the seconds count from the node's first load."""
    if isinstance(item.data, str):
        probe, _, delay = item.data.partition("+")
        if probe in PROBES and (delay or "0").replace(".", "", 1).isdigit():
            return probe, float(delay or 0)
        hint = yaml_nodes.nearest(probe, PROBES)
        mistakes.add(item, f"{key}: {item.data!r} is neither PROBE nor PROBE+SECONDS with a probe of the suite; {hint}")
        return None
    value = yaml_nodes.positive(item, key, mistakes)
    return None if value is None else ("", value)


whole_number = yaml_nodes.that(lambda value: type(value) is int, "a whole number")
_NODE: Callable[[Located, str, Mistakes], Any] = yaml_nodes.record_of(
    {"sku": yaml_nodes.text, "platform": yaml_nodes.text, "seed": whole_number, "faults": yaml_nodes.list_of(_fault)},
    required=("sku",),
)
