"""Generators: counts, distributions and reproducibility."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from evref.graph import Graph, generators

RANDOM = {
    "sbm": lambda rng, **more: generators.stochastic_block_model(20, 3, 0.8, 0.2, rng=rng, **more)[0],
    "erdos_renyi": lambda rng, **more: generators.erdos_renyi(20, 0.3, rng=rng, **more),
    "erdos_renyi, directed": lambda rng, **more: generators.erdos_renyi(20, 0.3, rng=rng, directed=True, **more),
    "geometric": lambda rng, **more: generators.random_geometric(20, 0.4, rng=rng, **more)[0],
    "random_directed": lambda rng, **more: generators.random_directed(20, 4, rng=rng, **more),
}


@pytest.mark.parametrize("name", RANDOM)
def test_reproducible_without_the_global_random_state(name):
    before = np.random.get_state()[1].copy()
    make = RANDOM[name]
    assert make(7) == make(7) == make(np.random.default_rng(7))
    assert make(7) != make(8)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("name", RANDOM)
def test_weights(name):
    unit, uniform = RANDOM[name](0), RANDOM[name](0, weights="uniform")
    assert (unit.S.data == 1).all() and unit.n_self_loops == 0
    assert ((uniform.S.data >= 0.5) & (uniform.S.data < 1.5)).all() and np.ptp(uniform.S.data) > 0
    assert uniform.is_symmetric == unit.is_symmetric == ("directed" not in name)
    with pytest.raises(ValueError, match="weights is 'normal'; expected one of"):
        RANDOM[name](0, weights="normal")


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("p", [0.03, 0.5, 0.97])
def test_every_pair_of_erdos_renyi_has_probability_p(p, directed):
    n, draws = 5, 500
    rng = np.random.default_rng(0)
    mean = sum(generators.erdos_renyi(n, p, rng=rng, directed=directed).S.toarray() for _ in range(draws)) / draws
    off = ~np.eye(n, dtype=bool)
    assert np.abs(mean[off] - p).max() < 5 * np.sqrt(p * (1 - p) / draws)
    assert (mean[~off] == 0).all()


@pytest.mark.parametrize("directed", [False, True])
def test_erdos_renyi_at_the_ends(directed):
    assert generators.erdos_renyi(9, 0, directed=directed).n_edges == 0
    assert generators.erdos_renyi(9, 1, directed=directed).n_edges == 72
    assert generators.erdos_renyi(1, 0.5, directed=directed).n_nodes == 1


def test_pair_numbers_are_decoded_without_rounding():
    i, j = generators._pairs(300, 1.0, np.random.default_rng(0))
    np.testing.assert_array_equal((i, j), np.tril_indices(300, -1))
    # far out, the first and the last pair of a row are where a rounded root goes wrong
    rows = 2 ** np.arange(20, 31) + np.arange(-50, 50)[:, None]
    first, last = generators._decoded(rows * (rows - 1) // 2), generators._decoded(rows * (rows + 1) // 2 - 1)
    np.testing.assert_array_equal(first, (rows, np.zeros_like(rows)))
    np.testing.assert_array_equal(last, (rows, rows - 1))


def test_large_sparse_graphs_need_no_square():
    graph = generators.erdos_renyi(200_000, 1e-5, rng=0)
    assert abs(graph.n_edges - 200_000**2 * 1e-5) < 5 * np.sqrt(2 * 400_000)


def test_block_model_has_its_two_probabilities():
    n, draws = 7, 600
    rng = np.random.default_rng(1)
    total = np.zeros((n, n))
    for _ in range(draws):
        graph, labels = generators.stochastic_block_model(n, 3, 0.7, 0.2, rng=rng, connected=False)
        total += graph.S.toarray()
    assert labels.tolist() == [0, 0, 0, 1, 1, 2, 2]
    expected = np.where(labels[:, None] == labels, 0.7, 0.2)
    np.fill_diagonal(expected, 0)
    assert np.abs(total / draws - expected).max() < 5 * np.sqrt(0.25 / draws)


def test_block_model_connected():
    for seed in range(10):
        graph, labels = generators.stochastic_block_model(20, 4, 0.5, 0.05, rng=seed)
        assert connected_components(graph.S)[0] == 1
        assert np.bincount(labels).tolist() == [5, 5, 5, 5]
    with pytest.raises(ValueError, match="no connected graph in 100 draws with n_nodes=4, n_blocks=2.*connected=False"):
        generators.stochastic_block_model(4, 2, 1, 0, rng=0)
    graph, _ = generators.stochastic_block_model(4, 2, 1, 0, rng=0, connected=False)
    assert graph.S.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]


def test_geometric_joins_points_within_the_radius():
    graph, positions = generators.random_geometric(60, 0.2, rng=3)
    distance = np.linalg.norm(positions[:, None] - positions, axis=-1)
    np.testing.assert_array_equal(graph.S.toarray() != 0, (distance <= 0.2) & ~np.eye(60, dtype=bool))
    assert ((0 <= positions) & (positions < 1)).all()


@pytest.mark.parametrize(("n", "degree"), [(1, 0), (5, 0), (5, 4), (50, 20), (1000, 7)])
def test_random_directed_has_its_in_degrees(n, degree):
    graph = generators.random_directed(n, degree, rng=0)
    assert (np.diff(graph.S.indptr) == degree).all()
    assert graph.n_self_loops == 0 and (graph.S.data == 1).all()


def test_random_directed_is_uniform():
    n, degree, draws = 6, 2, 800
    rng = np.random.default_rng(0)
    mean = sum(generators.random_directed(n, degree, rng=rng).S.toarray() for _ in range(draws)) / draws
    p = degree / (n - 1)
    assert np.abs(mean[~np.eye(n, dtype=bool)] - p).max() < 5 * np.sqrt(p * (1 - p) / draws)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda: generators.path(6), lambda nx: nx.path_graph(6)),
        (lambda: generators.path(1), lambda nx: nx.path_graph(1)),
        (lambda: generators.path(4, directed=True), lambda nx: nx.path_graph(4, nx.DiGraph)),
        (lambda: generators.cycle(5), lambda nx: nx.cycle_graph(5)),
        (lambda: generators.cycle(4, directed=True), lambda nx: nx.cycle_graph(4, nx.DiGraph)),
        (lambda: generators.star(5), lambda nx: nx.star_graph(4)),
        (lambda: generators.star(1), lambda nx: nx.star_graph(0)),
        (lambda: generators.complete(5), lambda nx: nx.complete_graph(5)),
        (lambda: generators.grid(3, 4), lambda nx: nx.grid_2d_graph(3, 4)),
        (lambda: generators.grid(1, 1), lambda nx: nx.grid_2d_graph(1, 1)),
    ],
)
def test_regular_graphs_against_networkx(ours, theirs):
    nx = pytest.importorskip("networkx")
    assert ours() == Graph.from_networkx(theirs(nx))


def test_karate():
    pytest.importorskip("networkx")
    graph = generators.karate()
    assert (graph.n_nodes, graph.n_edges, set(graph.S.data)) == (34, 2 * 78, {1.0})


def test_karate_without_networkx_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r'pip install "evref\[graphs\]"'):
        generators.karate()


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "n_nodes is 3.0", lambda: generators.erdos_renyi(3.0, 0.5)),
        (ValueError, "n_nodes is 0", lambda: generators.path(0)),
        (ValueError, "n_nodes is 2; expected at least 3", lambda: generators.cycle(2)),
        (TypeError, "directed is 1 ", lambda: generators.path(3, directed=1)),
        (ValueError, "p is 1.5", lambda: generators.erdos_renyi(3, 1.5)),
        (ValueError, "p_out is -0.1", lambda: generators.stochastic_block_model(4, 2, 0.5, -0.1)),
        (ValueError, "n_blocks is 5; expected at most", lambda: generators.stochastic_block_model(4, 5, 0.5, 0.1)),
        (ValueError, "degree is 4; expected less than n_nodes = 4", lambda: generators.random_directed(4, 4)),
        (ValueError, "degree is -1", lambda: generators.random_directed(4, -1)),
        (ValueError, "radius is nan", lambda: generators.random_geometric(4, float("nan"))),
        (ValueError, "rows is 0", lambda: generators.grid(0, 3)),
        (TypeError, "rng is 'seed'", lambda: generators.erdos_renyi(3, 0.5, rng="seed")),
        (ValueError, "edges would be drawn", lambda: generators.erdos_renyi(10**6, 0.5)),
        (ValueError, "edges would be drawn", lambda: generators.random_geometric(10**6, 0.5)),
        (ValueError, "edges would be drawn", lambda: generators.complete(10**6)),
    ],
)
def test_refusals(error, message, call):
    with pytest.raises(error, match=message):
        call()
