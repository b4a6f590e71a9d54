"""What is particular to ARMA filters; what every filter must do is in test_invariants.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, close, graphs, normal, random_params, tangent_like

import evref as ev
from evref import checks

each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
each_sharing = pytest.mark.parametrize("shared", [True, False])


def oracle(filt: ev.ARMA, params: dict, x: np.ndarray) -> np.ndarray:
    """One sample, every index written out: X_f^(t+1)(i) = sum_f' W_ff' sum_j S_ij X_f'^(t)(j) + sum_g V_fg X_g(i)."""
    S, (G, N), F = filt.graph.S.toarray(), x.shape, filt.out_features
    y = np.zeros((F, N))
    for p in range(filt.stacks):
        for t in range(filt.iterations):
            before = x if t == 0 else state  # noqa: F821
            weight = params["w0"][p] if t == 0 else params["w"][0 if filt.shared else t - 1][p]
            root = params["v"][0 if filt.shared else t][p]
            state = np.zeros((F, N))
            for f in range(F):
                for i in range(N):
                    for e in range(len(before)):
                        for j in range(N):
                            state[f, i] += weight[f, e] * S[i, j] * before[e, j]
                    for g in range(G):
                        state[f, i] += root[f, g] * x[g, i]
        y += state / filt.stacks
    return y + (params["bias"][:, None] if filt.bias else 0)


@each_sharing
@each_graph
@pytest.mark.parametrize(("T", "P", "F", "G"), [(1, 1, 1, 1), (2, 1, 2, 3), (3, 2, 3, 2), (4, 3, 1, 2)])
def test_equation(graph, shared, T, P, F, G):
    filt = ev.ARMA(graph, T, G, F, stacks=P, shared=shared, bias=True)
    params, x = random_params(filt), normal(1, G, graph.n_nodes)
    expected = oracle(filt, params, x)
    close(filt.forward(params, x)[0], expected)
    close(np.einsum("fgij,gj->fi", filt.matrix(params), x) + params["bias"][:, None], expected)


@each_sharing
@each_graph
def test_gradients(graph, shared):
    """The example of the catalogue shares its weights; this takes all checks with both, and with one iteration."""
    for T in (1, 3):
        filt = ev.ARMA(graph, T, 2, 3, stacks=2, shared=shared)
        params, x = random_params(filt), normal(1, 2, 2, graph.n_nodes)
        ev.gradcheck.dot_test(filt, params, x, rtol=1e-12).raise_if_failed()
        ev.gradcheck.complex_step(filt, params, x, rtol=1e-10).raise_if_failed()


def test_integers_exactly():
    """x = (1, 0), one edge 0 -> 1 of weight 2: X1 = (3 Sx + 5 x) = (5, 6); X2 = 7 S X1 + 5 x = (5, 70)."""
    filt = ev.ARMA(ev.Graph.from_edges(2, [0], [1], [2.0]), iterations=2, stacks=1)
    params = {"w0": np.full((1, 1, 1), 3.0), "w": np.full((1, 1, 1, 1), 7.0), "v": np.full((1, 1, 1, 1), 5.0)}
    y, tape = filt.forward(params, np.array([1.0, 0.0]))
    np.testing.assert_array_equal(y, [5.0, 70.0])
    grads, grad_x = filt.backward(params, tape, np.array([0.0, 1.0]))  # y_1 = 7*2*(5 x_0) + 5 x_1 (S^2 = 0)
    np.testing.assert_array_equal(grad_x, [70.0, 5.0])
    assert (grads["w"].item(), grads["v"].item(), grads["w0"].item()) == (10.0, 14.0, 0.0)
    dy = filt.jvp(
        params, np.array([1.0, 0.0]), {**params, "w": np.ones((1, 1, 1, 1)), "v": 0 * params["v"]}, np.zeros(2)
    )
    np.testing.assert_array_equal(dy, [0.0, 10.0])


@given(graph=graphs(), seed=st.integers(0, 99))
def test_sharing_is_repetition(graph, seed):
    """Equal weights in all iterations: the same output, and the gradients of the copies add up."""
    one, many = (ev.ARMA(graph, 3, 2, 2, shared=shared) for shared in (True, False))
    params, x = random_params(one, seed), normal(seed, 2, 2, graph.n_nodes)
    copied = {**params, "w": np.repeat(params["w"], 2, axis=0), "v": np.repeat(params["v"], 3, axis=0)}
    (y, tape), (y_many, tape_many) = one.forward(params, x), many.forward(copied, x)
    np.testing.assert_array_equal(y, y_many)
    u = normal(seed + 1, *y.shape)
    grads, grads_many = one.backward(params, tape, u)[0], many.backward(copied, tape_many, u)[0]
    for name in ("w", "v"):
        close(grads_many[name].sum(axis=0, keepdims=True), grads[name], 1e-11)


