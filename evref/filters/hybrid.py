"""Hybrid filters: a polynomial for all nodes and, beside it, an edge-variant recursion on chosen entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from scipy import sparse

from .. import checks
from ..contract import Parameters
from ..graph import Graph, as_graph, selection
from .base import Filter
from .edge_variant import EdgeVariant, Zeroth
from .newton import newton_embedding
from .parallel import ParallelEdgeVariant
from .polynomial import Polynomial

Reading = Literal["text", "equation", "authors_code"]


class PolynomialAndEdges(Filter):
    r"""Base of the hybrids: H = polynomial + recursion on chosen entries of I + S [+ a diagonal].

    The polynomial is a node-variant filter with one privileged node, and the recursion an `EdgeVariant` on the smaller
    graph that has only the chosen entries: both with the adjoints and tangents that are written there. What is written
    here is the sum, and the way between the parameters (chosen entries only) and the smaller support (which has every
    diagonal entry).
    """

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int,
        out_features: int,
        bias: bool,
        positions: np.ndarray,
        nodes: np.ndarray | None,
        chained: bool,
    ) -> None:
        """`positions`: the entries chosen, rising. `nodes`: where there is a phi0; `chained`: it starts the product."""
        super().__init__(graph, in_features, out_features, bias)
        self.order = checks.as_count("order", order)
        self._positions, self._diagonal_nodes, self._chained = positions, nodes, chained
        self._polynomial = Polynomial(graph, self.order, self.in_features, self.out_features)
        self._part: EdgeVariant | None = None
        if positions.size and (self.order or chained):
            columns, rows = selection.edge_list(graph, positions).T
            N = graph.n_nodes
            chosen = Graph(sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(N, N)))
            zeroth: Zeroth = "diagonal" if chained else "none"
            self._part = EdgeVariant(chosen, self.order, self.in_features, self.out_features, zeroth=zeroth)
            sources, targets = selection.edge_list(chosen, np.arange(chosen.nnz)).T
            self._places = np.searchsorted(targets * N + sources, rows * N + columns)

    @property
    def reach(self) -> int:
        return self.order

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        K, F, G = self.order, self.out_features, self.in_features
        shapes: dict[str, tuple[int, ...]] = {"phi": (K, F, G, self._positions.size), "poly": (K + 1, F, G)}
        if self._diagonal_nodes is not None:
            shapes["phi0"] = (F, G, self._diagonal_nodes.size)
        return shapes

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(G (K + 1) N) for both parts, the authors' choice."""
        return (self.in_features * (self.order + 1) * self.graph.n_nodes) ** -0.5

    def _diagonal(self, params: Parameters) -> np.ndarray:
        """phi0 with zeros outside B, (F, G, N)."""
        full = np.zeros((self.out_features, self.in_features, self.graph.n_nodes), params["phi0"].dtype)
        full[..., self._diagonal_nodes] = params["phi0"]
        return full

    def _on_the_part(self, params: Parameters, part: EdgeVariant) -> Parameters:
        phi = np.zeros((*params["phi"].shape[:-1], part.graph.nnz), params["phi"].dtype)
        phi[..., self._places] = params["phi"]
        return {"phi": phi, "phi0": self._diagonal(params)} if self._chained else {"phi": phi}

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        y, states = self._polynomial._apply({"phi": params["poly"]}, x)
        saved = own_x = None
        if self._part is not None:
            part_y, saved = self._part._apply(self._on_the_part(params, self._part), x)
            y += part_y
        if self._diagonal_nodes is not None and not self._chained:
            y += np.einsum("fgn,bgn->bfn", self._diagonal(params), x)
            own_x = x.copy()
        return y, (states, saved, own_x)

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        states, part_saved, x = saved
        poly_grads, grad_x = self._polynomial._apply_backward({"phi": params["poly"]}, states, grad_y)
        grads = {"poly": poly_grads["phi"], "phi": np.zeros_like(params["phi"])}
        if self._diagonal_nodes is not None:
            grads["phi0"] = np.zeros_like(params["phi0"])
        if self._part is not None:
            part_grads, part_grad_x = self._part._apply_backward(
                self._on_the_part(params, self._part), part_saved, grad_y
            )
            grads["phi"] = part_grads["phi"][..., self._places]
            grad_x += part_grad_x
            if self._chained:
                grads["phi0"] = part_grads["phi0"][..., self._diagonal_nodes]
        if self._diagonal_nodes is not None and not self._chained:
            grads["phi0"] = np.einsum("bfn,bgn->fgn", grad_y, x)[..., self._diagonal_nodes]
            grad_x += np.einsum("fgn,bfn->bgn", self._diagonal(params), grad_y)
        return grads, grad_x

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        poly, dpoly = ({"phi": p["poly"]} for p in (params, dparams))
        dy = self._polynomial._apply_jvp(poly, x, dpoly, dx)
        if self._part is not None:
            part, dpart = (self._on_the_part(p, self._part) for p in (params, dparams))
            dy += self._part._apply_jvp(part, x, dpart, dx)
        if self._diagonal_nodes is not None and not self._chained:
            dy += np.einsum("fgn,bgn->bfn", self._diagonal(dparams), x)
            dy += np.einsum("fgn,bgn->bfn", self._diagonal(params), dx)
        return dy

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """The equation with dense matrices: the products, the diagonal where it is, the polynomial."""
        params = self._checked_parameters(params)
        N = self.graph.n_nodes
        S = self.graph.dense_shift(self.in_features * self.out_features).astype(np.float64)
        columns, rows = selection.edge_list(self.graph, self._positions).T
        dtype = np.result_type(np.float64, *params.values())
        H = np.zeros((self.out_features, self.in_features, N, N), dtype)
        for f in range(self.out_features):
            for g in range(self.in_features):
                product = np.eye(N, dtype=dtype)
                if self._diagonal_nodes is not None:
                    diagonal = np.zeros((N, N), dtype)
                    diagonal[self._diagonal_nodes, self._diagonal_nodes] = params["phi0"][f, g]
                    H[f, g] += diagonal
                    product = diagonal if self._chained else product
                for k in range(self.order):
                    Phi = np.zeros((N, N), dtype)
                    Phi[rows, columns] = params["phi"][k, f, g]
                    product = Phi @ product
                    H[f, g] += product
                for k in range(self.order + 1):
                    H[f, g] += params["poly"][k, f, g] * np.linalg.matrix_power(S, k)
        return H.astype(np.result_type(*params.values()), copy=False)

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant | ParallelEdgeVariant, Parameters]:
        """A sum of recursions: the edges, the diagonal if it is not part of their product, and the polynomial.

        A recursion that starts from Phi^(0) = I brings a term I of its own; the polynomial gives it back. Without
        chosen entries the polynomial alone is left.
        """
        params = self._checked_parameters(params)
        K, F, G, graph = self.order, self.out_features, self.in_features, self.graph
        dtype = np.result_type(*params.values())
        poly = params["poly"].astype(dtype)  # a copy
        zero = np.zeros((K, F, G, graph.nnz), dtype)
        terms = []  # phi, phi0 of each recursion
        if self._part is not None:
            phi = zero.copy()
            phi[..., self._positions] = params["phi"]
            start = self._diagonal(params) if self._chained else np.ones((F, G, graph.n_nodes), dtype)
            terms.append((phi, start))
            if not self._chained:
                poly[0] -= 1
        if self._diagonal_nodes is not None and self._diagonal_nodes.size and not self._chained:
            terms.append((zero, self._diagonal(params)))
        newton, newton_params = newton_embedding(graph, poly, bias=params.get("bias"))
        if not terms:
            return newton, newton_params
        terms.append((newton_params["phi"], newton_params["phi0"]))
        filt = ParallelEdgeVariant(graph, K, G, F, terms=len(terms), zeroth="diagonal", bias=self.bias)
        joined = {
            "phi": np.concatenate([phi for phi, _ in terms], axis=2).astype(dtype, copy=False),
            "phi0": np.concatenate([phi0 for _, phi0 in terms], axis=1).astype(dtype, copy=False),
        }
        return filt, joined | ({"bias": params["bias"]} if self.bias else {})

    def live_parameters(self) -> dict[str, np.ndarray]:
        """Which parameters can change the output at all, by name; the same for every pair of features.

        An entry (i, j) of Phi^(k) is dead if the state w_j^(k-1) that it multiplies is zero whatever the parameters,
        and poly_k if S has no walk of k steps. Shapes: "phi" (K, n), "poly" (K + 1,), "phi0" (|B|,) where there is one.
        """
        graph = self.graph
        columns, rows = selection.edge_list(graph, self._positions).T
        holds = np.ones(graph.n_nodes, bool)  # nodes whose state can differ from zero
        if self._chained:
            holds[:] = False
            holds[self._diagonal_nodes] = True
        live = {"phi": np.zeros((self.order, rows.size), bool), "poly": np.zeros(self.order + 1, bool)}
        walk = np.ones(graph.n_nodes)  # nodes where a walk of k steps along edges of S ends
        for k in range(self.order + 1):
            live["poly"][k] = walk.any()
            walk = (abs(graph.S) @ walk > 0).astype(float)
        for k in range(self.order):
            live["phi"][k] = holds[columns]
            holds = np.zeros_like(holds)
            holds[rows[live["phi"][k]]] = True
        if self._diagonal_nodes is not None:
            live["phi0"] = np.ones(self._diagonal_nodes.size, bool)
        return live

    def n_operations(self, batch: int = 1) -> int:
        """The polynomial's, the recursion's on its smaller support, and F G N for a diagonal of its own."""
        batch = checks.as_count("batch", batch)
        count = self._polynomial.n_operations(batch)
        if self._part is not None:
            count += self._part.n_operations(batch)
        if self._diagonal_nodes is not None and not self._chained:
            count += batch * self.out_features * self.in_features * self.graph.n_nodes
        return count


