"""The tools whose output `judge` recognises by its content. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pytest_accel.cli.tool_outputs import dcgmi_diag, nccl_tests, nvbandwidth
from pytest_accel.cli.tool_outputs.output import ToolOutput
from pytest_accel.core.sku import Limit, Sku


class OutputReader(Protocol):
    """A module of this folder."""

    LOOKED_FOR: str

    def recognises(self, text: str) -> bool:
        """Return True for an output of the tool."""

    def read(self, text: str, shown: str, limits: Mapping[str, Limit], sku: Sku) -> ToolOutput:
        """Return figures, devices and notes of an output; `shown` is the file in messages. Raises BadFile."""


READERS: tuple[OutputReader, ...] = (nccl_tests, nvbandwidth, dcgmi_diag)
LOOKED_FOR = "; ".join(each.LOOKED_FOR for each in READERS)


def reader_of(text: str) -> OutputReader | None:
    """Return the reader of an output; None if it is of no known tool."""
    return next((each for each in READERS if each.recognises(text)), None)
