"""ARMA and Cayley filters in the settings that their examples in the catalogue do not have."""

from __future__ import annotations

import warnings

import family
import measure
import numpy as np
import peers
import peers_rational
import pytest

import evref as ev

pytest.importorskip("torch")
pytest.importorskip("jax")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of PyG's own import
    pytest.importorskip("torch_geometric")
peers.enable_jax_float64()

SEEDS = 20


def graph(kind: str) -> ev.Graph:
    S = np.random.default_rng(5).standard_normal((7, 7)) * (np.random.default_rng(6).random((7, 7)) < 0.5)
    return ev.Graph(S + S.T if kind == "undirected" else S)


@pytest.mark.parametrize(("T", "shared"), [(1, True), (3, False)])
def test_arma(T, shared):
    filt = ev.ARMA(graph("directed"), T, 2, 3, stacks=3, shared=shared, bias=True)
    comparison = family.Comparison(f"arma {T}", filt, SEEDS)
    for kind in family.KINDS:
        assert comparison.error(kind) <= family.tolerance(filt), kind


@pytest.mark.parametrize("on", ["undirected", "directed"])
@pytest.mark.parametrize("iterations", [None, 0, 3])
def test_cayley(on, iterations):
    filt = ev.CayleyNet(graph(on), 2, 2, 3, iterations=iterations, bias=True)
    comparison = family.Comparison(f"cayley {on} {iterations}", filt, SEEDS)
    for kind in ("TORCH", "JAX"):
        assert comparison.error(kind) <= family.tolerance(filt), kind


def test_shift_of_bianchi_is_what_pyg_normalises_to():
    raw = ev.generators.erdos_renyi(12, 0.4, rng=3)
    shifted = ev.Graph(-raw.with_shift("scaled_laplacian", lambda_max=2).S)
    filt, on_raw = (ev.ARMA(g, 3, 2, 3, stacks=2) for g in (shifted, raw))
    comparison = family.Comparison("arma of Bianchi", filt, SEEDS)
    for seed, draw in enumerate(comparison.draws):
        theirs = peers_rational.pyg_arma(on_raw, *draw, normalize=True)
        terms = {name: m[seed] for name, m in comparison.terms.items()}
        for ours in comparison.ours.values():
            errors = measure.errors({name: values[seed] for name, values in ours.items()}, theirs, terms)
            assert max(errors.values()) <= family.tolerance(filt), (seed, errors)
