"""The shift-invariant edge-variant filter: the recursion restricted to matrices that share the eigenvectors of S."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np

from .. import checks
from ..contract import NotRepresentable, Parameters
from ..graph import Graph
from ..graph.fourier import fourier_basis
from ..graph.nullspace import Repeated, shift_invariant_basis
from .base import Filter
from .edge_variant import EdgeVariant
from .spectral import diagonalizable


class ShiftInvariantEdgeVariant(Filter):
    r"""Edge-variant filter bank whose matrices are diagonal in the graph Fourier basis, eqs. (evResp, 12) and
    (lamLin, 14):

    .. math::

        \Phi^{(k)}_{fg} = U \operatorname{diag}(B_{U,\mathcal{I}}\, \mu^{(k)}_{fg}) U^{-1}, \qquad
        H_{fg}(S) = \sum_{k=k_0}^{K} \Phi^{(k)}_{fg} \cdots \Phi^{(1)}_{fg}, \qquad
        h_{fg}(\Lambda) = \sum_{k=k_0}^{K} \prod_{\kappa=1}^{k} \Lambda^{(\kappa)}_{fg} ,

    where the d columns of :math:`B_{U,\mathcal{I}}` span the transfer functions whose filter has the support of I + S
    (:func:`evref.graph.shift_invariant_basis`). The paper prints :math:`\Lambda^{(k)}` inside the product and
    :math:`U^H` for :math:`U^{-1}`; see R6 and R7 of ``docs/readings.md``. For a symmetric S with an edge
    and distinct eigenvalues d is at least max(2, N - number of non-adjacent pairs); on most sparse graphs d = 2 and the
    :math:`\Phi` are :math:`\mu_1 I + \mu_2 S` (R8).

    Every basis vector is a matrix on the support, with values a column of Q. Hence :math:`\phi = Q \mu`, and
    this *is* an :class:`EdgeVariant`: forward, adjoint and tangent are those of the recursion with
    :math:`\phi = Q\mu`, :math:`\partial L/\partial \mu = Q^\top \partial L/\partial\phi` and
    :math:`\dot\phi = Q\dot\mu`.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["mu"] : (order, out_features, in_features, d), d = `basis.dimension`
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S must be diagonalizable.
    order : int
        K.
    in_features, out_features : int
        G and F.
    zeroth : {"none", "identity"}
        Whether the sum starts at k = 1, as in eq. (evResp, 12), or has the term x too.
    bias : bool
    repeated : {"free", "tied"}
        What repeated eigenvalues mean (R9): a value per eigenvector, which makes the family depend on the choice of U
        and warns, or one per eigenvalue, which does not. With distinct eigenvalues there is no difference.
    eigenvectors : array_like, shape (nodes, nodes), optional
        The choice of U; computed otherwise.

    Raises
    ------
    NotDiagonalizable
        S has no usable basis of eigenvectors.

    Examples
    --------
    >>> import numpy as np, evref as ev
    >>> filt = ev.ShiftInvariantEdgeVariant(ev.generators.grid(3, 4), order=2)
    >>> filt.basis.dimension, filt.n_parameters  # K d instead of the K (M + N) of the edge-variant filter
    (3, 6)
    """

    name = "shift_invariant_edge_variant"
    axes: ClassVar[dict[str, str]] = {"mu": "kfgm"}
    equivariant = True  # of instances with distinct or tied eigenvalues; the others say no for themselves

    def __init__(
        self,
        graph: Graph,
        order: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        zeroth: Literal["none", "identity"] = "none",
        bias: bool = False,
        repeated: Repeated = "free",
        eigenvectors: Any = None,
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.zeroth = checks.as_choice("zeroth", zeroth, Literal["none", "identity"])
        self.repeated = checks.as_choice("repeated", repeated, Repeated)
        self._recursion = EdgeVariant(graph, order, in_features, out_features, zeroth=self.zeroth)
        self.order = self._recursion.order
        fourier = fourier_basis(graph, eigenvectors=eigenvectors)
        self.eigenvectors = None if eigenvectors is None else np.array(checks.as_array("eigenvectors", eigenvectors))
        self.basis = shift_invariant_basis(graph, fourier, repeated=self.repeated)
        self._Q = self.basis.support_values  # (nnz, d)
        if self.repeated == "free" and fourier.repeated:
            self.__dict__["equivariant"] = False  # another numbering may bring other eigenvectors

    @property
    def reach(self) -> int:
        return self.order

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"mu": (self.order, self.out_features, self.in_features, self.basis.dimension)}

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(G taps d): the columns of B have mean square 1, so this is the polynomial filter's start."""
        taps = self.order + (self.zeroth == "identity")
        return (self.in_features * taps * self.basis.dimension) ** -0.5

    def _phi(self, mu: np.ndarray) -> np.ndarray:
        """phi = Q mu, (K, F, G, nnz)."""
        return np.ascontiguousarray(mu) @ self._Q.T.astype(mu.dtype)

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        return self._recursion._apply({"phi": self._phi(params["mu"])}, x)

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        grads, grad_x = self._recursion._apply_backward({"phi": self._phi(params["mu"])}, saved, grad_y)
        return {"mu": grads["phi"] @ self._Q.astype(grads["phi"].dtype)}, grad_x

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        phi, dphi = ({"phi": self._phi(p["mu"])} for p in (params, dparams))
        return self._recursion._apply_jvp(phi, x, dphi, dx)

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """sum_k prod_{kappa <= k} B mu^(kappa), eq. (evResp, 12) as mended, (F, G, N) in the order of
        `self.basis.fourier.eigenvalues`; complex where the basis is. There is no h between the eigenvalues."""
        if frequencies is not None:
            raise NotRepresentable(
                "the transfer function of a shift-invariant edge-variant filter is a row of B per eigenvector; it has "
                "no value at other frequencies"
            )
        mu = self._checked_parameters(params)["mu"]
        Lambda = mu @ self.basis.B.T  # (K, F, G, N)
        terms = np.cumprod(Lambda, axis=0)
        return terms.sum(axis=0) + (self.zeroth == "identity")

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """sum_k Phi^(k) ... Phi^(1) with the Phi dense from U, B and mu, whatever falls outside the support."""
        mu = self._checked_parameters(params)["mu"]
        fourier, B = self.basis.fourier, self.basis.B
        N = self.graph.n_nodes
        checks.require_room(f"the matrix of {type(self).__name__}", self.out_features, self.in_features, N, N)
        family = np.stack([((fourier.U * column) @ fourier.U_inverse).real for column in B.T])  # (d, N, N)
        product = np.broadcast_to(np.eye(N), (self.out_features, self.in_features, N, N)).astype(mu.dtype)
        H = product.copy() if self.zeroth == "identity" else np.zeros_like(product)
        for k in range(self.order):
            product = np.einsum("fgd,dij->fgij", mu[k], family.astype(mu.dtype)) @ product
            H += product
        return H

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """phi = Q mu, always."""
        params = self._checked_parameters(params)
        embedded: Parameters = {"phi": self._phi(params["mu"])}
        if self.bias:
            embedded["bias"] = params["bias"]
        recursion = self._recursion
        filt = EdgeVariant(
            self.graph, recursion.order, self.in_features, self.out_features, zeroth=self.zeroth, bias=self.bias
        )
        return filt, embedded

    def n_operations(self, batch: int = 1) -> int:
        """Those of the recursion; phi = Q mu, once for all samples, is not counted."""
        return self._recursion.n_operations(batch)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """On `graph`, or on (S + S^T)/2 where S has no well-conditioned eigenvectors; both `zeroth`, both `repeated`.

        "free" where no eigenvalue is repeated: elsewhere the eigenvectors are a choice, and it warns.
        """
        graph = diagonalizable(graph)
        repeated: Repeated = "tied" if fourier_basis(graph).repeated else "free"
        yield cls(graph, order=3, in_features=2, out_features=2, bias=True, repeated="tied")
        yield cls(graph, order=2, in_features=2, out_features=2, zeroth="identity", repeated="tied")
        yield cls(graph, order=2, in_features=2, out_features=2, repeated=repeated)
