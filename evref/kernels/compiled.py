"""The compiled twin of :mod:`evref.kernels.reference`: the same functions, for float32 and float64.

This file decides how work is laid out and shared; the loops themselves are in :mod:`evref.kernels.loops`.

Two ways to share. Small and medium graphs: whole recursions, one filter or feature at a time, per thread (*tasks*).
Large graphs: each step of a recursion is split by nodes (*steps*), because a step alone is worth a thread's start.
Either way every number is the sum of the same terms in the same order, whatever the number of threads.
"""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numba import types  # noqa: F401  (a broken numba must fail at this import, not in the middle of a computation)

from ..graph.support import Graph
from . import loops, threads
from .layout import aligned_empty, aligned_zeros, empty_tiles, tile_width

Array = np.ndarray

# One step of one tile costs about 1 ns per entry of Phi and 0.05 ns per multiply-add; from half a millisecond on it is
# worth waking threads for each step, in these units of 0.05 ns.
STEP_SIZE = 10_000_000
SERIAL_BELOW = 30_000_000  # multiply-adds in all, about a millisecond, below which one thread is faster than two
KEPT_BYTES = 2**22  # states up to this size are kept for the adjoint: reading them back is cheaper than another pass
SPLIT_BYTES = 2**20  # states beyond the second-level cache: from there on threads share the columns of narrow adjoints


class Saved(NamedTuple):
    """What the forward pass leaves: the packed input and, where they are small, the states."""

    tiles: Array  # (tiles, G, N, width)
    states: Array  # (tiles, F, G, states, N, width); states = 0: the adjoint computes them again
    batch: int


def ev_forward(graph: Graph, phi: Array, phi0: Array | None, x: Array) -> tuple[Array, Saved]:
    """See :func:`evref.kernels.reference.ev_forward`."""
    phi, phi0, kernels = _prepare(phi, phi0, x)
    K, F, G, nnz = phi.shape
    B, _, N = x.shape
    x = _writable(x)
    tiles, states = _saved_arrays(phi, phi0, B, N)
    T, width = len(tiles), tiles.shape[3]
    by_steps = _step_size(nnz, width) >= STEP_SIZE
    n = _useful_threads(T * F * G * K * nnz * width)
    if n == 1 and not by_steps:
        y = aligned_empty((B, F, N), x.dtype)
        y_tiles, scratch = aligned_empty((T, F, N, width), x.dtype), aligned_empty((2, N, width), x.dtype)
        kernels.forward_whole(graph.indptr, graph.indices, phi, phi0, x, tiles, states, y_tiles, y, scratch)
        return y, Saved(tiles, states, B)
    _pack(x, tiles)
    y = empty_tiles(B, F, N, x.dtype)
    if by_steps:
        bounds = _by_entries(graph.indptr)
        scratch = aligned_empty((2, N, width), x.dtype)
        y.fill(0)
        for t in range(T):
            for f in range(F):
                for g in range(G):
                    _forward_by_steps(
                        graph, kernels, phi[:, f, g], _diagonal(phi0, f, g), tiles[t, g], y[t, f],
                        states[t, f, g] if states.size else None, scratch, bounds,
                    )  # fmt: skip
    else:
        scratch = aligned_empty((n, 2, N, width), x.dtype)
        threads.run(
            lambda slot, lo, hi: kernels.forward_tasks(
                graph.indptr, graph.indices, phi, phi0, tiles, y, states, scratch[slot], lo, hi
            ),
            _even(T * F, n),
        )
    return _unpacked(y, B), Saved(tiles, states, B)


