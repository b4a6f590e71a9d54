"""How fast is one forward and backward pass of the edge-variant filter, and against what?

    python validation/benchmark.py                       all cases, several minutes
    python validation/benchmark.py --quick               under a minute, no huge graph
    python validation/benchmark.py --cases small,large --json figures.json
    python validation/benchmark.py --write               also to validation/benchmark.md

Rules. Everyone does the same work in the same process on the same numbers: y, grad_x and grad_phi of a bank of filters
(zeroth="none", no bias) from arrays in the user's layout (batch, features, nodes), conversions to any other layout on
the clock (peers may hand back strided views). Every result is checked against ours before it is timed. Repetitions go
round-robin, so that a noisy minute hits everyone; the table has medians, with the interquartile range. Peers that can
choose their threads get the better of one and of all.

Rates: 6 nnz B K F G flops (a multiply and an add each for the forward pass, the cotangents and grad_phi); compulsory
traffic (phi and column indices read twice, grad_phi written once). Beside them stand, from the same run, a matrix
product and a copy of memory.

One run. Between three runs of the same kernels on a shared two-core machine most ratios moved by up to a third and some
by a factor of two (JAX at N=1e3: 24 to 45); a ratio within a third of 1 is a tie.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse

import evref as ev

Array = np.ndarray
Result = tuple[Array, Array, Array]  # y, grad_phi, grad_x
Run = Callable[[], Result]

TOLERANCE = {"float32": 1e-4, "float64": 1e-10}  # relative to the largest entry: sums of many terms in other orders
N_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---- cases -----------------------------------------------------------------------------------------------------------
class Case(NamedTuple):
    name: str
    size: str  # what --cases selects
    graph: Callable[[], ev.Graph]
    F: int
    G: int
    K: int
    B: int

    @property
    def label(self) -> str:
        return f"{self.name}, F={self.F}, G={self.G}, K={self.K}, B={self.B}"


def block_model() -> ev.Graph:
    return ev.generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)[0]


def random_graph(n_nodes: int) -> Callable[[], ev.Graph]:
    return lambda: ev.generators.random_directed(n_nodes, degree=10, rng=0)


CASES = [
    Case("N=50 SBM", "small", block_model, F=5, G=1, K=4, B=100),
    Case("N=50 SBM", "small", block_model, F=5, G=5, K=4, B=100),
    Case("N=1e3, degree 10", "medium", random_graph(1_000), F=8, G=8, K=3, B=100),
    Case("N=1e5, degree 10", "large", random_graph(100_000), F=1, G=1, K=3, B=8),
    Case("N=1e5, degree 10", "large", random_graph(100_000), F=1, G=1, K=3, B=1),
    Case("N=1e6, degree 10", "huge", random_graph(1_000_000), F=1, G=1, K=2, B=1),
]


class Problem:
    """The numbers of one case in one dtype."""

    def __init__(self, case: Case, graph: ev.Graph, dtype: str) -> None:
        rng = np.random.default_rng(1)
        K, F, G, B = case.K, case.F, case.G, case.B
        self.case, self.graph, self.dtype = case, graph, np.dtype(dtype)
        self.rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
        self.columns = graph.indices.astype(np.int64)
        self.phi = (rng.standard_normal((K, F, G, graph.nnz), np.float32) / 4).astype(dtype)
        self.x = rng.standard_normal((B, G, graph.n_nodes), np.float32).astype(dtype)
        self.grad_y = rng.standard_normal((B, F, graph.n_nodes), np.float32).astype(dtype)

    @property
    def flops(self) -> float:
        c = self.case
        return 6.0 * self.graph.nnz * c.B * c.K * c.F * c.G

    @property
    def bytes(self) -> float:
        c = self.case
        return self.graph.nnz * c.K * c.F * c.G * (3.0 * self.dtype.itemsize + 2 * 4)


# ---- contenders ------------------------------------------------------------------------------------------------------
def evref_run(p: Problem, threads: int) -> Run:
    """Through the public door, checks included."""
    filt = ev.EdgeVariant(p.graph, p.case.K, p.case.G, p.case.F)
    params = {"phi": p.phi}

    def run() -> Result:
        with ev.use_threads(threads):
            y, tape = filt.forward(params, p.x)
            grads, grad_x = filt.backward(params, tape, p.grad_y)
        return y, grads["phi"], grad_x

    return run


def torch_run(p: Problem, threads: int, forward: Callable[[Any, Any], Any]) -> Run:
    phi, x, grad_y = (torch.tensor(a) for a in (p.phi, p.x, p.grad_y))
    phi.requires_grad_()
    x.requires_grad_()

    def run() -> Result:
        with torch_threads(threads):
            y = forward(phi, x)
            grad_phi, grad_x = torch.autograd.grad(y, (phi, x), grad_y)
        return y.detach().numpy(), grad_phi.numpy(), grad_x.numpy()

    return run


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def torch_gather(p: Problem) -> Callable[[Any, Any], Any]:
    """Messages along edges, nodes before the batch so that rows are contiguous; one filter at a time if large."""
    N, target, source = p.graph.n_nodes, torch.tensor(p.rows), torch.tensor(p.columns)
    _, F, G, nnz = p.phi.shape
    together = F * G * nnz * p.case.B * p.dtype.itemsize < 2**25

    def filtered(phi: Any, w: Any) -> Any:
        """sum_k w^(k); phi (K, ..., nnz), w (..., N, B)"""
        total = 0.0
        for phi_k in phi:
            messages = phi_k[..., None] * w.index_select(-2, source)
            w = torch.zeros(*messages.shape[:-2], N, messages.shape[-1], dtype=w.dtype).index_add(-2, target, messages)
            total = total + w
        return total

    def forward(phi: Any, x: Any) -> Any:
        by_node = x.permute(1, 2, 0).contiguous()  # (G, N, B)
        if together:
            return filtered(phi, by_node.expand(F, G, N, -1)).sum(1).permute(2, 0, 1)
        rows = [sum(filtered(phi[:, f, g], by_node[g]) for g in range(G)) for f in range(F)]
        return torch.stack(rows).permute(2, 0, 1)

    return forward


def torch_dense(p: Problem) -> Callable[[Any, Any], Any]:
    """Dense matrices, zero off the support, and batched products."""
    N = p.graph.n_nodes
    place = torch.tensor(p.rows * N + p.columns)
    K, F, G, _ = p.phi.shape

    def forward(phi: Any, x: Any) -> Any:
        Phi = torch.zeros(K, F, G, N * N, dtype=phi.dtype).index_copy(-1, place, phi).view(K, F, G, N, N)
        w = x.permute(1, 2, 0).expand(F, G, N, -1)
        total = 0.0
        for Phi_k in Phi:
            w = Phi_k @ w
            total = total + w
        return total.sum(1).permute(2, 0, 1)

    return forward


def numpy_dense_run(p: Problem) -> Run:
    """By hand with dense matrices: everything is a batched BLAS product."""
    K, F, G, _ = p.phi.shape
    N, B = p.graph.n_nodes, p.case.B
    place = p.rows * N + p.columns

    def run() -> Result:
        Phi = np.zeros((K, F, G, N * N), p.dtype)
        Phi[..., place] = p.phi
        Phi = Phi.reshape(K, F, G, N, N)
        x = np.ascontiguousarray(p.x.transpose(1, 2, 0))  # (G, N, B)
        v = np.ascontiguousarray(p.grad_y.transpose(1, 2, 0))  # (F, N, B)
        states = [np.broadcast_to(x, (F, G, N, B))]
        for k in range(K):
            states.append(Phi[k] @ states[-1])
        y = sum(w.sum(1) for w in states[1:])
        grad_phi = np.empty_like(p.phi)
        lam = np.broadcast_to(v[:, None], (F, G, N, B))
        for k in range(K - 1, -1, -1):
            outer = lam @ states[k].swapaxes(-1, -2)
            grad_phi[k] = outer.reshape(F, G, N * N)[..., place]
            lam = Phi[k].swapaxes(-1, -2) @ lam
            if k:
                lam += v[:, None]
        return y.transpose(2, 0, 1), grad_phi, lam.sum(0).transpose(2, 0, 1)

    return run


def scipy_run(p: Problem) -> Run:
    """By hand with CSR products: one pair of matrices made once, their values changed for every filter and step."""
    K, F, G, _ = p.phi.shape
    N = p.graph.n_nodes
    indices, indptr = p.graph.indices.astype(np.int32), p.graph.indptr.astype(np.int32)
    matrix = sparse.csr_array((p.phi[0, 0, 0], indices, indptr), shape=(N, N))
    transposed = sparse.csc_array((p.phi[0, 0, 0], indices, indptr), shape=(N, N))  # the same arrays, read by columns

    def sampled(lam: Array, w: Array) -> Array:
        """(lam w^T)_ij on the support: all of the product where that is cheaper than picking rows."""
        if N <= 256:
            return (lam @ w.T)[p.rows, p.columns]
        if lam.shape[1] == 1:
            return lam[p.rows, 0] * w[p.columns, 0]
        return np.einsum("pb,pb->p", lam[p.rows], w[p.columns])

    def run() -> Result:
        x = np.ascontiguousarray(p.x.transpose(1, 2, 0))  # (G, N, B)
        v = np.ascontiguousarray(p.grad_y.transpose(1, 2, 0))  # (F, N, B)
        y, grad_x, grad_phi = np.zeros_like(v), np.zeros_like(x), np.empty_like(p.phi)
        for f in range(F):
            for g in range(G):
                states = [x[g]]
                for k in range(K):
                    matrix.data = p.phi[k, f, g]
                    states.append(matrix @ states[-1])
                    y[f] += states[-1]
                lam = v[f]
                for k in range(K - 1, -1, -1):
                    grad_phi[k, f, g] = sampled(lam, states[k])
                    transposed.data = p.phi[k, f, g]
                    lam = transposed @ lam
                    if k:
                        lam += v[f]
                grad_x[g] += lam
        return y.transpose(2, 0, 1), grad_phi, grad_x.transpose(2, 0, 1)

    return run


def jax_run(p: Problem) -> Run:
    """segment_sum over the edges, compiled as a whole."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    K, F, G, _ = p.phi.shape
    N, rows, columns = p.graph.n_nodes, jnp.asarray(p.rows), jnp.asarray(p.columns)

    def forward(phi: Any, x: Any) -> Any:
        w = jnp.broadcast_to(jnp.transpose(x, (2, 1, 0))[:, None], (N, F, G, x.shape[0]))
        total = 0.0
        for k in range(K):
            messages = jnp.transpose(phi[k], (2, 0, 1))[..., None] * w[columns]
            w = jax.ops.segment_sum(messages, rows, num_segments=N, indices_are_sorted=True)
            total = total + w
        return jnp.transpose(total.sum(2), (2, 1, 0))

    @jax.jit
    def both(phi: Any, x: Any, grad_y: Any) -> Any:
        y, pull_back = jax.vjp(forward, phi, x)
        return (y, *pull_back(grad_y))

    arrays = [jnp.asarray(a) for a in (p.phi, p.x, p.grad_y)]

    def run() -> Result:
        y, grad_phi, grad_x = both(*arrays)
        return np.asarray(y), np.asarray(grad_phi), np.asarray(grad_x)

    return run


