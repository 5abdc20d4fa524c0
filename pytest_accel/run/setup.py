"""The setup of a session: what the options ask for, the devices that were found, and the terms of their judgement."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.core import clock
from pytest_accel.core.measurement import Device, Names, TroubleKind
from pytest_accel.core.messages import Message, Problem, reported_trouble
from pytest_accel.core.metrics import parse
from pytest_accel.core.node_name import node_name
from pytest_accel.core.run import Run
from pytest_accel.core.sku import GUEST_SLICE, SLICE, Sku
from pytest_accel.core.software import torch_version, versions_of
from pytest_accel.core.summary import Summary
from pytest_accel.core.units import in_bytes
from pytest_accel.drivers import registry
from pytest_accel.judging.closing import series
from pytest_accel.judging.facts import delivery
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.probes.collectives import OPERATIONS, OTHERS_SIZE, collective
from pytest_accel.probes.declare import declaration_for, finder_of
from pytest_accel.run import earlier_records, record, simulation, terms
from pytest_accel.run.options import AUTO, FIRST, Options, Refused
from pytest_accel.run.processes.programs import REAL
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.rendezvous import Rendezvous, leaf_of, rendezvous_of
from pytest_accel.run.request import request_of
from pytest_accel.run.terms import Terms, Wanted
from pytest_accel.skus import requirements
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.skus.waivers import Waivers

if TYPE_CHECKING:
    from pytest_accel.simulate.cluster import SimulatedCluster
    from pytest_accel.simulate.node import SimulatedNode


class Setup:
    """The devices that a session measures and the terms that it judges them by. `prepare` and `discover` fill it in.

    Both raise Refused for wrong options.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.discovery = Discovery()
        self.devices: list[Device] = []
        """The discovered devices that the user chose to measure."""
        self.terms = Terms()
        self.waivers = Waivers()
        self.boards: PackingList | None = None
        """The packing list that the devices have to be on, None without one."""
        self.baseline: list[Summary] = []
        """The earlier records that the options name; those beside the record of this run are found later."""
        self.rendezvous: Rendezvous | None = None
        """Where the agents of a fabric run meet; None in any other run."""
        self.cluster: SimulatedCluster | None = None
        """The simulated cluster of a fabric run, None on real hardware."""
        self.leaf = ""
        """The leaf switch of this node, as its launcher states it."""
        self.node: SimulatedNode | None = None
        """The simulated node, None on real hardware."""
        self.before: Run | None = None
        """The record of the run before in a series; None in its first run, and in one by itself."""
        self.filtered = list(options.filtered)
        """Everything that narrowed the run, such as -k, one sentence each."""
        self.no_acceptance: list[str] = []
        """Reasons why the run cannot end as ACCEPTED, whatever it finds, one sentence each."""
        self.notes: list[str] = []
        """Sentences on the devices that were found, for the record."""
        self._wanted = Wanted("")
        self._named: Sku | None = None

    def narrow(self, why: str) -> None:
        """Note that something narrowed the run, and what, in a sentence."""
        self.filtered.append(why)

    def rule_out(self, why: str) -> None:
        """Note why the run cannot end as ACCEPTED, in a sentence."""
        self.no_acceptance.append(why)

    def prepare(self) -> None:
        """Read the files that the options name, before any process is started. Raises Refused for a wrong one."""
        options = self.options
        if not options.fabric:
            self.node = simulation.node(options.simulate, options.launch, option=f"{options.prefix}simulate")
        else:
            self.narrow("--accel-fabric measures between nodes")
            if options.simulate:
                self.cluster, self.node = simulation.cluster(options.simulate)
            else:
                self.rendezvous = rendezvous_of(options.launch, os.environ)
                self.leaf = leaf_of(os.environ)
        sku = options.sku or (self.node.asked if self.node else "")
        self._wanted = Wanted(sku, options.platform, options.level, options.prefix)
        self._named = self._wanted.named(on_hardware=self.node is None)
        self.terms = Terms(level=options.level)
        self.waivers = terms.waivers(options.waivers, f"{options.prefix}waivers")
        self.boards = terms.boards(options.expect)
        self.baseline = earlier_records.named(options.baseline, rehearsal=self.node is not None)
        if options.follows not in ("", FIRST):
            self.before = record.read(Path(options.follows))

    @property
    def follows_directly(self) -> bool:
        """True if the run before it in a series ended just now: the devices are as idle as it found them."""
        return self.before is not None and series.directly(self.before, clock.boot_id(), time.monotonic())

    @property
    def elapsed(self) -> float:
        """The simulated seconds at which a simulated node begins: those of the runs before it in a series."""
        if self.before is None:
            return 0.0
        return float(self.before.run.get("simulated", {}).get("began", 0.0)) + series.seconds_of(self.before)

    def check_torch(self) -> None:
        """Raise Refused if the whole packaged suite is to run without torch: hundreds of limits would tell one need.

        A run of chosen tests may read facts alone, which needs none. torch itself is not loaded.
        """
        vendor = registry.vendor(self._named.vendor) if self._named else None
        if self.options.own_tests or self.filtered or (vendor and vendor.torch is None) or _has_torch():
            return
        raise Refused(
            "torch is not installed in this environment, so nothing can be measured; "
            "install it (docs/running.md), or choose tests that need none: -k 'inventory or health'"
        )

    def discover(self, pool: WorkerPool, output: Path | None = None) -> None:
        """Discover the devices through the sensor of `pool`, settle the terms, and choose the devices of the run.

        Earlier records beside `output` reveal accelerators that have vanished. Raises Refused.
        """
        self.look(pool, output)
        self.settle(output)
        if output and self.terms.doubt and not (self.node or self.discovery.container):  # which may not be given all
            self._remember(output)
        self._choose()
        terms.refuse_divided(self.devices, self.terms.platform)
        pool.hold(self.devices)

    @property
    def vendor(self) -> str | None:
        """The vendor of the SKU that is named, None without one."""
        return self._named.vendor if self._named else None

    def look(self, pool: WorkerPool, output: Path | None = None) -> None:
        """Discover the devices through the sensor of `pool`, whose log is below `output`."""
        processes = simulation.processes(self.node, pool.meeting, self.elapsed) if self.node else REAL
        pool.begin(processes, output / record.LOGS if output else None)
        self.discovery = discovered(pool.sensor.discover(self.vendor), self.vendor)
        self.devices = list(self.discovery.devices)  # for who shows them although the run is refused

    def settle(self, output: Path | None = None) -> None:
        """Settle the terms by what was discovered and the earlier records beside `output`. Raises Refused.

        It notes what rules out acceptance.
        """
        sku = self._named or self._recognise(output)
        usual = self.node.platform.name if self.node and not self.options.sku else AUTO
        listed = (self.boards.sha256, bool(self.boards.by_node)) if self.boards else None
        self.terms = self._wanted.settled(sku, self.discovery.devices, platform=usual, listed=listed)
        self.devices = list(self.terms.devices)
        if sku is None:
            self.rule_out("no SKU was recognised")
            return
        self.notes += _notes(sku, self.discovery.devices, self.terms.devices)
        if self._wanted.platform != AUTO or self.node:
            name = self.terms.platform.name
            part = name not in sku.platforms and name.startswith((SLICE, GUEST_SLICE))
            self.discovery = replace(self.discovery, expected_by=f"platform {name}", part=part)
        if self.options.sku == AUTO:
            self.rule_out(f"SKU {sku.name} was recognised, not named")
        if self.terms.doubt:
            self.rule_out(self.terms.doubt)
        if not self.terms.accelerator:
            self.rule_out(f"a {registry.vendor(sku.vendor).title} is not an accelerator")

    def plan_without_devices(self) -> None:
        """Plan for the devices that the platform expects where none is found, such as on a login node."""
        sku = self.terms.sku
        if self.devices or sku is None:
            return
        vendor, model = registry.vendor(sku.vendor), f"{sku.name} (expected; none is here)"
        self.devices = [
            Device(f"expected device {index}", index, vendor.name, model, called=vendor.short_name)
            for index in range(max(1, self.terms.expected_devices))
        ]
        self.rule_out("there is no device here")

    def _recognise(self, output: Path | None) -> Sku | None:
        """Return the shipped SKU that the devices match, None without devices.

        Accelerators that an earlier record holds and that are missing now are a problem: the CPU is not judged instead.
        """
        if output and not self.node and not any(map(is_accelerator, self.discovery.devices)):
            missing = earlier_records.read(output, self.options.launch).last_accelerators(node_name())
            if missing:
                problem = Problem("accelerator", "device", missing)
                if container := self.discovery.container:  # which may simply not have been given them
                    problem = Problem("accelerator", "need", f"{missing}, in a container ({container})")
                self.discovery = Discovery(problems=[problem])
        return terms.sku_of(self.discovery.devices, self.options.prefix)

    def _remember(self, output: Path) -> None:
        """Expect the devices of the newest earlier record of this node, if these were more of the same product."""
        sku, count = self.terms.sku, len(self.terms.devices)
        before = earlier_records.read(output, self.options.launch).newest_of(node_name())
        if sku is None or before is None or before.sku != sku.name or len(before.devices) <= count:
            return
        platform = sku.platform_named(before.terms.get("platform", "")) or next(iter(sku.platforms.values()))
        self.terms = replace(self.terms, platform=platform)
        held = f"the earlier record {before.path} of this node holds {len(before.devices)} devices"
        self.discovery = replace(self.discovery, expected_by=held)
        self.notes.append(f"{held}, {count} are found now")

    def _choose(self) -> None:
        """Keep the devices that the user chose. The number of expected devices does not change."""
        found = self.terms.devices
        for by, entries in terms.choices(self.options.devices, found).items():
            kept = terms.chosen(found, entries, by)
            self.devices = [device for device in self.devices if device in kept]
            if len(kept) < len(found):
                self.narrow(f"{by} chose {len(kept)} of {len(found)} devices")

    # -- what is expected

    @property
    def rules_out_acceptance(self) -> list[str]:
        """The reasons, known before anything is measured, why the run cannot be an acceptance."""
        software: dict[str, Any] = {**versions_of(self.terms.devices), "torch": torch_version()}
        unfit = requirements.unfit(self.terms.sku, self.terms.platform, self.terms.level, software)
        return [*self.filtered, *self.no_acceptance, *([unfit] if unfit else [])]

    @property
    def wants_acceptance(self) -> bool:
        """True if an accelerator's SKU was named and the packaged suite collected."""
        return (
            self.terms.accelerator and self.options.sku != AUTO and not (self.options.own_tests or self.options.fabric)
        )

    @property
    def names(self) -> Names:
        """Display name by subject (the UUID of a device, or NODE)."""
        return Names.of(self.discovery.devices)

    def limited_facts(self, probe: str) -> list[str]:
        """Return the facts of `probe` that have a limit, without the name of the probe: "vbios".

        "delivery" stands for the one fact of the node that a packing list adds.
        """
        if probe == "delivery":
            return [parse(delivery.DELIVERED).variant] if delivery.DELIVERED in self.terms.limits else []
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
        sizes = {each: [smaller if place else size] for place, each in enumerate(OPERATIONS)}
        for metric, limit in self.terms.limits.items():
            counts = self.terms.level != "quick" or "quick" in limit.levels
            if counts and finder_of(metric) is declaration_for(collective):
                sizes[parse(metric).probe].append(parse(metric).size)
        return [(operation, each) for operation, found in sizes.items() for each in dict.fromkeys(found)]