def _forward_by_steps(
    graph: Graph,
    kernels: SimpleNamespace,
    phi: Array,
    diagonal: Array | None,
    w: Array,
    y: Array,
    states: Array | None,
    scratch: Array,
    bounds: list[int],
) -> None:
    """y += sum_k w^(k) for one filter and one tile."""
    K = len(phi)
    kept = iter(scratch[[]] if states is None else states)
    if diagonal is not None:
        out = next(kept, scratch[0])
        threads.run(lambda _, lo, hi, w=w, out=out: kernels.scale_step(diagonal, w, out, y, lo, hi), bounds)  # type: ignore[misc]
        w = out
    for k in range(K):
        out = next(kept, scratch[(k + 1) % 2])
        threads.run(
            lambda _, lo, hi, k=k, w=w, out=out: kernels.forward_step(  # type: ignore[misc]
                graph.indptr, graph.indices, phi[k], w, out, y, k + 1 < K, lo, hi
            ),
            bounds,
        )
        w = out


def ev_backward(
    graph: Graph, phi: Array, phi0: Array | None, saved: Saved, grad_y: Array
) -> tuple[Array, Array | None, Array]:
    """See :func:`evref.kernels.reference.ev_backward`."""
    has0 = phi0 is not None
    phi, phi0, kernels = _prepare(phi, phi0, grad_y)
    K, F, G, nnz = phi.shape
    tiles, states, B = saved
    T, _, N, width = tiles.shape
    dtype = phi.dtype
    grad_y = _writable(grad_y)
    grad_phi, grad_phi0 = aligned_zeros(phi.shape, dtype), aligned_zeros(phi0.shape, dtype)
    by_steps = _step_size(nnz, width) >= STEP_SIZE
    n = _useful_threads(2 * T * F * G * K * nnz * width)
    rows = 2 if states.size else K + 2  # of scratch: two cotangents, and the states if they were not kept
    if n == 1 and not by_steps:
        grad_x = aligned_empty((B, G, N), dtype)
        kernels.backward_whole(
            graph.indptr, graph.indices, graph.column_indptr, graph.row_indices, graph.transpose,
            phi, phi0, tiles, states, grad_y, aligned_empty((T, F, N, width), dtype), grad_phi, grad_phi0,
            aligned_empty((T, G, N, width), dtype), grad_x, aligned_empty((rows, N, width), dtype),
        )  # fmt: skip
        return grad_phi, grad_phi0 if has0 else None, grad_x
    lam = aligned_empty((T, F, N, width), dtype)
    _pack(grad_y, lam)
    if by_steps:
        by_row, by_column = _by_entries(graph.indptr), _by_entries(graph.column_indptr)
        if kernels.narrow and 2 * N * width * dtype.itemsize <= SPLIT_BYTES:
            by_column = [0, N]  # walking every row twice costs more than a thread brings
        scratch = aligned_empty((rows, N, width), dtype)
        grad_tiles = empty_tiles(B, G, N, dtype)
        grad_tiles.fill(0)
        for g in range(G):
            for t in range(T):
                for f in range(F):
                    _backward_by_steps(
                        graph, kernels, phi[:, f, g], _diagonal(phi0, f, g), tiles[t, g],
                        states[t, f, g] if states.size else None, lam[t, f], grad_phi[:, f, g],
                        _diagonal(grad_phi0, f, g), grad_tiles[t, g], scratch, by_row, by_column,
                    )  # fmt: skip
    else:
        by_pair = G < n <= F * G  # too few input features to go round: share filters and add their grad_x afterwards
        n_tasks = F * G if by_pair else G
        n = min(n, n_tasks)
        scratch = aligned_empty((n, rows, N, width), dtype)
        grad_tiles = empty_tiles(B, n_tasks, N, dtype)
        grad_tiles.fill(0)
        threads.run(
            lambda slot, lo, hi: kernels.backward_tasks(
                graph.indptr, graph.indices, graph.column_indptr, graph.row_indices, graph.transpose,
                phi, phi0, tiles, states, lam, grad_phi, grad_phi0, grad_tiles, by_pair, scratch[slot], lo, hi,
            ),
            _even(n_tasks, n),
        )  # fmt: skip
        if by_pair:
            for f in range(1, F):  # in the order in which one thread would have added them
                grad_tiles[:, :G] += grad_tiles[:, f * G : (f + 1) * G]
            grad_tiles = np.ascontiguousarray(grad_tiles[:, :G])
    return grad_phi, grad_phi0 if has0 else None, _unpacked(grad_tiles, B)


