"""What is particular to Cayley filters; what every filter must do is in test_invariants.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, graphs, normal, random_params, tangent_like

import evref as ev
from evref import checks
from evref.filters import cayley_embedding
from evref.filters.newton import newton_embedding

each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
each_iterations = pytest.mark.parametrize("iterations", [None, 0, 1, 3])


def with_diagonal(graph: ev.Graph, value: float) -> ev.Graph:
    S = graph.S.toarray()
    np.fill_diagonal(S, value)
    return ev.Graph(S)


def oracle(filt: ev.CayleyNet, params: dict, x: np.ndarray) -> np.ndarray:
    """One sample in complex arithmetic, as Levie et al. print it: b_j, the Jacobi matrix, ỹ_j."""
    S, h = filt.graph.S.toarray(), params["h"].item()
    eye = np.eye(len(S))
    c = params["c_re"] + 1j * params["c_im"]
    y = np.zeros((filt.out_features, len(S)))
    for g, signal in enumerate(x):
        y += np.outer(params["c0"][:, g], signal)
        z = signal.astype(complex)
        for j in range(filt.order):
            right = (h * S - 1j * eye) @ z
            if filt.iterations is None:
                z = np.linalg.solve(h * S + 1j * eye, right)
            else:
                diagonal = np.diag(h * S + 1j * eye)
                jacobi = -(h * S + 1j * eye - np.diag(diagonal)) / diagonal[:, None]
                b = z = right / diagonal
                for _ in range(filt.iterations):
                    z = jacobi @ z + b
            y += 2 * np.outer(c[j, :, g], z).real
    return y + (params["bias"][:, None] if filt.bias else 0)


@each_iterations
@each_graph
@pytest.mark.parametrize(("r", "F", "G"), [(1, 1, 1), (3, 2, 3)])
def test_equation(graph, iterations, r, F, G):
    filt = ev.CayleyNet(graph, r, G, F, iterations=iterations, bias=True)
    params, x = random_params(filt), normal(1, G, graph.n_nodes)
    expected = oracle(filt, params, x)
    close(filt.forward(params, x)[0], expected, 1e-11)
    close(np.einsum("fgij,gj->fi", filt.matrix(params), x) + params["bias"][:, None], expected, 1e-11)


@each_iterations
@each_graph
def test_gradients(graph, iterations):
    """The catalogue's example iterates; the exact solve and other counts take the same checks here."""
    filt = ev.CayleyNet(graph, 2, 2, 3, iterations=iterations, bias=True)
    params, x = random_params(filt), normal(1, 2, 2, graph.n_nodes)
    ev.gradcheck.dot_test(filt, params, x, rtol=1e-12).raise_if_failed()
    ev.gradcheck.complex_step(filt, params, x, rtol=1e-10).raise_if_failed()
    ev.gradcheck.central_difference(filt, params, x).raise_if_failed()
    ev.gradcheck.second_order(filt, params, x).raise_if_failed()


@given(graph=graphs(), seed=st.integers(0, 99))
def test_exact_solve_on_symmetric_graphs(graph, seed):
    """hS + iI is then always invertible, with a condition number of at most sqrt(1 + h² rho²)."""
    filt = ev.CayleyNet(ev.Graph(graph.S + graph.S.T), 2, 2, 2)
    params, x = random_params(filt, seed), normal(seed, 3, 2, graph.n_nodes)
    close(filt.forward(params, x)[0], np.einsum("fgij,bgj->bfi", filt.matrix(params), x), 1e-11)
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    moved = ev.CayleyNet(filt.graph.permuted(order), 2, 2, 2)
    close(moved.forward(params, x[..., order])[0], filt.forward(params, x)[0][..., order], 1e-11)


def test_exact_solve_has_manners():
    """float32, an empty batch, NaN in one sample, and no edges: the common checks see only the iterations."""
    graph = GRAPHS["undirected"]
    filt = ev.CayleyNet(graph, 2, 2, 2)
    params, x = random_params(filt), normal(1, 3, 2, graph.n_nodes)
    y, tape = filt.forward(params, x)
    narrow = {name: value.astype(np.float32) for name, value in params.items()}
    y32, tape32 = filt.forward(narrow, x.astype(np.float32))
    grads32, grad_x32 = filt.backward(narrow, tape32, y32)
    assert y32.dtype == grad_x32.dtype == np.float32 and {g.dtype for g in grads32.values()} == {np.dtype(np.float32)}
    close(y32, y.astype(np.float32), 2e-5)
    empty, tape = filt.forward(params, x[:0])
    grads, grad_x = filt.backward(params, tape, empty)
    assert empty.shape == grad_x.shape == (0, 2, 7) and all((g == 0).all() for g in grads.values())
    x[0] = np.nan
    spoilt, _ = filt.forward(params, x, check_finite=False)
    assert np.isnan(spoilt[0]).any() and np.isfinite(spoilt[1:]).all()


