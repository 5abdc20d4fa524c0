"""What an exception says of the device: only what its library lays to it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from support import data_files
from support.rows import each_row

from pytest_accel.probes.device import error_class
from pytest_accel.probes.device.error_class import Unmeasurable, WrongResult


class AcceleratorError(RuntimeError): ...


class OutOfMemoryError(RuntimeError): ...


class DistBackendError(RuntimeError): ...


CASES = data_files.tables("probes/errors")
ERRORS = yaml.safe_load((Path(__file__).parents[1] / "real/errors.yaml").read_text(encoding="utf-8"))
TYPES = [AcceleratorError, OutOfMemoryError, DistBackendError, WrongResult, Unmeasurable, RuntimeError, ValueError]


def test_a_device_is_blamed_for_what_its_library_lays_to_it() -> None:
    """`lost`: the process has to begin anew; of a collective, since its group is broken."""
    types = {each.__name__: each for each in TYPES}
    for told in ERRORS:
        error = types[told["error"]](told["text"])
        found = error_class.trouble_kind_of(error), error_class.context_is_lost(error)
        assert found == (told["kind"], told.get("lost", False)), told["text"]


@each_row(("text", "either"), CASES["programs"])
def test_an_error_that_a_faulty_kernel_causes_as_well_is_known(text: str, either: bool) -> None:
    """By NVIDIA's own words on Xids 13 and 31, which come with it."""
    assert error_class.of_programs(RuntimeError(text)) == either


@each_row(("text", "told"), CASES["told"])
def test_an_error_is_told_by_the_line_that_names_its_cause(text: str, told: str) -> None:
    assert re.search(told, error_class.main_line(DistBackendError(text)))
