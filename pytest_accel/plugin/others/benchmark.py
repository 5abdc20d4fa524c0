"""A plugin for pytest-benchmark: it gets our samples to save and compare, and does not show them once more."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_accel.plugin.stash import REPLAY, measures
from pytest_accel.run.options import option_words
from pytest_accel.views.benchmark_replay import Replay, is_replay

TABLE_OPTIONS = tuple(f"--benchmark-{name}" for name in ("verbose", "sort", "columns", "group-by", "name", "compare"))
"""Options by which a user asks for the table of pytest-benchmark."""
Groups = list[tuple[str | None, list[dict[str, Any]]]]
"""The groups of pytest-benchmark: the name of each and its benchmarks."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Set a timer that replays the samples of a measuring test."""
    if measures(item) and item.config.pluginmanager.hasplugin("benchmark"):
        item.stash[REPLAY] = Replay()
        item.add_marker(pytest.mark.benchmark(timer=item.stash[REPLAY]), append=False)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_benchmark_group_stats(config: pytest.Config) -> Generator[None, Groups, Groups]:
    """Leave our samples out of pytest-benchmark's table, unless one of its options asks for the table.

    pytest-benchmark still saves and compares them, and shows the user's own benchmarks.
    """
    # not by --benchmark-quiet, which would hide the user's own as well; the table of this plugin shows ours already
    groups = yield
    if any(word.startswith(TABLE_OPTIONS) for word in option_words(config)):
        return groups
    foreign = [(name, [entry for entry in entries if not is_replay(entry)]) for name, entries in groups]
    return [(name, entries) for name, entries in foreign if entries]
