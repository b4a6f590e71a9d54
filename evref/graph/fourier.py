"""The graph Fourier transform: eigenvectors of S, what they are worth, and filters as functions of the eigenvalues.

S = U Λ U⁻¹ (section II-A of the paper). A symmetric S has a real orthonormal U. A general S may have complex
eigenvalues, which come in conjugate pairs because S is real, and U may be ill-conditioned or not exist at all: that is
an error here, with the condition number in it, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from .. import checks
from . import eigen
from .argument import as_graph
from .eigen import MAX_CONDITION, NotDiagonalizable
from .support import Graph

__all__ = ["Fourier", "NotDiagonalizable", "RepeatedEigenvaluesWarning", "fourier_basis", "partial_fourier_basis"]

EPS = float(np.finfo(np.float64).eps)


class RepeatedEigenvaluesWarning(UserWarning):
    """Some eigenvalues coincide: the eigenvectors, and whatever depends on them one by one, are a choice."""


@dataclass(frozen=True, eq=False)
class Fourier:
    """Eigenvectors of a shift operator: all of them, or k (then U has k columns and the inverse is a projection).

    Attributes
    ----------
    eigenvalues : ndarray, shape (k,)
        Rising; complex ones by real part, then by the size of the imaginary part, the conjugate with the positive
        imaginary part first and its partner next to it.
    U : ndarray, shape (N, k)
        Columns of length 1, their largest entry real and positive.
    U_inverse : ndarray, shape (k, N)
        U⁻¹ (its k rows). Uᴴ only where U is orthonormal.
    condition : float
        Condition number of U: by how much a GFT and its inverse may magnify rounding.
    kind : {"orthonormal", "real", "complex"}
        What the columns of U are; "complex" columns come in conjugate pairs.
    partner : ndarray of int, shape (k,)
        The column that is the conjugate of this one; a real column is its own.
    """

    eigenvalues: np.ndarray
    U: np.ndarray
    U_inverse: np.ndarray
    condition: float
    kind: str
    partner: np.ndarray

    @property
    def n_nodes(self) -> int:
        return self.U.shape[0]

    # ---- the transform -----------------------------------------------------------------------------------------------
    def gft(self, x: Any) -> np.ndarray:
        """x̂ = U⁻¹ x along the last axis; complex where U is. float32 stays single.

        >>> from evref.graph import generators
        >>> fourier_basis(generators.complete(2)).gft([1.0, 1.0]).round(12)
        array([0.        , 1.41421356])
        """
        checks.refuse_labelled("x", x)
        x = self._signal("x", checks.as_floating("x", x), self.n_nodes)
        return x @ self.U_inverse.T.astype(np.result_type(x.dtype, self._unit(x)), copy=False)

    def inverse(self, x_hat: Any) -> np.ndarray:
        """x = U x̂ along the last axis, real.

        Raises
        ------
        ValueError
            The result has an imaginary part beyond rounding: x̂ was not the transform of a real signal.
        """
        x_hat = checks.as_array("x_hat", x_hat)
        if x_hat.dtype.kind != "c":
            x_hat = checks.as_floating("x_hat", x_hat)
        x_hat = self._signal("x_hat", x_hat, self.eigenvalues.size)
        x = x_hat @ self.U.T.astype(np.result_type(x_hat.dtype, self._unit(x_hat)), copy=False)
        return self._real("the inverse transform", x, float(np.abs(x_hat).max(initial=0)))

    def filter(self, h: np.ndarray | Callable[[np.ndarray], Any], x: Any) -> np.ndarray:
        """y = U h(Λ) U⁻¹ x, eq. (filtVx, 1), for a transfer function given as values (k,) or as a function of λ.

        >>> from evref.graph import generators
        >>> graph = generators.path(3)
        >>> fourier_basis(graph).filter(lambda lam: lam**2, [1.0, 0.0, 0.0]).round(12)  # S² x
        array([1., 0., 1.])
        """
        return self.inverse(self.gft(x) * self.values(h))

    def matrix(self, h: np.ndarray | Callable[[np.ndarray], Any]) -> np.ndarray:
        """H(S) = U h(Λ) U⁻¹, dense and real."""
        h = self.values(h)
        H = (self.U * h) @ self.U_inverse
        return self._real("the filter", H, float(np.abs(h).max(initial=0)))

    def values(self, h: Any) -> np.ndarray:
        """A transfer function at the eigenvalues, shape (k,), checked."""
        values = checks.as_array("h", h(self.eigenvalues) if callable(h) else h)
        if values.ndim == 0:
            values = np.full(self.eigenvalues.shape, values)
        if values.shape != self.eigenvalues.shape:
            raise ValueError(f"h has shape {values.shape}; expected ({self.eigenvalues.size},), one per eigenvalue")
        if values.dtype.kind != "c":
            values = checks.as_floating("h", values)
        checks.require_finite("h", values)
        return values

    def _unit(self, x: np.ndarray) -> np.dtype:
        single = x.dtype in (np.float32, np.complex64)
        complex_basis = self.kind == "complex"
        return np.dtype((np.complex64 if single else np.complex128) if complex_basis else x.dtype)

    def _signal(self, name: str, x: np.ndarray, size: int) -> np.ndarray:
        if x.ndim == 0 or x.shape[-1] != size:
            raise ValueError(f"{name} has shape {x.shape}; expected (..., {size}), the basis having {size} of them")
        checks.require_finite(name, x)
        return x

    def _real(self, what: str, value: np.ndarray, scale: float) -> np.ndarray:
        """`value` without its imaginary part, once that is known to be rounding."""
        if value.dtype.kind != "c":
            return value
        imaginary = float(np.abs(value.imag).max(initial=0))
        allowed = 100 * np.finfo(value.dtype).eps * self.n_nodes * self.condition * max(scale, 1e-300)
        if imaginary > allowed:
            raise ValueError(
                f"{what} has an imaginary part of {imaginary:.1e}, rounding explains {allowed:.1e}; expected values "
                "that are conjugate on conjugate eigenvalues"
            )
        return np.ascontiguousarray(value.real)

    # ---- the eigenvalues ---------------------------------------------------------------------------------------------
    @cached_property
    def groups(self) -> np.ndarray:
        """Label (k,) of the distinct eigenvalue that each one is, counted in their order.

        Two that differ by no more than their rounding (1e3 eps times the condition number times max |λ|) are one.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        lam = self.eigenvalues
        tolerance = 1e3 * EPS * self.condition * float(np.abs(lam).max(initial=0))
        close = np.abs(lam[:, None] - lam) <= tolerance
        labels = connected_components(csr_array(close), directed=False)[1]
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[inverse]

    @property
    def repeated(self) -> bool:
        """Some eigenvalues coincide."""
        return int(self.groups.max()) + 1 < self.eigenvalues.size

    def total_variation(self) -> np.ndarray:
        """TV(u) = ‖u − S u / |λ_max|‖₁ of every column, scaled to ‖u‖₁ = 1 (Sandryhaila & Moura 2014), shape (k,).

        It is |1 − λ / |λ_max||: for real eigenvalues the largest λ is the smoothest.

        Raises
        ------
        ValueError
            Every eigenvalue is zero.
        """
        largest = float(np.abs(self.eigenvalues).max())
        if largest == 0:
            raise ValueError("lambda_max is 0, every eigenvalue is zero; expected one other than 0")
        return np.asarray(np.abs(1 - self.eigenvalues / largest))

    def by_variation(self) -> np.ndarray:
        """Order of the columns from the smoothest to the most oscillating; conjugates stay next to each other."""
        return np.argsort(np.round(self.total_variation(), 10), kind="stable")

    # ---- in real numbers ---------------------------------------------------------------------------------------------
    @cached_property
    def real_form(self) -> tuple[np.ndarray, np.ndarray]:
        """Real U_R (N, k) and V_R (k, N) with U diag(h) U⁻¹ = U_R D(h) V_R.

        A pair u = u′ + iu″ and its conjugate, with values h = h′ + ih″ and conj(h), is held as the columns u′, u″;
        D(h) has the block [[h′, h″], [−h″, h′]] there and h itself where u is real.
        """
        U, V = self.U.real.copy(), self.U_inverse.real.copy()
        first, second = self.pairs
        U[:, second] = self.U[:, first].imag
        V[first] = 2 * self.U_inverse[first].real
        V[second] = -2 * self.U_inverse[first].imag
        return U, V

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """First and second column of every conjugate pair."""
        first = np.flatnonzero(self.partner > np.arange(self.partner.size))
        return first, self.partner[first]

    def to_real(self, h: np.ndarray) -> np.ndarray:
        """Values (k, ...) that are conjugate on pairs as real coordinates: h where u is real, h′ and h″ on a pair."""
        first, second = self.pairs
        real = np.array(h.real, dtype=np.float64)
        real[second] = h[first].imag
        return real

    def from_real(self, coordinates: np.ndarray) -> np.ndarray:
        """The values (k, ...) of real coordinates: the inverse of `to_real`."""
        first, second = self.pairs
        if first.size == 0:
            return np.array(coordinates)
        h = np.array(coordinates, dtype=np.complex128)
        h[first] = coordinates[first] + 1j * coordinates[second]
        h[second] = coordinates[first] - 1j * coordinates[second]
        return h


