"""Polynomial filters, TAGCN, GCN, DCNN and the selection GCNN: oracles from the equations, special cases, errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import GRAPHS, close, first_example, graphs, normal, random_graph, random_params

import evref as ev

DIRECTED = random_graph(11, 7, directed=True, density=0.5)
UNDIRECTED = ev.Graph(abs(GRAPHS["undirected"].S))
PATH = ev.Graph.from_edges(4, source=[0, 1, 2], target=[1, 2, 3], weight=[2, 3, 5])
BANKED = [("order", -1, ValueError), ("order", 1.0, TypeError), ("order", True, TypeError)]


def naive(filt, weights, x):
    """y_f = sum_g sum_k weights[k, f, g] S^k x_g with loops over everything."""
    S = filt.graph.S.toarray()
    y = np.zeros((len(x), weights.shape[1], S.shape[0]))
    for b in range(len(x)):
        for f in range(weights.shape[1]):
            for g in range(weights.shape[2]):
                w = x[b, g]
                for k in range(len(weights)):
                    y[b, f] += weights[k, f, g] * w
                    w = np.array([sum(S[i, j] * w[j] for j in range(len(S))) for i in range(len(S))])
    return y


# ---- polynomial -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("order", [0, 1, 4])
def test_polynomial_is_its_equation(graph, order):
    filt = ev.Polynomial(graph, order, 2, 3)
    params, x = random_params(filt), normal(1, 2, 2, graph.n_nodes)
    close(filt.forward(params, x)[0], naive(filt, params["phi"], x))


def test_polynomial_in_small_integers():
    # 1 + 10 s + 100 s^2 on 0 -2-> 1 -3-> 2 -5-> 3: a delta at 0 arrives as 1, 2, 6
    filt = ev.Polynomial(PATH, 2)
    params = {"phi": np.array([1.0, 10.0, 100.0]).reshape(3, 1, 1)}
    y, tape = filt.forward(params, np.array([1.0, 0, 0, 0]))
    assert y.tolist() == [1, 20, 600, 0]
    grads, grad_x = filt.backward(params, tape, np.array([1.0, 1, 1, 1]))
    assert grads["phi"].ravel().tolist() == [1, 2, 6]  # <v, S^k x>
    assert grad_x.tolist() == [1 + 20 + 600, 1 + 30 + 1500, 1 + 50, 1]  # column sums of H
    dy = filt.jvp(params, np.array([1.0, 0, 0, 0]), {"phi": np.array([0.0, 0, 1]).reshape(3, 1, 1)}, np.zeros(4))
    assert dy.tolist() == [0, 0, 6, 0]


def test_response_is_the_diagonal_of_the_filter():
    filt = ev.Polynomial(UNDIRECTED, 3, 2, 2)
    params = random_params(filt)
    eigenvalues, U = np.linalg.eigh(UNDIRECTED.S.toarray())
    close(np.einsum("ji,fgjk,ki->fgi", U, filt.matrix(params), U), filt.response(params))
    assert filt.response(params, frequencies=[0.0, 1.0])[0, 0].tolist() == [
        params["phi"][0, 0, 0],
        pytest.approx(params["phi"][:, 0, 0].sum()),
    ]
    close(np.sort(eigenvalues), ev.Polynomial(UNDIRECTED, 1).response({"phi": np.array([[[0.0]], [[1.0]]])})[0, 0])


def test_response_on_a_directed_graph_gives_trace_and_determinant():
    filt = ev.Polynomial(DIRECTED, 3)
    params = random_params(filt)
    h, H = filt.response(params)[0, 0], filt.matrix(params)[0, 0]
    assert h.sum() == pytest.approx(np.trace(H)) and np.prod(h) == pytest.approx(np.linalg.det(H))


def test_response_without_a_basis_of_eigenvectors():
    jordan = ev.Polynomial(PATH, 2)  # every eigenvalue 0, one eigenvector
    close(jordan.response({"phi": np.array([2.0, 1, 1]).reshape(3, 1, 1)})[0, 0], np.full(4, 2 + 0j))
    with pytest.raises(ValueError, match=r"frequencies has shape \(1, 1\)"):
        jordan.response({"phi": np.ones((3, 1, 1))}, frequencies=[[1.0]])


def test_counts_are_the_papers():
    """(K + 1) F^2 parameters; the states cost K M each (eq. pol)."""
    filt = ev.Polynomial(UNDIRECTED, 4, 3, 3)
    assert filt.n_parameters == 5 * 3**2
    one = ev.Polynomial(PATH, 4)
    assert one.n_operations(batch=2) == 2 * (4 * 3 + 5 * 4)
    assert ev.GCN(PATH, 2, 3).n_parameters == 6 and ev.GCN(PATH, 2, 3).n_operations() == 2 * 3 + 6 * 4
    assert ev.DCNN(PATH, 2, 3).n_parameters == 9 and ev.DCNN(PATH, 2, 3).n_operations() == 3 * (2 * 3 + 3 * 4)
    assert ev.Polynomial(PATH, 1)._init_scale("phi") == 2**-0.5


@settings(deadline=None)
@given(graph=graphs(), seed=st.integers(0, 999))
def test_filters_of_one_shift_commute(graph, seed):
    rng = np.random.default_rng(seed)
    p, q = ({"phi": rng.uniform(-1, 1, (3, 1, 1))} for _ in range(2))
    filt, x = ev.Polynomial(graph, 2), rng.standard_normal(graph.n_nodes)
    a = filt.forward(p, filt.forward(q, x)[0])[0]
    b = filt.forward(q, filt.forward(p, x)[0])[0]
    close(a, b, rtol=1e-10)


@pytest.mark.parametrize("name", ["polynomial", "chebyshev", "gcn", "dcnn", "selection_gcnn"])
def test_transposed_graph_gives_the_transposed_filter(name):
    here = first_example(ev.catalogue[name], DIRECTED)
    there = type(here)(here.graph.transposed(), **here.config())
    params = random_params(here)
    H, T = here.matrix(params), there.matrix(params)
    if name == "selection_gcnn":
        nodes = np.intersect1d(here.nodes_in, here.nodes_out)
        H, T = (M[..., nodes, :][..., nodes] for M in (H, T))
    close(T, np.swapaxes(H, 2, 3))


# ---- TAGCN, GCN -----------------------------------------------------------------------------------------------------
def test_tagcn_is_a_polynomial_of_the_normalised_adjacency():
    filt = ev.TAGCN.on(UNDIRECTED, 2, in_features=2, out_features=1)
    W = UNDIRECTED.S.toarray()
    d = W.sum(axis=1)
    R = np.diag(np.divide(1, np.sqrt(d), out=np.zeros_like(d), where=d > 0))
    close(filt.graph.S.toarray(), R @ W @ R)
    params, x = random_params(filt), normal(1, 2, *filt.in_shape)
    close(filt.forward(params, x)[0], naive(filt, params["phi"], x))
    assert np.abs(np.linalg.eigvalsh(filt.graph.S.toarray())).max() <= 1 + 1e-12


def test_symmetric_adjacency():
    from evref.graph import shifts

    assert shifts.SHIFTS["symmetric_adjacency"] is shifts.symmetric_adjacency
    assert ev.TAGCN.on(UNDIRECTED, 1).graph.is_symmetric
    assert shifts.symmetric_adjacency(np.array([[0, 4], [4, 0]], np.float32)).dtype == np.float32
    assert shifts.symmetric_adjacency(np.zeros((2, 2))).nnz == 0  # isolated nodes
    with pytest.raises(ValueError, match="symmetric_adjacency needs symmetric weights"):
        ev.TAGCN.on(DIRECTED, 1)
    with pytest.raises(ValueError, match="symmetric_adjacency divides by degrees; node 0 has degree -1"):
        shifts.symmetric_adjacency(np.array([[0, -1], [-1, 0]]))


def test_gcn_is_kipf_and_welling():
    filt = ev.GCN.on(UNDIRECTED, 2, 3)
    A = UNDIRECTED.S.toarray() + np.eye(7)
    d = A.sum(axis=1)
    params, x = random_params(filt), normal(1, 4, 2, 7)
    expected = np.stack([(A / np.sqrt(np.outer(d, d)) @ sample.T @ params["theta"].T).T for sample in x])
    close(filt.forward(params, x)[0], expected)


def test_gcn_is_the_first_power_of_a_polynomial():
    gcn, polynomial = ev.GCN(DIRECTED, 2, 3), ev.Polynomial(DIRECTED, 1, 2, 3)
    params, x = random_params(gcn), normal(1, 2, 2, 7)
    theta = params["theta"]
    close(gcn.forward(params, x)[0], polynomial.forward({"phi": np.stack([0 * theta, theta])}, x)[0])
    close(gcn.response(params), theta[..., None] * gcn.response({"theta": np.ones((3, 2))}))


def test_gcn_is_edge_variant_to_the_letter():
    filt = ev.GCN(DIRECTED, 1, 2, bias=True)
    params = random_params(filt)
    ev_filt, ev_params = filt.to_edge_variant(params)
    assert (ev_filt.order, ev_filt.zeroth) == (1, "none")
    np.testing.assert_array_equal(ev_params["phi"][0, 1, 0], params["theta"][1, 0] * DIRECTED.shift_values())
    np.testing.assert_array_equal(ev_filt.matrix(ev_params), filt.matrix(params))


# ---- DCNN -----------------------------------------------------------------------------------------------------------
def test_dcnn_is_its_equation():
    filt = ev.DCNN.on(UNDIRECTED, 3, in_features=2)
    P = filt.graph.S.toarray()
    params, x = random_params(filt), normal(1, 2, 2, 7)
    y = filt.forward(params, x)[0]
    assert y.shape == (2, 8, 7) and filt.out_features == 8
    for h in range(4):
        for g in range(2):
            close(y[:, h * 2 + g], params["weight"][h, g] * x[:, g] @ np.linalg.matrix_power(P, h).T)
    rows = P.sum(axis=1)
    assert np.allclose(rows[rows > 0], 1)


def test_dcnn_mixes_no_features():
    filt = ev.DCNN.on(UNDIRECTED, 1, in_features=3)
    H = filt.matrix(random_params(filt))
    for h in range(2):
        for g in range(3):
            others = [other for other in range(3) if other != g]
            assert H[h * 3 + g, g].any() and not H[h * 3 + g, others].any()
    h = filt.response(random_params(filt))
    assert h.shape == (6, 3, 7) and not h[0, 1].any()


def test_dcnn_embedding_holds_monomials_and_zero_filters():
    filt = ev.DCNN(DIRECTED, 4, in_features=2)
    params = random_params(filt)
    params["weight"][2, 1] = 0
    ev_filt, ev_params = filt.to_edge_variant(params)
    close(ev_filt.matrix(ev_params), filt.matrix(params), rtol=1e-13)
    assert not ev_params["phi"][:, 0, 1].any() and not ev_params["phi0"][0, 1].any()


# ---- selection ------------------------------------------------------------------------------------------------------
def test_selection_pads_filters_and_samples():
    filt = ev.SelectionGCNN(DIRECTED, 2, 2, 2, nodes_in=[5, 0, 3, 1], nodes_out=[3, 0])
    params, x = random_params(filt), normal(1, 3, 2, 7)
    C_in, C_out = np.eye(7)[filt.nodes_in], np.eye(7)[filt.nodes_out]
    padded = (x @ C_in.T) @ C_in  # the four values, padded with zeros
    kept = naive(filt, params["phi"], padded) @ C_out.T
    y = filt.forward(params, x)[0]
    close(y[..., filt.nodes_out], kept)
    assert not np.delete(y, filt.nodes_out, axis=-1).any()
    close(filt.matrix(params), C_out.T @ C_out @ ev.Polynomial(DIRECTED, 2, 2, 2).matrix(params) @ C_in.T @ C_in)


def test_selection_of_all_nodes_is_the_polynomial():
    whole, polynomial = ev.SelectionGCNN(DIRECTED, 2), ev.Polynomial(DIRECTED, 2)
    params = random_params(whole)
    np.testing.assert_array_equal(whole.matrix(params), polynomial.matrix(params))
    close(whole.response(params), polynomial.response(params))
    part = ev.SelectionGCNN(DIRECTED, 2, nodes_in=[0, 1])
    assert part.nodes_out.tolist() == [0, 1]
    with pytest.raises(ev.NotRepresentable, match="a selection of 2 out of 7 nodes has no transfer function"):
        part.response(params)


def test_selection_follows_a_renumbering_only_together_with_its_nodes():
    order = np.array([3, 1, 0, 2, 6, 5, 4])
    place = np.argsort(order)
    here = ev.SelectionGCNN(DIRECTED, 2, nodes_in=[0, 1, 2, 4], nodes_out=[0, 1])
    moved = ev.SelectionGCNN(
        DIRECTED.permuted(order), 2, nodes_in=place[here.nodes_in], nodes_out=place[here.nodes_out]
    )
    stale = ev.SelectionGCNN(DIRECTED.permuted(order), 2, nodes_in=here.nodes_in, nodes_out=here.nodes_out)
    params, x = random_params(here), normal(1, 7)
    expected = here.forward(params, x)[0][order]
    close(moved.forward(params, x[order])[0], expected)
    assert np.abs(stale.forward(params, x[order])[0] - expected).max() > 0.1


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("kept", [[2], [0, 3], list(range(6)), list(range(7))])
def test_selection_embedding_is_a_sum_of_recursions(order, kept):
    filt = ev.SelectionGCNN(DIRECTED, order, 2, 3, nodes_out=kept, bias=True)
    params = random_params(filt)
    params["phi"][min(1, order), 0, 0] = 0.0  # no coefficient need differ from zero
    bank, bank_params = filt.to_edge_variant(params)
    if order == 0 or len(kept) == 7:
        assert isinstance(bank, ev.EdgeVariant)
    else:
        assert bank.terms == order // 2 + 2
    close(bank.matrix(bank_params), filt.matrix(params))
    x = normal(1, 2, 2, 7)
    close(bank.forward(bank_params, x)[0], filt.forward(params, x)[0])


def test_selection_layers_chain():
    """The second layer hears only what the first one kept: its bias elsewhere is dropped."""
    first = ev.SelectionGCNN(DIRECTED, 1, nodes_out=[0, 1, 2], bias=True)
    second = ev.SelectionGCNN(DIRECTED, 1, nodes_in=first.nodes_out, nodes_out=[1])
    params1, params2, x = random_params(first), random_params(second), normal(1, 7)
    y = first.forward(params1, x)[0]
    only = np.where(np.isin(np.arange(7), first.nodes_out), y, 0)
    np.testing.assert_array_equal(second.forward(params2, y)[0], second.forward(params2, only)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes_in": []}, "nodes_in is empty"),
        ({"nodes_in": [0, 9]}, "nodes_in"),
        ({"nodes_out": [1, 1]}, "nodes_out holds node 1 more than once"),
        ({"nodes_in": [0, 1], "nodes_out": [2]}, "nodes_out holds node 2, which is not in nodes_in"),
        ({"nodes_in": [[0]]}, r"nodes_in has shape \(1, 1\)"),
    ],
)
def test_bad_selections(options, message):
    with pytest.raises(ValueError, match=message):
        ev.SelectionGCNN(DIRECTED, 1, **options)


# ---- arguments -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cls", [ev.Polynomial, ev.Chebyshev, ev.TAGCN, ev.DCNN, ev.SelectionGCNN])
@pytest.mark.parametrize(("argument", "value", "error"), BANKED)
def test_bad_orders(cls, argument, value, error):
    with pytest.raises(error, match=f"{argument} is {value}"):
        cls(DIRECTED, **{argument: value})


@pytest.mark.parametrize("cls", [ev.Polynomial, ev.Chebyshev, ev.TAGCN, ev.DCNN, ev.SelectionGCNN])
def test_graph_and_features_are_checked(cls):
    with pytest.raises(TypeError, match="graph is numpy.ndarray"):
        cls(np.eye(3), 1)
    with pytest.raises(ValueError, match="in_features is 0"):
        cls(DIRECTED, 1, in_features=0)


@pytest.mark.parametrize("cls", [ev.GCN, ev.TAGCN, ev.DCNN])
def test_shifts_are_made_of_graphs(cls):
    with pytest.raises(TypeError, match="graph is numpy.ndarray"):
        cls.on(np.eye(3))
