r"""A transfer function given at the eigenvalues as an edge-variant recursion: Newton interpolation on the spectrum.

If S is diagonalizable with r distinct eigenvalues, U diag(h) U^-1 with equal values on equal eigenvalues is the
polynomial of degree r - 1 that takes the values h there. In Newton form on nodes s_0, s_1, ...

.. math:: p(S) = \sum_{k=0}^{r-1} c_k \prod_{j<k} (S - s_j I), \qquad
          \Phi^{(0)} = c_0 I, \quad \Phi^{(k)} = \frac{c_k}{c_{k-1}} (S - s_{k-1} I),

every :math:`\Phi^{(k)}` has the support of I + S. The nodes are the eigenvalues themselves (their real parts, where
complex), in Leja order: each next one is where the product over those before it is largest, which keeps the form stable
in degrees where a monomial basis has no digits left. The order is r - 1, so the filter reaches the whole graph: it is
an edge-variant filter, and not a local one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contract import NotRepresentable, Parameters
from ..graph import Graph
from ..graph.fourier import Fourier
from .edge_variant import EdgeVariant

TRIES = 16  # Leja orders of the nodes, one per first node, and as many others
SMALLEST = 1e-9  # a divided difference below this share of the largest is worth looking for another order


def interpolation_embedding(
    graph: Graph, fourier: Fourier, h: np.ndarray, bias: np.ndarray | None = None, tolerance: float = 1e-9
) -> tuple[EdgeVariant, Parameters]:
    """The EdgeVariant (zeroth="diagonal", order r - 1) that is U diag(h_fg) U^-1, with its parameters.

    Analytic in h: nodes are chosen from the real part of h, everything after that is linear or a ratio.

    Parameters
    ----------
    h : ndarray, shape (F, G, N)
        Real values at the eigenvalues, equal on equal and on conjugate ones (complex within a complex step).

    Raises
    ------
    NotRepresentable
        The values differ on equal eigenvalues; a divided difference vanishes in every order that was tried; or the
        recursion, run on test signals, misses the filter by more than `tolerance`: an outlying eigenvalue or a crowded
        spectrum magnifies rounding beyond a few dozen nodes.
    """
    F, G, N = h.shape
    _, members = np.unique(fourier.groups, return_index=True)
    lam, values = fourier.eigenvalues[members], h[..., members]  # (r,) distinct, (F, G, r)
    spread = float(np.abs(h.real - values.real[..., fourier.groups]).max())
    if spread > 1e-8 * float(np.abs(h.real).max(initial=0)):
        raise NotRepresentable(
            f"not a function of the eigenvalues: values on equal ones differ by {spread:.1e}, expected the same value"
        )
    r = lam.size
    phi = np.zeros((r - 1, F, G, graph.nnz), h.dtype)
    phi0 = np.zeros((F, G, N), h.dtype)
    S = graph.shift_values().astype(np.float64)
    identity = np.zeros(graph.nnz)
    identity[graph.diagonal] = 1.0
    with np.errstate(all="ignore"):  # what overflows is found out below
        orders = [_leja(lam, start) for start in np.linspace(0, r - 1, min(r, TRIES)).astype(int)]
        rng = np.random.default_rng(0)  # less stable, for the values that vanish in every Leja order
        orders += [rng.permutation(r) for _ in range(TRIES)]
        for f in range(F):
            for g in range(G):
                nodes, first, ratios = _newton(lam, values[f, g], orders)
                phi0[f, g] = first
                for k in range(1, r):
                    phi[k - 1, f, g] = ratios[k - 1] * (S - nodes[k - 1] * identity)
        filt = EdgeVariant(graph, r - 1, G, F, zeroth="diagonal")
        _check(filt, {"phi": phi, "phi0": phi0}, fourier, h, tolerance)
    if bias is None:
        return filt, {"phi": phi, "phi0": phi0}
    filt = EdgeVariant(graph, r - 1, G, F, zeroth="diagonal", bias=True)
    return filt, {"phi": phi, "phi0": phi0, "bias": bias}


def _check(filt: EdgeVariant, params: Parameters, fourier: Fourier, h: np.ndarray, tolerance: float) -> None:
    """Run both filters on four signals: in long products rounding grows, and only the run itself shows by how much."""
    x = np.random.default_rng(0).standard_normal((4, filt.in_features, filt.graph.n_nodes))
    U, V = fourier.real_form
    expected = np.einsum("fgn,xgn->xfn", h.real, x @ V.T) @ U.T
    real = {name: np.ascontiguousarray(value.real) for name, value in params.items()}
    error = np.inf
    if all(np.isfinite(value).all() for value in real.values()):
        y, _ = filt.forward(real, x)
        size = max(float(np.abs(expected).max()), float(np.abs(h.real).max()), 1e-300)
        error = float(np.abs(y - expected).max()) / size
    if not error <= tolerance:
        raise NotRepresentable(
            f"the interpolating polynomial of order {filt.order} exists, but in rounded arithmetic its recursion "
            f"misses the filter by {error:.1e} (relative); expected at most {tolerance:.0e}"
        )


def _capacity(lam: np.ndarray) -> float:
    """A quarter of the width of the spectrum: products over Leja points grow like its powers."""
    return max(float(np.abs(lam - lam.mean()).max()) / 2, 1e-300)


def _leja(lam: np.ndarray, start: int) -> np.ndarray:
    """Order of the eigenvalues: the next is where the product of the distances to the nodes so far is largest."""
    order = [start]
    logs = np.zeros(lam.size)
    for _ in range(lam.size - 1):
        distance = np.abs(lam - lam[order[-1]].real) / _capacity(lam)
        logs += np.log(np.maximum(distance, 1e-300))  # zero where a real eigenvalue sits below a complex one
        logs[order] = -np.inf
        order.append(int(np.argmax(logs)))
    return np.array(order)


def _newton(lam: np.ndarray, values: np.ndarray, orders: list[np.ndarray]) -> tuple[np.ndarray, Any, np.ndarray]:
    """Nodes, c_0 and c_k / c_(k-1), of the first order whose inner c_k all stay away from zero, or of the best."""
    best, nodes, c = 0.0, lam.real, values[:0]
    for order in orders:
        candidate = _coefficients(lam[order], lam[order].real, values[order])
        size = np.abs(candidate.real)
        degree = int(np.flatnonzero(size > 1e-13 * size.max()).max(initial=0))
        share = float(size[:degree].min() / size.max()) if degree else 1.0
        if share > best:
            best, nodes, c = share, lam[order].real, candidate
        if share >= SMALLEST:
            break
    if best == 0:
        raise NotRepresentable(
            f"a divided difference of the transfer function vanishes in each of {len(orders)} orders of the "
            f"{lam.size} distinct eigenvalues; expected one order in which those below the degree do not"
        )
    alive = np.abs(c.real[:-1]) > 1e-200 * np.abs(c.real).max()  # where only zeros follow, zeros will do
    return nodes, c[0], np.where(alive, c[1:] / np.where(alive, c[:-1], 1.0), 0.0) / _capacity(lam)


def _coefficients(lam: np.ndarray, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """c with sum_k c_k prod_{j<k} (lam - s_j) / unit = values: divided differences, in units of the capacity."""
    from scipy.linalg import solve_triangular

    r, unit = lam.size, _capacity(lam)
    A = np.ones((r, r), lam.dtype)
    for k in range(1, r):
        A[:, k] = A[:, k - 1] * (lam - nodes[k - 1]) / unit
    if np.iscomplexobj(lam):
        # values are real and equal on conjugates: one row for the real part, one that asks the imaginary part to vanish
        lower = lam.imag < 0
        return np.asarray(np.linalg.solve(np.where(lower[:, None], A.imag, A.real), np.where(lower, 0, values)))
    return np.asarray(solve_triangular(np.tril(A), values, lower=True, check_finite=False))
