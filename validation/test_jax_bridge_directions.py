"""Derivatives by the directions and cotangents of derivatives: what is linear in them has derivatives of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax.flatten_util import ravel_pytree  # noqa: E402 - needs jax
from jax_examples import GRAPH, NET, X, equal, float64, in_float64, signals  # noqa: E402, F401

import evref as ev  # noqa: E402
from evref.bridges.jax import as_jax  # noqa: E402

with float64(True):
    Z, UNFLAT = ravel_pytree((NET.init(0), X))
    Z = np.asarray(Z)
A, B, U = signals(Z.size, seed=1), signals(Z.size, seed=2), signals(len(X), 2, seed=3)
net = as_jax(NET)


def f(z: Any) -> Any:
    return net(*UNFLAT(z))


def along(function: Callable[[Any], Any], z: Any, d: Any) -> Any:
    return jax.jvp(function, (z,), (d,))[1]


def forward_over_forward(a: Any, b: Any, u: Any) -> Any:
    """<u, D^2 f(z)[a, b]>."""
    return (u * along(lambda z: along(f, z, a), Z, b)).sum()


def forward_over_reverse(a: Any, b: Any, u: Any) -> Any:
    return a @ along(jax.grad(lambda z: (u * f(z)).sum()), Z, b)


def reverse_over_forward(a: Any, b: Any, u: Any) -> Any:
    return b @ jax.grad(lambda z: (u * along(f, z, a)).sum())(Z)


def reverse_over_reverse(a: Any, b: Any, u: Any) -> Any:
    return b @ jax.grad(lambda z: a @ jax.grad(lambda z: (u * f(z)).sum())(z))(Z)


FORMS = [forward_over_forward, forward_over_reverse, reverse_over_forward, reverse_over_reverse]


def near(found: Any, expected: Any) -> None:
    assert np.abs(found - expected).max() <= 1e-13 * np.abs(expected).max()


@pytest.fixture(scope="module")
def curvature() -> np.ndarray:
    """D^2 f(z), (samples, outputs, z, z): its value is held against differences in validation/jax_bridge.md."""
    with float64(True):
        return np.asarray(jax.jit(jax.hessian(f))(Z))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_by_directions_and_cotangent(form: Callable[..., Any], curvature: np.ndarray) -> None:
    H = np.einsum("sc,scij->ij", U, curvature)
    value, (by_a, by_b, by_u) = jax.jit(jax.value_and_grad(form, (0, 1, 2)))(A, B, U)
    near(value, A @ H @ B)
    near(by_a, H @ B)
    near(by_b, H @ A)
    near(by_u, curvature @ B @ A)
    tangents = signals(Z.size, seed=4), signals(Z.size, seed=5), signals(len(X), 2, seed=6)
    da, db, du = tangents
    found = jax.jit(lambda *at: jax.jvp(form, at, tangents)[1])(A, B, U)
    near(found, da @ H @ B + A @ H @ db + (du * (curvature @ B @ A)).sum())


@pytest.mark.parametrize("form", FORMS)
def test_the_form_is_linear_in_each(form: Callable[..., Any], curvature: np.ndarray) -> None:
    """By both directions it has the Hessian, along a few more directions; by one of them twice, nothing."""
    H, V = np.einsum("sc,scij->ij", U, curvature), signals(Z.size, 3, seed=7)

    def on_few(s: Any, t: Any) -> Any:
        return form(V @ s, V @ t, U)

    at = signals(3, seed=8), signals(3, seed=9)
    for outer, inner in ((jax.jacfwd, jax.jacfwd), (jax.jacfwd, jax.jacrev), (jax.jacrev, jax.jacfwd)):
        near(jax.jit(outer(inner(on_few, 0), 1))(*at), V.T @ H @ V)
        assert not np.any(jax.jit(outer(inner(on_few, 0), 0))(*at))


def test_modules_of_one_shape_in_one_program() -> None:
    """They differ by their graphs alone."""
    graphs = [ev.Graph(factor * GRAPH.S.toarray()) for factor in (1, 2, -1)]
    filters = [ev.Polynomial(graph, order=2) for graph in graphs]
    functions, params = [as_jax(filt) for filt in filters], filters[0].init(0)
    together = jax.jit(lambda params, x: [g(params, x) for g in functions])(params, X)
    assert equal(together, [filt(params, X) for filt in filters])
    gradients = jax.jit(lambda params, x: [jax.grad(lambda x, g=g: g(params, x).sum())(x) for g in functions])
    assert not equal(*gradients(params, X)[:2])
    for filt, found in zip(filters, gradients(params, X), strict=True):
        y, tape = filt.forward(params, X)
        assert equal(found, filt.backward(params, tape, np.ones_like(y))[1])
