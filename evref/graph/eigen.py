"""Eigenvectors of S: sorted, scaled, inverted and checked; :mod:`evref.graph.fourier` is what one calls.

Every function returns the six arguments of `Fourier`: eigenvalues (k,), U (N, k), U_inverse (k, N), the condition
number of U, the kind of its columns, and each column's conjugate partner (k,).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from .support import Graph

MAX_CONDITION = 1e6  # leaves ten digits to a result; docs/spectral.md says which Jordan blocks it finds

Basis = tuple[np.ndarray, np.ndarray, np.ndarray, float, str, np.ndarray]


class NotDiagonalizable(ValueError):
    """S has no basis of eigenvectors, or one too ill-conditioned to compute with."""


def full(graph: Graph, max_condition: float) -> Basis:
    """All N of them: LAPACK's symmetric or general solver."""
    S = dense(graph)
    if graph.is_symmetric:
        eigenvalues, U = np.linalg.eigh(S)
        U = U * _phases(U)
        return eigenvalues, U, U.T, 1.0, "orthonormal", np.arange(len(S))
    eigenvalues, U = _real_where_exact(*np.linalg.eig(S))  # conjugates side by side, the positive imaginary part first
    return _finished(eigenvalues, U, _neighbours(eigenvalues), max_condition)


def partial(graph: Graph, k: int, low: bool, max_condition: float) -> Basis:
    """k of them, or k + 1 where that completes a pair, by Arnoldi or Lanczos from a fixed start."""
    from scipy.sparse.linalg import eigs, eigsh

    n_nodes = graph.n_nodes
    if k + 2 >= n_nodes or n_nodes <= 64:  # ARPACK needs room, and small graphs need no ARPACK
        return _selected(full(graph, max_condition), k, low)
    S, start = graph.S.astype(np.float64), np.random.default_rng(0).uniform(0.5, 1.5, n_nodes)
    if graph.is_symmetric:
        eigenvalues, U = eigsh(S, k=k, which="SA" if low else "LA", v0=start)
        order = np.argsort(eigenvalues, kind="stable")
        U = U[:, order] * _phases(U[:, order])
        return eigenvalues[order], U, U.T, 1.0, "orthonormal", np.arange(k)
    side: Any = "SR" if low else "LR"
    eigenvalues, U = _paired(eigs(S, k=k + 1, which=side, v0=start), k, low)
    left_values, left = _paired(eigs(S.T, k=k + 1, which=side, v0=start), k, low)
    apart = np.abs(eigenvalues - left_values).max() if U.shape == left.shape else np.inf
    if not apart <= 1e-6 * max(np.abs(eigenvalues).max(), 1e-300):
        raise NotDiagonalizable(f"{k} extreme eigenvalues of S and of its transpose differ by {apart:.1e}; expected 0")
    partner = _neighbours(eigenvalues)
    if (eigenvalues.imag == 0).all():
        eigenvalues, U, left = eigenvalues.real, U.real, left.real
    return _finished(eigenvalues, U, partner, max_condition, left)


def given(graph: Graph, eigenvectors: Any, max_condition: float) -> Basis:
    """The caller's eigenvectors, once they are known to be such."""
    S = dense(graph)
    U = checks.as_array("eigenvectors", eigenvectors)
    if U.dtype.kind != "c":
        U = checks.as_floating("eigenvectors", U).astype(np.float64)
    if U.shape != S.shape:
        raise ValueError(f"eigenvectors has shape {U.shape}; expected {S.shape}")
    checks.require_finite("eigenvectors", U)
    norm = np.linalg.norm(U, axis=0)
    if (norm == 0).any():
        raise ValueError(f"eigenvectors has a zero column, number {int(np.argmin(norm))}; expected a basis")
    U = U / norm
    U = U * _phases(U)  # an eigenvector that is real up to a factor becomes real
    if np.abs(U.imag).max() <= 1e-12:
        U = U.real
    eigenvalues = np.einsum("in,in->n", U.conj(), S @ U)
    residual = float(np.abs(S @ U - U * eigenvalues).max())
    if residual > 1e-8 * max(float(np.abs(S).max()), 1e-300):
        raise ValueError(f"eigenvectors is no basis of eigenvectors of S: S U - U Λ reaches {residual:.1e}")
    partner = np.arange(len(S))
    for n in np.flatnonzero(np.abs(U.imag).max(axis=0) > 1e-12):
        distance = np.abs(U - U[:, n].conj()[:, None]).max(axis=0)
        partner[n] = int(np.argmin(distance))
        if distance[partner[n]] > 1e-8:
            raise ValueError(
                f"eigenvectors has a complex column {n} without its conjugate; expected columns real or in pairs"
            )
    eigenvalues = eigenvalues if np.abs(eigenvalues.imag).max() > 1e-12 * np.abs(S).max() else eigenvalues.real
    if np.iscomplexobj(eigenvalues):
        own = partner == np.arange(partner.size)
        eigenvalues[own] = eigenvalues[own].real
        eigenvalues = (eigenvalues + eigenvalues[partner].conj()) / 2
    return _finished(eigenvalues, U, partner, max_condition)


