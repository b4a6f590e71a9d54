"""What the broken layers share: their record, the graphs and filters they stand beside, and small changes of a layer.

The graphs are such that wrong readings differ: weights neither 0 nor 1, no two alike, different degrees; the directed
one has a self-loop and no symmetry, the undirected one is what normalisations ask for. Node numbers are random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from right_layers import Layer, chebyshev_states, powers, right

import evref as ev

Tensor = torch.Tensor
Array = np.ndarray
Reference = Callable[[Any], Any]
RING = [(i, (i + 1) % 6) for i in range(6)]
CHORDS = [(0, 2), (3, 1), (5, 2), (4, 0)]
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 2), (1, 3), (1, 5)]


@dataclass(frozen=True)
class Broken:
    """A layer with a known mistake.

    mistake     its name in the list of known mistakes
    filter      name in the catalogue, or "network"
    variant     what exactly is wrong
    reference   rng -> the filter that is right, in a configuration and on a graph where the mistake shows
    build       reference -> the broken layer(params, x)
    framework   "torch" or "jax"
    parameters  where the layer's parameters are not the reference's: {"Phi": ("phi", "dense")} is a dense tensor
                (K, F, G, N, N) in the place of phi
    """

    mistake: str
    filter: str
    variant: str
    reference: Reference
    build: Callable[[Any], Layer]
    framework: str = "torch"
    parameters: Mapping[str, tuple[str, str]] | None = None

    @property
    def label(self) -> str:
        return f"{self.mistake} | {self.filter} | {self.variant}" + ("" if self.framework == "torch" else " (jax)")


class Registry(list[Broken]):
    def add(self, mistake: str, filt: str, variant: str, reference: Reference, build: Any, **options: Any) -> None:
        self.append(Broken(mistake, filt, variant, reference, build, **options))


# ---- graphs and filters ----------------------------------------------------------------------------------------------
def weighted(rng: Any, edges: Sequence[tuple[int, int]], undirected: bool, loop: bool) -> ev.Graph:
    rng = np.random.default_rng(rng)
    order = rng.permutation(6)
    W = np.zeros((6, 6))
    for source, target in edges:
        W[order[target], order[source]] = rng.uniform(0.3, 1.5)
        if undirected:
            W[order[source], order[target]] = W[order[target], order[source]]
    if loop:
        W[order[1], order[1]] = rng.uniform(0.3, 0.9)
    return ev.Graph(W)


GRAPHS: dict[str, Callable[[Any], ev.Graph]] = {
    "directed": lambda rng: weighted(rng, RING + CHORDS, False, True),
    "directed, no loops": lambda rng: weighted(rng, RING + CHORDS, False, False),
    "undirected": lambda rng: weighted(rng, EDGES, True, False),
    "undirected, one loop": lambda rng: weighted(rng, EDGES, True, True),
}


def on(name: str, graph: str = "directed", shift: str | None = None, **config: Any) -> Reference:
    """rng -> the filter on a random graph of that kind; values that are functions are given the graph."""

    def reference(rng: Any) -> Any:
        rng = np.random.default_rng(rng)
        weights = GRAPHS[graph](rng)
        own = weights.with_shift(shift) if shift else weights
        given = {key: value(own) if callable(value) else value for key, value in config.items()}
        filt = ev.catalogue[name](own, **given)
        filt.__dict__["raw"] = weights  # before the normalisation: a broken layer normalises them otherwise
        return filt

    return reference


def raw(reference: Any) -> Array:
    """The weights from which the reference's S was made by a normalisation."""
    return reference.__dict__["raw"].S.toarray()


SIZES: dict[str, Any] = {"in_features": 2, "out_features": 3}
SQUARE: dict[str, Any] = {"in_features": 2, "out_features": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "polynomial": {"order": 3},
    "tagcn": {"order": 2},
    "chebyshev": {"order": 3},
    "gcn": {},
    "dcnn": {"order": 3},
    "selection_gcnn": {
        "order": 3,
        "nodes_in": [0, 1, 2, 3, 5],
        "nodes_out": [0, 2, 3, 5],
    },
    "node_variant": {"order": 3, "nodes": [4, 1, 2]},
    "edge_variant": {"order": 3},
    "parallel_edge_variant": {"order": 2, "terms": 3},
    "hybrid_edge_variant": {"order": 2, "nodes": [4, 1, 2]},
    "critical_edge": {"order": 2, "edges": lambda graph: np.arange(0, graph.nnz, 2)},
    "arma": {"iterations": 3, "stacks": 2},
    "cayley": {"order": 2},
    "ecc": {"hidden": (4,)},
    "monet": {"kernels": 3},
    "attention": {},
    "spectral": {"n_basis": 5},
    "shift_invariant_edge_variant": {"order": 2},
}


def typical(name: str, graph: str = "directed", shift: str | None = None, **config: Any) -> Reference:
    """A filter of two inputs and three outputs, in the configuration of `CONFIGS` but for what is given."""
    sizes = {"in_features": 2} if name == "dcnn" else SIZES
    return on(name, graph, shift, **{**sizes, **CONFIGS[name], **config})


# ---- changes of a layer ----------------------------------------------------------------------------------------------
def made(**ingredients: Any) -> Callable[[Any], Layer]:
    """The right layer with some ingredients replaced."""
    return lambda reference: right(reference, **ingredients)


def with_S(change: Callable[[Any], Array]) -> Callable[[Any], Layer]:
    """The right layer on another S, made by change(reference)."""
    return lambda reference: right(reference, S=change(reference))


def with_params(**changes: Callable[[Tensor], Tensor]) -> Callable[[Any], Layer]:
    """The right layer on changed parameters."""

    def build(reference: Any) -> Layer:
        layer = right(reference)

        def changed(params: Mapping[str, Tensor], x: Tensor) -> Tensor:
            return layer({name: changes.get(name, lambda p: p)(p) for name, p in params.items()}, x)

        return changed

    return build


def after(change: Callable[..., Tensor]) -> Callable[[Any], Layer]:
    """change(y, reference) of the right layer's output."""

    def build(reference: Any) -> Layer:
        layer = right(reference)
        return lambda params, x: change(layer(params, x), reference)

    return build


def base_states(name: str) -> Callable[..., list[Tensor]]:
    return chebyshev_states if name == "chebyshev" else powers


def gradient_times(value: Tensor, factor: float) -> Tensor:
    """The same number, its gradient times a factor."""
    return value * factor + (value - value * factor).detach()
