"""Random graphs, and on each a random configuration of any filter of the catalogue or of a network of them.

    filt = random_reference("cayley", "isolated node", rng)

Graphs have 1 to 12 nodes. `GRAPHS` names the kinds; weights are drawn between 0.2 and 1.5, of both signs in "negative
weights", and scaled so that powers of S stay near the size of S where nothing else is said. Every argument that a
constructor has is drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import evref as ev

Array = np.ndarray
Rng = np.random.Generator
NETWORK = "network"
SHIFTS = ("gcn", "laplacian", "normalized_laplacian", "scaled_laplacian", "normalized_adjacency", "symmetric_adjacency")
WITH_ZEROTH = ("edge_variant", "parallel_edge_variant", "shift_invariant_edge_variant")
ON_EIGENVECTORS = ("spectral", "shift_invariant_edge_variant")


# ---- graphs ----------------------------------------------------------------------------------------------------------
def _weights(rng: Rng, n: int, share: float = 0.4) -> Array:
    """Each pair of different nodes with probability `share`, S[i, j] weighs j -> i."""
    S = rng.uniform(0.2, 1.5, (n, n)) * (rng.random((n, n)) < share)
    np.fill_diagonal(S, 0)
    return S


def _undirected(rng: Rng, n: int) -> Array:
    upper = np.triu(_weights(rng, n, 0.5), 1)
    return upper + upper.T


def _self_loops(rng: Rng, n: int) -> Array:
    return _weights(rng, n) + np.diag(rng.uniform(0.3, 0.9, n) * (rng.random(n) < 0.6))


def _two_components(rng: Rng, n: int) -> Array:
    S, half = _weights(rng, n, 0.7), n // 2
    S[:half, half:] = S[half:, :half] = 0
    return S


def _isolated(rng: Rng, n: int) -> Array:
    S, alone = _weights(rng, n, 0.6), rng.integers(n)
    S[alone] = S[:, alone] = 0
    return S


def _sources_and_sinks(rng: Rng, n: int) -> Array:
    """No cycle: the powers of S end, and no filter that needs eigenvectors is defined on it."""
    return np.tril(_weights(rng, n, 0.7), -1)


def _regular(rng: Rng, n: int) -> Array:
    """A ring of weight 1: degrees are equal and eigenvalues repeated."""
    ring = np.roll(np.eye(n), 1, axis=0) * (n > 1)
    return np.minimum(ring + ring.T, 1.0) * (1 - np.eye(n))


def _signs(rng: Rng, n: int) -> Array:
    return _self_loops(rng, n) * rng.choice([-1.0, 1.0], (n, n))


WEIGHTS: dict[str, Callable[[Rng, int], Array]] = {
    "directed": _weights,
    "undirected": _undirected,
    "self-loops": _self_loops,
    "two components": _two_components,
    "isolated node": _isolated,
    "sources and sinks": _sources_and_sinks,
    "regular": _regular,
    "negative weights": _signs,
    "normalised": _undirected,
    "no edges": lambda rng, n: np.zeros((n, n)),
    "one node": lambda rng, n: np.zeros((1, 1)),
    "one node, self-loop": lambda rng, n: np.full((1, 1), rng.uniform(0.3, 0.9)),
    "large weights": lambda rng, n: 30 * _weights(rng, n),
    "tiny weights": lambda rng, n: 1e-5 * _weights(rng, n),
}
GRAPHS = tuple(WEIGHTS)


def random_graph(kind: str, rng: Rng) -> ev.Graph:
    """A graph of a kind in `GRAPHS`."""
    S = WEIGHTS[kind](rng, int(rng.integers(2, 13)))
    radius = np.abs(S).sum(axis=1).max()
    if kind not in ("regular", "normalised", "large weights", "tiny weights") and radius > 2:
        S *= 2 / radius
    graph = ev.Graph(S)
    if kind == "normalised":
        names = SHIFTS[:3] if graph.n_edges == 0 or (S.sum(axis=1) == 0).any() else SHIFTS
        return graph.with_shift(names[rng.integers(len(names))])
    return graph


def _for_eigenvectors(graph: ev.Graph) -> ev.Graph:
    """The graph itself, or (S + S^T) / 2 where S has no usable eigenvectors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ev.fourier_basis(graph)
    except ev.NotDiagonalizable:
        return ev.Graph((graph.S + graph.S.T) / 2)
    return graph


# ---- configurations --------------------------------------------------------------------------------------------------
def _subset(rng: Rng, n: int, least: int = 0) -> Array:
    return np.sort(rng.choice(n, int(rng.integers(least, n + 1)), replace=False))


def _flag(rng: Rng) -> bool:
    return bool(rng.integers(2))


