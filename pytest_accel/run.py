"""One run: discover, lock, gate, measure on all devices, judge one by one, record. Side effects live here."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from pytest_accel import hostlock, record, skufile
from pytest_accel.closing import Circumstances, Closing, close
from pytest_accel.levels import budget
from pytest_accel.located import BadFile
from pytest_accel.measurement import NODE, Device, Measurement, Peak, Trouble
from pytest_accel.probes.spec import Spec, conditions_of, spec_of
from pytest_accel.sku import Limit, Platform, Sku, expected_platform
from pytest_accel.telemetry import SOAK_METRICS, Telemetry, disturbance, soak_measurements, summarise
from pytest_accel.verdict import WORST_FIRST, Status, Verdict, judge
from pytest_accel.workers import Call, Child, Interrupted, conduct, listen

NODE_PROBES = ("all_reduce", "ddp")
NODE_FACTS = ("inventory.driver", "inventory.count")
WATCH_HZ = {"cpu": 2.0}
DEFAULT_HZ = 10.0
DEATHS_ALLOWED = 1


class Refused(Exception):
    """The run cannot begin: a wrong option or file, a device in use, an output that cannot be written."""


class ProbeError(Exception):
    """A probe raised something that says nothing about the hardware."""


@dataclass(frozen=True)
class Options:
    """The command line, typed. `devices` are indices or UUIDs, empty for all."""

    sku: str
    platform: str = "auto"
    level: str = "standard"
    devices: tuple[str, ...] = ()
    output: Path | None = None
    patience: float = 60.0
    command: tuple[str, ...] = ()


@dataclass
class Result:
    """What became of one probe under one set of conditions: the attempts, by metric and subject."""

    attempts: dict[tuple[str, str], list[Measurement]] = field(default_factory=dict)
    repeated: bool = False

    def add(self, measurement: Measurement) -> None:
        self.attempts.setdefault((measurement.metric, measurement.subject), []).append(measurement)


class Run:
    """Opened once per pytest session. `progress` is told what is being measured, and for how long."""

    def __init__(self, options: Options, progress: Callable[[str, float, float], None] | None = None) -> None:
        self.options = options
        self.progress = progress or (lambda what, spent, expected: None)
        self.devices: list[Device] = []
        self.sku: Sku | None = None
        self.platform = Platform("unknown", None)
        self.output: Path | None = None
        self.record = record.Record(run={})
        self.record_problem: str | None = None
        self.filtered: list[str] = []
        self.no_acceptance: list[str] = []
        self.broken_tests: list[str] = []
        self.failed_tests: list[str] = []
        self.device_seconds = 0.0
        self._problems: list[dict[str, Any]] = []
        self._found: list[Device] = []
        self._shown: list[dict[str, Any]] = []
        self._workers: dict[str, Child] = {}
        self._open_trouble: dict[str, Trouble] = {}
        self._deaths: Counter[str] = Counter()
        self._death_in: dict[str, str] = {}
        self._not_idle: dict[str, str] | None = None
        self._sensor: Child | None = None
        self._turn = 0
        self._telemetry = Telemetry()
        self._results: dict[tuple[str, str], Result] = {}
        self._verdicts: dict[tuple[str, str, str], Verdict] = {}
        self._locks: list[IO[str]] = []
        self._rendezvous = 0
        self._folder = Path(os.devnull)

    # -- opening

    def open(self, *, measuring: bool = True) -> None:
        """Find SKU, devices and platform; with `measuring` also the output and the locks. Raises Refused."""
        try:
            named = None if self.options.sku == "auto" else skufile.load(self.options.sku)
        except BadFile as bad:
            raise Refused(f"--accel-sku: {bad}") from None
        if measuring:
            self._make_output()
        self._discover(named.vendor if named else None)
        self.sku = named or self._recognise()
        self._settle_platform()
        self._narrow()
        if not measuring:
            return
        try:
            names = [(device.uuid, device.name) for device in self.devices]
            self._locks = hostlock.hold(names, f"record {self.output}")
        except hostlock.Held as held:
            raise Refused(f"{held}; wait for it or stop it") from None
        self._begin_record()

    def _make_output(self) -> None:
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        folder = self.options.output or Path("accel-records") / f"{socket.gethostname()}-{stamp}"
        folder = folder.absolute()
        if (folder / record.FILE).exists():
            if self.options.output:
                raise Refused(f"--accel-output: {folder} holds the record of another run; name a new folder")
            folder = folder.with_name(f"{folder.name}-{os.getpid()}")
        try:
            (folder / "logs").mkdir(parents=True, exist_ok=True)
            record.write(self.record, folder)
        except OSError as error:
            raise Refused(f"--accel-output: cannot write to {folder}: {error.strerror}") from None
        self.output = folder

    def _discover(self, vendor: str | None) -> None:
        """Ask the sensor. One that does not answer has devices that nobody can use."""
        logs = self.output / "logs" if self.output else None
        self._sensor = Child("sensor", "pytest_accel.sensor", logs / "sensor.log" if logs else Path(os.devnull), {})
        answer = self._ask_sensor("devices", "discover", want=vendor)
        self._problems = answer.get("problems", [])
        self._shown = answer.get("shown", [])
        if answer["event"] != "devices":
            why = answer.get("reason", "it did not answer")
            self._problems = [{"driver": vendor or "unknown", "reason": f"the management library failed: {why}"}]
        self._found = [Device(**fields) for fields in answer.get("devices", [])]
        self.devices = list(self._found)

    def _ask_sensor(self, answer: str, event: str, **fields: Any) -> dict[str, Any]:
        """Send the sensor a question and wait for its answer, no longer than the patience of the run."""
        sensor = self._sensor
        if sensor is None or sensor.ended is not None:
            return {"event": "died", "reason": "the sensor process has ended"}
        sensor.send(event, **fields)
        until = time.monotonic() + self.options.patience
        while time.monotonic() < until:
            for _, message in listen([sensor], until - time.monotonic()):
                if message["event"] in (answer, "died", "error"):
                    return message
                self._hear(sensor, message)
        why = sensor.kill(f"the management library did not answer for {self.options.patience:g} s")
        return {"event": "died", "reason": why}

    def _recognise(self) -> Sku | None:
        """The SKU that the devices are, or the CPU's; None when there is an accelerator that nobody can use."""
        if not self._found:
            return None
        known = skufile.recognise(self._found, skufile.load_shipped())
        if len(known) == 1:
            return known[0]
        models = ", ".join(sorted({f"{device.model} ({device.pci_id})" for device in self._found}))
        if known:
            names = ", ".join(sku.name for sku in known)
            raise Refused(f"--accel-sku=auto: {models} may be {names}; name one")
        raise Refused(f"--accel-sku=auto: no shipped SKU is {models}; give a threshold file of your own")

    def _settle_platform(self) -> None:
        if self.sku is None:
            self.no_acceptance.append("no SKU was recognised")
            return
        wanted = self.options.platform
        if wanted != "auto":
            if wanted not in self.sku.platforms:
                names = ", ".join(self.sku.platforms)
                raise Refused(f"--accel-platform: {self.sku.name} has no platform '{wanted}' (it has: {names})")
            self.platform = self.sku.platforms[wanted]
        else:
            self.platform, usual = expected_platform(self.sku, len(self._found))
            if not usual:
                text = f"platform {self.platform.name} was recognised by its device count, not named"
                self.no_acceptance.append(text)
        if self.options.sku == "auto":
            self.no_acceptance.insert(0, f"SKU {self.sku.name} was recognised, not named")
        if self.sku.vendor == "cpu":
            self.no_acceptance.append("a CPU is no accelerator")

    def _narrow(self) -> None:
        """Keep the devices that the user chose. What is expected stays what it was."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None and self._found and self._found[0].driver == "nvidia":
            chosen = [entry.strip() for entry in visible.split(",") if entry.strip()]
            self._choose(chosen, "CUDA_VISIBLE_DEVICES")
        if self.options.devices:
            self._choose(list(self.options.devices), "--accel-devices")

    def _choose(self, chosen: list[str], by: str) -> None:
        kept = []
        for entry in chosen:
            matching = [
                device
                for device in self._found
                if entry in (str(device.index), device.name) or (len(entry) > 4 and device.uuid.startswith(entry))
            ]
            if len(matching) != 1:
                names = ", ".join(f"{device.index} ({device.uuid})" for device in self._found)
                raise Refused(f"{by}: no device {entry!r}; there are {names}")
            kept += matching
        self.devices = [device for device in self.devices if device in kept]
        if len(self.devices) < len(self._found):
            self.filtered.append(f"{by} chose {len(self.devices)} of {len(self._found)} devices")

    def _begin_record(self) -> None:
        assert self.output
        self._telemetry = Telemetry(self.output / record.TELEMETRY)
        self.record.run = {
            "started": _now(),
            "host": socket.gethostname(),
            "command": list(self.options.command),
            "level": self.options.level,
            "platform": self.platform.name,
            "user": os.environ.get("USER", str(os.getuid())),
            "output": str(self.output),
        }
        if self.sku:
            self.record.sku = {"name": self.sku.name, "asked": self.options.sku, "files": self.sku.files}
        self.record.devices = self._found
        self.record.software = {"kernel": platform.release(), "python": platform.python_version()}
        self.record.earlier_attempts = record.earlier(self.output, [device.uuid for device in self.devices])
        self.save()
        if self.record_problem:
            raise Refused(f"--accel-output: cannot write to {self.output}: {self.record_problem}")

    # -- what is expected

    @property
    def expected_devices(self) -> int:
        return self.platform.devices or len(self._found)

    @property
    def names(self) -> dict[str, str]:
        """Subject to the name that a person reads."""
        return {NODE: NODE, **{device.uuid: device.name for device in self._found}}

    def limits(self) -> dict[str, Limit]:
        """Every limit of the SKU on this platform, and those on the inventory, which need no file."""
        if self.sku is None:
            return {"inventory.driver": _fact("inventory.driver", "ok", "the machine shows an accelerator")}
        where = f"platform {self.platform.name} of {self.sku.name}"
        facts = {
            "inventory.driver": _fact("inventory.driver", "ok", where),
            "inventory.count": _fact("inventory.count", self.expected_devices, where),
            "inventory.sku": _fact("inventory.sku", self.sku.name, where),
        }
        return {**facts, **self.sku.limits_on(self.platform)}

    def required(self) -> list[tuple[str, str]]:
        """(metric, subject) of every limit that the level requires, for every device that should be there."""
        found = []
        subjects = [device.uuid for device in self._found]
        subjects += [f"missing device {index}" for index in range(len(subjects), self.expected_devices)]
        for metric, limit in self.limits().items():
            if self.options.level in limit.levels:
                found += [(metric, subject) for subject in ([NODE] if of_node(metric) else subjects)]
        return found

    def budget(self, probe: str) -> float:
        return budget(probe, self.options.level, self.sku)

    # -- checking

    def check(
        self,
        function: Callable[..., Any],
        given: dict[str, Any],
        subject: str,
        markers: Sequence[Limit] = (),
        metric: str | None = None,
    ) -> list[Verdict]:
        """Measure (once, on every device) and judge one subject against the SKU's limit and the markers'.

        Raises TypeError for conditions that the probe does not have, ProbeError for a bug in the probe.
        """
        spec = spec_of(function)
        packaged = dict(self.sku.probes.get(function.__name__, {})) if self.sku else {}
        conditions, standard = conditions_of(function, packaged, given)
        metric = metric or spec.metric.format(**conditions)
        if not standard:
            metric += "@" + ",".join(f"{key}={value}" for key, value in sorted(given.items()) if f"{{{key}}}" not in spec.metric)
        limit = self.limits().get(metric) if standard else None
        limits: list[Limit | None] = [each for each in (limit, *markers) if each is not None]
        limits = [replace(each, metric=metric) for each in limits if each] or [None]
        why = self.sku.why_not_applicable(metric, self.platform) if self.sku else None
        if why:
            verdict = Verdict(metric, subject, Status.NOT_APPLICABLE, why)
            return [self._keep(verdict)]
        result = self._result(function, spec, conditions, metric)
        if any(self._short(result, metric, each) for each in limits):
            self._repeat(result, function, spec, conditions, metric, limits)
        verdicts = [self._judge(result, metric, subject, each) for each in limits]
        for verdict in verdicts:
            self._keep(verdict)
        self.save()
        return verdicts

    def _keep(self, verdict: Verdict) -> Verdict:
        """Remember the worst verdict that was ever given for a limit."""
        key = (verdict.metric, verdict.subject, verdict.limit.origin if verdict.limit else "")
        old = self._verdicts.get(key)
        if old is None or WORST_FIRST.index(verdict.status) <= WORST_FIRST.index(old.status):
            self._verdicts[key] = verdict
        self.record.verdicts = list(self._verdicts.values())
        return verdict

    @property
    def verdicts(self) -> list[Verdict]:
        return list(self._verdicts.values())

    def narrow(self, why: str) -> None:
        """Remember what narrowed the run."""
        self.filtered.append(why)

    def last_measurement(self, verdict: Verdict) -> Measurement | None:
        """The newest measurement behind a verdict."""
        for each in reversed(self.record.measurements):
            if (each.metric, each.subject) == (verdict.metric, verdict.subject):
                return each
        return None

    def _judge(self, result: Result, metric: str, subject: str, limit: Limit | None) -> Verdict:
        attempts = result.attempts.get((metric, subject))
        if not attempts:
            return Verdict(
                metric, subject, Status.UNMEASURED, f"{metric} was not among what the probe found", limit=limit
            )
        for each in attempts:
            if each.trouble and each.trouble.kind == "bug":
                raise ProbeError(each.trouble.reason)
        return judge(attempts, limit)

    def _short(self, result: Result, metric: str, limit: Limit | None) -> list[str]:
        """Subjects that fall short of the limit in a way that a repeat could tell more about."""
        if limit is None or result.repeated:
            return []
        found = []
        for (name, subject), attempts in result.attempts.items():
            untroubled = not any(each.trouble for each in attempts)
            if name == metric and untroubled and judge(attempts, limit).status is Status.FAIL:
                found.append(subject)
        return found

    def _repeat(
        self,
        result: Result,
        function: Callable[..., Any],
        spec: Spec,
        conditions: dict[str, Any],
        metric: str,
        limits: Sequence[Limit | None],
    ) -> None:
        """Measure again, still hot and together, before a device is blamed; then those that are short alone."""
        if spec.runs == "facts":
            return
        self._measure(result, function, spec, conditions, metric)
        short = {subject for each in limits for subject in self._short(result, metric, each)}
        result.repeated = True
        if spec.runs == "together" and len(self.devices) > 1:
            for device in self.devices:
                if device.uuid in short:
                    self._measure(result, function, spec, conditions, metric, alone=device)

    # -- measuring

    def _result(self, function: Callable[..., Any], spec: Spec, conditions: dict[str, Any], metric: str) -> Result:
        key = (f"{function.__module__}.{function.__qualname__}", repr(sorted(conditions.items())))
        if key not in self._results:
            result = Result()
            if spec.runs == "facts":
                self._facts(result, metric)
            else:
                self._gate()
                self._measure(result, function, spec, conditions, metric)
            self._results[key] = result
        return self._results[key]

    def _facts(self, result: Result, metric: str) -> None:
        now = time.time()
        if metric == "inventory.driver":
            problem = self.unreachable()
            trouble = Trouble("device", problem) if problem else None
            result.add(Measurement(metric, NODE, "text", "ok", trouble=trouble, started=now, ended=now))
        elif metric == "inventory.count":
            result.add(Measurement(metric, NODE, "count", len(self._found), started=now, ended=now))
        else:
            shipped = [self.sku] if self.sku else []
            for device in self._found:
                known = next((sku.name for sku in shipped if sku.recognises(device)), None)
                value = known or f"{device.model or 'no name'} ({device.pci_id or 'no PCI id'})"
                result.add(Measurement(metric, device.uuid, "text", value, started=now, ended=now))
        self._note(result)

    def unreachable(self) -> str | None:
        """What the machine shows and no driver can use, with the missing piece; None if there is nothing."""
        if self._problems:
            return "; ".join(_problem(each) for each in self._problems)
        for vendor in {each["driver"] for each in self._shown}:
            shown = [each for each in self._shown if each["driver"] == vendor and each["where"].startswith("PCI")]
            found = sum(device.driver == vendor for device in self._found)
            if len(shown) > found and (self.sku is None or self.sku.vendor == vendor):
                return f"the PCI bus shows {len(shown)} {vendor} devices, the driver {found}: look at dmesg"
        return None

    def _gate(self) -> None:
        """Before our own first context: who else is using the devices?"""
        if self._not_idle is not None:
            return
        answer = self._ask_sensor("idle", "idle")
        self._not_idle = answer.get("reasons", {})
        for uuid, reason in self._not_idle.items():
            self.record.notes.append(f"{self.names[uuid]} was not idle before the run: {reason}")

    def _measure(
        self,
        result: Result,
        function: Callable[..., Any],
        spec: Spec,
        conditions: dict[str, Any],
        metric: str,
        alone: Device | None = None,
    ) -> None:
        """Run the probe once on all devices (or on one, `alone`) and add what was found to the result."""
        began = time.time()
        rounds = self._rounds(spec, alone)
        calls: list[tuple[list[Device], Call]] = []
        try:
            self._watch(True)
            for group in rounds:
                calls += self._round(group, function, spec, conditions, metric)
        except Interrupted as interrupted:
            for call in interrupted.calls:
                devices = [device for device in self.devices if self._workers.get(device.uuid) is call.child]
                calls.append((devices or self.devices, call))
            raise
        finally:
            self.device_seconds += time.time() - began
            with contextlib.suppress(KeyboardInterrupt):
                self._watch(False)
            self._collect(result, spec, conditions, metric, calls, began, alone)
            self._note(result)

    def _rounds(self, spec: Spec, alone: Device | None) -> list[list[Device]]:
        if alone:
            return [[alone]]
        return [[device] for device in self.devices] if spec.runs == "alone" else [self.devices]

    def _round(
        self,
        devices: list[Device],
        function: Callable[..., Any],
        spec: Spec,
        conditions: dict[str, Any],
        metric: str,
    ) -> list[tuple[list[Device], Call]]:
        """One synchronous go at the probe; a device that has no worker answers with why."""
        if spec.runs == "peers":
            groups = [devices]
        else:
            groups = [[device] for device in devices]
        self._start_workers(groups)
        request = self._request(function, conditions, metric)
        ready, calls = [], []
        for group in groups:
            child = self._workers.get(_key(group))
            if child is None or child.ended is not None:
                trouble = self._open_trouble[_key(group)]
                call = Call(Child.__new__(Child), state="over")
                call.trouble = {"event": "error", "kind": trouble.kind, "reason": trouble.reason}
                calls.append((group, call))
            else:
                ready.append((group, child))
        if spec.runs == "ranks":
            if calls:  # a collective needs every rank
                return calls
            request = self._join_ranks(request)
        started = time.monotonic()
        expected = self.budget(function.__name__)
        requests = [
            (child, {**request, "ranks": {**request["ranks"], "rank": rank}} if "ranks" in request else request)
            for rank, (_, child) in enumerate(ready)
        ]
        done = conduct(
            requests,
            patience=self.options.patience,
            others=[self._sensor] if self._sensor and self._sensor.ended is None else [],
            hear=self._hear,
            tick=lambda: self.progress(metric, time.monotonic() - started, expected),
            all_or_none=spec.runs == "ranks",
        )
        self.progress("", 0.0, 0.0)
        calls += [(group, call) for (group, _), call in zip(ready, done, strict=True)]
        for group, call in calls:
            self._bury(group, call, metric)
        return calls

    def _request(self, function: Callable[..., Any], conditions: dict[str, Any], metric: str) -> dict[str, Any]:
        return {
            "event": "call",
            "probe": {
                "module": function.__module__,
                "file": function.__code__.co_filename,
                "name": function.__qualname__,
            },
            "conditions": conditions,
            "metric": metric,
            "seconds": self.budget(function.__name__),
            "precision": self.sku.precision if self.sku else Sku.precision,
        }

    def _join_ranks(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.output
        meeting = str(self.output / "logs" / f"rendezvous-{self._rendezvous}")
        return {**request, "ranks": {"rendezvous": meeting, "world": len(self.devices)}}

    def _start_workers(self, groups: list[list[Device]]) -> None:
        """Start a worker for every group of devices that has none, all at once, and let it open them."""
        missing = []
        for group in groups:
            key = _key(group)
            child = self._workers.get(key)
            if child is not None and child.ended is None:
                continue
            if key in self._open_trouble or self._lost(group):
                continue
            missing.append((group, self._spawn(group)))
        if not missing:
            return
        self.progress("starting the worker processes", 0.0, 0.0)
        opened = conduct(
            [(child, self._opening(group)) for group, child in missing],
            patience=self.options.patience,
            others=[self._sensor] if self._sensor and self._sensor.ended is None else [],
            hear=self._hear,
        )
        for (group, child), call in zip(missing, opened, strict=True):
            if call.trouble:
                child.kill("it could not open its device")
                self._open_trouble[_key(group)] = Trouble(
                    call.trouble.get("kind", "device"), f"{call.trouble['reason']} (see {child.log.name})"
                )
            else:
                self.record.software.update(call.findings[0]["software"])

    def _lost(self, group: list[Device]) -> bool:
        """True for devices that have taken their workers with them too often; says so for good."""
        for device in group:
            if self._deaths[device.uuid] > DEATHS_ALLOWED:
                reason = f"not measured: {device.name} lost its worker in {self._death_in[device.uuid]}"
                self._open_trouble[_key(group)] = Trouble("device", reason)
                return True
        return False

    def _spawn(self, group: list[Device]) -> Child:
        assert self.output
        name = group[0].name if len(group) == 1 else "peers"
        cores = sum(int(device.facts.get("cores", 0)) for device in group)
        env = {"OMP_NUM_THREADS": str(cores)} if cores else {}
        if group[0].driver == "cpu":
            env.update(CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="lo")
        else:
            env.update(
                CUDA_VISIBLE_DEVICES=",".join(device.uuid for device in group), CUDA_DEVICE_ORDER="PCI_BUS_ID"
            )
        child = Child(name, "pytest_accel.worker", self.output / "logs" / f"{name}.log", env)
        self._workers[_key(group)] = child
        self._rendezvous += 1
        return child

    def _opening(self, group: list[Device]) -> dict[str, Any]:
        threads = sum(int(device.facts.get("cores", 0)) for device in group) or min(8, len(group[0].cpus) or 1)
        fields = [{**vars(device), "facts": dict(device.facts)} for device in group]
        return {"event": "open", "devices": fields, "threads": threads}

    def _bury(self, group: list[Device], call: Call, metric: str) -> None:
        """Remember whose worker died or hung, so that a lost device is not tried for ever."""
        trouble = call.trouble
        if trouble is None or trouble["event"] not in ("died", "hung") or trouble.get("kind") in ("stopped", "need"):
            return
        for device in group:
            self._deaths[device.uuid] += 1
            before = self._death_in.get(device.uuid)
            self._death_in[device.uuid] = f"{before} and {metric}" if before else metric

    def _collect(
        self,
        result: Result,
        spec: Spec,
        conditions: dict[str, Any],
        metric: str,
        calls: list[tuple[list[Device], Call]],
        began: float,
        alone: Device | None,
    ) -> None:
        """Turn what the workers sent into measurements, a trouble included, and add the telemetry of each."""
        how = "alone" if alone else "together"
        if spec.runs == "ranks":
            self._collect_node(result, conditions, metric, calls, began)
            return
        for group, call in calls:
            for device in group:
                own = [each for each in call.findings if each.get("subject") in (None, device.uuid)]
                found = [self._measurement(each, device.uuid, began, how) for each in own]
                if call.trouble and not any(each.metric == metric for each in found):
                    found.append(self._troubled(metric, device.uuid, conditions, call, began, how))
                summary = summarise(self._telemetry.window(device.uuid, began, time.time()))
                disturbed = disturbance(device, summary) or self._foreign(device)
                found = [
                    replace(each, disturbance=disturbed, details={**each.details, "telemetry": summary})
                    for each in found
                ]
                for each in found:
                    result.add(each)
                    if each.metric == "soak.rate":
                        for more in soak_measurements(each, device, summary):
                            result.add(more)

    def _foreign(self, device: Device) -> str | None:
        reason = (self._not_idle or {}).get(device.uuid)
        return f"it was not idle before the run: {reason}" if reason else None

    def _collect_node(
        self,
        result: Result,
        conditions: dict[str, Any],
        metric: str,
        calls: list[tuple[list[Device], Call]],
        began: float,
    ) -> None:
        """A collective is judged by its slowest rank; whoever failed in it is named."""
        guilty = [(group[0], call) for group, call in calls if call.trouble and call.trouble.get("kind") != "stopped"]
        if guilty or not calls:
            device, call = guilty[0] if guilty else (None, None)
            if call and call.trouble:
                trouble = _trouble(call.trouble)
                trouble = replace(trouble, reason=f"{device.name if device else ''}: {trouble.reason}")
            else:
                trouble = Trouble("need", "there is no device to measure")
            result.add(Measurement(metric, NODE, "", None, conditions=conditions, trouble=trouble, started=began))
            return
        for name in dict.fromkeys(each["metric"] for each in calls[0][1].findings):
            ranks = [
                self._measurement(each, NODE, began, "together")
                for _, call in calls
                for each in call.findings
                if each["metric"] == name
            ]
            worst = min if ranks[0].unit.endswith("/s") else max
            slowest = worst(ranks, key=lambda each: float(each.value or 0.0))
            values = [each.value for each in ranks]
            result.add(replace(slowest, details={**slowest.details, "ranks": values}))

    def _measurement(self, finding: dict[str, Any], subject: str, began: float, how: str) -> Measurement:
        samples = tuple(finding["samples"])
        value = finding["value"]
        if value is None and samples:
            value = sum(samples) / len(samples)
        return Measurement(
            metric=finding["metric"],
            subject=subject,
            unit=finding["unit"],
            value=value,
            samples=samples,
            seconds=tuple(finding["seconds"]),
            peak=self._peak(finding),
            conditions=finding["conditions"],
            how=how,
            started=began,
            ended=time.time(),
            details=finding["details"],
        )

    def _peak(self, finding: dict[str, Any]) -> Peak | None:
        if finding["peak"]:
            return Peak(**{**finding["peak"], "samples": tuple(finding["peak"]["samples"])})
        sheet = self.sku.peak(finding["metric"], self.platform) if self.sku else None
        return Peak(*sheet) if sheet else None

    def _troubled(
        self, metric: str, subject: str, conditions: dict[str, Any], call: Call, began: float, how: str
    ) -> Measurement:
        """What is left of a call that broke: its blocks, as seconds per operation."""
        seconds = tuple(each["seconds"] for each in call.blocks)
        trouble = _trouble(call.trouble or {})
        if seconds:
            trouble = replace(trouble, reason=f"{trouble.reason}, after {len(seconds)} blocks")
        return Measurement(
            metric=metric,
            subject=subject,
            unit="",
            conditions=conditions,
            seconds=seconds,
            trouble=trouble,
            how=how,
            started=began,
            ended=time.time(),
            details={"traceback": (call.trouble or {}).get("traceback")},
        )

    # -- the sensor

    def _watch(self, on: bool) -> None:
        if self._sensor is None or self._sensor.ended is not None or not self.devices:
            return
        if on:
            self._turn += 1
            self._sensor.send("watch", turn=self._turn, hz=WATCH_HZ.get(self.devices[0].driver, DEFAULT_HZ))
        else:
            self._ask_sensor("resting", "rest", turn=self._turn)

    def _hear(self, child: Child, message: dict[str, Any]) -> None:
        if child is not self._sensor:
            return
        if message["event"] == "reading":
            self._telemetry.hear(message)
        elif message["event"] in ("died", "error"):
            self.record.notes.append(f"the sensor stopped: {message['reason']}")

    # -- the record

    def _note(self, result: Result) -> None:
        kept = {id(each) for each in self.record.measurements}
        for attempts in result.attempts.values():
            self.record.measurements += [each for each in attempts if id(each) not in kept]
        self.save()

    def save(self) -> None:
        """Write the record; a failure is kept for the closing line, the run goes on."""
        if self.output is None:
            return
        try:
            record.write(self.record, self.output)
            self.record_problem = None
        except OSError as error:
            self.record_problem = error.strerror or str(error)

    def finish(self, interrupted: str | None = None, usable: bool = True) -> Closing:
        """Stop the children, close the record, and say what the run found."""
        if not usable and interrupted is None:
            interrupted = "pytest ended with an error of its own"
        self.stop()
        if self.output:
            side = self.output / record.TELEMETRY
            self.record.telemetry = {"file": record.TELEMETRY, "sha256": record.hash_file(side)}
        self.record.run["ended"] = _now()
        self.record.run["device_seconds"] = round(self.device_seconds, 3)
        self.record.state = "interrupted" if interrupted else "finished"
        self.record.closing = vars(self._close(interrupted))
        self.save()
        closing = self._close(interrupted)
        if self.record_problem is None and closing != Closing(**self.record.closing):
            self.record.closing = vars(closing)
            self.save()
        return closing

    def _close(self, interrupted: str | None) -> Closing:
        limits = self.limits()
        unfit = self.sku and _unfit(self.sku, self.platform)
        return close(
            self.verdicts,
            Circumstances(
                required=self.required(),
                names=self.names,
                expected_devices=self.expected_devices,
                no_acceptance=[*self.no_acceptance, *([unfit] if unfit else [])],
                filtered=self.filtered,
                overridden=sum(limit.overridden for limit in limits.values()),
                broken_tests=self.broken_tests,
                failed_tests=self.failed_tests,
                record_problem=self.record_problem,
                interrupted=interrupted,
            ),
        )

    def stop(self) -> None:
        """End every process of the run and free the devices. Safe to call twice."""
        for child in [*self._workers.values(), *([self._sensor] if self._sensor else [])]:
            text = child.kill("the run is over") if child.ended is None else child.ended
            if "left behind" in text and (note := f"{child.name}: {text}") not in self.record.notes:
                self.record.notes.append(note)
        for lock in self._locks:
            lock.close()
        self._locks = []


def of_node(metric: str) -> bool:
    """True if the metric's subject is the node."""
    return metric in NODE_FACTS or metric.partition(".")[0] in NODE_PROBES


