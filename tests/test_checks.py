"""Odd arguments: each is refused by name, at every entry."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from strategies import first_example

import evref as ev
from evref import checks
from evref.filters import ECC, generated
from evref.graph import fourier_basis
from evref.learn import (
    Adam,
    CrossEntropy,
    Dense,
    MeanSquaredError,
    Network,
    accuracy,
    encode_labels,
    fit,
    save_parameters,
)

GRAPH = ev.Graph([[0.0, 1], [1, 0]])
FILTER = ev.EdgeVariant(GRAPH, order=1)
PARAMS = FILTER.init(rng=0)
X = np.ones((1, 1, 2))
NET = Network([FILTER, Dense((1, 2), outputs=2)])
FOURIER = fourier_basis(GRAPH)


def masked(value):
    """Half of it hidden: `np.asarray` would show it."""
    array = np.array(value)
    mask = np.arange(array.size) % 2 == 0
    return np.ma.array(array, mask=mask.reshape(array.shape))


def train(x, y, params=None):
    options = {"loss": CrossEntropy(), "optimizer": Adam(), "epochs": 1, "progress": False}
    return fit(NET, params or NET.init(rng=0), (x, y), **options)


def adam(**changes):
    arguments = {"params": {"w": np.ones(2)}, "grads": {"w": np.ones(2)}, "state": Adam().init({"w": np.ones(2)})}
    return Adam().step(**{**arguments, **changes})


MASKED = {
    "Graph": (lambda: ev.Graph(masked([[0.0, 1], [1, 0]])), "S is a masked"),
    "from_adjacency": (lambda: ev.Graph.from_adjacency(masked([[0.0, 1], [1, 0]])), "A is a masked"),
    "source": (lambda: ev.Graph.from_edges(2, masked([0, 1]), [1, 0]), "source is a masked"),
    "target": (lambda: ev.Graph.from_edges(2, [0, 1], masked([1, 0])), "target is a masked"),
    "weight": (lambda: ev.Graph.from_edges(2, [0, 1], [1, 0], masked([1.0, 1.0])), "weight is a masked"),
    "edge_index": (lambda: ev.Graph.from_edge_index(masked([[0], [1]]), 2), "edge_index is a masked"),
    "x": (lambda: FILTER.forward(PARAMS, masked(X)), "x is a masked"),
    "params": (lambda: FILTER.forward({"phi": masked(PARAMS["phi"])}, X), r"params\['phi'\] is a masked"),
    "grad_y": (lambda: FILTER.backward(PARAMS, FILTER.forward(PARAMS, X)[1], masked(X)), "grad_y is a masked"),
    "dx": (lambda: FILTER.jvp(PARAMS, X, PARAMS, masked(X)), "dx is a masked"),
    "dparams": (lambda: FILTER.jvp(PARAMS, X, {"phi": masked(PARAMS["phi"])}, X), r"dparams\['phi'\] is a masked"),
    "gft": (lambda: FOURIER.gft(masked([1.0, 2.0])), "x is a masked"),
    "inverse": (lambda: FOURIER.inverse(masked([1.0, 2.0])), "x_hat is a masked"),
    "h": (lambda: FOURIER.filter(masked([1.0, 2.0]), [1.0, 2.0]), "h is a masked"),
    "h(λ)": (lambda: FOURIER.filter(masked, [1.0, 2.0]), "h is a masked"),
    "eigenvectors": (lambda: fourier_basis(GRAPH, eigenvectors=masked(FOURIER.U)), "eigenvectors is a masked"),
    "shift-invariant": (lambda: ev.ShiftInvariantEdgeVariant(GRAPH, 1, eigenvectors=masked(FOURIER.U)), "eigenvectors"),
    "nodes": (lambda: ev.NodeVariant(GRAPH, 1, nodes=masked([0, 1])), "nodes is a masked"),
    "privileged": (lambda: ev.HybridEdgeVariant(GRAPH, 1, nodes=masked([0, 1])), "nodes is a masked"),
    "attributes": (lambda: ECC(GRAPH, masked(np.ones((4, 1)))), "is a masked"),
    "on_support": (lambda: generated.on_support(GRAPH, masked([0, 1]), [1, 0], [1.0, 1.0], 0.0), "source is a masked"),
    "fit, x": (lambda: train(masked(np.ones((4, 1, 2))), [0, 1, 0, 1]), r"data\[0\] is a masked"),
    "fit, y": (lambda: train(np.ones((4, 1, 2)), masked([0, 1, 0, 1])), r"data\[1\] is a masked"),
    "grads": (lambda: adam(grads={"w": masked([1.0, 1.0])}), r"grads\['w'\] is a masked"),
    "state": (lambda: adam(state={k: masked(v) for k, v in Adam().init({"w": np.ones(2)}).items()}), "is a masked"),
    "cross-entropy": (lambda: CrossEntropy().forward([[0.0, 1]], masked([1])), "target is a masked"),
    "squared error": (lambda: MeanSquaredError().forward([0.0, 1], masked([0.0, 1])), "target is a masked"),
    "prediction": (lambda: accuracy(masked([[0.0, 1]]), [1]), "prediction is a masked"),
    "labels": (lambda: encode_labels(masked(["a", "b"])), "labels is a masked"),
    "save": (lambda: save_parameters("never written", {"w": masked([1.0, 2.0])}), r"params\['w'\] is a masked"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), MASKED.values(), ids=MASKED.keys())
def test_masked_arrays_are_refused_by_name(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000], ids=["large", "negative", "long"])
def test_numbers_too_large_for_a_float(value):
    with pytest.raises(
        ValueError, match=r"learning_rate is an integer of \d+ bits; expected a number that fits a float"
    ):
        checks.as_number("learning_rate", value)
    with pytest.raises(ValueError, match="learning_rate is an integer of"):
        Adam(learning_rate=value)
    with pytest.raises(TypeError, match="x has dtype object"):
        FILTER.forward(PARAMS, [value, 1])


@pytest.mark.parametrize("value", [2**63, 10**400, 10**5000, -1, -(10**5000)], ids=range(5))
def test_counts_beyond_what_an_array_can_have(value):
    with pytest.raises(ValueError, match=r"order is .*; expected at (most|least)"):
        checks.as_count("order", value)
    with pytest.raises(ValueError, match=r"order is "):
        ev.EdgeVariant(GRAPH, order=value)


def test_a_seed_may_have_any_length():
    assert checks.as_rng(2**200).random() == np.random.default_rng(2**200).random()


# ---- dense arrays ---------------------------------------------------------------------------------------------------
LARGE = ev.Graph.from_edges(20_000, np.arange(19_999), np.arange(1, 20_000))
STAR = ev.Graph.from_edges(20_000, np.zeros(19_999, int), np.arange(1, 20_000), undirected=True)

DENSE = {
    "fourier_basis": lambda: fourier_basis(LARGE),
    "spectral": lambda: ev.SpectralGCNN(LARGE, 3),
    "shift-invariant": lambda: ev.ShiftInvariantEdgeVariant(LARGE, 1),
    "proxies": lambda: ev.graph.selection.spectral_proxies(LARGE, count=2),
    "design": lambda: ev.graph.selection.by_experimental_design(LARGE),
    "within": lambda: STAR.neighborhoods(2),
    "max": lambda: ev.layer_catalogue["max_activation"](STAR, hops=2),
    "spline": lambda: ev.SpectralGCNN(GRAPH, 10**9),
}
DENSE |= {
    f"{name}.matrix": lambda cls=cls: (filt := first_example(cls, LARGE)).matrix(filt.init(rng=0))
    for name, cls in ev.catalogue.items()
    if name != "attention"  # its matrix takes a signal
}


@pytest.mark.parametrize("call", DENSE.values(), ids=DENSE.keys())
def test_the_size_of_a_dense_array_is_said_before_it_is_allocated(call):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"dense array of .* numbers, [0-9.e+]+ GB; the limit is 0.54 GB"):
            call()
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_the_limit_can_be_set(monkeypatch):
    monkeypatch.setenv("EVREF_DENSE_LIMIT", str(8 * 4))
    assert fourier_basis(GRAPH).U.shape == (2, 2)
    monkeypatch.setenv("EVREF_DENSE_LIMIT", str(8 * 4 - 1))
    with pytest.raises(ValueError, match="dense array of 2 x 2 numbers"):
        fourier_basis(GRAPH)
    monkeypatch.setenv("EVREF_DENSE_LIMIT", "much")
    with pytest.raises(ValueError, match="EVREF_DENSE_LIMIT is 'much'"):
        fourier_basis(GRAPH)


def test_more_hops_than_nodes():
    for cls in (ev.layer_catalogue["max_activation"], ev.layer_catalogue["median_activation"]):
        path = ev.generators.path(60)
        layer = cls(path, hops=60)  # the longest way has 59
        for k, (indptr, indices) in enumerate(layer._lists, start=1):
            np.testing.assert_array_equal(indptr, path.neighborhoods(k)[0])
            np.testing.assert_array_equal(indices, path.neighborhoods(k)[1])