def _backward_by_steps(
    graph: Graph, kernels: SimpleNamespace, phi: Array, diagonal: Array | None, x: Array, kept: Array | None,
    grad_y: Array, grad_phi: Array, grad_diagonal: Array | None, grad_x: Array, scratch: Array,
    by_row: list[int], by_column: list[int],
) -> None:  # fmt: skip
    """Adjoint of `_forward_by_steps`; adds to grad_phi, grad_diagonal and grad_x."""
    K = len(phi)
    if kept is not None:
        states = [*([x] if diagonal is None else []), *kept]
    else:
        states = [x if diagonal is None else scratch[2], *scratch[3 : K + 2]]
        if diagonal is not None:
            threads.run(lambda _, lo, hi: kernels.scale_step(diagonal, x, scratch[2], scratch[0], lo, hi), by_row)
        for k in range(K - 1):
            threads.run(
                lambda _, lo, hi, k=k: kernels.state_step(  # type: ignore[misc]
                    graph.indptr, graph.indices, phi[k], states[k], states[k + 1], lo, hi
                ),
                by_row,
            )
    lam = grad_y
    for k in range(K - 1, -1, -1):
        out, seeded = scratch[k % 2], k > 0 or diagonal is not None
        if kernels.narrow:
            splits = _row_splits(graph, by_column)
            threads.run(
                lambda slot, lo, hi, k=k, lam=lam, out=out, seeded=seeded: kernels.backward_step_rows(  # type: ignore[misc]
                    splits[slot], splits[slot + 1], graph.indices, phi[k], lam, states[k],
                    grad_y, seeded, out, grad_phi[k], lo, hi,
                ),
                by_column,
            )  # fmt: skip
        else:
            threads.run(
                lambda _, lo, hi, k=k, lam=lam, out=out, seeded=seeded: kernels.backward_step(  # type: ignore[misc]
                    graph.column_indptr, graph.row_indices, graph.transpose, phi[k], lam, states[k],
                    grad_y, seeded, out, grad_phi[k], lo, hi,
                ),
                by_column,
            )  # fmt: skip
        lam = out
    if diagonal is None:
        threads.run(lambda _, lo, hi: kernels.add_step(lam, grad_x, lo, hi), by_row)
    else:
        threads.run(
            lambda _, lo, hi: kernels.adjoint_scale_step(diagonal, lam, x, grad_diagonal, grad_x, lo, hi), by_row
        )


def _row_splits(graph: Graph, bounds: list[int]) -> list[Array]:
    """splits[n][i]: the first entry of row i with a column of at least bounds[n]; remembered with the graph."""
    remembered = graph.__dict__.setdefault("_row_splits", {})
    key = tuple(bounds)
    found = remembered.get(key)
    if found is None:
        start, stop = graph.indptr[:-1], graph.indptr[1:]
        splits = [start]
        for bound in bounds[1:-1]:
            before = np.concatenate([[0], np.cumsum(graph.indices < bound)])
            splits.append(start + before[stop] - before[start])
        remembered.clear()  # one number of threads at a time
        remembered[key] = found = [*splits, stop]
    return found  # not from the dict: another thread may have cleared it meanwhile