def _one_of(rng: Rng, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def _mapping(rng: Rng, n_nodes: int, chosen: int) -> Array:
    """C_B with zeros and ones anywhere."""
    return rng.integers(2, size=(n_nodes, chosen))


def _kernel(graph: ev.Graph, n_basis: int) -> Array:
    """Cosines of the eigenvalue: equal on conjugates and on equal eigenvalues."""
    lam = ev.fourier_basis(graph).eigenvalues
    return np.cos(np.abs(lam)[:, None] * np.arange(n_basis)) + lam.real[:, None]


def _config(name: str, graph: ev.Graph, rng: Rng) -> dict[str, Any]:
    n, order = graph.n_nodes, int(rng.integers(0, 5))
    zeroth = _one_of(rng, "none", "identity", *(["diagonal"] if name in WITH_ZEROTH[:2] else []))
    if name in WITH_ZEROTH:
        order = max(order, int(zeroth == "none"))  # an empty sum is refused
    if name == "edge_variant":
        return {"order": order, "zeroth": zeroth, "self_loops": _flag(rng)}
    if name == "parallel_edge_variant":
        return {"order": order, "zeroth": zeroth, "terms": int(rng.integers(1, 4))}
    if name == "node_variant":
        nodes = None if _flag(rng) else _subset(rng, n, 1)
        count = n if nodes is None else len(nodes)
        return {"order": order, "nodes": nodes, "mapping": _mapping(rng, n, count) if rng.random() < 0.3 else None}
    if name == "hybrid_edge_variant":
        nodes = None if rng.random() < 0.3 else _subset(rng, n)
        return {"order": order, "nodes": nodes, "reading": _one_of(rng, "text", "equation", "authors_code")}
    if name == "critical_edge":
        return {"order": order, "edges": _subset(rng, graph.nnz)}
    if name == "selection_gcnn":
        nodes_in = _subset(rng, n, 1)
        return {"order": order, "nodes_in": nodes_in, "nodes_out": nodes_in[_subset(rng, len(nodes_in), 1)]}
    if name == "arma":
        return {"iterations": int(rng.integers(1, 5)), "stacks": int(rng.integers(1, 4)), "shared": _flag(rng)}
    if name == "cayley":
        return {"order": int(rng.integers(1, 4)), "iterations": _one_of(rng, None, 0, 1, 3)}
    if name == "ecc":
        attributes = rng.uniform(-1, 1, (graph.nnz, int(rng.integers(1, 4)))) if _flag(rng) else None
        activation = _one_of(rng, "tanh", "relu")
        return {"attributes": attributes, "hidden": _one_of(rng, (), (4,), (5, 3)), "activation": activation}
    if name == "monet":
        pseudo = rng.uniform(0, 1, (graph.nnz, int(rng.integers(1, 4)))) if _flag(rng) else None
        covariance = _one_of(rng, "diagonal", "full")
        return {"pseudo": pseudo, "kernels": int(rng.integers(1, 5)), "covariance": covariance}
    if name == "attention":
        return {"heads": int(rng.integers(1, 4)), "slope": _one_of(rng, 0.2, 0.01, 0.0, 1.0)}
    if name == "spectral":
        n_basis = int(rng.integers(1, 7))
        return {"n_basis": n_basis, "kernel": _kernel(graph, n_basis) if rng.random() < 0.3 else "spline"}
    if name == "shift_invariant_edge_variant":
        return {
            "order": order,
            "zeroth": zeroth,
            "repeated": _one_of(rng, "free", "tied"),
        }
    return {} if name == "gcn" else {"order": order}


def _features(name: str, config: dict[str, Any], rng: Rng, wide: bool) -> dict[str, int]:
    F, G = ((int(rng.integers(1, 5)) if wide else 1) for _ in range(2))
    if name == "dcnn":
        return {"in_features": G}
    if name == "attention":
        return {"in_features": G, "out_features": config["heads"] * F}
    return {"in_features": G, "out_features": F}


def _filter(name: str, graph: ev.Graph, rng: Rng, wide: bool, in_features: int | None = None) -> Any:
    if name in ("tagcn", "dcnn"):
        graph = ev.Graph(abs(graph.S))
    if name in ON_EIGENVECTORS:
        graph = _for_eigenvectors(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = _config(name, graph, rng)
        config |= _features(name, config, rng, wide) | {"bias": _flag(rng)}
        if name in ("ecc", "monet"):
            config |= {
                "aggregation": _one_of(rng, "sum", "mean"),
                "root": _flag(rng),
                "self_entries": _flag(rng),
            }
        config |= {} if in_features is None else {"in_features": in_features}
        return ev.catalogue[name](graph, **config)


def _network(graph: ev.Graph, rng: Rng) -> ev.Network:
    """One or two filters with activations behind them, and often a readout."""
    names = [name for name in ev.catalogue if name not in ON_EIGENVECTORS]
    layers: list[Any] = []
    features = None
    for _ in range(int(rng.integers(1, 3))):
        filt = _filter(names[rng.integers(len(names))], graph, rng, True, features)
        on, features = filt.graph, filt.out_features
        pick = int(rng.integers(7))
        plain = [ev.ReLU(), ev.Tanh(), ev.Sigmoid(), ev.Identity(), ev.LeakyReLU(0.2)]
        picking = [ev.MaxActivation, ev.MedianActivation]
        layers += [filt, plain[pick] if pick < 5 else picking[pick - 5](on, features=features, hops=2)]
    if _flag(rng):
        layers.append(ev.Dense((features, graph.n_nodes), outputs=int(rng.integers(1, 4)), bias=_flag(rng)))
    return ev.Network(layers)


def random_reference(name: str, kind: str, rng: Rng, wide: bool = True) -> Any:
    """A filter of that name, or a network, on a graph of that kind; one feature in and out where not `wide`."""
    if name == NETWORK:
        graph = random_graph(kind, rng)
        return _network(ev.Graph(abs(graph.S)), rng)
    return _filter(name, random_graph(kind, rng), rng, wide)
