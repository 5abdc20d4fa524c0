"""The packaged acceptance suite: ordinary tests, written with the public names only."""

ORDER = (
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
    "test_soak",
    "test_exact_matmul",
    "test_memory_pattern_hot",
    "test_counters",
)
"""Links before collectives, so that a link's fault explains theirs; the soak last, products and memory hot from it, and
what was counted meanwhile."""
