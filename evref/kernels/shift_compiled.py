"""The compiled twin of :mod:`evref.kernels.shift_reference`, for float32 and float64.

This file decides how work is laid out and shared; the loops are in :mod:`evref.kernels.shift_loops`. Work goes tile by
tile (:mod:`evref.kernels.layout`), each from the user's layout and back, so that scratch is one tile whatever the
batch; only the states, which the adjoint needs, are kept for all (computing them again was no faster). Threads share
the features, or where those are fewer than threads the rows, in products with S, and the nodes in the mixing; every
number is the sum of the same terms in the same order, however many there are.
"""

from __future__ import annotations

from functools import cache
from math import prod
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from .. import checks
from ..graph.support import Graph
from . import compiled, packing, shift_loops, threads
from .groups import Groups, one_group
from .layout import ALIGNMENT, aligned_empty, tile_width, workspace

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
    matrix = _matrix(graph, x.dtype, False)
    y = aligned_empty((B, F, N), x.dtype)
    states = aligned_empty((-(-B // width), first + len(weights), G, N, width), x.dtype)
    n = _threads(matrix, states, F)
    finite = threads.call(
        _kernels(width, x.dtype).forward, n, *matrix, weights, groups.copied, compiled._writable(x), states, y,
        workspace("scratch", (F, N, width), x.dtype), _node_shares(N, n), chebyshev, first, n > G,
    )  # fmt: skip
    if finite:
        checks.note_finite(y)
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
    back = _matrix(graph, dtype, True)
    grad_x = aligned_empty((len(grad_y), G, N), dtype)
    partial = np.zeros((*shape[:3], n_pieces), dtype)
    n = _threads(back, saved, 2 * F)
    n_totals = -(-prod(shape[:3]) * _lanes(width, dtype) // width)  # rows: a register for each weight
    finite = threads.call(
        _kernels(width, dtype).backward, n, *back, weights, groups.copied, groups.order, groups.pieces, saved,
        compiled._writable(grad_y), workspace("lams", (F, N, width), dtype),
        workspace("totals", (n, n_totals, width), dtype), partial,
        workspace("scratch", (n, taps * N, width), dtype), grad_x, _node_shares(N, n), chebyshev, first, n > G,
    )  # fmt: skip
    if n_pieces > groups.size:
        partial = np.add.reduceat(partial, groups.first, axis=-1)
    if finite:
        checks.note_finite(grad_x)
    return partial.reshape(shape), grad_x


def _threads(matrix: Matrix, states: Array, features: int) -> int:
    """How many are worth it for the products with S and the mixing of these states.

    Where they share rows, all wait for all after every step and read what others wrote: that wants more work.
    """
    _, taps, G, N, width = states.shape
    work = len(states) * width * G * ((taps - 1) * len(matrix.values) + taps * features * N)
    return compiled._useful_threads(work if threads.n_threads() <= G else work // 4)


@cache
def _node_shares(n_nodes: int, n: int) -> Array:
    """Bounds of equal shares of the nodes: several for each thread, whole blocks of samples and nodes in each."""
    shares = 1 if n == 1 else max(1, min(compiled.PIECES, n_nodes // packing.BLOCK))
    return np.array([n_nodes * share // shares for share in range(shares)] + [n_nodes])


# ---- layout ----------------------------------------------------------------------------------------------------------
def _lanes(width: int, dtype: np.dtype) -> int:
    return min(width, ALIGNMENT // dtype.itemsize)


def _kernels(width: int, dtype: np.dtype) -> SimpleNamespace:
    return shift_loops.kernels_for(width, _lanes(width, dtype))


def _matrix(graph: Graph, dtype: np.dtype, transposed: bool) -> Matrix:
    """S, or its transpose by rows, in `dtype`: made once per graph."""
    made = graph._derived.get((dtype, transposed))
    if made is None:
        S = graph.S.T.tocsr() if transposed else graph.S
        values = S.data.astype(dtype)
        indptr, indices = S.indptr.astype(np.uint64), S.indices.astype(np.uint32)  # see kernels.walk
        made = Matrix(indptr, indices, values, 2 * values, dtype.type(-1))
        graph._derived[dtype, transposed] = made
    return made


def _by_group(weights: Array, groups: Groups | None, n_nodes: int) -> tuple[Array, Groups]:
    """Weights (taps, F, G, groups); a polynomial's are those of one group."""
    if groups is None:
        weights, groups = weights[..., np.newaxis], one_group(n_nodes)
    return compiled._writable(weights), groups
