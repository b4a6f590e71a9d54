"""PyTorch Geometric's own normalisations of the raw weights against evref's shifts."""

from __future__ import annotations

import numpy as np
import parity
import peers_polynomial as peers
import pytest

import evref as ev

pytest.importorskip("torch_geometric")


def raw_graph() -> ev.Graph:
    rng = np.random.default_rng(1)
    W = ev.generators.erdos_renyi(9, 0.4, rng=3).S.toarray() * rng.uniform(0.5, 2, (9, 9))
    W = np.triu(W, 1)
    return ev.Graph(W + W.T)


def chebyshev(**options) -> ev.Chebyshev:
    return ev.Chebyshev(raw_graph().with_shift("scaled_laplacian", **options), 3, 2, 3, bias=True)


LARGEST = ev.shifts.largest_eigenvalue(ev.shifts.normalized_laplacian(raw_graph()))
CASES = {
    "gcn": (ev.GCN.on(raw_graph(), 2, 3, bias=True), peers.pyg_gcn, {}),
    "tagcn": (ev.TAGCN.on(raw_graph(), 3, 2, 3, bias=True), peers.pyg_tagcn, {}),
    "chebyshev, lambda_max 2": (chebyshev(lambda_max=2.0), peers.pyg_chebyshev, {}),
    "chebyshev, largest eigenvalue": (chebyshev(), peers.pyg_chebyshev, {"lambda_max": LARGEST}),
}


@pytest.mark.parametrize(("filt", "peer", "options"), CASES.values(), ids=CASES.keys())
def test_pyg_normalises_alike(filt, peer, options):
    rng = np.random.default_rng(2)
    params = {key: rng.uniform(-1, 1, shape) for key, shape in filt.parameter_shapes().items()}
    x, grad_y = rng.standard_normal((4, *filt.in_shape)), rng.standard_normal((4, *filt.out_shape))
    theirs = peer(filt, params, x, grad_y, weights=raw_graph().S.toarray(), **options)
    ours = parity.evref_gradients(filt, params, x, grad_y)
    assert ours.keys() == theirs.keys()
    assert max(parity.relative_errors(ours, theirs).values()) < 1e-13
