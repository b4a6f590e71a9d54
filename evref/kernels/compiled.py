"""The compiled twin of :mod:`evref.kernels.reference`: the same functions, for float32 and float64.

This file decides how work is laid out and shared; the loops themselves are in :mod:`evref.kernels.loops`.

Two ways to share. Small and medium graphs: whole recursions, one filter or feature at a time, per thread. Large graphs:
each step of a recursion is split by nodes (*steps*). Either way every number is the sum of the same terms in the same
order, whatever the number of threads.
"""

from __future__ import annotations

from math import isqrt
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numba import types  # noqa: F401  (a broken numba must fail at this import, not in the middle of a computation)

from .. import checks
from ..graph.pattern import Pattern
from . import loops, packing, threads
from .layout import aligned_empty, empty_tiles, tile_width, workspace
from .together import SHARES
from .walk import Walk, pieces, walk_of

Array = np.ndarray

# One step of one tile costs about 1 ns per entry of Phi and 0.05 ns per multiply-add; from half a millisecond on it is
# worth sharing each step, in these units of 0.05 ns.
STEP_SIZE = 10_000_000
SERIAL_BELOW = 500_000  # multiply-adds in all, some 20 µs, below which one thread is faster than two
KEPT_BYTES = 2**22  # states up to this size, which caches hold until then, are kept for the adjoint
KEPT_STEPS = 4  # times as much on large graphs, where reading at random costs more than memory
BLOCK_BYTES = 2**20  # gradients of x up to this size are held for blocks of output features, so that threads can share
LOCAL_BYTES = 16  # of a row from which on it pays to have neighbours' rows together and rows of phi apart
PIECES = 16  # of a step: several for each thread, so that nobody waits long for the last
STRETCH = 16  # steps whose states are all computed again at once; of more steps, the square root of their number
PAIR_BYTES = 2**17  # of a state from which on its rows are read for two filters at once: the first cache is smaller
BLOCKS = 2  # of rows that send to their neighbours: each has a state of its own to add to


class Saved(NamedTuple):
    """What the forward pass leaves: the packed input and, where they are small, the states."""

    tiles: Array  # (tiles, G, N, width)
    states: Array  # (tiles, F, G, states, N, width); states = 0: the adjoint computes them again
    batch: int


def ev_forward(graph: Pattern, phi: Array, phi0: Array | None, x: Array) -> tuple[Array, Saved]:
    """See :func:`evref.kernels.reference.ev_forward`."""
    phi, phi0, kernels = _prepare(phi, phi0, x)
    K, F, G, nnz = phi.shape
    B, _, N = x.shape
    x = _writable(x)
    tiles, states = _saved_arrays(phi, phi0, B, N)
    T, width = len(tiles), tiles.shape[3]
    y = aligned_empty((B, F, N), x.dtype)
    n = _useful_threads(T * F * G * K * nnz * width)
    by_steps = _by_steps(K, nnz, width)
    walk = walk_of(graph, local=by_steps and width * phi.itemsize >= LOCAL_BYTES)
    if by_steps:
        scratch = workspace("scratch", (3, N, width), x.dtype)
        finite = threads.call(
            kernels.forward_by_steps, n, *walk.by_rows, walk.starts, phi, _laid_out(phi0, walk), x, tiles, states, y,
            walk.places, _few(n, width, x.dtype), pieces(graph, walk, False, PIECES), scratch,
        )  # fmt: skip
    else:
        # A few features, an odd number of them, are no even work for two: then in halves, each with a sum of its own.
        halves = 2 if T * F in (1, 3, 5, 7) and G > 1 and 2 * T * F * N * width * x.itemsize <= BLOCK_BYTES else 0
        n = max(1, min(n, T * F * max(halves, 1)))
        totals = workspace("totals", (T, halves, F, N, width), x.dtype)
        # In pairs only if all threads have several all the same; no sum changes its order by it.
        pair = 1 if halves or states.size or 4 * n > T * F else _pair(phi, phi0, N * width)
        scratch = workspace("scratch", (n, 3 * pair, N, width), x.dtype)
        finite = threads.call(kernels.forward, n, *walk.by_rows, phi, phi0, x, tiles, states, y, totals, pair, scratch)
    if finite:
        checks.note_finite(y)
    return y, Saved(tiles, states, B)


