"""The spectral GCNN: a transfer function learned at the eigenvalues of S, through a few numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np

from .. import checks
from ..contract import NotRepresentable, Parameters
from ..graph import Graph
from ..graph.fourier import NotDiagonalizable, RepeatedEigenvaluesWarning, fourier_basis
from .base import Filter
from .edge_variant import EdgeVariant
from .interpolation import interpolation_embedding


class SpectralGCNN(Filter):
    r"""Spectral filter bank, eq. (specGCNN, 11), Bruna et al. 2014:

    .. math:: y_f = \sum_{g=1}^{G} U \operatorname{diag}(B \mathbf{b}_{fg}) U^{-1} x_g ,

    with a fixed kernel B (N x b) and b parameters per filter. The default kernel is a clamped B-spline on
    :math:`[\lambda_{\min}, \lambda_{\max}]` with uniform inner knots, one row per eigenvalue, so that the order of the
    eigenvalues does not matter and equal ones get equal rows. It is cubic, or of degree b - 1 where b < 4 (b = 2: a
    straight line, b = 1: a constant; there are then no inner knots). If all eigenvalues are equal, the interval is
    widened by ± 1/2.

    **Complex eigenvalues** (directed graphs) enter the spline by their real part: for real ones that changes nothing,
    and conjugates get equal values, without which the output would not be real. Eigenvalues with the same real part
    cannot be told apart by it. U and its inverse are then held as the real matrices :math:`U_\mathbb{R}, V_\mathbb{R}`
    of :attr:`evref.graph.fourier.Fourier.real_form`: with equal real values on conjugates,
    :math:`U \operatorname{diag}(h) U^{-1} = U_\mathbb{R} \operatorname{diag}(h) V_\mathbb{R}`.

    Forward, with :math:`h_{fg} = B \mathbf{b}_{fg}`: :math:`\hat x_g = V_\mathbb{R} x_g` (`z` in code),
    :math:`\hat y_f = \sum_g h_{fg} \odot \hat x_g` (`w`), :math:`y_f = U_\mathbb{R} \hat y_f`.
    Adjoint, with :math:`\bar y` = `grad_y`:

    .. math::

        \bar{\hat y}_f = U_\mathbb{R}^\top \bar y_f, \qquad
        \frac{\partial L}{\partial \mathbf{b}_{fg}} = B^\top \sum_{\text{batch}} \bar{\hat y}_f \odot \hat x_g, \qquad
        \frac{\partial L}{\partial x_g} = V_\mathbb{R}^\top \sum_f h_{fg} \odot \bar{\hat y}_f ,

    and tangent :math:`\dot y_f = U_\mathbb{R} \sum_g (B \dot{\mathbf{b}}_{fg}) \odot \hat x_g + h_{fg} \odot
    V_\mathbb{R} \dot x_g`.

    Map into the edge-variant recursion: the polynomial that takes the values h at the r distinct eigenvalues, order
    r - 1 (:mod:`evref.filters.interpolation`). It is exact and not local.

    Shapes
    ------
    x : (batch, in_features, nodes), y : (batch, out_features, nodes)
    params["b"] : (n_basis, out_features, in_features)
    params["bias"] : (out_features,), only with bias=True

    Parameters
    ----------
    graph : Graph
        Its S must be diagonalizable.
    n_basis : int
        b, the number of columns of B.
    in_features, out_features : int
        G and F.
    bias : bool
    kernel : "spline" or array_like, shape (nodes, n_basis)
        B itself; rows in the order of `evref.graph.fourier_basis(graph).eigenvalues`, equal on conjugates. Rows that
        differ on equal eigenvalues draw a `RepeatedEigenvaluesWarning`: they make the filter depend on the choice of U.

    Raises
    ------
    NotDiagonalizable
        S has no usable basis of eigenvectors; the message gives its condition number.
    ValueError
        A kernel of the wrong shape, or one that would make the output complex.

    Examples
    --------
    The columns of the spline kernel sum to one: with all parameters 1 the filter is the identity.

    >>> import numpy as np, evref as ev
    >>> filt = ev.SpectralGCNN(ev.generators.path(4), n_basis=4)
    >>> filt.forward({"b": np.ones((4, 1, 1))}, np.array([1.0, 2.0, 3.0, 4.0]))[0].round(12)
    array([1., 2., 3., 4.])
    """

    name = "spectral"
    axes: ClassVar[dict[str, str]] = {"b": "mfg"}
    equivariant = True  # instances whose kernel tells equal eigenvalues apart say no for themselves

    def __init__(
        self,
        graph: Graph,
        n_basis: int,
        in_features: int = 1,
        out_features: int = 1,
        *,
        bias: bool = False,
        kernel: Literal["spline"] | Any = "spline",
    ) -> None:
        super().__init__(graph, in_features, out_features, bias)
        self.n_basis = checks.as_count("n_basis", n_basis, minimum=1)
        checks.require_room("the kernel B", graph.n_nodes, self.n_basis)
        self.fourier = fourier_basis(graph)
        if isinstance(kernel, str):
            self.kernel: Any = checks.as_choice("kernel", kernel, Literal["spline"])
            self.B = spline_kernel(self.fourier.eigenvalues.real, self.n_basis)  # (N, b)
        else:
            self.kernel = self.B = self._checked_kernel(kernel)
        self._U, self._V = self.fourier.real_form

    def _checked_kernel(self, kernel: Any) -> np.ndarray:
        B = checks.as_floating("kernel", kernel).astype(np.float64)
        checks.require_finite("kernel", B)
        if B.shape != (self.graph.n_nodes, self.n_basis):
            raise ValueError(f"kernel has shape {B.shape}; expected {(self.graph.n_nodes, self.n_basis)}, (N, n_basis)")
        apart = float(np.abs(B - B[self.fourier.partner]).max())
        if apart > 1e-12 * np.abs(B).max():
            raise ValueError(
                f"kernel has rows on conjugate eigenvalues that differ by {apart:.1e}; expected equal ones, or the "
                "output would be complex"
            )
        _, members = np.unique(self.fourier.groups, return_index=True)
        apart = float(np.abs(B - B[members][self.fourier.groups]).max())
        if apart > 1e-8 * np.abs(B).max():
            warnings.warn(
                f"kernel has rows on equal eigenvalues that differ by {apart:.1e}: the filter depends on the choice of "
                "eigenvectors",
                RepeatedEigenvaluesWarning,
                stacklevel=3,
            )
            self.__dict__["equivariant"] = False  # another numbering may bring other eigenvectors
        return B

    @property
    def reach(self) -> None:
        return None

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"b": (self.n_basis, self.out_features, self.in_features)}

    def _init_scale(self, name: str) -> float:
        """1 / sqrt(G b), the authors' choice."""
        return (self.in_features * self.n_basis) ** -0.5

    def _transfer(self, b: np.ndarray) -> np.ndarray:
        """h = B b, (N, F, G)."""
        return np.tensordot(self.B.astype(b.dtype), np.ascontiguousarray(b), axes=1)

    def _matrices(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        return self._U.astype(dtype, copy=False), self._V.astype(dtype, copy=False)

    def _apply(self, params: Parameters, x: np.ndarray) -> tuple[np.ndarray, Any]:
        U, V = self._matrices(x.dtype)
        h = self._transfer(params["b"])
        z = (np.ascontiguousarray(x) @ V.T).transpose(2, 0, 1)  # (N, batch, G), frequency first
        w = z @ h.transpose(0, 2, 1)  # (N, batch, F)
        return np.ascontiguousarray(w.transpose(1, 2, 0)) @ U.T, z

    def _apply_backward(self, params: Parameters, saved: Any, grad_y: np.ndarray) -> tuple[Parameters, np.ndarray]:
        z = saved
        U, V = self._matrices(grad_y.dtype)
        h = self._transfer(params["b"])
        grad_w = (np.ascontiguousarray(grad_y) @ U).transpose(2, 0, 1)  # (N, batch, F)
        grad_h = grad_w.transpose(0, 2, 1) @ z  # (N, F, G)
        grad_z = grad_w @ h  # (N, batch, G)
        grad_b = np.tensordot(self.B.T.astype(grad_y.dtype), grad_h, axes=1)
        return {"b": grad_b}, np.ascontiguousarray(grad_z.transpose(1, 2, 0)) @ V

    def _apply_jvp(self, params: Parameters, x: np.ndarray, dparams: Parameters, dx: np.ndarray) -> np.ndarray:
        U, V = self._matrices(x.dtype)
        z, dz = ((np.ascontiguousarray(signal) @ V.T).transpose(2, 0, 1) for signal in (x, dx))
        h, dh = self._transfer(params["b"]), self._transfer(dparams["b"])
        dw = z @ dh.transpose(0, 2, 1) + dz @ h.transpose(0, 2, 1)
        return np.ascontiguousarray(dw.transpose(1, 2, 0)) @ U.T

    def response(self, params: Mapping[str, Any], frequencies: Any = None) -> np.ndarray:
        """h_fg = B b_fg, (F, G, N) at the eigenvalues in the order of `self.fourier.eigenvalues`, or at `frequencies`.

        The spline is defined between the smallest and the largest eigenvalue (of complex ones the real part counts).

        Raises
        ------
        NotRepresentable
            `frequencies` are given and the kernel is an array, whose rows belong to the eigenvalues.
        ValueError
            Frequencies that are complex or outside the interval of the spline.
        """
        b = self._checked_parameters(params)["b"]
        if frequencies is None:
            return np.moveaxis(self._transfer(b), 0, -1).copy()
        if not isinstance(self.kernel, str):
            raise NotRepresentable("kernel is an array: the transfer function has no value between the eigenvalues")
        B = spline_kernel(self.fourier.eigenvalues.real, self.n_basis, at=frequencies)
        return np.moveaxis(np.tensordot(B.astype(b.dtype), b, axes=1), 0, -1).copy()

    def matrix(self, params: Mapping[str, Any]) -> np.ndarray:
        """H_fg = sum_m b_m U diag(B[:, m]) U^-1 with U as it is, complex where it must be."""
        b = self._checked_parameters(params)["b"]
        U, V, N = self.fourier.U, self.fourier.U_inverse, self.graph.n_nodes
        checks.require_room(
            f"the matrix of {type(self).__name__}", self.n_basis + self.out_features * self.in_features, N, N
        )
        family = np.stack([((U * self.B[:, m]) @ V).real for m in range(self.n_basis)])  # (b, N, N)
        return np.einsum("mfg,mij->fgij", b, family.astype(b.dtype))

    def to_edge_variant(self, params: Mapping[str, Any]) -> tuple[EdgeVariant, Parameters]:
        """The interpolating polynomial in Newton form: order r - 1 for r distinct eigenvalues, so not local.

        Raises
        ------
        NotRepresentable
            The interpolation misses the transfer function by more than 1e-9 (ill-conditioned spectrum), a divided
            difference vanishes in every order tried, or a kernel array has different rows on equal eigenvalues.
        """
        params = self._checked_parameters(params)
        h = np.moveaxis(self._transfer(params["b"]), 0, -1)
        return interpolation_embedding(self.graph, self.fourier, h, params.get("bias"))

    def n_operations(self, batch: int = 1) -> int:
        """(F + G) N^2 for the transforms and F G N for the filters, per sample; h = B b, once, is not counted."""
        N, F, G = self.graph.n_nodes, self.out_features, self.in_features
        return checks.as_count("batch", batch) * ((F + G) * N * N + F * G * N)

    @classmethod
    def examples(cls, graph: Graph, rng: Any = None) -> Iterator[Self]:
        """Splines, and a kernel of one's own; on `graph`, or on (S + S^T)/2 where S has no well-conditioned basis."""
        graph = diagonalizable(graph)
        splines = cls(graph, n_basis=5, in_features=2, out_features=3, bias=True)
        yield splines
        yield cls(graph, n_basis=3, in_features=2, out_features=3, kernel=splines.B[:, ::2])


def spline_kernel(frequencies: Any, n_basis: int, at: Any = None) -> np.ndarray:
    """B (N, b): b clamped B-splines of degree min(3, b - 1) on [min, max] of the frequencies, one row for each.

    With `at` the rows belong to these numbers, which must lie in that interval.

    >>> spline_kernel([3.0, 1.0, 2.0], 2)  # b = 2: a straight line from end to end
    array([[0. , 1. ],
           [1. , 0. ],
           [0.5, 0.5]])
    """
    from scipy.interpolate import BSpline

    lam = checks.as_floating("frequencies", frequencies).astype(np.float64)
    b = checks.as_count("n_basis", n_basis, minimum=1)
    low, high = float(lam.min()), float(lam.max())
    if high - low <= 1e-13 * max(abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    if at is not None:
        lam = checks.as_floating("at", at).astype(np.float64)
        if lam.ndim != 1 or (lam.size and not low <= lam.min() <= lam.max() <= high):
            raise ValueError(f"at has shape {lam.shape}; expected one row of numbers in [{low:.6g}, {high:.6g}]")
    degree = min(3, b - 1)
    knots = np.concatenate([[low] * degree, np.linspace(low, high, b - degree + 1), [high] * degree])
    return np.asarray(BSpline.design_matrix(np.clip(lam, low, high), knots, degree).toarray())


def diagonalizable(graph: Graph, max_condition: float = 10.0) -> Graph:
    """`graph` if its eigenvectors have a condition number up to `max_condition`, else the one of (S + S^T)/2."""
    try:
        fourier_basis(graph, max_condition=max_condition)
    except NotDiagonalizable:
        return Graph((graph.S + graph.S.T) / 2)
    return graph
