"""Polynomial filtering on a shrinking set of nodes: the selection GCNN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from ..contract import NotRepresentable, Parameters
from ..graph import Graph, convert
from .edge_variant import EdgeVariant
from .newton import newton_embedding
from .parallel import ParallelEdgeVariant
from .polynomial import Polynomial


class SelectionGCNN(Polynomial):
    r"""Selection GCNN layer (Gama, Marques, Leus & Ribeiro 2018): a polynomial between two selections of nodes,

    .. math::

        y_f = \sum_g \Pi_\text{out}\, p_{fg}(S)\, \Pi_\text{in}\, x_g, \qquad
        p_{fg}(S) = \sum_{k=0}^{K} \phi_{k,fg} S^k,

    with :math:`\Pi` the diagonal 0/1 matrix of the selected nodes. A layer of the original holds values on the nodes
    of the first selection only; it pads them with zeros to all N, filters on the whole graph, so that S keeps its
    meaning, and keeps the values of the second selection. Here signals keep all N
    places, with zeros on the nodes that are not selected: the same numbers, and layers of one shape. A bias is added on
    every node; the next layer's Pi_in drops it where there should be none.

    Adjoint: that of :class:`Polynomial` between the same masks in the other order, since Pi is its own transpose;
    :math:`\bar y` becomes :math:`\Pi_\text{out} \bar y` before, and :math:`\partial L / \partial x` is masked by Pi_in
    after. Tangent: the same masks. The parameters know nothing of node numbers: renumber the graph *and* the
    selections, and the filter is renumbered.

    Edge-variant: see :meth:`to_edge_variant`.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["phi"] : (K + 1, out_features, in_features)
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph, order, in_features, out_features, bias
        As for :class:`Polynomial`.
    nodes_in : array_like of int, optional
        Nodes on which the input lives; all of them by default.
    nodes_out : array_like of int, optional
        Nodes on which the output is kept, among `nodes_in`; all of `nodes_in` by default.

    Raises
    ------
    ValueError
        A selection is empty, has a node twice or out of range, or nodes_out is not part of nodes_in.

    Examples
    --------
    >>> import numpy as np, evref as ev
    >>> filt = ev.SelectionGCNN(ev.generators.path(4), order=1, nodes_in=[0, 1, 2], nodes_out=[1])
    >>> filt.forward({"phi": np.ones((2, 1, 1))}, np.array([1.0, 2.0, 4.0, 8.0]))[0]
    array([0., 7., 0., 0.])
    """

    name = "selection_gcnn"

    _plain_to_see = None  # what is not selected is masked

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        nodes_in: Any = None,
        nodes_out: Any = None,
        bias: bool = False,
    ) -> None:
        super().__init__(graph, order, in_features, out_features, bias=bias)
        everything = np.arange(graph.n_nodes)
        self.nodes_in = _as_selection("nodes_in", everything if nodes_in is None else nodes_in, graph.n_nodes)
        self.nodes_out = _as_selection("nodes_out", self.nodes_in if nodes_out is None else nodes_out, graph.n_nodes)
        stray = np.setdiff1d(self.nodes_out, self.nodes_in)
        if stray.size:
            raise ValueError(f"nodes_out holds node {stray[0]}, which is not in nodes_in; expected a part of nodes_in")

    def _mask(self, nodes: np.ndarray, dtype: np.dtype) -> np.ndarray:
        mask = np.zeros(self.graph.n_nodes, dtype)
        mask[nodes] = 1
        return mask

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        y, states = super()._apply(params, x * self._mask(self.nodes_in, x.dtype))
        return y * self._mask(self.nodes_out, x.dtype), states

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        grads, grad_x = super()._apply_backward(params, saved, grad_y * self._mask(self.nodes_out, grad_y.dtype))
        return grads, grad_x * self._mask(self.nodes_in, grad_x.dtype)

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        mask = self._mask(self.nodes_in, x.dtype)
        return super()._apply_jvp(params, x * mask, dparams, dx * mask) * self._mask(self.nodes_out, x.dtype)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """Pi_out p_fg(S) Pi_in, shape (F, G, N, N)."""
        H = super().matrix(params)
        rows, columns = (np.isin(np.arange(self.graph.n_nodes), nodes) for nodes in (self.nodes_out, self.nodes_in))
        return np.where(rows[:, None] & columns, H, 0)

    def to_edge_variant(  # type: ignore[override]  # a polynomial is one recursion, its selection a sum
        self, params: Mapping[str, Any]
    ) -> tuple[EdgeVariant | ParallelEdgeVariant, Parameters]:
        r"""Exact for all parameters: one recursion if every node is kept, else a sum of floor(K/2) + 2 of them.

        Pi_in goes into Phi^(0). Pi_out has to multiply every term, and cannot be put into the factors of one recursion:
        a row of Phi^(k) set to zero also cuts the node out of all later states. It can be put into a *last* factor. The
        chain

            Phi^(0) = Pi_in,  Phi^(k) = S (k < m),  Phi^(m) = Pi_out (phi_(m-1) I + phi_m S),  then zeros

        gives Pi_out (phi_(m-1) S^(m-1) + phi_m S^m) Pi_in, and with it its own states Pi_in, ..., S^(m-1) Pi_in,
        for the recursion sums all of them. They do not depend on the parameters; one more chain, a telescoping sum with
        fixed coefficients, takes them off again. Chains of length K, K-2, ... serve two coefficients each.
        """
        params = self._checked_parameters(params)
        phi, N, K = params["phi"], self.graph.n_nodes, self.order
        F, G = self.out_features, self.in_features
        start, kept = (self._mask(nodes, phi.dtype) for nodes in (self.nodes_in, self.nodes_out))
        rest = {"bias": params["bias"]} if self.bias else {}
        if K == 0:
            diagonal = phi[0][..., None] * (start * kept)
            filt = EdgeVariant(self.graph, 0, G, F, zeroth="diagonal", bias=self.bias)
            return filt, {"phi": np.zeros((0, F, G, self.graph.nnz), phi.dtype), "phi0": diagonal, **rest}
        if self.nodes_out.size == N:
            return newton_embedding(self.graph, phi, bias=rest.get("bias"))

        S = self.graph.shift_values().astype(phi.dtype)
        rows = np.repeat(np.arange(N), np.diff(self.graph.indptr))
        lengths = list(range(K, 0, -2)) + ([1] if K % 2 == 0 else [])  # an even K leaves phi_0 for a chain of its own
        chains = np.zeros((K, F, len(lengths) + 1, G, self.graph.nnz), phi.dtype)
        first = np.ones(len(lengths) + 1, phi.dtype)
        for p, m in enumerate(lengths):
            chains[: m - 1, :, p] = S
            low = phi[m - 1][..., None]
            high = phi[m][..., None] if m > 1 or K % 2 else np.zeros_like(low)  # phi_1 may have been served already
            last = high * S
            last[..., self.graph.diagonal] += low
            chains[m - 1, :, p] = last * kept[rows]
        # the states to take off: S^j Pi_in as often as there are chains longer than j
        surplus = np.array([sum(m > j for m in lengths) for j in range(K)], phi.dtype)
        first[-1] = -surplus[0]
        for j in range(1, K):
            chains[j - 1, :, -1] = (surplus[j] / surplus[j - 1]) * S
        terms = len(lengths) + 1
        phi0 = np.broadcast_to(first[:, None, None] * start, (F, terms, G, N)).reshape(F, terms * G, N)
        bank = ParallelEdgeVariant(self.graph, K, G, F, terms=terms, zeroth="diagonal", bias=self.bias)
        return bank, {"phi": chains.reshape(K, F, terms * G, self.graph.nnz), "phi0": phi0.copy(), **rest}

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """That of the polynomial if every node is kept; otherwise there is none."""
        if self.nodes_out.size == self.graph.n_nodes:
            return super().response(params, frequencies)
        raise NotRepresentable(
            f"a selection of {self.nodes_out.size} out of {self.graph.n_nodes} nodes has no transfer function: "
            "Pi_out p(S) Pi_in does not share the eigenvectors of S"
        )

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """By a rule, so that a renumbered graph gets the renumbered selection: nodes of few neighbours; all nodes;
        nodes without a self-loop, and of these not the ones with most neighbours: a selection on dense graphs too.
        """
        neighbours = np.diff(graph.indptr)  # itself among them
        nodes_in = np.flatnonzero(neighbours <= 4)
        nodes_out = np.flatnonzero(neighbours <= 3)
        if not nodes_out.size:
            nodes_in = nodes_out = np.arange(graph.n_nodes)
        yield cls(graph, 3, in_features=2, out_features=2, nodes_in=nodes_in, nodes_out=nodes_out, bias=True)
        yield cls(graph, 2, in_features=2, out_features=2)
        nodes_in = np.flatnonzero(graph.S.diagonal() == 0)
        nodes_in = nodes_in if nodes_in.size else np.arange(graph.n_nodes)
        nodes_out = nodes_in[neighbours[nodes_in] < neighbours[nodes_in].max()]
        yield cls(graph, 2, 2, 2, nodes_in=nodes_in, nodes_out=nodes_out if nodes_out.size else nodes_in)


def _as_selection(name: str, value: Any, n_nodes: int) -> np.ndarray:
    """Node numbers, rising."""
    nodes = convert.as_nodes(name, value, n_nodes)
    if not nodes.size:
        raise ValueError(f"{name} is empty; expected at least one node")
    found, count = np.unique(nodes, return_counts=True)
    if found.size != nodes.size:
        raise ValueError(f"{name} holds node {found[count > 1][0]} more than once; expected each node at most once")
    return found
