"""What is particular to graph attention; what every filter must do is in test_invariants.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import GRAPHS, close, graphs, normal, random_params

import evref as ev

each_setting = pytest.mark.parametrize(("heads", "slope"), [(1, 0.2), (2, 0.0), (4, 0.7), (2, 1.0)])


def by_hand(filt: ev.GraphAttention, params: dict, x: np.ndarray) -> np.ndarray:
    """One sample, every sum a loop."""
    graph, width = filt.graph, filt.out_features // filt.heads
    y = np.zeros(filt.out_shape)
    for h in range(filt.heads):
        z = params["weight"][h] @ x
        for i in range(graph.n_nodes):
            heard = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
            e = []
            for j in heard:
                q = sum(params["source"][h, f] * z[f, j] + params["target"][h, f] * z[f, i] for f in range(width))
                e.append(math.exp(q if q > 0 else filt.slope * q))
            for f in range(width):
                y[h * width + f, i] = sum(a * z[f, j] for a, j in zip(e, heard, strict=True)) / sum(e)
    return y


@each_setting
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_loops_from_the_equation(graph, heads, slope):
    filt = ev.GraphAttention(graph, 3, 4, heads=heads, slope=slope)
    params, x = random_params(filt), normal(1, 3, graph.n_nodes)
    expected = by_hand(filt, params, x)
    close(filt.forward(params, x)[0], expected, rtol=1e-13)
    close(np.einsum("fgij,gj->fi", filt.matrix(params, x), x), expected, rtol=1e-13)


@each_setting
def test_gradients_in_every_setting(heads, slope):
    slope = min(slope, 0.9)  # with 1 the gradient of the target is zero, and rounding all there is to compare
    graph = GRAPHS["directed"]
    filt = ev.GraphAttention(graph, 3, 4, heads=heads, slope=slope, bias=True)
    params, x = random_params(filt), normal(1, 2, 3, graph.n_nodes)
    ev.gradcheck.dot_test(filt, params, x, rtol=1e-12).raise_if_failed()
    ev.gradcheck.complex_step(filt, params, x, rtol=1e-10).raise_if_failed()
    ev.gradcheck.central_difference(filt, params, x).raise_if_failed()


def test_small_numbers():
    """Node 1 hears 0 with exp(ln 3) = 3 and itself with exp(0) = 1: alpha = 3/4, 1/4."""
    graph = ev.Graph.from_edges(2, source=[0], target=[1])
    filt = ev.GraphAttention(graph, in_features=2)
    params = {"weight": np.array([[[1.0, 0.0]]]), "source": [[math.log(3)]], "target": [[0.0]]}
    x = np.array([[1.0, 0.0], [5.0, 9.0]])
    y, tape = filt.forward(params, x)
    close(y, [[1.0, 0.75]], rtol=1e-15)
    close(filt.matrix(params, x)[0, 0], [[1, 0], [0.75, 0.25]], rtol=1e-15)
    np.testing.assert_array_equal(filt.matrix(params, x)[0, 1], 0)
    # dy_1 = alpha dz_0 + (1 - alpha) dz_1 + alpha (1 - alpha) (dq_10 - dq_11) (z_0 - z_1)
    grads, grad_x = filt.backward(params, tape, np.array([[0.0, 1.0]]))
    close(grads["source"], [[3 / 16]], rtol=1e-14)
    close(grad_x, [[0.75 + 3 / 16 * math.log(3), 0.25 - 3 / 16 * 0.2 * math.log(3)], [0, 0]], rtol=1e-14)


def test_equal_scores_are_a_mean_exactly():
    graph = ev.Graph.from_edges(4, source=[0, 1, 2], target=[3, 3, 3])
    filt = ev.GraphAttention(graph)
    params = {"weight": [[[2.0]]], "source": [[0.0]], "target": [[0.0]]}
    np.testing.assert_array_equal(filt.forward(params, [1.0, 2.0, 4.0, 9.0])[0], [2, 4, 8, 8])


@given(graph=graphs(), seed=st.integers(0, 99))
def test_rows_sum_to_one(graph, seed):
    """A constant signal stays constant, whatever the scores."""
    filt = ev.GraphAttention(graph, 1, 2, heads=2)
    params = random_params(filt, seed)
    y = filt.forward(params, np.full(graph.n_nodes, 3.0))[0]
    close(y, np.repeat(3 * params["weight"].reshape(2, 1), graph.n_nodes, axis=1), rtol=1e-14)
    H = filt.matrix(params, normal(seed, graph.n_nodes))
    close(H.sum(axis=-1), np.repeat(params["weight"].reshape(2, 1, 1), graph.n_nodes, axis=2), rtol=1e-14)


@given(graph=graphs(), seed=st.integers(0, 99))
def test_heads_are_filters_side_by_side(graph, seed):
    both = ev.GraphAttention(graph, 2, 6, heads=3)
    params, x = random_params(both, seed), normal(seed, 2, 2, graph.n_nodes)
    apart = [
        ev.GraphAttention(graph, 2, 2).forward({key: value[h : h + 1] for key, value in params.items()}, x)[0]
        for h in range(3)
    ]
    close(both.forward(params, x)[0], np.concatenate(apart, axis=1), rtol=1e-14)


@given(one=graphs(), two=graphs(), seed=st.integers(0, 99))
def test_a_block_diagonal_graph_is_two_graphs(one, two, seed):
    both = ev.Graph(sparse.block_array([[one.S, None], [None, two.S]]))
    filters = [ev.GraphAttention(g, 2, 4, heads=2) for g in (one, two, both)]
    params, x = random_params(filters[0], seed), normal(seed, 2, 2, both.n_nodes)
    parts = x[..., : one.n_nodes], x[..., one.n_nodes :]
    apart = [f.forward(params, part)[0] for f, part in zip(filters, parts, strict=False)]
    close(filters[2].forward(params, x)[0], np.concatenate(apart, axis=-1), rtol=1e-14)


def test_only_the_support_matters():
    graph = GRAPHS["directed"]
    outputs = [
        f.forward(random_params(f), normal(0, graph.n_nodes))[0]
        for f in map(ev.GraphAttention, (graph, ev.Graph(-7 * graph.S)))
    ]
    np.testing.assert_array_equal(*outputs)


def test_in_neighbours_are_heard():
    """0 -> 1: node 1 hears 0; node 0 does not hear 1."""
    filt = ev.GraphAttention(ev.Graph.from_edges(2, [0], [1]))
    H = filt.matrix(random_params(filt), np.array([1.0, 2.0]))[0, 0]
    assert H[1, 0] != 0 and H[0, 1] == 0


def test_target_has_no_say_without_a_kink():
    """slope = 1: a_t . z_i is the same for all j and cancels in the softmax."""
    graph, x = GRAPHS["directed"], normal(0, 2, 3, 7)
    linear, leaky = (ev.GraphAttention(graph, 3, 4, heads=2, slope=slope) for slope in (1.0, 0.2))
    params = random_params(linear)
    other = {**params, "target": params["target"] + 5.0}
    close(linear.forward(params, x)[0], linear.forward(other, x)[0], rtol=1e-13)
    assert np.abs(leaky.forward(params, x)[0] - leaky.forward(other, x)[0]).max() > 0.01
    y, tape = linear.forward(params, x)
    assert np.abs(linear.backward(params, tape, y)[0]["target"]).max() < 1e-14


@given(seed=st.integers(0, 99))
def test_all_nodes_rank_their_neighbours_alike(seed):
    """Brody et al. 2022: scores are monotone in a_s . z_j, so that on a complete graph every row has the same order."""
    graph = ev.generators.complete(6)
    filt = ev.GraphAttention(graph, 2, 2)
    params, x = random_params(filt, seed), normal(seed, 2, 6)
    alpha = filt.matrix(params, x)[0, 0] / params["weight"][0, 0, 0]
    key = params["source"][0] @ params["weight"][0] @ x
    for row in alpha:
        assert (np.diff(row[np.argsort(key)]) >= -1e-15).all()


def test_huge_scores_do_not_overflow():
    filt = ev.GraphAttention(GRAPHS["directed"], 2, 2)
    params, x = {key: 1e3 * value for key, value in random_params(filt).items()}, 1e3 * normal(0, 2, 7)
    y, tape = filt.forward(params, x)
    grads, grad_x = filt.backward(params, tape, np.ones_like(y))
    assert all(np.isfinite(value).all() for value in (y, grad_x, *grads.values()))


# ---- at one signal an edge-variant filter ----------------------------------------------------------------------------
@given(graph=graphs(), seed=st.integers(0, 99))
def test_at_one_signal_it_is_an_edge_variant_step(graph, seed):
    filt = ev.GraphAttention(graph, 2, 4, heads=2, bias=True)
    params, x = random_params(filt, seed), normal(seed, 2, graph.n_nodes)
    free, phi = filt.to_edge_variant(params, x)
    assert (type(free), free.order, free.zeroth) == (ev.EdgeVariant, 1, "none")
    close(free.forward(phi, x)[0], filt.forward(params, x)[0], rtol=1e-13)
    close(free.matrix(phi), filt.matrix(params, x), rtol=1e-13)


def test_and_at_no_other_and_with_another_derivative():
    graph = GRAPHS["directed"]
    filt = ev.GraphAttention(graph, 2, 4, heads=2)
    params, x, other = random_params(filt), normal(0, 2, 7), normal(1, 2, 7)
    free, phi = filt.to_edge_variant(params, x)
    assert np.abs(free.forward(phi, other)[0] - filt.forward(params, other)[0]).max() > 0.1
    u = normal(2, 4, 7)
    held = free.backward(phi, free.forward(phi, x)[1], u)[1]
    moving = filt.backward(params, filt.forward(params, x)[1], u)[1]
    assert np.abs(held - moving).max() > 0.1 * np.abs(moving).max()
    dead = {**params, "source": np.zeros((2, 2)), "target": np.zeros((2, 2))}  # alpha constant: then they agree
    free, phi = filt.to_edge_variant(dead, x)
    close(free.backward(phi, free.forward(phi, x)[1], u)[1], filt.backward(dead, filt.forward(dead, x)[1], u)[1])


def test_without_a_signal_there_is_no_matrix():
    filt = ev.GraphAttention(GRAPHS["directed"], 2, 2)
    with pytest.raises(ev.NotRepresentable, match=r"the matrix H exists only at a given one; pass x .* \(2, 7\)"):
        filt.matrix(random_params(filt))
    with pytest.raises(ev.NotRepresentable, match="Phi depends on the signal"):
        filt.to_edge_variant(random_params(filt))
    for use in (filt.matrix, filt.to_edge_variant):
        with pytest.raises(ValueError, match="x has 3 samples; expected one"):
            use(random_params(filt), normal(0, 3, 2, 7))
        with pytest.raises(ValueError, match=r"x has shape \(3, 7\)"):
            use(random_params(filt), normal(0, 3, 7))


def test_counts_and_start():
    graph = ev.generators.path(5)
    filt = ev.GraphAttention(graph, 9, 8, heads=2, bias=True)
    assert filt.n_parameters == 8 * 9 + 8 + 8 + 8
    assert filt.n_operations(3) == 3 * (8 * 9 * 5 + 2 * 8 * 5 + 8 * (8 + 5))
    params = filt.init(rng=0)
    assert 0.3 < np.abs(params["weight"]).max() <= 1 / 3 and np.abs(params["source"]).max() <= 1 / 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"out_features": 4, "heads": 3}, ValueError, "heads is 3 with out_features 4; expected a divisor"),
        ({"heads": 0}, ValueError, "heads is 0"),
        ({"heads": True}, TypeError, "heads is True"),
        ({"slope": -0.1}, ValueError, r"slope is -0.1; expected a finite number in \[0, 1\]"),
        ({"slope": 1.1}, ValueError, "slope is 1.1"),
        ({"slope": "0.2"}, TypeError, "slope is '0.2'"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.GraphAttention(GRAPHS["directed"], **arguments)
