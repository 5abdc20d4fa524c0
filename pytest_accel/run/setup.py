"""The setup of a session: its devices, the SKU and platform that they are judged as, and what rules out acceptance."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_accel.core.display_names import Names
from pytest_accel.core.measurement import Device
from pytest_accel.core.messages import Message
from pytest_accel.core.metrics import parse
from pytest_accel.core.node_name import node_name
from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.drivers import registry
from pytest_accel.judging import delivery
from pytest_accel.judging.inventory import Discovery
from pytest_accel.probes import all_reduce
from pytest_accel.run import earlier_records, record, selection, simulation
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.programs import REAL
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.request import request_of
from pytest_accel.run.summaries import Summary
from pytest_accel.skus import requirements
from pytest_accel.skus.packing_list import PackingList
from pytest_accel.skus.waivers import Waivers

if TYPE_CHECKING:
    from pytest_accel.simulate.node import Node


class Setup:
    """The devices that a session measures and the limits that it judges them by. `prepare` and `discover` fill it in.

    Both raise Refused for wrong options.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.discovery = Discovery()
        self.devices: list[Device] = []
        """The discovered devices that the user chose to measure."""
        self.sku: Sku | None = None
        self.platform = Platform("unknown", None)
        self.waivers = Waivers()
        self.boards: PackingList | None = None
        """The packing list that the devices have to be on, None without one."""
        self.baseline: list[tuple[Path, Summary]] = []
        """The earlier records that the options name; those beside the record of this run are found later."""
        self.node: Node | None = None
        """The simulated node, None on real hardware."""
        self.filtered: list[str] = []
        """Everything that narrowed the run, such as -k, one sentence each."""
        self.own_tests = False
        """True if the user named tests, which may be their own. The plugin sets it."""
        self.no_acceptance: list[str] = []
        """Reasons why the run cannot end as ACCEPTED, whatever it finds, one sentence each."""
        self.limits: dict[str, Limit] = {}
        """Every limit of the SKU on this platform, and the limits on the inventory, by metric."""
        self._named: Sku | None = None

    def prepare(self) -> None:
        """Read the files that the options name, before any process is started. Raises Refused for a wrong one."""
        self.node = simulation.node(self.options)
        self._named = selection.named(self.options.sku or (self.node.asked if self.node else ""))
        self._settle_contract()
        if self.options.hours is not None and self.options.level != "long":
            raise Refused(f"--accel-hours: rounds are repeated at --accel-level=long, not at {self.options.level}")
        if self.node is None and self._named:
            selection.refuse_rehearsed(self._named)
        self.waivers = selection.waivers(self.options.waivers)
        self.boards = selection.boards(self.options.expect)
        self.baseline = earlier_records.named(self.options.baseline)

    def _settle_contract(self) -> None:
        """Take platform and level from the contract, if the SKU is one. Raises Refused for options that contradict."""
        terms = self._named.contract if self._named else None
        if terms is None:
            return
        options = self.options
        given = options.platform if options.platform != "auto" else None
        selection.refuse_contradictions(self._named, given, options.level if options.level_named else None)
        self.options = replace(options, platform=terms.platform, level=terms.level)

    def check_torch(self) -> None:
        """Raise Refused if the whole packaged suite is to run without torch: hundreds of limits would tell one need.

        A run of chosen tests may read facts alone, which needs none. torch itself is not loaded.
        """
        vendor = registry.vendor(self._named.vendor) if self._named else None
        if self.own_tests or self.filtered or (vendor and vendor.torch is None) or _has_torch():
            return
        raise Refused(
            "torch is not installed in this environment, so nothing can be measured; "
            "install it (docs/install.md), or choose tests that need none: -k 'inventory or health'"
        )

    def discover(self, pool: WorkerPool, output: Path | None = None) -> None:
        """Discover the devices through the sensor of `pool`, and settle SKU, platform and limits.

        Earlier records beside `output` reveal accelerators that have vanished. Raises Refused.
        """
        processes = simulation.processes(self.node, pool.meeting) if self.node else REAL
        pool.begin(processes, output / record.LOGS if output else None)
        self._find_devices(pool.sensor, self._named.vendor if self._named else None)
        self.sku = self._named or self._recognise(output)
        self._settle_platform()
        self._narrow()
        selection.refuse_divided(self.devices, self.platform)
        pool.devices = self.devices
        emulated = requirements.passed_through(self.discovery.devices)
        self.limits = requirements.limits(self.sku, self.platform, self.expected_devices, emulated_ports=emulated)
        if boards := self.boards:
            self.limits |= delivery.limits(boards.sha256, self.sku, names_nodes=bool(boards.by_node))

    def _find_devices(self, sensor: SensorClient, vendor: str | None) -> None:
        """Ask the sensor for the devices. If it fails, the driver is reported as a problem."""
        self.discovery = discovered(sensor.discover(vendor), vendor)
        self.devices = list(self.discovery.devices)

    def _recognise(self, output: Path | None) -> Sku | None:
        """Return the shipped SKU that the devices match, None without devices.

        Accelerators that an earlier record holds and that are missing now are a problem: the CPU is not judged instead.
        """
        if output and not self.node and not any(map(is_accelerator, self.discovery.devices)):
            missing = earlier_records.read(output, self.options.launch).last_accelerators(node_name())
            if missing:
                container = self.discovery.container  # which may simply not have been given them
                kind, where = ("need", f", in a container ({container})") if container else ("device", "")
                problem = {"driver": "accelerator", "kind": kind, "reason": f"{missing}{where}"}
                self.discovery = Discovery(problems=[problem])
                self.devices = []
        return selection.sku_of(self.discovery.devices)

    def _settle_platform(self) -> None:
        """Choose the platform, and note what rules out acceptance. Raises Refused."""
        if self.sku is None:
            self.no_acceptance.append("no SKU was recognised")
            return
        if self.options.sku == "auto":
            self.no_acceptance.append(f"SKU {self.sku.name} was recognised, not named")
        implied = self.node and not self.options.sku and self.options.platform == "auto"
        wanted = self.node.platform.name if self.node and implied else self.options.platform
        self.platform, doubt = selection.platform_of(self.sku, wanted, self.discovery.devices)
        if doubt:
            self.no_acceptance.append(doubt)
        vendor = registry.vendor(self.sku.vendor)
        if not vendor.accelerator:
            self.no_acceptance.append(f"a {vendor.title} is not an accelerator")

    def _narrow(self) -> None:
        """Keep the devices that the user chose. The number of expected devices does not change."""
        for by, entries in selection.choices(self.options.devices, self.discovery.devices).items():
            kept = selection.chosen(self.discovery.devices, entries, by)
            self.devices = [device for device in self.devices if device in kept]
            if len(kept) < len(self.discovery.devices):
                self.filtered.append(f"{by} chose {len(kept)} of {len(self.discovery.devices)} devices")

    # -- what is expected

    @property
    def rules_out_acceptance(self) -> list[str]:
        """The reasons, known before anything is measured, why the run cannot be an acceptance."""
        unfit = requirements.unfit(self.sku, self.platform, self.options.level)
        return [*self.filtered, *self.no_acceptance, *([unfit] if unfit else [])]

    @property
    def expected_devices(self) -> int:
        """The number of devices that the platform should have."""
        return requirements.device_count(self.platform, len(self.discovery.devices))

    @property
    def wants_acceptance(self) -> bool:
        """True if an accelerator's SKU was named and the packaged suite collected."""
        named = self.sku is not None and self.options.sku != "auto" and registry.vendor(self.sku.vendor).accelerator
        return named and not self.own_tests

    @property
    def names(self) -> Names:
        """Display name by subject (the UUID of a device, or NODE)."""
        return Names.of(self.discovery.devices)

    def limited_facts(self, probe: str) -> list[str]:
        """Return the facts of `probe` that have a limit for each device, without the name of the probe: "vbios".

        "delivery" stands for the one fact of the node that a packing list adds.
        """
        if probe == "delivery":
            return [parse(delivery.DELIVERED).variant] if delivery.DELIVERED in self.limits else []
        return [
            parse(metric).variant
            for metric in self.limits
            if parse(metric).probe == probe and metric != "inventory.sku" and not requirements.of_node(metric)
        ]

    def all_reduce_sizes(self) -> list[str]:
        """Return the sizes of the all-reduces of this run: that of the packaged suite, and those that have a limit.

        At level quick only limits count that the level requires.
        """
        packaged = request_of(all_reduce, {}, None, self.sku)
        quick = self.options.level == "quick"
        limited = [parse(metric) for metric, limit in self.limits.items() if not quick or "quick" in limit.levels]
        alike = [each.size for each in limited if each.base == parse(packaged.metric).base]
        return list(dict.fromkeys([str(packaged.conditions["size"]), *alike]))


def discovered(answer: Message, vendor: str | None) -> Discovery:
    """Return what the sensor answered to a discovery. If it failed, the driver is reported as a problem."""
    problems = answer.get("problems", [])
    if answer["event"] != "devices":
        reason = f"the management library failed: {answer['reason']}"
        ended = answer.get("exited")  # by itself, for want of threads or memory: no driver does that
        kind = "device" if answer.get("kind", "device") == "device" and not ended else "need"
        problems = [{"driver": vendor or "unknown", "kind": kind, "reason": reason}]
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
