"""Entries of Phi as dense matrices and back: `phi_to_dense` and `dense_to_phi`."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import GRAPHS, normal

import evref as ev

GRAPH = ev.Graph.from_edges(3, source=[0, 1, 0], target=[1, 2, 2])  # rows: 0 | 0 1 | 0 1 2


def test_an_entry_is_at_its_row_and_column():
    """phi_ij weighs the edge j -> i and stands in row i."""
    expected = [[1, 0, 0], [2, 3, 0], [4, 5, 6]]
    assert GRAPH.phi_to_dense(np.arange(1.0, 7.0)).tolist() == expected
    assert GRAPH.phi_to_dense([1, 2, 3, 4, 5, 6]).tolist() == expected
    assert GRAPH.dense_to_phi(expected).tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", GRAPHS)
def test_there_and_back_is_the_same_and_the_two_are_transposes(name):
    graph = GRAPHS[name]
    phi, dense = normal(1, 2, 3, graph.nnz), normal(2, 2, 3, graph.n_nodes, graph.n_nodes)
    there = graph.phi_to_dense(phi)
    assert np.array_equal(graph.dense_to_phi(there), phi)
    assert np.count_nonzero(there) == np.count_nonzero(phi)
    assert np.vdot(there, dense) == pytest.approx(np.vdot(phi, graph.dense_to_phi(dense)), rel=1e-13)


@pytest.mark.parametrize("name", GRAPHS)
def test_dense_matrices_multiply_as_the_filter_does(name):
    graph = GRAPHS[name]
    filt = ev.EdgeVariant(graph, order=1, in_features=2, out_features=3)
    params, x = filt.init(0), normal(3, 4, 2, graph.n_nodes)
    Phi = graph.phi_to_dense(params["phi"][0])
    assert np.allclose(filt(params, x), np.einsum("fgij,bgj->bfi", Phi, x), rtol=1e-13, atol=1e-14)


def test_without_self_loops_the_diagonal_is_no_place():
    pattern = GRAPH.edge_pattern
    assert pattern.phi_to_dense([1.0, 2.0, 3.0]).tolist() == [[0, 0, 0], [1, 0, 0], [2, 3, 0]]


def test_dtypes_are_kept():
    for dtype in (np.float32, np.float64):
        dense = GRAPH.phi_to_dense(np.ones(6, dtype))
        assert dense.dtype == dtype and GRAPH.dense_to_phi(dense).dtype == dtype


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GRAPH.phi_to_dense(np.ones(5)), r"phi has shape \(5,\); expected \(\.\.\., 6\)"),
        (lambda: GRAPH.phi_to_dense(np.float64(3.0)), r"phi has shape \(\); expected \(\.\.\., 6\)"),
        (lambda: GRAPH.dense_to_phi(np.ones((3, 2))), r"dense has shape \(3, 2\); expected \(\.\.\., 3, 3\)"),
        (lambda: GRAPH.dense_to_phi(np.ones(3)), r"dense has shape \(3,\); expected \(\.\.\., 3, 3\)"),
    ],
)
def test_shapes_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_matrices_that_would_not_fit_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setenv("EVREF_DENSE_LIMIT", "1000")
    with pytest.raises(ValueError, match="the dense Phi"):
        GRAPH.phi_to_dense(np.ones((1000, 6)))