def test_stacks_are_averaged():
    graph = GRAPHS["directed"]
    both, one = ev.ARMA(graph, 3, 2, 2, stacks=2), ev.ARMA(graph, 3, 2, 2, stacks=1)
    params, x = random_params(both), normal(1, 2, 2, graph.n_nodes)
    parts = [
        {"w0": params["w0"][p : p + 1], "w": params["w"][:, p : p + 1], "v": params["v"][:, p : p + 1]} for p in (0, 1)
    ]
    close(both.forward(params, x)[0], sum(one.forward(part, x)[0] for part in parts) / 2)


@each_sharing
@each_graph
def test_coefficients_are_those_of_the_polynomial(graph, shared):
    filt = ev.ARMA(graph, 3, 2, 3, shared=shared)
    params, S = random_params(filt), graph.S.toarray()
    c = filt.coefficients(params)
    assert c.shape == (4, 3, 2)
    close(np.einsum("kfg,kij->fgij", c, [np.linalg.matrix_power(S, k) for k in range(4)]), filt.matrix(params))


@each_graph
def test_response_is_the_matrix_in_the_spectral_domain(graph):
    symmetric = ev.Graph(graph.S + graph.S.T)
    filt = ev.ARMA(symmetric, 3, 2, 3)
    params = random_params(filt)
    lam, U = np.linalg.eigh(symmetric.S.toarray())
    close(np.einsum("in,fgn,jn->fgij", U, filt.response(params), U), filt.matrix(params), 1e-11)
    close(filt.response(params, lam), filt.response(params))
    assert filt.response(params, [0.0, 1.0, 2j]).shape == (3, 2, 3)


def test_response_of_a_directed_graph():
    graph = GRAPHS["directed"]
    filt = ev.ARMA(graph, 2, 1, 1)
    params, S = random_params(filt), graph.S.toarray()
    h, lam = filt.response(params)[0, 0], np.linalg.eigvals(S)
    close(np.sort(np.abs(h)), np.sort(np.abs(np.polyval(filt.coefficients(params)[::-1, 0, 0], lam))), 1e-10)


# ---- the limit ------------------------------------------------------------------------------------------------------
def contracting(rate: float, shared: bool = True, T: int = 3) -> tuple[ev.ARMA, dict]:
    filt = ev.ARMA(GRAPHS["directed"], T, 2, 3, stacks=2, shared=shared)
    params = random_params(filt)
    params["w"] = params["w"] * (rate / filt.convergence_rate(params)) if shared else params["w"]
    return filt, params


def test_limit_solves_the_fixed_point():
    filt, params = contracting(0.8)
    assert np.isclose(filt.convergence_rate(params), 0.8)
    one = ev.ARMA(filt.graph, 2, 2, 3, stacks=1)
    part = {"w0": params["w0"][:1], "w": params["w"][:, :1], "v": params["v"][:, :1]}
    H, S = one.exact_matrix(part), filt.graph.S.toarray()
    step = np.einsum("fe,ij,egjk->fgik", part["w"][0, 0], S, H) + np.einsum(
        "fg,ij->fgij", part["v"][0, 0], np.eye(len(S))
    )
    close(step, H)


def test_finite_recursion_tends_to_the_limit():
    """h_T - h = lambda^T W^(T-1) (W^0 - W h) in each stack: the error falls by rho(W) rho(S) per iteration."""
    filt, params = contracting(0.5)
    exact = filt.exact_matrix(params)
    errors = []
    for T in (10, 20, 40, 80):
        longer = ev.ARMA(filt.graph, T, 2, 3, stacks=2)
        errors.append(np.abs(longer.matrix(params) - exact).max() / np.abs(exact).max())
    assert errors[3] < 1e-14 < errors[2]
    for early, late, steps in zip(errors[:2], errors[1:3], (10, 20), strict=True):
        assert 0.4 < (late / early) ** (1 / steps) < 0.6


def test_error_formula():
    filt, params = contracting(0.7)
    one = ev.ARMA(filt.graph, 4, 2, 3, stacks=1)
    part = {"w0": params["w0"][:1], "w": params["w"][:, :1], "v": params["v"][:, :1]}
    W, lam = part["w"][0, 0], np.linspace(-0.5, 0.5, 5)
    h = one.exact_response(part, lam)
    start = part["w0"][0][..., None] - np.einsum("fe,egn->fgn", W, h)
    expected = lam**4 * np.einsum("fe,egn->fgn", np.linalg.matrix_power(W, 3), start)
    close(one.response(part, lam) - h, expected, 1e-11)


def test_exact_response_is_the_exact_matrix_in_the_spectral_domain():
    graph = GRAPHS["undirected"]
    filt = ev.ARMA(graph, 2, 2, 3)
    params = random_params(filt)
    params["w"] = params["w"] * (0.9 / filt.convergence_rate(params))
    _, U = np.linalg.eigh(graph.S.toarray())
    close(np.einsum("in,fgn,jn->fgij", U, filt.exact_response(params), U), filt.exact_matrix(params), 1e-11)


