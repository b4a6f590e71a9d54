"""Broken shifts in every filter that takes any S: loops, degrees, the spectrum or a sign wrong on the way to S.

The right S is made of weights W by one of the usual normalisations; what the broken layer makes of W is written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from broken_base import Registry, raw, typical, with_S
from right_layers import weights

Array = np.ndarray
Make = Callable[[Array], Array]
BROKEN = Registry()


def eye(W: Array) -> Array:
    return np.eye(len(W))


def by_roots(W: Array) -> Array:
    """D^(-1/2) W D^(-1/2)."""
    d = W.sum(axis=1)
    return W / np.sqrt(np.outer(d, d))


def by_rows(W: Array) -> Array:
    return W / W.sum(axis=1, keepdims=True)


def without_loops(W: Array) -> Array:
    return W - np.diag(np.diag(W))


def largest(A: Array) -> float:
    return float(np.abs(np.linalg.eigvals(A)).max())


def laplacian(W: Array) -> Array:
    return np.diag(W.sum(axis=1)) - W


def of_raw(make: Make) -> Any:
    return with_S(lambda reference: make(raw(reference)))


def of_S(make: Make) -> Any:
    return with_S(lambda reference: make(weights(reference)))


POLYNOMIALS = ("polynomial", "tagcn", "chebyshev", "gcn", "dcnn", "selection_gcnn", "node_variant")
HYBRIDS = ("hybrid_edge_variant", "critical_edge")
ALL = (*POLYNOMIALS, *HYBRIDS, "arma", "cayley")

# ---- self-loops ------------------------------------------------------------------------------------------------------
LOOPS: dict[str, Make] = {
    "added, S + I": lambda S: S + eye(S),
    "left out": without_loops,
    "doubled": lambda S: S + np.diag(np.diag(S)),
}
for _i, _name in enumerate(ALL):
    _words = list(LOOPS)[_i % 3]
    BROKEN.add("self-loops", _name, f"{_words} (S as given)", typical(_name), of_S(LOOPS[_words]))
for _name in ("polynomial", "tagcn", "cayley"):
    _shift = "normalized_laplacian" if _name == "cayley" else "symmetric_adjacency"
    _whole: Make = (lambda A: eye(A) - A) if _name == "cayley" else (lambda A: A)
    for _words, _make in {
        "in a normalisation that excludes them": lambda W: by_roots(W + eye(W)),
        "removed before the normalisation": lambda W: by_roots(without_loops(W)),
    }.items():
        BROKEN.add(
            "self-loops",
            _name,
            _words,
            typical(_name, "undirected, one loop", _shift),
            of_raw(lambda W, make=_make, whole=_whole: whole(make(W))),
        )
for _words, _make in {
    "in the degrees alone": lambda W: W / np.sqrt(np.outer(W.sum(1) + 1, W.sum(1) + 1)),
    "not in the degrees": lambda W: (W + eye(W)) / np.sqrt(np.outer(W.sum(1), W.sum(1))),
}.items():
    BROKEN.add("self-loops", "gcn", _words, typical("gcn", "undirected, one loop", "gcn"), of_raw(_make))
BROKEN.add(
    "self-loops",
    "gcn",
    "only where there is none (add_remaining_self_loops)",
    typical("gcn", "undirected, one loop", "gcn"),
    of_raw(lambda W: by_roots(W + np.diag(np.diag(W) == 0))),
)
BROKEN.add(
    "self-loops",
    "dcnn",
    "added before the walk",
    typical("dcnn", shift="random_walk"),
    of_raw(lambda W: by_rows(W + eye(W))),
)
BROKEN.add(
    "self-loops",
    "chebyshev",
    "added before the Laplacian",
    typical("chebyshev", "undirected", "scaled_laplacian"),
    of_raw(lambda W: 2 * (eye(W) - by_roots(W + eye(W))) / largest(eye(W) - by_roots(W + eye(W))) - eye(W)),
)

WITHOUT: dict[str, Make] = {
    "W itself, no loops and no normalisation": lambda W: W,
    "D^-1 W without loops": lambda W: W / W.sum(axis=1, keepdims=True),
    "D^-1/2 W without loops": lambda W: W / np.sqrt(W.sum(axis=1, keepdims=True)),
    "W D^-1/2 without loops": lambda W: W / np.sqrt(W.sum(axis=0)),
    "D^-1 W D^-1 without loops": lambda W: W / np.outer(W.sum(1), W.sum(1)),
}
for _i, (_words, _make) in enumerate(WITHOUT.items()):
    _graph = "undirected, one loop" if _i % 2 else "undirected"
    BROKEN.add("self-loops", "gcn", _words, typical("gcn", _graph, "gcn", bias=_i > 2), of_raw(_make))
BROKEN.add(
    "self-loops",
    "polynomial",
    "W itself for GCN's matrix",
    typical("polynomial", "undirected", "gcn"),
    of_raw(WITHOUT["W itself, no loops and no normalisation"]),
)

# ---- degree ----------------------------------------------------------------------------------------------------------
WALKS: dict[str, Make] = {
    "by columns": lambda W: W / W.sum(axis=0),
    "rows' sums for columns' (missing keepdims)": lambda W: W / W.sum(axis=1),
    "inverted, D A": lambda W: W.sum(axis=1, keepdims=True) * W,
    "both sides by roots": by_roots,
    "not normalised": lambda W: W,
}
ONE_SIDED: dict[str, Make] = {
    "D^-1/2 A": lambda A: A / np.sqrt(A.sum(axis=1, keepdims=True)),
    "A D^-1/2": lambda A: A / np.sqrt(A.sum(axis=0)),
}
for _words, _make in ONE_SIDED.items():
    for _name in ("gcn", "polynomial", "tagcn", "arma"):
        _loops = eye if _name == "gcn" else np.zeros_like
        BROKEN.add(
            "degree",
            _name,
            f"{_words}, one side only",
            typical(_name, "undirected, one loop", "gcn" if _name == "gcn" else "symmetric_adjacency"),
            of_raw(lambda W, make=_make, loops=_loops: make(W + loops(W))),
        )
    BROKEN.add(
        "degree",
        "chebyshev",
        f"{_words} in the Laplacian",
        typical("chebyshev", "undirected", "scaled_laplacian"),
        of_raw(lambda W, make=_make: 2 * (eye(W) - make(W)) / largest(eye(W) - make(W)) - eye(W)),
    )
for _i, _name in enumerate(("polynomial", "node_variant", "selection_gcnn", *HYBRIDS, "arma", "tagcn")):
    for _words in (list(WALKS)[_i % 5], list(WALKS)[(_i + 2) % 5]):
        BROKEN.add("degree", _name, f"{_words}, walk", typical(_name, shift="random_walk"), of_raw(WALKS[_words]))
for _name in ("polynomial", "gcn"):
    BROKEN.add("degree", _name, "D^-1 S where S is meant", typical(_name), of_S(by_rows))
    BROKEN.add("degree", _name, "D^-1/2 S D^-1/2 where S is meant", typical(_name), of_S(by_roots))
BROKEN.add(
    "degree",
    "arma",
    "root forgotten",
    typical("arma", "undirected", "symmetric_adjacency"),
    of_raw(by_rows),
)
BROKEN.add(
    "degree",
    "polynomial",
    "the normalised Laplacian for D - W",
    typical("polynomial", "undirected", "laplacian"),
    of_raw(lambda W: eye(W) - by_roots(W)),
)
BROKEN.add(
    "degree",
    "polynomial",
    "W for D - W",
    typical("polynomial", "undirected", "laplacian"),
    of_raw(lambda W: W),
)

# ---- spectrum-scale --------------------------------------------------------------------------------------------------
SCALES: dict[str, Make] = {
    "not divided by lambda_max": lambda W: W,
    "divided by 2": lambda W: W / 2,
    "divided by the largest row sum": lambda W: W / W.sum(axis=1).max(),
}
for _i, _name in enumerate(
    ("polynomial", "tagcn", "dcnn", "gcn", "selection_gcnn", "node_variant", *HYBRIDS, "arma", "cayley")
):
    _words = list(SCALES)[_i % 3]
    BROKEN.add("spectrum-scale", _name, _words, typical(_name, shift="normalized_adjacency"), of_raw(SCALES[_words]))
BROKEN.add(
    "spectrum-scale",
    "arma",
    "divided by lambda_max where S is meant",
    typical("arma"),
    of_S(lambda S: S / largest(S)),
)
BROKEN.add(
    "spectrum-scale",
    "chebyshev",
    "L / lambda_max",
    typical("chebyshev", "undirected", "scaled_laplacian"),
    of_raw(lambda W: (eye(W) - by_roots(W)) / largest(eye(W) - by_roots(W))),
)
BROKEN.add(
    "spectrum-scale",
    "cayley",
    "2 L / lambda_max - I for L",
    typical("cayley", "undirected", "normalized_laplacian"),
    of_raw(lambda W: 2 * (eye(W) - by_roots(W)) / largest(eye(W) - by_roots(W)) - eye(W)),
)

HANDED: list[tuple[str, str, Make]] = [
    ("spectrum-scale", "D^-1/2 W D^-1/2 for the scaled Laplacian", by_roots),
    ("self-loops", "GCN's matrix for the scaled Laplacian", lambda W: by_roots(W + eye(W))),
    ("degree", "W for the scaled Laplacian", lambda W: W),
    ("spectrum-scale", "lambda_max of W", lambda W: 2 * (eye(W) - by_roots(W)) / largest(W) - eye(W)),
    ("spectrum-scale", "lambda_max of D^-1/2 W D^-1/2", lambda W: 2 * (eye(W) - by_roots(W)) - eye(W)),
]
for _mistake, _words, _make in HANDED:
    for _graph in ("undirected", "undirected, one loop"):
        _reference = typical("chebyshev", _graph, "scaled_laplacian")
        BROKEN.add(_mistake, "chebyshev", f"{_words}, {_graph}", _reference, of_raw(_make))
for _name in ("chebyshev", "polynomial"):
    for _shift in ("normalized_laplacian", "laplacian"):
        _reference = typical(_name, "undirected", _shift)
        BROKEN.add("degree", _name, f"D^-1/2 W D^-1/2 for the {_shift}", _reference, of_raw(by_roots))
        BROKEN.add("self-loops", _name, f"GCN's matrix for the {_shift}", _reference, of_raw(HANDED[1][2]))

# ---- sign ------------------------------------------------------------------------------------------------------------
for _name in ALL:
    BROKEN.add(
        "sign",
        _name,
        "W - D for D - W",
        typical(_name, "undirected", "laplacian"),
        of_raw(lambda W: -laplacian(W)),
    )
BROKEN.add(
    "sign",
    "chebyshev",
    "A - I for I - A",
    typical("chebyshev", "undirected", "normalized_laplacian"),
    of_raw(lambda W: by_roots(W) - eye(W)),
)
