"""The loops of the compiled kernels, on tiles (nodes, width); the reference twin is one file away.

Everything here is plain Python that numba compiles (:func:`kernels_for`), and that also runs uncompiled
(:func:`plain_kernels`), so that tests and mutation tools can walk through it.

Names: `w` states, `lam` their cotangents, `phi[k, f, g, p]` entry p of Phi^(k+1)_fg in CSR order. A *task* is a piece
of work that writes memory no other task writes; drivers run the tasks lo..hi-1 of a numbered list.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from .vectors import SOURCE, add, dot, load, scale_add, store, turn, zeros

inlined = register_jitable(inline="always")


@inlined
def scale_rows(diagonal, x, out, y, zero, lo, hi):
    """out = diag(diagonal) x;  y += out"""
    for i in range(lo, hi):
        row = scale_add(diagonal[i], load(x, i, zero), zero)
        store(out, i, row)
        store(y, i, add(load(y, i, zero), row))


@inlined
def gather_rows(indptr, indices, phi, w, out, y, zero, keep, lo, hi):
    """out = Phi w;  y += out.  The last state of a recursion is not needed again: keep=False leaves `out` alone."""
    for i in range(lo, hi):
        row = zero
        for p in range(indptr[i], indptr[i + 1]):
            row = scale_add(phi[p], load(w, indices[p], zero), row)
        if keep:
            store(out, i, row)
        store(y, i, add(load(y, i, zero), row))


@inlined
def gather_rows_quiet(indptr, indices, phi, w, out, zero, lo, hi):
    """out = Phi w, for the states that the backward pass computes again"""
    for i in range(lo, hi):
        row = zero
        for p in range(indptr[i], indptr[i + 1]):
            row = scale_add(phi[p], load(w, indices[p], zero), row)
        store(out, i, row)


@inlined
def gather_tangent_rows(indptr, indices, phi, dphi, w, dw, out, dout, dy, zero, lo, hi):
    """out = Phi w;  dout = Phi dw + dPhi w;  dy += dout"""
    for i in range(lo, hi):
        row = zero
        drow = zero
        for p in range(indptr[i], indptr[i + 1]):
            neighbor = load(w, indices[p], zero)
            row = scale_add(phi[p], neighbor, row)
            drow = scale_add(phi[p], load(dw, indices[p], zero), drow)
            drow = scale_add(dphi[p], neighbor, drow)
        store(out, i, row)
        store(dout, i, drow)
        store(dy, i, add(load(dy, i, zero), drow))


@inlined
def adjoint_columns(column_indptr, row_indices, transpose, phi, lam, w, seed, seeded, out, grad_phi, zero, lo, hi):
    """out = [seed +] Phi^T lam;  grad_phi_ij += <lam_i, w_j>.  One load of lam_i serves both; nothing is scattered."""
    for j in range(lo, hi):
        column = load(seed, j, zero) if seeded else zero
        wj = load(w, j, zero)
        for p in range(column_indptr[j], column_indptr[j + 1]):
            q = transpose[p]
            li = load(lam, row_indices[p], zero)
            column = scale_add(phi[q], li, column)
            grad_phi[q] += dot(li, wj)
        store(out, j, column)


@inlined
def adjoint_rows(starts, stops, indices, phi, lam, w, seed, seeded, out, grad_phi, zero, lo, hi):
    """adjoint_columns the other way round: rows send to their neighbours.

    For short rows: phi and grad_phi are then walked in order, and only states, which are small, at random. The entries
    starts[i]..stops[i]-1 of row i are those with columns in lo..hi-1: a thread owns these columns and looks at every
    row. Rows come in rising order, as the entries of a column do, so that every sum has the same terms in the same
    order and the same bits, however many threads there are.
    """
    for j in range(lo, hi):
        store(out, j, load(seed, j, zero) if seeded else zero)
    for i in range(lam.shape[0]):
        li = load(lam, i, zero)
        for p in range(starts[i], stops[i]):
            j = indices[p]
            store(out, j, scale_add(phi[p], li, load(out, j, zero)))
            grad_phi[p] += dot(li, load(w, j, zero))


@inlined
def add_rows(x, y, zero, lo, hi):
    """y += x"""
    for i in range(lo, hi):
        store(y, i, add(load(y, i, zero), load(x, i, zero)))


@inlined
def adjoint_scale_rows(diagonal, lam, x, grad_diagonal, grad_x, zero, lo, hi):
    """grad_x += diag(diagonal) lam;  grad_diagonal_i += <lam_i, x_i>

    The product is rounded before it is added (no fused multiply-add): then it does not matter whether the filters of
    an input feature add to grad_x one after the other or each into a place of its own.
    """
    for i in range(lo, hi):
        li = load(lam, i, zero)
        grad_diagonal[i] += dot(li, load(x, i, zero))
        store(grad_x, i, add(load(grad_x, i, zero), scale_add(diagonal[i], li, zero)))


@inlined
def clear_rows(y, zero, lo, hi):
    for i in range(lo, hi):
        store(y, i, zero)


BLOCK = 8  # numbers on the side of a square that is turned in registers


@inlined
def turn_blocks(source, first, stride, target, start, step, rows, columns):
    """All whole blocks of a rows x columns matrix, transposed."""
    for r in range(0, rows, BLOCK):
        for c in range(0, columns, BLOCK):
            turn(source, first + r * stride + c, stride, target, start + c * step + r, step, BLOCK)


@inlined
def pack_rows(x, tiles, lo, hi):
    """(batch, feature, node) to (tile, feature, node, width) for the nodes lo..hi-1, zeros past the batch"""
    T, G, N, width = tiles.shape
    for t in range(T):
        first = t * width
        full = min(width, x.shape[0] - first)
        samples = full // BLOCK * BLOCK  # in whole blocks; numbers at the edges go one by one
        nodes = (hi - lo) // BLOCK * BLOCK
        for g in range(G):
            turn_blocks(
                x, (first * G + g) * N + lo, G * N, tiles, ((t * G + g) * N + lo) * width, width, samples, nodes
            )
            for i in range(lo, hi):
                for s in range(samples if i < lo + nodes else 0, full):
                    tiles[t, g, i, s] = x[first + s, g, i]
                for s in range(full, width):
                    tiles[t, g, i, s] = 0


@inlined
def unpack_rows(tiles, x, lo, hi):
    """The way back"""
    T, G, N, width = tiles.shape
    for t in range(T):
        first = t * width
        full = min(width, x.shape[0] - first)
        samples = full // BLOCK * BLOCK
        nodes = (hi - lo) // BLOCK * BLOCK
        for g in range(G):
            turn_blocks(
                tiles, ((t * G + g) * N + lo) * width, width, x, (first * G + g) * N + lo, G * N, nodes, samples
            )
            for i in range(lo, hi):
                for s in range(samples if i < lo + nodes else 0, full):
                    x[first + s, g, i] = tiles[t, g, i, s]


def pack(x, tiles, lo, hi):
    pack_rows(x, tiles, lo, hi)


def unpack(tiles, x, lo, hi):
    unpack_rows(tiles, x, lo, hi)


NARROW = 16  # samples in a row up to which rows send to their neighbours instead of gathering along columns


@inlined
def forward_filters(indptr, indices, phi, phi0, x, y, states, scratch, zero, lo, hi):
    """y[t, f] = sum_g sum_k w^(k)_fg for the tasks (t, f) = divmod(task, F); scratch: two states.

    states[t, f, g] receives what the adjoint needs, w^(1)..w^(K-1) and, if there is a Phi^(0), before them w^(0),
    unless it is empty.
    """
    K, F, G, _ = phi.shape
    N = x.shape[2]
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    for task in range(lo, hi):
        t = task // F
        f = task % F
        clear_rows(y[t, f], zero, 0, N)
        for g in range(G):
            w = x[t, g]
            if has0:
                w = states[t, f, g, 0] if kept else scratch[0]
                scale_rows(phi0[f, g], x[t, g], w, y[t, f], zero, 0, N)
            for k in range(K):
                out = states[t, f, g, k + has0] if kept and k + 1 < K else scratch[(k + 1) % 2]
                gather_rows(indptr, indices, phi[k, f, g], w, out, y[t, f], zero, k + 1 < K, 0, N)
                w = out


@inlined
def backward_filters(
    indptr, indices, column_indptr, row_indices, transpose,
    phi, phi0, x, states, grad_y, grad_phi, grad_phi0, grad_x, by_pair, narrow, scratch, zero, lo, hi,
):  # fmt: skip
    """Adjoint of forward_filters. A task is an input feature g or, `by_pair`, a filter (f, g) = divmod(task, G).

    It owns grad_phi[:, f, g] and grad_x[:, task], adds to both; scratch: two cotangents, then, where forward kept no
    states, K states w^(0)..w^(K-1) (the first only if there is a Phi^(0)).
    """
    K, F, G, _ = phi.shape
    T, _, N, _ = x.shape
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    for task in range(lo, hi):
        g = task % G
        first_f = task // G if by_pair else 0
        last_f = first_f + 1 if by_pair else F
        for t in range(T):
            for f in range(first_f, last_f):
                if not kept:
                    if has0:
                        for i in range(N):
                            store(scratch[2], i, scale_add(phi0[f, g, i], load(x[t, g], i, zero), zero))
                    for k in range(K - 1):
                        w = x[t, g] if k == 0 and not has0 else scratch[2 + k]
                        gather_rows_quiet(indptr, indices, phi[k, f, g], w, scratch[3 + k], zero, 0, N)
                lam = grad_y[t, f]
                for k in range(K - 1, -1, -1):
                    w = x[t, g]
                    if k > 0 or has0:
                        w = states[t, f, g, k - 1 + has0] if kept else scratch[2 + k]
                    out = scratch[k % 2]
                    if narrow:
                        adjoint_rows(
                            indptr[:-1], indptr[1:], indices, phi[k, f, g], lam, w,
                            grad_y[t, f], k > 0 or has0, out, grad_phi[k, f, g], zero, 0, N,
                        )  # fmt: skip
                    else:
                        adjoint_columns(
                            column_indptr, row_indices, transpose, phi[k, f, g], lam, w,
                            grad_y[t, f], k > 0 or has0, out, grad_phi[k, f, g], zero, 0, N,
                        )  # fmt: skip
                    lam = out
                if has0:
                    adjoint_scale_rows(phi0[f, g], lam, x[t, g], grad_phi0[f, g], grad_x[t, task], zero, 0, N)
                else:
                    add_rows(lam, grad_x[t, task], zero, 0, N)


def _build(width, source, jit):
    """The drivers for rows of `width` samples. Closures hold numbers alone: more would defeat numba's cache."""

    narrow = width <= NARROW

    @jit
    def forward_tasks(indptr, indices, phi, phi0, x, y, states, scratch, lo, hi):
        """Some of the tasks; signals are tiles."""
        forward_filters(indptr, indices, phi, phi0, x, y, states, scratch, zeros(x, width, source), lo, hi)

    @jit
    def forward_whole(indptr, indices, phi, phi0, x, tiles, states, y_tiles, y, scratch):
        """All of them, from x and to y as the user has them: one call, because calls cost as much as small graphs."""
        pack_rows(x, tiles, 0, x.shape[2])
        tasks = tiles.shape[0] * phi.shape[1]
        forward_filters(indptr, indices, phi, phi0, tiles, y_tiles, states, scratch, zeros(x, width, source), 0, tasks)
        unpack_rows(y_tiles, y, 0, x.shape[2])

    @jit
    def tangent_tasks(indptr, indices, phi, phi0, x, dphi, dphi0, dx, dy, scratch, lo, hi):
        """Tangent of forward_tasks; scratch: two states and two tangents."""
        zero = zeros(x, width, source)
        K, F, G, _ = phi.shape
        N = x.shape[2]
        for task in range(lo, hi):
            t = task // F
            f = task % F
            clear_rows(dy[t, f], zero, 0, N)
            for g in range(G):
                w = x[t, g]
                dw = dx[t, g]
                if phi0.shape[0] > 0:
                    for i in range(N):
                        xi = load(w, i, zero)
                        drow = scale_add(dphi0[f, g, i], xi, scale_add(phi0[f, g, i], load(dw, i, zero), zero))
                        store(scratch[0], i, scale_add(phi0[f, g, i], xi, zero))
                        store(scratch[2], i, drow)
                        store(dy[t, f], i, add(load(dy[t, f], i, zero), drow))
                    w = scratch[0]
                    dw = scratch[2]
                for k in range(K):
                    out = scratch[(k + 1) % 2]
                    dout = scratch[2 + (k + 1) % 2]
                    gather_tangent_rows(
                        indptr, indices, phi[k, f, g], dphi[k, f, g], w, dw, out, dout, dy[t, f], zero, 0, N
                    )
                    w = out
                    dw = dout

    @jit
    def backward_tasks(
        indptr, indices, column_indptr, row_indices, transpose,
        phi, phi0, x, states, grad_y, grad_phi, grad_phi0, grad_x, by_pair, scratch, lo, hi,
    ):  # fmt: skip
        backward_filters(
            indptr, indices, column_indptr, row_indices, transpose, phi, phi0, x, states, grad_y,
            grad_phi, grad_phi0, grad_x, by_pair, narrow, scratch, zeros(x, width, source), lo, hi,
        )  # fmt: skip

    @jit
    def backward_whole(
        indptr, indices, column_indptr, row_indices, transpose,
        phi, phi0, tiles, states, grad_y, lam, grad_phi, grad_phi0, grad_tiles, grad_x, scratch,
    ):  # fmt: skip
        zero = zeros(tiles, width, source)
        T, G, N, _ = tiles.shape
        pack_rows(grad_y, lam, 0, N)
        for t in range(T):
            for g in range(G):
                clear_rows(grad_tiles[t, g], zero, 0, N)
        backward_filters(
            indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, lam,
            grad_phi, grad_phi0, grad_tiles, False, narrow, scratch, zero, 0, G,
        )  # fmt: skip
        unpack_rows(grad_tiles, grad_x, 0, N)

    @jit
    def scale_step(diagonal, x, out, y, lo, hi):
        """forward_tasks, large graphs: they share one step of the recursion among threads, rows lo..hi-1 each."""
        scale_rows(diagonal, x, out, y, zeros(x, width, source), lo, hi)

    @jit
    def forward_step(indptr, indices, phi, w, out, y, keep, lo, hi):
        gather_rows(indptr, indices, phi, w, out, y, zeros(w, width, source), keep, lo, hi)

    @jit
    def state_step(indptr, indices, phi, w, out, lo, hi):
        gather_rows_quiet(indptr, indices, phi, w, out, zeros(w, width, source), lo, hi)

    @jit
    def adjoint_scale_step(diagonal, lam, x, grad_diagonal, grad_x, lo, hi):
        adjoint_scale_rows(diagonal, lam, x, grad_diagonal, grad_x, zeros(x, width, source), lo, hi)

    @jit
    def add_step(x, y, lo, hi):
        add_rows(x, y, zeros(x, width, source), lo, hi)

    @jit
    def backward_step(column_indptr, row_indices, transpose, phi, lam, w, seed, seeded, out, grad_phi, lo, hi):
        adjoint_columns(
            column_indptr, row_indices, transpose, phi, lam, w, seed, seeded, out, grad_phi,
            zeros(w, width, source), lo, hi,
        )  # fmt: skip

    @jit
    def backward_step_rows(starts, stops, indices, phi, lam, w, seed, seeded, out, grad_phi, lo, hi):
        adjoint_rows(starts, stops, indices, phi, lam, w, seed, seeded, out, grad_phi, zeros(w, width, source), lo, hi)

    return SimpleNamespace(
        narrow=narrow,
        backward_step_rows=backward_step_rows,
        forward_tasks=forward_tasks,
        forward_whole=forward_whole,
        backward_whole=backward_whole,
        tangent_tasks=tangent_tasks,
        backward_tasks=backward_tasks,
        scale_step=scale_step,
        forward_step=forward_step,
        state_step=state_step,
        backward_step=backward_step,
        adjoint_scale_step=adjoint_scale_step,
        add_step=add_step,
    )


