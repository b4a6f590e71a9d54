"""Which filters keep both the eigenvectors of S and the support of I + S: the null space behind eq. (lamLin, 14).

Φ = U diag(λ) U⁻¹ has vec(Φ) = (U⁻ᵀ ∗ U) λ, ∗ the column-wise Khatri-Rao product. Φ has the support of I + S if λ lies
in the null space of the rows of U⁻ᵀ ∗ U that belong to the zero entries of I + S. This file finds a basis of that null
space and shows how clear-cut its dimension is. For a symmetric S with an edge and a real orthonormal U that dimension
is at least max(2, N - number of non-adjacent pairs), and on most sparse graphs it is 2: docs/spectral.md says what is
proved.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import sparse

from .. import checks
from .fourier import EPS, Fourier, RepeatedEigenvaluesWarning, fourier_basis
from .support import Graph

Repeated = Literal["free", "tied"]
Method = Literal["auto", "direct", "gram"]
DIRECT_UP_TO = 4_000_000  # entries of the Khatri-Rao matrix that are held at once
CANDIDATES_BELOW = 1e-2  # singular values that the Gram matrix, which knows their squares, leaves to a closer look
BLOCK = 2_000_000  # entries of a block of rows


@dataclass(frozen=True, eq=False)
class ShiftInvariantBasis:
    """Basis of the transfer functions whose filter has the support of I + S, and how its dimension was decided.

    Attributes
    ----------
    B : ndarray, shape (N, d)
        Values at the eigenvalues (in the order of `fourier`), conjugate where those are. Columns are orthogonal, with
        mean square 1: Bᴴ B = N I. The first is constant (Φ = I), the second, if there is one, is affine in λ (Φ in
        span{I, S}).
    coordinates : ndarray, shape (N, d)
        B in real coordinates, `fourier.to_real(B)`.
    singular_values : ndarray
        Rising. Of the constraint matrix with columns scaled to length 1 before the rows were selected: for an
        orthonormal U the share of a filter that lies outside the support. With method "gram" those of the candidates
        are exact and the others are roots of eigenvalues.
    threshold : float
        Singular values up to here count as zero.
    method : {"direct", "gram"}
    repeated : {"free", "tied"}
    """

    graph: Graph
    fourier: Fourier
    B: np.ndarray
    coordinates: np.ndarray
    singular_values: np.ndarray
    threshold: float
    method: str
    repeated: str

    @property
    def dimension(self) -> int:
        """d."""
        return self.B.shape[1]

    @property
    def gap(self) -> float:
        """Smallest singular value that counts over the largest that does not: large where the decision is clear."""
        above = self.singular_values[self.dimension :]
        below = max(float(self.singular_values[: self.dimension].max(initial=0)), EPS)
        return float(above[0]) / below if above.size else np.inf

    @cached_property
    def support_values(self) -> np.ndarray:
        """Q (nnz, d): the filters of the columns of B on the support of I + S, so that φ = Q μ."""
        rows = np.repeat(np.arange(self.graph.n_nodes), np.diff(self.graph.indptr))
        Q = np.empty((rows.size, self.dimension))
        step = max(1, BLOCK // self.graph.n_nodes)
        for start in range(0, rows.size, step):
            part = slice(start, start + step)
            Q[part] = _rows(self.fourier, rows[part], self.graph.indices[part]) @ self.coordinates
        return Q

    def report(self) -> str:
        """The decision in one line: dimension, the singular values next to it, the threshold and the gap."""
        near = ", ".join(f"{s:.1e}" for s in self.singular_values[: self.dimension][-3:])
        beyond = ", ".join(f"{s:.1e}" for s in self.singular_values[self.dimension :][:3]) or "none"
        ties = "distinct" if not self.fourier.repeated else f"repeated ({self.repeated})"
        return (
            f"dimension {self.dimension} of {self.fourier.n_nodes}: singular values {near} | {beyond} "
            f"(threshold {self.threshold:.0e}, gap {self.gap:.1e}), eigenvalues {ties}, method {self.method}"
        )


def shift_invariant_basis(
    graph: Graph,
    fourier: Fourier | None = None,
    *,
    repeated: Repeated = "free",
    rtol: float | None = None,
    method: Method = "auto",
) -> ShiftInvariantBasis:
    """Basis B of the null space of C_I (U⁻ᵀ ∗ U), eq. (lamLin, 14) as mended.

    Parameters
    ----------
    graph : Graph
    fourier : Fourier, optional
        Eigenvectors to use; computed otherwise. They matter where eigenvalues repeat.
    repeated : {"free", "tied"}
        "free": every eigenvector has a value of its own, as the paper has it; with repeated eigenvalues the result
        then depends on the choice of U, and a `RepeatedEigenvaluesWarning` says so. "tied": equal eigenvalues have
        equal values; the filters are the polynomials in S with the support of I + S, whatever U is.
    rtol : float, optional
        Singular values up to rtol count as zero; by default 1e-9, or 1e3 eps cond(U) where that is more.
    method : {"auto", "direct", "gram"}
        "direct" takes the singular values of the matrix itself, N² rows at most. "gram" accumulates its N x N Gram
        matrix from whichever is smaller, the support or its complement, and then takes the singular values of the
        matrix itself on the few directions whose eigenvalue is small: squaring costs half the digits, and the closer
        look gives them back. "auto" is "direct" up to 4 million entries.

    Raises
    ------
    NotDiagonalizable
        S has no usable eigenvectors.

    Examples
    --------
    >>> from evref.graph import generators
    >>> shift_invariant_basis(generators.path(6)).dimension  # span{I, S}
    2
    >>> shift_invariant_basis(generators.grid(3, 4)).dimension  # ... and the steps along each side on their own
    3
    """
    fourier = fourier_basis(graph) if fourier is None else fourier
    if not isinstance(fourier, Fourier) or fourier.U.shape != (graph.n_nodes, graph.n_nodes):
        raise ValueError(f"fourier is no full basis of {graph.n_nodes} eigenvectors; expected one from fourier_basis")
    repeated = checks.as_choice("repeated", repeated, Repeated)
    method = checks.as_choice("method", method, Method)
    if rtol is None:
        rtol = max(1e-9, 1e3 * EPS * fourier.condition)
    rtol = checks.as_number("rtol", rtol, 0, 1, open_low=True, open_high=True)
    if repeated == "free" and fourier.repeated:
        warnings.warn(
            f"S has {int(fourier.groups.max()) + 1} distinct eigenvalues on {graph.n_nodes} nodes: the eigenvectors, "
            'and with them the null space, are a choice; repeated="tied" does not depend on it',
            RepeatedEigenvaluesWarning,
            stacklevel=2,
        )
    n_outside = graph.n_nodes**2 - graph.nnz
    if method == "auto":
        method = "direct" if n_outside * graph.n_nodes <= DIRECT_UP_TO else "gram"
    ties = _ties(fourier, repeated)  # (N, r): real coordinates of a transfer function from its free ones
    whole = ties.T @ _gram(fourier) @ ties
    scaled = sparse.csr_array(ties / np.sqrt(np.diag(whole)))  # columns of the whole Khatri-Rao matrix get length 1
    solve = _direct if method == "direct" else _by_gram
    singular_values, directions = solve(graph, fourier, scaled)
    null = scaled @ directions[:, singular_values <= rtol]
    coordinates = _canonical(fourier, null) * np.sqrt(graph.n_nodes)
    B = fourier.from_real(coordinates)
    return ShiftInvariantBasis(graph, fourier, B, coordinates, singular_values, rtol, method, repeated)


def khatri_rao(fourier: Fourier) -> np.ndarray:
    """U⁻ᵀ ∗ U, shape (N², N): vec(U diag(λ) U⁻¹) = (U⁻ᵀ ∗ U) λ, vec column by column.

    >>> from evref.graph import generators
    >>> fourier = fourier_basis(generators.path(3, directed=False))
    >>> S = (khatri_rao(fourier) @ fourier.eigenvalues).reshape(3, 3, order="F")
    >>> bool(np.allclose(S, generators.path(3).S.toarray()))
    True
    """
    from scipy.linalg import khatri_rao as column_wise

    return np.asarray(column_wise(fourier.U_inverse.T, fourier.U))


# ---- the constraint matrix in real coordinates -----------------------------------------------------------------------
def _combined(fourier: Fourier, columns: np.ndarray) -> np.ndarray:
    """Columns for h on the eigenvalues (..., N) turned into columns for the real coordinates h′, h″ of each pair."""
    first, second = fourier.pairs
    if first.size == 0:
        return columns
    out = columns.astype(np.complex128)
    out[..., first] = columns[..., first] + columns[..., second]
    out[..., second] = 1j * (columns[..., first] - columns[..., second])
    return out


def _rows(fourier: Fourier, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Row of the entry (i, j) of Φ, for each pair of nodes: Φ_ij as a linear function of the real coordinates."""
    U, V = fourier.real_form
    left, right = U[i], V.T[j]
    rows = left * right
    first, second = fourier.pairs
    if first.size:
        rows[:, first] += rows[:, second]
        rows[:, second] = left[:, first] * right[:, second] - left[:, second] * right[:, first]
    return rows


