"""What is particular to a sum of recursions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import close, graphs, normal, random_params

import evref as ev


@given(graph=graphs(), terms=st.integers(1, 3), zeroth=st.sampled_from(["none", "identity", "diagonal"]))
def test_it_is_the_sum_of_its_terms(graph, terms, zeroth):
    G, F = 2, 2
    filt = ev.ParallelEdgeVariant(graph, 2, G, F, terms, zeroth=zeroth)
    params, x = random_params(filt), normal(0, 3, G, graph.n_nodes)
    one = ev.EdgeVariant(graph, 2, G, F, zeroth=zeroth)
    total = 0
    for p in range(terms):
        part = {"phi": params["phi"][:, :, p * G : (p + 1) * G]}
        if zeroth == "diagonal":
            part["phi0"] = params["phi0"][:, p * G : (p + 1) * G]
        total = total + one.forward(part, x)[0]
    close(filt.forward(params, x)[0], total)
    assert filt.n_parameters == terms * one.n_parameters
    assert filt.n_operations(3) == terms * one.n_operations(3)


def test_one_term_is_the_edge_variant_filter_and_more_are_themselves():
    graph = ev.generators.path(4)
    single, double = (ev.ParallelEdgeVariant(graph, 2, terms=n, bias=True) for n in (1, 2))
    filt, params = single.to_edge_variant(random_params(single))
    assert type(filt) is ev.EdgeVariant and filt.bias
    close(filt.matrix(params), single.matrix(random_params(single)))
    assert double.to_edge_variant(random_params(double))[0] is double


@pytest.mark.parametrize(("terms", "error"), [(0, ValueError), (1.0, TypeError), (True, TypeError)])
def test_bad_terms(terms, error):
    with pytest.raises(error, match="terms is"):
        ev.ParallelEdgeVariant(ev.generators.path(3), 2, terms=terms)


def test_sums_of_order_one_are_of_order_one():
    """With K = 1 both classes are all matrices on the support; more terms add nothing."""
    graph = ev.Graph.from_edges(2, [0], [1])
    double, single = ev.ParallelEdgeVariant(graph, 1), ev.EdgeVariant(graph, 1)
    params = random_params(double)
    merged = {"phi": params["phi"].sum(axis=2, keepdims=True)}
    np.testing.assert_allclose(double.matrix(params), single.matrix(merged), rtol=1e-15)
