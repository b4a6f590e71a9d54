"""Graphs and signals for the tests: small, odd-shaped on purpose, reproducible from a seed."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from hypothesis import strategies as st

import evref as ev
from evref.kernels import layout


def random_graph(seed: int, n_nodes: int = 7, directed: bool = True, density: float = 0.35) -> ev.Graph:
    """Weights of both signs, a self-loop on node 0, and (for four nodes or more) one node without any edge."""
    rng = np.random.default_rng(seed)
    S = rng.uniform(0.5, 1.5, (n_nodes, n_nodes)) * rng.choice([-1, 1], (n_nodes, n_nodes))
    S *= rng.random((n_nodes, n_nodes)) < density
    if not directed:
        S = np.triu(S) + np.triu(S, 1).T
    S[0, 0] = 1.0
    if n_nodes >= 4:
        S[n_nodes - 1] = S[:, n_nodes - 1] = 0
    return ev.Graph(S)


GRAPHS = {
    "undirected": random_graph(1, directed=False),
    "directed": random_graph(2, directed=True),
    "one node": random_graph(3, n_nodes=1),
    "no edges": ev.Graph(np.zeros((4, 4))),
}


@st.composite
def graphs(draw: st.DrawFn) -> ev.Graph:
    return random_graph(
        seed=draw(st.integers(0, 2**20)),
        n_nodes=draw(st.integers(1, 8)),
        directed=draw(st.booleans()),
        density=draw(st.sampled_from([0.0, 0.2, 0.5, 1.0])),
    )


def edited(module: ModuleType, *pieces: str) -> ModuleType:
    """The module with pieces of its source replaced (old, new, old, new, ...), beside the real one; an error if one is
    not there."""
    with open(module.__file__, encoding="utf-8") as file:
        source = file.read()
    for old, new in zip(pieces[::2], pieces[1::2], strict=True):
        assert source.count(old) >= 1, f"{old!r} is no longer in {module.__name__}"
        source = source.replace(old, new)
    copy = ModuleType(module.__name__)
    copy.__package__, copy.__file__ = module.__package__, module.__file__
    exec(compile(source, module.__file__, "exec"), copy.__dict__)
    return copy


def poison_memory(monkeypatch) -> None:
    """Memory that kernels ask for holds NaN, not the numbers of an earlier run that a fault may forget to write."""
    fresh = layout._fresh

    def poisoned(n_bytes: int) -> layout.Block:
        block = fresh(n_bytes)
        block.memory.fill(0xFF)
        return block

    layout.release()
    monkeypatch.setattr(layout, "_fresh", poisoned)


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers, "read-only", "strided" or "fortran" (read-only too)."""
    if layout == "strided":
        return np.repeat(array, 2, axis=-1)[..., ::2]
    array = np.asfortranarray(array) if layout == "fortran" else array.copy()
    array.setflags(write=False)
    return array


def normal(seed: int, *shape: int, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tangent_like(params: dict[str, np.ndarray], seed: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(value.shape).astype(value.dtype) for name, value in params.items()}


def first_example(cls, graph: ev.Graph, rng=0) -> ev.Module:
    """The first of a class's configurations, for what does not depend on which."""
    return next(iter(cls.examples(graph, rng)))


def random_params(module: ev.Module, seed: int = 0, dtype: type = np.float64) -> dict[str, np.ndarray]:
    """Parameters of size one instead of the small ones training starts from: nothing hides in rounding."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-1, 1, shape).astype(dtype) for name, shape in module.parameter_shapes().items()}


def close(actual: np.ndarray, expected: np.ndarray, rtol: float = 1e-12, floor: float = 1e-300) -> None:
    """Equal relative to the largest entry, or to `floor` if that is larger; shapes must agree."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    scale = max(float(np.abs(expected).max(initial=0)), floor)
    error = float(np.abs(actual - expected).max(initial=0)) / scale
    assert error <= rtol, f"relative error {error:.2e} > {rtol:.0e}"
