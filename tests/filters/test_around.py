"""Sparse inputs: the filter around a few sources is the whole filter, where anything passes at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import close, graphs, normal, random_graph, random_params

import evref as ev
from evref.filters.around import reached


@given(
    graph=graphs(), order=st.integers(0, 3), zeroth=st.sampled_from(["none", "identity", "diagonal"]),
    bias=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_it_is_the_whole_filter(graph, order, zeroth, bias, seed):
    if order == 0 and zeroth == "none":
        order = 1
    whole = ev.EdgeVariant(graph, order, 2, 3, zeroth=zeroth, bias=bias)
    rng = np.random.default_rng(seed)
    sources = rng.choice(graph.n_nodes, size=min(2, graph.n_nodes), replace=False)
    near = whole.around(sources)
    params, x = random_params(whole), np.zeros((4, 2, graph.n_nodes))
    x[..., sources] = normal(seed, 4, 2, len(sources))
    u = normal(seed + 1, 4, 3, graph.n_nodes)
    y, tape = whole.forward(params, x)
    grads, grad_x = whole.backward(params, tape, u)

    taken = near.take(params)
    y_near, tape_near = near.filter.forward(taken, x[..., near.nodes])
    grads_near, grad_x_near = near.filter.backward(taken, tape_near, u[..., near.nodes])
    outside = np.setdiff1d(np.arange(graph.n_nodes), near.nodes)
    close(y_near, y[..., near.nodes])
    close(y[..., outside], np.zeros_like(y[..., outside]) + (params["bias"][:, None] if bias else 0))
    if bias:
        grads_near["bias"] = grads_near["bias"] + u[..., outside].sum(axis=(0, 2))
    spread = near.put(grads_near)
    for name, expected in grads.items():
        assert spread[name].shape == expected.shape
        close(spread[name], expected)
    close(grad_x_near[..., near.sources], grad_x[..., near.nodes[near.sources]])


def test_reached_is_what_powers_of_the_support_say():
    graph = random_graph(3, 30, density=0.06, directed=True)
    step = (graph.to_csr(np.ones(graph.nnz)).toarray() > 0).astype(int)
    for hops in range(5):
        expected = np.flatnonzero(np.linalg.matrix_power(step, hops)[:, [4, 7]].sum(axis=1))
        np.testing.assert_array_equal(reached(graph, np.array([4, 7]), hops), expected)


def test_edges_have_a_direction():
    graph = ev.Graph.from_edges(4, source=[0, 1, 2], target=[1, 2, 3])
    assert ev.EdgeVariant(graph, 2).around([1]).nodes.tolist() == [1, 2, 3]
    assert ev.EdgeVariant(graph, 2).around([3]).nodes.tolist() == [3]


def test_sources_given_twice_count_once():
    near = ev.EdgeVariant(ev.generators.path(9), 1).around([4, 4])
    assert near.nodes.tolist() == [3, 4, 5] and near.sources.tolist() == [1]
    assert repr(near) == "Around(1 sources, 3 of 9 nodes)"


@pytest.mark.parametrize(
    ("sources", "kind", "message"),
    [
        ([], ValueError, "sources is empty"),
        ([9], ValueError, "sources"),
        ([-1], ValueError, "sources"),
        ([0.5], TypeError, "sources"),
        ([[0]], ValueError, "sources has shape"),
    ],
)
def test_bad_sources(sources, kind, message):
    with pytest.raises(kind, match=message):
        ev.EdgeVariant(ev.generators.path(9), 1).around(sources)


def test_bad_parameters():
    near = ev.EdgeVariant(ev.generators.path(9), 1).around([4])
    with pytest.raises(ValueError, match=r"params\['phi'\] has shape"):
        near.take({"phi": np.ones((1, 1, 1, 3))})
    with pytest.raises(ValueError, match="grads has the names"):
        near.put({})