def contenders(p: Problem, chosen: set[str]) -> dict[str, Run]:
    """Name to run; several settings of one contender share the part of the name before the slash."""
    counts = sorted({1, N_THREADS})
    runs: dict[str, Run] = {f"evref/{n}": evref_run(p, n) for n in counts}
    dense = p.graph.n_nodes <= 256
    if "torch" in chosen:
        runs |= {f"torch gather/{n}": torch_run(p, n, torch_gather(p)) for n in counts}
        if dense:
            runs |= {f"torch dense/{n}": torch_run(p, n, torch_dense(p)) for n in counts}
    if "compile" in chosen:
        runs |= {f"torch.compile/{n}": torch_run(p, n, torch.compile(torch_gather(p))) for n in counts}
    if "numpy" in chosen and dense:
        runs["numpy dense/own"] = numpy_dense_run(p)
    if "scipy" in chosen:
        runs["scipy CSR/1"] = scipy_run(p)
    if "jax" in chosen and find_spec("jax"):
        runs["jax segment_sum/own"] = jax_run(p)
    return runs


# ---- the clock -------------------------------------------------------------------------------------------------------
class Timing(NamedTuple):
    median: float  # seconds per call
    low: float  # first quartile
    high: float  # third quartile


def check(name: str, ours: Result, theirs: Result, tolerance: float) -> None:
    """Refuse to time a wrong answer."""
    for what, a, b in zip(("y", "grad_phi", "grad_x"), ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise SystemExit(f"{name}: {what} is {b.shape} {b.dtype}, ours {a.shape} {a.dtype}")
        error = float(np.abs(a - b).max() / np.abs(a).max())
        if not error <= tolerance:
            raise SystemExit(f"{name}: {what} differs from ours by {error:.1e}")


def duration(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(runs: dict[str, Callable[[], Any]], seconds: float, least: int) -> dict[str, Timing]:
    """Round-robin until `seconds` are spent, at least `least` rounds; everyone has run at least once before.

    A sample is as many calls as make 10 ms. Before it comes a pause, in which the last contender's threads stop
    spinning, and one call off the clock that brings the data back into the caches and the memory back to the process.
    """
    samples: dict[str, list[float]] = {name: [] for name in runs}
    calls = dict.fromkeys(runs, 1)
    begin, rounds = time.perf_counter(), 0
    while rounds < least or time.perf_counter() - begin < seconds:
        for name, run in runs.items():
            time.sleep(0.03)
            calls[name] = max(1, int(0.01 / duration(run)))
            start = time.perf_counter()
            for _ in range(calls[name]):
                run()
            samples[name].append((time.perf_counter() - start) / calls[name])
        rounds += 1
    return {name: Timing(*np.quantile(values, [0.5, 0.25, 0.75]).tolist()) for name, values in samples.items()}


def ceilings(dtype: str, seconds: float, least: int) -> dict[str, float]:
    """GF/s of a matrix product on one and on all threads, GB/s of a copy (read and write counted)."""
    n = 1024
    a, b = (torch.rand(n, n, dtype=getattr(torch, dtype)) for _ in range(2))
    source = torch.ones(2**26, dtype=torch.float32)  # 256 MB: beyond the caches
    target = torch.empty_like(source)

    def product(threads: int) -> Callable[[], Any]:
        def run() -> None:
            with torch_threads(threads):
                torch.mm(a, b)

        return run

    def copy() -> None:
        with torch_threads(N_THREADS):
            target.copy_(source)

    counts = sorted({1, N_THREADS})
    runs: dict[str, Callable[[], Any]] = {f"gemm/{n}": product(n) for n in counts}
    times = measure(runs | {"copy": copy}, seconds, least)
    rates = {name: 2e-9 * n**3 / t.median for name, t in times.items() if name != "copy"}
    return rates | {"copy": 2e-9 * source.numel() * source.element_size() / times["copy"].median}


def run_case(case: Case, graph: ev.Graph, dtype: str, chosen: set[str], seconds: float, least: int) -> dict[str, Any]:
    """One line of the report, as a plain dict."""
    p = Problem(case, graph, dtype)
    runs = contenders(p, chosen)
    ours = runs["evref/1"]()
    for name, run in runs.items():
        check(f"{case.label} {dtype} {name}", ours, run(), TOLERANCE[dtype])
    limits = ceilings(dtype, min(1.0, seconds / 4), least)
    times = measure(runs, seconds, least)
    return {
        "case": case.label,
        "size": case.size,
        "dtype": dtype,
        "nodes": graph.n_nodes,
        "nnz": graph.nnz,
        "flops": p.flops,
        "bytes": p.bytes,
        "ceilings": limits,
        "seconds": {name: t._asdict() for name, t in times.items()},
    }


# ---- import and compilation ------------------------------------------------------------------------------------------
CHILD = """
import time
start = time.perf_counter()
import evref as ev
imported = time.perf_counter()
import numpy as np
graph, _ = ev.generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=0)
filt = ev.EdgeVariant(graph, 4, 1, 5)
params = filt.init(0, "float32")
x = np.ones((100, 1, 50), "float32")
times = []
for _ in range(2):
    begin = time.perf_counter()
    y, tape = filt.forward(params, x)
    filt.backward(params, tape, y)
    times.append(time.perf_counter() - begin)
print(imported - start, *times)
"""


def start_up() -> dict[str, float]:
    """Seconds for `import evref`, and for the first call with an empty and with a filled cache of compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}

        def child() -> list[float]:
            command = [sys.executable, "-c", CHILD]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            return [float(word) for word in done.stdout.split()]

        _, cold, _ = child()
        imported, warm, second = child()
    return {"import": imported, "first call, cold cache": cold, "first call, warm cache": warm, "second call": second}


# ---- the report ------------------------------------------------------------------------------------------------------
def best(line: dict[str, Any], contender: str) -> float:
    """Median seconds of the best setting of a contender."""
    return min(t["median"] for name, t in line["seconds"].items() if name.rpartition("/")[0] == contender)


def rows_of(line: dict[str, Any]) -> list[str]:
    times, limits = line["seconds"], line["ceilings"]
    peers = list(dict.fromkeys(name.rpartition("/")[0] for name in times if not name.startswith("evref/")))
    ours = best(line, "evref")

    def spread(name: str) -> str:
        t = times[name]
        return f"{1e3 * t['median']:.3g} ({1e3 * t['low']:.3g}–{1e3 * t['high']:.3g})"

    settings = sorted({1, N_THREADS})
    ratios = sorted((best(line, peer) / ours, peer) for peer in peers)
    return [
        line["case"],
        line["dtype"],
        *(spread(f"evref/{n}") for n in settings),
        *(f"{1e-9 * line['flops'] / times[f'evref/{n}']['median']:.3g} of {limits[f'gemm/{n}']:.0f}" for n in settings),
        f"{1e-9 * line['bytes'] / ours:.2g} of {limits['copy']:.2g}",
        " · ".join(f"{peer} {ratio:.2g}" for ratio, peer in ratios),
    ]


def header() -> list[str]:
    settings = [f"{n} thread{'s' if n > 1 else ''}" for n in sorted({1, N_THREADS})]
    return [
        "case",
        "dtype",
        *(f"ours, {s}, ms" for s in settings),
        *(f"GF/s of GEMM, {s}" for s in settings),
        "GB/s of copy",
        "peer / ours, best settings",
    ]


def as_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def about() -> str:
    names = []
    for name in ("numpy", "scipy", "numba", "torch", "jax"):
        try:
            names.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"Python {platform.python_version()}, {', '.join(names)}; {platform.machine()}, {N_THREADS} threads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="float32 only, no JAX, no huge graph, few repetitions: under a minute"
    )
    parser.add_argument("--cases", help="comma-separated: small, medium, large, huge")
    parser.add_argument("--dtypes", help="comma-separated: float32, float64")
    parser.add_argument("--peers", help="comma-separated: torch, numpy, scipy, jax, compile (torch.compile)")
    parser.add_argument("--seconds", type=float, help="time spent on each line of the table")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure, quartiles included")
    parser.add_argument("--write", action="store_true", help="write validation/benchmark.md")
    options = parser.parse_args()
    sizes = (options.cases or ("small,medium,large" if options.quick else "small,medium,large,huge")).split(",")
    unknown = set(sizes) - {case.size for case in CASES}
    if unknown:
        parser.error(f"--cases: {', '.join(sorted(unknown))}; expected small, medium, large or huge")
    dtypes = (options.dtypes or ("float32" if options.quick else "float32,float64")).split(",")
    chosen = set((options.peers or ("torch,numpy,scipy" if options.quick else "torch,numpy,scipy,jax")).split(","))
    seconds = options.seconds if options.seconds is not None else 0.5 if options.quick else 10.0
    least = 2 if options.quick else 5

    lines: list[dict[str, Any]] = []
    text = [f"{about()}.", "", as_row(header()), as_row(["---"] * len(header()))]
    print("\n".join(text), flush=True)
    graphs: dict[str, ev.Graph] = {}
    for case in CASES:
        if case.size not in sizes:
            continue
        if case.name not in graphs:
            graphs = {case.name: case.graph()}  # one at a time: the huge one fills memory
        for dtype in dtypes:
            lines.append(run_case(case, graphs[case.name], dtype, chosen, seconds, least))
            text.append(as_row(rows_of(lines[-1])))
            print(text[-1], flush=True)
    times = start_up()
    text += ["", "; ".join(f"{name} {1e3 * value:.3g} ms" for name, value in times.items()) + "."]
    print("\n".join(text[-2:]))
    if options.json:
        options.json.write_text(json.dumps({"about": about(), "start_up": times, "lines": lines}, indent=1))
    if options.write:
        rules = __doc__.split("Rules. ")[1]
        report = "\n".join(["# Speed of one forward and backward pass", "", rules, *text, ""])
        Path(__file__).with_suffix(".md").write_text(report)


if __name__ == "__main__":
    main()
