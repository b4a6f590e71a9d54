"""Threads for the compiled kernels: plain Python threads around code that releases the interpreter lock.

numba's own parallel loops are not used: its OpenMP layer kills forked children, its work queue aborts when two Python
threads enter it, and they cost seconds of compilation. Here a call splits its work into one range per thread, the
caller's own thread takes the first, a pool the others. No result depends on the split: loops gather, they never add
into memory that another thread writes.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from itertools import pairwise

from .. import checks
from .settings import Setting

_pool: ThreadPoolExecutor | None = None


class use_threads(Setting):
    """Choose how many threads the compiled kernels may use (same bits for any number).

    A plain call holds for the process, a with-statement for its body. Without either, the environment variable
    `EVREF_NUM_THREADS` decides, else every core this process may run on; worker processes of `multiprocessing` get one.

    >>> import evref
    >>> with evref.use_threads(1):
    ...     evref.kernels.n_threads()
    1
    """

    _scoped = ContextVar("evref_threads", default=None)

    @staticmethod
    def _checked(value: int) -> int:
        return checks.as_count("threads", value, minimum=1)


def n_threads() -> int:
    """The number of threads in force."""
    chosen = use_threads.chosen()
    if chosen is not None:
        return chosen
    if "EVREF_NUM_THREADS" in os.environ:
        text = os.environ["EVREF_NUM_THREADS"]
        return checks.as_count("EVREF_NUM_THREADS", int(text) if text.isdecimal() else text, minimum=1)
    if multiprocessing.parent_process() is not None:
        return 1  # the process pool already fills the cores
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(work: Callable[[int, int, int], object], bounds: Sequence[int]) -> None:
    """work(slot, bounds[slot], bounds[slot + 1]) for every slot, each in a thread of its own; no empty ranges."""
    ranges = [(slot, lo, hi) for slot, (lo, hi) in enumerate(pairwise(bounds)) if lo < hi]
    if not ranges:
        return
    futures = [_executor().submit(work, *r) for r in ranges[1:]]
    try:
        work(*ranges[0])
    finally:
        for future in futures:
            future.result()


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(8, os.cpu_count() or 1), thread_name_prefix="evref")
    return _pool


def _forget_pool() -> None:
    global _pool
    _pool = None  # threads do not survive a fork; the child starts its own when it needs them


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
