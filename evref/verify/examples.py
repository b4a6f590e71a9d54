"""What the gradient checks run on by default: small graphs, and every configuration of a class with a name for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import checks
from ..contract import Module
from ..graph import Graph

KINDS = ("undirected", "directed")
SIZES = ("bias", "in_features", "out_features")


def probe_graph(n_nodes: int = 6, kind: str = "undirected", rng: Any = 0) -> Graph:
    """A small connected graph on which faults show: no two weights alike, one self-loop.

    Weights of 1 would hide S_ij squared, and a symmetric S hides S in the place of its transpose. The directed one is
    a ring with weaker chords, which keeps its eigenvectors well conditioned: spectral filters run on it as it is.
    """
    checks.require_room("S", n_nodes, n_nodes)
    rng = np.random.default_rng(rng)
    S = rng.uniform(0.1, 0.5, (n_nodes, n_nodes)) * (rng.random((n_nodes, n_nodes)) < 0.4)
    S += np.roll(np.diag(rng.uniform(0.8, 1.2, n_nodes)), 1, axis=0)
    np.fill_diagonal(S, 0)
    if kind == "undirected":
        S = S + S.T
    S[0, 0] = 0.7
    return Graph(S)


def named_examples(cls: Any, graph: Graph, rng: Any = 0) -> dict[str, Any]:
    """The examples of a class by what sets them apart: "" where there is one alone.

    >>> from evref import EdgeVariant
    >>> list(named_examples(EdgeVariant, probe_graph()))[:2]
    ['order=3, zeroth=diagonal, self_loops=True', 'order=2, zeroth=none, self_loops=True']
    """
    modules = list(cls.examples(graph, np.random.default_rng(rng)))
    if not modules:
        raise ValueError(f"{cls.__name__}.examples gave nothing; expected at least one small instance")
    named: dict[str, Any] = {}
    for label, module in zip(_labels(modules), modules, strict=True):
        named[label if label not in named else f"{label} #{len(named) + 1}"] = module
    return named


def _labels(modules: Sequence[Any]) -> list[str]:
    """The constructor's arguments in which the modules differ; a number each where they do not say any."""
    if len(modules) == 1:
        return [""]
    if not all(isinstance(module, Module) for module in modules):
        return [f"example {i}" for i in range(1, len(modules) + 1)]
    configs = [{key: _shown(value) for key, value in module.config().items()} for module in modules]
    varied = [key for key in configs[0] if len({config[key] for config in configs}) > 1]
    for left_out in (SIZES, ()):  # sizes are named only where nothing else tells the examples apart
        keys = [key for key in varied if key not in left_out]
        labels = [", ".join(f"{key}={config[key]}" for key in keys) for config in configs]
        if len(set(labels)) == len(labels):
            break
    return labels


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<{len(value)}>"
    if isinstance(value, Module):
        inside = value.config().get("layers")
        return value.name if inside is None else f"({_shown(inside)})"
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Module):
        return "+".join(map(_shown, value))
    return str(value)