def test_integers_exactly():
    """One edge, h = 1: C = (S - i)(S + i)^-1 = -iS because C(±1) = ∓i; c_1 = 3 + 2i gives 2 Re(-i c_1) S = 4 S."""
    filt = ev.CayleyNet(ev.generators.path(2), order=1)
    params = {"c0": [[5.0]], "c_re": [[[3.0]]], "c_im": [[[2.0]]], "h": [1.0]}
    np.testing.assert_array_equal(filt.forward(params, np.array([1.0, 10.0]))[0], [45.0, 54.0])
    # no iteration: (hD + i)^-1 (hS - i) = -i (S - i) = -iS - 1 on a zero diagonal: 4 S - 6 added to 5
    none = ev.CayleyNet(ev.generators.path(2), order=1, iterations=0)
    np.testing.assert_array_equal(none.forward(params, np.array([1.0, 10.0]))[0], [39.0, -6.0])


def test_gradient_of_the_zoom_by_hand():
    """One node, S = 1: y = 2 Re(c C(h)), C' = 2i / (h + i)²; at h = 1 that is 1, so dy/dh = 2 Re c."""
    filt = ev.CayleyNet(ev.Graph([[1.0]]), order=1)
    params = {"c0": np.zeros((1, 1)), "c_re": np.full((1, 1, 1), 3.0), "c_im": np.full((1, 1, 1), 7.0), "h": np.ones(1)}
    _, tape = filt.forward(params, np.array([1.0]))
    grads, _ = filt.backward(params, tape, np.array([1.0]))
    close(grads["h"], np.array([6.0]))


def test_the_sign_of_the_zoom_conjugates():
    for iterations in (None, 2):
        filt = ev.CayleyNet(GRAPHS["directed"], 2, 2, 2, iterations=iterations)
        params = random_params(filt)
        close(filt.matrix({**params, "h": -params["h"]}), filt.matrix({**params, "c_im": -params["c_im"]}))


def test_cayley_transform_is_unitary():
    """On a symmetric S the transform keeps the norm of a signal, whatever h: what makes the filters stable."""
    graph = GRAPHS["undirected"]
    filt = ev.CayleyNet(graph, 3)
    system = filt._system(np.array([0.7]), np.dtype(float))
    z, _ = filt._transforms(system, normal(1, 1, 1, graph.n_nodes))
    norms = [np.linalg.norm(part) for part in z]
    close(np.array(norms), np.full(4, norms[0]))


def test_singular_systems_are_named():
    rotation = ev.Graph([[0.0, 1.0], [-1.0, 0.0]])  # eigenvalues ±i
    filt = ev.CayleyNet(rotation, order=1)
    params = random_params(filt)
    for h in (1.0, -1.0):
        with pytest.raises(ValueError, match=r"hS \+ iI is singular at h = -?1: S has an eigenvalue"):
            filt.forward({**params, "h": np.array([h])}, np.ones(2))
    assert np.isfinite(filt.forward({**params, "h": np.array([0.5])}, np.ones(2))[0]).all()
    Q = np.linalg.qr(normal(0, 4, 4))[0]  # the same eigenvalues, and zero only up to rounding
    turned = ev.CayleyNet(ev.Graph(Q @ np.kron(np.eye(2), rotation.S.toarray()) @ Q.T), order=1)
    with pytest.raises(ValueError, match="is singular at h = 1"):
        turned.forward({**params, "h": np.ones(1)}, np.ones(4))
    iterated = ev.CayleyNet(rotation, order=1, iterations=3)  # no inverse, no complaint
    assert np.isfinite(iterated.forward({**params, "h": np.ones(1)}, np.ones(2))[0]).all()


# ---- responses and limits -------------------------------------------------------------------------------------------
@each_iterations
@each_graph
def test_response_is_the_matrix_in_the_spectral_domain(graph, iterations):
    symmetric = with_diagonal(ev.Graph(graph.S + graph.S.T), 0.5)
    filt = ev.CayleyNet(symmetric, 2, 2, 3, iterations=iterations)
    params = random_params(filt)
    _, U = np.linalg.eigh(symmetric.S.toarray())
    h = filt.response(params)
    assert h.dtype == float
    close(np.einsum("in,fgn,jn->fgij", U, h, U), filt.matrix(params), 1e-11)