def ev_backward(
    graph: Pattern, phi: Array, phi0: Array | None, saved: Saved, grad_y: Array, input_gradient: bool = True
) -> tuple[Array, Array | None, Array | None]:
    """See :func:`evref.kernels.reference.ev_backward`."""
    has0 = phi0 is not None
    phi, phi0, kernels = _prepare(phi, phi0, grad_y)
    K, F, G, nnz = phi.shape
    tiles, states, B = saved
    T, _, N, width = tiles.shape
    dtype = phi.dtype
    grad_y = _writable(grad_y)
    grad_phi, grad_phi0 = aligned_empty(phi.shape, dtype), aligned_empty(phi0.shape, dtype)
    grad_x = aligned_empty((B if input_gradient else 0, G, N), dtype)
    n = _useful_threads(2 * T * F * G * K * nnz * width)
    by_steps = _by_steps(K, nnz, width)
    walk = walk_of(graph, local=by_steps and width * phi.itemsize >= LOCAL_BYTES)
    arguments = (*walk.by_columns, phi, _laid_out(phi0, walk), tiles, states, grad_y)
    stretch = _stretch(K)
    own = 0 if states.size else stretch + -(-K // stretch)
    finite = False
    if T == 0:
        grad_phi.fill(0)
        grad_phi0.fill(0)
    elif by_steps:
        lams = workspace("lams", (F, N, width), dtype)
        row_blocks = pieces(graph, walk, False, BLOCKS if kernels.narrow else 1)
        scratch = workspace("scratch", (1 + len(row_blocks) + own, N, width), dtype)
        finite = threads.call(
            kernels.backward_by_steps, n, *walk.by_rows, walk.starts, *arguments, lams, grad_phi, grad_phi0, grad_x,
            walk.places, _few(n, width, dtype), pieces(graph, walk, False, PIECES), pieces(graph, walk, True, PIECES),
            row_blocks, stretch, scratch,
        )  # fmt: skip
        if has0 and walk.order is not None:
            grad_phi0[..., walk.order] = grad_phi0.copy()
    else:
        lams = workspace("lams", (T, F, N, width), dtype)
        # Threads that share the output features here as in the forward pass find the states in their own caches. Few
        # blocks, because each adds to the sum at the end, and enough tasks; whatever the number of threads.
        blocks = min(F, max(2, 8 // G))
        if blocks * tiles.nbytes > BLOCK_BYTES:
            blocks = 1
        odd = T > 1 and blocks * G in (1, 3, 5, 7)  # no even work for two: then the middle one by halves of the tiles
        spare = workspace("spare", phi.shape if odd else (0, 0, 0, 0), dtype)
        spare0 = workspace("spare0", phi0.shape if odd else (0, 0, 0), dtype)
        n = min(n, blocks * G + odd)
        grad_tiles = workspace("grad_tiles", (T, blocks * G, N, width), dtype)
        pair = _pair(phi, phi0, N * width) if own and 1 < K == stretch else 1
        scratch = workspace("scratch", (n, 2 + own + pair - 1, N, width), dtype)
        finite = threads.call(
            kernels.backward, n, *walk.by_rows, *arguments, lams, grad_phi, grad_phi0, spare, spare0, grad_tiles,
            grad_x, blocks, stretch, pair, scratch,
        )  # fmt: skip
    if finite and input_gradient:
        checks.note_finite(grad_x)
    return grad_phi, grad_phi0 if has0 else None, grad_x if input_gradient else None


def ev_jvp(
    graph: Pattern, phi: Array, phi0: Array | None, x: Array, dphi: Array, dphi0: Array | None, dx: Array
) -> Array:
    """See :func:`evref.kernels.reference.ev_jvp`."""
    phi, phi0, kernels = _prepare(phi, phi0, x)
    dphi, dphi0, _ = _prepare(dphi, dphi0, dx)
    K, F, G, nnz = phi.shape
    B, _, N = x.shape
    tiles, dtiles = (empty_tiles(B, G, N, x.dtype) for _ in range(2))
    dy = aligned_empty((B, F, N), x.dtype)
    T, width = len(tiles), tiles.shape[3]
    n = min(_useful_threads(3 * T * F * G * K * nnz * width), max(T * F, 1))
    scratch = workspace("scratch", (n, 5, N, width), x.dtype)
    threads.call(
        kernels.tangent, n, *walk_of(graph).by_rows, phi, phi0, _writable(x), tiles,
        dphi, dphi0, _writable(dx), dtiles, dy, scratch,
    )  # fmt: skip
    return dy


def _prepare(phi: Array, phi0: Array | None, x: Array) -> tuple[Array, Array, SimpleNamespace]:
    """Arrays as the loops take them (no phi0: an empty array) and the loops for this width."""
    if x.dtype.kind == "c":
        raise TypeError('the compiled kernels take no complex numbers; set_backend("numpy") does')
    phi0 = _NOTHING[phi.dtype] if phi0 is None else _writable(phi0)
    return _writable(phi), phi0, loops.kernels_for(tile_width(len(x), x.dtype))


_NOTHING = {np.dtype(t): np.empty((0, 0, 0), t) for t in (np.float32, np.float64)}


def _writable(array: Array) -> Array:
    """C-contiguous and writable: numba compiles again for others; copying those (rare: memory maps) is cheaper."""
    return array if array.flags.carray else np.require(array, requirements=["C", "A", "W"])


def _saved_arrays(phi: Array, phi0: Array, batch: int, n_nodes: int) -> tuple[Array, Array]:
    """Places for the packed input and for the states that the adjoint needs."""
    _, F, G, _ = phi.shape
    tiles = empty_tiles(batch, G, n_nodes, phi.dtype)
    T, _, _, width = tiles.shape
    kept = _n_kept(phi, len(phi0) > 0, T, n_nodes, width)
    return tiles, aligned_empty((T, F, G, kept, n_nodes, width), phi.dtype)


def _n_kept(phi: Array, has0: bool, n_tiles: int, n_nodes: int, width: int) -> int:
    """States of each filter that are kept for the adjoint, all it needs or, where they would be large, none.

    Large is more than the caches hold and more than a quarter of the parameters.
    """
    K, F, G, nnz = phi.shape
    needed = max(K - 1, 0) + has0  # w^(K) is not
    limit = KEPT_BYTES * (KEPT_STEPS if _by_steps(K, nnz, width) else 1)
    return needed if n_tiles * F * G * needed * n_nodes * width * phi.itemsize <= max(limit, phi.nbytes // 4) else 0


def _stretch(K: int) -> int:
    """Steps whose states are there at once where none are kept, of K."""
    return max(1, K if K <= STRETCH else isqrt(K - 1) + 1)


def _useful_threads(work: int) -> int:
    """No more than a phase has shares: the board has no place for others."""
    return 1 if work < SERIAL_BELOW else min(threads.n_threads(), SHARES)


def _laid_out(phi0: Array, walk: Walk) -> Array:
    """Numbers that belong to nodes, in the order of the rows."""
    return phi0 if walk.order is None or len(phi0) == 0 else phi0[..., walk.order]


def _few(n: int, width: int, dtype: np.dtype) -> Array:
    """A block of rows for each thread."""
    return workspace("few", (n, packing.BLOCK, width), dtype)


def _pair(phi: Array, phi0: Array, state_size: int) -> int:
    """Output features that take the first step of their recursions together: two where they start from the same x_g."""
    return 2 if len(phi) > 0 and len(phi0) == 0 and state_size * phi.itemsize >= PAIR_BYTES else 1


def _by_steps(K: int, nnz: int, width: int) -> bool:
    return K > 0 and nnz * (20 + width) >= STEP_SIZE


def neighborhood_ranks(indptr: Array, indices: Array, x: Array, kind: str) -> tuple[Array, Array]:
    """See :func:`evref.kernels.reference.neighborhood_ranks`."""
    low, high = np.empty(x.shape, np.int32), np.empty(x.shape, np.int32)
    n_nodes = x.shape[-1]
    loops.ranks_compiled(
        np.require(indptr, np.int64, ["C", "W"]),
        np.require(indices, np.int32, ["C", "W"]),
        np.require(x, requirements=["C", "W"]).reshape(-1, n_nodes),
        kind == "max",
        low.reshape(-1, n_nodes),
        high.reshape(-1, n_nodes),
    )
    return low, high
