"""How do time and memory of a forward and backward pass grow with nnz, K, F·G and B?

Every point is measured in a process of its own. Memory is the peak of what the process really held (resident set) above
what it held before the numbers of the problem existed, with graph and kernels already there. The bound, for kernels
that compute their states again instead of keeping them: parameters and their gradients, the user's four signals x, y,
grad_y and grad_x, and three states (N B numbers) for every thread.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

import evref as ev

from .. import files
from ..kernels import compiled, layout
from . import machine, targets
from .cases import Case, make_graph
from .clock import duration, environment
from .run import note

MEGABYTE = 2.0**20
RESOLUTION = 8 * MEGABYTE  # pages, arenas and freed memory that is used again: less than this cannot be told apart


def axes(quick: bool = False) -> dict[str, list[tuple[int, Case]]]:
    """For each of the four quantities, its values over three decades and the case with each."""

    def case(N: int = 1_000, F: int = 1, G: int = 1, K: int = 2, B: int = 1) -> Case:
        return Case("growth", "growth", "edge-variant", "random", N, F, G, K, B)

    decades = (1, 10, 100, 1000) if quick else (1, 3, 10, 30, 100, 300, 1000)
    squares = [(1, 1), (3, 3), (10, 10), (32, 32)] + ([] if quick else [(2, 2), (5, 6), (17, 18)])
    return {
        "nnz": [(11 * n * 1_000, case(N=n * 1_000)) for n in decades],
        "K": [(K, case(K=K, B=8)) for K in decades],
        "F·G": [(F * G, case(F=F, G=G, B=8)) for F, G in sorted(squares)],
        "B": [(B, case(B=B, N=10_000)) for B in decades],
    }


# ---- in the child ----------------------------------------------------------------------------------------------------
def bound(case: Case, nnz: int, itemsize: int, threads: int) -> int:
    parameters = case.K * case.F * case.G * nnz
    signals = 2 * (case.F + case.G) * case.B * case.N
    return itemsize * (2 * parameters + signals + 3 * threads * case.N * case.B)


def point(case: Case, threads: int, seconds: float) -> dict[str, float]:
    """Seconds, bytes and bound of one case, in float32."""
    ev.set_threads(threads)
    graph = make_graph(case)
    filt = ev.EdgeVariant(graph, case.K, case.G, case.F)
    warm_up(graph, case)
    layout.release()  # or gradients of the warm-up would be used again, unseen
    gc.collect()
    before = resident(reset=True)
    rng = np.random.default_rng(0)
    params = {"phi": rng.standard_normal((case.K, case.F, case.G, graph.nnz), np.float32)}
    params["phi"] *= (case.N / graph.nnz) ** 0.5  # a thousand steps neither overflow nor reach denormal numbers
    x = rng.standard_normal((case.B, case.G, case.N), np.float32)
    grad_y = rng.standard_normal((case.B, case.F, case.N), np.float32)

    def run() -> Any:
        y, tape = filt.forward(params, x)
        return y, filt.backward(params, tape, grad_y)

    run()
    memory = peak() - before
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        times.append(duration(run))
    size = bound(case, graph.nnz, 4, threads)
    return {"seconds": float(np.median(times)), "bytes": memory, "bound": size}


def warm_up(graph: ev.Graph, case: Case) -> None:
    """Compiles what this width of batch needs, and makes the graph derive what it keeps."""
    filt = ev.EdgeVariant(graph, 2)
    params = filt.init(0, dtype="float32")
    y, tape = filt.forward(params, np.ones((1, 1, case.N), "float32"))
    filt.backward(params, tape, y)
    small = Case("warm", "warm", "edge-variant", "random", 100, 1, 1, 2, case.B)
    filt = ev.EdgeVariant(make_graph(small), 2, 2, 2)
    params = filt.init(0, dtype="float32")
    chosen = compiled.STEP_SIZE
    for size in (0, chosen):  # the passes of large graphs, then those of small ones
        compiled.STEP_SIZE = size
        y, tape = filt.forward(params, np.ones((case.B, 2, 100), "float32"))
        filt.backward(params, tape, y)


def resident(reset: bool = False) -> float:
    """Bytes this process holds now; `reset` gives freed memory back and forgets earlier peaks, on Linux."""
    try:
        if reset:
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)  # or what the graph's construction freed would be used again, unseen
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        return _status("VmRSS")
    except OSError:
        return peak()


def peak() -> float:
    try:
        return _status("VmHWM")
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _status(name: str) -> float:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(name):
                return 1024.0 * int(line.split()[1])
    raise OSError(f"no {name}")


# ---- in the parent ---------------------------------------------------------------------------------------------------
def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Exponent p of values ~ sizes^p, by least squares on logarithmic scales."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def measure(quick: bool, seconds: float) -> Iterator[tuple[str, dict[str, float]]]:
    threads = machine.n_cores()
    for axis, cases in axes(quick).items():
        for size, case in cases:
            note(f"{axis} = {size}")
            order = json.dumps([asdict(case), threads, seconds])
            command = [sys.executable, "-m", "evref.bench.growth", order]
            done = subprocess.run(
                command, env=environment(threads), capture_output=True, encoding="utf-8", errors="replace"
            )
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1:] or [f"code {done.returncode}"]
                note(f"  failed: {last[0]}")
                continue
            yield axis, {"size": size, **json.loads(done.stdout.splitlines()[-1])}


def table(growth: dict[str, list[dict[str, float]]]) -> str:
    rows = []
    for axis, points in growth.items():
        rows.append(f"\n{axis:>10} {'time':>12} {'slope':>7} {'memory':>12} {'bound':>12} {'share':>6}")
        for before, p in zip([None, *points], points, strict=False):
            local = ""
            if before:
                local = f"{slope((before['size'], p['size']), (before['seconds'], p['seconds'])):.2f}"
            over = p["bytes"] > targets.GROWTH_MEMORY * p["bound"] + RESOLUTION
            rows.append(
                f"{p['size']:10.3g} {1e3 * p['seconds']:9.3g} ms {local:>7} {p['bytes'] / MEGABYTE:9.3g} MB "
                f"{p['bound'] / MEGABYTE:9.3g} MB {p['bytes'] / p['bound']:6.2f}{'  OVER' if over else ''}"
            )
        if len(points) > 1:
            rows.append(verdict(axis, points))
    return "\n".join(rows)


def verdict(axis: str, points: list[dict[str, float]]) -> str:
    sizes, seconds = [p["size"] for p in points], [p["seconds"] for p in points]
    pairs = zip(pairwise(sizes), pairwise(seconds), strict=True)
    typical = float(np.median([slope(size, time) for size, time in pairs]))  # a step out of a cache does not move it
    mark = "met" if typical <= targets.GROWTH_SLOPE else "MISSED"
    over = sum(p["bytes"] > targets.GROWTH_MEMORY * p["bound"] + RESOLUTION for p in points)
    memory = "met" if not over else f"MISSED at {over} of {len(points)} sizes"
    return (
        f"time ~ {axis}^{slope(sizes, seconds):.2f}, within a cache level (median) {typical:.2f}, "
        f"target ≤ {targets.GROWTH_SLOPE:g} {mark}; "
        f"memory ≤ {targets.GROWTH_MEMORY:g} bound (+ {RESOLUTION / MEGABYTE:.0f} MB) {memory}"
    )


def main(arguments: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Exit code and every figure."""
    seconds = arguments.seconds or (0.2 if arguments.quick else 1.0)
    growth: dict[str, list[dict[str, float]]] = {}
    code = 0
    try:
        for axis, p in measure(arguments.quick, seconds):
            growth.setdefault(axis, []).append(p)
    except KeyboardInterrupt:
        print("interrupted; this is what there is so far", file=sys.stderr)
        code = 130
    results = {"about": machine.about(), "threads": machine.n_cores(), "growth": growth}
    print(table(growth))
    if arguments.markdown:
        text = f"# Growth\n\n{__doc__.partition(chr(10) * 2)[2]}\n```\n{table(growth)}\n```\n"
        files.write_text(arguments.markdown, text)
    if arguments.plot and growth:
        from .. import plot
        from ..plot.style import save

        figure: Any = plot.growth(results)[0].get_figure()
        save(figure, arguments.plot)
    return code, results


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    print(json.dumps(point(Case(**order[0]), *order[1:])))
