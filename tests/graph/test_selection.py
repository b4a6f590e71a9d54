"""Rankings, critical edges and the map C_B: known cases, relabelling, other people's algorithms, bad input."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import GRAPHS, graphs, random_graph

import evref as ev
from evref import selection

each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
each_ranking = pytest.mark.parametrize("name", sorted(selection.SELECTIONS))


def block_model(seed: int) -> ev.Graph:
    return ev.generators.stochastic_block_model(50, 5, 0.8, 0.2, rng=seed)[0].with_shift("normalized_adjacency")


# ---- rankings --------------------------------------------------------------------------------------------------------
@each_graph
@each_ranking
def test_a_ranking_has_every_node_once(name, graph):
    order = selection.SELECTIONS[name](graph)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(graph.n_nodes))


@pytest.mark.parametrize("seed", range(5))
@each_ranking
def test_rankings_follow_a_renumbering(name, seed):
    """On the paper's own block model no two nodes are alike, and the five chosen are the same five."""
    graph = block_model(seed)
    there = np.random.default_rng(seed).permutation(50)
    moved = graph.permuted(there)  # its node i is node there[i]
    rank = selection.SELECTIONS[name]
    options = {"count": 5} if name == "spectral_proxies" else {}
    np.testing.assert_array_equal(there[rank(moved, **options)][:5], rank(graph, **options)[:5])


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("shift", ["normalized_adjacency", "laplacian"])
def test_spectral_proxies_of_small_order_follow_a_renumbering(shift, k):
    graph = block_model(7).with_shift(shift)
    order, *_ = found = selection.spectral_proxies(graph, k, count=5, details=True)
    assert found.gap.min() > 1e-8 and found.margin.min() > 1e-4
    for seed in range(3):
        there = np.random.default_rng(seed).permutation(50)
        np.testing.assert_array_equal(there[selection.spectral_proxies(graph.permuted(there), k, count=5)], order)


def test_the_textbook_form_of_order_eight_does_not():
    """Why it is done by singular values: the eigenvalues of S^16 are below rounding, and numbering decides."""

    def textbook(graph, k, count):
        S = np.linalg.matrix_power(graph.S.toarray(), k)
        gram, rest, order = S.T @ S, list(range(graph.n_nodes)), []
        for _ in range(count):
            vector = np.linalg.eigh(gram[np.ix_(rest, rest)])[1][:, 0]
            order.append(rest.pop(int(np.argmax(np.abs(vector)))))
        return order

    graph = block_model(0)
    there = np.random.default_rng(1).permutation(50)
    moved = graph.permuted(there)
    assert there[textbook(moved, 8, 5)].tolist() != textbook(graph, 8, 5)
    assert there[textbook(moved, 1, 5)].tolist() == textbook(graph, 1, 5)
    assert selection.spectral_proxies(graph, 1, count=5).tolist() == textbook(graph, 1, 5)
    details = selection.spectral_proxies(graph, 8, count=5, details=True)
    assert details.gap.min() < 1e-6  # and the function says how weakly the choice is founded


def test_degree_counts_in_neighbours_and_looks_further_on_ties():
    graph = ev.Graph.from_edges(4, source=[0, 1, 2, 3], target=[3, 3, 3, 0])  # 3 hears three nodes, 0 hears one
    assert selection.by_degree(graph).tolist() == [3, 0, 1, 2]
    loops = ev.Graph(np.diag([5.0, 0, 0]) + np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0]]))
    assert selection.by_degree(loops).tolist() == [1, 2, 0]  # a self-loop is no neighbour
    path = ev.generators.path(7)
    assert selection.by_degree(path).tolist() == [3, 2, 4, 1, 5, 0, 6]


@given(graph=graphs(), seed=st.integers(0, 99))
def test_degrees_fall(graph, seed):
    order = selection.by_degree(graph)
    degree = np.diff(graph.indptr) - 1
    assert (np.diff(degree[order]) <= 0).all()


def test_proxies_of_a_constant_start_with_the_degree():
    """The Laplacian's smallest singular vector is constant: all scores tie, and the degree decides."""
    graph = ev.generators.star(6).with_shift("laplacian")
    found = selection.spectral_proxies(graph, details=True)
    assert found.order[0] == 0 and found.cutoff[0] < 1e-6 and found.margin[0] == 1


def test_cutoffs_rise_as_nodes_are_taken():
    cutoff = selection.spectral_proxies(block_model(3).with_shift("laplacian"), details=True).cutoff
    assert (np.diff(cutoff) > -1e-9).all()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_cutoffs_are_in_the_units_of_the_shift(k):
    found = selection.spectral_proxies(ev.Graph(np.diag([3.0, 1.0, 2.0])), k, details=True)
    assert found.order.tolist() == [1, 2, 0]
    np.testing.assert_allclose(found.cutoff, [1, 2, 3], rtol=1e-12)
    np.testing.assert_allclose(found.gap * 3**k, [2**k - 1, 3**k - 2**k, 3**k], rtol=1e-12)
    np.testing.assert_allclose(found.margin, 1)


def test_proxies_of_nothing():
    graph = GRAPHS["no edges"]
    assert selection.spectral_proxies(graph, 3).tolist() == [0, 1, 2, 3]
    assert selection.spectral_proxies(graph, count=0).size == 0


def test_experimental_design_scores_by_hand():
    """Two separate edges of weight 10 and 0.5: only the strong one is above the threshold."""
    S = np.zeros((4, 4))
    S[0, 1] = S[1, 0] = 0.5
    S[2, 3] = S[3, 2] = 10.0
    assert selection.by_experimental_design(ev.Graph(S)).tolist() == [2, 3, 0, 1]
    assert selection.by_experimental_design(ev.Graph(S), threshold=0.01).tolist() == [0, 1, 2, 3]


