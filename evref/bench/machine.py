"""What the machine can do: a matrix product, a copy of memory, a STREAM triad, and a word that goes from one core to
another and back; and what machine it is.

The last one tells how far apart the cores are. Virtual machines may be moved: the same two cores are 60 ns apart in one
minute and 350 in the next, and what a second thread gains at small sizes goes with it.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import evref as ev
from evref.kernels.threads import n_cores

from .cases import KINDS, Contender, Problem, Skipped

CHECKED = False
NAMES = dict.fromkeys(KINDS, ("GEMM", "copy", "triad", "round trip"))
ROUND_TRIPS = 2_000
SIZE = 1024  # of the matrices
LENGTH = 2**25  # float64 entries of a vector: 268 MB, beyond the caches
LIBRARIES = ("numpy", "scipy", "numba", "torch", "jax", "torch_geometric")

_threads = 1
_vectors: list[np.ndarray] = []


def prepare(threads: int) -> None:
    global _threads
    _threads = threads


def work(name: str) -> float:
    """Flops of GEMM; bytes of copy (one read, one write) and triad (two reads, one write); round trips."""
    return {"GEMM": 2.0 * SIZE**3, "copy": 16.0 * LENGTH, "triad": 24.0 * LENGTH, "round trip": ROUND_TRIPS}[name]


def contender(name: str, p: Problem) -> Contender:
    run = product(p.dtype) if name == "GEMM" else {"copy": copy, "triad": triad, "round trip": round_trips}[name]()
    return Contender(run, dict)


def product(dtype: Any) -> Callable[[], Any]:
    a = np.random.default_rng(0).random((SIZE, SIZE)).astype(dtype)
    out = np.empty_like(a)
    return lambda: np.matmul(a, a, out=out)


def copy() -> Callable[[], Any]:
    a, b, _ = vectors()
    return in_threads(lambda part: np.copyto(a[part], b[part]))


def triad() -> Callable[[], Any]:
    from numba import njit

    @njit(nogil=True)
    def kernel(a: Any, b: Any, c: Any) -> None:  # pragma: no cover - compiled
        for i in range(len(a)):
            a[i] = b[i] + 3.0 * c[i]

    a, b, c = vectors()
    kernel(a[:1], b[:1], c[:1])
    return in_threads(lambda part: kernel(a[part], b[part], c[part]))


def round_trips() -> Callable[[], Any]:
    """One thread makes a word odd, another makes it even."""
    from numba import njit

    from ..kernels.together import SPINS, give_way, read, write

    if _threads < 2:
        raise Skipped("one thread")

    @njit(nogil=True)
    def bounce(board: Any, mine: int, trips: int) -> None:  # pragma: no cover - compiled
        for trip in range(trips):
            looks = 0
            while read(board, 0) != 2 * trip + mine:
                looks += 1
                if looks % SPINS == 0:  # both threads on one core
                    give_way()
            write(board, 0, 2 * trip + mine + 1)

    board, pool = np.zeros(1, np.int64), ThreadPoolExecutor(1)

    def run() -> None:
        board[0] = 0
        other = pool.submit(bounce, board, 1, ROUND_TRIPS)
        bounce(board, 0, ROUND_TRIPS)
        other.result()

    bounce(board, 0, 1)
    return run


def vectors() -> list[np.ndarray]:
    if not _vectors:
        _vectors.extend(np.ones(LENGTH) for _ in range(3))
    return _vectors


def in_threads(work: Callable[[slice], Any]) -> Callable[[], Any]:
    pool, step = ThreadPoolExecutor(_threads), LENGTH // _threads
    parts = [slice(i * step, (i + 1) * step) for i in range(_threads)]
    return lambda: list(pool.map(work, parts))


# ---- about this machine ----------------------------------------------------------------------------------------------
def about() -> dict[str, Any]:
    versions = {"evref": ev.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": n_cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
