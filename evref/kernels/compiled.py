"""The compiled twin of :mod:`evref.kernels.reference`: the same functions, for float32 and float64.

This file decides how work is laid out and shared; the loops themselves are in :mod:`evref.kernels.loops`.

Two ways to share. Small and medium graphs: whole recursions, one filter or feature at a time, per thread (*tasks*).
Large graphs: each step of a recursion is split by nodes (*steps*), because a step alone is worth a thread's start.
Either way every number is the sum of the same terms in the same order, whatever the number of threads.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numba import types  # noqa: F401  (a broken numba must fail at this import, not in the middle of a computation)

from ..graph.support import Graph
from . import loops, threads
from .layout import aligned_empty, empty_tiles, tile_width

Array = np.ndarray

# One step of one tile costs about 1 ns per entry of Phi and 0.05 ns per multiply-add; from half a millisecond on it is
# worth waking threads for each step, in these units of 0.05 ns.
STEP_SIZE = 10_000_000
SERIAL_BELOW = 30_000_000  # multiply-adds in all, about a millisecond, below which one thread is faster than two


class Saved(NamedTuple):
    """What the forward pass leaves: the packed input."""

    tiles: Array
    batch: int


def ev_forward(graph: Graph, phi: Array, phi0: Array | None, x: Array) -> tuple[Array, Saved]:
    """See :func:`evref.kernels.reference.ev_forward`."""
    phi, phi0, kernels = _prepare(phi, phi0, x)
    K, F, G, nnz = phi.shape
    B, _, N = x.shape
    tiles = _packed(x)
    T, width = len(tiles), tiles.shape[3]
    y = empty_tiles(B, F, N, x.dtype)
    size = nnz * width
    if _step_size(nnz, width) < STEP_SIZE:
        n = _useful_threads(T * F * G * K * size)
        scratch = aligned_empty((n, 2, N, width), x.dtype)
        threads.run(
            lambda slot, lo, hi: kernels.forward_tasks(
                graph.indptr, graph.indices, phi, phi0, tiles, y, scratch[slot], lo, hi
            ),
            _even(T * F, n),
        )
    else:
        bounds = _by_entries(graph.indptr)
        scratch = aligned_empty((2, N, width), x.dtype)
        y.fill(0)
        for t in range(T):
            for f in range(F):
                for g in range(G):
                    _forward_by_steps(
                        graph, kernels, phi[:, f, g], _diagonal(phi0, f, g), tiles[t, g], y[t, f], scratch, bounds
                    )
    return _unpacked(y, B), Saved(tiles, B)


def _forward_by_steps(
    graph: Graph,
    kernels: SimpleNamespace,
    phi: Array,
    diagonal: Array | None,
    w: Array,
    y: Array,
    scratch: Array,
    bounds: list[int],
) -> None:
    """y += sum_k w^(k) for one filter and one tile."""
    K = len(phi)
    if diagonal is not None:
        threads.run(lambda _, lo, hi: kernels.scale_step(diagonal, w, scratch[0], y, lo, hi), bounds)
    source = w if diagonal is None else scratch[0]
    for k in range(K):
        out = scratch[(k + 1) % 2]
        threads.run(
            lambda _, lo, hi, k=k, source=source, out=out: kernels.forward_step(  # type: ignore[misc]
                graph.indptr, graph.indices, phi[k], source, out, y, k + 1 < K, lo, hi
            ),
            bounds,
        )
        source = out


def ev_backward(
    graph: Graph, phi: Array, phi0: Array | None, saved: Saved, grad_y: Array
) -> tuple[Array, Array | None, Array]:
    """See :func:`evref.kernels.reference.ev_backward`."""
    has0 = phi0 is not None
    phi, phi0, kernels = _prepare(phi, phi0, grad_y)
    K, F, G, nnz = phi.shape
    tiles, B = saved
    T, _, N, width = tiles.shape
    lam = _packed(grad_y)
    grad_phi, grad_phi0 = np.zeros_like(phi), np.zeros_like(phi0)
    size = nnz * width
    if _step_size(nnz, width) < STEP_SIZE:
        n = _useful_threads(2 * T * F * G * K * size)
        by_pair = G < n <= F * G  # too few input features to go round: share filters and add their grad_x afterwards
        n_tasks = F * G if by_pair else G
        n = min(n, n_tasks)
        scratch = aligned_empty((n, K + 2, N, width), phi.dtype)
        grad_tiles = aligned_empty((T, n_tasks, N, width), phi.dtype)
        grad_tiles.fill(0)
        threads.run(
            lambda slot, lo, hi: kernels.backward_tasks(
                graph.indptr, graph.indices, graph.column_indptr, graph.row_indices, graph.transpose,
                phi, phi0, tiles, lam, grad_phi, grad_phi0, grad_tiles, by_pair, scratch[slot], lo, hi,
            ),
            _even(n_tasks, n),
        )  # fmt: skip
        if by_pair:
            for f in range(1, F):  # in the order in which one thread would have added them
                grad_tiles[:, :G] += grad_tiles[:, f * G : (f + 1) * G]
            grad_tiles = np.ascontiguousarray(grad_tiles[:, :G])
    else:
        by_row, by_column = _by_entries(graph.indptr), _by_entries(graph.column_indptr)
        scratch = aligned_empty((K + 2, N, width), phi.dtype)
        grad_tiles = aligned_empty((T, G, N, width), phi.dtype)
        grad_tiles.fill(0)
        for g in range(G):
            for t in range(T):
                for f in range(F):
                    _backward_by_steps(
                        graph, kernels, phi[:, f, g], _diagonal(phi0, f, g), tiles[t, g], lam[t, f],
                        grad_phi[:, f, g], _diagonal(grad_phi0, f, g), grad_tiles[t, g], scratch, by_row, by_column,
                    )  # fmt: skip
    return grad_phi, grad_phi0 if has0 else None, _unpacked(grad_tiles, B)


def _backward_by_steps(
    graph: Graph, kernels: SimpleNamespace, phi: Array, diagonal: Array | None, x: Array, grad_y: Array,
    grad_phi: Array, grad_diagonal: Array | None, grad_x: Array, scratch: Array,
    by_row: list[int], by_column: list[int],
) -> None:  # fmt: skip
    """Adjoint of `_forward_by_steps`; adds to grad_phi, grad_diagonal and grad_x."""
    K = len(phi)
    if diagonal is not None:
        threads.run(lambda _, lo, hi: kernels.scale_step(diagonal, x, scratch[0], scratch[K], lo, hi), by_row)
    states = [x if diagonal is None else scratch[0], *scratch[1:K]]
    for k in range(K - 1):
        threads.run(
            lambda _, lo, hi, k=k: kernels.state_step(  # type: ignore[misc]
                graph.indptr, graph.indices, phi[k], states[k], states[k + 1], lo, hi
            ),
            by_row,
        )
    lam = grad_y
    for k in range(K - 1, -1, -1):
        out, seeded = scratch[K + k % 2], k > 0 or diagonal is not None
        if kernels.narrow:  # one thread along rows beats two along columns
            kernels.backward_step_rows(
                graph.indptr, graph.indices, phi[k], lam, states[k], grad_y, seeded, out, grad_phi[k]
            )
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


def ev_jvp(
    graph: Graph, phi: Array, phi0: Array | None, x: Array, dphi: Array, dphi0: Array | None, dx: Array
) -> Array:
    """See :func:`evref.kernels.reference.ev_jvp`."""
    phi, phi0, kernels = _prepare(phi, phi0, x)
    dphi, dphi0, _ = _prepare(dphi, dphi0, dx)
    K, F, G, nnz = phi.shape
    B, _, N = x.shape
    tiles, dtiles = _packed(x), _packed(dx)
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
    """Arrays as the loops take them (contiguous, writable, no phi0: an empty array) and the loops for this width."""
    if x.dtype.kind == "c":
        raise TypeError('the compiled kernels take no complex numbers; use_backend("numpy") does')
    if phi0 is None:
        phi0 = np.empty((0, 0, 0), phi.dtype)
    # numba compiles again for read-only arrays; copying those (rare: memory maps) is cheaper
    phi, phi0 = (np.require(a, requirements=["C", "W"]) for a in (phi, phi0))
    return phi, phi0, loops.kernels_for(tile_width(len(x), x.dtype))


def _diagonal(phi0: Array, f: int, g: int) -> Array | None:
    return phi0[f, g] if len(phi0) else None


def _packed(x: Array) -> Array:
    B, G, N = x.shape
    tiles = empty_tiles(B, G, N, x.dtype)
    if B == 1:  # one sample is one column: the same numbers in the same order
        tiles.reshape(x.shape)[...] = x
        return tiles
    x = np.require(x, requirements=["C", "W"])
    threads.run(lambda _, lo, hi: loops.pack_compiled(x, tiles, lo, hi), _even(N, _useful_threads(tiles.size)))
    return tiles


def _unpacked(tiles: Array, batch: int) -> Array:
    _, G, N, _ = tiles.shape
    if batch == 1:
        return tiles.reshape(1, G, N)
    x = np.empty((batch, G, N), tiles.dtype)
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


def adam_update(
    param: Array, grad: Array, m: Array, v: Array, rate: float, beta1: float, beta2: float, epsilon: float, step: int
) -> tuple[Array, Array, Array]:
    """See :func:`evref.kernels.reference.adam_update`."""
    new = tuple(np.empty(param.shape, param.dtype) for _ in range(3))
    loops.adam_compiled(
        *(np.require(a, param.dtype, ["C", "W"]).reshape(-1) for a in (param, grad, m, v)),
        *(a.reshape(-1) for a in new),
        *(param.dtype.type(c) for c in (beta1, 1 - beta1, beta2, 1 - beta2, epsilon)),
        param.dtype.type(rate / (1 - beta1**step)),
        param.dtype.type((1 - beta2**step) ** 0.5),
    )
    return new  # type: ignore[return-value]


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
