"""The null space behind the shift-invariant filters: both methods, the dimensions, and the warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from strategies import GRAPHS, close, normal

import evref as ev
from evref.graph import RepeatedEigenvaluesWarning, fourier_basis, shift_invariant_basis
from evref.graph.nullspace import _by_gram, _direct, khatri_rao
from evref.verify.paper.spectral import families

CONNECTED = {
    name: graph for name, graph in families().items() if name not in ("two components", "three components", "complete")
}
each_family = pytest.mark.parametrize("graph", families().values(), ids=families().keys())


def quiet(graph, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedEigenvaluesWarning)
        return shift_invariant_basis(graph, **options)


def outside(graph):
    return graph.to_csr(np.ones(graph.nnz)).toarray() == 0


@pytest.mark.parametrize("name", ["undirected", "directed"])
def test_khatri_rao_form_of_a_product(name):
    """vec(U diag(l) U^-1) = (U^-T * U) l, entry by entry."""
    fourier = fourier_basis(GRAPHS[name])
    lam = normal(0, 7)
    phi = np.zeros((7, 7), complex)
    for i in range(7):
        for j in range(7):
            phi[i, j] = sum(fourier.U[i, n] * lam[n] * fourier.U_inverse[n, j] for n in range(7))
    np.testing.assert_allclose(khatri_rao(fourier) @ lam, phi.ravel(order="F"), atol=1e-13)


@pytest.mark.parametrize("repeated", ["free", "tied"])
@each_family
def test_the_two_methods_find_the_same_space(graph, repeated):
    direct, gram = (quiet(graph, repeated=repeated, method=method) for method in ("direct", "gram"))
    assert direct.dimension == gram.dimension and (direct.method, gram.method) == ("direct", "gram")
    Q, _ = np.linalg.qr(direct.coordinates)
    close(Q @ (Q.T @ gram.coordinates), gram.coordinates, rtol=1e-10)
    close(gram.B, direct.B, rtol=1e-10)  # the canonical basis is the same one
    near = min(direct.dimension + 2, direct.singular_values.size)
    np.testing.assert_allclose(gram.singular_values[:near], direct.singular_values[:near], atol=1e-11, rtol=1e-7)


@each_family
def test_every_basis_vector_is_a_filter_on_the_support(graph):
    basis = quiet(graph)
    for column, values in zip(basis.B.T, basis.support_values.T, strict=True):
        phi = basis.fourier.matrix(column)
        assert np.abs(phi[outside(graph)]).max(initial=0) < 1e-11
        close(graph.to_csr(values).toarray(), np.where(outside(graph), 0, phi), rtol=1e-11)
    close((basis.B.conj().T @ basis.B).real, graph.n_nodes * np.eye(basis.dimension), rtol=1e-11)
    close(basis.B[:, 0].real, np.ones(graph.n_nodes), rtol=1e-12)  # Phi = I


@each_family
def test_identity_and_shift_are_always_there(graph):
    basis = quiet(graph)
    P = basis.support_values
    for target in (graph.shift_values(), (graph.indices == np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr)))):
        fitted = P @ np.linalg.lstsq(P, target.astype(float), rcond=None)[0]
        np.testing.assert_allclose(fitted, target.astype(float), atol=1e-11)


def test_small_singular_values_are_not_lost_in_squares():
    """A weak coupling of two parts: sigma of 1e-8 is not zero, and its square is below rounding."""
    S = np.zeros((8, 8))
    for a, b, w in [(0, 1, 1.0), (1, 2, 1.3), (2, 3, 0.7), (4, 5, 1.1), (5, 6, 0.6), (6, 7, 1.7), (3, 4, 1e-7)]:
        S[a, b] = S[b, a] = w
    graph = ev.Graph(S)
    direct, gram = (quiet(graph, method=method) for method in ("direct", "gram"))
    assert direct.dimension == gram.dimension == 2
    assert 1e-9 < direct.singular_values[2] < 1e-6
    np.testing.assert_allclose(gram.singular_values[2:4], direct.singular_values[2:4], rtol=1e-5)
    assert quiet(graph, rtol=1e-6, method="gram").dimension == 4  # a coarser eye sees two components
    from scipy.sparse import csr_array

    alone = fourier_basis(graph)
    s, vectors = _by_gram(graph, alone, csr_array(np.eye(8)))
    np.testing.assert_allclose(s[:4], _direct(graph, alone, csr_array(np.eye(8)))[0][:4], rtol=1e-5, atol=1e-14)
    close(vectors.T @ vectors, np.eye(8), rtol=1e-13)


@pytest.mark.parametrize("name", CONNECTED)
def test_dimension_of_connected_families(name):
    assert quiet(CONNECTED[name]).dimension == {"grid 3 x 4": 3, "adjacent twins": 3}.get(name, 2)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_sparse_components_give_two_each(parts):
    from scipy.sparse import block_diag

    pieces = [
        ev.generators.stochastic_block_model(7, 1, 0.5, 0.0, rng=seed, weights="uniform")[0].S for seed in range(parts)
    ]
    assert shift_invariant_basis(ev.Graph(block_diag(pieces, format="csr"))).dimension == 2 * parts


def test_complete_graph_has_no_constraint():
    graph = ev.generators.complete(6)
    with pytest.warns(RepeatedEigenvaluesWarning, match="2 distinct eigenvalues on 6 nodes"):
        basis = shift_invariant_basis(graph)
    assert basis.dimension == 6 and basis.gap == np.inf
    assert shift_invariant_basis(graph, repeated="tied").dimension == 2
    assert "dimension 6 of 6" in basis.report() and "none" in basis.report()


@pytest.mark.parametrize("n_nodes", [7, 8, 9, 12])
def test_ring_depends_on_the_basis(n_nodes):
    graph = ev.generators.cycle(n_nodes)
    dft = np.exp(2j * np.pi * np.outer(np.arange(n_nodes), np.arange(n_nodes)) / n_nodes)
    chosen = quiet(graph, fourier=fourier_basis(graph, eigenvectors=dft))
    assert (quiet(graph).dimension, chosen.dimension) == (2, 3)
    assert quiet(graph, fourier=chosen.fourier, method="gram").dimension == 3
    tied = shift_invariant_basis(graph, repeated="tied")  # no warning: the suite makes errors of them
    assert tied.dimension == shift_invariant_basis(graph, chosen.fourier, repeated="tied").dimension == 2
    # the third filter is the step one way round: the ring turns into two directed ones
    step = ev.generators.cycle(n_nodes, directed=True).S.toarray()[~outside(graph)]
    P = chosen.support_values
    np.testing.assert_allclose(P @ np.linalg.lstsq(P, step, rcond=None)[0], step, atol=1e-12)


def test_grid_with_repeated_eigenvalues_depends_on_the_basis():
    """Products of path eigenvectors know the two directions of the grid; LAPACK's mixture of them does not."""
    tensor = np.kron(fourier_basis(ev.generators.path(4)).U, fourier_basis(ev.generators.path(5)).U)
    graph = ev.generators.grid(4, 5)
    assert quiet(graph).dimension == 2
    assert quiet(graph, fourier=fourier_basis(graph, eigenvectors=tensor)).dimension == 3


