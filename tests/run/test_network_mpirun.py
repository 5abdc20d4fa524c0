"""A network run that Open MPI starts, on two pretend nodes of this machine: each has a host name of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support import data_files

from pytest_accel.core.network_run import NetworkRun
from pytest_accel.core.structured import structure

AGENT = """#!/bin/sh
host=$1; shift
exec env SLURMD_NODENAME=node-$host unshare --uts sh -c "hostname $host; $*"
"""
"""The program that mpirun starts in place of ssh: the command runs here, in a namespace with the name of the host.

The variable tells the devices of pretend nodes apart, since it is another name than that of the host."""
HOSTS = "mpi0", "mpi1"
NAMES = "node-mpi0", "node-mpi1"


def _missing() -> str:
    """Return why Open MPI cannot start pretend nodes here; empty if it can."""
    if os.geteuid():
        return "host names of pretend nodes need root"
    if absent := [name for name in ("mpirun", "unshare", "hostname") if not shutil.which(name)]:
        return f"{absent[0]} is not installed (openmpi-bin, util-linux, hostname)"
    if subprocess.run(["unshare", "--uts", "true"], check=False, capture_output=True).returncode:
        return "namespaces cannot be made here"
    said = subprocess.run(["mpirun", "--version"], check=False, capture_output=True, text=True).stdout
    return "" if "Open MPI" in said else "mpirun is not that of Open MPI"


@pytest.mark.nightly
@pytest.mark.devices
@pytest.mark.xdist_group("network")
def test_two_nodes_of_mpirun_measure_the_network_between_them(tmp_path: Path) -> None:
    if why := _missing():
        pytest.skip(why)
    (tmp_path / "agent").write_text(AGENT)
    (tmp_path / "agent").chmod(0o755)
    (tmp_path / "small.yaml").write_text(data_files.content("run/small.yaml"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = (
        *("mpirun", "-H", ",".join(f"{name}:1" for name in HOSTS), "-N", "1"),
        *("--mca", "plm_rsh_agent", tmp_path / "agent", "--mca", "orte_abort_on_non_zero_status", "0"),
        *("-x", "MASTER_ADDR=127.0.0.1", "-x", f"MASTER_PORT={port}"),
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--accel-sku=small.yaml", "--accel-network"),
        *("--accel-level=quick", "--accel-devices=0", f"--accel-output={tmp_path / 'out'}"),
    )
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [*map(str, words)],
        check=False,
        cwd=tmp_path,
        env={**os.environ, **root},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (tmp_path / "out/network.json").exists(), done.stdout + done.stderr
    network = structure(NetworkRun, json.loads((tmp_path / "out/network.json").read_text()))
    found = dict(
        zip([each.name for each in network.nodes], [each.found for each in network.conclusion.nodes], strict=True)
    )
    assert found == dict.fromkeys(NAMES, "good"), done.stdout
    records = [json.loads((tmp_path / "out" / name / "record.json").read_text()) for name in NAMES]
    assert [each["info"]["launcher"]["name"] for each in records] == ["mpi"] * 2
    assert [each["closing"]["result"] for each in records] == ["HELD"] * 2
