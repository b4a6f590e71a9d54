"""ARMA and Cayley filters in the settings that their examples in the catalogue do not have."""

from __future__ import annotations

import numpy as np
import parity
import peers
import peers_rational
import pytest

import evref as ev

peers.enable_jax_float64()


def graph(kind: str) -> ev.Graph:
    S = np.random.default_rng(5).uniform(-1, 1, (7, 7)) * (np.random.default_rng(6).random((7, 7)) < 0.5)
    return ev.Graph(S + S.T if kind == "undirected" else S)


def compared(filt: ev.Filter, kind: str) -> float:
    rng = np.random.default_rng(1)
    params = {name: rng.uniform(-1, 1, shape) for name, shape in filt.parameter_shapes().items()}
    x, grad_y = rng.standard_normal((2, *filt.in_shape)), rng.standard_normal((2, *filt.out_shape))
    if kind == "PYG":
        theirs = peers_rational.pyg_arma(filt, params, x, grad_y)
    else:
        peer = getattr(peers_rational, kind)[filt.name]
        gradients = peers.torch_gradients if kind == "TORCH" else peers.jax_gradients
        theirs = gradients(lambda p, signal: peer(filt, p, signal), params, x, grad_y)
    return max(parity.relative_errors(parity.evref_gradients(filt, params, x, grad_y), theirs).values())


@pytest.mark.parametrize("kind", ["TORCH", "JAX", "PYG"])
@pytest.mark.parametrize(("T", "shared"), [(1, True), (3, False)])
def test_arma(kind, T, shared):
    if kind == "PYG":
        pytest.importorskip("torch_geometric")
    assert compared(ev.ARMA(graph("directed"), T, 2, 3, stacks=3, shared=shared, bias=True), kind) < 1e-12


@pytest.mark.parametrize("kind", ["TORCH", "JAX"])
@pytest.mark.parametrize("on", ["undirected", "directed"])
@pytest.mark.parametrize("iterations", [None, 0, 3])
def test_cayley(kind, on, iterations):
    assert compared(ev.CayleyNet(graph(on), 2, 2, 3, iterations=iterations, bias=True), kind) < 1e-11


def test_shift_of_bianchi_is_what_pyg_normalises_to():
    pytest.importorskip("torch_geometric")
    raw = ev.generators.erdos_renyi(12, 0.4, rng=3)
    shifted = ev.Graph(-raw.with_shift("scaled_laplacian", lambda_max=2).S)
    ours, theirs = (ev.ARMA(g, 3, 2, 3, stacks=2) for g in (shifted, raw))
    rng = np.random.default_rng(1)
    params = {name: rng.uniform(-1, 1, shape) for name, shape in ours.parameter_shapes().items()}
    x, grad_y = rng.standard_normal((2, 2, 12)), rng.standard_normal((2, 3, 12))
    expected = peers_rational.pyg_arma(theirs, params, x, grad_y, normalize=True)
    assert max(parity.relative_errors(parity.evref_gradients(ours, params, x, grad_y), expected).values()) < 1e-12