@pytest.mark.parametrize("name", ["directed", "undirected"])
def test_basis_does_not_depend_on_the_numbering(name):
    graph = GRAPHS[name]
    order = np.random.default_rng(0).permutation(7)
    basis, moved = (shift_invariant_basis(g) for g in (graph, graph.permuted(order)))
    close(moved.B, basis.B, rtol=1e-11)


def test_report_shows_the_decision():
    text = shift_invariant_basis(ev.generators.grid(3, 4)).report()
    assert text.startswith("dimension 3 of 12: singular values") and "|" in text
    assert "threshold 1e-09, gap" in text and "distinct" in text and "direct" in text


def test_hundreds_of_nodes_go_through_the_gram_matrix():
    graph = ev.generators.erdos_renyi(180, 0.1, rng=0)
    basis = shift_invariant_basis(graph)
    assert basis.method == "gram" and basis.dimension == 2 and basis.gap > 1e10
    dense = ev.generators.erdos_renyi(180, 0.8, rng=0)  # here the complement is the smaller part
    assert shift_invariant_basis(dense, method="gram").dimension == 2


def test_bad_input_is_named():
    graph = GRAPHS["undirected"]
    with pytest.raises(ValueError, match="repeated is 'loose'"):
        shift_invariant_basis(graph, repeated="loose")
    with pytest.raises(ValueError, match="method is 'svd'"):
        shift_invariant_basis(graph, method="svd")
    with pytest.raises(ValueError, match="rtol is 0"):
        shift_invariant_basis(graph, rtol=0)
    with pytest.raises(ValueError, match="no full basis of 7 eigenvectors"):
        shift_invariant_basis(graph, ev.graph.partial_fourier_basis(graph, 3))
    with pytest.raises(ev.graph.NotDiagonalizable):
        shift_invariant_basis(ev.generators.path(3, directed=True))
