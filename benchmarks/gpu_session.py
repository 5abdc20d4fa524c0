"""Everything that is open on one GPU, in one call: the steps in the order of their worth, within a number of minutes.

Before and after the steps answers.py writes down what the management library, the kernel and the tools of the machine
say, as answers.jsonl and answers-after.jsonl; clocks, power and temperatures of every second are in trace.csv.

The packaged suite at level quick, every metric of level standard in little time, a soak of a minute, the runs V1 to V12
of verify.py with their predictions, and compare.py's ratios to the tools of others, of which a folder with builds is
given (nothing is fetched here). `--plan` prints the steps with their seconds; session.py says how they are run.
Afterwards DIR/session can be put under docs/evidence/ (records and logs name the host and the user).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import compare
import verify
from bench import NotRun
from session import Session, Step, end
from session_report import report

from pytest_accel.probes.declare import declarations
from pytest_accel.skus.loader import load as load_sku

HERE = Path(__file__).parent
RESERVE = 31.0
"""Seconds of the stated minutes that are left at the end: to end a step, for the last answers, and to pack."""
INSTALLING, FIRST, ASKING = 20.0, 16.0, 30.0
"""Seconds that run.sh may need, then until it is known what the machine has, and at most for all of its answers."""
TRACE = (
    "timestamp", "index", "pstate", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "temperature.memory",
    "utilization.gpu", "memory.used", "clocks_event_reasons.active",
)  # fmt: skip
"""What nvidia-smi is asked for, by its names since driver 535."""
QUICK, EVERY, SOAK = 85.0, 120.0, 90.0
"""Seconds of a run of the suite on one GPU, planned: its budgets, the start of its processes, settling, checks."""
LEAST = 1.0
"""Seconds of a probe in the step `every`, if level quick has no time for it."""
RECORDS = ("V9", "V11")
"""They read the records of soak and quick."""
WORTH = (
    "quick", "every", "soak", "V6", "V2", "records", "V1", "V3", "V7", "CUDA kernels", "again", "V8", "V12", "V10",
    "mamf-finder", "nvbandwidth", "BabelStream", "V4", "V5", "gpu-burn",
)  # fmt: skip
PART = "h200-sxm"
"""The part whose predictions are shown where none is known."""
FILE = """# The shipped limits at level standard; other budgets, for a session of minutes.
sku: {name}-{sku}
vendor: {vendor}
extends: {sku}
budgets: {{standard: {budgets}}}
"""
SUITE = ("-m", "pytest", "-q", "-p", "pytest_accel.plugin", "-p", "no:cacheprovider", "-c", "pytest.ini")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
"""With SUITE, nothing of the machine's own pytest comes along: no plugin, option, or file of a folder above."""


def least() -> dict[str, float]:
    """Return the least seconds of each packaged probe, and of its variants with budgets of their own.

    They are those of level quick, or `LEAST` where that level has no time for it. What level standard does not measure
    has none.
    """
    found = {}
    for declared in declarations():
        if declared.packaged and not declared.fact:
            variants = {f"{declared.name}.{variant}": budgets for variant, budgets in declared.budgets_of.items()}
            for name, budgets in {declared.name: declared.budgets, **variants}.items():
                found[name] = budgets["quick"] or min(LEAST, budgets["standard"])
    return {name: seconds for name, seconds in found.items() if seconds}


def write_files(folder: Path, sku: str, seconds: float) -> None:
    """Write the threshold files of the steps at level standard, and an empty configuration of pytest."""
    vendor = "nvidia" if sku == "auto" else load_sku(sku).vendor
    for name, budgets in {"every": least(), "soak": {"soak": seconds}}.items():
        text = FILE.format(name=name, sku=sku, vendor=vendor, budgets=json.dumps(budgets))
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
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
    every, soak = ([f"--accel-sku={folder / name}.yaml", "--accel-level=standard"] for name in ("every", "soak"))
    runs_of_suite = {
        "quick": (QUICK, [f"--accel-sku={sku}", "--accel-level=quick"]),
        "every": (EVERY, every),
        "soak": (SOAK, [*soak, "-k", "soak"]),
    }
    runs_of_suite["again"] = runs_of_suite["quick"]  # how far two runs lie apart
    found = [
        Step(name, seconds, [*suite, *chosen, f"--accel-output={folder / name}"])
        for name, (seconds, chosen) in runs_of_suite.items()
    ]
    for name, runs in {**{run: (run,) for run in verify.RUNS if run not in RECORDS}, "records": RECORDS}.items():
        seconds = verify.STARTING + sum(verify.RUNS[run].seconds for run in runs)
        found.append(Step(name, seconds, [*check, *runs], "verify", runs))
    for name, plan in compare.PLANS.items():
        lacks = without_builds(options.peers, name)
        found.append(Step(name, compare.STARTING + plan.seconds, [*beside, name], "compare", (name,), lacks))
    of_others = {name for name, run in verify.RUNS.items() if run.of and part not in run.of}  # nothing is judged there
    ordered = sorted(found, key=lambda step: (step.name in of_others, WORTH.index(step.name)))
    return [step for step in ordered if step.name in options.steps]