def compiled(function: Any) -> Any:
    """njit, lazily, without the interpreter lock; with the on-disk cache where there is a place to write it."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no writable folder
        return njit(**options)(function)


@cache
def kernels_for(width: int) -> SimpleNamespace:
    """The compiled drivers for rows of `width` samples; each compiles when it is first called."""
    return _build(width, SOURCE, compiled)


def ranks(indptr, indices, x, is_max, low, high):
    """Nodes of the lower and upper middle rank of each neighbourhood, by a stable insertion sort of its few members."""
    longest = 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    order = np.empty(longest, np.int32)
    for b in range(x.shape[0]):
        for i in range(indptr.size - 1):
            size = indptr[i + 1] - indptr[i]
            if is_max:
                best = indices[indptr[i]]
                for p in range(indptr[i] + 1, indptr[i + 1]):
                    if x[b, indices[p]] > x[b, best]:
                        best = indices[p]
                low[b, i] = best
                high[b, i] = best
            else:
                for n in range(size):
                    j = indices[indptr[i] + n]
                    place = n
                    while place > 0 and x[b, order[place - 1]] > x[b, j]:
                        order[place] = order[place - 1]
                        place -= 1
                    order[place] = j
                low[b, i] = order[(size - 1) // 2]
                high[b, i] = order[size // 2]


pack_compiled = compiled(pack)
ranks_compiled = compiled(ranks)
unpack_compiled = compiled(unpack)


@cache
def plain_kernels(width: int) -> SimpleNamespace:
    """The same drivers as plain Python."""
    return _build(width, SOURCE, lambda function: function)
