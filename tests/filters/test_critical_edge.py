"""What is particular to the critical-edge hybrid: which entries it has, its limits, its map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, graphs, normal, random_params

import evref as ev

each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())


def barbell() -> ev.Graph:
    """Two triangles joined by the edge 2 - 3."""
    return ev.Graph.from_edges(6, [0, 1, 2, 2, 3, 4, 5], [1, 2, 0, 3, 4, 5, 3], undirected=True)


def oracle(filt: ev.CriticalEdge, params: dict, pairs: list[tuple[int, int]], x: np.ndarray) -> np.ndarray:
    """Entries from the (source, target) pairs: the edges, and the diagonal at either end."""
    S = filt.graph.S.toarray()
    entries = sorted({(t, s) for s, t in pairs} | {(i, i) for pair in pairs for i in pair})
    y = np.zeros((len(x), filt.out_features, len(S)))
    for f in range(filt.out_features):
        for g in range(filt.in_features):
            E = np.zeros((filt.order, len(S), len(S)))
            for p, (i, j) in enumerate(entries):
                E[:, i, j] = params["phi"][:, f, g, p]
            H = sum(params["poly"][k, f, g] * np.linalg.matrix_power(S, k) for k in range(filt.order + 1))
            product = np.eye(len(S))
            for k in range(filt.order):
                product = E[k] @ product
                H = H + product
            y[:, f] += x[:, g] @ H.T
    return y


@given(graph=graphs(), order=st.integers(0, 3), seed=st.integers(0, 99))
def test_the_equation_in_loops(graph, order, seed):
    rng = np.random.default_rng(seed)
    pairs = ev.selection.edge_list(graph, np.flatnonzero(rng.random(graph.nnz) < 0.3))
    filt = ev.CriticalEdge(graph, order, 2, 2, edges=rng.permutation(pairs))
    params, x = random_params(filt, seed), normal(seed, 2, 2, graph.n_nodes)
    close(filt.forward(params, x)[0], oracle(filt, params, [tuple(map(int, p)) for p in pairs], x))
    ev.gradcheck.dot_test(filt, params, x).raise_if_failed()


@each_graph
def test_bridges_by_default(graph):
    filt = ev.CriticalEdge(graph, 2, 2, 2, bias=True)
    np.testing.assert_array_equal(filt.edges, ev.selection.bridges(graph))
    params, x = random_params(filt), normal(0, 2, 2, graph.n_nodes)
    ev.gradcheck.complex_step(filt, params, x, rtol=1e-10).raise_if_failed()


def test_exact_in_small_integers():
    """Only the bridge is weighed: 2 -> 3 by 10, node 3 itself by 1, in both steps."""
    graph = barbell()
    filt = ev.CriticalEdge(graph, 2, edges=[(2, 3)])
    assert ev.selection.edge_list(graph, filt.positions).tolist() == [[2, 2], [2, 3], [3, 3]]
    params = {"phi": np.tile([0.0, 10.0, 1.0], (2, 1)).reshape(2, 1, 1, 3), "poly": np.zeros((3, 1, 1))}
    x = np.array([0.0, 0, 1, 2, 0, 0])
    # w1_3 = 10 + 2, w2_3 = 12: node 2 has no self-weight, so that its state is zero after the first step
    np.testing.assert_array_equal(filt.forward(params, x)[0], [0, 0, 0, 24, 0, 0])


def test_the_default_hears_across_the_bridge():
    filt = ev.CriticalEdge(barbell(), 3)
    params = {**random_params(filt), "poly": np.zeros((4, 1, 1))}
    H = filt.matrix(params)[0, 0]
    assert {(int(i), int(j)) for i, j in np.argwhere(H != 0)} == {(2, 2), (2, 3), (3, 2), (3, 3)}


# ---- limits ----------------------------------------------------------------------------------------------------------
def test_no_critical_edge_is_the_polynomial():
    ring = ev.generators.cycle(5)
    filt = ev.CriticalEdge(ring, 3)
    assert filt.edges.size == 0 and filt.n_parameters == 4
    params, x = random_params(filt), normal(0, 2, 1, 5)
    y, tape = filt.forward(params, x)
    close(y, ev.NodeVariant(ring, 3, nodes=[0]).forward({"phi": params["poly"][..., None]}, x)[0])
    assert filt.backward(params, tape, y)[0]["phi"].size == 0
    assert isinstance(filt.to_edge_variant(params)[0], ev.EdgeVariant)


def test_a_tree_is_all_bridges():
    path = ev.generators.path(6)
    filt, full = ev.CriticalEdge(path, 2), ev.EdgeVariant(path, 2)
    params = random_params(filt)
    assert params["phi"].shape == full.parameter_shapes()["phi"]
    rest = {**params, "phi": np.zeros_like(params["phi"])}
    close(filt.matrix(params), full.matrix({"phi": params["phi"]}) + filt.matrix(rest))


# ---- map, counts -----------------------------------------------------------------------------------------------------
@given(graph=graphs(), order=st.integers(1, 3), seed=st.integers(0, 99))
def test_embedding_is_a_sum_of_two_recursions(graph, order, seed):
    filt = ev.CriticalEdge(graph, order, 1, 2, edges=graph.diagonal[:1], bias=True)
    params = random_params(filt, seed)
    ev_filt, ev_params = filt.to_edge_variant(params)
    assert ev_filt.terms == 2
    close(ev_filt.matrix(ev_params), filt.matrix(params), rtol=1e-10)
    x = normal(seed, 2, 1, graph.n_nodes)
    close(ev_filt.forward(ev_params, x)[0], filt.forward(params, x)[0], rtol=1e-10)


@given(graph=graphs(), order=st.integers(1, 3))
def test_every_edge_parameter_is_alive(graph, order):
    filt = ev.CriticalEdge(graph, order)
    assert filt.live_parameters()["phi"].all()
    params = {k: np.full(shape, 0.5) for k, shape in filt.parameter_shapes().items()}
    y, tape = filt.forward(params, np.ones((1, 1, graph.n_nodes)))
    assert (filt.backward(params, tape, np.ones_like(y))[0]["phi"] > 0).all()


def test_counts():
    filt = ev.CriticalEdge(barbell(), 2, 3, 5)
    assert filt.n_parameters == 5 * 3 * (2 * 4 + 3)
    assert filt.n_operations() == 5 * 3 * 2 * (4 + 4) + 3 * 2 * 14 + 5 * 3 * 3 * 6  # edges, shifts, coefficients


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"order": -1}, ValueError, "order is -1"),
        ({"order": 1, "edges": [(0, 3)]}, ValueError, "edges has 0 -> 3, which is no edge"),
        ({"order": 1, "edges": [0, 0]}, ValueError, "edges names an edge more than once"),
        ({"order": 1, "edges": [20]}, ValueError, "edges holds the index 20; expected 0 <= index < 20"),
        ({"order": 1, "edges": [[0, 1, 2]]}, ValueError, r"edges has shape \(1, 3\)"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.CriticalEdge(barbell(), **arguments)


def test_a_matrix_is_not_a_graph():
    with pytest.raises(TypeError, match=r"graph is numpy\.ndarray; expected an evref\.Graph \(Graph\.from_adjacency"):
        ev.CriticalEdge(np.eye(3), 2)
