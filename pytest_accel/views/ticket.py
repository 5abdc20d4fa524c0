"""The text of a return: what is wrong with one device, in our words and the vendor's, for a supplier's ticket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from pytest_accel.core.details import ErrorReport
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import details, headline
from pytest_accel.core.verdict import Verdict
from pytest_accel.run.record import findings_of

FACTS = ("vbios", "driver_version", "part_number", "board_part_number")
"""Facts of a device that a supplier asks for, as far as the driver states them."""


def blamed(run: Run, device: Device) -> list[Verdict]:
    """Return the verdicts that reject a device, as the record has them."""
    rejecting = (verdict for verdict in run.verdicts if verdict.rejects)
    return [verdict for verdict in rejecting if device.uuid in (verdict.subject, verdict.culprit)]


def reports_of(run: Run, device: Device) -> list[ErrorReport]:
    """Return the errors that the driver or the kernel reported of a device, in order of time, each once."""
    reports = [
        report
        for measurement in run.measurements
        for report in measurement.details.get("reports", ())
        if report.uuid == device.uuid
    ]  # fmt: skip
    return sorted(dict.fromkeys(reports), key=lambda report: report.at)


def kernel_lines(run: Run, device: Device) -> list[str]:
    """Return a line for each report of a device: the kernel's own text where it states one."""
    lines = []
    for report in reports_of(run, device):
        time = datetime.fromtimestamp(report.at, timezone.utc).isoformat(timespec="seconds")
        lines.append(printable(f"{time} {report.source}: {report.text or report.title}"))
    return lines


@dataclass(frozen=True)
class Claim:
    """The content of a ticket on one device of a run."""

    run: Run
    device: Device
    files: Mapping[str, str]
    """The SHA-256 of every file of the packet, by its name."""
    last_good: str
    """The record of the last good run of the device; empty if none is known."""
    command: str
    """The command that shows the fault again."""

    @property
    def text(self) -> str:
        """The text of the ticket."""
        return "\n".join(map(printable, self._lines())) + "\n"

    def _lines(self) -> Iterator[str]:
        run, device = self.run, self.device
        simulated = "SIMULATED, nothing to return: " if run.simulated else ""
        yield f"{simulated}Return of {device.model}, serial {device.serial or 'unknown'}"
        yield ""
        yield f"node:     {run.host}"
        yield f"location: {device.name}, PCI {device.pci_address or 'unknown'}"
        yield f"UUID:     {device.uuid}"
        yield from (f"{name}: {device.facts[name]}" for name in FACTS if device.facts.get(name))
        yield f"examined: {run.started} by pytest_accel {run.software.get('pytest_accel', '')}".rstrip()
        yield f"result:   {run.closing.line}"
        yield ""
        yield "What is wrong"
        findings = findings_of(run)
        for finding, verdicts in grouped(blamed(run, device), lambda verdict: findings.get(verdict.key)).items():
            if finding:
                yield f"{finding.title}, {finding.severity.value}: {finding.next_step}"
            for verdict in verdicts:
                yield f"- {verdict.metric}: {headline(verdict)}"
                yield from (f"  {text}" for text in filter(None, [details(verdict)]))
        lines = kernel_lines(run, device)
        yield ""
        yield "Reported by the driver and the kernel" + ("" if lines else ": nothing")
        yield from (f"- {line}" for line in lines)
        yield ""
        yield f"Last good run:   {self.last_good or 'none is known'}"
        yield f"To see it again: {self.command}"
        yield ""
        yield "Files"
        yield from (f"- {sha256}  {name}" for name, sha256 in self.files.items())
