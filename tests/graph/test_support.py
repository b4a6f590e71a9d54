"""Graph: conventions of direction, the support of I + S and its transpose, and what is derived from them."""

from __future__ import annotations

import copy
import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from evref.graph import Graph, generators, shifts

nx = pytest.importorskip("networkx")

# 0 → 1 (2), 1 → 2 (3), 0 → 2 (-1), 2 → 0 (4), a self-loop at 1 (5), and node 3 isolated
SOURCE, TARGET, WEIGHT = [0, 1, 0, 2, 1], [1, 2, 2, 0, 1], [2.0, 3.0, -1.0, 4.0, 5.0]
S = np.array([[0, 0, 4, 0], [2, 5, 0, 0], [-1, 3, 0, 0], [0, 0, 0, 0.0]])


@st.composite
def matrices(draw, symmetric=None):
    """Weighted graphs as dense S: directed or not, with isolated nodes and self-loops, down to one node."""
    n = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.uniform(-2, 2, (n, n)) * (rng.random((n, n)) < draw(st.sampled_from([0, 0.1, 0.4, 1])))
    if draw(st.booleans()) if symmetric is None else symmetric:
        weights = np.triu(weights) + np.triu(weights, 1).T
    return weights


def digraph():
    G = nx.DiGraph()
    G.add_nodes_from(range(4))
    G.add_weighted_edges_from(zip(SOURCE, TARGET, WEIGHT, strict=True))
    return G


# ---- constructors ----------------------------------------------------------------------------------------------------
CONSTRUCTORS = {
    "S": lambda: Graph(S),
    "from_adjacency, target-source": lambda: Graph.from_adjacency(S, direction="target-source"),
    "from_adjacency, source-target": lambda: Graph.from_adjacency(sparse.coo_matrix(S.T), direction="source-target"),
    "from_networkx": lambda: Graph.from_networkx(digraph()),
    "from_edges": lambda: Graph.from_edges(4, SOURCE, TARGET, WEIGHT),
    "from_edge_index": lambda: Graph.from_edge_index([SOURCE, TARGET], 4, WEIGHT),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_every_constructor_gives_the_same_directed_graph(name):
    graph = CONSTRUCTORS[name]()
    np.testing.assert_array_equal(graph.S.toarray(), S)
    assert graph == Graph(S)


def test_an_edge_of_a_networkx_digraph_points_from_column_to_row():
    graph = Graph.from_networkx(nx.DiGraph([("u", "v")]))
    assert graph.S.toarray().tolist() == [[0, 0], [1, 0]]
    assert (graph.S @ np.array([1.0, 0.0])).tolist() == [0, 1]  # a signal at u arrives at v


def test_networkx_nodes_keep_their_order_and_edges_their_weights():
    G = nx.Graph()
    G.add_nodes_from("cab")
    G.add_edge("a", "b", weight=2, length=7.0)
    G.add_edge("c", "c")
    assert Graph.from_networkx(G).S.toarray().tolist() == [[1, 0, 0], [0, 0, 2], [0, 2, 0]]
    assert Graph.from_networkx(G, weight="length").S.toarray().tolist() == [[1, 0, 0], [0, 0, 7], [0, 7, 0]]
    assert Graph.from_networkx(G, weight=None).S.toarray().tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_networkx_parallel_edges_are_summed():
    G = nx.MultiGraph([(0, 1, {"weight": 0.1}), (1, 0, {"weight": 0.2}), (0, 1, {"weight": 0.7}), (1, 1)])
    graph = Graph.from_networkx(G)
    np.testing.assert_allclose(graph.S.toarray(), [[0, 1], [1, 1]], rtol=1e-15)
    assert graph.is_symmetric
    D = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)])
    assert Graph.from_networkx(D).S.toarray().tolist() == [[0, 1], [2, 0]]