def plan(every: Sequence[Step], seconds: float) -> str:
    """Return the table of the steps, each with its planned seconds and their sum, or why it is not run.

    A step that no longer fits in `seconds` is not run; in a session it may be, since most take less than planned.
    """
    total = INSTALLING + FIRST
    lines = ["| step | planned s | sum |", "| --- | --- | --- |", f"| run.sh, about | {total:g} | {total:g} |"]
    for step in every:
        lacks = step.lacks or ("" if total + step.seconds <= seconds else f"{seconds - total:g} s are left")
        total += 0.0 if lacks else step.seconds
        lines.append(f"| {step.name} | {step.seconds:g} | {f'NOT RUN: {lacks}' if lacks else format(total, 'g')} |")
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


def keep_answers(file: Path) -> None:
    """Write what answers.py prints within its time into a file; a disk that is full costs that alone."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired), open(file, "w", encoding="utf-8") as out:
        command = [sys.executable, str(HERE / "answers.py")]
        subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, timeout=ASKING)


@contextlib.contextmanager
def tracing(file: Path) -> Iterator[None]:
    """Have nvidia-smi write a line a second into a file."""
    command = ["nvidia-smi", f"--query-gpu={','.join(TRACE)}", "--format=csv", "--loop=1"]
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            out = stack.enter_context(open(file, "w", encoding="utf-8"))
            trace = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
            stack.callback(end, trace)
        yield


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
    parser.add_argument("--platform", default="auto", help="as it is recognised; of one device alone: single")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="a folder with builds of the tools of others")
    parser.add_argument("--steps", nargs="+", choices=WORTH, default=WORTH, metavar="STEP", help="of those in --plan")
    parser.add_argument("--minutes", type=float, default=7.0, help="of all of it; what no longer fits is not run")
    parser.add_argument("--since", type=float, default=time.time(), help="when the minutes began, as time.time()")
    parser.add_argument("--cpu", action="store_true", help="go on where there is no GPU: shows that the code runs")
    parser.add_argument("--plan", action="store_true", help="print the table of steps and seconds, and end")
    return parser.parse_args()


def subject(options: argparse.Namespace, machine: dict[str, Any]) -> tuple[str, str]:
    """Return the SKU, "" where there is nothing to measure, and what is measured in words."""
    if options.cpu:
        return "cpu", "the CPU: no prediction and no ratio is judged here"
    if not machine.get("gpu") and (machine or options.sku == "auto"):  # one that did not answer may be only slow
        return "", f"no GPU ({machine.get('why', 'torch could not be asked')}); --cpu goes on without"
    sku = options.sku if options.sku != "auto" else machine["sku"] or "auto"
    return sku, f"a GPU as {sku}" if sku != "auto" else f"a GPU; name it with --sku: {machine['unknown']}"


def platform_of(options: argparse.Namespace, machine: dict[str, Any], sku: str) -> str:
    """Return the platform to name; one that was only recognised by the number of its devices is never accepted."""
    alone = options.platform == "auto" and machine.get("devices") == 1 and sku not in ("auto", "")
    return "single" if alone and "single" in load_sku(sku).platforms else str(options.platform)


def main() -> None:
    """Run the session; see the docstring of this file."""
    options = parse()
    if options.plan:
        part = options.sku if options.sku != "auto" else PART
        print(plan(steps(options, Path(), part, part), 60 * options.minutes - RESERVE))
        return
    until = time.monotonic() + 60 * options.minutes - RESERVE - max(0.0, time.time() - options.since)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, _: sys.exit(f"ended by signal {number}"))
    os.environ.update({**ALONE, **({"CUDA_VISIBLE_DEVICES": ""} if options.cpu else {})})
    folder = new_folder(options.output)
    print(f"results, also while it runs: {folder} and {folder.name}.tar.gz beside it", flush=True)
    machine, facts = about()
    sku, words = subject(options, machine)
    part = sku if sku not in ("cpu", "auto", "") else PART
    options.platform = platform_of(options, machine, sku)
    every = steps(options, folder, sku, part)
    session = Session(folder, until, every if sku else [replace(each, lacks="no GPU") for each in every], report)
    session.found |= {"about": {**facts, "device": words}, "part": part}
    try:
        keep_answers(folder / "answers.jsonl")
        write_files(folder, sku or "auto", 2 if options.cpu else 60)
        with tracing(folder / "trace.csv"):
            session.run()
        if sku:
            keep_answers(folder / "answers-after.jsonl")
    finally:
        session.keep()
        session.pack()
        print(report(session.found), f"results: {session.archive}", sep="\n", flush=True)
    if not sku:
        sys.exit(f"{words}: nothing was measured")


if __name__ == "__main__":
    main()
