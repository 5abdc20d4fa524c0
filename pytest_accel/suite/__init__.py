"""The packaged acceptance suite: ordinary tests that use public names only."""

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
"""Modules that run first, in this order: links precede collectives, so that a faulty link explains a slow one."""

LAST = ("test_soak", "test_exact_matmul", "test_memory_pattern_hot", "test_counters")
"""Modules that run last: the soak, checks of products and memory while they are still hot, and the error counters."""

_MODULES = {path.stem for path in Path(__file__).parent.glob("test_*.py")}

ORDER = (*FIRST, *sorted(_MODULES - {*FIRST, *LAST}), *LAST)
"""All modules of the suite in the order of a run. A module that neither list names runs before the soak."""
