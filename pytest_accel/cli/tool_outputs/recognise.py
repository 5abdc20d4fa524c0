"""The tools whose output `judge` recognises by its content. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from pytest_accel.cli.tool_outputs import nccl_tests, nvbandwidth
from pytest_accel.cli.tool_outputs.output import ToolOutput, unwrapped
from pytest_accel.core.sku import Limit, Sku


class OutputReader(Protocol):
    """A module of this folder."""

    LOOKED_FOR: str
    BEGINS: re.Pattern[str]

    def recognises(self, text: str) -> bool:
        """Return True for an output of the tool."""

    def read(self, text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:
        """Return figures, devices and notes of an output; `shown` is the file in messages. Raises BadFile."""


READERS: tuple[OutputReader, ...] = (nccl_tests, nvbandwidth)
_RUN = "run pytest --accel-sku=NAME on the node"
OTHERS = (
    (r'"DCGM (?:GPU )?Diagnostic"|\| Diagnostic +\| Result', "an output of dcgmi diag", f"no limit is of it; {_RUN}"),
    (r'"Health Monitor Report"', "an output of dcgmi health", f"no limit is of it; {_RUN}"),
    (r'"args" *: *\[ *"[^"]*_perf"', "the JSON of nccl-tests", "judge the text of the same run"),
    (r'"algBw"|^numCycle, ?|nccl-tests structured', "JSON or CSV without devices", "judge the text of the same run"),
    (r'^\{"log":"', "the log file of Docker", "judge what docker logs prints"),
    (r"RDMA_\w+ (?:BW|Post)|^ ?#bytes +#iter", "an output of perftest", "judge that of all_reduce_perf over two nodes"),
    (r"CUDA Bandwidth Test|P2P \(Peer-to-Peer\)", "an output of the CUDA samples", "judge that of nvbandwidth"),
    (r"RocmBandwidthTest|TransferBench v|_Bandwidth_pinned", "an output of a test of copies of ROCm", _RUN),
    (r"proc'd: \d+ \(|^\[RESULT\] +\[|ROCm Validation Suite", "an output of gpu-burn or RVS", _RUN),
    (r"NVIDIA-SMI \d|NVSMI LOG|ROCm System Management|NVIDIA bug report", "a list of facts", "run pytest-accel health"),
    (r"HPLinpack|STREAM [vB]|Function +MBytes/sec|shapes => the best outcomes|Memory Latency Checker|\"fio version\"",
     "an output of a benchmark that is not read", _RUN),
)  # fmt: skip
"""Outputs that nothing reads, by a text in them: what each is, and what to do instead."""
LOOKED_FOR = "; ".join(each.LOOKED_FOR for each in READERS)


def reader_of(text: str) -> tuple[OutputReader | None, str, list[str]]:
    """Return the reader of an output, None if it is of no known tool, with the text that the tool printed, and notes.

    Whatever a launcher put before the lines is not in the text, and the notes say so.
    """
    for reader in READERS:
        own, notes = unwrapped(text, reader.BEGINS)
        if reader.recognises(own):
            return reader, own, notes
    return None, text, []


def other(text: str) -> str:
    """Return what an output is that nothing reads, and what to do instead; empty if it is not known."""
    found = (f"{what}: {instead}" for pattern, what, instead in OTHERS if re.search(pattern, text, re.MULTILINE))
    return next(found, "")