def _key(group: list[Device]) -> str:
    return group[0].uuid if len(group) == 1 else "peers"


def _fact(metric: str, expected: str | int, origin: str) -> Limit:
    return Limit(metric, "count" if isinstance(expected, int) else "text", equals=expected, origin=origin)


def _problem(problem: dict[str, Any]) -> str:
    shown = problem.get("shown") or []
    place = f" ({', '.join(shown[:2])}{' ...' if len(shown) > 2 else ''})" if shown else ""
    return f"{problem['driver']}{place}: {problem['reason']}"


def _trouble(message: dict[str, Any]) -> Trouble:
    """What a worker's last message says of its device. A worker that dies or hangs was killed by its device."""
    kind = message.get("kind", "device")
    reason = message.get("reason", "it failed")
    if message.get("event") == "died" and "kind" not in message:
        reason = f"its worker process died: {reason}"
    return Trouble(kind, reason)


def _unfit(sku: Sku, platform: Platform) -> str | None:
    """Why nobody may accept against this file: a part of what must be judged has no sourced limit."""
    from pytest_accel.closing import REQUIRED_OF_SEVERAL, REQUIRED_PROBES

    wanted = [*REQUIRED_PROBES, *(REQUIRED_OF_SEVERAL if (platform.devices or 1) > 1 else ())]
    there = {metric.partition(".")[0] for metric in sku.limits_on(platform)} | {"inventory"}
    lacking = [probe for probe in wanted if probe not in there]
    return f"{sku.name} has no sourced limit for {', '.join(lacking)}" if lacking else None


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


__all__ = ["SOAK_METRICS", "Options", "ProbeError", "Refused", "Run", "of_node"]
