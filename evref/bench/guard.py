"""Has a kernel become slower? Its time is held against that of its NumPy twin, in the same process on one thread.

A ratio of two times taken in turns is much the same on a busy and on an idle machine, where the times are not.
Instruction counts would be better still, but need counters that virtual machines rarely offer.

    evref bench --guard              exit code 1 if a ratio lost more than a factor of 1.5
    evref bench --guard --update     write the ratios that are expected from now on
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import evref as ev

from ..arguments import as_new_file
from ..kernels import Backend
from . import machine, report
from .cases import Case, make_problem
from .clock import duration, environment
from .peers_evref import contender

EXPECTED = Path("validation/guard.json")
LOSS = 1.5
RETRIES = 2
SECONDS = 1.5  # for a case

CASES = {
    (case.name, dtype): case
    for case, dtypes in (
        (Case("edge-variant 5->5", "guard", "edge-variant", "sbm", 50, 5, 5, 4, 100), ("float32", "float64")),
        (Case("edge-variant N=1e3", "guard", "edge-variant", "random", 1_000, 2, 2, 3, 100), ("float32",)),
        (Case("edge-variant N=2e4", "guard", "edge-variant", "random", 20_000, 1, 1, 3, 8), ("float32",)),
        (Case("edge-variant B=1", "guard", "edge-variant", "random", 20_000, 1, 1, 3, 1), ("float32",)),
        (Case("training F=8", "guard", "training", "sbm", 50, 8, 1, 4, 100), ("float32",)),
        (Case("polynomial 5->5", "guard", "polynomial", "sbm", 50, 5, 5, 4, 100), ("float32",)),
        (Case("node-variant 5->5", "guard", "node-variant", "sbm", 50, 5, 5, 4, 100), ("float32",)),
    )
    for dtype in dtypes
}


def ratio(case: Case, dtype: str, seconds: float = SECONDS) -> float:
    """Best time of the NumPy kernels / best time of the compiled ones, taken in turns."""
    run = contender("evref", make_problem(case, dtype)).run
    best: dict[Backend, float] = {"numba": float("inf"), "numpy": float("inf")}
    with ev.use_threads(1):
        calls = {}
        for backend in best:
            with ev.use_backend(backend):
                run()
                calls[backend] = max(1, int(0.02 / duration(run)))
        spent = 0.0
        while spent < seconds:
            for backend in best:
                with ev.use_backend(backend):
                    for _ in range(calls[backend]):
                        took = duration(run)
                        best[backend] = min(best[backend], took)
                        spent += took
    return best["numpy"] / best["numba"]


def in_child(name: str, dtype: str) -> float:
    """The ratio, in a process where BLAS has one thread too, and where memory stays with the process: fresh pages for
    NumPy's intermediate results could otherwise cost three times what it does with them, or nothing."""
    command = [sys.executable, "-m", "evref.bench.guard", name, dtype]
    quiet = environment(1, MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(2**30))
    done = subprocess.run(command, env=quiet, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise RuntimeError(f"guard case {name} {dtype} ended with code {done.returncode}: {last[0]}")
    return json.loads(done.stdout.splitlines()[-1])


Measure = Callable[[str, str], float]


def check(expected: Mapping[str, float], measure: Measure = in_child) -> dict[str, tuple[float, float]]:
    """Measured and expected ratio of every case that has lost too much, also in two more trials."""
    lost = {}
    for name, dtype in CASES:
        key = f"{name} {dtype}"
        if key not in expected:
            print(f"{key:28} not in the file of expected ratios: --update writes it")
            continue
        wanted = expected[key]
        found = 0.0
        for _ in range(1 + RETRIES):
            found = max(found, measure(name, dtype))
            if found >= wanted / LOSS:
                break
        else:
            lost[key] = (found, wanted)
        print(f"{key:28} {found:6.2f}, expected {wanted:6.2f}{'   SLOWER' if key in lost else ''}", flush=True)
    return lost


def main(arguments: argparse.Namespace) -> int:
    path = arguments.expected or EXPECTED
    if arguments.update:
        as_new_file("--expected", path)
    if path.exists() and not path.is_file():
        raise ValueError(f"--expected is {str(path)!r}, which is not a file")
    with ev.use_backend("numba"):
        if ev.kernels.current().__name__.endswith("reference"):
            raise ValueError("numba cannot be used here: there are no compiled kernels to guard")
    known = report.read_json(path) if path.exists() else {}
    if arguments.update:
        found = {f"{name} {dtype}": round(median_of_three(name, dtype), 3) for name, dtype in CASES}
        report.write_json(path, {**known, machine.cpu_name(): found})
        for key, value in found.items():
            print(f"{key:28} {value:6.2f}")
        return 0
    if not known:
        raise ValueError(f"--expected is {path}, which is not there; --guard --update writes it")
    lost = check(expected_on(machine.cpu_name(), known))
    if lost and machine.cpu_name() not in known:
        print(f"nothing was measured on {machine.cpu_name()} yet; --update writes what is expected here")
    print(f"{len(lost)} of {len(CASES)} lost more than a factor of {LOSS}")
    return 1 if lost else 0


def expected_on(cpu: str, known: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """The ratios of this processor; on an unknown one the lowest of all with some room, since no two gain alike.

    >>> expected_on("new", {"one": {"a": 3.0, "b": 9.0}, "other": {"a": 4.0}})
    {'a': 2.0, 'b': 6.0}
    """
    if cpu in known:
        return known[cpu]
    keys = dict.fromkeys(key for ratios in known.values() for key in ratios)
    return {key: min(ratios[key] for ratios in known.values() if key in ratios) / LOSS for key in keys}


def median_of_three(name: str, dtype: str) -> float:
    return sorted(in_child(name, dtype) for _ in range(3))[1]


def child(name: str, dtype: str) -> Any:
    print(json.dumps(ratio(CASES[name, dtype], dtype)))


if __name__ == "__main__":
    child(*sys.argv[1:])
