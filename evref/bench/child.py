"""A process that owns one library with one number of threads: it waits, runs when it is told, and answers in JSON.

    python -m evref.bench.child LIBRARY THREADS

Its own process, so that no other library's spinning threads, allocator or settings touch it. Orders come as JSON lines
on standard input: {"do": "load", "folder": ..., "kind": ...}, {"do": "time", "name": ...}, {"do": "drop"}. The end of
the input is the end of the process.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import cases
from .cases import Contender, Results, Skipped
from .clock import duration

TOLERANCE = {"float32": 1e-4, "float64": 1e-10}  # relative to the largest entry: sums of many terms in other orders


class Library(NamedTuple):
    module: str
    needs: str | None = None  # what must be installed

    def names(self, kind: str) -> tuple[str, ...]:
        return import_module(f".{self.module}", __package__).NAMES.get(kind, ())


LIBRARIES = {
    "machine": Library("machine"),
    "evref": Library("peers_evref"),
    "numpy": Library("peers_numpy"),
    "torch": Library("peers_torch", "torch"),
    "compile": Library("peers_torch_compile", "torch"),
    "jax": Library("peers_jax", "jax"),
    "pyg": Library("peers_pyg", "torch_geometric"),
}


def difference(expected: Results, found: Results, dtype: str) -> str | None:
    """What is wrong with the answer, None if nothing is.

    Steps of Adam are compared in norm: it divides a gradient by its size, so that the step along an entry whose
    gradient is all rounding is arbitrary.
    """
    if expected.keys() != found.keys():
        return f"has {sorted(found)}; expected {sorted(expected)}"
    for name, right in expected.items():
        array = np.asarray(found[name])
        if array.shape != right.shape or (array.ndim and array.dtype != dtype):
            return f"{name} is {array.shape} {array.dtype}; expected {right.shape} {dtype}"
        off = array - right
        if name.startswith("moved"):
            error, tolerance = np.linalg.norm(off) / np.linalg.norm(right), 100 * TOLERANCE[dtype]
        else:
            error, tolerance = np.abs(off).max(initial=0) / np.abs(right).max(initial=1e-300), TOLERANCE[dtype]
        if not error <= tolerance:  # NaN is wrong
            return f"{name} is off by {error:.1e} of its largest entry; expected at most {tolerance:.0e}"
    return None


class Worker:
    def __init__(self, library: str, threads: int) -> None:
        self.library = LIBRARIES[library]
        self.module: Any = import_module(f".{self.library.module}", __package__)
        self.module.prepare(threads)
        self.contenders: dict[str, Contender] = {}

    def load(self, folder: str) -> dict[str, Any]:
        """Build every contender, compare its answer with the expected one; only those that are right are kept."""
        p = cases.load(Path(folder))
        expected = cases.load_arrays(Path(folder), "expected")
        skipped: dict[str, str] = {}
        wrong: dict[str, str] = {}
        for name in self.library.names(p.case.kind):
            try:
                contender = self.module.contender(name, p)
                problem = difference(expected, contender.result(), p.dtype.name) if self.module.CHECKED else None
            except Skipped as reason:
                skipped[name] = str(reason)
            except Exception as error:  # another library's trouble is a line in the report, not ours
                skipped[name] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
            else:
                if problem is None:
                    self.contenders[name] = contender
                else:
                    wrong[name] = problem
        return {"ready": list(self.contenders), "skipped": skipped, "wrong": wrong}

    def time(self, name: str, seconds: float) -> dict[str, Any]:
        """One sample: as many calls as fill `seconds`, after a pause and as many calls off the clock.

        In the pause threads of whoever ran before stop spinning. The calls bring the data back into the caches and the
        processor, which rests in the pause, back to speed: a call alone is up to twice as slow as one of many. A call
        that takes long needs neither that nor a second one.
        """
        run = self.contenders[name].run
        time.sleep(0.03)
        once = duration(run)
        if once > 0.3:
            return {"seconds": once, "calls": 1}
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            once = duration(run)
        calls = max(1, int(seconds / once))
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return {"seconds": (time.perf_counter() - start) / calls, "calls": calls}

    def drop(self) -> dict[str, Any]:
        self.contenders = {}
        gc.collect()
        return {}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        method = getattr(worker, order.pop("do"))
        print(json.dumps(method(**order)), file=answers, flush=True)


if __name__ == "__main__":
    main()
