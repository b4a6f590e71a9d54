"""What is particular to the hybrid edge-variant filter: its three readings, its limits, its counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, graphs, normal, random_params

import evref as ev

READINGS = ("text", "equation", "authors_code")
each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
each_reading = pytest.mark.parametrize("reading", READINGS)


def oracle(filt: ev.HybridEdgeVariant, params: dict, x: np.ndarray) -> np.ndarray:
    """Node by node, from the text: who has a parameter for whom is asked of the sets, not of the filter."""
    graph, B = filt.graph, {int(b) for b in filt.nodes}
    S = graph.S.toarray()
    N = graph.n_nodes
    entries = [(i, j) for i in range(N) for j in range(N) if S[i, j] != 0 or i == j]
    chosen = [(i, j) for i, j in entries if i in B or (filt.reading == "authors_code" and j in B)]
    y = np.zeros((len(x), filt.out_features, N))
    for b in range(len(x)):
        for f in range(filt.out_features):
            for g in range(filt.in_features):
                z = x[b, g]
                for k in range(filt.order + 1):
                    y[b, f] += params["poly"][k, f, g] * z
                    z = S @ z
                start = np.zeros(N)
                for r, node in enumerate(filt.nodes):
                    start[node] = params["phi0"][f, g, r] * x[b, g, node]
                y[b, f] += start
                w = x[b, g] if filt.reading == "text" else start
                for k in range(filt.order):
                    new = np.zeros(N)
                    for p, (i, j) in enumerate(chosen):
                        new[i] += params["phi"][k, f, g, p] * w[j]
                    w = new
                    y[b, f] += w
    return y


def privileged(graph: ev.Graph, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(graph.n_nodes)[:size]


@each_reading
@given(graph=graphs(), order=st.integers(0, 3), size=st.integers(0, 8), seed=st.integers(0, 99))
def test_the_equation_in_loops(reading, graph, order, size, seed):
    filt = ev.HybridEdgeVariant(graph, order, 2, 2, nodes=privileged(graph, size, seed), reading=reading)
    params, x = random_params(filt, seed), normal(seed, 2, 2, graph.n_nodes)
    y = oracle(filt, params, x)
    close(filt.forward(params, x)[0], y)
    close(np.einsum("fgij,bgj->bfi", filt.matrix(params), x), y)
    ev.gradcheck.dot_test(filt, params, x).raise_if_failed()


@pytest.mark.parametrize("size", [0, 1, 3])
@each_graph
@each_reading
def test_every_gradient_by_complex_step(reading, graph, size):
    """The example in the catalogue reads openly and has nearly all nodes; here the others."""
    filt = ev.HybridEdgeVariant(graph, 2, 2, 1, nodes=privileged(graph, size, 4), reading=reading, bias=True)
    params, x = random_params(filt), normal(1, 2, 2, graph.n_nodes)
    for backend in ("numpy", "numba"):
        with ev.use_backend(backend):
            ev.gradcheck.complex_step(filt, params, x, rtol=1e-10).raise_if_failed()


def test_exact_in_small_integers():
    graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])  # support (0,0) (1,0) (1,1) (2,1) (2,2)
    x = np.array([1.0, 10.0, 100.0])
    # poly: x + S x; phi0 = 7 at node 1 on x = 10; phi^(1) = (2, 5), phi^(2) = (4, 3) on the entries (1, 0), (1, 1)
    params = {
        "phi": np.array([[2.0, 5.0], [4.0, 3.0]]).reshape(2, 1, 1, 2),
        "phi0": np.array([[[7.0]]]),
        "poly": np.array([1.0, 1.0, 0.0]).reshape(3, 1, 1),
    }
    # text: w1 = 2*1 + 5*10 = 52, w2 = 4*0 + 3*52 = 156; equation: w0 = 70, w1 = 350, w2 = 1050
    for reading, steps in [("text", 52 + 156), ("equation", 350 + 1050)]:
        filt = ev.HybridEdgeVariant(graph, 2, nodes=[1], reading=reading)
        np.testing.assert_array_equal(filt.forward(params, x)[0], [1, 10 + 1 + 70 + steps, 100 + 10])
    filt = ev.HybridEdgeVariant(graph, 2, nodes=[1], reading="authors_code")
    assert ev.selection.edge_list(graph, filt.positions).tolist() == [[0, 1], [1, 1], [1, 2]]
    wide = {**params, "phi": np.array([[2.0, 5.0, 1.0], [4.0, 3.0, 1.0]]).reshape(2, 1, 1, 3)}
    np.testing.assert_array_equal(filt.forward(wide, x)[0], [1, 10 + 1 + 70 + 350 + 1050, 100 + 10 + 70 + 350])


# ---- limits ----------------------------------------------------------------------------------------------------------
@each_graph
@each_reading
def test_no_privileged_node_is_the_polynomial(reading, graph):
    filt = ev.HybridEdgeVariant(graph, 3, 2, 2, nodes=[], reading=reading)
    params, x = random_params(filt), normal(0, 3, 2, graph.n_nodes)
    assert params["phi"].size == params["phi0"].size == 0
    polynomial = ev.NodeVariant(graph, 3, 2, 2, nodes=[0])
    y, tape = filt.forward(params, x)
    close(y, polynomial.forward({"phi": params["poly"][..., None]}, x)[0])
    grads, _ = filt.backward(params, tape, y)
    assert grads["phi"].shape == params["phi"].shape and grads["phi0"].shape == params["phi0"].shape
    ev_filt, ev_params = filt.to_edge_variant(params)
    assert isinstance(ev_filt, ev.EdgeVariant)
    close(ev_filt.matrix(ev_params), filt.matrix(params))


@each_graph
@pytest.mark.parametrize(
    ("reading", "zeroth"), [("equation", "diagonal"), ("authors_code", "diagonal"), ("text", "none")]
)
def test_all_nodes_are_the_full_edge_variant_filter_and_the_polynomial(reading, zeroth, graph):
    filt, full = ev.HybridEdgeVariant(graph, 2, reading=reading), ev.EdgeVariant(graph, 2, zeroth=zeroth)
    params = random_params(filt)
    edges = {key: params[key] for key in full.parameter_shapes()}
    rest = {**params, "phi": np.zeros_like(params["phi"])}
    if zeroth == "diagonal":
        rest["phi0"] = np.zeros_like(params["phi0"])
    close(filt.matrix(params), full.matrix(edges) + filt.matrix(rest))


def test_order_zero():
    graph = GRAPHS["directed"]
    x = normal(0, 7)
    for reading in READINGS:
        filt = ev.HybridEdgeVariant(graph, 0, nodes=[2], reading=reading)
        params = random_params(filt)
        expected = params["poly"][0, 0, 0] * x
        expected[2] += params["phi0"][0, 0, 0] * x[2]
        close(filt.forward(params, x)[0], expected, rtol=1e-15)
        ev.gradcheck.dot_test(filt, params, x).raise_if_failed()
        ev_filt, ev_params = filt.to_edge_variant(params)
        close(ev_filt.matrix(ev_params), filt.matrix(params))


# ---- R11 -------------------------------------------------------------------------------------------------------------
def alive(filt: ev.Filter) -> dict[str, np.ndarray]:
    """By gradients: one positive draw is enough, nothing can cancel where S is positive."""
    rng = np.random.default_rng(0)
    params = {k: rng.uniform(0.5, 1, shape) for k, shape in filt.parameter_shapes().items()}
    y, tape = filt.forward(params, np.ones((1, *filt.in_shape)))
    grads, _ = filt.backward(params, tape, np.ones_like(y))
    return {k: (value != 0).reshape(filt.live_parameters()[k].shape) for k, value in grads.items()}


@each_reading
@given(graph=graphs(), order=st.integers(0, 4), size=st.integers(0, 8), seed=st.integers(0, 99))
def test_live_parameters_are_those_with_a_gradient(reading, graph, order, size, seed):
    positive = ev.Graph(abs(graph.S))
    filt = ev.HybridEdgeVariant(positive, order, nodes=privileged(graph, size, seed), reading=reading)
    live = filt.live_parameters()
    for key, value in alive(filt).items():
        np.testing.assert_array_equal(value, live[key], err_msg=key)


@pytest.mark.parametrize(("reading", "dead", "total"), [("equation", 12, 18), ("text", 8, 18), ("authors_code", 4, 30)])
def test_dead_parameters_on_a_path(reading, dead, total):
    filt = ev.HybridEdgeVariant(ev.generators.path(5), 3, nodes=[1, 3], reading=reading)
    live = filt.live_parameters()["phi"]
    assert (int((~live).sum()), live.size) == (dead, total)


def test_readings_differ_and_agree_where_they_should():
    graph = GRAPHS["undirected"]
    x = normal(0, 7)
    outputs = {}
    for reading in ("text", "equation"):
        filt = ev.HybridEdgeVariant(graph, 2, nodes=[1, 4], reading=reading)
        params = random_params(filt)
        outputs[reading] = filt.forward(params, x)[0], filt.forward({**params, "phi0": np.ones((1, 1, 2))}, x)[0]
    assert np.abs(outputs["text"][0] - outputs["equation"][0]).max() > 0.01
    assert np.abs(outputs["text"][1] - outputs["equation"][1]).max() > 0.01  # not the scale: neighbours are erased
    everyone = [ev.HybridEdgeVariant(graph, 2, reading=reading) for reading in ("text", "equation")]
    params = {**random_params(everyone[0]), "phi0": np.ones((1, 1, 7))}
    close(everyone[0].forward(params, x)[0], everyone[1].forward(params, x)[0], rtol=1e-14)


# ---- embedding -------------------------------------------------------------------------------------------------------
@each_reading
@given(graph=graphs(), order=st.integers(1, 3), size=st.integers(1, 8), seed=st.integers(0, 99))
def test_embedding_is_a_sum_of_recursions(reading, graph, order, size, seed):
    filt = ev.HybridEdgeVariant(graph, order, 2, 2, nodes=privileged(graph, size, seed), reading=reading, bias=True)
    params, x = random_params(filt, seed), normal(seed, 2, 2, graph.n_nodes)
    ev_filt, ev_params = filt.to_edge_variant(params)
    assert ev_filt.terms == (3 if reading == "text" else 2) and ev_filt.order == order
    close(ev_filt.matrix(ev_params), filt.matrix(params), rtol=1e-10)
    close(ev_filt.forward(ev_params, x)[0], filt.forward(params, x)[0], rtol=1e-10)


# ---- R14 -------------------------------------------------------------------------------------------------------------
@given(graph=graphs(), order=st.integers(0, 3), F=st.integers(1, 3), G=st.integers(1, 3), size=st.integers(0, 8))
def test_counts(graph, order, F, G, size):
    nodes = privileged(graph, size, 1)
    neighbors = np.diff(graph.indptr)[nodes] - 1
    filt = ev.HybridEdgeVariant(graph, order, G, F, nodes=nodes)
    assert filt.n_parameters == F * G * ((order + 1) + nodes.size + order * (neighbors + 1).sum())
    M, N = graph.S.nnz, graph.n_nodes
    part = order * (int((neighbors + 1).sum()) + N - nodes.size) if nodes.size and order else 0
    expected = F * G * (part + (order + 1) * N + N) + G * order * M
    assert filt.n_operations(2) == 2 * expected


def test_the_papers_bound_forgets_the_diagonal():
    ring = ev.generators.cycle(10)
    filt = ev.HybridEdgeVariant(ring, 2, nodes=[0, 3, 6])
    assert filt.n_parameters == 24 > 3 + 3 + 2 * 3 * 2 == 18


def test_init_scale_is_the_authors():
    params = ev.HybridEdgeVariant(ev.generators.complete(50), 4, 2, 9, nodes=np.arange(40)).init(rng=0)
    limit = (2 * 5 * 50) ** -0.5
    for value in params.values():
        assert 0.9 * limit < np.abs(value).max() <= limit


# ---- bad input -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"order": -1}, ValueError, "order is -1"),
        ({"order": True}, TypeError, "order is True"),
        ({"order": 1, "nodes": [2, 2]}, ValueError, "nodes has node 2 more than once"),
        ({"order": 1, "nodes": [-3]}, ValueError, "nodes holds the index -3"),
        ({"order": 1, "nodes": ["a"]}, TypeError, "nodes has dtype <U1; expected integers"),
        (
            {"order": 1, "reading": "loose"},
            ValueError,
            "reading is 'loose'; expected one of 'text', 'equation', 'authors_code'",
        ),
        ({"order": 1, "in_features": 0}, ValueError, "in_features is 0"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.HybridEdgeVariant(GRAPHS["directed"], **arguments)


def test_a_matrix_is_not_a_graph():
    with pytest.raises(TypeError, match=r"graph is numpy\.ndarray; expected an evref\.Graph \(Graph\.from_adjacency"):
        ev.HybridEdgeVariant(np.eye(3), 2)


@pytest.mark.parametrize(("old", "new"), [("open", "text"), ("letter", "equation"), ("script", "authors_code")])
def test_readings_that_were_renamed_say_their_new_name(old, new):
    with pytest.raises(ValueError, match=f"reading is '{old}'; expected one of .* \\('{old}' is called '{new}' now\\)"):
        ev.HybridEdgeVariant(ev.generators.path(4), 1, reading=old)
