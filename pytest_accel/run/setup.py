"""The start of a run, as two frozen objects: its inputs, and the node that was found by them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_accel.core.measurement import Device, TroubleKind
from pytest_accel.core.messages import Message, Problem, reported_trouble
from pytest_accel.core.metric_name import parse
from pytest_accel.core.node_name import node_name
from pytest_accel.core.run import Circumstances, Objection, Run
from pytest_accel.core.sku_types import GUEST_SLICE, SLICE, Sku
from pytest_accel.core.summary import Summary
from pytest_accel.core.units import in_bytes
from pytest_accel.drivers import registry
from pytest_accel.judging.closing import series_result
from pytest_accel.judging.facts import packing
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.probes.collectives import OPERATIONS, OTHERS_SIZE, collective
from pytest_accel.probes.declare import declaration_for, finder_of
from pytest_accel.run import earlier_records, record, simulation, terms
from pytest_accel.run.options import AUTO, NO_PREVIOUS_RUN, Options, Refused
from pytest_accel.run.processes.programs import REAL
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.rendezvous import Rendezvous, leaf_of, rendezvous_of
from pytest_accel.run.request_completion import request_of
from pytest_accel.run.terms import TermOptions, Terms
from pytest_accel.skus import requirements
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.skus.waivers import Waivers

if TYPE_CHECKING:
    from pytest_accel.simulate.cluster import SimulatedCluster
    from pytest_accel.simulate.node import SimulatedNode


@dataclass(frozen=True)
class Inputs:
    """The inputs of a run: its options, and the files that they name, already read."""

    options: Options
    term_options: TermOptions
    """The terms that the options name."""
    named_sku: Sku | None = None
    """The SKU that is named; None for auto."""
    waivers: Waivers = field(default_factory=Waivers)
    packing_list: PackingList | None = None
    """The packing list that the devices have to be on, None without one."""
    baseline: Sequence[Summary] = ()
    """The earlier records that the options name; those beside the record of this run are found later."""
    rendezvous: Rendezvous | None = None
    """The rendezvous of the agents of a network run; None in any other run."""
    leaf: str = ""
    """The leaf switch of this node, as its launcher states it."""
    cluster: SimulatedCluster | None = None
    """The simulated cluster of a network run, None on real hardware."""
    simulated_node: SimulatedNode | None = None
    """The simulated node, None on real hardware."""
    previous_run: Run | None = None
    """The record of the run before in a series; None in its first run, and in one by itself."""

    @property
    def objections(self) -> list[Objection]:
        """The objections to an acceptance that follow from the options."""
        network = Objection("tests", "--accel-network measures between nodes")
        return [*self.options.objections, *([network] if self.options.network else [])]

    @property
    def vendor(self) -> str | None:
        """The vendor of the SKU that is named, None without one."""
        return self.named_sku.vendor if self.named_sku else None

    @property
    def elapsed(self) -> float:
        """The simulated seconds at which a simulated node begins: those of the runs before it in a series."""
        if (previous := self.previous_run) is None:
            return 0.0
        return float(previous.info.get("simulated", {}).get("began", 0.0)) + series_result.seconds_of(previous)


def read_inputs(options: Options) -> Inputs:
    """Return the inputs of a run, before any process is started. Raises Refused for a wrong file or option."""
    cluster, node = None, None
    if not options.network:
        node = simulation.node(options.simulate, options.launch, option=f"{options.prefix}simulate")
    elif options.simulate:
        cluster, node = simulation.cluster(options.simulate)
    rendezvous = rendezvous_of(options.launch, os.environ) if options.network and not options.simulate else None
    sku = options.sku or (node.sku_option if node else "")
    term_options = TermOptions(sku, options.platform, options.level, options.prefix)
    return Inputs(
        options,
        term_options,
        term_options.load_sku(on_hardware=node is None),
        terms.waivers(options.waivers, f"{options.prefix}waivers"),
        terms.boards(options.packing_list),
        earlier_records.baseline_runs(options.baseline, rehearsal=node is not None),
        rendezvous,
        leaf_of(os.environ) if rendezvous else "",
        cluster,
        node,
        record.read(Path(options.previous_record)) if options.previous_record not in ("", NO_PREVIOUS_RUN) else None,
    )


def demand_torch(inputs: Inputs) -> None:
    """Raise Refused if the whole packaged suite is to run without torch: hundreds of limits would tell one need.

    A run of chosen tests may read facts alone, which needs none. torch itself is not loaded.
    """
    vendor = registry.vendor(inputs.vendor) if inputs.vendor else None
    if Circumstances(against=inputs.objections).narrowed or (vendor and vendor.torch is None) or _has_torch():
        return
    raise Refused(
        "torch is not installed in this environment, so nothing can be measured; "
        "install it (docs/running.md), or choose tests that need none: -k 'inventory or health'"
    )


@dataclass(frozen=True)
class Target:
    """The node as it was found: its devices, and the terms that they are judged by."""

    discovery: Discovery
    terms: Terms
    devices: Sequence[Device]
    """The devices that are measured: all of the terms, or those of them that the user chose."""
    notes: Sequence[str] = ()
    """Sentences on the devices, for the record."""
    objections: Sequence[Objection] = ()
    """The objections to an acceptance before anything is measured."""

    def limited_facts(self, probe: str) -> list[str]:
        """Return the facts of `probe` that have a limit, without the name of the probe: "vbios".

        "packing_list" stands for the one fact of the node that a packing list adds.
        """
        if probe == "packing_list":
            return [parse(packing.LIST).variant] if packing.LIST in self.terms.limits else []
        return [
            parse(metric).variant
            for metric in self.terms.limits
            if parse(metric).probe == probe and metric not in ("inventory.sku", *requirements.NODE_FACTS)
        ]

    def collectives(self) -> list[tuple[str, str]]:
        """Return operation and size of the collectives of this run: one of each, and those that have a limit.

        At level quick only limits count that the level requires.
        """
        size = str(request_of(collective, {}, None, self.terms.sku).conditions["size"])
        smaller = min(size, OTHERS_SIZE, key=in_bytes)
        sizes = {operation: [smaller if index else size] for index, operation in enumerate(OPERATIONS)}
        for metric, limit in self.terms.limits.items():
            counts = self.terms.level != "quick" or "quick" in limit.levels
            if counts and finder_of(metric) is declaration_for(collective):
                sizes[parse(metric).probe].append(parse(metric).size)
        return [(operation, value) for operation, values in sizes.items() for value in dict.fromkeys(values)]


def find_target(inputs: Inputs, pool: WorkerPool, output: Path | None = None) -> Target:
    """Discover the devices through the sensor of `pool`, settle the terms, and choose the devices of the run.

    The log of the sensor is below `output`. Earlier records beside it reveal accelerators that have vanished. Raises
    Refused.
    """
    target = target_of(inputs, discover(inputs, pool, output), output)
    # a container may not be given all
    if output and target.terms.doubt and not (inputs.simulated_node or target.discovery.container):
        earlier = earlier_records.read(output, inputs.options.launch).newest_of(node_name())
        target = expect_earlier_devices(target, earlier)
    target = choose_devices(target, inputs.options.devices)
    terms.refuse_divided(target.devices, target.terms.platform)
    pool.hold(target.devices)
    return target


def discover(inputs: Inputs, pool: WorkerPool, output: Path | None = None) -> Discovery:
    """Discover the devices through the sensor of `pool`, whose log is below `output`."""
    node = inputs.simulated_node
    processes = simulation.processes(node, pool.meeting, inputs.elapsed) if node else REAL
    pool.begin(processes, output / record.LOGS if output else None)
    return discovery_of(pool.sensor.discover(inputs.vendor), inputs.vendor)


def target_of(inputs: Inputs, discovery: Discovery, output: Path | None = None) -> Target:
    """Settle the terms by what was discovered, for all devices. Raises Refused.

    Where no SKU is named, accelerators that an earlier record beside `output` holds and that are missing now are a
    problem: the CPU is not judged instead.
    """
    options, node, boards, objections = inputs.options, inputs.simulated_node, inputs.packing_list, inputs.objections
    cpu_only = not inputs.named_sku and output and not node and not any(map(is_accelerator, discovery.devices))
    earlier = earlier_records.read(output, options.launch) if output and cpu_only else None
    if earlier and (missing := earlier.last_accelerators(node_name())):
        problem = Problem("accelerator", "device", missing)
        if container := discovery.container:  # which may simply not have been given them
            problem = Problem("accelerator", "need", f"{missing}, in a container ({container})")
        discovery = Discovery(problems=[problem])
    sku = inputs.named_sku or terms.sku_of(discovery.devices, options.prefix)
    default = node.platform.name if node and not options.sku else AUTO
    packing_list = (boards.sha256, bool(boards.by_node)) if boards else None
    node_terms = inputs.term_options.terms_for(sku, discovery.devices, platform=default, packing_list=packing_list)
    node_terms = replace(node_terms, has_diagnostic=options.diag is not None)
    if sku is None:
        objections.append(Objection("unasked", "no SKU was recognised"))
        return Target(discovery, node_terms, node_terms.devices, (), objections)
    notes = _notes(sku, discovery.devices, node_terms.devices)
    if inputs.term_options.platform != AUTO or node:
        name = node_terms.platform.name
        part = name not in sku.platforms and name.startswith((SLICE, GUEST_SLICE))
        discovery = replace(discovery, expected_by=f"platform {name}", part=part)
    if options.sku == AUTO:
        objections.append(Objection("unasked", f"SKU {sku.name} was recognised, not named"))
    if node_terms.doubt:
        objections.append(Objection("run", node_terms.doubt))
    if not node_terms.accelerator:
        objections.append(Objection("unasked", f"a {registry.vendor(sku.vendor).title} is not an accelerator"))
    return Target(discovery, node_terms, node_terms.devices, notes, objections)


def expect_earlier_devices(target: Target, earlier: Summary | None) -> Target:
    """Expect the devices of the newest earlier run of the node, if these were more of the same product."""
    sku, count = target.terms.sku, len(target.terms.devices)
    if sku is None or earlier is None or earlier.sku != sku.name or len(earlier.devices) <= count:
        return target
    platform = sku.platform_named(earlier.terms.get("platform", "")) or next(iter(sku.platforms.values()))
    basis = f"the earlier record {earlier.path} of this node holds {len(earlier.devices)} devices"
    return replace(
        target,
        terms=replace(target.terms, platform=platform),
        discovery=replace(target.discovery, expected_by=basis),
        notes=[*target.notes, f"{basis}, {count} are found now"],
    )


def choose_devices(target: Target, entries: Sequence[str]) -> Target:
    """Keep the devices that the user chose. The number of expected devices does not change. Raises Refused."""
    devices, all_devices, objections = target.devices, target.terms.devices, [*target.objections]
    for option, names in terms.choices(entries, all_devices).items():
        selection = terms.select(all_devices, names, option)
        devices = [device for device in devices if device in selection]
        if len(selection) < len(all_devices):
            objections.append(Objection("filter", f"{option} chose {len(selection)} of {len(all_devices)} devices"))
    return replace(target, devices=devices, objections=objections)


def with_expected_devices(target: Target) -> Target:
    """Return the node of a plan, with the devices that the platform expects where none is found, as on a login node."""
    sku = target.terms.sku
    if target.devices or sku is None:
        return target
    vendor, model = registry.vendor(sku.vendor), f"{sku.name} (expected; none is here)"
    devices = [
        Device(f"expected device {index}", index, vendor.name, model, called=vendor.short_name)
        for index in range(max(1, target.terms.expected_devices))
    ]
    objection = Objection("run", "there is no device here")
    return replace(target, devices=devices, objections=[*target.objections, objection])


def discovery_of(answer: Message, vendor: str | None) -> Discovery:
    """Return the sensor's answer to a discovery. If it failed, the driver is reported as a problem."""
    problems = []
    for problem in answer.get("problems", []):
        trouble = reported_trouble(problem, "the sensor")
        problems.append(Problem(problem["driver"], trouble.kind, trouble.reason, problem["shown"]))
    if failure := answer.get("trouble"):
        # one that ends by itself does so for want of threads or memory: no driver does that
        kind: TroubleKind = "device" if failure.kind == "device" and not failure.exited else "need"
        problems = [Problem(vendor or "unknown", kind, f"the management library failed: {failure.reason}")]
    devices = tuple(Device(**fields) for fields in answer.get("devices", []))
    return Discovery(devices, problems, answer.get("shown", []), answer.get("container", ""))


def is_accelerator(device: Device) -> bool:
    """Return False for a device that is on every machine."""
    return registry.vendor(device.driver).accelerator


def _has_torch() -> bool:
    """Return True if torch can be found, without loading it."""
    try:
        return importlib.util.find_spec("torch") is not None
    except ImportError:  # of an import hook, which may raise instead of finding nothing
        return False


def _notes(sku: Sku, devices: Sequence[Device], accelerators: Sequence[Device]) -> list[str]:
    """Return sentences on display adapters that are left out, and on devices that are known by all but their name."""
    adapters = [f"{device.name} ({device.model or device.pci_id})" for device in devices if device not in accelerators]
    new_names = sorted({device.model for device in accelerators if sku.renames(device)})
    return [
        *([f"{', '.join(adapters)}: drives a display and is left out"] if adapters else []),
        *(f"{name} is no name of {sku.name}: PCI id, compute units and memory say what it is" for name in new_names),
    ]
