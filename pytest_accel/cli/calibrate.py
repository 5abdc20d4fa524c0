"""The subcommand `pytest-accel calibrate`: from records of known-good nodes to a threshold file ready for review."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

import yaml

from pytest_accel.cli import known_good
from pytest_accel.cli.rejudge import judge_again
from pytest_accel.cli.result_file import write_new
from pytest_accel.core import exits
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Platform, Sku
from pytest_accel.core.verdict import Result, Status
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.drivers import registry
from pytest_accel.judging.records import calibration
from pytest_accel.judging.records.calibration import Calibration
from pytest_accel.judging.verdicts.history import TERMS
from pytest_accel.run.terms import Terms
from pytest_accel.skus import lint, loader
from pytest_accel.views import calibration_text as view
from pytest_accel.views import lint_report
from pytest_accel.views.calibration_text import Provenance

SOFTWARE = [name for name in TERMS if name not in ("level", "platform")]

DESCRIPTION = """Make a threshold file from records of known-good nodes of one SKU. Outliers are left out and named;
each limit states how many healthy devices it rejects and which loss it finds. The file is for review
(docs/thresholds.md). The exit status is 0 if the file is clean and holds for the records that it came from, 6 if not, 4
for wrong inputs and for too few devices."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `calibrate`."""
    option = parser.add_argument
    text = "a record.json, or a folder with one or many"
    option("records", metavar="RECORDS", nargs="+", help=text)
    option(
        "--output",
        metavar="FILE.yaml",
        type=Path,
        required=True,
        help="write the threshold file here; it extends the SKU of the records",
    )
    text = "whose nodes these are, stated as the source of the limits (default: us)"
    option("--owner", metavar="NAME", help=text)
    text = "the SKU, or the threshold file, that the new file extends (default: the SKU of the records)"
    option("--sku", metavar="NAME|FILE", help=text)
    text = "rehearse with records of simulated nodes; no run on hardware is judged by the file that is written"
    option("--allow-simulated", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    """Calibrate, write the file, and return the exit status: 0 or 6. Raises WrongUse."""
    if args.output.suffix not in (".yaml", ".yml"):
        raise BadFile(f"--output: {args.output} has to end with .yaml")
    refused: list[str] = []
    gathered = known_good.gather(args.records, refused, rehearsal=args.allow_simulated)
    sku_named = loader.load(args.sku) if args.sku else None
    product, records = known_good.same_product(gathered, refused, sku_named.name if sku_named else None)
    sku, platform = _product(product, sku_named)
    processors = not registry.vendor(sku.vendor).accelerator
    figures = calibration.calibrate(known_good.readings(records, sku, platform), processors=processors)
    origin = _provenance(args, records, refused, sku, platform)
    for line in view.lines(figures, origin):
        print(line)
    if not any(view.limited(figure, sku, platform) for figure in figures.metrics):
        shortage = "; ".join(sorted(set(figures.skipped_metrics.values()))) or "none was measured"
        raise BadFile(f"nothing was written: no metric has enough devices or runs ({shortage})")
    return _write(args.output, records, figures, origin)


def _product(product: tuple[str, str], named: Sku | None) -> tuple[Sku, Platform]:
    """Return SKU and platform of the records. Raises BadFile."""
    if named is None and product[0] not in loader.names():
        raise BadFile(f"the records were judged as {product[0]}, which is no shipped SKU: name its file by --sku")
    sku = named or loader.load(product[0])
    platform = sku.platform_named(product[1])
    if platform is None:
        raise BadFile(f"{sku.name} has no platform {product[1]}, on which the records were measured")
    return sku, platform


def _provenance(
    args: argparse.Namespace, records: Sequence[Run], refused: Sequence[str], sku: Sku, platform: Platform
) -> Provenance:
    """Return the origin of the calibration."""
    software = {name: {str(run.software[name]) for run in records if run.software.get(name)} for name in SOFTWARE}
    extended = os.path.relpath(sku.own_file, args.output.parent.absolute()) if sku.own_file else sku.name
    stem = re.sub(r"[^\w-]", "-", args.output.stem)
    return Provenance(
        sku=sku,
        platform=platform,
        extends=extended,
        name=stem if stem != sku.name else f"{stem}-calibrated",
        by=args.owner or "us",
        date=max(run.started[:10] for run in records),
        software={name: sorted(numbers, key=_numbers) for name, numbers in software.items() if numbers},
        levels=list(dict.fromkeys(run.info["level"] for run in records if run.info.get("level"))),
        sources=list(map(_line, records)),
        refused=refused,
        devices=list(dict.fromkeys(device.uuid for run in records for device in run.devices)),
        labels=known_good.labels(records),
        simulated=any(run.simulated for run in records),
    )


def _numbers(version: str) -> list[int]:
    """Return the numbers in a version, by which versions are ordered."""
    return [int(part) for part in re.findall(r"\d+", version)]


def _line(run: Run) -> str:
    """Return a record in one line."""
    info = run.info
    host, day = info.get("host", ""), info.get("started", "")[:10]
    summary = f"{info.get('level', '')}, {len(run.devices)} devices, {Result.words(run.result)}"
    return f"{run.path}: {host}, {day}, {summary}"


def _write(path: Path, records: Sequence[Run], figures: Calibration, origin: Provenance) -> int:
    """Write the threshold file, lint it, judge the records by it, print the results, and return the exit status."""
    body = yaml.safe_dump(view.content(figures, origin), sort_keys=False, allow_unicode=True, width=116)
    write_new(path, f"{view.header(figures, origin)}{body}".encode())
    report = lint.lint([str(path)], today=origin.date)
    print(lint_report.text(report, everything=False, colour=False))
    broken = _judged(loader.load(str(path)), records, figures, origin)
    for line in broken or [f"{len(records)} records: every calibrated limit holds"]:
        print(printable(line))
    rehearsal = " It is for rehearsal only: the nodes were simulated." if origin.simulated else ""
    print(f"{printable(str(path))}: {view.REVIEW}{rehearsal}")
    return exits.HOLDS if report.clean and not broken else exits.NOT_JUDGED


def _judged(sku: Sku, records: Sequence[Run], figures: Calibration, origin: Provenance) -> list[str]:
    """Return a sentence for each healthy figure that the new limits reject."""
    outliers, labels = {outlier.device for outlier in figures.outliers}, origin.labels
    metrics = {figure.metric for figure in figures.metrics if view.limited(figure, origin.sku, origin.platform)}
    broken = []
    for run in records:
        terms = Terms(sku, sku.platforms[origin.platform.name], run.info.get("level", ""))
        broken += [
            f"{run.path}: {labels.get(verdict.subject, verdict.subject)}: {verdict.metric} {sentence_of(verdict)}"
            for verdict in judge_again(run, terms).verdicts
            if verdict.status is Status.FAIL and verdict.metric in metrics and verdict.subject not in outliers
        ]
    return broken
