"""Polynomials of one shift in the Chebyshev basis: ChebNet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .. import checks, kernels
from ..contract import Parameters
from ..graph import Graph
from .base import Filter
from .edge_variant import EdgeVariant
from .newton import newton_embedding
from .polynomial import graph_frequencies


class Chebyshev(Filter):
    r"""Chebyshev filter bank (ChebNet, Defferrard, Bresson & Vandergheynst 2016), eq. (polFilt, 10) in another basis:

    .. math::

        y_f = \sum_{g=1}^{G} \sum_{k=0}^{K} \theta_{k,fg}\, w_g^{(k)}, \qquad w_g^{(0)} = x_g, \quad
        w_g^{(1)} = S x_g, \quad w_g^{(k)} = 2 S w_g^{(k-1)} - w_g^{(k-2)},

    so that :math:`H_{fg}(S) = \sum_k \theta_{k,fg} T_k(S)` with the Chebyshev polynomials :math:`T_k`. S is `graph.S`.
    ChebNet's is ``graph.with_shift("scaled_laplacian")``, whose spectrum
    lies in [-1, 1], where every |T_k| <= 1; on a wider spectrum the T_k grow fast.

    Adjoint. Let :math:`\bar y_f` = `grad_y` of feature f, and :math:`\bar w^{(k)}` that of :math:`w^{(k)}`. The
    state k is used by the output, by state k+1 through 2 S (for k = 0 through S) and by state k+2 through -1, so

    .. math::

        \tilde w_g^{(k)} = \sum_f \theta_{k,fg} \bar y_f, \qquad
        \bar w^{(k)} = \tilde w^{(k)} + 2 S^\top \bar w^{(k+1)} - \bar w^{(k+2)} \quad (k \ge 1), \qquad
        \frac{\partial L}{\partial x} = \bar w^{(0)} = \tilde w^{(0)} + S^\top \bar w^{(1)} - \bar w^{(2)},

    with :math:`\bar w^{(K+1)} = \bar w^{(K+2)} = 0`: Clenshaw's recursion for
    :math:`\sum_k T_k(S^\top) \tilde w^{(k)}`, and :math:`\partial L / \partial \theta_{k,fg} = \sum_{\text{batch}}
    \langle \bar y_f, w_g^{(k)} \rangle`. Tangent:
    :math:`\dot y_f = \sum_{g,k} \dot\theta_{k,fg} w_g^{(k)} + \theta_{k,fg} \dot w_g^{(k)}`, where :math:`\dot w` obeys
    the recursion of w from :math:`\dot x`.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["theta"] : (K + 1, out_features, in_features)
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S is the shift.
    order : int
        K, the degree; there are K + 1 coefficients per filter (PyTorch Geometric's `ChebConv` calls K + 1 its `K`).
    in_features, out_features : int
    bias : bool

    Raises
    ------
    ValueError, TypeError
        For an order that is negative or not an integer.

    Examples
    --------
    T_2 = 2 s^2 - 1, on a directed path where s^2 moves a delta by two nodes:

    >>> import numpy as np, evref as ev
    >>> graph = ev.Graph.from_edges(3, source=[0, 1], target=[1, 2])
    >>> filt = ev.Chebyshev(graph, order=2)
    >>> filt.forward({"theta": np.array([0.0, 0.0, 1.0]).reshape(3, 1, 1)}, np.array([1.0, 0.0, 0.0]))[0]
    array([-1.,  0.,  2.])
    """

    name = "chebyshev"
    axes: ClassVar[dict[str, str]] = {"theta": "kfg"}

    _plain_to_see = ()  # k = 0, as in polynomials
    equivariant = True

    def __init__(
        self, graph: Graph, order: int, in_features: int = 1, out_features: int = 1, *, bias: bool = False
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.order = checks.as_count("order", order)

    @property
    def reach(self) -> int:
        return self.order

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"theta": (self.order + 1, self.out_features, self.in_features)}

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(G * taps), as for the monomial basis."""
        return (self.in_features * (self.order + 1)) ** -0.5

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        shift = kernels.for_shifts(x.dtype)
        y, states = shift.shift_forward(self.graph, params["theta"], x, chebyshev=True)
        return y, (shift, states)  # the adjoint is that of the kernels that went forward

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        shift, states = saved
        grad_theta, grad_x = shift.shift_backward(self.graph, params["theta"], states, grad_y, chebyshev=True)
        return {"theta": grad_theta}, grad_x

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        shift = kernels.for_shifts(x.dtype)
        pairs = (dparams["theta"], x), (params["theta"], dx)
        return sum(shift.shift_forward(self.graph, theta, signal, chebyshev=True)[0] for theta, signal in pairs)

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """H_fg = sum_k theta_k,fg T_k(S), the T_k from their monomial coefficients and not from the recursion."""
        S = self.graph.dense_shift(self.in_features * self.out_features)
        powers = np.stack([np.linalg.matrix_power(S, k) for k in range(self.order + 1)])
        return np.einsum("kfg,kij->fgij", self.monomial(params), powers)

    def monomial(self, params: Mapping[str, Any]) -> np.ndarray:
        """The coefficients of the same polynomials in the monomial basis, (K + 1, F, G): what `Polynomial` takes."""
        params = self._checked_parameters(params)
        basis = chebyshev_basis(self.order).astype(params["theta"].dtype)
        return np.einsum("jk,kfg->jfg", basis, params["theta"])

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """Through the monomial coefficients and the Newton form: exact for every theta; zeroth="diagonal"."""
        return newton_embedding(self.graph, self.monomial(params), bias=params.get("bias"))

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """h_fg(lambda_i) = sum_k theta_k,fg T_k(lambda_i) at :func:`graph_frequencies` or those given, (F, G, N)."""
        params = self._checked_parameters(params)
        lam = graph_frequencies(self.graph, frequencies)
        T = [np.ones_like(lam), lam]
        for _ in range(2, self.order + 1):
            T.append(2 * lam * T[-1] - T[-2])
        return np.einsum("kfg,ki->fgi", params["theta"], np.stack(T[: self.order + 1]))

    def n_operations(self, batch: int = 1) -> int:
        """As for the monomial basis; the doubling and the difference of the recursion are no multiply-adds with S."""
        F, G, N = self.out_features, self.in_features, self.graph.n_nodes
        return checks.as_count("batch", batch) * (self.order * G * self.graph.S.nnz + (self.order + 1) * F * G * N)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """On S as it is, whatever its spectrum: on a directed graph a forgotten transpose shows. T_0 and T_1 differ."""
        yield cls(graph, order=3, in_features=2, out_features=3, bias=True)
        yield cls(graph, order=1, in_features=2, out_features=3)
        yield cls(graph, order=0, in_features=2, out_features=3)


def chebyshev_basis(order: int) -> np.ndarray:
    """Column k holds the monomial coefficients of T_k, exact integers: shape (K + 1, K + 1).

    >>> chebyshev_basis(3).astype(int)
    array([[ 1,  0, -1,  0],
           [ 0,  1,  0, -3],
           [ 0,  0,  2,  0],
           [ 0,  0,  0,  4]])
    """
    basis = np.eye(order + 1)
    for k in range(2, order + 1):
        basis[1:, k] = 2 * basis[:-1, k - 1]
        basis[0, k] = 0
        basis[:, k] -= basis[:, k - 2]
    return basis
