"""The packaged acceptance tests. They use the public names only, as a user's own tests do."""

import ast
from pathlib import Path

FIRST = (
    "test_inventory",
    "test_health",
    "test_host",
    "test_host_copy",
    "test_stream",
    "test_memory_pattern",
    "test_matmul",
    "test_peer_copy",
    "test_collectives",
    "test_training",
    "test_network",
)
"""The modules that run first. Links come before collectives, so that a faulty link explains a slow collective."""

LAST = ("test_soak", "test_exact_matmul", "test_memory_pattern_hot", "test_vendor_diagnostic", "test_counters")
"""The modules that run last. The soak comes after all that should run on cool devices. Exact products and the memory
test follow it, on hot devices, then the vendor's diagnostic. The error counters come last, to cover all of it."""

NETWORK = ("test_inventory", "test_health", "test_host", "test_collectives", "test_network", "test_counters")
"""The modules of a network run: a node that fails its own checks takes no part. `test_network` is in no other run."""

_MODULES = {path.stem: path for path in Path(__file__).parent.glob("test_*.py")}

ORDER = (*FIRST, *sorted(_MODULES.keys() - {*FIRST, *LAST}), *LAST)
"""Every module of the suite in the order of a run. A module in neither list runs before the soak."""


def functions() -> set[tuple[int, str]]:
    """Return every test function that the modules define: the index of its module in `ORDER`, and its name."""
    return {
        (position, node.name)
        for position, module in enumerate(ORDER)
        for node in ast.parse(_MODULES[module].read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    }
