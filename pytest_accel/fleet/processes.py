"""Reads many files at once, in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def in_processes(work: Callable[..., T], *arguments: Sequence[Any], at_a_time: int = 10) -> Iterator[T]:
    """Yield what `work` returns for each of its arguments, in their order, as `map` does.

    Every processor has a process that does `at_a_time` of them in a row, unless they are too few for two processes.
    The function and its arguments are pickled.
    """
    processes = min(len(os.sched_getaffinity(0)), len(arguments[0]) // at_a_time)
    if processes < 2:
        yield from map(work, *arguments)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    spawn = multiprocessing.get_context("spawn")  # a database has threads, which a fork would break
    with ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        yield from pool.map(work, *arguments, chunksize=at_a_time)
