"""The critical-edge hybrid: a polynomial, and parameters of their own for the edges that hold the graph together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from ..graph import Graph, as_graph, selection
from .hybrid import PolynomialAndEdges


class CriticalEdge(PolynomialAndEdges):
    r"""Polynomial filter bank with extra parameters on critical edges, after a sentence of section III-A of the paper:

    "a recursion that in addition to (polFilt, 10) considers parameters also for the most critical edges (e.g., edges
    without which the graph becomes disconnected)". The paper gives no formula; here it is

    .. math:: H_{fg}(S) = \sum_{k=0}^{K} \phi_k S^k + \sum_{k=1}^{K} E^{(k)} \cdots E^{(1)},

    where every :math:`E^{(k)}` has parameters on the critical edges and on the diagonal entries of their end nodes. The
    second sum is the edge-variant filter of the subgraph of critical edges, self-weights and all. Without the diagonal
    a product of two steps would be zero unless two critical edges meet head to tail: on a directed graph most
    parameters with k >= 2 would be dead. With it a signal can wait before an edge, or stay behind it, and every
    parameter is alive.

    Limits: without critical edges it is the polynomial filter, with all edges (and nodes) the full edge-variant filter
    plus the polynomial.

    Adjoint and tangent: those of :class:`EdgeVariant` on the entries chosen and of the polynomial, added.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["phi"] : (K, out_features, in_features, n), n entries in CSR order (`positions` on the support of I + S)
    params["poly"] : (K + 1, out_features, in_features)
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
    order : int
        K, of both parts.
    in_features, out_features : int
        G and F.
    edges : array_like of int, optional
        Positions on the support of I + S, shape (n,), or (source, target) pairs, shape (n, 2); a pair (i, i) is the
        node's own entry. By default the bridges, :func:`evref.graph.selection.bridges`.
    bias : bool

    Raises
    ------
    ValueError
        `edges` names an edge twice, or one that the graph does not have.

    Examples
    --------
    In two triangles joined by one edge, the joint gets 4 parameters per step: two directions, two end nodes.

    >>> import evref as ev
    >>> graph = ev.Graph.from_edges(6, [0, 1, 2, 2, 3, 4, 5], [1, 2, 0, 3, 4, 5, 3], undirected=True)
    >>> filt = ev.CriticalEdge(graph, order=2)
    >>> ev.selection.edge_list(graph, filt.positions).tolist()
    [[2, 2], [3, 2], [2, 3], [3, 3]]
    >>> filt.n_parameters  # 2 * 4 + 3
    11
    """

    name = "critical_edge"
    axes: ClassVar[dict[str, str]] = {"phi": "kfge", "poly": "kfg"}

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        edges: Any = None,
        bias: bool = False,
    ) -> None:
        as_graph(graph)
        self.edges = selection.bridges(graph) if edges is None else selection.as_positions("edges", edges, graph)
        ends = selection.edge_list(graph, self.edges)
        positions = np.union1d(self.edges, graph.diagonal[ends.ravel()])
        super().__init__(graph, order, in_features, out_features, bias, positions, None, chained=False)

    @property
    def positions(self) -> np.ndarray:
        """The entries chosen, as positions on the support of I + S: the edges and their end nodes."""
        return self._positions

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """The bridges, and every node's own entry, so that a graph without bridges has parameters too; no edges."""
        edges = np.union1d(selection.bridges(graph), graph.diagonal)
        yield cls(graph, order=2, in_features=2, out_features=3, edges=edges, bias=True)
        yield cls(graph, order=2, in_features=2, out_features=1, edges=np.arange(graph.nnz))
        yield cls(graph, order=2, in_features=2, out_features=3, edges=edges[:0])
