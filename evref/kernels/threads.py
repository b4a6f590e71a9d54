"""Threads for the compiled kernels: helpers that wait for work inside compiled code (:mod:`evref.kernels.together`).

numba's own parallel loops are not used: its OpenMP layer kills forked children, its work queue aborts when two Python
threads enter it, and they cost seconds of compilation. Here one team of helpers serves the process; a Python thread
that finds the team busy works alone. No result depends on who works: tasks gather, or own what they write.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from .. import checks
from .settings import Setting

PATIENCE = 20_000  # looks at the board before a helper goes to sleep: a few tenths of a millisecond


def _checked(value: int) -> int:
    return checks.as_count("threads", value, minimum=1)


_setting = Setting[int]("evref_threads", _checked)


def set_threads(threads: int) -> None:
    """Choose how many threads the compiled kernels of this process may use (same bits for any number).

    Where nobody chose, the environment variable `EVREF_NUM_THREADS`, read once, decides, else every core this process
    may run on; worker processes of `multiprocessing` get one.
    """
    _setting.set(threads)


def use_threads(threads: int) -> AbstractContextManager[None]:
    """The same for the body of a with-statement, in this Python thread alone.

    >>> import evref
    >>> with evref.use_threads(1):
    ...     evref.kernels.n_threads()
    1
    """
    return _setting.use(threads)


def n_threads() -> int:
    """The number of threads in force."""
    return _setting.chosen() or _from_environment()


@cache  # asking the system takes as long as a small kernel
def _from_environment() -> int:
    if "EVREF_NUM_THREADS" in os.environ:
        text = os.environ["EVREF_NUM_THREADS"]
        return checks.as_count("EVREF_NUM_THREADS", int(text) if text.isdecimal() else text, minimum=1)
    if multiprocessing.parent_process() is not None:
        return 1  # the process pool already fills the cores
    return n_cores()


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Team:
    """The helpers of this process, started when they are first needed."""

    def __init__(self) -> None:
        from .together import new_board

        self.busy = threading.Lock()
        self.board = new_board()
        self.helpers: list[Helper] = []

    def gather(self, n: int) -> int:
        """n - 1 helpers, awake or on their way, or as many as the system starts; returns their number plus one."""
        while len(self.helpers) < n - 1:
            try:
                self.helpers.append(Helper(self.board, len(self.helpers) + 1))
            except RuntimeError:  # "can't start new thread": a limit on processes or memory, asked again next time
                break
        for helper in self.helpers[: n - 1]:
            helper.wake()
        return min(n, len(self.helpers) + 1)

    def dismiss(self) -> None:
        """Before the interpreter ends: a thread that came back to it afterwards would be killed on the spot."""
        from .together import CLOSED

        self.board[CLOSED] = 1
        for helper in self.helpers:
            helper.wake()
        for helper in self.helpers:
            helper.thread.join(timeout=1)


class Helper:
    """A thread that serves, and sleeps when there is nothing to do; its attributes change under Python's lock alone."""

    def __init__(self, board: Any, slot: int) -> None:
        self.board, self.slot = board, slot
        self.bell = threading.Semaphore(0)
        self.asleep = False
        self.thread = threading.Thread(target=self._live, name=f"evref-{slot}", daemon=True)
        self.thread.start()

    def wake(self) -> None:
        if self.asleep:
            self.asleep = False
            self.bell.release()

    def _live(self) -> None:
        from .loops import serve_compiled
        from .together import CLOSED

        last = 0
        while not self.board[CLOSED]:
            last = serve_compiled(self.board, self.slot, last, PATIENCE)
            self.asleep = True
            if not self.board[CLOSED]:
                self.bell.acquire()


class _Alone(threading.local):
    """A board for each Python thread that works without the team."""

    def __init__(self) -> None:
        from .together import new_board

        self.board = new_board()


_team: Team | None = None
_alone: _Alone | None = None


def call(kernel: Callable[..., Any], n: int, *arguments: Any) -> Any:
    """kernel(*arguments, board, n) on up to n threads, on this one alone while another Python thread has the team."""
    global _team, _alone
    if n > 1:
        team = _team or _new_team()
        if team.busy.acquire(blocking=False):
            try:
                return kernel(*arguments, team.board, team.gather(n))
            finally:
                team.busy.release()
    if _alone is None:
        _alone = _Alone()
    return kernel(*arguments, _alone.board, 1)


def _new_team() -> Team:
    global _team
    with _starting:
        if _team is None:
            _team = Team()
            atexit.register(_team.dismiss)
    return _team


_starting = threading.Lock()


def _after_fork() -> None:
    global _team, _starting
    _from_environment.cache_clear()  # a worker process has another answer
    if _team is not None:
        atexit.unregister(_team.dismiss)
    _team = None  # threads do not survive a fork; the child starts its own when it needs them
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
