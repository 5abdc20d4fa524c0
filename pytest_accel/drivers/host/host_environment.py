"""Facts of the environment of this process: bare metal, virtual machine or container; root or not."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pytest_accel.core.node_name import other_name
from pytest_accel.drivers.host import HiddenFact, fact, peek, text

_CONTAINERS = re.compile(r"docker|kubepods|containerd|libpod|lxc|garden|crio")
_GVISOR = "#1 SMP Sun Jan 10 15:06:54 PST 2016"
"""The end of what every version of gVisor states of its kernel, 4.4.0 or 4.19.0-gvisor (pkg/sentry/kernel/version)."""
_PRODUCTS = {
    "QEMU": "qemu",
    "KVM": "kvm",
    "VMware": "vmware",
    "Virtual Machine": "hyper-v",
    "VirtualBox": "virtualbox",
    "HVM domU": "xen",
    "Google Compute Engine": "google",
    "BHYVE": "bhyve",
}


@dataclass(frozen=True)
class HostEnvironment:
    """The environment of a process. `container` and `machine` (virtual) name their kinds, empty for none."""

    root: bool
    container: str
    machine: str

    def __str__(self) -> str:
        machine = f"a virtual machine ({self.machine})" if self.machine else "bare metal"
        container = f", in a container ({self.container})" if self.container else ""
        return machine + container


def host_environment(root: Path = Path("/")) -> HostEnvironment:
    """Return the environment of this process, by what the kernel and the container runtime state."""
    return HostEnvironment(os.geteuid() == 0, _container(root), _machine(root))


def pseudonym() -> str:
    """Return a stable name of this machine that does not give its machine-id away.

    It differs between the nodes that a launcher distinguishes although they are one machine.
    """
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/hostname"):
        if name := peek(Path(path)):
            return hashlib.sha256(f"{name}{other_name()}".encode()).hexdigest()[:12]
    return "unknown"


def _container(root: Path) -> str:
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if _GVISOR in peek(root / "proc/version"):
        return "gvisor"
    kind = peek(root / "run/systemd/container")
    match = _CONTAINERS.search(peek(root / "proc/1/cgroup"))
    return kind or (match.group() if match else "")


def _machine(root: Path) -> str:
    """Return the kind of the virtual machine, empty on bare metal.

    The firmware's tables and the kernel name it; on x86 the processor has a flag for it too.
    """
    tables = f"{peek(root / 'sys/class/dmi/id/sys_vendor')} {peek(root / 'sys/class/dmi/id/product_name')}"
    product = next((kind for word, kind in _PRODUCTS.items() if word in tables), "")
    kernel = peek(root / "sys/hypervisor/type") or peek(root / "proc/device-tree/hypervisor/compatible")
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", peek(root / "proc/cpuinfo"), re.MULTILINE)
    return product or kernel or ("unknown hypervisor" if flags else "")


@fact()
def machine(root: Path) -> str:
    """Return the environment as text."""
    return str(host_environment(root))


def _dmi(root: Path, template: str, *files: str) -> str:
    """Return the firmware's words in these files, filled into a template."""
    return template.format(*(text(root / "sys/class/dmi/id" / file) for file in files))


_GUEST = "the virtual machine's own"
fact(name="product", machine=_GUEST)(lambda root: _dmi(root, "{} {}", "sys_vendor", "product_name"))
fact(name="firmware", machine=_GUEST)(lambda root: _dmi(root, "{} ({})", "bios_version", "bios_date"))
fact(name="serial", user="only root may read it", machine=_GUEST)(lambda root: _dmi(root, "{}", "product_serial"))


@fact(user="where dmesg_restrict is set", container="seldom shared")
def kernel_log(root: Path) -> str:
    """Return "readable" if this user can open the kernel log. No message is read, and other readers miss none."""
    path = root / "dev/kmsg"
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except FileNotFoundError:
        raise HiddenFact("there is no /dev/kmsg: Xid and PCI errors cannot be seen") from None
    except OSError as error:
        raise HiddenFact(f"/dev/kmsg: {error.strerror}: Xid and PCI errors cannot be seen") from None
    return "readable"
