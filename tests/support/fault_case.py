"""What a case of the fault matrix is: a fault on a simulated node, what has to come of it, and what came of it."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from pathlib import Path

SKUS = Path(__file__).parents[1] / "data/fault-skus"
"""Threshold files of a user's own: small nodes, since two and four devices show all that eight do. Their limits on
rates are of a method of our own: what others published is no limit."""
TIME = "soak: 15, stream.copy: 1, stream.read: 1, peer_copy.both: 10, collective: 1"
PRODUCTS = "matmul.fp64: 5, matmul.fp32: 5, matmul.tf32: 5, matmul.fp16: 5"
"""Time at `quick` for what is measured from `standard` on, so that a case takes a second all the same. The products are
for cases that slow one of them down: together they would use up the time for repeats."""

TRAINING = "training_step: 3, ddp_step: 1"
"""The same for the cases that a training step catches."""

NODES = {
    ("four", "four"): "4 H100",
    ("four", "two"): "2 H100",
    ("eight", "hgx8"): "8 H100",
    ("five", "two"): "2 B200",
    ("older", "single"): "1 A100",
    ("old", "four"): "4 V100",
    ("ours", "oam8"): "8 MI300X",
    ("ours", "single"): "1 MI300X",
    ("mi300a", "single"): "1 MI300A",
    ("few", "two"): "2 MI300X",
    ("few", "three"): "3 MI300X",
}
"""SKU and platform, as a person reads them."""


@dataclass(frozen=True)
class Case:
    """One fault on one node: what it is called in a node file, and what has to come of it.

    `caught_by` are metrics (a `*` stands for anything) that must end in `status` on `blames`; `spares` is False where
    others have it too. A case with `words` runs as a user's pytest, with these words to narrow it; one with `measured`
    has only these probes run, beside all facts.
    """

    fault: str
    caught_by: tuple[str, ...]
    blames: str = "gpu1"
    status: str = "FAIL"
    closing: str = "REJECTED"
    exit: int = 1
    sku: str = "four"
    platform: str = "four"
    spares: bool = True
    words: tuple[str, ...] = field(default=(), compare=False)
    measured: tuple[str, ...] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The name of the fault."""
        return self.fault.partition(",")[0]

    @property
    def asked(self) -> str:
        """The fault with its parameters, as a person reads it."""
        single = self.platform == "single"
        return self.fault.replace(", device: 0" if single else ", device: 1", "")

    @property
    def node(self) -> str:
        """What is simulated, as a person reads it."""
        return NODES[self.sku, self.platform]

    @property
    def vendor(self) -> str:
        return "amd" if "MI" in self.node else "nvidia"

    def write(self, folder: Path) -> Path:
        """The node file, and the threshold file beside it."""
        path, shipped = SKUS / f"{self.sku}.yaml", f"sku: our-{self.sku}\nextends: {self.sku}\n"
        own = path.read_text(encoding="utf-8") if path.exists() else shipped
        single = self.platform == "single"
        own = own.replace("AT_QUICK", "quick, standard, long" if single else "standard, long")
        time = f"{TIME}, {PRODUCTS}" if single else TIME
        time = f"{time}, {TRAINING}" if {"training.rate", "ddp.step_ms"} & set(self.caught_by) else time
        (folder / f"{self.sku}.yaml").write_text(f"{own}\nbudgets: {{quick: {{{time}}}}}\n", encoding="utf-8")
        node = folder / "node.yaml"
        head = f"sku: ./{self.sku}.yaml\nplatform: {self.platform}\n"
        node.write_text(f"{head}faults:\n  - {{fault: {self.fault}}}\n", encoding="utf-8")
        return node


@dataclass(frozen=True)
class Seen:
    """What came of a case: closing line, exit status, and (name, metric, status) of every verdict."""

    line: str
    exit: int
    verdicts: tuple[tuple[str, str, str], ...]

    def caught(self, case: Case) -> list[str]:
        """The metrics that ended as they had to, on whom they had to."""
        found = [metric for name, metric, status in self.verdicts if (name, status) == (case.blames, case.status)]
        return list(dict.fromkeys(found))

    def missed(self, case: Case) -> list[str]:
        """What should have caught it and did not."""
        return [wanted for wanted in case.caught_by if not fnmatch.filter(self.caught(case), wanted)]

    def blamed_beside(self, case: Case) -> list[str]:
        """Whoever else failed something."""
        if not case.spares:
            return []
        others = {name for name, _, status in self.verdicts if status == "FAIL" and name not in ("node", case.blames)}
        return sorted(others)
