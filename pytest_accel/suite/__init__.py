"""The packaged acceptance suite: ordinary tests, written with the public names only."""

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
"""Links precede collectives, so that the fault of a link explains theirs."""

LAST = ("test_soak", "test_exact_matmul", "test_memory_pattern_hot", "test_counters")
"""The soak, products and memory while they are hot from it, and what was counted meanwhile."""

_MODULES = {path.stem for path in Path(__file__).parent.glob("test_*.py")}

ORDER = (*FIRST, *sorted(_MODULES - {*FIRST, *LAST}), *LAST)
"""Every module of the suite in the order of a run; one that neither list names comes before the soak."""
