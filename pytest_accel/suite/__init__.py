"""The packaged acceptance tests. They use the public names only, as a user's own tests do."""

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
    "test_all_reduce",
    "test_ddp_step",
)
"""The modules that run first. Links come before collectives, so that a faulty link explains a slow collective."""

LAST = ("test_soak", "test_exact_matmul", "test_memory_pattern_hot", "test_rounds", "test_counters")
"""The modules that run last. The soak comes after all that should run on cool devices. Exact products and the memory
test follow it, on hot devices. The rounds of a long run repeat everything before. The error counters come last, to
cover all of it."""

_MODULES = {path.stem for path in Path(__file__).parent.glob("test_*.py")}

ORDER = (*FIRST, *sorted(_MODULES - {*FIRST, *LAST}), *LAST)
"""Every module of the suite in the order of a run. A module in neither list runs before the soak."""
