"""ECC, MoNet and attention against torch, JAX and PyG in every setting, not only in those of their examples."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import family
import numpy as np
import peers
import pytest

import evref as ev

pytest.importorskip("torch")
pytest.importorskip("jax")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of PyG's own import
    pytest.importorskip("torch_geometric")
peers.enable_jax_float64()

SEEDS = 20
S = np.random.default_rng(7).standard_normal((6, 6)) * (np.random.default_rng(8).random((6, 6)) < 0.4)
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


@pytest.mark.parametrize("name", ["ecc", "monet", "attention"])
def test_every_setting(name: str) -> None:
    for number, setting in enumerate(settings(name)):
        filt = ev.catalogue[name](GRAPH, **setting)
        comparison = family.Comparison(f"{name}, setting {number}", filt, SEEDS)
        for kind in family.KINDS:
            error = comparison.error(kind)
            assert error is not None or (kind == "PYG" and setting.get("covariance") == "full")
            assert error is None or error <= family.tolerance(filt), (setting, kind)