# ---- C_B -------------------------------------------------------------------------------------------------------------
@given(graph=graphs(), size=st.integers(1, 8), seed=st.integers(0, 99))
def test_copies_by_brute_force(graph, size, seed):
    nodes = np.random.default_rng(seed).permutation(graph.n_nodes)[:size]
    expected = []
    for i in range(graph.n_nodes):
        choice = 0
        for hops in range(graph.n_nodes + 1):
            indptr, indices = graph.neighborhoods(hops)
            near = [r for r, b in enumerate(nodes) if b in indices[indptr[i] : indptr[i + 1]]]
            if near:
                choice = min(near)
                break
        expected.append(choice)
    assert selection.nearest_privileged(graph, nodes).tolist() == expected


def test_copies_go_along_the_edges_and_by_rank():
    chain = ev.generators.path(4, directed=True)  # 0 -> 1 -> 2 -> 3
    assert selection.nearest_privileged(chain, [3, 1]).tolist() == [0, 1, 1, 0]  # nothing reaches 0: the first-ranked
    star = ev.generators.star(4)
    assert selection.nearest_privileged(star, [2, 1, 3]).tolist() == [0, 1, 0, 2]  # the centre is next to all three
    assert selection.nearest_privileged(star, [3, 1]).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([], ValueError, "nodes is empty"),
        ([0, 2, 0], ValueError, "nodes has node 0 more than once"),
        ([7], ValueError, "nodes holds the index 7; expected 0 <= index < 7"),
        ([-1], ValueError, "nodes holds the index -1"),
        ([0.5], TypeError, "nodes has dtype float64; expected integers"),
        ([[0]], ValueError, r"nodes has shape \(1, 1\)"),
    ],
)
def test_bad_privileged_nodes(nodes, error, message):
    with pytest.raises(error, match=message):
        selection.nearest_privileged(GRAPHS["directed"], nodes)


# ---- bridges ---------------------------------------------------------------------------------------------------------
def by_networkx(graph: ev.Graph) -> list[list[int]]:
    G = nx.Graph([(int(j), int(i)) for j, i in selection.edge_list(graph, np.arange(graph.nnz)) if i != j])
    found = {frozenset(edge) for edge in nx.bridges(G)}
    pairs = selection.edge_list(graph, np.arange(graph.nnz)).tolist()
    return [pair for pair in pairs if frozenset(pair) in found]


@given(graph=graphs())
def test_bridges_are_those_of_networkx(graph):
    positions = selection.bridges(graph)
    assert selection.edge_list(graph, positions).tolist() == by_networkx(graph)
    assert (np.diff(positions) > 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_bridges_of_larger_graphs(seed):
    graph = ev.generators.erdos_renyi(60, 0.03, rng=seed, directed=bool(seed % 2))
    assert selection.edge_list(graph, selection.bridges(graph)).tolist() == by_networkx(graph)


def test_bridges_by_hand():
    assert selection.bridges(ev.generators.cycle(5)).size == 0
    assert selection.bridges(ev.generators.path(5)).size == 8
    assert selection.bridges(GRAPHS["no edges"]).size == 0
    assert selection.bridges(ev.generators.path(30_000)).size == 2 * 29_999  # no recursion to run out of
    both_ways = ev.Graph.from_edges(2, [0, 1], [1, 0])
    assert selection.edge_list(both_ways, selection.bridges(both_ways)).tolist() == [[1, 0], [0, 1]]


# ---- edges -----------------------------------------------------------------------------------------------------------
@given(graph=graphs(), seed=st.integers(0, 99))
def test_positions_and_pairs_are_the_same_edges(graph, seed):
    positions = np.flatnonzero(np.random.default_rng(seed).random(graph.nnz) < 0.5)
    pairs = selection.edge_list(graph, positions)
    np.testing.assert_array_equal(selection.as_positions("edges", pairs, graph), positions)
    np.testing.assert_array_equal(selection.as_positions("edges", positions[::-1], graph), positions)
    dense = graph.to_csr(np.arange(1.0, graph.nnz + 1)).toarray()
    np.testing.assert_array_equal(dense[pairs[:, 1], pairs[:, 0]], positions + 1)


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        ([[0, 2]], ValueError, "edges has 0 -> 2, which is no edge"),
        ([[0, 9]], ValueError, r"edges\[:, 1\] holds the index 9"),
        ([99], ValueError, "edges holds the index 99; expected 0 <= index < 7"),
        ([1, 1], ValueError, "edges names an edge more than once"),
        (np.zeros((2, 3), int), ValueError, r"edges has shape \(2, 3\); expected positions"),
        ([0.5], TypeError, "edges has dtype float64"),
    ],
)
def test_bad_edges(edges, error, message):
    with pytest.raises(error, match=message):
        selection.as_positions("edges", edges, ev.generators.path(3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda g: selection.by_degree(g.S),
            TypeError,
            "graph is scipy.csr_array; expected an evref.Graph",
        ),
        (lambda g: selection.spectral_proxies(g, k=0), ValueError, "k is 0; expected at least 1"),
        (lambda g: selection.spectral_proxies(g, k=1.5), TypeError, "k is 1.5"),
        (lambda g: selection.spectral_proxies(g, count=8), ValueError, "count is 8; expected at most 7"),
        (lambda g: selection.by_experimental_design(g, threshold=0), ValueError, r"threshold is 0.0; .* \(0, 1\]"),
        (lambda g: selection.bridges(None), TypeError, "graph is NoneType"),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call(random_graph(2))