# ---- the pieces ------------------------------------------------------------------------------------------------------
def dense(graph: Graph) -> np.ndarray:
    return graph.dense_shift().astype(np.float64)


def _real_where_exact(eigenvalues: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as real arrays if no imaginary part is other than 0: since NumPy 2.5 `eig` returns complex ones always."""
    if eigenvalues.imag.any() or U.imag.any():
        return eigenvalues, U
    return np.ascontiguousarray(eigenvalues.real), np.ascontiguousarray(U.real)


def _phases(U: np.ndarray) -> np.ndarray:
    """Factors of modulus 1 that make the largest entry of every column real and positive (the first such entry)."""
    size = np.abs(U)
    pick = np.argmax(size >= size.max(axis=0) * (1 - 1e-8), axis=0)
    entries = U[pick, np.arange(U.shape[1])]
    return np.asarray(np.conj(entries) / np.abs(entries))


def _neighbours(eigenvalues: np.ndarray) -> np.ndarray:
    """Partners where conjugates stand side by side, the positive imaginary part first."""
    partner = np.arange(eigenvalues.size)
    first = np.flatnonzero(eigenvalues.imag > 0)
    partner[first], partner[first + 1] = first + 1, first
    return partner


def _finished(
    eigenvalues: np.ndarray, U: np.ndarray, partner: np.ndarray, max_condition: float, left: np.ndarray | None = None
) -> Basis:
    """Sorted, scaled and inverted; `left` spans the left eigenvectors where U is not square."""
    U = U / np.linalg.norm(U, axis=0)
    scale = max(float(np.abs(eigenvalues).max(initial=0)), 1e-300)
    head = np.minimum(partner, np.arange(partner.size))  # both of a pair sort by the same keys, and stay together
    second = np.where(eigenvalues.imag == 0, np.arange(head.size) != head, eigenvalues.imag < 0)
    keys = np.round(eigenvalues[head].real / scale, 10), np.round(np.abs(eigenvalues[head].imag) / scale, 10)
    order = np.lexsort((second, head, keys[1], keys[0]))
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    eigenvalues, U, partner = eigenvalues[order], U[:, order], place[partner[order]]
    first = np.flatnonzero(partner > np.arange(partner.size))
    U = U * _phases(U)
    U[:, partner[first]] = U[:, first].conj()  # to the last bit
    condition = float(np.linalg.cond(U))
    if not condition <= max_condition:
        raise NotDiagonalizable(
            f"S is not diagonalizable: its eigenvectors have condition number {condition:.3g}, "
            f"expected at most {max_condition:.3g}"
        )
    inverse = np.linalg.inv(U) if left is None else np.linalg.solve(left.T @ U, left.T)
    orthonormal = first.size == 0 and condition <= 1 + 1e-10
    kind = "complex" if first.size else "orthonormal" if orthonormal else "real"
    return eigenvalues, U, inverse, condition, kind, partner


def _selected(basis: Basis, k: int, low: bool) -> Basis:
    """The k first or last columns, one more where that completes a pair."""
    eigenvalues, U, inverse, _, kind, partner = basis
    edge = k if low else len(U) - k  # the first column that stays out, or that comes in
    if 0 < edge < len(U) and partner[edge] == edge - 1:
        edge += 1 if low else -1
    columns = slice(0, edge) if low else slice(edge, len(U))
    U = U[:, columns]
    condition = float(np.linalg.cond(U))
    return eigenvalues[columns], U, inverse[columns], condition, kind, partner[columns] - columns.start


def _paired(found: Any, k: int, low: bool) -> tuple[np.ndarray, np.ndarray]:
    """k eigenvalues from the wanted end, or k + 1 where that completes a conjugate pair; pairs side by side."""
    eigenvalues, U = found
    tolerance = 1e-9 * max(float(np.abs(eigenvalues).max()), 1e-300)
    eigenvalues = np.where(np.abs(eigenvalues.imag) <= tolerance, eigenvalues.real + 0j, eigenvalues)
    rank = np.round(eigenvalues.real / tolerance) * (1 if low else -1)
    order = np.lexsort((-eigenvalues.imag, np.round(np.abs(eigenvalues.imag) / tolerance), rank))
    eigenvalues, U = eigenvalues[order], U[:, order] * _phases(U[:, order])
    cut = k + 1 if k < order.size and eigenvalues[k - 1].imag > 0 else k
    eigenvalues, U = eigenvalues[:cut], U[:, :cut]
    second = np.flatnonzero(eigenvalues.imag < 0)
    eigenvalues[second], U[:, second] = eigenvalues[second - 1].conj(), U[:, second - 1].conj()
    return eigenvalues, U
