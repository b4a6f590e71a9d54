"""Run every model on every cell: in this process, in several, or on a cluster, with the same figures.

An experiment makes graphs, data and starting weights from its seed and the cell alone, and every training runs on one
thread; what is left to the runner is to hand out the cells, to keep what comes back, and to outlive what breaks.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from ..kernels import use_threads
from .experiment import Experiment
from .records import Cell, Record, Results, Task

ATTEMPTS = 3  # times that a cell may take its worker down before it counts as failed
ONE_THREAD = ("EVREF_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def tasks(experiment: Experiment, results: Results, runs: int | None = None) -> tuple[list[Task], list[Task]]:
    """All tasks of the first `runs` cells, cell by cell, and those that are not done yet."""
    cells = experiment.cells()
    if runs is not None and not 1 <= runs <= len(cells):
        raise ValueError(f"runs is {runs}; expected 1..{len(cells)}, the cells of this experiment")
    wanted = [Task.of(model, cell) for cell in cells[:runs] for model in experiment.models]
    return wanted, [task for task in wanted if not results.has(task)]


def run(
    experiment: Experiment,
    todo: Iterable[Task],
    results: Results,
    jobs: int = 1,
    executor: Executor | None = None,
    each: Callable[[Task, Record], object] = lambda task, record: None,
) -> None:
    """Run `todo`, append every record to `results` as it comes, then call `each` with it.

    A cell whose run raises is recorded with the message, and the others go on.

    Parameters
    ----------
    experiment : Experiment
    todo : iterable of Task
    results : Results
    jobs : int
        Processes, each with one thread; 1 runs everything here. A process that dies (out of memory, killed) takes no
        result with it: the cells that it may have been at run again, one at a time.
    executor : Executor, optional
        Runs everything instead: anything with `submit` that returns futures of concurrent.futures, such as
        ``distributed.Client(address).get_executor()``. It is its own affair to replace the workers it loses.
    each : callable

    Raises
    ------
    CancelledError
        The executor gave up its work, as Dask's does when its scheduler is gone; what came before is kept.
    """

    def keep(task: Task, record: Record) -> None:
        results.append(task, record)
        each(task, record)

    if executor is not None:
        for task, record in _completed(executor, experiment, todo):
            keep(task, record if record is not None else {"error": "the executor lost the cell"})
    elif jobs == 1:
        for task in todo:
            keep(task, attempt(experiment, task.model, dict(task.cell)))
    else:
        _run_in_processes(experiment, todo, jobs, keep)


def attempt(experiment: Experiment, model: str, cell: Cell) -> Record:
    """The record of one run, or the message of its failure."""
    try:
        with use_threads(1):
            return experiment.run(model, cell)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


# ---- processes -------------------------------------------------------------------------------------------------------
def _run_in_processes(
    experiment: Experiment, todo: Iterable[Task], jobs: int, keep: Callable[[Task, Record], object]
) -> None:
    suspects = _in_pools(experiment, deque(todo), jobs, keep)
    for task in suspects:  # alone: whose worker dies now has killed it
        for _ in range(ATTEMPTS):
            if not _in_pools(experiment, deque([task]), 1, keep):
                break
        else:
            keep(task, {"error": f"its process died {ATTEMPTS} times"})


def _in_pools(
    experiment: Experiment, todo: deque[Task], jobs: int, keep: Callable[[Task, Record], object]
) -> list[Task]:
    """Work through `todo` with a new pool for each that breaks; returns the tasks that were in flight when one did."""
    lost: list[Task] = []
    while todo:
        with _pool(jobs) as pool:
            for task, record in _completed(pool, experiment, todo, window=jobs):
                if record is None:
                    lost.append(task)
                else:
                    keep(task, record)
    return lost


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes with one thread each; an exception, Ctrl-C above all, ends them in the middle of their work."""
    before = set(multiprocessing.active_children())
    environment = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # read when the child imports NumPy
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start_worker() -> None:
    """Ctrl-C reaches every process of the terminal: the parent alone decides what it means, and none outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # a killed parent closes no queue: its workers would wait for work forever
        os._exit(1)


def _completed(
    executor: Executor, experiment: Experiment, todo: Iterable[Task], window: int | None = None
) -> Iterator[tuple[Task, Record | None]]:
    """Tasks with their records, as they come; None for a record that went down with its pool.

    At most `window` tasks are handed out at a time, and after a pool broke no more: what was in flight is then known,
    and the rest is still in `todo`, a deque.
    """
    queue = todo if isinstance(todo, deque) else deque(todo)
    flying: dict[Future[Any], Task] = {}
    broken = False
    try:
        while True:
            while queue and not broken and (window is None or len(flying) < window):
                task = queue[0]
                try:
                    future = executor.submit(attempt, experiment, task.model, dict(task.cell))
                except BrokenProcessPool:
                    broken = True
                    break
                flying[future] = queue.popleft()
            if not flying:
                return
            done, _ = wait(flying, return_when=FIRST_COMPLETED)
            for future in done:
                record: Record | None
                try:
                    record = future.result()
                except BrokenProcessPool:
                    record, broken = None, True
                except CancelledError:  # nobody here cancels: whoever ran the work is gone
                    raise
                except Exception as error:  # of the executor: `attempt` itself raises none
                    record = {"error": f"{type(error).__name__}: {error}"}
                yield flying.pop(future), record
    finally:
        for future in flying:
            future.cancel()
