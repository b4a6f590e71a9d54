"""What is computed: the cases, their numbers, and the work in them.

Useful flops, a multiply and an add counted as two (nnz counts the support of I + S, |S| the entries of S):

    edge-variant    6 nnz B K F G: forward pass, cotangents, gradients of phi
    training        the same with G = 1, and 6 B F N C for the readout
    polynomial,     4 |S| B K G for the shifts and their adjoints, 6 (K + 1) F G N B to mix them and back
    node-variant

Compulsory traffic in bytes, for a machine whose caches hold the states of one filter and nothing else: every phi and
its int32 index is read in the forward pass and once more in the backward pass, every gradient of phi is written, and
x, y, grad_y and grad_x go through memory once,

    edge-variant    K F G nnz (3 itemsize + 8) + 2 (F + G) B N itemsize.

Nothing like it is given for the other kinds, which live in the caches at the sizes measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import evref as ev

from ..checks import did_you_mean

Array = np.ndarray
Results = dict[str, Array]
KINDS = ("edge-variant", "training", "polynomial", "node-variant")


class Contender(NamedTuple):
    """`run` is timed; `result` gives what must agree with the reference before it is."""

    run: Callable[[], Any]
    result: Callable[[], Results]


class Skipped(Exception):
    """This contender does not run this case, for the reason in the message."""


@dataclass(frozen=True)
class Case:
    name: str
    group: str
    kind: str  # one of KINDS
    graph: str  # sbm, random
    N: int
    F: int
    G: int
    K: int
    B: int
    classes: int = 5  # training
    privileged: int = 5  # node-variant

    @property
    def label(self) -> str:
        graph = "SBM" if self.graph == "sbm" else "degree 10"
        size = f"{self.N:.0e}".replace("e+0", "e") if self.N >= 10_000 else self.N
        return f"N={size} {graph}, F={self.F}, G={self.G}, K={self.K}, B={self.B}"

    @property
    def is_small(self) -> bool:
        """Dense matrices make sense."""
        return self.N <= 256

    def flops(self, nnz: int) -> float:
        work = 6.0 * nnz * self.B * self.K * self.F * self.G
        if self.kind == "edge-variant":
            return work
        if self.kind == "training":
            return work + 6.0 * self.B * self.F * self.N * self.classes
        shifts = 4.0 * (nnz - self.N) * self.B * self.K * self.G
        return shifts + 6.0 * (self.K + 1) * self.F * self.G * self.N * self.B

    def traffic(self, nnz: int, itemsize: int) -> float | None:
        if self.kind != "edge-variant":
            return None
        signals = 2.0 * (self.F + self.G) * self.B * self.N * itemsize
        return self.K * self.F * self.G * nnz * (3.0 * itemsize + 8) + signals


def _case(name: str, kind: str, graph: str, N: int, F: int, G: int, K: int, B: int) -> Case:
    return Case(name, name.partition(" ")[0], kind, graph, N, F, G, K, B)


ALL_CASES = [
    _case("small 1->5", "edge-variant", "sbm", 50, 5, 1, 4, 100),
    _case("small 5->5", "edge-variant", "sbm", 50, 5, 5, 4, 100),
    _case("medium", "edge-variant", "random", 1_000, 8, 8, 3, 100),
    _case("large B=8", "edge-variant", "random", 100_000, 1, 1, 3, 8),
    _case("large B=1", "edge-variant", "random", 100_000, 1, 1, 3, 1),
    _case("huge", "edge-variant", "random", 1_000_000, 1, 1, 2, 1),
    _case("training F=1", "training", "sbm", 50, 1, 1, 4, 100),
    _case("training F=8", "training", "sbm", 50, 8, 1, 4, 100),
    _case("training F=32", "training", "sbm", 50, 32, 1, 4, 100),
    _case("polynomial 1->5", "polynomial", "sbm", 50, 5, 1, 4, 100),
    _case("polynomial 5->5", "polynomial", "sbm", 50, 5, 5, 4, 100),
    _case("polynomial 8->8", "polynomial", "random", 1_000, 8, 8, 3, 100),
    _case("node-variant 1->5", "node-variant", "sbm", 50, 5, 1, 4, 100),
    _case("node-variant 5->5", "node-variant", "sbm", 50, 5, 5, 4, 100),
    _case("node-variant 8->8", "node-variant", "random", 1_000, 8, 8, 3, 100),
    # Too small to say anything about speed: these show that the instrument works, and run only when they are named.
    _case("tiny filter", "edge-variant", "sbm", 15, 3, 2, 2, 4),
    _case("tiny training", "training", "sbm", 15, 3, 1, 2, 4),
    _case("tiny polynomial", "polynomial", "sbm", 15, 3, 2, 2, 4),
    _case("tiny node-variant", "node-variant", "sbm", 15, 3, 2, 2, 4),
]
CASES = [case for case in ALL_CASES if case.group != "tiny"]
QUICK = ("small 5->5", "medium", "large B=8", "training F=8", "polynomial 5->5")


def select(names: list[str]) -> list[Case]:
    """Cases by name or by group, in the order of the table."""
    known = {name for case in ALL_CASES for name in (case.name, case.group)}
    unknown = [name for name in names if name not in known]
    if unknown:
        groups = list(dict.fromkeys(case.group for case in CASES))
        raise ValueError(
            f"cases has {', '.join(unknown)}; expected groups ({', '.join(groups)}) or names such as {CASES[0].name!r}"
            f"{did_you_mean(unknown[0], known)}"
        )
    return [case for case in ALL_CASES if case.name in names or case.group in names]


class Problem:
    """The numbers of one case in one dtype.

    Attributes
    ----------
    S : csr_array (N, N)
        Off the diagonal; its weights matter to polynomial and node-variant filters.
    indptr, indices, rows : the support of I + S by rows, and the row of every entry
    arrays : dict
        phi, x, grad_y; for training phi, weight, bias, x, label; node-variant filters also have nodes and copied.
    """

    def __init__(self, case: Case, dtype: str, S: Any, arrays: dict[str, Array]) -> None:
        self.case, self.dtype = case, np.dtype(dtype)
        self.S = sparse.csr_array(S)
        self.arrays = arrays
        self.indptr, self.indices = arrays["indptr"], arrays["indices"]
        self.rows = np.repeat(np.arange(case.N), np.diff(self.indptr))

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    @property
    def nnz(self) -> int:
        return len(self.indices)

    def graph(self) -> ev.Graph:
        return ev.Graph(self.S)


def make_graph(case: Case) -> ev.Graph:
    if case.graph == "sbm":
        graph, _ = ev.generators.stochastic_block_model(case.N, 5, 0.8, 0.2, rng=0)
    else:
        graph = ev.generators.random_directed(case.N, degree=10, rng=0)
    return ev.Graph(graph.S * (case.N / graph.S.nnz))  # powers of S neither explode nor vanish


def make_problem(case: Case, dtype: str, graph: ev.Graph | None = None) -> Problem:
    graph = graph or make_graph(case)
    rng = np.random.default_rng(1)
    F, G, K, B, N = case.F, case.G, case.K, case.B, case.N

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32).astype(dtype)

    arrays: dict[str, Array] = {"indptr": graph.indptr, "indices": graph.indices, "x": normal(B, G, N)}
    if case.kind == "training":
        params = network(case, graph).init(1, dtype=dtype)
        arrays |= {"phi": params["0.phi"], "weight": params["2.weight"], "bias": params["2.bias"]}
        arrays["label"] = rng.integers(0, case.classes, B)
        return Problem(case, dtype, graph.S, arrays)
    arrays["grad_y"] = normal(B, F, N)
    if case.kind == "edge-variant":
        arrays["phi"] = normal(K, F, G, graph.nnz) / 4
    elif case.kind == "polynomial":
        arrays["phi"] = normal(K + 1, F, G)
    else:
        arrays["phi"] = normal(K + 1, F, G, case.privileged)
        arrays["nodes"] = ev.selection.by_degree(graph)[: case.privileged]
        arrays["copied"] = ev.selection.nearest_privileged(graph, arrays["nodes"])
    return Problem(case, dtype, graph.S, arrays)


# ---- evref's own objects ---------------------------------------------------------------------------------------------
def network(case: Case, graph: ev.Graph) -> ev.Network:
    filt = ev.EdgeVariant(graph, case.K, case.G, case.F)
    return ev.Network([filt, ev.ReLU(), ev.Dense((case.F, case.N), outputs=case.classes)])


def make_filter(p: Problem, graph: ev.Graph) -> ev.Filter:
    sizes = (graph, p.case.K, p.case.G, p.case.F)
    if p.case.kind == "edge-variant":
        return ev.EdgeVariant(*sizes)
    return ev.Polynomial(*sizes) if p.case.kind == "polynomial" else ev.NodeVariant(*sizes, nodes=p["nodes"])


# ---- files: the parent writes a problem and its answer, the children read them ---------------------------------------
def save(p: Problem, expected: Results, folder: Path) -> None:
    (folder / "case.json").write_text(json.dumps({"case": asdict(p.case), "dtype": p.dtype.name}), encoding="utf-8")
    parts = {"data": p.S.data, "columns": p.S.indices, "starts": p.S.indptr}
    for prefix, arrays in (("S", parts), ("array", p.arrays), ("expected", expected)):
        for name, array in arrays.items():
            np.save(folder / f"{prefix}.{name}.npy", array)


def load(folder: Path) -> Problem:
    about = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    case, parts = Case(**about["case"]), load_arrays(folder, "S")
    S = sparse.csr_array((parts["data"], parts["columns"], parts["starts"]), shape=(case.N, case.N))
    return Problem(case, about["dtype"], S, load_arrays(folder, "array"))


def load_arrays(folder: Path, prefix: str) -> dict[str, Array]:
    return {path.name.split(".")[1]: np.load(path) for path in sorted(folder.glob(f"{prefix}.*.npy"))}
