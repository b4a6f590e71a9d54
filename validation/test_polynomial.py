"""PyTorch Geometric's own normalisations of the raw weights against evref's shifts."""

from __future__ import annotations

import warnings

import family
import numpy as np
import peers
import pytest

import evref as ev

pytest.importorskip("jax")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of PyG's own import
    pytest.importorskip("torch_geometric")
peers.enable_jax_float64()

SEEDS = 20


def raw_graph() -> ev.Graph:
    rng = np.random.default_rng(1)
    W = ev.generators.erdos_renyi(9, 0.4, rng=3).S.toarray() * rng.uniform(0.5, 2, (9, 9))  # degrees are positive
    W = np.triu(W, 1)
    return ev.Graph(W + W.T)


def chebyshev(**options) -> ev.Chebyshev:
    return ev.Chebyshev(raw_graph().with_shift("scaled_laplacian", **options), 3, 2, 3, bias=True)


LARGEST = ev.shifts.largest_eigenvalue(ev.shifts.normalized_laplacian(raw_graph()))
CASES = {
    "gcn": (ev.GCN.on(raw_graph(), 2, 3, bias=True), {}),
    "tagcn": (ev.TAGCN.on(raw_graph(), 3, 2, 3, bias=True), {}),
    "chebyshev, lambda_max 2": (chebyshev(lambda_max=2.0), {}),
    "chebyshev, largest eigenvalue": (chebyshev(), {"lambda_max": LARGEST}),
}


@pytest.mark.parametrize("name", CASES)
def test_pyg_normalises_alike(name):
    filt, options = CASES[name]
    comparison = family.Comparison(name, filt, SEEDS, weights=raw_graph().S.toarray(), **options)
    assert comparison.error("PYG") <= family.tolerance(filt)
