"""The Newton form: every real polynomial is an edge-variant recursion, with its condition for each zeroth (R4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import GRAPHS, close, graphs, normal, random_graph

import evref as ev
from evref import checks
from evref.filters.newton import divided_differences, newton_embedding, newton_nodes, spectral_bound
from evref.verify.paper.polynomial import complete_with_weights, five_nodes, nearest_in_family, signed_factors

DIRECTED = random_graph(5, 8, directed=True, density=0.4)
NAMED = {
    "1 + s^2": [1, 0, 1],
    "s^2": [0, 0, 1],
    "s^3": [0, 0, 0, 1],
    "s^8": [0] * 8 + [1],
    "1 + s^8": [1] + [0] * 7 + [1],
    "zero": [0, 0, 0],
    "constant": [3, 0, 0],
    "degree below the order": [1, 2, 0, 0, 0],
    "T_8": [1, 0, -32, 0, 160, 0, -256, 0, 128],
    "constant, order 0": [2],
    "coefficients of all sizes": [1e-8, 1, 0, 1e6, 1e-3],
}


def bank(*coefficients):
    return np.array(coefficients, float).reshape(-1, 1, 1)


def dense(graph, a):
    S = graph.S.toarray()
    return sum(np.einsum("fg,ij->fgij", a[k], np.linalg.matrix_power(S, k)) for k in range(len(a)))


def error(graph, a, **options):
    """Against p(S), relative to what the terms of p add up to in size."""
    filt, params = newton_embedding(graph, a, **options)
    size = max(np.abs(dense(ev.Graph(abs(graph.S)), np.abs(a))).max(), 1e-300)
    return np.abs(filt.matrix(params) - dense(graph, a)).max() / size


@pytest.mark.parametrize("graph", [*GRAPHS.values(), DIRECTED], ids=[*GRAPHS, "directed, 8 nodes"])
@pytest.mark.parametrize("coefficients", NAMED.values(), ids=NAMED)
def test_exact_for_named_polynomials(graph, coefficients):
    assert error(graph, bank(*coefficients)) <= 1e-13


@settings(deadline=None)
@given(graph=graphs(), seed=st.integers(0, 2**20), order=st.integers(0, 8), sparse=st.booleans())
def test_exact_for_every_polynomial(graph, seed, order, sparse):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((order + 1, 2, 3))
    if sparse:
        a *= rng.random(a.shape) < 0.4
    assert error(graph, a) <= 1e-12


def test_ratios_stay_small():
    """|c_k / c_(k-1)| times the spectral radius: what one step of the recursion may magnify."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for graph in (DIRECTED, ev.generators.path(20), ev.generators.erdos_renyi(12, 0.3, rng=1).with_shift("laplacian")):
        for order in (2, 4, 8):
            a = rng.standard_normal((order + 1, 4, 50)) * (rng.random((order + 1, 4, 50)) < 0.5)
            _, params = newton_embedding(graph, a)
            off = graph.shift_values() != 0
            ratio = (params["phi"][..., off] / graph.shift_values()[off])[..., 0]
            worst = max(worst, np.abs(ratio).max() * spectral_bound(graph))
    assert worst < 50


def test_node_and_difference_by_hand():
    # p = 1 + s^2 on s_0 = 1, s_1 = 0: c = (2, 1, 1), p = 2 + (s - 1) + (s - 1) s
    c = divided_differences(bank(1, 0, 1), np.array([1.0, 0.0]).reshape(2, 1, 1))
    assert c.ravel().tolist() == [2, 1, 1]
    graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    filt, params = newton_embedding(graph, bank(1, 0, 1), nodes=[1.0, 0.0])
    assert params["phi0"].ravel().tolist() == [2, 2, 2]
    np.testing.assert_array_equal(graph.to_csr(params["phi"][0, 0, 0]).toarray(), (graph.S.toarray() - np.eye(3)) / 2)
    np.testing.assert_array_equal(graph.to_csr(params["phi"][1, 0, 0]).toarray(), graph.S.toarray())
    np.testing.assert_array_equal(filt.matrix(params)[0, 0], [[1, 0, 0], [0, 1, 0], [1, 0, 1]])


def test_nodes_at_zero_are_the_telescoping_sum():
    a = bank(2, -1, 3)
    _, params = newton_embedding(DIRECTED, a, nodes=np.zeros(2))
    S = DIRECTED.shift_values()
    close(params["phi"][:, 0, 0], np.stack([-0.5 * S, -3 * S]))
    with pytest.raises(ev.NotRepresentable, match=r"c_1 of the polynomial \(0, 0\) of degree 2 is zero"):
        newton_embedding(DIRECTED, bank(1, 0, 1), nodes=np.zeros(2))


def test_nodes_differ_where_p_does_not_vanish():
    for coefficients in NAMED.values():
        a = bank(*coefficients)
        nodes = newton_nodes(DIRECTED, a)
        c = divided_differences(a, nodes).ravel()
        degree = max(np.flatnonzero(a.ravel()), default=-1)
        assert (c[: degree + 1] != 0).all() and (c[degree + 1 :] == 0).all()
        assert len(set(nodes.ravel()[: max(degree, 0)].tolist())) == max(degree, 0)


@pytest.mark.parametrize("zeroth", ["diagonal", "none", "identity"])
def test_analytic_in_the_coefficients(zeroth):
    """Im embedding(a + ih) / h against a central difference, nodes held by the real part."""
    a = np.array([0.3, -1.0, 0.5, 0.8]).reshape(4, 1, 1)
    nodes = newton_nodes(DIRECTED, a) if zeroth == "diagonal" else None
    for k in range(4):
        moved = a.astype(complex)
        moved[k] += 1e-30j
        with checks.complex_allowed():
            params = newton_embedding(DIRECTED, moved, zeroth=zeroth)[1]
        step = np.zeros_like(a)
        step[k] = 1e-6
        up, down = (newton_embedding(DIRECTED, a + s * step, nodes=nodes, zeroth=zeroth)[1] for s in (1, -1))
        for name, value in params.items():
            close(value.imag / 1e-30, (up[name] - down[name]) / 2e-6, rtol=1e-7)