def ev_jvp(
    graph: Graph, phi: Array, phi0: Array | None, x: Array, dphi: Array, dphi0: Array | None, dx: Array
) -> Array:
    """See :func:`evref.kernels.reference.ev_jvp`."""
    phi, phi0, kernels = _prepare(phi, phi0, x)
    dphi, dphi0, _ = _prepare(dphi, dphi0, dx)
    K, F, G, nnz = phi.shape
    B, _, N = x.shape
    tiles, dtiles = (empty_tiles(B, G, N, x.dtype) for _ in range(2))
    _pack(_writable(x), tiles)
    _pack(_writable(dx), dtiles)
    dy = empty_tiles(B, F, N, x.dtype)
    T, width = len(tiles), tiles.shape[3]
    n = _useful_threads(3 * T * F * G * K * nnz * width)
    scratch = aligned_empty((n, 4, N, width), x.dtype)
    threads.run(
        lambda slot, lo, hi: kernels.tangent_tasks(
            graph.indptr, graph.indices, phi, phi0, tiles, dphi, dphi0, dtiles, dy, scratch[slot], lo, hi
        ),
        _even(T * F, n),
    )
    return _unpacked(dy, B)


def _prepare(phi: Array, phi0: Array | None, x: Array) -> tuple[Array, Array, SimpleNamespace]:
    """Arrays as the loops take them (no phi0: an empty array) and the loops for this width."""
    if x.dtype.kind == "c":
        raise TypeError('the compiled kernels take no complex numbers; use_backend("numpy") does')
    phi0 = _NOTHING[phi.dtype] if phi0 is None else _writable(phi0)
    return _writable(phi), phi0, loops.kernels_for(tile_width(len(x), x.dtype))


_NOTHING = {np.dtype(t): np.empty((0, 0, 0), t) for t in (np.float32, np.float64)}


def _writable(array: Array) -> Array:
    """C-contiguous and writable: numba compiles again for others; copying those (rare: memory maps) is cheaper."""
    flags = array.flags
    return array if flags.c_contiguous and flags.writeable else np.require(array, requirements=["C", "W"])


def _saved_arrays(phi: Array, phi0: Array, batch: int, n_nodes: int) -> tuple[Array, Array]:
    """Places for the packed input and for the states that the adjoint needs, none where they would be large.

    Large is more than the second-level cache and more than a quarter of the parameters.
    """
    K, F, G, _ = phi.shape
    tiles = empty_tiles(batch, G, n_nodes, phi.dtype)
    T, _, _, width = tiles.shape
    shape = (T, F, G, max(K - 1, 0) + (len(phi0) > 0), n_nodes, width)
    if prod(shape) * phi.itemsize > max(KEPT_BYTES, phi.nbytes // 4):
        shape = (T, F, G, 0, n_nodes, width)
    return tiles, aligned_empty(shape, phi.dtype)


def _diagonal(phi0: Array, f: int, g: int) -> Array | None:
    return phi0[f, g] if len(phi0) else None


def _pack(x: Array, tiles: Array) -> None:
    if len(x) == 1:  # one sample is one column: the same numbers in the same order
        tiles.reshape(x.shape)[...] = x
    else:
        N = x.shape[2]
        threads.run(lambda _, lo, hi: loops.pack_compiled(x, tiles, lo, hi), _even(N, _useful_threads(tiles.size)))


def _unpacked(tiles: Array, batch: int) -> Array:
    _, G, N, _ = tiles.shape
    if batch == 1:
        return tiles.reshape(1, G, N)
    x = aligned_empty((batch, G, N), tiles.dtype)
    threads.run(lambda _, lo, hi: loops.unpack_compiled(tiles, x, lo, hi), _even(N, _useful_threads(tiles.size)))
    return x


def _useful_threads(work: int) -> int:
    return 1 if work < SERIAL_BELOW else threads.n_threads()


def _step_size(nnz: int, width: int) -> int:
    return nnz * (20 + width)


def _even(n: int, parts: int) -> list[int]:
    """0 = b_0 <= ... <= b_parts = n in steps as equal as they can be."""
    return [n * part // parts for part in range(parts + 1)]


def _by_entries(indptr: Array) -> list[int]:
    """Nodes split so that every thread gets the same number of entries."""
    parts = threads.n_threads()
    inner = np.searchsorted(indptr, [indptr[-1] * part // parts for part in range(1, parts)])
    return [0, *(int(b) for b in inner), len(indptr) - 1]


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
