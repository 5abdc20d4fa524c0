"""The identity of a device, as a record holds it and reads it back."""

from __future__ import annotations

from pathlib import Path

from pytest_accel.core.run import Run
from pytest_accel.drivers.library_query import Asker
from pytest_accel.run import record


def test_a_serial_number_of_bytes_that_are_no_text_can_be_read_back(tmp_path: Path) -> None:
    """A record that nobody can read would hide the rejection in it from the runs and reports after it."""
    asker = Asker(library=None, handle=None)
    asker.facts = {"serial": "16540\x00\x7f", "model": "a GPU"}
    device = asker.device("GPU-0", 0, None, driver="amd", of_device=("serial", "model"))
    assert device.serial == r"16540\x00\x7f"
    record.write(Run(info={"host": "node1"}, devices=[device]), tmp_path)
    assert record.read(tmp_path / record.FILE).devices[0].serial == device.serial