def test_float32_and_bias():
    a = normal(0, 3, 2, 1, dtype=np.float32)
    bias = np.array([1, 2], np.float32)
    filt, params = newton_embedding(DIRECTED, a, bias=bias)
    assert filt.bias and filt.zeroth == "diagonal" and filt.order == 2
    assert {value.dtype for value in params.values()} == {np.dtype(np.float32)}
    close(filt.matrix(params), dense(DIRECTED, a).astype(np.float32), rtol=1e-5)


# ---- without a Phi^(0) ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "coefficients", [[0, 0, 1], [1, -2, 1], [-1, 0, 1], [0, 0, 0], [1, 0, 1, 0], [1, 2, 3, 4], [1, 0, 0]]
)
def test_without_zeroth_term_degree_below_order_or_a_real_root(coefficients):
    assert error(DIRECTED, bank(*coefficients), zeroth="none") <= 1e-13
    shifted = bank(coefficients[0] + 1, *coefficients[1:])
    assert error(DIRECTED, shifted, zeroth="identity") <= 1e-13


@settings(deadline=None)
@given(seed=st.integers(0, 2**20), order=st.integers(1, 7))
def test_without_zeroth_term_every_odd_degree(seed, order):
    a = np.random.default_rng(seed).uniform(-1, 1, (order + 1, 1, 1))
    a[-1] = 1.0 if order % 2 else 0.0  # odd degree has a real root; degree K - 1 needs none
    assert error(DIRECTED, a, zeroth="none") <= 1e-10


def test_without_zeroth_term_no_real_root():
    cases = ([1, 0, 1], "none"), ([2, 0, 1], "identity"), ([1, 0, 0, 0, 1], "none"), ([0.5, 0, -1], "identity")
    for coefficients, zeroth in cases:  # the last has real roots, but minus 1 it has none
        polynomial = r"\(0, 0\) minus 1 has" if zeroth == "identity" else r"\(0, 0\) has"
        restriction = "Phi's of degree 0 or 1 in S .on some graphs others would do"
        with pytest.raises(ev.NotRepresentable, match=f"{polynomial} .* no real root.*factor of it.*{restriction}"):
            newton_embedding(DIRECTED, bank(*coefficients), zeroth=zeroth)


def test_degree_one_is_needed_for_the_real_root():
    """Phi's that are polynomials of S of higher degree reach 1 + s^2 at K = 2; the Newton form says why it does not."""
    dense = complete_with_weights()
    S = dense.S.toarray()
    wanted = np.eye(4) + S @ S
    phi = np.stack([wanted.ravel(), np.zeros(16)]).reshape(2, 1, 1, 16)
    np.testing.assert_array_equal(ev.EdgeVariant(dense, order=2).matrix({"phi": phi})[0, 0], wanted)

    for graph, d, reached in ((five_nodes(), 3, True), (ev.generators.path(5), 2, False)):
        dimension, distance = nearest_in_family(graph, 20, np.random.default_rng(0))
        assert dimension == d and (distance < 1e-13 if reached else distance > 0.05)
    for graph in (dense, five_nodes()):
        with pytest.raises(
            ev.NotRepresentable, match=r"Phi's of degree 0 or 1 in S \(on some graphs others would do, R4\)"
        ):
            newton_embedding(graph, bank(1, 0, 1), zeroth="none")


def test_the_signed_factors_need_a_bipartite_shift_without_diagonal():
    path = ev.generators.path(6).S.toarray()
    for S, exact in ((path, True), (path + np.eye(6), False)):
        first, second = signed_factors(ev.Graph(S))
        assert np.array_equal(first + second @ first, np.eye(6) + S @ S) == exact


# ---- bad input ------------------------------------------------------------------------------------------------------
def test_errors():
    with pytest.raises(ValueError, match=r"coefficients has shape \(3,\); expected \(order \+ 1"):
        newton_embedding(DIRECTED, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"coefficients has shape \(0, 1, 1\)"):
        newton_embedding(DIRECTED, np.zeros((0, 1, 1)))
    with pytest.raises(ValueError, match="coefficients has 1 value"):
        newton_embedding(DIRECTED, bank(np.nan, 1))
    with pytest.raises(TypeError, match="coefficients has dtype complex128"):
        newton_embedding(DIRECTED, bank(1, 1).astype(complex))
    with pytest.raises(TypeError, match=r"graph is numpy.ndarray"):
        newton_embedding(np.eye(3), bank(1, 1))
    with pytest.raises(ValueError, match=r"bias has shape \(2,\); expected \(1,\)"):
        newton_embedding(DIRECTED, bank(1, 1), bias=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"nodes has shape \(3,\); expected \(1, 1, 1\) or \(1,\)"):
        newton_embedding(DIRECTED, bank(1, 1), nodes=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="zeroth is 'some'"):
        newton_embedding(DIRECTED, bank(1, 1), zeroth="some")
    with pytest.raises(ValueError, match="zeroth is 'none'; expected 'diagonal' where nodes"):
        newton_embedding(DIRECTED, bank(1), zeroth="none")


@settings(deadline=None)
@given(graph=graphs())
def test_spectral_bound_is_one(graph):
    radius = np.abs(np.linalg.eigvals(graph.S.toarray())).max()
    assert 0 < spectral_bound(graph) and radius <= spectral_bound(graph) * (1 + 1e-9) + 1e-6
