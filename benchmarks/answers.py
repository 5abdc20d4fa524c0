"""Prints what a machine with NVIDIA GPUs answers, as JSON lines: raw material to hold a simulated device against.

Every function of NVML that reads a GPU by numbers alone, the structs that the driver of pytest-accel fills, every
field, and the output of `TEXTS`. A refusal is an answer, too. Nothing is set, reset, or loaded. It has serial numbers.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pynvml

from pytest_accel.drivers.library_query import LibraryCall, sources_of
from pytest_accel.drivers.vendors.nvidia import identity, links, memory
from pytest_accel.drivers.vendors.nvidia.query import field_value

NUMBERS = {
    "type": 4, "id": 4, "sensor": 1, "threshold": 9, "infoRomObject": 4, "link": 18, "sourceFilter": 2, "apiType": 3,
    "perfPolicyType": 12, "counter": 5, "fan": 2, "errorType": 2, "counterType": 2, "locationType": 9, "capability": 6,
}  # fmt: skip
"""How many values each number beside the GPU gets, from 0 on. What is not among them may be an address to write to."""
UNREAD = ("Handle", "Vgpu", "GpuCertificate")
"""Words of functions that look for a GPU, or speak of its parts for virtual machines, or of secrets."""
FIELD = "NVML_FI_DEV_"
TEXTS = (
    "nvidia-smi -q", "nvidia-smi topo -m", "nvidia-smi nvlink -s", "nvidia-smi nvlink -e", "dmesg", "lspci -nnvvv",
    "uname -a", "lscpu", "python3 -m pip list", "ls -l /dev", "ls -l /sys/bus/pci/devices", "ls /sys/class/dmi/id",
    "cat /proc/meminfo /proc/cmdline /proc/driver/nvidia/version /proc/driver/nvidia/params",
    "cd /sys/bus/pci/devices && grep -s . */class */vendor */device */numa_node */*_link_speed */*_link_width */aer_*",
)  # fmt: skip
"""Commands of a shell. What is not installed, or not there, says so."""


def plain(answer: Any) -> Any:
    """Return an answer as JSON has it: the fields of a struct by name, bytes as text."""
    if isinstance(answer, ctypes.Structure):
        return {field[0]: plain(getattr(answer, field[0])) for field in answer._fields_}
    if isinstance(answer, pynvml.nvmlFriendlyObject):  # a process
        return {name: plain(value) for name, value in vars(answer).items()}
    if isinstance(answer, (ctypes.Array, list, tuple)):
        return [plain(item) for item in answer]
    if isinstance(answer, bytes):
        return answer.decode(errors="backslashreplace")
    return getattr(answer, "value", answer)  # of a number of ctypes


def said(call: Callable[[], Any]) -> tuple[str, Any]:
    """Return "answer" and what a call returns, or "refused" and why it returns nothing."""
    try:
        return "answer", plain(call())
    except pynvml.NVMLError as error:
        return "refused", f"{error.value}: {error}"
    except (AttributeError, ctypes.ArgumentError, TypeError, ValueError) as error:
        return "refused", f"{type(error).__name__}: {error}"


def answers(ask: str, calls: Mapping[Any, Callable[[], Any]]) -> list[dict[str, Any]]:
    """Return what the calls of one name say, by their arguments; an answer that many of them give is one row."""
    alike: dict[str, dict[str, Any]] = {}
    for arguments, call in calls.items():
        kind, answer = said(call)
        row = {"ask": ask, kind: answer, "arguments": []}
        alike.setdefault(json.dumps(row), row)["arguments"].append(arguments)
    return list(alike.values())


def of_functions(handle: Any) -> Iterator[dict[str, Any]]:
    """Yield the answers of the functions that take a GPU and numbers."""
    for name, function in sorted(vars(pynvml).items()):
        if not name.startswith("nvmlDeviceGet") or any(word in name for word in UNREAD):
            continue
        parameters = inspect.signature(function).parameters.values()
        gpu, *numbers = [one.name for one in parameters if one.default is inspect.Parameter.empty] or [""]
        if gpu and all(number in NUMBERS for number in numbers):
            taken = itertools.product(*(range(NUMBERS[number]) for number in numbers))
            yield from answers(name, {arguments: partial(function, handle, *arguments) for arguments in taken})


def of_structs(handle: Any) -> Iterator[dict[str, Any]]:
    """Yield the answers of the functions that fill a struct, as our driver calls them."""

    def filled(name: str, struct: str) -> Any:
        reference = getattr(pynvml, struct)()
        if status := getattr(pynvml, name)(handle, ctypes.byref(reference)):
            raise pynvml.NVMLError(status)
        return reference

    sources = itertools.chain(*map(sources_of, (identity.POSITION, memory.ERRORS, links.FABRIC)))
    for source in dict.fromkeys((call.name, call.fills) for call in sources if isinstance(call, LibraryCall)):
        if source[1]:
            yield from answers(source[0], {source[1]: partial(filled, *source)})


def of_fields(handle: Any) -> Iterator[dict[str, Any]]:
    """Yield the id, type and value of all fields, those of NVLink for each link."""

    def value(number: int, scope: int) -> Any:
        (answer,) = pynvml.nvmlDeviceGetFieldValues(handle, [(number, scope)])
        if answer.nvmlReturn:
            raise pynvml.NVMLError(answer.nvmlReturn)
        return number, answer.valueType, field_value(pynvml, answer)

    for name, number in sorted(vars(pynvml).items()):
        if name.startswith(FIELD) and name != f"{FIELD}MAX":
            scopes = range(NUMBERS["link"] if "NVLINK" in name else 1)
            yield from answers(name, {scope: partial(value, number, scope) for scope in scopes})


def of_texts() -> Iterator[dict[str, Any]]:
    """Yield the output of each program, or why there is none."""
    for text in TEXTS:
        try:
            done = subprocess.run(
                ["sh", "-c", text], capture_output=True, text=True, errors="replace", check=False, timeout=10
            )
        except subprocess.TimeoutExpired as error:
            yield {"ask": text, "refused": str(error)}
        else:
            yield {"ask": text, "answer": done.stdout, "stderr": done.stderr, "status": done.returncode}


def of_gpus() -> Iterator[dict[str, Any]]:
    """Yield the answers of every GPU, each with its index; of a lost one, why it gives none."""
    kind, answer = said(pynvml.nvmlInit)
    if kind == "answer":
        kind, answer = said(pynvml.nvmlDeviceGetCount)
    if kind == "refused":
        yield {"ask": "nvmlInit", kind: answer}
    for index in range(answer if kind == "answer" else 0):
        kind, handle = said(partial(pynvml.nvmlDeviceGetHandleByIndex, index))
        if kind == "refused":
            yield {"gpu": index, "ask": "nvmlDeviceGetHandleByIndex", kind: handle}
            continue
        for found in itertools.chain(of_structs(handle), of_fields(handle), of_functions(handle)):
            yield {"gpu": index, **found}


def main() -> None:
    """Print the lines as they come: a program that hangs costs only what would follow."""
    for found in itertools.chain(of_gpus(), of_texts()):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