# ---- ways to a basis -------------------------------------------------------------------------------------------------
def fourier_basis(graph: Graph, *, eigenvectors: Any = None, max_condition: float = MAX_CONDITION) -> Fourier:
    """Eigenvectors of the graph's shift operator, in float64.

    Parameters
    ----------
    graph : Graph
    eigenvectors : array_like, shape (N, N), optional
        The basis to take, for repeated eigenvalues where it is a choice: columns real, or complex in conjugate pairs.
        Checked against S; they are sorted and scaled like computed ones.
    max_condition : float
        Condition number of U above which S counts as not diagonalizable.

    Raises
    ------
    NotDiagonalizable
        The condition number is above `max_condition`.
    ValueError
        `eigenvectors` are none of S, or not closed under conjugation.

    Examples
    --------
    >>> from evref.graph import generators
    >>> fourier_basis(generators.complete(3)).eigenvalues.round(12)
    array([-1., -1.,  2.])
    >>> fourier_basis(Graph([[0, 1], [0, 0]]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    evref.graph.eigen.NotDiagonalizable: S is not diagonalizable: its eigenvectors have condition number ...
    """
    as_graph(graph)
    max_condition = checks.as_number("max_condition", max_condition, 1)
    if eigenvectors is not None:
        return _frozen(*eigen.given(graph, eigenvectors, max_condition))
    return _frozen(*eigen.full(graph, max_condition))


