r"""Every real polynomial of S as an edge-variant recursion: the Newton form.

    newton_embedding(graph, coefficients, bias=None) -> (EdgeVariant with zeroth="diagonal", its parameters)

with `coefficients` (K + 1, F, G) in the monomial basis, H_fg = sum_k coefficients[k, f, g] S^k. Any family whose
filters are polynomials of the shift maps itself into the recursion by this function.

On nodes s_0, s_1, ... a polynomial is

.. math:: p(S) = \sum_{k=0}^{K} c_k \prod_{j<k} (S - s_j I), \qquad c_k \text{ the divided differences,}

and every term is the one before it times (c_k / c_(k-1)) (S - s_(k-1) I), a matrix on the support of I + S. Hence

.. math:: \Phi^{(0)} = c_0 I, \qquad \Phi^{(k)} = \frac{c_k}{c_{k-1}} (S - s_{k-1} I).

A division by zero is a matter of the nodes, not of p: they are real numbers of our choice, one set per pair (f, g), and
:func:`newton_nodes` chooses them so that c_0, ..., c_(deg-1) are as far from zero as the polynomial lets them be. With
all nodes at 0 the c_k are the coefficients and this is the telescoping sum Phi^(k) = (phi_k / phi_(k-1)) S, which needs
every coefficient below the degree to differ from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..contract import NotRepresentable, Parameters
from ..graph import Graph, as_graph
from .edge_variant import EdgeVariant, Zeroth

Array = np.ndarray


def newton_embedding(
    graph: Graph, coefficients: Any, *, bias: Any = None, nodes: Any = None, zeroth: Zeroth = "diagonal"
) -> tuple[EdgeVariant, Parameters]:
    """The edge-variant bank that equals sum_k coefficients[k] S^k, exactly, for every real polynomial.

    With zeroth="none", eq. (evConv, 9) to the letter, Phi^(1) is a factor of every term. What can be written with Phi's
    that are polynomials of S *of degree 0 or 1* are then the p of degree up to K - 1 (Phi^(1) = c_0 I, and the order
    is one too high) and those of degree K with a real root s_* (Phi^(1) = c_0 (S - s_* I), then the Newton form of the
    quotient). With zeroth="identity" the same holds for p - 1. This function takes such Phi's only. Where polynomials
    of higher degree have the support of I + S too (null-space dimension d > 2: R8 of docs/readings.md), or where Phi
    need not commute with S, other matrices may reach a p that is refused here: R4 of docs/readings.md has examples.

    The map is analytic in the coefficients at fixed nodes, and the nodes depend on their real parts alone, so that a
    complex step passes through. Where the degree drops below K - 1 the map is still exact at that point, but has no
    derivative in the coefficients above degree + 1: two vanishing terms leave their quotient undetermined.

    Parameters
    ----------
    graph : Graph
        Its S is the shift.
    coefficients : array_like, shape (K + 1, out_features, in_features)
        Monomial basis, lowest power first.
    bias : array_like, shape (out_features,), optional
    nodes : array_like, shape (K,) or (K, out_features, in_features), optional
        s_0, ..., s_(K-1); :func:`newton_nodes` by default. Only with zeroth="diagonal".
    zeroth : {"diagonal", "none", "identity"}
        As for :class:`EdgeVariant`.

    Raises
    ------
    NotRepresentable
        A divided difference below the degree is zero on the `nodes` given; without a Phi^(0): p has degree K and no
        real root, so that no Phi's of degree 0 or 1 in S give it.

    Examples
    --------
    1 + s^2 has a zero coefficient in the middle:

    >>> import numpy as np, evref as ev
    >>> graph = ev.generators.path(3)
    >>> filt, params = newton_embedding(graph, np.array([1.0, 0.0, 1.0]).reshape(3, 1, 1))
    >>> filt.matrix(params)[0, 0].round(12)
    array([[2., 0., 1.],
           [0., 3., 0.],
           [1., 0., 2.]])
    """
    as_graph(graph)
    given = _as_bank(coefficients)
    K, F, G = given.shape[0] - 1, given.shape[1], given.shape[2]
    a = given.astype(np.result_type(given, np.float64), copy=True)
    if graph.S.nnz == 0:
        a[1:] = 0  # p(0) is all there is to say
    params: dict[str, Array] = {}
    if checks.as_choice("zeroth", zeroth, Zeroth) == "diagonal":
        s = newton_nodes(graph, a) if nodes is None else _as_nodes(nodes, (K, F, G))
        c = divided_differences(a, s)
        params["phi"] = _factors(graph, _ratios(a, c), s)
        params["phi0"] = np.broadcast_to(c[0][..., None], (F, G, graph.n_nodes))
    else:
        if nodes is not None or K == 0:
            raise ValueError(f"zeroth is {zeroth!r}; expected 'diagonal' where nodes are given or the order is 0")
        a[0] -= zeroth == "identity"
        less = " minus 1" if zeroth == "identity" else ""
        slope, root, quotient = _first_factor(a, less)  # p = (slope S - root I) quotient
        s = newton_nodes(graph, quotient)
        c = divided_differences(quotient, s)
        first = c[0] * slope, c[0] * root
        ratio = np.concatenate([first[0][None], _ratios(quotient, c)])
        params["phi"] = _factors(graph, ratio, np.concatenate([np.zeros((1, F, G)), s]))
        params["phi"][0][..., graph.diagonal] -= first[1][..., None]
    if bias is not None:
        bias = checks.as_floating("bias", bias)
        if bias.shape != (F,):
            raise ValueError(f"bias has shape {bias.shape}; expected ({F},), one per output feature")
        params["bias"] = bias
    filt = EdgeVariant(graph, K, G, F, zeroth=zeroth, bias=bias is not None)
    return filt, {name: np.array(value, dtype=given.dtype) for name, value in params.items()}


def newton_nodes(graph: Graph, coefficients: Any) -> Array:
    """Nodes s_0, ..., s_(K-1) for every pair, shape (K, F, G), from the real parts of the coefficients.

    Greedy: the next node is where the part of p that is not yet interpolated is largest, over a grid on [-bound, bound]
    with a bound on the spectral radius. There neither the product over the nodes so far nor the next divided difference
    is zero, and the nodes spread like Leja points, on which the Newton form is stable.
    """
    a = _as_bank(coefficients).real.astype(np.float64)
    K = len(a) - 1
    bound = spectral_bound(graph)
    powers = (bound ** np.arange(K + 1)).reshape(-1, 1, 1)
    q = a * powers  # the quotient left to interpolate, in t = s / bound, so that no power of it hides a coefficient
    grid = np.cos(np.linspace(0, np.pi, 8 * (K + 1) + 1))
    product = np.ones((grid.size, *a.shape[1:]))  # over the nodes so far, at each point of the grid
    nodes = np.empty((K, *a.shape[1:]))
    for k in range(K):
        value = _horner(q, grid)
        nodes[k] = grid[np.argmax(np.abs(product * value), axis=0)]
        product *= grid.reshape(-1, 1, 1) - nodes[k]
        q = _divided(q, nodes[k])[1]
    return bound * nodes


def divided_differences(coefficients: Array, nodes: Array) -> Array:
    """c_0, ..., c_K of p on s_0, ..., s_(K-1) (c_K is the leading coefficient), by repeated synthetic division."""
    q = coefficients
    c = []
    for s in nodes:
        value, q = _divided(q, s)
        c.append(value)
    return np.stack([*c, q[0]])


def spectral_bound(graph: Graph) -> float:
    """An upper bound, above zero, on |lambda| over the eigenvalues of S.

    For a positive v no eigenvalue exceeds max_i (|S| v)_i / v_i (Collatz and Wielandt); a few steps of the power method
    make it tight.
    """
    weights = abs(graph.S).astype(np.float64)
    v = np.ones(graph.n_nodes)
    bound = np.inf
    for _ in range(20):
        moved = weights @ v
        bound = min(bound, float((moved / v).max()))
        v = moved / max(bound, 1e-300) + v
        v /= v.max()
        v = np.maximum(v, 1e-9)  # any positive v gives a bound
    return bound if bound > 0 else 1.0


# ---- the pieces ------------------------------------------------------------------------------------------------------
def _as_bank(coefficients: Any) -> Array:
    a = checks.as_floating("coefficients", coefficients)
    if a.ndim != 3 or 0 in a.shape:
        raise ValueError(f"coefficients has shape {a.shape}; expected (order + 1, out_features, in_features)")
    checks.require_finite("coefficients", a)
    return a


def _as_nodes(nodes: Any, shape: tuple[int, ...]) -> Array:
    s = checks.as_floating("nodes", nodes)
    if s.shape not in (shape, shape[:1]):
        raise ValueError(f"nodes has shape {s.shape}; expected {shape} or {shape[:1]}")
    checks.require_finite("nodes", s)
    return np.broadcast_to(s.reshape(*s.shape, *(1,) * (3 - s.ndim)), shape)


def _factors(graph: Graph, ratio: Array, s: Array) -> Array:
    """ratio_k (S - s_k I) on the support, shape (K, F, G, nnz)."""
    phi = ratio[..., None] * graph.shift_values()
    phi[..., graph.diagonal] -= (ratio * s)[..., None]
    return phi


def _first_factor(a: Array, less: str) -> tuple[Array, Array, Array]:
    """slope, root and quotient with p = (slope s - root) quotient: (0, -1) below degree K, else a real root of p.

    `less` is what the caller took off the polynomial it was given, for the message.
    """
    K, (F, G) = len(a) - 1, a.shape[1:]
    slope, root = np.zeros((F, G)), np.full((F, G), -1, a.dtype)
    quotient = a[:-1].copy()
    for f, g in np.argwhere(a[-1].real != 0):
        p = np.polynomial.Polynomial(a[:, f, g].real)
        roots = p.roots()
        nearest = roots[np.argmin(np.abs(roots.imag))]
        size = np.polynomial.Polynomial(np.abs(p.coef))(abs(nearest.real))  # what p(root) is to be small against
        if abs(p(nearest.real)) > 1e-12 * size:
            raise NotRepresentable(
                f"the polynomial ({f}, {g}){less} has degree {K} and no real root, the nearest being {nearest:.3g}: "
                "without a Phi^(0) to learn, Phi^(1) is a factor of it, and the Newton form has Phi's of degree 0 or 1 "
                "in S (on some graphs others would do, R4); expected a real root, degree < order, or zeroth='diagonal'"
            )
        r, slope_there = nearest.real, p.deriv()(nearest.real)
        if np.iscomplexobj(a) and slope_there != 0:  # a simple root moves with the coefficients: r' = -p' / slope
            r = r - 1j * np.polynomial.Polynomial(a[:, f, g].imag)(r) / slope_there
        slope[f, g], root[f, g] = 1, r
        quotient[:, f, g] = _divided(a[:, f, g], r)[1]
    return slope, root, quotient


def _horner(q: Array, points: Array) -> Array:
    """q_fg at the points, shape (points, F, G)."""
    value = np.zeros((points.size, *q.shape[1:]), q.dtype)
    for coefficient in q[::-1]:
        value = value * points.reshape(-1, 1, 1) + coefficient
    return value


def _divided(q: Array, s: Array) -> tuple[Array, Array]:
    """q = (variable - s) quotient + value: Horner's scheme leaves both."""
    b = q.copy()
    for i in range(len(b) - 2, -1, -1):
        b[i] += s * b[i + 1]
    return b[0], b[1:]


def _ratios(a: Array, c: Array) -> Array:
    """c_k / c_(k-1) for k = 1..K, zero once the polynomial is used up; the degree is that of the real parts."""
    K = len(a) - 1
    nonzero = a.real != 0
    degree = np.where(nonzero.any(axis=0), K - np.argmax(nonzero[::-1], axis=0), -1)  # (F, G)
    k = np.arange(1, K + 1).reshape(-1, 1, 1)
    stuck = (c.real[:-1] == 0) & (k <= degree)
    if stuck.any():
        j, f, g = (int(i) for i in np.argwhere(stuck)[0])
        raise NotRepresentable(
            f"divided difference c_{j} of the polynomial ({f}, {g}) of degree {degree[f, g]} is zero on these nodes: "
            f"no Phi^({j + 1}) leads from the term {j} to the term {j + 1}; expected nodes where c_0..c_{{degree-1}} "
            "are not zero"
        )
    used = k <= degree + 1  # k = degree + 1 is 0 / c_degree, and carries the derivative
    used &= c.real[:-1] != 0
    return np.where(used, c[1:] / np.where(used, c[:-1], 1), 0)
