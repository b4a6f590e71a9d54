"""Shift operators against their formulae written densely, against networkx, and in exact small numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import block_diag

from evref.graph import Graph, generators, shifts

SYMMETRIC_ONLY = ("laplacian", "normalized_laplacian", "scaled_laplacian", "gcn")


@st.composite
def weights(draw, symmetric):
    """Non-negative weights with isolated nodes and self-loops among them."""
    n = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    W = rng.uniform(0.1, 2, (n, n)) * (rng.random((n, n)) < draw(st.sampled_from([0, 0.15, 0.5, 1])))
    return np.triu(W) + np.triu(W, 1).T if symmetric else W


def inverse(values):
    return np.divide(1, values, out=np.zeros_like(values), where=values > 0)


def close(actual, expected):
    assert isinstance(actual, sparse.csr_array)
    np.testing.assert_allclose(actual.toarray(), expected, rtol=1e-12, atol=1e-13)


@settings(deadline=None)
@given(weights(symmetric=True))
def test_symmetric_operators_are_their_formulae(W):
    n, d = len(W), W.sum(axis=1)
    D, R = np.diag(d), np.diag(np.sqrt(inverse(d)))
    graph = Graph(W)
    close(shifts.adjacency(graph), W)
    close(shifts.laplacian(graph), D - W)
    close(shifts.normalized_laplacian(graph), np.diag((d > 0) * 1.0) - R @ W @ R)
    d1 = (W + np.eye(n)).sum(axis=1)
    R1 = np.diag(1 / np.sqrt(d1))
    close(shifts.gcn(graph), R1 @ (W + np.eye(n)) @ R1)


@settings(deadline=None)
@given(weights(symmetric=True))
def test_symmetric_operators_stay_symmetric_to_the_last_bit(W):
    for name in ("laplacian", "normalized_laplacian", "gcn"):
        assert Graph(W).with_shift(name).is_symmetric


@settings(deadline=None)
@given(weights(symmetric=False))
def test_random_walk_is_its_formula(W):
    close(shifts.random_walk(Graph(W)), np.diag(inverse(W.sum(axis=1))) @ W)
    close(shifts.random_walk(Graph(W), normalize="columns"), W @ np.diag(inverse(W.sum(axis=0))))


@settings(deadline=None)
@given(weights(symmetric=True), st.sampled_from(["normalized", "combinatorial"]))
def test_scaled_laplacian_has_its_spectrum_in_minus_one_to_one(W, kind):
    L = (shifts.normalized_laplacian if kind == "normalized" else shifts.laplacian)(W).toarray()
    lambda_max = np.linalg.eigvalsh(L).max()
    assume(lambda_max > 1e-6)
    scaled = shifts.scaled_laplacian(W, kind=kind)
    close(scaled, 2 * L / lambda_max - np.eye(len(W)))
    spectrum = np.linalg.eigvalsh(scaled.toarray())
    np.testing.assert_allclose([spectrum.min(), spectrum.max()], [-1, 1], atol=1e-10)
    close(shifts.scaled_laplacian(W, lambda_max=4, kind=kind), L / 2 - np.eye(len(W)))


@settings(deadline=None)
@given(weights(symmetric=False))
def test_normalized_adjacency_has_spectral_radius_one(W):
    radius = shifts.largest_eigenvalue(W)
    if radius == 0:
        with pytest.raises(ValueError, match="lambda_max is 0"):
            shifts.normalized_adjacency(W)
    else:
        close(shifts.normalized_adjacency(W), W / radius)
        np.testing.assert_allclose(np.abs(np.linalg.eigvals(W)).max(), radius, rtol=1e-6)


def test_against_networkx():
    nx = pytest.importorskip("networkx")
    G = nx.gnp_random_graph(30, 0.15, seed=1)
    G.add_node("isolated")
    rng = np.random.default_rng(0)
    nx.set_edge_attributes(G, {edge: rng.uniform(0.5, 2) for edge in G.edges}, "weight")
    graph = Graph.from_networkx(G)
    close(shifts.adjacency(graph), nx.to_numpy_array(G))
    close(shifts.laplacian(graph), nx.laplacian_matrix(G).toarray())
    close(shifts.normalized_laplacian(graph), nx.normalized_laplacian_matrix(G).toarray())
    np.testing.assert_allclose(shifts.largest_eigenvalue(graph), np.abs(nx.adjacency_spectrum(G)).max(), rtol=1e-12)


# ---- exact -----------------------------------------------------------------------------------------------------------
def test_gcn_on_an_edge_by_hand():
    assert shifts.gcn([[0, 1], [1, 0]]).toarray().tolist() == [[0.5, 0.5], [0.5, 0.5]]
    # weight 3: degrees of W + I are 4 and 4
    assert shifts.gcn([[0, 3], [3, 0]]).toarray().tolist() == [[0.25, 0.75], [0.75, 0.25]]
    # a self-loop counts beside the added one: W + I = [[6, 4], [4, 1]], degrees 10 and 5
    expected = [[6 / 10, 4 / np.sqrt(50)], [4 / np.sqrt(50), 1 / 5]]
    assert shifts.gcn([[5, 4], [4, 0]]).toarray().tolist() == expected
    assert shifts.gcn([[0]]).toarray().tolist() == [[1]]  # an isolated node keeps what it has


def test_directed_edge_by_hand():
    W = [[0, 0, 0], [1, 0, 3], [1, 0, 0]]  # 0 → 1, 2 → 1 (3), 0 → 2
    assert shifts.random_walk(W).toarray().tolist() == [[0, 0, 0], [0.25, 0, 0.75], [1, 0, 0]]
    assert shifts.random_walk(W, normalize="columns").toarray().tolist() == [[0, 0, 0], [0.5, 0, 1], [0.5, 0, 0]]


@pytest.mark.parametrize("name", shifts.SHIFTS)
def test_float32_stays_and_the_input_is_untouched(name):
    W = generators.karate().S.astype(np.float32)
    before = W.toarray()
    single = shifts.SHIFTS[name](W)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.toarray(), shifts.SHIFTS[name](before.astype(float)).toarray(), atol=1e-6)
    assert Graph(W).with_shift(name).S.dtype == np.float32
    single.data[:] = 0
    np.testing.assert_array_equal(W.toarray(), before)


# ---- refusals --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SYMMETRIC_ONLY)
def test_directed_graphs_are_refused_by_name(name):
    with pytest.raises(ValueError, match="laplacian needs symmetric|gcn needs symmetric"):
        shifts.SHIFTS[name]([[0, 1], [0, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shifts.normalized_laplacian([[0, 1, 0], [1, 0, -3], [0, -3, 0]]), "node 1 has degree -2, expected"),
        (lambda: shifts.normalized_laplacian([[0, 1, 1], [1, 0, -1], [1, -1, 0]]), "node 1 has degree 0, expected"),
        (lambda: shifts.gcn([[0, -1], [-1, 0]]), "gcn divides by degrees; node 0 has degree 0"),
        (lambda: shifts.gcn([[0, -2], [-2, 0]]), "gcn divides by degrees; node 0 has degree -1"),
        (lambda: shifts.random_walk([[0, 0, 0], [1, 0, -1], [0, 0, 0]]), "random_walk .* node 1 has degree 0"),
        (lambda: shifts.random_walk([[1]], normalize="row"), "normalize is 'row'; expected one of"),
        (lambda: shifts.scaled_laplacian([[1]], kind="random"), "kind is 'random'; expected one of"),
        (lambda: shifts.scaled_laplacian(np.zeros((2, 2))), "lambda_max is 0"),
        (lambda: shifts.scaled_laplacian([[0, 1], [1, 0]], lambda_max=0), "lambda_max is 0"),
        (lambda: shifts.scaled_laplacian([[0, 1], [1, 0]], lambda_max=np.inf), "lambda_max is inf"),
        (lambda: shifts.normalized_adjacency([[0, 1], [0, 0]]), "lambda_max is 0"),
        (lambda: shifts.laplacian(np.ones((2, 3))), "graph has shape"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- largest eigenvalue ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [2, 30, 700])
def test_an_acyclic_graph_has_exactly_zero(n):
    rng = np.random.default_rng(n)
    W = np.tril(rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.5), -1)
    order = rng.permutation(n)
    W = W[np.ix_(order, order)]
    assert shifts.largest_eigenvalue(W) == 0
    with pytest.raises(ValueError, match="lambda_max is 0"):
        Graph(W).with_shift("normalized_adjacency")


def test_equal_components_in_a_row_leave_no_noise_of_a_jordan_block():
    W = np.kron(np.eye(4), np.roll(np.eye(3), 1, axis=0))  # four rings of radius 1 ...
    W[3, 0] = W[6, 3] = W[9, 6] = 1  # ... each fed by the one before: eigenvalue 1 is defective
    assert abs(np.abs(np.linalg.eigvals(W)).max() - 1) > 1e-6
    np.testing.assert_allclose(shifts.largest_eigenvalue(W), 1, rtol=1e-14)


@pytest.mark.parametrize("symmetric", [True, False])
def test_signed_weights_and_components(symmetric):
    rng = np.random.default_rng(3)
    blocks = [rng.normal(size=(k, k)) for k in (1, 4, 1, 7, 3)]
    if symmetric:
        blocks = [B + B.T for B in blocks]
    W = block_diag(*blocks)
    if not symmetric:
        W[0, 10] = 9.0  # an edge between components changes no eigenvalue
    order = rng.permutation(16)
    expected = np.abs(np.linalg.eigvals(W)).max()
    np.testing.assert_allclose(shifts.largest_eigenvalue(W[np.ix_(order, order)]), expected, rtol=1e-12)


@pytest.mark.parametrize("directed", [True, False])
def test_the_iterative_solver_agrees_with_the_dense_one(directed):
    graph = generators.erdos_renyi(shifts.DENSE_UP_TO + 100, 0.02, rng=0, directed=directed, weights="uniform")
    expected = np.abs(np.linalg.eigvals(graph.S.toarray())).max()
    first = shifts.largest_eigenvalue(graph)
    np.testing.assert_allclose(first, expected, rtol=1e-10)
    assert shifts.largest_eigenvalue(graph) == first


def test_large_regular_graphs_are_exact():
    assert shifts.largest_eigenvalue(generators.cycle(5000)) == 2
    assert shifts.largest_eigenvalue(generators.cycle(5000, directed=True)) == 1


def test_a_solver_that_gives_up_is_replaced_or_reported(monkeypatch):
    monkeypatch.setattr(shifts, "_iterative_radius", lambda B, symmetric: None)
    graph = generators.path(shifts.DENSE_UP_TO + 1)
    expected = 2 * np.cos(np.pi / (graph.n_nodes + 1))
    np.testing.assert_allclose(shifts.largest_eigenvalue(graph), expected, rtol=1e-12)
    monkeypatch.setattr(shifts, "DENSE_AT_MOST", 500)
    with pytest.raises(ValueError, match="component of 501 nodes did not converge; .* lambda_max"):
        shifts.normalized_adjacency(graph)
    close(shifts.normalized_adjacency(graph, lambda_max=2.0), graph.S.toarray() / 2)


def test_no_convergence_is_noticed():
    directed_ring = generators.cycle(600, directed=True).S * 1.0
    directed_ring.data[0] = 2.0  # 600 eigenvalues of the same modulus: nothing for the solver to tell apart
    np.testing.assert_allclose(shifts.largest_eigenvalue(directed_ring), 2 ** (1 / 600), rtol=1e-9)