def partial_fourier_basis(
    graph: Graph, k: int, *, which: Literal["lowest", "highest"] = "lowest", max_condition: float = MAX_CONDITION
) -> Fourier:
    """The k eigenvectors with the lowest or highest eigenvalues (by real part), for graphs too large for all.

    A conjugate pair is never cut: k + 1 come back where the k-th would be half of one. `inverse` then returns the
    projection on these eigenvectors. The iteration starts from a fixed vector, so the result is reproducible.

    Examples
    --------
    >>> from evref.graph import generators
    >>> partial_fourier_basis(generators.path(2000), 2, which="highest").eigenvalues.round(4)
    array([2., 2.])
    """
    as_graph(graph)
    k = checks.as_count("k", k, minimum=1)
    if k > graph.n_nodes:
        raise ValueError(f"k is {k}; expected at most {graph.n_nodes}, the number of nodes")
    low = checks.as_choice("which", which, Literal["lowest", "highest"]) == "lowest"
    return _frozen(*eigen.partial(graph, k, low, checks.as_number("max_condition", max_condition, 1)))


def _frozen(
    eigenvalues: np.ndarray, U: np.ndarray, U_inverse: np.ndarray, condition: float, kind: str, partner: np.ndarray
) -> Fourier:
    arrays = [np.array(a) for a in (eigenvalues, U, U_inverse, partner)]
    for array in arrays:
        array.setflags(write=False)
    return Fourier(arrays[0], arrays[1], arrays[2], condition, kind, arrays[3])