@pytest.mark.parametrize("iterations", [None, 2])
def test_response_of_a_directed_graph(iterations):
    """Complex frequencies: c C^j + conj(c) C^-j, not twice a real part; compared through the eigenvectors."""
    graph = with_diagonal(GRAPHS["directed"], 1.0)
    filt = ev.CayleyNet(graph, 2, 1, 1, iterations=iterations)
    params = random_params(filt)
    lam, U = np.linalg.eig(graph.S.toarray())
    H = (U * filt.response(params, lam)[0, 0]) @ np.linalg.inv(U)
    assert np.abs(lam.imag).max() > 0.1 and np.abs(H.imag).max() < 1e-9
    close(H.real, filt.matrix(params)[0, 0], 1e-9)


@pytest.mark.parametrize("shift", ["laplacian", "normalized_laplacian"])
def test_iterations_converge_where_the_rate_is_below_one(shift):
    """The error of one system is M^(J+1) C, M the Jacobi matrix; on a Laplacian ‖M‖ < 1 for every h."""
    graph = ev.generators.erdos_renyi(12, 0.4, rng=1).with_shift(shift)
    S, eye = graph.S.toarray(), np.eye(12)
    for h in (0.1, 1.0, 10.0):
        diagonal = h * np.diag(S) + 1j
        M = -h * (S - np.diag(np.diag(S))) / diagonal[:, None]
        C = np.linalg.solve(h * S + 1j * eye, h * S - 1j * eye)
        for J in (0, 1, 5, 50):
            filt = ev.CayleyNet(graph, 1, iterations=J)
            params = {**random_params(filt), "h": np.array([h])}
            c = params["c_re"][0, 0] + 1j * params["c_im"][0, 0]
            error = filt.matrix(params) - filt.exact_matrix(params)
            expected = -2 * (c * np.linalg.matrix_power(M, J + 1) @ C).real
            assert np.abs(error[0, 0] - expected).max() < 1e-12
        assert np.isclose(filt.convergence_rate(params), np.abs(np.linalg.eigvals(M)).max())
        assert filt.convergence_rate(params) < 1
        if h < 1:
            assert np.abs(error).max() < 1e-6


def test_iterations_diverge_where_it_is_not():
    filt = ev.CayleyNet(GRAPHS["undirected"], 1, iterations=30)
    params = {**random_params(filt), "h": np.array([2.0])}
    assert filt.convergence_rate(params) > 1
    assert np.abs(filt.matrix(params) - filt.exact_matrix(params)).max() > 1e3
    close(filt.exact_response(params), ev.CayleyNet(filt.graph, 1).response(params))


def test_response_needs_a_constant_diagonal():
    filt = ev.CayleyNet(GRAPHS["undirected"], 2, iterations=1)
    with pytest.raises(ev.NotRepresentable, match="only if its diagonal is constant; it runs from 0 to 1"):
        filt.response(random_params(filt))
    filt.exact_response(random_params(filt))


# ---- embedding ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("r", "J"), [(1, 0), (1, 1), (2, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("diagonal", [0.0, 1.0, -0.5])
@each_graph
def test_polynomial_on_a_constant_diagonal(graph, r, J, diagonal):
    constant = with_diagonal(graph, diagonal)
    filt = ev.CayleyNet(constant, r, 2, 3, iterations=J, bias=True)
    params, x = random_params(filt), normal(1, 2, 2, graph.n_nodes)
    c, S = filt.coefficients(params), constant.S.toarray()
    assert len(c) == r * (J + 1) + 1
    close(np.einsum("kfg,kij->fgij", c, [np.linalg.matrix_power(S, k) for k in range(len(c))]), filt.matrix(params))
    ev_filt, ev_params = filt.to_edge_variant(params)
    assert isinstance(ev_filt, ev.EdgeVariant) and ev_filt.order == filt.reach == r * (J + 1)
    close(ev_filt.forward(ev_params, x)[0], filt.forward(params, x)[0], 1e-9)


@pytest.mark.parametrize(("r", "J"), [(1, 0), (1, 1), (2, 0), (2, 1), (1, 3), (3, 0)])
@pytest.mark.parametrize("name", ["undirected", "directed"])
def test_parallel_sum_on_any_diagonal(name, r, J):
    filt = ev.CayleyNet(GRAPHS[name], r, 2, 3, iterations=J, bias=True)
    params, x = random_params(filt), normal(1, 2, 2, filt.graph.n_nodes)
    sum_, ev_params = filt.to_edge_variant(params)
    assert isinstance(sum_, ev.ParallelEdgeVariant) and sum_.order == r * (J + 1)
    assert sum_.terms == cayley_embedding.n_terms(r, J)
    close(sum_.matrix(ev_params), filt.matrix(params), 1e-12)
    close(sum_.forward(ev_params, x)[0], filt.forward(params, x)[0], 1e-12)


