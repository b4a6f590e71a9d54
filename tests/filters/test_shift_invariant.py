"""The shift-invariant edge-variant filter: its equation, its response, what d = 2 means, and what d = 3 adds."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import GRAPHS, close, normal, random_params

import evref as ev
from evref.graph import NotDiagonalizable, RepeatedEigenvaluesWarning

GRID = ev.generators.grid(3, 4)
EACH = pytest.mark.parametrize(
    "graph", [GRID, GRAPHS["undirected"], GRAPHS["directed"]], ids=["grid", "undirected", "directed"]
)


@EACH
@pytest.mark.parametrize("zeroth", ["none", "identity"])
def test_output_is_the_equation_written_out(graph, zeroth):
    filt = ev.ShiftInvariantEdgeVariant(graph, order=3, in_features=2, out_features=2, zeroth=zeroth)
    params, N = random_params(filt), graph.n_nodes
    x = normal(1, 2, N)
    U, V, B = filt.basis.fourier.U, filt.basis.fourier.U_inverse, filt.basis.B
    expected = np.zeros((2, N), complex)
    for f in range(2):
        for g in range(2):
            w = x[g].astype(complex)
            if zeroth == "identity":
                expected[f] += w
            for k in range(3):
                w = U @ (np.array([B[n] @ params["mu"][k, f, g] for n in range(N)]) * (V @ w))
                expected[f] += w
    assert np.abs(expected.imag).max() < 1e-11
    close(filt.forward(params, x)[0], expected.real, rtol=1e-12)


@EACH
def test_response_is_a_sum_of_products(graph):
    """Eq. (evResp, 12) as mended: h = sum_k prod_{kappa <= k} Lambda^(kappa)."""
    filt = ev.ShiftInvariantEdgeVariant(graph, order=3, in_features=2, out_features=2)
    params = random_params(filt)
    h, H = filt.response(params), filt.matrix(params)
    assert h.shape == (2, 2, graph.n_nodes)
    for f, g in np.ndindex(2, 2):
        L1, L2, L3 = (filt.basis.B @ params["mu"][k, f, g] for k in range(3))
        np.testing.assert_allclose(h[f, g], L1 + L1 * L2 + L1 * L2 * L3, rtol=1e-12, atol=1e-12)
        close(filt.basis.fourier.matrix(h[f, g]), H[f, g], rtol=1e-12)
    identity = ev.ShiftInvariantEdgeVariant(graph, order=3, in_features=2, out_features=2, zeroth="identity")
    np.testing.assert_allclose(identity.response(params), h + 1, rtol=1e-12)


def test_on_a_generic_graph_it_is_a_polynomial_in_product_form():
    """d = 2: H = sum_k prod_kappa (a_kappa I + b_kappa S), 2 K parameters."""
    graph = ev.generators.erdos_renyi(12, 0.3, rng=1)
    filt = ev.ShiftInvariantEdgeVariant(graph, order=3)
    assert filt.basis.dimension == 2 and filt.n_parameters == 6
    params, lam = random_params(filt), filt.basis.fourier.eigenvalues
    S, product, H = graph.S.toarray(), np.eye(12), np.zeros((12, 12))
    for mu in params["mu"][:, 0, 0]:
        b = (filt.basis.B[-1] - filt.basis.B[0]) @ mu / (lam[-1] - lam[0])
        a = filt.basis.B[0] @ mu - b * lam[0]
        product = (a * np.eye(12) + b * S) @ product
        H += product
    close(filt.matrix(params)[0, 0], H, rtol=1e-12)


def test_on_a_grid_rows_and_columns_have_weights_of_their_own():
    """d = 3: steps along the rows and along the columns commute, and each keeps to the edges."""
    filt = ev.ShiftInvariantEdgeVariant(GRID, order=1)
    across = np.kron(np.eye(3), ev.generators.path(4).S.toarray())
    support = GRID.to_csr(np.ones(GRID.nnz)).toarray() != 0
    mu = np.linalg.lstsq(filt.basis.support_values, across[support], rcond=None)[0]
    close(filt.matrix({"mu": mu.reshape(1, 1, 1, 3)})[0, 0], across, rtol=1e-12)


@EACH
def test_embedding_is_the_recursion_with_phi_on_the_support(graph):
    filt = ev.ShiftInvariantEdgeVariant(graph, order=2, in_features=2, out_features=3, zeroth="identity", bias=True)
    params = random_params(filt)
    recursion, embedded = filt.to_edge_variant(params)
    assert (recursion.order, recursion.zeroth, recursion.bias) == (2, "identity", True)
    close(recursion.matrix(embedded), filt.matrix(params), rtol=1e-12)
    x = normal(1, 2, *filt.in_shape)
    y, tape = filt.forward(params, x)
    y_embedded, tape_embedded = recursion.forward(embedded, x)
    np.testing.assert_array_equal(y, y_embedded)
    u = normal(2, *y.shape)
    grads, _ = filt.backward(params, tape, u)
    above, _ = recursion.backward(embedded, tape_embedded, u)
    close(grads["mu"], above["phi"] @ filt.basis.support_values, rtol=1e-14)


def test_shift_invariant_means_that_it_commutes_with_the_shift():
    for graph in (GRID, GRAPHS["directed"]):
        filt = ev.ShiftInvariantEdgeVariant(graph, order=3)
        H, S = filt.matrix(random_params(filt))[0, 0], graph.S.toarray()
        close(H @ S, S @ H, rtol=1e-12)


def test_spectral_filter_with_the_same_basis_is_order_one():
    """R10: K = 1, B_{U,I} = B, mu^(1) = b."""
    filt = ev.ShiftInvariantEdgeVariant(GRID, order=1)
    spectral = ev.SpectralGCNN(GRID, n_basis=3, kernel=filt.basis.B)
    mu = normal(0, 3)
    close(spectral.matrix({"b": mu.reshape(3, 1, 1)}), filt.matrix({"mu": mu.reshape(1, 1, 1, 3)}), rtol=1e-12)


def test_counts():
    """K F G d parameters instead of K F G (M + N); as many operations as the recursion."""
    filt = ev.ShiftInvariantEdgeVariant(GRID, order=4, in_features=2, out_features=3)
    full = ev.EdgeVariant(GRID, order=4, in_features=2, out_features=3)
    assert filt.n_parameters == 4 * 3 * 2 * 3 < full.n_parameters
    assert filt.n_operations(5) == full.n_operations(5)
    assert filt.reach == 4
    mu = filt.init(0)["mu"]
    assert 0.8 * 24**-0.5 < np.abs(mu).max() <= 24**-0.5  # 1 / sqrt(G K d)


# ---- repeated eigenvalues -------------------------------------------------------------------------------------------
def test_ring_with_a_basis_of_ones_own():
    ring = ev.generators.cycle(8)
    dft = np.exp(2j * np.pi * np.outer(np.arange(8), np.arange(8)) / 8)
    with pytest.warns(RepeatedEigenvaluesWarning):
        free = ev.ShiftInvariantEdgeVariant(ring, order=2)
    with pytest.warns(RepeatedEigenvaluesWarning):
        chosen = ev.ShiftInvariantEdgeVariant(ring, order=2, eigenvectors=dft)
    tied = ev.ShiftInvariantEdgeVariant(ring, order=2, repeated="tied")
    assert [f.basis.dimension for f in (free, chosen, tied)] == [2, 3, 2]
    assert [f.equivariant for f in (free, chosen, tied)] == [False, False, True]
    params = random_params(chosen)
    H = chosen.matrix(params)[0, 0]
    assert np.isrealobj(H) and np.abs(H - H.T).max() > 0.1  # no polynomial in the symmetric S
    ev.gradcheck.dot_test(chosen, params).raise_if_failed()
    ev.gradcheck.complex_step(chosen, params).raise_if_failed()
    with pytest.warns(RepeatedEigenvaluesWarning):
        copy = type(chosen)(ring, **chosen.config())
    assert copy.signature == chosen.signature != free.signature


def test_free_and_tied_are_one_where_eigenvalues_are_distinct():
    free, tied = (ev.ShiftInvariantEdgeVariant(GRID, order=1, repeated=r) for r in ("free", "tied"))
    np.testing.assert_array_equal(free.basis.B, tied.basis.B)
    assert free.equivariant and tied.equivariant


# ---- bad input ------------------------------------------------------------------------------------------------------
def test_bad_input_is_named():
    make = ev.ShiftInvariantEdgeVariant
    with pytest.raises(NotDiagonalizable, match="condition number"):
        make(ev.generators.path(3, directed=True), order=2)
    with pytest.raises(ValueError, match="zeroth is 'diagonal'; expected one of 'none', 'identity'"):
        make(GRID, order=2, zeroth="diagonal")
    with pytest.raises(ValueError, match="repeated is 'both'"):
        make(GRID, order=2, repeated="both")
    with pytest.raises(ValueError, match="order is -1"):
        make(GRID, order=-1)
    with pytest.raises(ValueError, match="order is 0"):
        make(GRID, order=0)
    with pytest.raises(TypeError, match="order is 2.0"):
        make(GRID, order=2.0)
    with pytest.raises(ValueError, match="eigenvectors has shape"):
        make(GRID, order=2, eigenvectors=np.eye(3))
    with pytest.raises(TypeError, match="graph is numpy.ndarray"):
        make(np.eye(3), order=2)
