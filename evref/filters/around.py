"""Sparse inputs: an edge-variant filter where a signal that is zero at most nodes can get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract import Parameters
from ..graph import Graph
from ..graph.convert import as_nodes
from ..graph.support import spans

if TYPE_CHECKING:
    from .edge_variant import EdgeVariant


class Around:
    """The part of a filter that signals from a few nodes pass through; made by :meth:`EdgeVariant.around`.

    Let x vanish outside the sources, and let `nodes` be what they reach in K steps. Then w^(k) vanishes elsewhere, and
    with it y (up to the bias) and the gradient of every entry of Phi that does not lie within them. What is left is the
    filter of the same kind on the graph induced by `nodes`:

        y[..., nodes], grads[..., entries]   are those of `filter`, with `take(params)` and `x[..., nodes]`
        grad_x                               is that of `filter` at the sources; at the other `nodes` the rest of the
                                             graph would add to it, since what lies there may pass on to outside

    A bias is the one thing that the other nodes still see: there y is the bias alone, and what grad_y holds there is
    to be added to its gradient.

    Attributes
    ----------
    filter : EdgeVariant
        On the graph induced by `nodes`.
    nodes : ndarray of int64
        Rising.
    sources : ndarray of int64
        The sources' places in `nodes`.
    entries : ndarray of int64
        Places in the whole graph's CSR order of the entries of the induced graph.
    """

    def __init__(self, whole: EdgeVariant, sources: Any) -> None:
        graph, pattern = whole.graph, whole.pattern
        start = np.unique(as_nodes("sources", sources, graph.n_nodes))
        if start.size == 0:
            raise ValueError("sources is empty; expected at least one node")
        self.whole = whole
        self.nodes = reached(graph, start, whole.order)
        self.sources = np.searchsorted(self.nodes, start)
        entries = spans(pattern.indptr[self.nodes], pattern.indptr[self.nodes + 1])
        self.entries = entries[np.isin(pattern.indices[entries], self.nodes)]
        self.filter = type(whole)(graph._on(self.nodes), **whole.config())

    def __repr__(self) -> str:
        return f"Around({len(self.sources)} sources, {len(self.nodes)} of {self.whole.graph.n_nodes} nodes)"

    def _places(self, name: str) -> Any:
        """Where a parameter's part lies on its last axis."""
        return {"phi": self.entries, "phi0": self.nodes, "bias": slice(None)}[name]

    def take(self, params: Mapping[str, Any]) -> Parameters:
        """The parameters of `filter` out of those of the whole; copies, except for the bias."""
        checked = self.whole._checked_parameters(params, check_finite=False)
        return {name: array[..., self._places(name)] for name, array in checked.items()}

    def put(self, grads: Mapping[str, Any]) -> Parameters:
        """Gradients of the whole from those of `filter`: zero where nothing passes."""
        checked = self.filter._checked_parameters(grads, "grads", check_finite=False)
        result = {}
        for name, array in checked.items():
            result[name] = np.zeros(self.whole.parameter_shapes()[name], array.dtype)
            result[name][..., self._places(name)] = array
        return result


def reached(graph: Graph, start: np.ndarray, steps: int) -> np.ndarray:
    """Nodes that `start` reaches in at most `steps` steps along the edges, rising."""
    inside = np.zeros(graph.n_nodes, bool)
    inside[start] = True
    edge = start
    for _ in range(steps):
        heard = graph.row_indices[spans(graph.column_indptr[edge], graph.column_indptr[edge + 1])]
        edge = np.unique(heard[~inside[heard]])
        if edge.size == 0:
            break
        inside[edge] = True
    return np.flatnonzero(inside)
