r"""Cayley filters with Jacobi iterations as edge-variant recursions.

One transform multiplies z by :math:`\sum_{t=0}^{J} \Gamma^t \Omega` with
:math:`\Omega = (\eta\Delta + \mathrm{i}I)^{-1} (\eta S - \mathrm{i}I)` and :math:`\Gamma = -\eta (\eta\Delta +
\mathrm{i}I)^{-1} O`, the letters "o" and "g" below. Both have the support of I + S.

On a constant diagonal both are polynomials of S, and so is the real filter: :func:`coefficients`.

On any other diagonal the k-th power of a transform is still a sum of products of complex matrices on the support, one
for each word such as o, go, oo, ogo. Splitting every factor but the last into real and imaginary part leaves real
products, and :func:`parallel` adds them up: a sum of real recursions. An edge-variant recursion adds all the states it
passes, so a product of several factors takes two: one that goes all the way, and one that stops short of the last
factor, with the opposite sign, to cancel the states on the way.

Pairs (z', z'') stand for z' + iz'' throughout, as in :mod:`evref.filters.cayley_systems`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from ..contract import NotRepresentable, Parameters
from ..graph import Graph
from .parallel import ParallelEdgeVariant

MAX_TERMS = 1000  # of a parallel sum: their number grows like 2^(K (J + 2))


def coefficients(params: Mapping[str, np.ndarray], d: float, iterations: int) -> np.ndarray:
    """Coefficients of 1, s, ..., s^(K (J + 1)), (K (J + 1) + 1, F, G), of the filter on the constant diagonal d.

    The transform by Horner's rule, transform <- Gamma transform + Omega, with Gamma(s) = -h (s - d) / (hd + i) and
    Omega(s) = (hs - i) / (hd + i).
    """
    h = params["h"][0]
    q = 1 + (h * d) ** 2
    eu, ev = h * d / q, -1 / q  # 1 / (hd + i)
    Gamma = np.array([[h * d * eu, -h * eu], [h * d * ev, -h * ev]])
    Omega = np.array([[ev, h * eu], [-eu, h * ev]])
    transform = Omega
    for _ in range(iterations):
        transform = _convolved(Gamma, transform)
        transform[:, :2] += Omega
    K = len(params["c_re"])
    total = np.zeros((K * (iterations + 1) + 1, *params["c0"].shape), np.result_type(*params.values()))
    total[0] = params["c0"]
    power = np.array([[1.0], [0.0]])
    for c_re, c_im in zip(params["c_re"], params["c_im"], strict=True):
        power = _convolved(transform, power)
        for k, (u, v) in enumerate(power.T):
            total[k] += 2 * (c_re * u - c_im * v)
    return total


def n_terms(order: int, iterations: int) -> int:
    """Recursions in the parallel sum: two for each real product, one for the first word, o, which also carries c_0."""
    return sum((2 ** (iterations + 2) - 2) ** k for k in range(1, order + 1)) - 1


def parallel(graph: Graph, params: Mapping[str, np.ndarray], iterations: int) -> tuple[ParallelEdgeVariant, Parameters]:
    """The parallel sum of edge-variant recursions that equals the filter, whatever the diagonal of S."""
    K, (F, G) = len(params["c_re"]), params["c0"].shape
    order, terms = K * (iterations + 1), n_terms(K, iterations)
    if terms > MAX_TERMS:
        d = graph.S.diagonal()
        raise NotRepresentable(
            f"the diagonal of S is not constant (it runs from {d.min():g} to {d.max():g}), so that {iterations} Jacobi "
            f"iterations of order {K} are no polynomial in S; they are a parallel sum of {terms} recursions, more than "
            f"{MAX_TERMS}: expected a smaller order or fewer iterations, or a constant diagonal"
        )
    letters = _letters(graph, params["h"][0])
    identity = np.zeros(graph.nnz)
    identity[graph.diagonal] = 1
    phi = np.zeros((order, F, terms, G, graph.nnz), np.result_type(*params.values()))
    p = 0
    for j, word in _words(K, iterations):
        c_re, c_im = 2 * params["c_re"][j - 1][..., None], 2 * params["c_im"][j - 1][..., None]
        last = letters[word[-1]]
        for parts in product((0, 1), repeat=len(word) - 1):
            chain = [letters[letter][part] for letter, part in zip(word, parts, strict=False)]
            # times i for every imaginary part taken, then the real part of c (u + iv)
            re, im = [(c_re, c_im), (-c_im, c_re), (-c_re, -c_im), (c_im, -c_re)][sum(parts) % 4]
            for k, values in enumerate(chain):
                phi[k, :, p : p + 2] = values
            phi[len(chain), :, p] = re * last[0] - im * last[1]
            if chain:
                phi[0, :, p + 1] *= -1
                p += 2
            else:
                phi[0, :, p] += params["c0"][..., None] * identity
                p += 1
    filt = ParallelEdgeVariant(graph, order, G, F, terms=terms, bias="bias" in params)
    embedded = {"phi": phi.reshape(order, F, terms * G, graph.nnz)}
    return filt, {**embedded, "bias": params["bias"]} if "bias" in params else embedded


def _letters(graph: Graph, h: complex) -> dict[str, np.ndarray]:
    """Omega and Gamma on the support of I + S, as pairs (2, nnz)."""
    d = graph.S.diagonal().astype(np.float64)
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    q = 1 + (h * d) ** 2
    eu, ev = (h * d / q)[rows], (-1 / q)[rows]
    S = graph.shift_values().astype(np.float64)
    own, rest = np.zeros(graph.nnz), S.copy()
    own[graph.diagonal], rest[graph.diagonal] = 1, 0
    return {
        "o": np.array([eu * h * S + ev * own, ev * h * S - eu * own]),
        "g": np.array([-h * eu * rest, -h * ev * rest]),
    }


def _words(order: int, iterations: int) -> Iterator[tuple[int, str]]:
    """k and the words of the k-th power, the letter that acts first standing first."""
    for k in range(1, order + 1):
        for powers in product(range(iterations + 1), repeat=k):
            yield k, "".join("o" + "g" * t for t in powers)


def _convolved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of two complex polynomials as pairs of coefficient rows."""
    return np.array(
        [
            np.convolve(a[0], b[0]) - np.convolve(a[1], b[1]),
            np.convolve(a[0], b[1]) + np.convolve(a[1], b[0]),
        ]
    )
