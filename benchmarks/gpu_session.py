"""Everything that is open on one GPU, in one call: the steps in the order of their worth, within a number of minutes.

The packaged suite at level quick, a soak of a minute, the runs V1 to V12 of verify.py with their predictions, and
compare.py's ratios to the tools of others, of which a folder with builds is given (nothing is fetched here). `--plan`
prints the steps with their seconds; session.py says how they are run. Afterwards DIR/session can be put under
docs/evidence/ (records and logs name the host and the user).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import compare
import verify
from bench import NotRun
from session import Session, Step
from session_report import report

from pytest_accel.skus.loader import load as load_sku

HERE = Path(__file__).parent
RESERVE = 30.0
"""Seconds of the stated minutes that are left at the end: to end a step, to pack, and for the caller's own work."""
FIRST = 12.0
"""Seconds until it is known what the machine has."""
QUICK, SOAK = 85.0, 90.0
"""Seconds of a run of the suite on one GPU, planned: its budgets, the start of its processes, settling, checks."""
RECORDS = ("V9", "V11")
"""They read the records of soak and quick."""
WORTH = ("quick", "V6", "V2", "V3", "V1", "soak", "V7", "V12", "V8", "records", "V10", "V4", "V5", *compare.PLANS)
SOAK_FILE = """# The shipped limits at level standard; the soak for a session of minutes.
sku: {sku}-session
vendor: {vendor}
extends: {sku}
budgets: {{standard: {{soak: {seconds}}}}}
"""
SUITE = ("-m", "pytest", "-q", "-p", "pytest_accel.plugin", "-p", "no:cacheprovider", "-c", "pytest.ini")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
"""With SUITE, nothing of the machine's own pytest comes along: no plugin, option, or file of a folder above."""


def write_files(folder: Path, sku: str, seconds: float) -> None:
    """Write the threshold file of the soak, and an empty configuration of pytest."""
    vendor = "nvidia" if sku == "auto" else load_sku(sku).vendor
    (folder / "soak.yaml").write_text(SOAK_FILE.format(sku=sku, vendor=vendor, seconds=seconds), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")


def without_builds(builds: Path | None, name: str) -> str:
    """Return why a tool of others cannot be run, "" if it can; the kernels of stream.cu need no build."""
    tool = compare.PLANS[name].tool
    try:
        if tool:
            compare.Others(builds, Path(), None).find(tool)
    except NotRun as why:
        return str(why)
    return ""


def steps(options: argparse.Namespace, folder: Path, sku: str, part: str) -> list[Step]:
    """Return all steps in the order of their worth. `part` is whose datasheet the predictions are held against."""
    suite = [sys.executable, *SUITE, f"--accel-platform={options.platform}"]
    check = [sys.executable, str(HERE / "verify.py"), "--sku", part, "--records", str(folder)]
    beside = [sys.executable, str(HERE / "compare.py"), "--logs", str(folder)]
    beside += ["--peers", str(options.peers.absolute())] if options.peers else []
    soak = [f"--accel-sku={folder / 'soak.yaml'}", "--accel-level=standard", "-k", "soak"]
    commands = {"quick": [f"--accel-sku={sku}", "--accel-level=quick"], "soak": soak}
    found = [
        Step(name, seconds, [*suite, *commands[name], f"--accel-output={folder / name}"])
        for name, seconds in (("quick", QUICK), ("soak", SOAK))
    ]
    for name, runs in {**{run: (run,) for run in verify.RUNS if run not in RECORDS}, "records": RECORDS}.items():
        seconds = verify.STARTING + sum(verify.RUNS[run].seconds for run in runs)
        found.append(Step(name, seconds, [*check, *runs], "verify", runs))
    for name, plan in compare.PLANS.items():
        lacks = without_builds(options.peers, name)
        found.append(Step(name, compare.STARTING + plan.seconds, [*beside, name], "compare", (name,), lacks))
    return [each for each in sorted(found, key=lambda each: WORTH.index(each.name)) if each.name in options.steps]


def plan(every: Sequence[Step]) -> str:
    """Return the table of the steps and how long each may take, in seconds; what cannot be run takes none."""
    lines, total = ["| step | planned s | sum |", "| --- | --- | --- |", f"| about | {FIRST:g} | {FIRST:g} |"], FIRST
    for step in every:
        total += 0.0 if step.lacks else step.seconds
        lines.append(f"| {step.name} | {step.lacks or format(step.seconds, 'g')} | {total:g} |")
    return "\n".join(lines)


def about() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what machine.py prints (empty if it failed), and what the figures depend on; no name of a host."""
    facts = {"date": datetime.now(timezone.utc).date().isoformat(), "python": platform.python_version()}
    said = _said([sys.executable, str(HERE / "machine.py")], 90)
    try:
        found = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        return {}, {**facts, "torch": f"not known: {said}"}
    facts |= {"torch": found["torch"], "cuda": found["cuda"] or "none"}
    query = ["nvidia-smi", "--query-gpu=name,driver_version,vbios_version,power.limit", "--format=csv,noheader"]
    return found, {**facts, "nvidia-smi": "; ".join(_said(query, 30).splitlines())}


def _said(command: Sequence[str], limit: float) -> str:
    """Return what a program prints, its standard error last if it failed; what kept it from running otherwise."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{Path(command[0]).name} did not answer ({type(error).__name__})"
    return done.stdout.strip() if done.returncode == 0 else (done.stderr or done.stdout).strip()


def new_folder(parent: Path) -> Path:
    """Make and return `parent`/session, or the first of session-2, session-3 ... that no earlier session has."""
    parent.mkdir(parents=True, exist_ok=True)
    names = (f"session-{number}" if number > 1 else "session" for number in itertools.count(1))
    taken = {each.name.partition(".")[0] for each in parent.iterdir()}
    folder = parent.absolute() / next(name for name in names if name not in taken)
    folder.mkdir()
    return folder


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("output", type=Path, nargs="?", default=Path(), help="where session/ and session.tar.gz go")
    parser.add_argument("--sku", default="auto", help="the part that this is; auto: as it is recognised")
    parser.add_argument("--platform", default="auto")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="a folder with builds of the tools of others")
    parser.add_argument("--steps", nargs="+", choices=WORTH, default=WORTH, metavar="STEP", help="of those in --plan")
    parser.add_argument("--minutes", type=float, default=9.0, help="of all of it; what no longer fits is not run")
    parser.add_argument("--since", type=float, default=time.time(), help="when the minutes began, as time.time()")
    parser.add_argument("--cpu", action="store_true", help="go on where there is no GPU: shows that the code runs")
    parser.add_argument("--plan", action="store_true", help="print the table of steps and seconds, and end")
    return parser.parse_args()