def test_networkx_input_that_is_none():
    with pytest.raises(TypeError, match="G is list; expected a networkx graph"):
        Graph.from_networkx([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="G has 0 nodes"):
        Graph.from_networkx(nx.Graph())
    with pytest.raises(TypeError, match="edge attribute 'weight' of G has dtype object"):
        Graph.from_networkx(nx.Graph([(0, 1, {"weight": None})]))


def test_direction_is_asked_for_and_never_guessed():
    for A in (S, sparse.csr_matrix(S), [[0, 1.0], [1.0 + 1e-15, 0]]):
        with pytest.raises(
            ValueError, match="direction is None and A is not symmetric; .*source-target.*target-source"
        ):
            Graph.from_adjacency(A)
    with pytest.raises(ValueError, match="direction is 'forward'; expected one of"):
        Graph.from_adjacency(S, direction="forward")
    symmetric = S + S.T
    assert Graph.from_adjacency(symmetric) == Graph.from_adjacency(symmetric, direction="source-target")


def test_undirected_edges_are_mirrored_and_self_loops_are_not_doubled():
    graph = Graph.from_edges(3, [0, 1, 2], [1, 2, 2], [2.0, 3.0, 4.0], undirected=True)
    assert graph.S.toarray().tolist() == [[0, 2, 0], [2, 0, 3], [0, 3, 4]]
    assert (graph.n_edges, graph.n_self_loops, graph.nnz) == (4, 1, 7)


def test_undirected_parallel_edges_stay_symmetric_to_the_last_bit():
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 4, (2, 3000))
    source, target = np.minimum(source, target), np.maximum(source, target)
    weight = rng.normal(size=3000)
    graph = Graph.from_edges(4, source, target, weight, undirected=True)
    assert graph.is_symmetric
    np.testing.assert_allclose(graph.S[0, 1], weight[(source == 0) & (target == 1)].sum())


def test_edge_index_of_another_library_is_read_through_asarray():
    class Tensor:
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.array, dtype)

    graph = Graph.from_edge_index(Tensor([SOURCE, TARGET]), 4, Tensor(WEIGHT))
    assert graph == Graph(S)


@pytest.mark.parametrize(
    "graph", [Graph([[0]]), Graph.from_edges(1, [], []), Graph.from_edge_index(np.empty((2, 0)), 1), Graph([[2.0]])]
)
def test_one_node(graph):
    assert (graph.n_nodes, graph.n_edges, graph.nnz) == (1, 0, 1)
    assert graph.indices.tolist() == graph.transpose.tolist() == graph.diagonal.tolist() == [0]
    assert graph.is_symmetric


def test_no_edges_and_isolated_nodes():
    graph = Graph(np.zeros((3, 3)))
    assert (graph.nnz, graph.n_edges, graph.S.nnz) == (3, 0, 0)
    assert graph.neighborhoods(5)[1].tolist() == [0, 1, 2]


def test_explicit_zeros_are_no_edges():
    matrix = sparse.coo_array(([0.0, 1.0, 2.0, -2.0], ([0, 1, 1, 1], [1, 0, 2, 2])), shape=(3, 3))
    graph = Graph(matrix)
    assert graph == Graph(matrix.toarray())
    assert graph.n_edges == 1


# ---- support ---------------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(matrices())
def test_support_is_that_of_identity_plus_S(W):
    graph, n = Graph(W), len(W)
    pattern = (W != 0) | np.eye(n, dtype=bool)
    rows, columns = np.nonzero(pattern)
    np.testing.assert_array_equal(graph.indices, columns)
    np.testing.assert_array_equal(graph.indptr, np.concatenate([[0], np.cumsum(pattern.sum(axis=1))]))
    np.testing.assert_array_equal(rows[graph.diagonal], np.arange(n))
    np.testing.assert_array_equal(columns[graph.diagonal], np.arange(n))
    assert graph.nnz == pattern.sum()
    assert graph.n_edges == np.count_nonzero(W - np.diag(np.diag(W)))
    assert graph.n_self_loops == np.count_nonzero(np.diag(W))
    assert graph.is_symmetric == np.array_equal(W, W.T)


@settings(deadline=None)
@given(matrices())
def test_transpose_permutation(W):
    graph = Graph(W)
    phi = np.random.default_rng(1).normal(size=graph.nnz)
    by_columns = sparse.csr_array((phi[graph.transpose], graph.row_indices, graph.column_indptr), shape=W.shape)
    np.testing.assert_array_equal(by_columns.toarray(), graph.to_csr(phi).toarray().T)
    assert by_columns.has_sorted_indices


