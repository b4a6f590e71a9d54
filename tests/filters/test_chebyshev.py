"""The Chebyshev basis: against the monomial one, against cos(k a), and its adjoint recursion by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import chebyshev as numpy_chebyshev
from strategies import GRAPHS, close, edited, normal, random_graph, random_params

import evref as ev
from evref.filters.chebyshev import chebyshev_basis
from evref.kernels import shift_reference

DIRECTED = random_graph(11, 7, directed=True, density=0.5)
SCALED = ev.generators.erdos_renyi(10, 0.4, rng=1).with_shift("scaled_laplacian")


@pytest.mark.parametrize("graph", [*GRAPHS.values(), SCALED], ids=[*GRAPHS, "scaled Laplacian"])
@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_is_its_equation(graph, order):
    filt = ev.Chebyshev(graph, order, 2, 3)
    params, x = random_params(filt), normal(1, 2, 2, graph.n_nodes)
    S = graph.S.toarray()
    T = [np.eye(len(S)), S]
    for _ in range(order):
        T.append(2 * S @ T[-1] - T[-2])
    y = sum(np.einsum("fg,ij,bgj->bfi", params["theta"][k], T[k], x) for k in range(order + 1))
    close(filt.forward(params, x)[0], y)
    close(np.einsum("fgij,bgj->bfi", filt.matrix(params), x), y)


def test_in_small_integers():
    # T_3 = 4 s^3 - 3 s on 0 -> 1 -> 2 -> 3
    graph = ev.Graph.from_edges(4, source=[0, 1, 2], target=[1, 2, 3])
    filt = ev.Chebyshev(graph, 3)
    params = {"theta": np.array([0.0, 0, 0, 1]).reshape(4, 1, 1)}
    y, tape = filt.forward(params, np.array([1.0, 0, 0, 0]))
    assert y.tolist() == [0, -3, 0, 4]
    grads, grad_x = filt.backward(params, tape, np.array([1.0, 10, 100, 1000]))
    assert grads["theta"].ravel().tolist() == [1, 10, 200 - 1, 4000 - 30]  # <v, T_k(S) x>
    assert grad_x.tolist() == [-30 + 4000, -300, -3000, 0]  # T_3(S^T) v


def test_basis_is_numpys():
    for k in range(9):
        np.testing.assert_array_equal(chebyshev_basis(8)[: k + 1, k], numpy_chebyshev.cheb2poly([0] * k + [1]))


def test_equals_the_polynomial_with_converted_coefficients():
    cheb, poly = ev.Chebyshev(DIRECTED, 4, 2, 2), ev.Polynomial(DIRECTED, 4, 2, 2)
    params, x = random_params(cheb), normal(1, 3, 2, 7)
    phi = cheb.monomial(params)
    y, tape = cheb.forward(params, x)
    y_poly, tape_poly = poly.forward({"phi": phi}, x)
    close(y, y_poly)
    u = normal(2, *y.shape)
    grads, grad_x = cheb.backward(params, tape, u)
    grads_poly, grad_x_poly = poly.backward({"phi": phi}, tape_poly, u)
    close(grad_x, grad_x_poly)
    close(grads["theta"], np.einsum("jk,jfg->kfg", chebyshev_basis(4), grads_poly["phi"]))  # the chain rule


def test_response_is_a_cosine_series():
    filt = ev.Chebyshev(SCALED, 6)
    params = random_params(filt)
    angles = np.linspace(0, np.pi, 7)
    expected = sum(params["theta"][k, 0, 0] * np.cos(k * angles) for k in range(7))
    close(filt.response(params, frequencies=np.cos(angles))[0, 0], expected)
    eigenvalues, U = np.linalg.eigh(SCALED.S.toarray())
    assert np.abs(eigenvalues).max() <= 1 + 1e-12
    close(np.einsum("ji,jk,ki->i", U, filt.matrix(params)[0, 0], U), filt.response(params)[0, 0])
    assert ev.Chebyshev(SCALED, 0).response({"theta": np.ones((1, 1, 1))}).shape == (1, 1, 10)


@pytest.mark.parametrize("order", [0, 1, 3, 8])
def test_embedding(order):
    for graph in (DIRECTED, SCALED):
        filt = ev.Chebyshev(graph, order, 2, 2, bias=True)
        params = random_params(filt)
        ev_filt, ev_params = filt.to_edge_variant(params)
        close(ev_filt.matrix(ev_params), filt.matrix(params), rtol=1e-12)
        params["theta"][:-1] = 0  # T_K alone: half of its monomial coefficients are zero
        ev_filt, ev_params = filt.to_edge_variant(params)
        close(ev_filt.matrix(ev_params), filt.matrix(params), rtol=1e-12)


def test_counts():
    filt = ev.Chebyshev(SCALED, 3, 2, 4)
    assert filt.n_parameters == 4 * 2 * 4
    assert filt.n_operations() == 3 * 2 * SCALED.S.nnz + 4 * 8 * 10


# ---- faults, each with the check that sees it ------------------------------------------------------------------------
def _dot(filt, params, x):
    ev.gradcheck.dot_test(filt, params, x).raise_if_failed()


def _oracle(filt, params, x):
    close(filt.forward(params, x)[0], np.einsum("fgij,bgj->bfi", filt.matrix(params), x))


FAULTS = [
    ("state one step old", "w[k, g] = S @ w[k - 1, g]", "w[k, g] = S @ w[k - 2, g]", _oracle),
    ("shift transposed", "w[k, g] = S @ w[k - 1, g]", "w[k, g] = S.T @ w[k - 1, g]", _oracle),
    ("recursion with a plus", "w[k] -= w[k - 2]", "w[k] += w[k - 2]", _oracle),
    ("recursion from k = 1", "if chebyshev and k >= 2:", "if chebyshev and k >= 1:", _oracle),
    ("recursion not doubled", "            w[k] *= 2\n", "", _oracle),
    ("adjoint not transposed", "copy=False).T\n", "copy=False)\n", _dot),
    ("adjoint doubled into x", "if chebyshev and k > 0:", "if chebyshev:", _dot),
    ("adjoint without b^(k+2)", "            below -= above\n", "            pass\n", _dot),
    ("adjoint not seeded", "below += grad_states[k]", "below += 0", _dot),
    ("taps and features swapped", ".reshape(F, taps, G).transpose(1, 0, 2)", ".reshape(taps, F, G)", _dot),
    ("weights not transposed", "_flat(weights).T @ v", "-_flat(weights).T @ v", _dot),
]


@pytest.mark.parametrize(("what", "old", "new", "check"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_faults_in_the_shared_kernels_are_caught(monkeypatch, what, old, new, check):
    broken = edited(shift_reference, old, new)
    filt = ev.Chebyshev(DIRECTED, 3, 2, 3)
    params, x = random_params(filt), normal(1, 2, 2, 7)
    with ev.use_backend("numpy"):
        check(filt, params, x)
        monkeypatch.setitem(ev.kernels._loaded, "shift_reference", broken)
        with pytest.raises(AssertionError):
            check(filt, params, x)
