"""The protocol of table I, fact by fact."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from evref.experiments.source_localization import SourceLocalization, draw, real_network

CELL = {"graph": 3, "draw": 1}
PAPER = SourceLocalization()


def powers(graph, longest):
    S = graph.S.toarray()
    return np.stack([np.linalg.matrix_power(S, t) for t in range(longest + 1)])  # (t, node, source)


def explain(experiment, cell, x, label):
    """Time and source of every sample, found by comparison with all there could be."""
    graph, community = experiment.graph(cell)
    P = powers(graph, graph.n_nodes).astype(np.float32)
    found = {P[t, :, i].tobytes(): (t, i) for t in range(len(P)) for i in range(graph.n_nodes)}
    close = np.array([found.get(sample.tobytes(), (-1, -1)) for sample in x[:, 0]])
    for n in np.flatnonzero(close[:, 0] < 0):  # sums in another order: the last bit may differ
        t, i = np.unravel_index(np.abs(P - x[n, 0][:, None]).max(axis=1).argmin(), (len(P), graph.n_nodes))
        assert np.allclose(P[t, :, i], x[n, 0], rtol=1e-5, atol=1e-9)
        close[n] = t, i
    assert np.array_equal(community[close[:, 1]], label)
    return close.T


def test_the_papers_numbers():
    assert len(PAPER.cells()) == 100 and PAPER.cells()[0].keys() == {"graph", "draw"}
    assert len({tuple(cell.values()) for cell in PAPER.cells()}) == 100
    assert PAPER.models == ("spectral", "polynomial", "nv-degree", "nv-proxies", "ev", "hev-degree", "hev-proxies")
    assert PAPER.paper.keys() == set(PAPER.models)
    expected = {
        "features": 5, "order": 4, "privileged": 5, "spline": 5, "epochs": 20, "batch": 100, "learning_rate": 1e-3,
        "validate_every": 20, "train_samples": 10_000, "valid_samples": 2_400, "test_samples": 200,
    }  # fmt: skip
    assert expected.items() <= PAPER.settings().items()


def test_the_papers_figures_stand_beside_the_papers_task_only():
    assert replace(PAPER, features=8).in_paper("ev") == (85.47, 10.77)
    for other in ({"variant": "noise"}, {"network": "karate"}):
        assert replace(PAPER, **other).in_paper("ev") is None


def test_graph_and_shift():
    graph, community = PAPER.graph(CELL)
    assert graph.n_nodes == 50 and np.array_equal(community, np.repeat(np.arange(5), 10))
    S = graph.S.toarray()
    assert np.isclose(np.linalg.eigvalsh(S)[-1], 1) and np.unique(S[S != 0]).size == 1
    densities = []
    for g in range(10):
        graph, community = PAPER.graph({"graph": g, "draw": 0})
        A, same = graph.S.toarray() != 0, community[:, None] == community
        densities.append((A[same & ~np.eye(50, dtype=bool)].mean(), A[~same].mean()))
    assert np.allclose(np.mean(densities, axis=0), (0.8, 0.2), atol=0.03)


def test_samples_are_diffusions_from_the_highest_degree_of_each_block():
    data = PAPER.splits(CELL)
    graph, community = PAPER.graph(CELL)
    degree = (graph.S.toarray() != 0).sum(axis=1)
    for x, y, count in ((data.x_train, data.y_train, 10_000), (data.x_test, data.y_test, 200)):
        assert x.shape == (count, 1, 50) and x.dtype == np.float32
        x, y = x[:2000], y[:2000]
        source = explain(PAPER, CELL, x, y)[1]
        for c in range(5):
            assert len(set(source[y == c])) == 1, "one fixed source per community"
            assert degree[source[y == c][0]] == degree[community == c].max()
    assert len(rows(data.x_train)) <= 5 * 51


def test_times_are_uniform_in_0_to_N():
    known, new = PAPER.sources(*PAPER.graph(CELL))
    _, time, _ = draw(known, 51_000, np.random.default_rng(0))
    counts = np.bincount(time)
    assert counts.size == 51 and np.abs(counts - 1000).max() < 150
    assert np.array_equal(known.times, new.times)
    # in the samples themselves late times cannot be told apart, early ones can
    data = PAPER.splits(CELL)
    time, _ = explain(PAPER, CELL, data.x_train, data.y_train)
    assert np.abs(np.bincount(time)[:10] - 10_000 / 51).max() < 80


def test_labels_are_balanced():
    data = PAPER.splits(CELL)
    for y in (data.y_train, data.y_valid, data.y_test):
        share = np.bincount(y, minlength=5) / y.size
        assert np.abs(share - 0.2).max() < 4.5 * np.sqrt(0.16 / y.size)


def test_data_depend_on_seed_and_cell_alone():
    data = PAPER.splits(CELL)
    again = replace(PAPER, models=("ev",), features=8, graphs=1, data=1, epochs=1).splits(dict(CELL))
    assert all(np.array_equal(a, b) for a, b in zip(data, again, strict=True))
    for other, cell in (
        (replace(PAPER, seed=1), CELL),
        (PAPER, {"graph": 3, "draw": 2}),
        (PAPER, {"graph": 2, "draw": 1}),
    ):
        assert not np.array_equal(data.y_train, other.splits(cell).y_train)
    same, different = (PAPER.graph({"graph": g, "draw": 0})[0] for g in (3, 2))
    assert same == PAPER.graph(CELL)[0] != different


def rows(x):
    return {sample.tobytes() for sample in x}


def test_test_samples_of_the_paper_are_training_samples_and_of_the_variants_are_not():
    data = PAPER.splits(CELL)
    assert rows(data.x_test) <= rows(data.x_train)
    for variant in ("noise", "unseen-times", "unseen-sources"):
        data = replace(PAPER, variant=variant).splits(CELL)
        assert not rows(data.x_test) & (rows(data.x_train) | rows(data.x_valid)), variant


def test_noise():
    plain, noisy = PAPER, replace(PAPER, variant="noise", noise=0.25)
    x = noisy.splits(CELL).x_train
    late = powers(plain.graph(CELL)[0], 50)[50]
    assert np.isclose(np.std(x), 0.25, rtol=0.02) and np.abs(late).max() < 0.05


def test_unseen_times_and_sources():
    experiment = replace(PAPER, variant="unseen-times")
    data = experiment.splits(CELL)
    assert set(explain(experiment, CELL, data.x_train[:1000], data.y_train[:1000])[0]) == set(range(0, 11, 2))
    assert set(explain(experiment, CELL, data.x_valid[:500], data.y_valid[:500])[0]) <= set(range(0, 11, 2))
    assert set(explain(experiment, CELL, data.x_test, data.y_test)[0]) == set(range(1, 11, 2))
    experiment = replace(PAPER, variant="unseen-sources")
    data = experiment.splits(CELL)
    early = powers(experiment.graph(CELL)[0], 0)[0].astype(np.float32)  # t = 0: the sources themselves
    sources = [{int(s[0].argmax()) for s in x if s.tobytes() in rows(early)} for x in (data.x_train, data.x_test)]
    assert len(sources[0]) == 25 and not sources[0] & sources[1]


def test_without_biases_only_the_direction_of_a_signal_counts():
    from evref.experiments import models

    graph, _ = PAPER.graph(CELL)
    x = PAPER.splits(CELL).x_test.astype(np.float64)
    for bias, homogeneous in ((False, True), (True, False)):
        net = models.network("ev", graph, 1, 5, 4, 5, 5, 5, bias=bias)
        params = net.init(rng=0)
        one, three = net.predict(params, x), net.predict(params, 3 * x)
        assert np.allclose(three, 3 * one) is homogeneous
    record = replace(PAPER.quick(), variant="no-bias", validate_every=10, epochs=1).run("polynomial", CELL)
    assert record["parameters"] == 5 * 5 + 5 * 250


def test_validation_every_20_steps():
    record = replace(PAPER, epochs=2, train_samples=1000, batch=20).run("polynomial", CELL)  # 100 steps
    assert len(record["validation_accuracy"]) == 5 and len(record["train_loss"]) == 2
    assert np.sum(record["confusion"]) == 200
    assert np.isclose(np.trace(record["confusion"]) / 2, record["best"])


def test_longest():
    data = replace(PAPER, longest=0, variant="paper").splits(CELL)
    assert np.array_equal(np.unique(data.x_train), [0, 1]) and len(rows(data.x_train)) == 5


@pytest.mark.parametrize(("name", "nodes", "sizes"), [("karate", 34, [17, 17]), ("les-miserables", 77, None)])
def test_real_networks(name, nodes, sizes):
    pytest.importorskip("networkx")
    graph, community = real_network(name)
    counts = np.bincount(community)
    assert graph.n_nodes == nodes and graph.is_symmetric and set(graph.S.data) == {1.0}
    assert sizes is None or counts.tolist() == sizes
    assert (np.diff(counts) <= 0).all() and counts.min() > 1
    experiment = SourceLocalization(network=name, data=2, epochs=1, train_samples=2000, valid_samples=100)
    assert experiment.cells() == [{"draw": 0}, {"draw": 1}]
    assert experiment.run("hev-proxies", {"draw": 0})["best"] >= 0
    explain(experiment, {"draw": 0}, experiment.splits({"draw": 0}).x_test, experiment.splits({"draw": 0}).y_test)


def test_communities_do_not_depend_on_the_hash_of_strings():
    pytest.importorskip("networkx")
    code = "from evref.experiments.source_localization import *; print(real_network('les-miserables')[1].tolist())"
    outputs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                       env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1] != ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "none"}, "variant is 'none'; expected one of"),
        ({"network": "web"}, "network is 'web'"),
        ({"features": 0}, "features is 0"),
        ({"noise": -1.0}, "noise is -1"),
        ({"longest": -1}, "longest is -1"),
        ({"longest": 0, "variant": "unseen-times"}, "longest is 0"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        SourceLocalization(**settings)
