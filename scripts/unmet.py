"""Prints the requirements of a directory's wheels on another Python that are not in it, and removes unneeded wheels.

Usage: unmet.py DIRECTORY PYTHON MACHINE, as in: unmet.py wheels 3.10 x86_64
"""

import sys
import zipfile
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement


def main(directory: Path, python: str, machine: str) -> None:
    """Follow the requirements from pytest-accel (and pip), with the markers read as on the node."""
    wheels = {canonical(path.name.split("-")[0]): path for path in directory.glob("*.whl")}
    node = {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
        "extra": "",
    }
    reached: set[str] = set()
    unmet: set[str] = set()
    ahead = ["pip", "pytest-accel"]
    while ahead:
        name = ahead.pop()
        if name in reached:
            continue
        reached.add(name)
        for line in requirements(wheels[name]):
            need = Requirement(line)
            if need.marker and not need.marker.evaluate(node):
                continue
            if need.extras:
                sys.exit(f"{name} needs {line}: requirements with extras are not followed yet")
            if canonical(need.name) in wheels:
                ahead.append(canonical(need.name))
            else:
                unmet.add(f"{need.name}{need.specifier}")
    if not unmet:
        for name in wheels.keys() - reached:
            wheels[name].unlink()
    print("\n".join(sorted(unmet)))


def canonical(name: str) -> str:
    """Return a project's name as the indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")


def requirements(wheel: Path) -> list[str]:
    """Return the requirements that a wheel's metadata states."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(metadata).decode()).get_all("Requires-Dist", [])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
