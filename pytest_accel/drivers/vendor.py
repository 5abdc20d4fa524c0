"""The declaration of a vendor: everything that the other rooms need to know of one vendor's devices."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_accel.drivers.diagnostic_report import Diagnostic
from pytest_accel.drivers.interface import Driver, Hint, NoLibrary
from pytest_accel.drivers.visibility import Visibility

VGA, DISPLAY_3D, DISPLAY_OTHER, PROCESSING = "0x0300", "0x0302", "0x0380", "0x1200"
"""PCI classes of accelerators (PCI Code and ID Assignment Specification): class and subclass."""

NO_XLA = "torch_xla has no streams and events that can be timed, so pytest_accel cannot measure this device"
"""The reason why devices that torch drives only through torch_xla (TPUs, AWS Neuron) are not measured."""

HOST_KIND = "cpu"
"""The type of a `torch.device` whose work the processor does."""


def importing(module: str, name: str) -> Callable[[Sequence[Hint]], Driver]:
    """Return a function that makes the driver of a module, which is imported, with its library, when it is called."""
    return lambda _: getattr(importlib.import_module(module), name)()


@dataclass(frozen=True)
class TorchKind:
    """Torch's names for a vendor's devices and for its library of collectives.

    `name` is the type of a `torch.device` ("cuda", "xpu", "cpu"), `collectives` the backend of `torch.distributed`.
    `package` and `collectives_package` are the packages that have to be imported before either is used.
    """

    name: str
    collectives: str
    package: str = ""
    collectives_package: str = ""
    hip: bool = False
    """True if torch drives the devices as `torch.cuda` in its build for ROCm."""
    ranks_see_all: bool = False
    """True if a rank of a collective has to see the devices of all ranks, and opens its own by its position among them.

    By default a rank sees its own device only, so that a sick neighbour cannot affect it.
    """
    device_errors: tuple[str, ...] = ()
    """Texts in an error that attribute it to the device, in addition to those of CUDA, HIP and their collectives."""

    @property
    def on_host(self) -> bool:
        """True if the work is done by the processor."""
        return self.name == HOST_KIND


@dataclass(frozen=True)
class Vendor:
    """One vendor of accelerators, as its package declares it in the entry point group `pytest_accel_drivers`.

    Every process of a run imports these declarations. A module that holds one must not import a management library or
    torch: `make_driver` does so when the sensor calls it.
    """

    name: str
    """The name in threshold files (`vendor:`) and in records; the name of the entry point too."""
    title: str
    """The name of the devices in sentences: "NVIDIA", "Gaudi"."""
    make_driver: Callable[[Sequence[Hint]], Driver]
    """Opens the management library. It is called in the sensor process, with the devices that the machine shows."""
    library: str = ""
    """The Python package of the management library."""
    install: str = ""
    """The remedy where `library` cannot be imported: "pip install nvidia-ml-py"."""
    short_name: str = "gpu"
    """The short name of a device in tables and verdicts, before its index: "gpu" for gpu0."""
    accelerator: bool = True
    """False for a device that is on every machine: it is measured where there is no accelerator, never accepted."""
    pci_vendor: str = ""
    """The vendor id on the PCI bus: "0x10de". Empty if the devices are not on the bus."""
    pci_classes: tuple[str, ...] = ()
    """The PCI classes of its accelerators, as the first six characters of the kernel's file: "0x0302"."""
    nodes: tuple[str, ...] = ()
    """Patterns below /dev of the nodes that each stand for one device: "nvidia[0-9]*"."""
    shared_nodes: tuple[str, ...] = ()
    """Patterns below /dev of nodes that stand for all devices: "kfd"."""
    kernel_module: str = ""
    """The kernel's driver, which reports errors of the devices in the kernel log: "amdgpu". Empty for any."""
    unseen: bool = False
    """True if `library` may find devices that neither the bus nor /dev shows, as NVML does in WSL2.

    Its driver is then asked where no accelerator of any vendor is shown, and without devices it is as if not asked.
    """
    visibility: Visibility = field(default_factory=Visibility)
    """The environment variables that choose among the devices."""
    torch: TorchKind | None = None
    """The part of torch that drives the devices; None if nothing can be measured on them."""
    no_torch: str = "its vendor's package does not say how torch drives it"
    """The reason why `torch` is None."""
    readings_per_second: float = 10.0
    """The number of telemetry readings of each device in a second while it works."""
    equal_rates: bool = True
    """True if some parts run eight bits no faster than sixteen: the lint of a datasheet then accepts equal rates."""
    diagnostic: Diagnostic | None = None
    """The vendor's own diagnostic program; None if there is none."""

    def driver(self, hints: Sequence[Hint]) -> Driver:
        """Open the management library. `hints` are what the machine shows of all vendors. Raises DriverProblem."""
        try:
            return self.make_driver([hint for hint in hints if hint.driver == self.name])
        except ImportError as error:
            remedy = f": {self.install}" if self.install else f" ({error})"
            raise NoLibrary(f"{self.library or error.name} cannot be imported{remedy}") from None
