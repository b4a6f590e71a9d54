"""The compiled twin of :mod:`evref.kernels.shift_reference`, for float32 and float64.

This file decides how work is laid out and shared; the loops are in :mod:`evref.kernels.shift_loops`. Work goes tile by
tile (:mod:`evref.kernels.layout`), each from the user's layout and back, so that scratch is one tile whatever the
batch; only the states, which the adjoint needs, are kept for all (computing them again was no faster). Threads share
rows in a product with S and nodes in the mixing, and every number is the sum of the same terms in the same order,
however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from ..graph.support import Graph
from . import compiled, loops, shift_loops, threads
from .groups import Groups, one_group
from .layout import ALIGNMENT, aligned_empty, tile_width

Array = np.ndarray


class Matrix(NamedTuple):
    """A matrix by rows as the loops take it, the same one doubled, and -1."""

    indptr: Array
    indices: Array
    values: Array
    doubled: Array
    minus: np.floating


def shift_forward(
    graph: Graph, weights: Array, x: Array, *, chebyshev: bool = False, groups: Groups | None = None, first: int = 0
) -> tuple[Array, Array]:
    """See :func:`evref.kernels.shift_reference.shift_forward`. States: (tiles, taps, G, nodes, width)."""
    B, G, N = x.shape
    weights, groups = _by_group(weights, groups, N)
    F, width = weights.shape[1], tile_width(B, x.dtype)
    kernels = _kernels(width, x.dtype)
    matrix = _matrix(graph, x.dtype, False)
    x = compiled._writable(x)
    y = aligned_empty((B, F, N), x.dtype)
    states = aligned_empty((-(-B // width), first + len(weights), G, N, width), x.dtype)
    y_tile = aligned_empty((1, F, N, width), x.dtype)
    coefficients = weights, groups.copied
    if _threads(matrix, states, F) == 1:
        kernels.forward_whole(*matrix, *coefficients, x, states, y_tile, y, chebyshev, first)
        return y, states
    for t, tile in enumerate(states):
        samples, used = slice(t * width, (t + 1) * width), tile[first:]
        _pack(x[samples], tile[:1])
        _recursion(kernels, matrix, tile.reshape(-1, width), (states.shape[1] - 1, G, N), False, chebyshev)
        _share(N, lambda _, lo, hi, used=used: kernels.mix(*coefficients, used, y_tile, lo, hi))  # type: ignore[misc]
        _unpack(y_tile, y[samples])
    return y, states


def shift_backward(
    graph: Graph, weights: Array, saved: Array, grad_y: Array, *,
    chebyshev: bool = False, groups: Groups | None = None, first: int = 0,
) -> tuple[Array, Array]:  # fmt: skip
    """See :func:`evref.kernels.shift_reference.shift_backward`."""
    shape, dtype = weights.shape, saved.dtype
    _, taps, G, N, width = saved.shape
    weights, groups = _by_group(weights, groups, N)
    F, n_pieces = weights.shape[1], len(groups.pieces) - 1
    kernels, back = _kernels(width, dtype), _matrix(graph, dtype, True)
    grad_y = compiled._writable(grad_y)
    grad_x = aligned_empty((len(grad_y), G, N), dtype)
    partial = np.zeros((*shape[:3], n_pieces), dtype)
    n = _threads(back, saved, 2 * F)
    n_totals = -(-partial[..., 0].size * _lanes(width, dtype) // width)  # in rows
    if n == 1:
        scratch = aligned_empty(((F + taps) * N + n_totals, width), dtype)
        kernels.backward_whole(*back, weights, *groups[1:4], saved, grad_y, scratch, partial, grad_x, chebyshev, first)
    else:
        v, totals = aligned_empty((1, F, N, width), dtype), aligned_empty((n, n_totals, width), dtype)
        for t, tile in enumerate(saved):
            start, used = t * width, tile[first:]
            _pack(grad_y[start : start + width], v)
            _share(
                n_pieces,
                lambda slot, lo, hi, used=used: kernels.inner_products(  # type: ignore[misc]
                    groups.order, groups.pieces, used, v, totals[slot], partial, lo, hi
                ),
            )
            adjoint = _adjoint_by_feature if n <= G else _adjoint_by_row
            adjoint(kernels, back, weights, groups.copied, v, grad_x, start, chebyshev, first)
    if n_pieces > groups.size:
        partial = np.add.reduceat(partial, groups.first, axis=-1)
    return partial.reshape(shape), grad_x


def _adjoint_by_feature(
    kernels: SimpleNamespace, back: Matrix, weights: Array, copied: Array, v: Array, grad_x: Array, start: int,
    chebyshev: bool, first: int,
) -> None:  # fmt: skip
    """grad_x, a thread taking whole input features: none waits for another."""
    G = grad_x.shape[1]
    u = aligned_empty((threads.n_threads(), (first + len(weights)) * copied.size, v.shape[-1]), v.dtype)
    _share(
        G,
        lambda slot, lo, hi: kernels.adjoint(
            *back, weights, copied, v, u[slot], grad_x, start, chebyshev, first, lo, hi
        ),
    )


def _adjoint_by_row(
    kernels: SimpleNamespace, back: Matrix, weights: Array, copied: Array, v: Array, grad_x: Array, start: int,
    chebyshev: bool, first: int,
) -> None:  # fmt: skip
    """grad_x, feature after feature, the threads sharing the nodes: for few features."""
    _, G, N = grad_x.shape
    taps = first + len(weights)
    u = aligned_empty((taps * N, v.shape[-1]), v.dtype)
    for g in range(G):
        u[: first * N] = 0
        _share(N, lambda _, lo, hi, g=g: kernels.mix_adjoint(weights, copied, v, u[first * N :], g, lo, hi))  # type: ignore[misc]
        _recursion(kernels, back, u, (taps - 1, 1, N), True, chebyshev)
        _share(N, lambda _, lo, hi, g=g: kernels.unpack(u, grad_x, start, g, lo, hi))  # type: ignore[misc]


# ---- threads ---------------------------------------------------------------------------------------------------------
def _threads(matrix: Matrix, states: Array, features: int) -> int:
    """How many are worth it for the products with S and the mixing of these states."""
    _, taps, G, N, width = states.shape
    per_tile = width * G * ((taps - 1) * len(matrix.values) + taps * features * N)
    return compiled._useful_threads(len(states) * per_tile)


def _share(n: int, work: Callable[[int, int, int], object]) -> None:
    threads.run(work, compiled._even(n, threads.n_threads()))


def _recursion(
    kernels: SimpleNamespace, matrix: Matrix, rows: Array, sizes: tuple[int, int, int], adjoint: bool, chebyshev: bool
) -> None:
    """Step by step: all threads must be done with one before the next."""
    bounds = compiled._by_entries(matrix.indptr)
    for step in range(sizes[0]):
        threads.run(
            lambda _, lo, hi, step=step: kernels.recursion(  # type: ignore[misc]
                *matrix, rows, sizes, adjoint, chebyshev, step, step + 1, lo, hi
            ),
            bounds,
        )


def _pack(x: Array, tiles: Array) -> None:
    _share(x.shape[2], lambda _, lo, hi: loops.pack_compiled(x, tiles, lo, hi))


def _unpack(tiles: Array, x: Array) -> None:
    _share(x.shape[2], lambda _, lo, hi: loops.unpack_compiled(tiles, x, lo, hi))


# ---- layout ----------------------------------------------------------------------------------------------------------
def _lanes(width: int, dtype: np.dtype) -> int:
    return min(width, ALIGNMENT // dtype.itemsize)


def _kernels(width: int, dtype: np.dtype) -> SimpleNamespace:
    return shift_loops.kernels_for(width, _lanes(width, dtype))


def _matrix(graph: Graph, dtype: np.dtype, transposed: bool) -> Matrix:
    """S, or its transpose by rows, in `dtype`: made once per graph."""
    made = graph._shift_arrays.get((dtype, transposed))
    if made is None:
        S = graph.S.T.tocsr() if transposed else graph.S
        values = S.data.astype(dtype)
        made = Matrix(S.indptr.astype(np.int64), S.indices.astype(np.int32), values, 2 * values, dtype.type(-1))
        graph._shift_arrays[dtype, transposed] = made
    return made


def _by_group(weights: Array, groups: Groups | None, n_nodes: int) -> tuple[Array, Groups]:
    """Weights (taps, F, G, groups); a polynomial's are those of one group."""
    if groups is None:
        weights, groups = weights[..., np.newaxis], one_group(n_nodes)
    return compiled._writable(weights), groups