def discovered(answer: Message, vendor: str | None) -> Discovery:
    """Return what the sensor answered to a discovery. If it failed, the driver is reported as a problem."""
    problems = []
    for stated in answer.get("problems", []):
        trouble = reported_trouble(stated, "the sensor")
        problems.append(Problem(stated["driver"], trouble.kind, trouble.reason, stated["shown"]))
    if failed := answer.get("trouble"):
        # one that ends by itself does so for want of threads or memory: no driver does that
        kind: TroubleKind = "device" if failed.kind == "device" and not failed.exited else "need"
        problems = [Problem(vendor or "unknown", kind, f"the management library failed: {failed.reason}")]
    devices = tuple(Device(**fields) for fields in answer.get("devices", []))
    return Discovery(devices, problems, answer.get("shown", []), answer.get("container", ""))


def is_accelerator(device: Device) -> bool:
    """Return False for a device that is on every machine."""
    return registry.vendor(device.driver).accelerator


def _has_torch() -> bool:
    """Return True if torch can be found. An import hook may raise instead of finding nothing."""
    try:
        return importlib.util.find_spec("torch") is not None
    except ImportError:
        return False


def _notes(sku: Sku, found: Sequence[Device], judged: Sequence[Device]) -> list[str]:
    """Return sentences on display adapters that are left out, and on devices that are known by all but their name."""
    left = [f"{device.name} ({device.model or device.pci_id})" for device in found if device not in judged]
    renamed = sorted({device.model for device in judged if sku.renames(device)})
    return [
        *([f"{', '.join(left)}: drives a display and is left out"] if left else []),
        *(f"{name} is no name of {sku.name}: PCI id, compute units and memory say what it is" for name in renamed),
    ]
