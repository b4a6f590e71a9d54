"""What the paper says of the edge-variant filter itself: R1, R2, R3, R12, R14."""

from __future__ import annotations

import numpy as np

from ...filters import EdgeVariant
from ...filters.edge_variant import Zeroth
from ...graph import Graph, generators
from ..claims import Outcome, claim


def _instance(order: int = 3, zeroth: Zeroth = "none", n_nodes: int = 12) -> tuple[EdgeVariant, dict, np.ndarray]:
    """An EV filter on a random directed graph with parameters and a signal of size one."""
    rng = np.random.default_rng(20)
    graph = generators.erdos_renyi(n_nodes, 0.3, rng=rng, directed=True)
    filt = EdgeVariant(graph, order, zeroth=zeroth)
    params = {name: rng.standard_normal(shape) for name, shape in filt.parameter_shapes().items()}
    return filt, params, rng.standard_normal(n_nodes)


def _dense(filt: EdgeVariant, params: dict) -> list[np.ndarray]:
    """Phi^(1), ..., Phi^(K) as dense matrices."""
    return [filt.graph.to_csr(phi).toarray() for phi in params["phi"][:, 0, 0]]


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference relative to the largest entry of b."""
    return float(np.abs(a - b).max() / np.abs(b).max())


@claim(
    "R1",
    "eq. (EVout, 7)",
    "the left sum (from k=0) is the right sum (from k=1) plus x: two filters, not one",
    "fails as printed",
)
def zeroth_term() -> Outcome:
    filt, params, x = _instance()
    graph, order = filt.graph, filt.order
    right = filt.forward(params, x)[0]
    left = EdgeVariant(graph, order, zeroth="identity").forward(params, x)[0]
    ones = {**params, "phi0": np.ones((1, 1, graph.n_nodes))}
    diagonal = EdgeVariant(graph, order, zeroth="diagonal").forward(ones, x)[0]
    apart, gap = _distance(left, right), _distance(left - right, x)
    return Outcome(
        passed=apart > 0.01 and gap < 1e-13 and np.array_equal(diagonal, left),
        figure=f"left and right differ by {apart:.2f}; left - right = x to {gap:.0e}; a diagonal of ones = left",
        values={"left_vs_right": apart, "difference_vs_x": gap},
        counterexample=f"any x != 0; here a random directed graph of {graph.n_nodes} nodes",
    )


@claim(
    "R2",
    "node-wise recursion after eq. (stateEV, 5)",
    "w_i^(k) sums phi_ij^(k) w_j^(k-1); the printed phi^(k-1) is a slip of the index",
    "fails as printed",
)
def index_of_the_recursion() -> Outcome:
    filt, params, x = _instance(order=2)
    graph, phi = filt.graph, params["phi"][:, 0, 0]
    matrices = _dense(filt, params)
    expected = matrices[1] @ (matrices[0] @ x)  # w^(2) of the matrix form, eq. (stateEV, 5)

    def node_wise(parameters_of_step: list[int]) -> np.ndarray:
        w = x
        for k in parameters_of_step:
            w = np.array(
                [
                    sum(phi[k - 1, p] * w[graph.indices[p]] for p in range(graph.indptr[i], graph.indptr[i + 1]))
                    for i in range(graph.n_nodes)
                ]
            )
        return w

    mended = _distance(node_wise([1, 2]), expected)
    # Phi^(0) is not defined, so that the printed form gives no w^(1) at all; take w^(1) as given and use it for w^(2)
    printed = _distance(node_wise([1, 1]), expected)
    return Outcome(
        passed=mended < 1e-13 and printed > 0.01,
        figure=f"against eq. (stateEV, 5): phi^(k) to {mended:.0e}, phi^(k-1) off by {printed:.2f} (no phi^(0))",
        values={"phi_k": mended, "phi_k_minus_1": printed},
        counterexample="k = 2 on a random directed graph",
    )


@claim(
    "R3",
    "Phi^(k:1) before eq. (EVout, 7)",
    "the product is Phi^(k)...Phi^(1), newest on the left; the other order agrees only if the Phi commute",
    "holds under a condition",
)
def order_of_the_product() -> Outcome:
    filt, params, x = _instance()
    matrices = _dense(filt, params)

    def summed(newest_left: bool) -> np.ndarray:
        product, total = np.eye(len(x)), np.zeros(len(x))
        for matrix in matrices:
            product = matrix @ product if newest_left else product @ matrix
            total += product @ x
        return total

    y = filt.forward(params, x)[0]
    newest, oldest = _distance(y, summed(True)), _distance(y, summed(False))

    # polynomials in one S commute: there both orders are the same filter
    S = filt.graph.shift_values()
    identity = np.zeros(filt.graph.nnz)
    identity[filt.graph.diagonal] = 1.0
    commuting = {"phi": np.stack([0.5 * identity + S, 2.0 * identity - S, identity + 3.0 * S])[:, None, None]}
    matrices = _dense(filt, commuting)
    condition = _distance(filt.forward(commuting, x)[0], summed(False))
    return Outcome(
        passed=newest < 1e-13 and oldest > 0.01 and condition < 1e-12,
        figure=f"newest left to {newest:.0e}; oldest left off by {oldest:.2f}, to {condition:.0e} if the Phi commute",
        values={"newest_left": newest, "oldest_left": oldest, "oldest_left_commuting": condition},
        counterexample="three random Phi on a directed graph",
    )


@claim("R12", "section II-A", "S[i, j] weighs the edge j -> i, in every constructor and in every filter")
def direction_of_the_shift() -> Outcome:
    rng = np.random.default_rng(3)
    source, target = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 4, 4])
    weight = rng.uniform(1, 2, len(source))
    from_edges = Graph.from_edges(5, source, target, weight)
    A = np.zeros((5, 5))
    A[source, target] = weight  # as networkx and PyGSP store it
    others = [
        Graph.from_adjacency(A, direction="source-target"),
        Graph.from_adjacency(A.T, direction="target-source"),
        Graph.from_edge_index(np.stack([source, target]), 5, weight),
    ]
    arrives = 0
    for a, b in zip(source, target, strict=True):  # a delta at a is heard at b, and not the other way
        reached = from_edges.S @ np.eye(5)[a]
        arrives += reached[b] != 0 and (from_edges.S @ np.eye(5)[b])[a] == 0
    graph = generators.erdos_renyi(12, 0.3, rng=rng, directed=True)
    undirected = generators.erdos_renyi(12, 0.3, rng=rng)
    x = rng.standard_normal(12)
    xS, both = _distance(graph.S.T @ x, graph.S @ x), _distance(undirected.S.T @ x, undirected.S @ x)
    return Outcome(
        passed=all(other == from_edges for other in others) and arrives == len(source) and xS > 0.01 and both == 0,
        figure=f"4 constructors agree; {arrives} of {len(source)} edges carry a delta; xS and Sx differ by {xS:.2f} "
        f"on a directed graph, {both:.0f} on an undirected one",
        values={"edges": len(source), "carried": int(arrives), "xS_vs_Sx": xS, "xS_vs_Sx_undirected": both},
    )


@claim(
    "R14",
    "after eq. (EVout, 7) and eq. (evConv, 9)",
    "EV: K F G (M + N) parameters, all of them alive, and as many multiply-adds; fewer than N^2 only on sparse graphs",
    "holds under a condition",
)
def counts() -> Outcome:
    rng = np.random.default_rng(4)
    block, _ = generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=rng)
    graphs = {
        "directed": generators.erdos_renyi(15, 0.2, rng=rng, directed=True),
        "undirected": generators.erdos_renyi(15, 0.2, rng=rng),
        "self-loops": Graph(generators.path(6).S + np.eye(6)),
        "block model": block,
    }
    exact, alive = True, True
    for graph in graphs.values():
        for K, F, G in [(1, 1, 1), (3, 2, 2), (2, 3, 1)]:
            filt = EdgeVariant(graph, K, G, F)
            expected = K * F * G * (graph.n_edges + graph.n_nodes)
            exact &= filt.n_parameters == expected == filt.n_operations()
            params = {"phi": rng.uniform(0.5, 1, (K, F, G, graph.nnz))}  # positive: no gradient cancels by chance
            y, tape = filt.forward(params, rng.uniform(0.5, 1, (2, G, graph.n_nodes)))
            alive &= bool((filt.backward(params, tape, np.ones_like(y))[0]["phi"] != 0).all())
    sparse, dense = EdgeVariant(generators.path(50), 4), EdgeVariant(block, 4)
    return Outcome(
        passed=exact and alive and sparse.n_parameters < 2500 < dense.n_parameters,
        figure=f"exact on {3 * len(graphs)} filters; path of 50 nodes, K=4: {sparse.n_parameters} < N^2 = 2500; "
        f"the paper's own block model: {dense.n_parameters} > 2500",
        values={"path": sparse.n_parameters, "block_model": dense.n_parameters, "N_squared": 2500},
        counterexample="stochastic block model, N=50, p=0.8/0.2, K=4 (section IV-A)",
    )
