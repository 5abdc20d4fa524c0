"""A driver of a third party: docs/how-to-driver.md, followed to the letter in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import as_user
import pytest
import wheels

pytest.importorskip("torch")

PAGE = wheels.CHECKOUT / "docs" / "how-to-driver.md"
BLOCK = re.compile(r"(?:^`([^`\n]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
"""What is needed is in the environment already. pip takes the last one, "no isolation: no", as no isolation."""


@pytest.mark.slow
@pytest.mark.devices
def test_the_page_makes_a_driver_whose_device_is_judged(tmp_path: Path) -> None:
    """As a wheel beside ours: no file of the checkout is read."""
    built = wheels.build(tmp_path / "build")
    binaries = wheels.environment(tmp_path / "venv", wheels.only(built, "*.whl"))
    folder = tmp_path / "user"
    folder.mkdir()

    as_user.check_serial()
    outputs = followed(folder, binaries)

    [ran] = [each for command, each in outputs.items() if command.startswith("pytest ")]
    [promised] = [text.strip() for _, kind, text in blocks() if kind == "text"]
    assert ran.returncode == 1, ran.stdout
    [closing] = as_user.CLOSING.findall(ran.stdout)
    assert closing.startswith(promised)
    others = {command: each.stdout for command, each in outputs.items() if each is not ran and each.returncode}
    assert not others

    record = json.loads((folder / "first" / "record.json").read_text())
    [device] = record["devices"]
    assert (device["uuid"], device["driver"], device["called"]) == ("ACME-X1-000042", "acme", "acme")
    assert device["facts"]["power_limit_w"] == 75.0
    statuses = {each["metric"]: each["status"] for each in record["verdicts"]}
    assert statuses["stream.copy"] == "FAIL"
    for holding in ("inventory.driver", "inventory.sku", "inventory.driver_version", "inventory.power_limit",
                    "health.ecc_uncorrectable_volatile", "exact_matmul.fp32", "soak.power"):  # fmt: skip
        assert statuses[holding] == "PASS", holding
    readings = [json.loads(line) for line in (folder / "first" / "telemetry.jsonl").read_text().splitlines()]
    assert {each["temperature_c"] for each in readings if "temperature_c" in each} == {44.0}


def blocks() -> list[tuple[str, str, str]]:
    """File name (or nothing), language and text of every block of the page, in order."""
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def followed(folder: Path, binaries: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """Write the files and run the commands of the page; return what became of each command."""
    done = {}
    environment = {**as_user.environment(OFFLINE), "PATH": f"{binaries}:{os.environ['PATH']}"}
    for name, kind, text in blocks():
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        for command in re.findall(r"^\$ (.*)$", text, re.MULTILINE) if kind == "console" else []:
            done[command] = subprocess.run(
                shlex.split(command),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=as_user.SECONDS,
                check=False,
            )
    return done


def test_every_file_of_the_page_is_named() -> None:
    """A block of code without a name would not be tried."""
    unnamed = [text for name, kind, text in blocks() if not name and kind not in ("console", "text")]
    assert not unnamed
    assert [name for name, _, _ in blocks() if name]
