"""Names of nodes and classes in files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evref.filters import EdgeVariant
from evref.graph import Graph
from evref.learn import (
    Dense,
    MaxActivation,
    Network,
    Tanh,
    load_network,
    load_parameters,
    save_network,
    save_parameters,
    storage,
)

RING = np.roll(np.eye(3), 1, axis=0)
NAMES = ("ann", "bob", "ann bob")


def network(nodes=NAMES, classes=("no", "yes")) -> Network:
    graph = Graph(RING, nodes=nodes)
    return Network([EdgeVariant(graph, order=1), Tanh(), Dense((1, 3), outputs=2)], classes=classes)


def there_and_back(path, net):
    save_network(path, net, net.init(rng=0))
    return load_network(path)[0]


def header_of(path) -> dict:
    with np.load(path, allow_pickle=False) as archive:
        return json.loads(archive["header"].tobytes())


# ---- nodes -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "nodes",
    [NAMES, (7, -1, 10**30), (0.5, 1, "1"), ((0, 0), (0, 1), (("é", 2), ())), ("", "\ud800", "\x00"), (True, 0, 2)],
    ids=repr,
)
def test_names_of_nodes_there_and_back(tmp_path, nodes):
    loaded = there_and_back(tmp_path / "net", network(nodes))
    assert loaded.graph.nodes == nodes and loaded.signature == network(nodes).signature
    assert [type(name) for name in loaded.graph.nodes] == [type(name) for name in nodes]


def test_without_names_the_file_is_as_it_was(tmp_path):
    loaded = there_and_back(tmp_path / "net", network(None, None))
    assert loaded.graph.nodes == range(3) and loaded.classes is None
    assert header_of(tmp_path / "net").keys() == {"format", "schema", "kind", "evref", "signature", "graph", "module"}
    assert header_of(tmp_path / "net")["module"]["config"].keys() == {"layers"}


def test_every_graph_keeps_its_own_names(tmp_path):
    plain, named = Graph(2 * RING), Graph(RING, nodes=NAMES)
    loaded = there_and_back(tmp_path / "net", Network([EdgeVariant(plain, 1), Tanh(), MaxActivation(named)]))
    assert loaded.layers[0].graph.nodes == range(3) and loaded.layers[2].graph.nodes == NAMES
    loaded = there_and_back(tmp_path / "net", Network([EdgeVariant(named, 1), Tanh(), MaxActivation(plain)]))
    assert loaded.layers[0].graph.nodes == NAMES and loaded.layers[2].graph.nodes == range(3)


def test_a_single_filter_keeps_names(tmp_path):
    assert there_and_back(tmp_path / "net", EdgeVariant(Graph(RING, nodes=NAMES), order=1)).graph.nodes == NAMES


@pytest.mark.parametrize("name", [frozenset("a"), None, b"a", 1j, ("a", None)], ids=repr)
def test_names_that_no_file_holds_are_refused_and_said(tmp_path, name):
    net = network(("ann", name, "cyd"))
    for save in (save_network, lambda path, net, params: save_parameters(path, params, net)):
        with pytest.raises(
            TypeError, match="node 1 is called .*; files hold names that are strings, numbers or tuples"
        ):
            save(tmp_path / "net", net, net.init(rng=0))
    assert list(tmp_path.iterdir()) == []


def test_parameters_of_other_nodes_are_refused(tmp_path):
    net, swapped = network(), network(("bob", "ann", "ann bob"))
    params = net.init(rng=0)
    assert net.signature == swapped.signature  # the support says nothing
    save_parameters(tmp_path / "params", params, net)
    save_network(tmp_path / "net", net, params)
    for path in (tmp_path / "params", tmp_path / "net"):
        for fits in (net, network(None), None):
            assert load_parameters(path, fits).keys() == params.keys()
        with pytest.raises(
            ValueError, match=r"of nodes called 'ann', 'bob', 'ann bob'; those of Network are called 'bob'"
        ):
            load_parameters(path, swapped)
    save_parameters(tmp_path / "plain", params, network(None))
    assert load_parameters(tmp_path / "plain", net).keys() == params.keys()


# ---- classes ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "classes",
    [np.array(["austen", "poe"]), ["poe", "é"], np.array([3, 7]), [0.5, 2.0], [False, True]],
    ids=repr,
)
def test_classes_there_and_back(tmp_path, classes):
    net = network(classes=classes)
    loaded = there_and_back(tmp_path / "net", net)
    assert loaded.classes.dtype == net.classes.dtype == np.asarray(classes).dtype
    assert loaded.classes.tolist() == list(classes)
    assert loaded.signature == net.signature == network(classes=None).signature


def test_classes_of_a_network_are_checked_and_its_own():
    given = np.array([3, 7])
    net = network(classes=given)
    given[0] = 7
    assert net.classes.tolist() == [3, 7]
    with pytest.raises(ValueError, match="read-only"):
        net.classes[0] = 1
    for classes, error, message in (
        (["a"], ValueError, r"classes has 1 entries; the network gives shape \(2,\) per sample"),
        (["a", "a"], ValueError, "classes has an entry more than once"),
        (["a", None], ValueError, "classes has 1 value"),
        (["a", 1], TypeError, "all of one kind"),
        (["a", ("b",)], TypeError, "all of one kind"),
        ([["a"], ["b"]], ValueError, r"classes has shape \(2, 1\)"),
    ):
        with pytest.raises(error, match=message):
            network(classes=classes)
    with pytest.raises(ValueError, match=r"the network gives shape \(1, 3\)"):
        Network([EdgeVariant(Graph(RING), 1)], classes=["a", "b", "c"])


# ---- damaged and forged files ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "nodes",
    [
        None,
        7,
        ["ann", "bob", "cyd"],
        {"graph.0": None},
        {"graph.0": "abc"},
        {"graph.0": []},
        {"graph.0": ["ann", "bob"]},
        {"graph.0": ["ann", "bob", "ann"]},
        {"graph.0": ["ann", "bob", None]},
        {"graph.0": ["ann", "bob", ["c"]]},
        {"graph.0": ["ann", "bob", {"tuple": 3}]},
        {"graph.0": ["ann", "bob", {"tuple": [None]}]},
        {"graph.0": ["ann", "bob", {"graph": "graph.0"}]},
        {"graph.0": ["ann", "bob", {"module": "tanh", "config": {}}]},
        {"graph.0": {"tuple": ["ann", "bob", "cyd"]}},
    ],
    ids=repr,
)
def test_forged_names_are_refused(tmp_path, nodes):
    net, path = network(), tmp_path / "net"
    save_network(path, net, net.init(rng=0))
    header, arrays = storage.read_archive(path, ("network",))
    storage.write_archive(path, "network", {**header, "nodes": nodes}, arrays)
    with pytest.raises(ValueError, match=str(path)):
        load_network(path)


def test_deeply_nested_names_are_refused(tmp_path):
    net, path = network(), tmp_path / "net"
    save_network(path, net, net.init(rng=0))
    header, arrays = storage.read_archive(path, ("network",))
    deep: object = "ann"
    for _ in range(400):
        deep = {"tuple": [deep]}
    storage.write_archive(path, "network", {**header, "nodes": {"graph.0": [deep, "b", "c"]}}, arrays)
    try:
        load_network(path)  # Python may be able to
    except ValueError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize(
    "classes", [["a"], ["a", "a"], "ab", [None, None], {"array": "graph.0.data"}, {"list": ["a", 1]}]
)
def test_forged_classes_are_refused(tmp_path, classes):
    net, path = network(), tmp_path / "net"
    save_network(path, net, net.init(rng=0))
    header, arrays = storage.read_archive(path, ("network",))
    header["module"]["config"]["classes"] = classes
    storage.write_archive(path, "network", header, arrays)
    with pytest.raises(ValueError, match="cannot be rebuilt"):
        load_network(path)
