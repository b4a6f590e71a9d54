"""How long is the way to the first result: import, first call with an empty and with a filled cache of kernels."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from typing import Any

from . import machine, targets
from .clock import environment

CHILD = """
import time
start = time.perf_counter()
import evref as ev
imported = time.perf_counter()
import numpy as np
graph, _ = ev.generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)
filt = ev.EdgeVariant(graph, 4, 1, 5)
params = filt.init(0, dtype="float32")
x = np.ones((100, 1, 50), "float32")
times = []
for _ in range(2):
    begin = time.perf_counter()
    y, tape = filt.forward(params, x)
    filt.backward(params, tape, y)
    times.append(time.perf_counter() - begin)
print(imported - start, *times)
"""


def measure(repetitions: int = 3) -> dict[str, float]:
    """Seconds, each in a clean process; the best of a few where it can be repeated, since noise only adds."""
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(machine.n_cores(), NUMBA_CACHE_DIR=folder)

        def child() -> list[float]:
            command = [sys.executable, "-c", CHILD]
            done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
            return [float(word) for word in done.stdout.split()]

        _, cold, _ = child()
        imported, warm, second = (min(values) for values in zip(*(child() for _ in range(repetitions)), strict=True))
    return {"import": imported, "first call, cold cache": cold, "first call, warm cache": warm, "second call": second}


def main(arguments: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Exit code, 1 if a limit is passed, and every figure."""
    seconds = measure()
    late = 0
    for name, value in seconds.items():
        limit = targets.STARTUP.get(name)
        late += limit is not None and value > limit
        mark = "" if limit is None else f"  limit {limit:g} s {'met' if value <= limit else 'PASSED'}"
        print(f"{name:24} {value:8.3g} s{mark}")
    return (1 if late else 0), {"about": machine.about(), "startup": seconds}
