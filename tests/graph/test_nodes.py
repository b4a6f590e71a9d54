"""Names of nodes: where they come from, who keeps them, what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import evref as ev
from evref.graph import Graph, generators

RING = np.roll(np.eye(4), 1, axis=0)  # 0 → 1 → 2 → 3 → 0
NAMES = ("ann", "bob", "cyd", "dan")
PAIRS = [0, 1, 2, 3], [1, 2, 3, 0]

CONSTRUCTORS = {
    "S": lambda nodes: Graph(RING, nodes=nodes),
    "from_adjacency": lambda nodes: Graph.from_adjacency(RING, direction="target-source", nodes=nodes),
    "from_adjacency, symmetric": lambda nodes: Graph.from_adjacency(RING + RING.T, nodes=nodes),
    "from_adjacency, transposed": lambda nodes: Graph.from_adjacency(RING.T, direction="source-target", nodes=nodes),
    "from_edges": lambda nodes: Graph.from_edges(4, *PAIRS, nodes=nodes),
    "from_edge_index": lambda nodes: Graph.from_edge_index(PAIRS, 4, nodes=nodes),
}


@pytest.mark.parametrize("make", CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def test_every_constructor_takes_names_and_checks_them(make):
    assert make(NAMES).nodes == make(list(NAMES)).nodes == make(np.array(NAMES)).nodes == NAMES
    assert make(None).nodes == make(range(4)).nodes == make(np.arange(4)).nodes == range(4)
    for nodes, error, message in (
        (NAMES[:3], ValueError, "nodes has 3 names; expected 4, one per node"),
        (("a", "b", "a", "c"), ValueError, "nodes: 'a' occurs at 0 and at 2; expected different names"),
        (("a", "b", [1], "c"), TypeError, r"nodes: \[1\] \(list\) at 2 is no name; expected it hashable"),
        ("abcd", TypeError, r"nodes is 'abcd' \(str\); expected a sequence of names"),
        (set(NAMES), TypeError, "expected a sequence of names"),
        (7, TypeError, r"nodes is 7 \(int\); expected a sequence of names"),
    ):
        with pytest.raises(error, match=message):
            make(nodes)


def test_names_are_python_s_own_and_have_numbers():
    graph = Graph(np.zeros((3, 3)), nodes=np.array([5, 7, 9]))
    assert [type(name) for name in graph.nodes] == [int, int, int]
    assert graph.nodes.index(7) == 1 and Graph(RING).nodes.index(2) == 2
    assert [type(name) for name in Graph(np.zeros((1, 1)), nodes=[np.str_("a")]).nodes] == [str]


def test_default_names_are_not_kept():
    assert Graph(RING)._nodes is None and Graph(RING, nodes=range(4))._nodes is None
    assert isinstance(Graph(RING, nodes=range(4)).nodes, range)


# ---- networkx --------------------------------------------------------------------------------------------------------
def digraph():
    nx = pytest.importorskip("networkx", reason="the extra graphs")
    G = nx.DiGraph()
    G.add_nodes_from(["cyd", "ann", "bob"])
    G.add_weighted_edges_from([("ann", "bob", 2.0), ("bob", "cyd", 3.0)])
    return G


def test_networkx_nodes_keep_their_names_in_the_graph_s_order():
    graph = Graph.from_networkx(digraph())
    assert graph.nodes == ("cyd", "ann", "bob")
    assert graph.S[graph.nodes.index("bob"), graph.nodes.index("ann")] == 2
    assert generators.karate().nodes == range(34)


def test_networkx_nodes_in_another_order():
    G = digraph()
    graph = Graph.from_networkx(G, nodes=["ann", "bob", "cyd"])
    assert graph.nodes == ("ann", "bob", "cyd")
    assert graph.S.toarray().tolist() == [[0, 0, 0], [2, 0, 0], [0, 3, 0]]
    for nodes, message in (
        (["ann", "bob"], "the nodes of G differ from nodes: unknown 'cyd'; expected the same names in any order"),
        (["ann", "bob", "eve"], "the nodes of G differ from nodes: missing 'eve'; unknown 'cyd'"),
        (["ann", "bob", "bob"], "nodes: 'bob' occurs at 1 and at 2"),
    ):
        with pytest.raises(ValueError, match=message):
            Graph.from_networkx(G, nodes=nodes)


def test_any_hashable_is_a_name():
    nx = pytest.importorskip("networkx", reason="the extra graphs")
    assert Graph.from_networkx(nx.grid_2d_graph(2, 2)).nodes == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert Graph(np.zeros((2, 2)), nodes=[frozenset("a"), None]).nodes == (frozenset("a"), None)


# ---- graphs from graphs ----------------------------------------------------------------------------------------------
KEEPERS = {
    "with_shift": lambda graph: graph.with_shift("normalized_adjacency"),
    "transposed": lambda graph: graph.transposed(),
    "with_local_layout": lambda graph: graph.with_local_layout(),
    "with_local_layout, then with_shift": lambda graph: graph.with_local_layout().with_shift("adjacency"),
    "pickle": lambda graph: pickle.loads(pickle.dumps(graph)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("derive", KEEPERS.values(), ids=KEEPERS)
def test_graphs_made_from_a_graph_keep_its_names(derive):
    assert derive(Graph(RING, nodes=NAMES)).nodes == NAMES
    assert derive(Graph(RING)).nodes == range(4)


def test_permuted_nodes_keep_their_names():
    order = [2, 0, 3, 1]
    named, plain = Graph(RING, nodes=NAMES).permuted(order), Graph(RING).permuted(order)
    assert named.nodes == ("cyd", "ann", "dan", "bob")
    assert plain.nodes == (2, 0, 3, 1), "a node without a name is called by its number in the first graph"
    back = np.argsort(order)
    assert named.permuted(back).nodes == NAMES
    assert isinstance(plain.permuted(back).nodes, range)


def test_the_part_around_sources_keeps_its_names():
    filt = ev.EdgeVariant(Graph(RING, nodes=NAMES), order=1)
    assert filt.around([3]).filter.graph.nodes == ("ann", "dan")


def test_filters_that_change_the_graph_keep_names():
    graph = Graph(RING, nodes=NAMES)
    params = (filt := ev.Polynomial(graph, order=2)).init(rng=0)
    assert filt.to_edge_variant(params)[0].graph.nodes == NAMES


# ---- what names do not do --------------------------------------------------------------------------------------------
def test_names_are_no_part_of_equality_fingerprints_and_signatures():
    """Parameters, tapes and files of a graph without names fit the same graph with names."""
    named, other, plain = Graph(RING, nodes=NAMES), Graph(RING, nodes=list("wxyz")), Graph(RING)
    assert named == plain == other and hash(named) == hash(plain) and repr(named) == repr(plain)
    assert named.fingerprint == plain.fingerprint and named.weights_fingerprint == plain.weights_fingerprint
    assert ev.EdgeVariant(named, 2).signature == ev.EdgeVariant(plain, 2).signature


def test_names_cannot_be_set():
    with pytest.raises(AttributeError, match="immutable: nodes"):
        Graph(RING).nodes = NAMES


# ---- one network, one set of names -----------------------------------------------------------------------------------
def test_layers_must_agree_on_names():
    named, other, plain = Graph(RING, nodes=NAMES), Graph(RING, nodes=("ann", "cyd", "bob", "dan")), Graph(RING)

    def network(*graphs):
        return ev.Network([ev.EdgeVariant(graph, order=1) for graph in graphs])

    assert network(named, plain, named).graph.nodes == NAMES
    for graphs, layer in (((named, other), 1), ((plain, named, other), 2), ((named, plain, other), 2)):
        message = rf"node 1 of layer {layer} \(EdgeVariant\) is called 'cyd', in a layer before it 'bob'"
        with pytest.raises(ValueError, match=message):
            network(*graphs)


# ---- tables without pandas -------------------------------------------------------------------------------------------
class Table:
    """As little of a DataFrame as is needed."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values), columns

    def to_numpy(self):
        return self.values


def test_what_is_like_a_dataframe_will_do():
    filt = ev.EdgeVariant(Graph(RING, nodes=NAMES), order=2)
    params, x = filt.init(rng=0), np.random.default_rng(1).standard_normal((3, 4))
    table = Table(x[:, [3, 1, 0, 2]], ("dan", "bob", "ann", "cyd"))
    np.testing.assert_array_equal(filt(params, table), filt(params, x[:, None]))
    matrix = Graph.from_adjacency(Table(RING, NAMES), direction="target-source")  # names of its columns
    assert matrix == Graph(RING) and matrix.nodes == NAMES


def test_align_wants_names():
    with pytest.raises(TypeError, match="table is ndarray, which has no names; expected a DataFrame"):
        Graph(RING).align(np.eye(4))