def subject(options: argparse.Namespace, machine: dict[str, Any]) -> tuple[str, str]:
    """Return the SKU, "" where there is nothing to measure, and what is measured in words."""
    if options.cpu:
        return "cpu", "the CPU: no prediction and no ratio is judged here"
    if not machine.get("gpu"):
        return "", f"no GPU ({machine.get('why', 'torch could not be asked')}); --cpu goes on without"
    sku = options.sku if options.sku != "auto" else machine["sku"] or "auto"
    return sku, f"a GPU as {sku}" if sku != "auto" else f"a GPU; name it with --sku: {machine['unknown']}"


def main() -> None:
    """Run the session; see the docstring of this file."""
    options = parse()
    if options.plan:
        print(plan(steps(options, Path(), "SKU", "SKU")))
        return
    until = time.monotonic() + 60 * options.minutes - RESERVE - max(0.0, time.time() - options.since)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, _: sys.exit(f"ended by signal {number}"))
    os.environ.update({**ALONE, **({"CUDA_VISIBLE_DEVICES": ""} if options.cpu else {})})
    folder = new_folder(options.output)
    print(f"results, also while it runs: {folder} and {folder.name}.tar.gz beside it", flush=True)
    machine, facts = about()
    sku, words = subject(options, machine)
    part = sku if sku not in ("cpu", "auto", "") else "h200-sxm"
    every = steps(options, folder, sku, part)
    session = Session(folder, until, every if sku else [replace(each, lacks="no GPU") for each in every], report)
    session.found |= {"about": {**facts, "device": words}, "part": part}
    try:
        write_files(folder, sku or "auto", 2 if options.cpu else 60)
        session.run()
    finally:
        session.keep()
        session.pack()
        print(report(session.found), f"results: {session.archive}", sep="\n", flush=True)
    if not sku:
        sys.exit(f"{words}: nothing was measured")


if __name__ == "__main__":
    main()