def test_a_scalar_stack_is_one_pole():
    filt = ev.ARMA(ev.generators.path(4), iterations=2, stacks=1)
    params = {"w0": [[[9.0]]], "w": [[[[0.25]]]], "v": [[[[3.0]]]]}
    close(filt.exact_response(params, [0.0, 1.0, -2.0])[0, 0], np.array([3.0, 4.0, 2.0]))  # 3 / (1 - lambda / 4)


def test_errors_of_the_limit():
    filt, params = contracting(1.0000001)
    for method in (filt.exact_matrix, filt.exact_response):
        with pytest.raises(ev.NotRepresentable, match=r"the recursion diverges: rho\(W\) rho\(S\) = 1 in a stack"):
            method(params)
    unshared, params = contracting(0, shared=False)
    with pytest.raises(ev.NotRepresentable, match="no limit: shared=False, iterations=3"):
        unshared.exact_matrix(params)
    once = ev.ARMA(GRAPHS["directed"], 1)
    with pytest.raises(ev.NotRepresentable, match="no limit: shared=True, iterations=1"):
        once.exact_response(random_params(once))
    with pytest.raises(ValueError, match="frequencies has shape"):
        filt.response(random_params(filt), [[1.0]])


# ---- embedding, counts, arguments -----------------------------------------------------------------------------------
@each_sharing
@each_graph
def test_embedding(graph, shared):
    filt = ev.ARMA(graph, 3, 2, 3, shared=shared, bias=True)
    params, x = random_params(filt), normal(1, 2, 2, graph.n_nodes)
    ev_filt, ev_params = filt.to_edge_variant(params)
    assert isinstance(ev_filt, ev.EdgeVariant) and ev_filt.order == 3 and ev_filt.graph is graph
    close(ev_filt.matrix(ev_params), filt.matrix(params), 1e-11)
    close(ev_filt.forward(ev_params, x)[0], filt.forward(params, x)[0], 1e-11)


def test_embedding_is_analytic():
    """A complex step through the map moves the embedded matrix as it moves the filter's own."""
    filt = ev.ARMA(GRAPHS["directed"], 3, 2, 2)
    params, d = random_params(filt), tangent_like(random_params(filt))
    moved = {name: value + 1e-30j * d[name] for name, value in params.items()}
    with checks.complex_allowed():
        ev_filt, ev_params = filt.to_edge_variant(moved)
        close(ev_filt.matrix(ev_params).imag / 1e-30, filt.matrix(moved).imag / 1e-30, 1e-9)


@given(graph=graphs(), T=st.integers(1, 4), P=st.integers(1, 3), F=st.integers(1, 3), G=st.integers(1, 3))
def test_counts(graph, T, P, F, G):
    filt = ev.ARMA(graph, T, G, F, stacks=P)
    assert filt.n_parameters == P * (2 * F * G + (F * F if T > 1 else 0))
    every = ev.ARMA(graph, T, G, F, stacks=P, shared=False, bias=True)
    assert every.n_parameters == P * (F * G + (T - 1) * F * F + T * F * G) + F
    nnz, N = graph.S.nnz, graph.n_nodes
    assert filt.n_operations(2) == 2 * ((G + (T - 1) * P * F) * nnz + P * N * F * (2 * G + (T - 1) * F))
    assert filt.reach == T


def test_nonlinear_layer_from_a_network():
    """Bianchi's layer with one stack and one iteration is the filter and a ReLU."""
    graph = GRAPHS["directed"]
    net = ev.Network([ev.ARMA(graph, 1, 2, 3, stacks=1), ev.ReLU()])
    params, x = net.init(0), normal(1, 2, 2, graph.n_nodes)
    w0, v = params["0.w0"][0], params["0.v"][0, 0]
    close(net.forward(params, x)[0], np.maximum(w0 @ x @ graph.S.toarray().T + v @ x, 0))


def test_feedback_starts_contracting():
    graph = ev.generators.erdos_renyi(30, 0.2, rng=0).with_shift("normalized_adjacency")
    filt = ev.ARMA(graph, 4, 16, 16)
    assert filt.convergence_rate(filt.init(0)) < 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"iterations": 0}, ValueError, "iterations is 0; expected at least 1"),
        ({"iterations": 1.5}, TypeError, "iterations is 1.5"),
        ({"iterations": True}, TypeError, r"iterations is True \(bool\)"),
        ({"iterations": 2, "stacks": 0}, ValueError, "stacks is 0; expected at least 1"),
        ({"iterations": 2, "shared": 1}, TypeError, "shared is 1"),
        ({"iterations": 2, "in_features": 0}, ValueError, "in_features is 0"),
        ({"iterations": 2, "bias": 0}, TypeError, "bias is 0"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.ARMA(GRAPHS["directed"], **arguments)
