"""The compiled twin of :mod:`evref.kernels.shift_reference`, for float32 and float64.

This file decides how work is laid out and shared; the loops are in :mod:`evref.kernels.shift_loops`. Work goes tile by
tile (:mod:`evref.kernels.layout`), each from the user's layout and back, so that scratch is one tile whatever the
batch; only the states, which the adjoint needs, are kept for all (computing them again was no faster). Threads share
the features, or where those are few the rows, in products with S, and the nodes in the mixing; every number is the sum
of the same terms in the same order, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
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
    if _threads(matrix, states, F) == 1:
        kernels.forward_whole(*matrix, weights, groups.copied, x, states, y_tile, y, chebyshev, first)
        return y, states
    for tile, x_part, y_part in zip(states, _by_tile(x, width), _by_tile(y, width), strict=True):
        _share(N, lambda _, lo, hi, tile=tile, x=x_part: loops.pack_compiled(x, tile[:1], lo, hi))  # type: ignore[misc]
        _recursion(kernels, matrix, tile.reshape(-1, width), (len(tile) - 1, G, N), False, chebyshev)
        _share(
            N,
            lambda _, lo, hi, tile=tile, y=y_part: kernels.mix(  # type: ignore[misc]
                weights, groups.copied, tile[first:], y_tile, y, lo, hi
            ),
        )
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
    n_totals = -(-prod(shape[:3]) * _lanes(width, dtype) // width)  # rows: a register for each weight
    if n == 1:
        scratch = aligned_empty(((F + taps) * N + n_totals, width), dtype)
        kernels.backward_whole(
            *back, weights, groups.copied, groups.order, groups.pieces, saved, grad_y, scratch, partial, grad_x,
            chebyshev, first,
        )  # fmt: skip
    else:
        v, totals = aligned_empty((1, F, N, width), dtype), aligned_empty((n, n_totals, width), dtype)
        adjoint = _adjoint_by_feature if n <= G else _adjoint_by_row
        for t, (tile, part) in enumerate(zip(saved, _by_tile(grad_y, width), strict=True)):
            _share(N, lambda _, lo, hi, part=part: loops.pack_compiled(part, v, lo, hi))  # type: ignore[misc]
            _share(
                n_pieces,
                lambda slot, lo, hi, tile=tile: kernels.inner_products(  # type: ignore[misc]
                    groups.order, groups.pieces, tile[first:], v, totals[slot], partial, lo, hi
                ),
            )
            adjoint(kernels, back, weights, groups.copied, v, grad_x, t * width, chebyshev, first)
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
    """Whole features to a thread where there are enough; else by rows, all done with one step before the next."""
    K, G, N = sizes
    if threads.n_threads() <= G:
        _share(G, lambda _, lo, hi: kernels.recursion(*matrix, rows, sizes, (lo, hi), adjoint, chebyshev, 0, K, 0, N))
        return
    bounds = compiled._by_entries(matrix.indptr)
    for step in range(K):
        threads.run(
            lambda _, lo, hi, step=step: kernels.recursion(  # type: ignore[misc]
                *matrix, rows, sizes, (0, G), adjoint, chebyshev, step, step + 1, lo, hi
            ),
            bounds,
        )


def _by_tile(x: Array, width: int) -> list[Array]:
    """The samples of each tile."""
    return [x[start : start + width] for start in range(0, len(x), width)]


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