@settings(deadline=None)
@given(matrices())
def test_shift_values_on_the_support_are_S(W):
    graph = Graph(W)
    np.testing.assert_array_equal(graph.to_csr(graph.shift_values()).toarray(), W)


def test_index_types():
    graph = Graph(S.astype(np.float32))
    wide = (graph.indptr, graph.diagonal, graph.column_indptr)
    assert all(array.dtype == np.int64 for array in wide)
    assert all(array.dtype == np.int32 for array in (graph.indices, graph.row_indices, graph.transpose))
    assert graph.shift_values().dtype == np.float32


def test_to_csr_takes_one_value_per_entry_and_keeps_zeros():
    graph = Graph(S)
    assert graph.to_csr(np.zeros(graph.nnz)).nnz == graph.nnz
    with pytest.raises(ValueError, match=rf"values has shape \(3,\); expected \({graph.nnz},\)"):
        graph.to_csr(np.ones(3))
    x = np.arange(4.0)
    np.testing.assert_array_equal(graph.to_csr(graph.shift_values()) @ x, S @ x)


# ---- identity --------------------------------------------------------------------------------------------------------
def test_fingerprint_is_of_the_support_and_not_of_the_weights():
    graph = Graph(S)
    assert graph.fingerprint == Graph(2 * S).fingerprint == Graph(S.astype(np.float32)).fingerprint
    assert graph.fingerprint != graph.transposed().fingerprint
    fewer = S.copy()
    fewer[2, 1] = 0
    assert graph.fingerprint != Graph(fewer).fingerprint
    fewer[1, 1] = 0  # a self-loop is in the support of I + S either way
    assert Graph(fewer).fingerprint == Graph(fewer + np.eye(4)).fingerprint
    assert len({Graph(np.zeros((n, n))).fingerprint for n in range(1, 6)}) == 5


def test_fingerprint_is_fixed_for_all_machines():
    numbers = (
        np.array([2], "<i8").tobytes() + np.array([0, 1, 3], "<i8").tobytes() + np.array([0, 0, 1], "<i4").tobytes()
    )
    assert Graph([[0, 0], [1, 0]]).fingerprint == hashlib.sha256(numbers).hexdigest()[:16]


def test_equality_is_of_S_and_hash_agrees():
    assert Graph(S) == Graph(sparse.csc_matrix(S)) and hash(Graph(S)) == hash(Graph(S.copy()))
    assert Graph(S) != Graph(2 * S) and Graph(S) != Graph(S.T) and Graph([[0]]) != Graph(np.zeros((2, 2)))
    assert Graph(S) != "graph"
    assert len({Graph(S), Graph(S), Graph(2 * S)}) == 2


ARRAYS = ("indptr", "indices", "diagonal", "column_indptr", "row_indices", "transpose")


@pytest.mark.parametrize("again", [lambda g: g, lambda g: pickle.loads(pickle.dumps(g)), copy.copy, copy.deepcopy])
def test_immutable_also_after_pickling_and_copying(again):
    graph = again(Graph(S))
    assert graph == Graph(S) and graph.fingerprint == Graph(S).fingerprint
    for array in (graph.S.data, graph.S.indices, graph.S.indptr, *(getattr(graph, name) for name in ARRAYS)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError, match="immutable: n_nodes"):
        graph.n_nodes = 5


def test_repr():
    assert repr(Graph(S)) == "Graph(4 nodes, 4 edges, 1 self-loops, directed)"
    assert repr(generators.cycle(5)) == "Graph(5 nodes, 10 edges, undirected)"


# ---- other graphs ----------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(matrices(), st.randoms(use_true_random=False))
def test_permuted(W, random):
    graph, order = Graph(W), list(range(len(W)))
    random.shuffle(order)
    permuted = graph.permuted(order)
    np.testing.assert_array_equal(permuted.S.toarray(), W[np.ix_(order, order)])
    x = np.arange(len(W)) + 1.0
    np.testing.assert_allclose(permuted.S @ x[order], (graph.S @ x)[order], atol=1e-12)
    assert permuted.permuted(np.argsort(order)) == graph