def _gram(fourier: Fourier) -> np.ndarray:
    """Gram matrix of all N² rows at once: (UᴴU) ⊙ conj(U⁻¹ U⁻ᴴ), in real coordinates; I for orthonormal U."""
    U, V = fourier.U, fourier.U_inverse
    G = (U.conj().T @ U) * (V.conj() @ V.T)
    return np.asarray(_combined(fourier, _combined(fourier, G).conj().T).conj().T.real)


def _ties(fourier: Fourier, repeated: str) -> np.ndarray:
    N = fourier.n_nodes
    if repeated == "free" or not fourier.repeated:
        return np.eye(N)
    groups, (first, second) = fourier.groups, fourier.pairs
    ties = (groups[:, None] == np.arange(groups.max() + 1)).astype(np.float64)
    ties[second[groups[first] == groups[second]]] = 0  # a real eigenvalue has a real value: no h″
    return ties


def _outside(graph: Graph, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """The zero entries of I + S in the rows from start to stop."""
    mask = np.ones((stop - start, graph.n_nodes), dtype=bool)
    part = slice(graph.indptr[start], graph.indptr[stop])
    mask[np.repeat(np.arange(stop - start), np.diff(graph.indptr[start : stop + 1])), graph.indices[part]] = False
    i, j = np.nonzero(mask)
    return i + start, j


# ---- its small singular values ---------------------------------------------------------------------------------------
def _direct(graph: Graph, fourier: Fourier, scaled: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Singular values, rising, and right singular vectors of the matrix itself."""
    i, j = _outside(graph, 0, graph.n_nodes)
    columns = khatri_rao(fourier)[j * graph.n_nodes + i]
    return _svd(np.asarray(_combined(fourier, columns).real @ scaled))


def _svd(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r = matrix.shape[1]
    if len(matrix) > r:
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
    _, s, Vt = np.linalg.svd(np.concatenate([matrix, np.zeros((r - len(matrix), r))]))
    return s[::-1], Vt[::-1].T


def _by_gram(graph: Graph, fourier: Fourier, scaled: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The same from N x N matrices."""
    N = graph.n_nodes
    step = max(1, BLOCK // N)
    if 2 * graph.nnz <= N * N:  # all rows minus those of the support
        G = scaled.T @ _gram(fourier) @ scaled
        i, j = np.repeat(np.arange(N), np.diff(graph.indptr)), graph.indices
        weight = np.ones(i.size)
        if graph.is_symmetric and fourier.kind == "orthonormal":  # Φ is symmetric: one of each two rows will do
            weight = np.where(i < j, np.sqrt(2), 1.0)[i <= j]
            i, j = i[i <= j], j[i <= j]
        for start in range(0, i.size, step):
            part = slice(start, start + step)
            block = (weight[part, None] * _rows(fourier, i[part], j[part])) @ scaled
            G -= block.T @ block
    else:
        G = np.zeros((scaled.shape[1],) * 2)
        for i, j in _blocks(graph, max(1, step // N)):
            block = _rows(fourier, i, j) @ scaled
            G += block.T @ block
    eigenvalues, directions = np.linalg.eigh(G)
    rough = np.sqrt(np.maximum(eigenvalues, 0))
    n = int((rough <= CANDIDATES_BELOW).sum())
    if n == 0:
        return rough, directions
    chosen = scaled @ directions[:, :n]  # (N, n) real coordinates
    R = np.zeros((0, n))
    rows_at_once = max(1, BLOCK // (N * n))
    for start in range(0, N, rows_at_once):
        stop = min(start + rows_at_once, N)
        i, j = _outside(graph, start, stop)
        entries = np.stack([_phi_rows(fourier, chosen[:, c], start, stop)[i - start, j] for c in range(n)], axis=1)
        R = np.asarray(np.linalg.qr(np.concatenate([R, entries]), mode="r"))
    s, turn = _svd(R)
    return np.concatenate([s, rough[n:]]), np.concatenate([directions[:, :n] @ turn, directions[:, n:]], axis=1)


def _blocks(graph: Graph, nodes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, graph.n_nodes, nodes):
        yield _outside(graph, start, min(start + nodes, graph.n_nodes))


def _phi_rows(fourier: Fourier, coordinates: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Rows start to stop of Φ = U_R D V_R for one transfer function in real coordinates."""
    U, V = fourier.real_form
    part = U[start:stop]
    left = part * coordinates
    first, second = fourier.pairs
    if first.size:
        alpha, beta = coordinates[first], coordinates[second]
        left[:, first] = part[:, first] * alpha - part[:, second] * beta
        left[:, second] = part[:, first] * beta + part[:, second] * alpha
    return np.asarray(left @ V)


# ---- one basis out of many -------------------------------------------------------------------------------------------
def _canonical(fourier: Fourier, null: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the span of `null` that depends on the span alone: 1, λ, then projections of 1, λ, λ², ...

    The polynomials are orthonormalised first (Arnoldi); one is taken if it brings enough that is new. With distinct (or
    tied) eigenvalues the basis is the same on a renumbered graph; what repeated ones leave open is filled from unit
    vectors.
    """
    N, d = null.shape
    weight = np.where(fourier.partner == np.arange(N), 1.0, np.sqrt(2))[:, None]  # h′² + h″² counts for both of a pair

    def times_shift(q: np.ndarray) -> np.ndarray:
        h = fourier.eigenvalues * fourier.from_real(q / weight[:, 0])
        return fourier.to_real(h) * weight[:, 0]

    one = fourier.to_real(np.ones(N)) * weight[:, 0]
    polynomials = np.empty((0, N))  # rows, orthonormal
    q = one
    for _ in range(int(fourier.groups.max()) + 1):
        for _ in range(2):  # twice is enough
            q = q - polynomials.T @ (polynomials @ q)
        size = float(np.linalg.norm(q))
        if size <= 1e-10 * max(np.abs(fourier.eigenvalues).max(), EPS):
            break
        polynomials = np.concatenate([polynomials, (q / size)[None]])
        if len(polynomials) == 2 == d:
            break
        q = times_shift(polynomials[-1])
    basis = polynomials[: min(2, d)]  # both lie in the span exactly
    Q, _ = np.linalg.qr(null * weight)
    for least in (0.3, 0.1, 0.01, 1e-3, 1e-5):
        for q in np.concatenate([polynomials[2:], np.eye(N)]) if len(basis) < d else ():
            new = Q @ (Q.T @ q)
            new -= basis.T @ (basis @ new)
            size = float(np.linalg.norm(new))
            if len(basis) < d and size > least:
                new = Q @ (Q.T @ (new / size))
                new -= basis.T @ (basis @ new)
                basis = np.concatenate([basis, (new / np.linalg.norm(new))[None]])
    return basis.T / weight
