"""The loops of the compiled kernels, on tiles (nodes, width); the reference twin is one file away.

Everything here is plain Python that numba compiles (:func:`kernels_for`), and that also runs uncompiled
(:func:`plain_kernels`), so that tests and mutation tools can walk through it.

Names: `w` states, `lam` their cotangents, `phi[k, f, g, p]` entry p of Phi^(k+1)_fg in CSR order; sums that are `fresh`
are begun, others are added to. First the rows of one step, then the passes built of them, which several threads walk
through together (:mod:`evref.kernels.together`): a *task* is a piece of work that writes memory no other task writes.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.extending import register_jitable

from . import jit, packing, vectors
from . import together as team
from .jit import compiled
from .packing import pack_tile, unpack_tile
from .together import SHARES, await_finished, finished, own_first, serve, take, together
from .vectors import add, dot, load, scale_add, store, zeros


def source_of(*modules: Any) -> int:
    """A number that changes with the source of these modules.

    numba's on-disk cache looks only at the file of the compiled function, not at what it calls. Kernels hand this
    number to `zeros`, so that it is part of their key and a change in a file they take loops from makes the cache miss.
    """
    text = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
    return int.from_bytes(sha256(text).digest()[:6], "little")


SOURCE = source_of(jit, packing, team, vectors)


@register_jitable
def scale_rows(diagonal, x, out, y, fresh, zero, lo, hi):
    """out = diag(diagonal) x;  y += out"""
    for i in range(lo, hi):
        row = scale_add(diagonal[i], load(x, i, zero), zero)
        store(out, i, row)
        store(y, i, row if fresh else add(load(y, i, zero), row))


@register_jitable
def gather_rows(indptr, indices, phi, w, out, y, fresh, zero, keep, lo, hi):
    """out = Phi w;  y += out.  The last state of a recursion is not needed again: keep=False leaves `out` alone."""
    for i in range(lo, hi):
        row = zero
        for p in range(indptr[i], indptr[i + 1]):
            row = scale_add(phi[p], load(w, indices[p], zero), row)
        if keep:
            store(out, i, row)
        store(y, i, row if fresh else add(load(y, i, zero), row))


@register_jitable
def gather_rows_quiet(indptr, indices, phi, w, out, zero, lo, hi):
    """out = Phi w, for the states that the backward pass computes again"""
    for i in range(lo, hi):
        row = zero
        for p in range(indptr[i], indptr[i + 1]):
            row = scale_add(phi[p], load(w, indices[p], zero), row)
        store(out, i, row)


@register_jitable
def scale_rows_quiet(diagonal, x, out, zero, lo, hi):
    """out = diag(diagonal) x, likewise"""
    for i in range(lo, hi):
        store(out, i, scale_add(diagonal[i], load(x, i, zero), zero))


@register_jitable
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


@register_jitable
def scale_tangent_rows(diagonal, d_diagonal, x, dx, out, dout, dy, zero, lo, hi):
    """out = diag(diagonal) x;  dout = diag(diagonal) dx + diag(d_diagonal) x;  dy += dout"""
    for i in range(lo, hi):
        xi = load(x, i, zero)
        drow = scale_add(d_diagonal[i], xi, scale_add(diagonal[i], load(dx, i, zero), zero))
        store(out, i, scale_add(diagonal[i], xi, zero))
        store(dout, i, drow)
        store(dy, i, add(load(dy, i, zero), drow))


@register_jitable
def adjoint_columns(
    column_indptr, row_indices, transpose, phi, lam, w, seed, seeded, out, grad_phi, fresh, zero, lo, hi
):
    """out = [seed +] Phi^T lam;  grad_phi_ij += <lam_i, w_j>.  One load of lam_i serves both; nothing is scattered."""
    for j in range(lo, hi):
        column = load(seed, j, zero) if seeded else zero
        wj = load(w, j, zero)
        for p in range(column_indptr[j], column_indptr[j + 1]):
            q = transpose[p]
            li = load(lam, row_indices[p], zero)
            column = scale_add(phi[q], li, column)
            grad_phi[q] = dot(li, wj) if fresh else grad_phi[q] + dot(li, wj)
        store(out, j, column)


@register_jitable
def adjoint_rows(indptr, indices, phi, lam, w, out, grad_phi, fresh, zero, lo, hi):
    """out += Phi^T lam;  grad_phi_ij += <lam_i, w_j>, for the rows i = lo..hi-1: they send to their neighbours.

    For short rows: phi and grad_phi are then walked in order, and only states, which are small, at random.
    """
    for i in range(lo, hi):
        li = load(lam, i, zero)
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            store(out, j, scale_add(phi[p], li, load(out, j, zero)))
            product = dot(li, load(w, j, zero))
            grad_phi[p] = product if fresh else grad_phi[p] + product


@register_jitable
def outer_rows(indptr, indices, lam, w, grad_phi, fresh, zero, lo, hi):
    """grad_phi_ij += <lam_i, w_j> alone, for the first step where nobody asks for the gradient of x"""
    for i in range(lo, hi):
        li = load(lam, i, zero)
        for p in range(indptr[i], indptr[i + 1]):
            product = dot(li, load(w, indices[p], zero))
            grad_phi[p] = product if fresh else grad_phi[p] + product


@register_jitable
def seed_rows(seed, seeded, out, zero, lo, hi):
    """out = seed or 0"""
    for i in range(lo, hi):
        store(out, i, load(seed, i, zero) if seeded else zero)


@register_jitable
def add_rows(x, y, fresh, zero, lo, hi):
    """y += x"""
    for i in range(lo, hi):
        store(y, i, load(x, i, zero) if fresh else add(load(y, i, zero), load(x, i, zero)))


@register_jitable
def adjoint_scale_rows(diagonal, lam, x, grad_diagonal, fresh, grad_x, fresh_x, zero, lo, hi):
    """grad_x += diag(diagonal) lam;  grad_diagonal_i += <lam_i, x_i>

    The product is rounded before it is added (no fused multiply-add): then it does not matter whether the first of
    several filters begins the sum or adds to zero.
    """
    for i in range(lo, hi):
        li = load(lam, i, zero)
        product = dot(li, load(x, i, zero))
        grad_diagonal[i] = product if fresh else grad_diagonal[i] + product
        row = scale_add(diagonal[i], li, zero)
        store(grad_x, i, row if fresh_x else add(load(grad_x, i, zero), row))


# ---- whole recursions, one filter at a time per thread: small and medium graphs --------------------------------------
@register_jitable
def forward_recursions(indptr, indices, phi, phi0, x, tiles, states, y, scratch, zero, board, slot):
    """y[t, f] = sum_g sum_k w^(k)_fg. Phases: pack (t, g); the filters of (t, f). scratch: two states and the sum.

    states[t, f, g] receives what the adjoint needs, w^(1)..w^(K-1) and, if there is a Phi^(0), before them w^(0),
    unless it is empty.
    """
    K, F, G, _ = phi.shape
    T, _, N, _ = tiles.shape
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    mine = scratch[slot]
    total = mine[2]
    packing_shares = min(SHARES, T * G)
    for turn in range(packing_shares):
        share = own_first(board, turn, packing_shares, slot)
        if take(board, share, 1):
            for task in range(share * T * G // packing_shares, (share + 1) * T * G // packing_shares):
                pack_tile(x, task // G, task % G, tiles[task // G, task % G], 0, N)
            finished(board)
    shares = min(SHARES, T * F)
    for turn in range(shares):
        share = own_first(board, turn, shares, slot)
        if take(board, share, 2):
            await_finished(board, packing_shares)
            for task in range(share * T * F // shares, (share + 1) * T * F // shares):
                t = task // F
                f = task % F
                if K == 0 and not has0:
                    seed_rows(total, False, total, zero, 0, N)
                for g in range(G):
                    w = tiles[t, g]
                    if has0:
                        w = states[t, f, g, 0] if kept else mine[0]
                        scale_rows(phi0[f, g], tiles[t, g], w, total, g == 0, zero, 0, N)
                    for k in range(K):
                        out = states[t, f, g, k + has0] if kept and k + 1 < K else mine[(k + 1) % 2]
                        fresh = g == 0 and k == 0 and not has0
                        gather_rows(indptr, indices, phi[k, f, g], w, out, total, fresh, zero, k + 1 < K, 0, N)
                        w = out
                unpack_tile(total, y, t, f, 0, N)
            finished(board)


@register_jitable
def backward_recursions(
    indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi, grad_phi0,
    grad_tiles, grad_x, blocks, stretch, narrow, scratch, zero, board, slot,
):  # fmt: skip
    """Adjoint of forward_recursions. Phases: pack (t, f); an input feature g and one of `blocks` blocks of output
    features; sum over the blocks and unpack (t, g), unless grad_x is empty because nobody asks for it.

    A task of the second phase owns grad_phi[:, its f, g] and grad_tiles[:, task]. scratch: two cotangents, then, where
    forward kept no states, room for those of a stretch of steps and for the ones at which stretches begin: the states
    are computed once to find these, and once more stretch by stretch. A stretch as long as K needs no such walk.
    """
    K, F, G, _ = phi.shape
    T, _, N, _ = tiles.shape
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    wanted = grad_x.shape[0] > 0
    mine = scratch[slot]
    packing_shares = min(SHARES, T * F)
    for turn in range(packing_shares):
        share = own_first(board, turn, packing_shares, slot)
        if take(board, share, 1):
            for task in range(share * T * F // packing_shares, (share + 1) * T * F // packing_shares):
                pack_tile(grad_y, task // F, task % F, lams[task // F, task % F], 0, N)
            finished(board)
    tasks = blocks * G
    shares = min(SHARES, tasks)
    for turn in range(shares):
        share = own_first(board, turn, shares, slot)
        if take(board, share, 2):
            await_finished(board, packing_shares)
            for task in range(share * tasks // shares, (share + 1) * tasks // shares):
                g = task % G
                first_f = (task // G * F + blocks - 1) // blocks  # the larger block first: whoever is first has it
                last_f = ((task // G + 1) * F + blocks - 1) // blocks
                for t in range(T):
                    for f in range(first_f, last_f):
                        if not kept:
                            if has0:
                                scale_rows_quiet(phi0[f, g], tiles[t, g], mine[2], zero, 0, N)
                            w = mine[2] if has0 else tiles[t, g]
                            for k in range(1, (K - 1) // stretch * stretch + 1):
                                out = mine[k % 2] if k % stretch else mine[1 + stretch + k // stretch]
                                gather_rows_quiet(indptr, indices, phi[k - 1, f, g], w, out, zero, 0, N)
                                w = out
                        lam = lams[t, f]
                        for k in range(K - 1, -1, -1):
                            w = tiles[t, g]
                            if kept:
                                w = states[t, f, g, k - 1 + has0] if k > 0 or has0 else w
                            else:
                                if k >= stretch:
                                    w = mine[1 + stretch + k // stretch]
                                elif has0:
                                    w = mine[2]
                                if k == K - 1 or (k + 1) % stretch == 0:  # into the next stretch
                                    for j in range(k // stretch * stretch + 1, k + 1):
                                        again = mine[2 + j % stretch]
                                        gather_rows_quiet(indptr, indices, phi[j - 1, f, g], w, again, zero, 0, N)
                                        w = again
                                if k % stretch:
                                    w = mine[2 + k % stretch]
                            out = mine[k % 2]
                            seeded = k > 0 or has0
                            if not (wanted or seeded):
                                outer_rows(indptr, indices, lam, w, grad_phi[k, f, g], t == 0, zero, 0, N)
                            elif narrow:
                                seed_rows(lams[t, f], seeded, out, zero, 0, N)
                                adjoint_rows(
                                    indptr, indices, phi[k, f, g], lam, w, out, grad_phi[k, f, g], t == 0, zero, 0, N
                                )
                            else:
                                adjoint_columns(
                                    column_indptr, row_indices, transpose, phi[k, f, g], lam, w,
                                    lams[t, f], seeded, out, grad_phi[k, f, g], t == 0, zero, 0, N,
                                )  # fmt: skip
                            lam = out
                        if has0:
                            adjoint_scale_rows(
                                phi0[f, g], lam, tiles[t, g], grad_phi0[f, g], t == 0,
                                grad_tiles[t, task], f == first_f, zero, 0, N,
                            )  # fmt: skip
                        elif wanted:
                            add_rows(lam, grad_tiles[t, task], f == first_f, zero, 0, N)
            finished(board)
    if wanted:
        before = packing_shares + shares
        shares = min(SHARES, T * G)
        for turn in range(shares):
            share = own_first(board, turn, shares, slot)
            if take(board, share, 3):
                await_finished(board, before)
                for task in range(share * T * G // shares, (share + 1) * T * G // shares):
                    t = task // G
                    g = task % G
                    for block in range(1, blocks):
                        add_rows(grad_tiles[t, block * G + g], grad_tiles[t, g], False, zero, 0, N)
                    unpack_tile(grad_tiles[t, g], grad_x, t, g, 0, N)
                finished(board)


@register_jitable
def tangent_recursions(indptr, indices, phi, phi0, x, tiles, dphi, dphi0, dx, dtiles, dy, scratch, zero, board, slot):
    """Tangent of forward_recursions; scratch: two states, two tangents and the sum."""
    K, F, G, _ = phi.shape
    T, _, N, _ = tiles.shape
    mine = scratch[slot]
    total = mine[4]
    packing_shares = min(SHARES, T * G)
    for turn in range(packing_shares):
        share = own_first(board, turn, packing_shares, slot)
        if take(board, share, 1):
            for task in range(share * T * G // packing_shares, (share + 1) * T * G // packing_shares):
                pack_tile(x, task // G, task % G, tiles[task // G, task % G], 0, N)
                pack_tile(dx, task // G, task % G, dtiles[task // G, task % G], 0, N)
            finished(board)
    shares = min(SHARES, T * F)
    for turn in range(shares):
        share = own_first(board, turn, shares, slot)
        if take(board, share, 2):
            await_finished(board, packing_shares)
            for task in range(share * T * F // shares, (share + 1) * T * F // shares):
                t = task // F
                f = task % F
                seed_rows(total, False, total, zero, 0, N)
                for g in range(G):
                    w = tiles[t, g]
                    dw = dtiles[t, g]
                    if phi0.shape[0] > 0:
                        scale_tangent_rows(phi0[f, g], dphi0[f, g], w, dw, mine[0], mine[2], total, zero, 0, N)
                        w = mine[0]
                        dw = mine[2]
                    for k in range(K):
                        out = mine[(k + 1) % 2]
                        dout = mine[2 + (k + 1) % 2]
                        gather_tangent_rows(
                            indptr, indices, phi[k, f, g], dphi[k, f, g], w, dw, out, dout, total, zero, 0, N
                        )
                        w = out
                        dw = dout
                unpack_tile(total, dy, t, f, 0, N)
            finished(board)


# ---- step by step, every step shared by nodes: large graphs ----------------------------------------------------------
@register_jitable
def forward_steps(indptr, indices, phi, phi0, x, tiles, states, y, pieces, scratch, zero, board, slot):
    """forward_recursions for large graphs: each step is a phase, its shares the nodes pieces[p]..pieces[p + 1]-1."""
    K, F, G, _ = phi.shape
    T = tiles.shape[0]
    P = pieces.size - 1
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    total = scratch[2]
    phase = 1
    for t in range(T):
        for turn in range(P):
            share = own_first(board, turn, P, slot)
            if take(board, share, phase):
                for g in range(G):
                    pack_tile(x, t, g, tiles[t, g], pieces[share], pieces[share + 1])
                finished(board)
        phase += 1
        for f in range(F):
            for g in range(G):
                w = tiles[t, g]
                for k in range(-has0, K):  # step -1 is Phi^(0)
                    out = states[t, f, g, k + has0] if kept and k + 1 < K else scratch[(k + 1) % 2]
                    fresh = g == 0 and k == -has0
                    for turn in range(P):
                        share = own_first(board, turn, P, slot)
                        if take(board, share, phase):
                            await_finished(board, (phase - 1) * P)
                            lo = pieces[share]
                            hi = pieces[share + 1]
                            if k < 0:
                                scale_rows(phi0[f, g], w, out, total, fresh, zero, lo, hi)
                            else:
                                gather_rows(
                                    indptr, indices, phi[k, f, g], w, out, total, fresh, zero, k + 1 < K, lo, hi
                                )
                            finished(board)
                    phase += 1
                    w = out
            for turn in range(P):
                share = own_first(board, turn, P, slot)
                if take(board, share, phase):
                    await_finished(board, (phase - 1) * P)
                    unpack_tile(total, y, t, f, pieces[share], pieces[share + 1])
                    finished(board)
            phase += 1


@register_jitable
def backward_steps(
    indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi, grad_phi0,
    grad_x, pieces, column_pieces, blocks, narrow, scratch, zero, board, slot,
):  # fmt: skip
    """Adjoint of forward_steps.

    Narrow rows send to their neighbours, so that two tasks would write the same sums: each block of rows has sums of
    its own, added afterwards. The blocks do not depend on the threads. scratch: the gradient of x, two cotangents, the
    sums of all blocks but the first, then states, if they were not kept.
    """
    K, F, G, _ = phi.shape
    T, _, N, _ = tiles.shape
    P = pieces.size - 1
    n_blocks = blocks.size - 1
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    wanted = grad_x.shape[0] > 0
    total = scratch[0]
    sums = scratch[3:]
    own = scratch[2 + n_blocks :]
    phase = 1
    before = 0  # shares of earlier phases
    for t in range(T):
        for turn in range(P):
            share = own_first(board, turn, P, slot)
            if take(board, share, phase):
                await_finished(board, before)  # the last tile's cotangents are in use until then
                for f in range(F):
                    pack_tile(grad_y, t, f, lams[f], pieces[share], pieces[share + 1])
                finished(board)
        phase += 1
        before += P
        for g in range(G):
            for f in range(F):
                if not kept:
                    for k in range(-has0, K - 1):
                        w = tiles[t, g] if k == -has0 else own[k]
                        for turn in range(P):
                            share = own_first(board, turn, P, slot)
                            if take(board, share, phase):
                                await_finished(board, before)
                                lo = pieces[share]
                                hi = pieces[share + 1]
                                if k < 0:
                                    scale_rows_quiet(phi0[f, g], w, own[0], zero, lo, hi)
                                else:
                                    gather_rows_quiet(indptr, indices, phi[k, f, g], w, own[k + 1], zero, lo, hi)
                                finished(board)
                        phase += 1
                        before += P
                lam = lams[f]
                for k in range(K - 1, -1, -1):
                    w = tiles[t, g]
                    if k > 0 or has0:
                        w = states[t, f, g, k - 1 + has0] if kept else own[k]
                    out = scratch[1 + k % 2]
                    seeded = k > 0 or has0
                    by_blocks = narrow and (wanted or seeded)
                    shares = n_blocks if by_blocks else P
                    for turn in range(shares):
                        share = own_first(board, turn, shares, slot)
                        if take(board, share, phase):
                            await_finished(board, before)
                            if by_blocks:
                                mine = out if share == 0 else sums[share - 1]
                                seed_rows(lams[f], seeded and share == 0, mine, zero, 0, N)
                                adjoint_rows(
                                    indptr, indices, phi[k, f, g], lam, w, mine, grad_phi[k, f, g], t == 0, zero,
                                    blocks[share], blocks[share + 1],
                                )  # fmt: skip
                            elif wanted or seeded:
                                adjoint_columns(
                                    column_indptr, row_indices, transpose, phi[k, f, g], lam, w, lams[f], seeded, out,
                                    grad_phi[k, f, g], t == 0, zero, column_pieces[share], column_pieces[share + 1],
                                )  # fmt: skip
                            else:
                                outer_rows(
                                    indptr, indices, lam, w, grad_phi[k, f, g], t == 0, zero,
                                    pieces[share], pieces[share + 1],
                                )  # fmt: skip
                            finished(board)
                    phase += 1
                    before += shares
                    if by_blocks:
                        for turn in range(P):
                            share = own_first(board, turn, P, slot)
                            if take(board, share, phase):
                                await_finished(board, before)
                                for block in range(1, n_blocks):
                                    add_rows(sums[block - 1], out, False, zero, pieces[share], pieces[share + 1])
                                finished(board)
                        phase += 1
                        before += P
                    lam = out
                for turn in range(P):
                    share = own_first(board, turn, P, slot)
                    if take(board, share, phase):
                        await_finished(board, before)
                        lo = pieces[share]
                        hi = pieces[share + 1]
                        if has0:
                            adjoint_scale_rows(
                                phi0[f, g], lam, tiles[t, g], grad_phi0[f, g], t == 0, total, f == 0, zero, lo, hi
                            )
                        elif wanted:
                            add_rows(lam, total, f == 0, zero, lo, hi)
                        if wanted and f + 1 == F:
                            unpack_tile(total, grad_x, t, g, lo, hi)
                        finished(board)
                phase += 1
                before += P


NARROW = 16  # samples in a row up to which rows send to their neighbours instead of gathering along columns


def _build(width, source, jit):
    """The passes for rows of `width` samples. Closures hold numbers alone: more would defeat numba's cache."""

    narrow = width <= NARROW

    @jit
    def forward(indptr, indices, phi, phi0, x, tiles, states, y, scratch, board, n):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, phi, phi0, x, tiles, states, y, scratch, zero, board)
        together(forward_recursions, arguments, board, n)

    @jit
    def forward_by_steps(indptr, indices, phi, phi0, x, tiles, states, y, pieces, scratch, board, n):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, phi, phi0, x, tiles, states, y, pieces, scratch, zero, board)
        together(forward_steps, arguments, board, n)

    @jit
    def tangent(indptr, indices, phi, phi0, x, tiles, dphi, dphi0, dx, dtiles, dy, scratch, board, n):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, phi, phi0, x, tiles, dphi, dphi0, dx, dtiles, dy, scratch, zero, board)
        together(tangent_recursions, arguments, board, n)

    @jit
    def backward(
        indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
        grad_phi0, grad_tiles, grad_x, blocks, stretch, scratch, board, n,
    ):  # fmt: skip
        arguments = (
            indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
            grad_phi0, grad_tiles, grad_x, blocks, stretch, narrow, scratch, zeros(tiles, width, source), board,
        )  # fmt: skip
        together(backward_recursions, arguments, board, n)

    @jit
    def backward_by_steps(
        indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
        grad_phi0, grad_x, pieces, column_pieces, blocks, scratch, board, n,
    ):  # fmt: skip
        arguments = (
            indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
            grad_phi0, grad_x, pieces, column_pieces, blocks, narrow, scratch, zeros(tiles, width, source), board,
        )  # fmt: skip
        together(backward_steps, arguments, board, n)

    return SimpleNamespace(
        narrow=narrow,
        forward=forward,
        forward_by_steps=forward_by_steps,
        tangent=tangent,
        backward=backward,
        backward_by_steps=backward_by_steps,
    )


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


serve_compiled = compiled(serve)
ranks_compiled = compiled(ranks)


@cache
def plain_kernels(width: int) -> SimpleNamespace:
    """The same drivers as plain Python."""
    return _build(width, SOURCE, lambda function: function)
