"""A filter, a network, numbers for them, and JAX in float64: what the tests of the JAX bridge share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
import pytest

import evref as ev
from evref.verify.examples import probe_graph

GRAPH = probe_graph(5, "directed")
FILTER = ev.EdgeVariant(GRAPH, order=2, in_features=1, out_features=2, bias=True)
NET = ev.Network([ev.EdgeVariant(GRAPH, 1, 1, 3), ev.Tanh(), ev.Dense((3, 5), outputs=2)])


def signals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


X = signals(3, 1, 5)


@contextmanager
def float64(enabled: bool) -> Iterator[None]:
    """`jax.enable_x64`, which older versions have elsewhere."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", enabled)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    """For every test of a file that imports it."""
    with float64(True):
        yield


def equal(a: object, b: object) -> bool:
    """Two trees of arrays have the same shapes, dtypes and bits; NaN equals NaN."""
    pairs = list(zip(map(np.asarray, jax.tree.leaves(a)), map(np.asarray, jax.tree.leaves(b)), strict=True))
    return all(p.shape == q.shape and p.dtype == q.dtype and np.array_equal(p, q, equal_nan=True) for p, q in pairs)