class HybridEdgeVariant(PolynomialAndEdges):
    r"""Hybrid edge-variant filter bank, eq. (HEV, 18): privileged nodes weigh their edges, all share a polynomial.

    .. math::

        \text{equation, authors\_code:}\quad
        H_{fg} &= \sum_{k=0}^{K} \Big( \Phi_\mathcal{B}^{(k)} \cdots \Phi_\mathcal{B}^{(1)} \Phi_\mathcal{B}^{(0)}
        + \phi_k S^k \Big), \\
        \text{text:}\quad H_{fg} &= \Phi_\mathcal{B}^{(0)}
        + \sum_{k=1}^{K} \Phi_\mathcal{B}^{(k)} \cdots \Phi_\mathcal{B}^{(1)} + \sum_{k=0}^{K} \phi_k S^k,

    with a diagonal :math:`\Phi_\mathcal{B}^{(0)}` that is zero outside the privileged set B, and
    :math:`\Phi_\mathcal{B}^{(k)}`, k >= 1, on the entries of I + S whose row is in B. `reading` says where the
    product starts and which entries there are (readings R11):

    ==============  ==========================  =================  =============================================
    reading         entries of Phi^(k), k >= 1  product starts at  dead entries of Phi^(k)
    ==============  ==========================  =================  =============================================
    "text"          row in B                    k = 1              columns outside B, for k >= 2
    "equation"      row in B                    k = 0              columns outside B, for k >= 1
    "authors_code"  row or column in B          k = 0              columns outside B for k = 1; for k >= 2 those
                                                                   that hear nobody in B
    ==============  ==========================  =================  =============================================

    "text" is what the text around the equation says: the nodes of B hear all their neighbours, once; after the first
    step the state is zero outside B, because rows outside B are. "equation" is eq. (HEV, 18) as printed: there
    Phi_B^(0) erases what the nodes outside B hold before anyone hears it. "authors_code" is what the authors'
    published program computes. :meth:`live_parameters` counts.

    Limits: B empty is the polynomial filter; B all nodes is the full edge-variant filter plus the polynomial.

    Adjoint and tangent: those of :class:`EdgeVariant` on the entries chosen and of the polynomial, added; for the
    diagonal of "text" :math:`\partial L / \partial \phi^{(0)}_i = \sum_{\text{batch}} \bar y_{f,i} x_{g,i}`.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["phi"] : (K, out_features, in_features, n), the entries chosen, in CSR order (see `positions`)
    params["phi0"] : (out_features, in_features, len(nodes)), in the order of `nodes`
    params["poly"] : (K + 1, out_features, in_features)
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
    order : int
        K, of both parts.
    in_features, out_features : int
        G and F.
    nodes : array_like of int, optional
        B, the privileged nodes; all nodes by default, none (an empty list) is allowed.
    reading : {"text", "equation", "authors_code"}
    bias : bool

    Raises
    ------
    ValueError
        `nodes` names a node twice or one that is not there; `reading` is unknown.

    Examples
    --------
    Node 1 of the path 0 -> 1 -> 2 is privileged; by the text it hears node 0, by the equation it cannot:

    >>> import numpy as np, evref as ev
    >>> graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    >>> x = np.array([1.0, 10.0, 100.0])
    >>> phi = np.array([5.0, 0.0]).reshape(1, 1, 1, 2)  # entries (1, 0) and (1, 1)
    >>> params = {"phi": phi, "phi0": np.ones((1, 1, 1)), "poly": np.zeros((2, 1, 1))}
    >>> for reading in ("text", "equation"):
    ...     filt = ev.HybridEdgeVariant(graph, order=1, nodes=[1], reading=reading)
    ...     filt.forward(params, x)[0]
    array([ 0., 15.,  0.])
    array([ 0., 10.,  0.])
    """

    name = "hybrid_edge_variant"
    axes: ClassVar[dict[str, str]] = {"phi": "kfge", "phi0": "fgb", "poly": "kfg"}

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        nodes: Any = None,
        reading: Reading = "text",
        bias: bool = False,
    ) -> None:
        as_graph(graph)
        self.reading = checks.as_choice("reading", reading, Reading)
        self.nodes = selection.as_privileged("nodes", nodes, graph.n_nodes)
        privileged = np.zeros(graph.n_nodes, bool)
        privileged[self.nodes] = True
        columns, rows = selection.edge_list(graph, np.arange(graph.nnz)).T
        chosen = privileged[rows] | (privileged[columns] if self.reading == "authors_code" else False)
        positions = np.flatnonzero(chosen)
        chained = self.reading != "text"
        super().__init__(graph, order, in_features, out_features, bias, positions, self.nodes, chained)

    @property
    def positions(self) -> np.ndarray:
        """The entries chosen, as positions on the support of I + S."""
        return self._positions

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Every reading, with few privileged nodes, not in rising order; none, which leaves the polynomial; no step."""
        nodes = np.arange(graph.n_nodes)
        own = nodes
        if nodes.size >= 7:  # the node with the fewest neighbours, the last of those, is left to the polynomial
            own = np.delete(nodes[::-1], np.argmin(np.diff(graph.indptr)[::-1]))
        yield cls(graph, order=2, in_features=2, out_features=3, nodes=own, bias=True)
        for reading in get_args(Reading):
            yield cls(graph, order=2, in_features=1, out_features=2, nodes=nodes[::2][::-1], reading=reading)
        yield cls(graph, order=2, in_features=1, out_features=2, nodes=nodes[:0])
        for reading in get_args(Reading):
            yield cls(graph, order=0, in_features=2, out_features=1, nodes=own, reading=reading)
