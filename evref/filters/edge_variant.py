"""The edge-variant graph filter: every node weighs every neighbour, in every step, with a parameter of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from .. import checks, kernels
from ..contract import Parameters
from ..graph import Graph
from ..graph.pattern import Pattern
from .base import Filter

if TYPE_CHECKING:
    from .around import Around

Zeroth = Literal["none", "identity", "diagonal"]


class EdgeVariant(Filter):
    r"""Edge-variant filter bank, eq. (evConv, 9):

    .. math::

        y_f = \sum_{g=1}^{G} \sum_{k=k_0}^{K} w^{(k)}_{fg}, \qquad
        w^{(k)}_{fg} = \Phi^{(k)}_{fg} w^{(k-1)}_{fg}, \qquad w^{(0)}_{fg} = \Phi^{(0)}_{fg} x_g,

    so that :math:`H_{fg}(S) = \sum_k \Phi^{(k)}_{fg} \cdots \Phi^{(0)}_{fg}`, newest factor on the left. Every
    :math:`\Phi^{(k)}`, :math:`k \ge 1`, has the support of I + S and is otherwise free: the weights of S play no part.
    The paper prints the sum once from k=0 and once from k=1; `zeroth` says which:

    ============  ===========================  =======  ======================================
    zeroth        :math:`\Phi^{(0)}`           k_0      parameters per filter
    ============  ===========================  =======  ======================================
    "none"        I (fixed)                    1        K (M + N), eq. (evConv, 9)
    "identity"    I (fixed)                    0        K (M + N), left sum of eq. (EVout, 7)
    "diagonal"    diagonal, learnable          0        K (M + N) + N, as in the authors' later work
    ============  ===========================  =======  ======================================

    "Or we can consider an EV recursion without self-loops" (after eq. (EVout, 7)): with ``self_loops=False`` no
    :math:`\Phi^{(k)}`, :math:`k \ge 1`, has a diagonal. Each then has M entries, one per edge between different nodes,
    and K (M + N) above becomes K M. A self-loop of S plays no part. Such a filter is the same filter with self-loops
    whose diagonals are zero (:meth:`to_edge_variant`). The class is smaller: ``evref verify --only no-self-loops``.

    Adjoint, with :math:`\bar y_f` = `grad_y` of feature f and :math:`\bar w^{(k)}` the cotangent of :math:`w^{(k)}`:

    .. math::

        \bar w^{(K)} = \bar y_f, \qquad \bar w^{(k)} = [k \ge k_0]\, \bar y_f + \Phi^{(k+1)\top} \bar w^{(k+1)}, \qquad
        \frac{\partial L}{\partial \Phi^{(k)}_{ij}} = \sum_{\text{batch}} \bar w^{(k)}_i w^{(k-1)}_j, \qquad
        \frac{\partial L}{\partial x_g} = \sum_f \Phi^{(0)}_{fg} \bar w^{(0)}_{fg},

    and tangent :math:`\dot w^{(k)} = \Phi^{(k)} \dot w^{(k-1)} + \dot\Phi^{(k)} w^{(k-1)}`. Line by line:
    ``docs/edge_variant.md``.

    Shapes
    ------
    x : (batch, in_features, nodes); (in_features, nodes) and, for one feature, (nodes,) come back in kind
    y : (batch, out_features, nodes)
    params["phi"] : (K, out_features, in_features, nnz), entries on the support of I + S in CSR order; with
        self_loops=False (K, out_features, in_features, M), entries on ``graph.edge_pattern``
    params["phi0"] : (out_features, in_features, nodes), only with zeroth="diagonal"
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
    order : int
        K, the number of steps; the reach of the filter in hops.
    in_features, out_features : int
        G and F.
    zeroth : {"none", "identity", "diagonal"}
        What the k=0 term is (table above).
    self_loops : bool
        Whether a node also weighs its own state in each step.
    bias : bool
        One learnable constant per output feature.

    Raises
    ------
    ValueError, TypeError
        For an order that is negative, not an integer, or 0 together with zeroth="none" (an empty sum).

    Examples
    --------
    A step along a directed path 0 -> 1 -> 2, every weight 1 and no self-loops, moves a delta by one node:

    >>> import numpy as np, evref as ev
    >>> graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    >>> filt = ev.EdgeVariant(graph, order=1)
    >>> phi = np.ones(graph.nnz)
    >>> phi[graph.diagonal] = 0
    >>> y, tape = filt.forward({"phi": phi.reshape(1, 1, 1, -1)}, np.array([1.0, 0.0, 0.0]))
    >>> y
    array([0., 1., 0.])
    """

    name = "edge_variant"
    axes: ClassVar[dict[str, str]] = {"phi": "kfge", "phi0": "fgn"}

    _plain_to_see: tuple[str, ...] | None = ("phi", "phi0")  # products only, and every node is its own neighbour

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        zeroth: Zeroth = "none",
        bias: bool = False,
        self_loops: bool = True,
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.zeroth: Zeroth = checks.as_choice("zeroth", zeroth, Zeroth)
        self.self_loops = checks.as_flag("self_loops", self_loops)
        if not self.self_loops:  # what a node without neighbours holds reaches nobody: look at the inputs instead
            self._plain_to_see = None
        self.order = checks.as_count("order", order)
        if self.order == 0 and self.zeroth == "none":
            raise ValueError('order is 0 with zeroth="none": the sum is empty; expected order >= 1 or another zeroth')

    @property
    def reach(self) -> int:
        return self.order

    @property
    def pattern(self) -> Pattern:
        """Where Phi^(k), k >= 1, has its entries: the graph (support of I + S), or its edges alone."""
        return self.graph if self.self_loops else self.graph.edge_pattern

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {
            "phi": (self.order, self.out_features, self.in_features, self.pattern.nnz)
        }
        if self.zeroth == "diagonal":
            shapes["phi0"] = (self.out_features, self.in_features, self.graph.n_nodes)
        return shapes

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(G * taps * N), the authors' choice; taps counts the terms of the sum."""
        taps = self.order + (self.zeroth != "none")
        return (self.in_features * taps * self.graph.n_nodes) ** -0.5

    def _phi0(self, params: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Diagonal of Phi^(0) as the kernels take it: "identity" is a diagonal of ones that nobody learns."""
        if self.zeroth == "none":
            return None
        if self.zeroth == "identity":
            return np.ones((self.out_features, self.in_features, self.graph.n_nodes), params["phi"].dtype)
        return params["phi0"]

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        kernel = kernels.current()
        y, saved = kernel.ev_forward(self.pattern, params["phi"], self._phi0(params), x)
        return y, (kernel, saved)  # the adjoint is that of the kernels that went forward

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        return self._gradients(params, saved, grad_y, True)

    def _gradients(
        self, params: Parameters, saved: Any, grad_y: np.ndarray, input_gradient: bool
    ) -> tuple[Parameters, np.ndarray]:
        kernel, saved = saved
        grad_phi, grad_phi0, grad_x = kernel.ev_backward(
            self.pattern, params["phi"], self._phi0(params), saved, grad_y, input_gradient
        )
        grads = {"phi": grad_phi}
        if self.zeroth == "diagonal":
            grads["phi0"] = grad_phi0
        return grads, grad_x

    def _apply_parameter_gradients(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> Parameters:
        return self._gradients(params, saved, grad_y, False)[0]

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        phi0 = self._phi0(params)
        dphi0 = dparams["phi0"] if self.zeroth == "diagonal" else None if phi0 is None else np.zeros_like(phi0)
        return kernels.current().ev_jvp(self.pattern, params["phi"], phi0, x, dparams["phi"], dphi0, dx)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """H_fg = sum_k Phi^(k) ... Phi^(0), straight from the equation and independent of the kernels."""
        params = self._checked_parameters(params)
        phi0 = self._phi0(params)
        N = self.graph.n_nodes
        checks.require_room(f"the matrix of {type(self).__name__}", self.out_features, self.in_features, N, N)
        H = np.zeros((self.out_features, self.in_features, N, N), np.result_type(*params.values()))
        for f in range(self.out_features):
            for g in range(self.in_features):
                product = np.eye(N, dtype=H.dtype)
                if phi0 is not None:
                    product = np.diag(phi0[f, g]).astype(H.dtype)
                    H[f, g] += product
                for k in range(self.order):
                    product = self.pattern.to_csr(params["phi"][k, f, g]) @ product
                    H[f, g] += product
        return H

    def around(self, sources: Any) -> Around:
        """The part of this filter that signals which vanish outside `sources` pass through: for sparse inputs.

        On a large graph a few sources reach little of it in K steps; the rest need not be computed. Exact, gradients
        included, as :class:`evref.filters.around.Around` says.

        Examples
        --------
        >>> import numpy as np, evref as ev
        >>> filt = ev.EdgeVariant(ev.generators.path(1000), order=2)
        >>> near = filt.around([500])
        >>> near
        Around(1 sources, 5 of 1000 nodes)
        >>> params, x = filt.init(0), np.zeros(1000)
        >>> x[500] = 1.0
        >>> y, tape = near.filter.forward(near.take(params), x[near.nodes])
        >>> bool(np.allclose(y, filt.forward(params, x)[0][near.nodes]))
        True
        """
        from .around import Around

        return Around(self, sources)

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """Itself; without self-loops, the filter with self-loops whose diagonals are zero."""
        params = self._checked_parameters(params)
        if self.self_loops:
            return self, params
        between = np.ones(self.graph.nnz, bool)
        between[self.graph.diagonal] = False
        phi = np.zeros((*params["phi"].shape[:-1], self.graph.nnz), params["phi"].dtype)
        phi[..., between] = params["phi"]
        options = {**self.config(), "self_loops": True}
        return EdgeVariant(self.graph, **options), {**params, "phi": phi}

    def n_operations(self, batch: int = 1) -> int:
        """K (M + N) multiply-adds per filter and sample, K M without self-loops; N more for a diagonal, as many
        additions for an identity."""
        per_filter = self.order * self.pattern.nnz + (self.graph.n_nodes if self.zeroth != "none" else 0)
        return checks.as_count("batch", batch) * self.out_features * self.in_features * per_filter

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Every `zeroth`; with and without a bias; without a step; without self-loops."""
        yield cls(graph, order=3, in_features=2, out_features=3, zeroth="diagonal", bias=True)
        yield cls(graph, order=2, in_features=2, out_features=1, zeroth="none")
        yield cls(graph, order=2, in_features=1, out_features=2, zeroth="identity")
        yield cls(graph, order=0, in_features=1, out_features=2, zeroth="diagonal")
        yield cls(graph, order=2, in_features=1, out_features=2, self_loops=False)