@pytest.mark.parametrize("graph", [GRAPHS["directed"], with_diagonal(GRAPHS["directed"], 1.0)], ids=["any", "constant"])
def test_embedding_is_analytic(graph):
    filt = ev.CayleyNet(graph, 2, 1, 2, iterations=1)
    params, d = random_params(filt), tangent_like(random_params(filt))
    moved = {name: value + 1e-30j * d[name] for name, value in params.items()}
    with checks.complex_allowed():
        ev_filt, ev_params = filt.to_edge_variant(moved)
        close(ev_filt.matrix(ev_params).imag / 1e-30, filt.matrix(moved).imag / 1e-30, 1e-9)


def test_no_polynomial_on_another_diagonal():
    """Remark 1 fails: the best polynomial of S, of any order, leaves a tenth of what the iterations compute."""
    filt = ev.CayleyNet(ev.generators.path(5).with_shift("laplacian"), 1, iterations=1)
    params = {"c0": np.zeros((1, 1)), "c_re": np.ones((1, 1, 1)), "c_im": np.zeros((1, 1, 1)), "h": np.ones(1)}
    S = filt.graph.S.toarray()
    H = filt.matrix(params)[0, 0]
    powers = np.stack([np.linalg.matrix_power(S, k).ravel() for k in range(5)], axis=1)
    best = powers @ np.linalg.lstsq(powers, H.ravel(), rcond=None)[0]
    assert np.linalg.norm(H.ravel() - best) > 0.1 * np.linalg.norm(H)
    assert np.abs(H @ S - S @ H).max() > 0.05  # it does not even commute with S
    with pytest.raises(ev.NotRepresentable, match="constant; it runs from 1 to 2"):
        filt.coefficients(params)
    constant = ev.CayleyNet(with_diagonal(filt.graph, 1.0), 1, iterations=1)
    H, S = constant.matrix(params)[0, 0], constant.graph.S.toarray()
    close(H @ S, S @ H)


def test_errors_of_the_embedding():
    filt = ev.CayleyNet(GRAPHS["undirected"], 2)
    for method in (filt.to_edge_variant, filt.coefficients):
        with pytest.raises(ev.NotRepresentable, match="iterations is None: .* at most 6 is"):
            method(random_params(filt))
    large = ev.CayleyNet(GRAPHS["undirected"], 3, iterations=2)
    with pytest.raises(ev.NotRepresentable, match=r"runs from 0 to 1\).* parallel sum of 2953 recursions, more than"):
        large.to_edge_variant(random_params(large))


def test_the_exact_filter_is_a_polynomial_of_the_spectrum():
    """What the error says: on one graph, interpolation at its N frequencies gives an EV filter of order N - 1."""
    graph = ev.generators.path(5)
    filt = ev.CayleyNet(graph, 2)
    params = random_params(filt)
    lam = np.linalg.eigvalsh(graph.S.toarray())
    c = np.linalg.solve(np.vander(lam, increasing=True), filt.response(params)[0, 0])
    ev_filt, ev_params = newton_embedding(graph, c.reshape(-1, 1, 1))
    assert ev_filt.order == 4
    close(ev_filt.matrix(ev_params), filt.matrix(params), 1e-10)


# ---- counts, start, arguments ---------------------------------------------------------------------------------------
@given(graph=graphs(), r=st.integers(1, 3), J=st.integers(0, 2), F=st.integers(1, 3), G=st.integers(1, 3))
def test_counts(graph, r, J, F, G):
    filt = ev.CayleyNet(graph, r, G, F, iterations=J)
    assert filt.n_parameters == (2 * r + 1) * F * G + 1
    N, nnz, M = graph.n_nodes, graph.S.nnz, graph.n_edges
    assert filt.n_operations(3) == 3 * (r * G * (2 * nnz + 2 * J * M + 4 * N * (J + 1)) + (2 * r + 1) * F * G * N)
    exact = ev.CayleyNet(graph, r, G, F, bias=True)
    assert exact.n_parameters == (2 * r + 1) * F * G + 1 + F and exact.reach is None
    assert exact.n_operations() == r * G * (2 * nnz + 4 * N * N) + (2 * r + 1) * F * G * N


def test_zoom_starts_positive():
    filt = ev.CayleyNet(GRAPHS["undirected"], 2)
    assert all(0.5 <= filt.init(seed)["h"].item() <= 1.5 for seed in range(20))
    assert filt.init(0, dtype="float32")["h"].dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"order": 0}, ValueError, "order is 0; expected at least 1"),
        ({"order": 1.5}, TypeError, "order is 1.5"),
        ({"order": 2, "iterations": -1}, ValueError, "iterations is -1; expected at least 0"),
        ({"order": 2, "iterations": True}, TypeError, r"iterations is True \(bool\)"),
        ({"order": 2, "in_features": 0}, ValueError, "in_features is 0"),
        ({"order": 2, "bias": 0}, TypeError, "bias is 0"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.CayleyNet(GRAPHS["directed"], **arguments)
