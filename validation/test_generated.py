"""ECC, MoNet and attention against torch, JAX and PyG in every setting, not only in that of their example."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import parity
import peers
import peers_generated
import pytest

import evref as ev

pytest.importorskip("torch")
peers.enable_jax_float64()

S = np.random.default_rng(7).uniform(0.5, 1.5, (6, 6)) * (np.random.default_rng(8).random((6, 6)) < 0.4)
S[5] = S[:, 5] = 0  # a node without edges
GRAPH = ev.Graph(S)
U = np.random.default_rng(9).standard_normal((GRAPH.nnz, 3))
NETWORKS = (((), "tanh"), ((4, 3), "relu"))
SHARED = [
    {"aggregation": a, "root": r, "self_entries": s, "bias": s, "in_features": 2, "out_features": 3}
    for a, r, s in product(("sum", "mean"), (False, True), (False, True))
]


def settings(name: str) -> list[dict[str, Any]]:
    if name == "attention":
        return [
            {"heads": h, "slope": s, "in_features": 2, "out_features": 4} for h, s in ((1, 0.2), (2, 0.0), (4, 0.7))
        ]
    if name == "ecc":
        return [case | {"hidden": h, "activation": a, "attributes": U} for case in SHARED for h, a in NETWORKS]
    return [case | {"covariance": c, "pseudo": U} for case in SHARED for c in ("diagonal", "full")]


@pytest.mark.parametrize("kind", ["TORCH", "JAX", "PYG"])
@pytest.mark.parametrize("name", ["ecc", "monet", "attention"])
def test_every_setting(name: str, kind: str) -> None:
    if kind == "PYG":
        pytest.importorskip("torch_geometric")
    elif kind == "JAX":
        pytest.importorskip("jax")
    peer = getattr(peers_generated, kind)[name]
    rng = np.random.default_rng(1)
    for setting in settings(name)[:: 4 if kind == "JAX" else 1]:  # JAX compiles for each
        if kind == "PYG" and setting.get("covariance") == "full":
            continue
        filt = ev.catalogue[name](GRAPH, **setting)
        shapes = filt.parameter_shapes()
        params = {key: rng.uniform(0.3, 1, s) * rng.choice([-1, 1], s) for key, s in shapes.items()}
        x, u = rng.standard_normal((3, *filt.in_shape)), rng.standard_normal((3, *filt.out_shape))
        if kind == "PYG":
            theirs = peer(filt, params, x, u)
        else:
            gradients = peers.torch_gradients if kind == "TORCH" else peers.jax_gradients
            theirs = gradients(lambda p, signal, filt=filt: peer(filt, p, signal), params, x, u)
        for backend in ev.kernels.BACKENDS:
            with ev.use_backend(backend):
                errors = parity.relative_errors(parity.evref_gradients(filt, params, x, u), theirs)
            assert max(errors.values()) < 1e-12, (setting, backend, errors)