@settings(deadline=None)
@given(matrices())
def test_local_order_is_a_permutation(W):
    order = Graph(W).local_order()
    assert sorted(order.tolist()) == list(range(len(W)))


@pytest.mark.parametrize("directed", [False, True])
def test_local_order_finds_a_hidden_band(directed):
    """A ring in which everyone hears two on each side, and weights of both signs that must not cancel."""
    N = 60
    source = np.repeat(np.arange(N), 4)
    target = (source + np.tile([-2, -1, 1, 2], N)) % N
    weight = np.where(target > source, 1.0, 0.0 if directed else -1.0)
    ring = Graph(sparse.csr_array((weight, (target, source)), shape=(N, N)))
    shuffled = ring.permuted(np.random.default_rng(0).permutation(N))

    def band(graph):
        entries = graph.S.tocoo()
        return np.abs(entries.row - entries.col).max()

    assert band(shuffled) > 40
    assert band(shuffled.permuted(shuffled.local_order())) <= 8


def test_a_local_layout_is_hidden_and_kept():
    graph = Graph(np.roll(np.eye(6), 1, axis=0)[[0, 3, 1, 5, 2, 4]])
    local = graph.with_local_layout()
    assert graph._layout is None
    assert local == graph and hash(local) == hash(graph) and repr(local) == repr(graph)
    assert local.fingerprint == graph.fingerprint
    np.testing.assert_array_equal(local.indices, graph.indices)
    copies = [local, pickle.loads(pickle.dumps(local)), copy.deepcopy(local), local.with_shift("adjacency")]
    for other in (*copies, local.transposed()):
        np.testing.assert_array_equal(other._layout, graph.local_order())
        assert not other._layout.flags.writeable
    assert local.permuted([1, 0, 2, 3, 4, 5])._layout is None  # another numbering, another order


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4], [0, 1, 2, -1], [0.0, 1.0, 2.0, 3.0]])
def test_permuted_takes_a_permutation(order):
    with pytest.raises((ValueError, TypeError), match="order"):
        Graph(S).permuted(order)


@settings(deadline=None)
@given(matrices())
def test_transposed(W):
    graph = Graph(W).transposed()
    np.testing.assert_array_equal(graph.S.toarray(), W.T)
    np.testing.assert_array_equal(graph.indices, Graph(W).row_indices)


@settings(deadline=None)
@given(matrices(), st.integers(0, 10))
def test_within_is_what_networkx_reaches(W, hops):
    indptr, indices = Graph(W).neighborhoods(hops)
    D = nx.from_numpy_array(W.T, create_using=nx.DiGraph)  # networkx holds A[source, target]
    for i in range(len(W)):
        reached = nx.single_source_shortest_path_length(D.reverse(), i, cutoff=hops)
        assert indices[indptr[i] : indptr[i + 1]].tolist() == sorted(reached)
    assert indptr.dtype == np.int64 and indices.dtype == np.int32


def test_within_counts_paths_without_overflow():
    indptr, indices = generators.complete(512).neighborhoods(2)  # 512 paths: zero in eight bits
    assert indices.size == 512**2 and (np.diff(indptr) == 512).all()


@pytest.mark.parametrize(("hops", "error"), [(-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_within_checks_hops(hops, error):
    with pytest.raises(error, match="hops"):
        Graph(S).neighborhoods(hops)


@pytest.mark.parametrize("name", shifts.SHIFTS)
def test_with_shift_keeps_the_support(name):
    graph = Graph(np.abs(S + S.T))
    shifted = graph.with_shift(name)
    np.testing.assert_array_equal(shifted.S.toarray(), shifts.SHIFTS[name](graph).toarray())
    assert shifted.fingerprint == graph.fingerprint


def test_with_shift_passes_options_and_names_the_choices():
    graph = Graph(np.abs(S))
    np.testing.assert_allclose(graph.with_shift("random_walk", normalize="columns").S.sum(axis=0), [1, 1, 1, 0])
    with pytest.raises(ValueError, match="name is 'laplace'; expected one of 'adjacency', .*'gcn'"):
        graph.with_shift("laplace")
