"""The first screen of the report: the result, what was examined, what fell short and why, who waived what. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_accel.core.measurement import NODE
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, Waiver, show
from pytest_accel.judging.ranking import worst_first
from pytest_accel.run.record import Record, findings_of, places_of
from pytest_accel.views.html.limits import advises, bounds_of
from pytest_accel.views.html.words import KINDS, MEANINGS, Badge, badge, is_fact, meaning, plain, time_of

FIRMWARE = ("vbios", "gsp_firmware", "inforom")
"""The facts of a device that state its firmware."""
SOFTWARE = ("pytest_accel", "driver", "torch")
"""The software that the first screen names."""


@dataclass(frozen=True)
class Result:
    """The result of the run: word, closing line, meaning, and the name of the colour."""

    word: str
    line: str
    meaning: str
    kind: str
    simulated: bool
    again: bool
    """True for a record that was judged again."""
    finds: str = ""
    """What the run would have rejected."""


@dataclass(frozen=True)
class Finding:
    """What fell short on one device for one reason: the metrics, worst first, and the sentence that says why."""

    device: str
    badge: Badge
    metrics: Sequence[str]
    sentence: str
    anchor: str
    place: str
    """Serial number and PCI address of the device."""
    title: str
    """Fault code and name: "A401 hw-thermal"; empty without one."""
    do: str
    """The next step."""


@dataclass
class Waived:
    """A waiver with what it covers: the devices, and the sentences of their verdicts, each once."""

    waiver: Waiver
    devices: list[str]
    sentences: list[str]


@dataclass(frozen=True)
class DeviceRow:
    """A device with its identity and the number of its verdicts by status, worst first."""

    name: str
    model: str
    serial: str
    uuid: str
    pci: str
    firmware: str
    counts: Sequence[tuple[Badge, int]]
    judged: bool


@dataclass(frozen=True)
class Cell:
    """The verdict on a metric of a device in the overview; `text` is its value without a unit."""

    badge: Badge
    text: str
    told: str
    anchor: str


@dataclass(frozen=True)
class Line:
    """A row of the overview: one metric with a cell for each device, None where there is no verdict."""

    metric: str
    unit: str
    meaning: str
    limit: str
    cells: Sequence[Cell | None]


def result(record: Record) -> Result:
    """Return the result of a record."""
    word = record.closing.get("word") or "NO RESULT"
    line = record.closing.get("line") or f"The record is in the state '{record.state}' and has no closing line."
    kind = KINDS.get(word, "not-judged")
    if kind == "pass" and any(each.status is Status.MARGINAL or each.waiver for each in record.verdicts):
        kind = "marginal"  # as the closing line in the terminal
    simulated = bool(record.run.get("simulated"))
    return Result(
        word, line, MEANINGS.get(word, ""), kind, simulated, bool(record.judged_from), record.closing.get("finds", "")
    )


def title(record: Record) -> str:
    """Return the title of the page: result, node and SKU."""
    named = [record.run.get("host", "node"), record.sku.get("name", "no SKU")]
    found = result(record)
    return f"{'SIMULATED ' if found.simulated else ''}{found.word}: {', '.join(named)}"


def earlier(record: Record) -> list[tuple[str, str, str]]:
    """Return time, closing line and place of the earlier records of the devices."""
    return [
        (
            time_of(each.get("started") or "at an unknown time"),
            each.get("line") or each.get("state") or "no closing line",
            each.get("record", ""),
        )
        for each in record.earlier_attempts
    ]


def about(record: Record) -> list[tuple[str, str]]:
    """Return what was examined, when and as what: labels with their texts."""
    run, sku, software = record.run, record.sku, record.software
    contract = sku.get("contract")
    serials = any(device.serial for device in record.devices)
    models = Counter(device.product for device in record.devices)
    pairs = [
        ("Node", run.get("host", "")),
        ("Devices", ", ".join(f"{count} x {model}" for model, count in models.items()) or "none found"),
        ("Serial numbers", ", ".join(device.serial or "none stated" for device in record.devices if serials)),
        ("Date", " to ".join(time_of(each) for each in (run.get("started"), run.get("ended")) if each)),
        ("SKU", sku.get("name", "") or "none"),
        ("Platform", run.get("platform", "")),
        ("Level", run.get("level", "")),
        ("Thresholds", sku.get("thresholds", "")),
        ("Contract", f"sha256 {contract['sha256']}, of {contract['date']}" if contract else ""),
        ("Software", ", ".join(f"{name} {software[name]}" for name in SOFTWARE if software.get(name))),
        ("Run by", run.get("user", "")),
    ]
    return [(label, text) for label, text in pairs if text]


def findings(record: Record, names: Mapping[str, str], anchors: Mapping[int, str]) -> list[Finding]:
    """Return what fails or is marginal, worst first; verdicts of a device with one reason are together."""
    places, codes = places_of(record), findings_of(record)
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for each in worst_first(record.verdicts):
        if each.fails or each.status is Status.MARGINAL:
            groups.setdefault((each.culprit, each.status, each.sentence), []).append(each)
    return [
        Finding(
            names.get(group[0].culprit, group[0].culprit),
            badge(group[0]),
            list(dict.fromkeys(each.metric for each in group)),
            group[0].sentence,
            anchors.get(id(group[0]), ""),
            places.get(group[0].culprit, ""),
            code.title if (code := codes.get(group[0].key)) else "",
            code.do if code else "",
        )
        for group in groups.values()
    ]


def waivers(verdicts: Iterable[Verdict], names: Mapping[str, str]) -> list[Waived]:
    """Return every waiver that covers a failure, with what it was used for."""
    found: dict[str, Waived] = {}
    for each in verdicts:
        if each.waiver:
            used = found.setdefault(repr(each.waiver), Waived(each.waiver, [], []))
            used.devices += [name for name in [names.get(each.subject, each.subject)] if name not in used.devices]
            used.sentences += [text for text in [each.sentence] if text not in used.sentences]
    return list(found.values())


def devices(record: Record) -> list[DeviceRow]:
    """Return a row for each device that was found."""
    rows = []
    for device in record.devices:
        own = [each for each in record.verdicts if each.culprit == device.uuid]
        firmware = [f"{name} {plain(device.facts[name])}" for name in FIRMWARE if device.facts.get(name)]
        rows.append(
            DeviceRow(
                device.name,
                device.product,
                device.serial or "none stated",
                device.uuid,
                device.pci_address or "",
                ", ".join(firmware),
                counts(own),
                bool(own),
            )
        )
    return rows


def counts(verdicts: Iterable[Verdict]) -> list[tuple[Badge, int]]:
    """Return the number of verdicts by status, worst first. What does not apply and information are not counted."""
    judged = [each for each in verdicts if each.status is not Status.NOT_APPLICABLE]
    found: dict[Badge, int] = {}
    for each in sorted(judged, key=lambda verdict: WORST_FIRST.index(verdict.status)):
        found[badge(each)] = found.get(badge(each), 0) + 1
    return list(found.items())


def columns(record: Record) -> list[str]:
    """Return the subjects that have a column in the overview: the judged devices in their order, and the node."""
    judged = {each.subject for each in record.verdicts}
    own = [device.uuid for device in record.devices if device.uuid in judged]
    others = [subject for subject in dict.fromkeys(each.subject for each in record.verdicts) if subject not in own]
    return [*own, *(each for each in others if each != NODE), *([NODE] if NODE in judged else [])]


def lines(record: Record, subjects: Sequence[str], anchors: Mapping[int, str]) -> list[Line]:
    """Return the rows of the overview: one for each measured metric, then one for each family of facts."""
    shown = [each for each in record.verdicts if each.information or each.status is not Status.NOT_APPLICABLE]
    measured: dict[str, dict[str, Verdict]] = {}
    families: dict[str, dict[str, list[Verdict]]] = {}
    for each in worst_first(shown):
        if is_fact(each.metric):
            families.setdefault(each.metric.partition(".")[0], {}).setdefault(each.subject, []).append(each)
        else:
            measured.setdefault(each.metric, {}).setdefault(each.subject, each)
    order = {metric: place for place, metric in enumerate(dict.fromkeys(each.metric for each in shown))}
    found = [_line(metric, measured[metric], subjects, anchors) for metric in sorted(measured, key=order.__getitem__)]
    return found + [_family(name, families[name], subjects) for name in sorted(families)]


def _line(metric: str, by: Mapping[str, Verdict], subjects: Sequence[str], anchors: Mapping[int, str]) -> Line:
    first = next(iter(by.values()))
    having = [each for each in by.values() if each.value is not None] or list(by.values())
    limits = list(
        dict.fromkeys(filter(None, (bounds_of(each) + (" (advises)" if advises(each) else "") for each in having)))
    )
    limit = "several" if len(limits) > 1 else "".join(limits)
    return Line(
        metric,
        first.unit if first.unit not in ("1", "text", "count") else "",
        meaning(metric),
        limit,
        [_cell(by[each], anchors) if each in by else None for each in subjects],
    )


def _cell(verdict: Verdict, anchors: Mapping[int, str]) -> Cell:
    text = "no value" if verdict.value is None else show(verdict.value, "")
    told = f"{badge(verdict).word}: {verdict.sentence}"
    return Cell(badge(verdict), text, told, anchors.get(id(verdict), ""))


def _family(name: str, by: Mapping[str, Sequence[Verdict]], subjects: Sequence[str]) -> Line:
    return Line(f"{name}.*", "", "", "", [_tally(name, by[each]) if each in by else None for each in subjects])


def _tally(family: str, verdicts: Sequence[Verdict]) -> Cell:
    """Return the cell of a family of facts: the worst of its statuses, and how many facts hold."""
    judged = [each for each in verdicts if not each.information]
    if not judged:
        return Cell(badge(verdicts[0]), str(len(verdicts)), f"{len(verdicts)} facts without a limit", "facts")
    holding = sum(each.status.holds for each in judged)
    short = [each for each in judged if not each.status.holds or each.status is Status.MARGINAL]
    told = "; ".join(f"{badge(each).word} {each.metric}: {each.sentence}" for each in short[:5])
    text = f"{holding} of {len(judged)}"
    return Cell(badge(judged[0]), text, told or f"{text} {family} facts hold", "facts")
