"""Polynomials of one shift: the general filter, TAGCN, and GCN's single shift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks, kernels
from ..contract import Parameters
from ..graph import Graph, as_graph
from ..graph.fourier import NotDiagonalizable, fourier_basis
from .base import Filter
from .edge_variant import EdgeVariant
from .newton import newton_embedding


class Polynomial(Filter):
    r"""Polynomial filter bank, eq. (polFilt, 10), the graph convolution of most architectures:

    .. math::

        y_f = \sum_{g=1}^{G} \sum_{k=0}^{K} \phi_{k,fg}\, w_g^{(k)}, \qquad
        w_g^{(k)} = S w_g^{(k-1)}, \qquad w_g^{(0)} = x_g,

    so that :math:`H_{fg}(S) = \sum_k \phi_{k,fg} S^k` with the transfer function
    :math:`h_{fg}(\lambda) = \sum_k \phi_{k,fg} \lambda^k`, eq. (polyResp, 4). S is `graph.S`; choose another one with
    ``graph.with_shift(...)``. The states do not depend on f: they are computed once per input feature, K sparse
    products for each, and mixed by one dense matrix product.

    Adjoint, with :math:`\bar y_f` = `grad_y` of feature f:

    .. math::

        \frac{\partial L}{\partial \phi_{k,fg}} = \sum_{\text{batch}} \langle \bar y_f, w_g^{(k)} \rangle, \qquad
        \tilde w_g^{(k)} = \sum_f \phi_{k,fg} \bar y_f, \qquad \bar w^{(K)} = \tilde w^{(K)}, \quad
        \bar w^{(k)} = \tilde w^{(k)} + S^\top \bar w^{(k+1)}, \quad \frac{\partial L}{\partial x_g} = \bar w_g^{(0)},

    Horner's scheme in :math:`S^\top`. Tangent: :math:`\dot y_f = \sum_{g,k} \dot\phi_{k,fg} w_g^{(k)} + \phi_{k,fg}
    \dot w_g^{(k)}` with :math:`\dot w^{(k)} = S \dot w^{(k-1)}`. Line by line: ``docs/polynomial.md``.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["phi"] : (K + 1, out_features, in_features)
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S is the shift.
    order : int
        K, the degree; there are K + 1 coefficients per filter.
    in_features, out_features : int
        G and F.
    bias : bool
        One learnable constant per output feature.

    Raises
    ------
    ValueError, TypeError
        For an order that is negative or not an integer.

    Examples
    --------
    1 + 2 s on a directed path 0 -> 1 -> 2:

    >>> import numpy as np, evref as ev
    >>> graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    >>> filt = ev.Polynomial(graph, order=1)
    >>> filt.forward({"phi": np.array([1.0, 2.0]).reshape(2, 1, 1)}, np.array([1.0, 0.0, 0.0]))[0]
    array([1., 2., 0.])
    """

    name = "polynomial"
    axes: ClassVar[dict[str, str]] = {"phi": "kfg"}
    equivariant = True

    # k = 0: x_i, multiplied with whatever phi_0 is, is part of y_i; backward likewise
    _plain_to_see: tuple[str, ...] | None = ()

    def __init__(
        self, graph: Graph, order: int, in_features: int = 1, out_features: int = 1, *, bias: bool = False
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.order = checks.as_count("order", order)

    @property
    def reach(self) -> int:
        return self.order

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"phi": (self.order + 1, self.out_features, self.in_features)}

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(G * taps), the authors' choice."""
        return (self.in_features * (self.order + 1)) ** -0.5

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        shift = kernels.for_shifts(x.dtype)
        y, states = shift.shift_forward(self.graph, params["phi"], x)
        return y, (shift, states)  # the adjoint is that of the kernels that went forward

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        shift, states = saved
        grad_phi, grad_x = shift.shift_backward(self.graph, params["phi"], states, grad_y)
        return {"phi": grad_phi}, grad_x

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        shift = kernels.for_shifts(x.dtype)
        pairs = (dparams["phi"], x), (params["phi"], dx)
        return sum(shift.shift_forward(self.graph, phi, signal)[0] for phi, signal in pairs)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """H_fg = sum_k phi_k,fg S^k, straight from the equation."""
        params = self._checked_parameters(params)
        S = self.graph.dense_shift(self.in_features * self.out_features)
        powers = np.stack([np.linalg.matrix_power(S, k) for k in range(self.order + 1)])
        return np.einsum("kfg,kij->fgij", params["phi"], powers)

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """Exact for every real polynomial, by the Newton form (:mod:`evref.filters.newton`); zeroth="diagonal"."""
        params = self._checked_parameters(params)
        return newton_embedding(self.graph, params["phi"], bias=params.get("bias"))

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """h_fg(lambda_i) = sum_k phi_k,fg lambda_i^k at :func:`graph_frequencies` or those given, shape (F, G, N)."""
        params = self._checked_parameters(params)
        powers = graph_frequencies(self.graph, frequencies) ** np.arange(self.order + 1)[:, None]  # (K + 1, N)
        return np.einsum("kfg,ki->fgi", params["phi"], powers)

    def n_operations(self, batch: int = 1) -> int:
        """Per sample: K nnz(S) multiply-adds for the states of each input feature, (K + 1) F G N to mix them."""
        F, G, N = self.out_features, self.in_features, self.graph.n_nodes
        return checks.as_count("batch", batch) * (self.order * G * self.graph.S.nnz + (self.order + 1) * F * G * N)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """With and without a bias, and without a shift."""
        yield cls(graph, order=3, in_features=2, out_features=3, bias=True)
        yield cls(graph, order=2, in_features=2, out_features=3)
        yield cls(graph, order=0, in_features=2, out_features=3)


class TAGCN(Polynomial):
    r"""Topology-adaptive GCN (Du, Zhang, Wu, Moura & Kar 2017): a polynomial of the normalised adjacency matrix,

    .. math:: y_f = \sum_g \sum_{k=0}^{K} \phi_{k,fg} \hat A^k x_g + \beta_f, \qquad \hat A = D^{-1/2} A D^{-1/2},

    without self-loops added. This class is :class:`Polynomial` under its own name; adjoint, tangent, map into the
    edge-variant recursion and parameters are inherited. :meth:`on` takes the raw graph and normalises it; the
    constructor, like that of every filter, uses `graph.S` as it is.

    Examples
    --------
    >>> import evref as ev
    >>> filt = ev.TAGCN.on(ev.generators.path(3), order=2)
    >>> filt.graph.S.toarray().round(3)
    array([[0.   , 0.707, 0.   ],
           [0.707, 0.   , 0.707],
           [0.   , 0.707, 0.   ]])
    """

    name = "tagcn"

    @classmethod
    def on(cls, graph: Graph, *args: Any, **kwargs: Any) -> Self:
        """The filter on ``graph.with_shift("symmetric_adjacency")``; the other arguments are the constructor's."""
        return cls(as_graph(graph).with_shift("symmetric_adjacency"), *args, **kwargs)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """On the normalised |S| of an undirected graph; on |S| as it is where there is no such normalisation."""
        on = cls.on if graph.is_symmetric else cls
        for bias in (True, False):
            yield on(Graph(abs(graph.S)), order=2, in_features=2, out_features=3, bias=bias)


class GCN(Filter):
    r"""Graph convolution of Kipf & Welling (2017): one shift, no k = 0 term,

    .. math:: y_f = \sum_{g=1}^{G} \theta_{fg}\, \hat S x_g, \qquad
        \hat S = \tilde D^{-1/2} (A + I) \tilde D^{-1/2},

    with the degrees :math:`\tilde D` of A + I (theta is the transpose of the publication's, whose rows are inputs).
    :meth:`on` takes the raw graph, adds the self-loops and normalises; the constructor, like that of every filter, uses
    `graph.S` as it is, so that a graph which already carries the shift is not normalised twice.

    Adjoint: :math:`\partial L / \partial \theta_{fg} = \sum_{\text{batch}} \langle \bar y_f, \hat S x_g \rangle`,
    :math:`\partial L / \partial x_g = \hat S^\top \sum_f \theta_{fg} \bar y_f`. Tangent: :math:`\dot y_f = \sum_g
    \dot\theta_{fg} \hat S x_g + \theta_{fg} \hat S \dot x_g`. Edge-variant:
    :math:`\Phi^{(1)}_{fg} = \theta_{fg} \hat S` with K = 1 and zeroth="none", eq. (evConv, 9) to the letter.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["theta"] : (out_features, in_features)
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S is the shift: ``graph.with_shift("gcn")``, or use ``GCN.on(graph, ...)``.
    in_features, out_features : int
    bias : bool

    Examples
    --------
    Two nodes joined by an edge take their mean:

    >>> import numpy as np, evref as ev
    >>> filt = ev.GCN.on(ev.generators.path(2))
    >>> filt.forward({"theta": np.ones((1, 1))}, np.array([1.0, 3.0]))[0]
    array([2., 2.])
    """

    name = "gcn"
    axes: ClassVar[dict[str, str]] = {"theta": "fg"}
    equivariant = True

    def __init__(self, graph: Graph, in_features: int = 1, out_features: int = 1, *, bias: bool = False) -> None:
        super().__init__(graph, in_features, out_features, bias)

    @classmethod
    def on(cls, graph: Graph, *args: Any, **kwargs: Any) -> Self:
        """The filter on ``graph.with_shift("gcn")``; the other arguments are the constructor's."""
        return cls(as_graph(graph).with_shift("gcn"), *args, **kwargs)

    @property
    def reach(self) -> int:
        return 1

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"theta": (self.out_features, self.in_features)}

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(G): the polynomial's, with its one tap."""
        return self.in_features**-0.5

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        shift = kernels.for_shifts(x.dtype)
        y, states = shift.shift_forward(self.graph, params["theta"][None], x, first=1)
        return y, (shift, states)

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        shift, states = saved
        grad_theta, grad_x = shift.shift_backward(self.graph, params["theta"][None], states, grad_y, first=1)
        return {"theta": grad_theta[0]}, grad_x

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        shift = kernels.for_shifts(x.dtype)
        pairs = (dparams["theta"], x), (params["theta"], dx)
        return sum(shift.shift_forward(self.graph, theta[None], signal, first=1)[0] for theta, signal in pairs)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        params = self._checked_parameters(params)
        return params["theta"][:, :, None, None] * self.graph.dense_shift(self.in_features * self.out_features)

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """Phi^(1) = theta_fg S, K = 1, zeroth="none"."""
        params = self._checked_parameters(params)
        filt = EdgeVariant(self.graph, 1, self.in_features, self.out_features, zeroth="none", bias=self.bias)
        phi = (params["theta"][..., None] * self.graph.shift_values()).astype(params["theta"].dtype)
        rest = {"bias": params["bias"]} if self.bias else {}
        return filt, {"phi": phi[None], **rest}

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """h_fg(lambda_i) = theta_fg lambda_i at :func:`graph_frequencies` or those given, shape (F, G, N)."""
        return self._checked_parameters(params)["theta"][..., None] * graph_frequencies(self.graph, frequencies)

    def n_operations(self, batch: int = 1) -> int:
        """Per sample: |S| multiply-adds per input feature, F G N to mix."""
        F, G, N = self.out_features, self.in_features, self.graph.n_nodes
        return checks.as_count("batch", batch) * (G * self.graph.S.nnz + F * G * N)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """On S with the self-loops that GCN's shift has, not made symmetric: there a forgotten transpose shows."""
        values = graph.shift_values().copy()
        values[graph.diagonal[values[graph.diagonal] == 0]] = 1
        for bias in (True, False):
            yield cls(Graph(graph.to_csr(values)), in_features=2, out_features=3, bias=bias)


# ---- what this family shares -----------------------------------------------------------------------------------------
def graph_frequencies(graph: Graph, given: Any = None) -> np.ndarray:
    """`given`, or the eigenvalues of S in the order of :func:`evref.graph.fourier.fourier_basis`.

    A polynomial needs no eigenvectors: where S has no basis of them, its eigenvalues come by real, then imaginary part.
    """
    if given is not None:
        frequencies = np.atleast_1d(checks.as_array("frequencies", given))
        if frequencies.ndim != 1 or frequencies.dtype.kind not in "fiuc":
            raise ValueError(
                f"frequencies has shape {frequencies.shape} and dtype {frequencies.dtype}; expected numbers in one row"
            )
        return frequencies
    try:
        return fourier_basis(graph).eigenvalues
    except NotDiagonalizable:
        return np.sort_complex(np.linalg.eigvals(graph.dense_shift()))
