"""The passes of the compiled edge-variant kernels; the reference twin is one file away. Here those of small and medium
graphs, whole recursions at a time, and the doors to all; large graphs have :mod:`evref.kernels.steps`.

Everything here is plain Python that numba compiles (:func:`kernels_for`), and that also runs uncompiled
(:func:`plain_kernels`), so that tests and mutation tools can walk through it.

Names: `w` states, `lam` their cotangents, `phi[k, f, g, p]` entry p of Phi^(k+1)_fg in CSR order. A pass is made of the
steps in :mod:`evref.kernels.rows`, and several threads walk through it together (:mod:`evref.kernels.together`): a
*task* is a piece of work that writes memory no other task writes.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.extending import register_jitable

from . import jit, packing, rows, steps, vectors
from . import together as team
from .jit import compiled
from .packing import ask_to_read, ask_to_write, pack_tile, unpack_tile
from .rows import (
    add_rows,
    adjoint_columns,
    adjoint_rows,
    adjoint_scale_rows,
    gather_rows,
    gather_rows_quiet,
    gather_rows_quiet_two,
    gather_rows_two,
    gather_tangent_rows,
    outer_rows,
    scale_rows,
    scale_rows_quiet,
    scale_tangent_rows,
    seed_rows,
)
from .steps import backward_steps, forward_steps
from .together import LEFT, SHARES, await_finished, claim, finished, serve, together
from .vectors import zeros


def source_of(*modules: Any) -> int:
    """A number that changes with the source of these modules.

    numba's on-disk cache looks only at the file of the compiled function, not at what it calls. Kernels hand this
    number to `zeros`, so that it is part of their key and a change in a file they take loops from makes the cache miss.
    """
    text = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
    return int.from_bytes(sha256(text).digest()[:6], "little")


SOURCE = source_of(jit, packing, rows, steps, team, vectors)


@register_jitable
def forward_recursions(indptr, indices, phi, phi0, x, tiles, states, y, totals, pair, scratch, zero, board, slot):
    """y[t, f] = sum_g sum_k w^(k)_fg. Phases: pack (t, g); the filters of (f, t), or of half the g; then, if those were
    halves, their sums. scratch: two states and the sum, for each of `pair` output features. totals: sums of halves, or
    nothing. Two features at a time (only without Phi^(0), kept states and halves) share the first walk over x_g.

    states[t, f, g] receives what the adjoint needs, w^(1)..w^(K-1) and, if there is a Phi^(0), before them w^(0),
    unless it is empty.
    """
    K, F, G, _ = phi.shape
    T, _, N, _ = tiles.shape
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    in_place = None  # rows of phi are where indptr says
    halves = max(1, totals.shape[2])
    mine = scratch[slot]
    packing_shares = min(SHARES, T * G)
    for turn in range(packing_shares):
        share = claim(board, turn, packing_shares, slot, 1)
        if share >= 0:
            for task in range(share * T * G // packing_shares, (share + 1) * T * G // packing_shares):
                pack_tile(x, task // G, task % G, tiles[task // G, task % G], 0, 0, N)
            finished(board)
    tasks = T * ((F + pair - 1) // pair) * halves
    shares = min(SHARES, tasks)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 2, LEFT)  # its states are in its cache
        if share >= 0:
            await_finished(board, packing_shares)
            for task in range(share * tasks // shares, (share + 1) * tasks // shares):
                first_f = task // T // halves * pair
                last_f = min(first_f + pair, F)
                half = task // T % halves
                t = task % T
                first_g = half * G // halves
                for g in range(first_g, (half + 1) * G // halves):
                    if g + 1 < G:
                        ask_to_read(tiles[t, g + 1], 0, N)
                    shared = last_f == first_f + 2
                    if shared:
                        gather_rows_two(
                            indptr, indices, phi[0, first_f, g], phi[0, first_f + 1, g], tiles[t, g],
                            mine[1], mine[4], mine[2], mine[5], g == first_g, zero, K > 1, 0, N,
                        )  # fmt: skip
                    for f in range(first_f, last_f):
                        own = mine[3 * (f - first_f) :]
                        total = own[2] if halves == 1 else totals[t, f, half]
                        w = tiles[t, g]
                        if has0:
                            w = states[t, f, g, 0] if kept else own[0]
                            scale_rows(phi0[f, g], tiles[t, g], w, total, g == first_g, zero, 0, N)
                        for k in range(K):
                            out = states[t, f, g, k + has0] if kept and k + 1 < K else own[(k + 1) % 2]
                            fresh = g == first_g and k == 0 and not has0
                            if k > 0 or not shared:
                                gather_rows(
                                    indptr, indices, in_place, phi[k, f, g], w, out, total, fresh, zero, k + 1 < K, 0, N
                                )
                            w = out
                for f in range(first_f, last_f):
                    total = mine[3 * (f - first_f) + 2] if halves == 1 else totals[t, f, half]
                    if K == 0 and not has0:
                        seed_rows(total, False, total, zero, 0, N)
                    if halves == 1:
                        unpack_tile(total, 0, y, t, f, 0, N)
            finished(board)
    if halves > 1:
        sums = min(SHARES, T * F)
        for turn in range(sums):
            share = claim(board, turn, sums, slot, 3)
            if share >= 0:
                await_finished(board, packing_shares + shares)
                for task in range(share * T * F // sums, (share + 1) * T * F // sums):
                    f = task // T
                    t = task % T
                    for half in range(1, halves):
                        add_rows(totals[t, f, half], totals[t, f, 0], False, zero, 0, N)
                    unpack_tile(totals[t, f, 0], 0, y, t, f, 0, N)
                finished(board)


@register_jitable
def backward_recursions(
    indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi, grad_phi0,
    grad_tiles, grad_x, blocks, stretch, pair, narrow, scratch, zero, board, slot,
):  # fmt: skip
    """Adjoint of forward_recursions. Phases: pack (f, t); an input feature g and one of `blocks` blocks of output
    features; sum over the blocks and unpack (t, g), unless grad_x is empty because nobody asks for it.

    A task of the second phase owns grad_phi[:, its f, g] and grad_tiles[:, task]. scratch: two cotangents, then, where
    forward kept no states, room for those of a stretch of steps and for the ones at which stretches begin: the states
    are computed once to find these, and once more stretch by stretch. A stretch as long as K needs no such walk. Output
    features in pairs (only if that is so and there is no Phi^(0)) share the walk to w^(1); its place is the last.
    """
    K, F, G, _ = phi.shape
    T, _, N, _ = tiles.shape
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    in_place = None  # rows of phi are where indptr says
    wanted = grad_x.shape[0] > 0
    mine = scratch[slot]
    ahead = mine[len(mine) - 1]  # w^(1) of the second feature of a pair
    packing_shares = min(SHARES, T * F)
    for turn in range(packing_shares):
        share = claim(board, turn, packing_shares, slot, 1)
        if share >= 0:
            for task in range(share * T * F // packing_shares, (share + 1) * T * F // packing_shares):
                pack_tile(grad_y, task % T, task // T, lams[task % T, task // T], 0, 0, N)
            finished(board)
    tasks = blocks * G
    shares = min(SHARES, tasks)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 2, LEFT)  # its states are in its cache
        if share >= 0:
            await_finished(board, packing_shares)
            for task in range(share * tasks // shares, (share + 1) * tasks // shares):
                g = task % G
                # Of two blocks the larger is the first for half the g, the second for the others: even work, and in the
                # hands of the same thread as in the forward pass, which has the states in its cache.
                more = blocks - 1 if g < G // 2 or G == 1 else 0
                first_f = (task // G * F + more) // blocks
                last_f = ((task // G + 1) * F + more) // blocks
                for lead in range(first_f, last_f, pair):
                    shared = pair == 2 and lead + 1 < last_f
                    for tf in range(T * (1 + shared)):  # tiles inside: phi and its gradient are in the caches then
                        t = tf // (1 + shared)
                        f = lead + tf % (1 + shared)
                        second = f > lead
                        if wanted and f == first_f:
                            ask_to_write(grad_tiles[t, task], 0, N)
                        if shared and not second:
                            gather_rows_quiet_two(
                                indptr, indices, phi[0, f, g], phi[0, f + 1, g], tiles[t, g], mine[3], ahead, zero, 0, N
                            )
                        if not kept:
                            if has0:
                                scale_rows_quiet(phi0[f, g], tiles[t, g], mine[2], zero, 0, N)
                            w = mine[2] if has0 else tiles[t, g]
                            for k in range(1, (K - 1) // stretch * stretch + 1):
                                out = mine[k % 2] if k % stretch else mine[1 + stretch + k // stretch]
                                gather_rows_quiet(indptr, indices, in_place, phi[k - 1, f, g], w, out, zero, 0, N)
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
                                        again = ahead if second and j == 1 else mine[2 + j % stretch]
                                        if j > 1 or not shared:
                                            gather_rows_quiet(
                                                indptr, indices, in_place, phi[j - 1, f, g], w, again, zero, 0, N
                                            )
                                        w = again
                                if k % stretch:
                                    w = ahead if second and k == 1 else mine[2 + k % stretch]
                            out = mine[k % 2]
                            seeded = k > 0 or has0
                            if not (wanted or seeded):
                                outer_rows(indptr, indices, in_place, lam, w, grad_phi[k, f, g], t == 0, zero, 0, N)
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
            share = claim(board, turn, shares, slot, 3)
            if share >= 0:
                await_finished(board, before)
                for task in range(share * T * G // shares, (share + 1) * T * G // shares):
                    t = task // G
                    g = task % G
                    for block in range(1, blocks):
                        ask_to_read(grad_tiles[t, block * G + g], 0, N)
                        add_rows(grad_tiles[t, block * G + g], grad_tiles[t, g], False, zero, 0, N)
                    unpack_tile(grad_tiles[t, g], 0, grad_x, t, g, 0, N)
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
        share = claim(board, turn, packing_shares, slot, 1)
        if share >= 0:
            for task in range(share * T * G // packing_shares, (share + 1) * T * G // packing_shares):
                pack_tile(x, task // G, task % G, tiles[task // G, task % G], 0, 0, N)
                pack_tile(dx, task // G, task % G, dtiles[task // G, task % G], 0, 0, N)
            finished(board)
    shares = min(SHARES, T * F)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 2)
        if share >= 0:
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
                unpack_tile(total, 0, dy, t, f, 0, N)
            finished(board)


NARROW = 16  # samples in a row up to which rows send to their neighbours instead of gathering along columns


def _build(width, source, jit):
    """The passes for rows of `width` samples. Closures hold numbers alone: more would defeat numba's cache."""

    narrow = width <= NARROW

    @jit
    def forward(indptr, indices, phi, phi0, x, tiles, states, y, totals, pair, scratch, board, n):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, phi, phi0, x, tiles, states, y, totals, pair, scratch, zero, board)
        together(forward_recursions, arguments, board, n)

    @jit
    def forward_by_steps(
        indptr, indices, starts, phi, phi0, x, tiles, states, y, places, few, pieces, scratch, board, n
    ):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, starts, phi, phi0, x, tiles, states, y, places, few, pieces, scratch, zero, board)
        together(forward_steps, arguments, board, n)

    @jit
    def tangent(indptr, indices, phi, phi0, x, tiles, dphi, dphi0, dx, dtiles, dy, scratch, board, n):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, phi, phi0, x, tiles, dphi, dphi0, dx, dtiles, dy, scratch, zero, board)
        together(tangent_recursions, arguments, board, n)

    @jit
    def backward(
        indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
        grad_phi0, grad_tiles, grad_x, blocks, stretch, pair, scratch, board, n,
    ):  # fmt: skip
        arguments = (
            indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
            grad_phi0, grad_tiles, grad_x, blocks, stretch, pair, narrow, scratch, zeros(tiles, width, source), board,
        )  # fmt: skip
        together(backward_recursions, arguments, board, n)

    @jit
    def backward_by_steps(
        indptr, indices, starts, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams,
        grad_phi, grad_phi0, grad_x, places, few, pieces, column_pieces, blocks, stretch, scratch, board, n,
    ):  # fmt: skip
        arguments = (
            indptr, indices, starts, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams,
            grad_phi, grad_phi0, grad_x, places, few, pieces, column_pieces, blocks, stretch, narrow, scratch,
            zeros(tiles, width, source), board,
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
