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

from . import jit, packing, recursions, rows, steps, vectors
from . import together as team
from .jit import compiled, inner
from .packing import ask_to_read, ask_to_write, pack_tile, unpack_tile
from .recursions import adjoint_filter, first_states_of_two, forward_filters, pack_phase
from .rows import add_numbers, add_rows, gather_tangent_rows, look_at_rows, scale_tangent_rows, seed_rows
from .steps import LOOKED, backward_steps, forward_steps
from .together import LEFT, SHARES, await_finished, claim, finished, nothing_strange, serve, together
from .vectors import zeros


def source_of(*modules: Any) -> int:
    """A number that changes with the source of these modules.

    numba's on-disk cache looks only at the file of the compiled function, not at what it calls. Kernels hand this
    number to `zeros`, so that it is part of their key and a change in a file they take loops from makes the cache miss.
    """
    text = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
    return int.from_bytes(sha256(text).digest()[:6], "little")


SOURCE = source_of(jit, packing, recursions, rows, steps, team, vectors)


@inner
def forward_recursions(indptr, indices, phi, phi0, x, tiles, states, y, totals, pair, scratch, zero, board, slot):
    """y[t, f] = sum_g sum_k w^(k)_fg. Phases: pack (t, g); the filters of (f, t), or of half the g; then, if those were
    halves, their sums. scratch: two states for each of `pair` output features, then their sums. totals: sums of halves,
    or nothing. In pairs only without Phi^(0), kept states and halves.
    """
    _, F, G, _ = phi.shape
    T, _, N, _ = tiles.shape
    halves = max(1, totals.shape[1])
    mine = scratch[slot]
    packing_shares = pack_phase(x, tiles, board, slot)
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
                inputs = (half * G // halves, (half + 1) * G // halves)
                sums = mine[2 * pair :] if halves == 1 else totals[t, half, first_f:]
                forward_filters(
                    indptr, indices, phi, phi0, tiles[t], states[t], (first_f, last_f), inputs, sums, mine, zero
                )
                if halves == 1:
                    for f in range(first_f, last_f):
                        look_at_rows(sums[f - first_f], zero, board, 0, N)
                        unpack_tile(sums[f - first_f], 0, y, t, f, 0, N)
            finished(board)
    if halves > 1:
        n_sums = min(SHARES, T * F)
        for turn in range(n_sums):
            share = claim(board, turn, n_sums, slot, 3)
            if share >= 0:
                await_finished(board, packing_shares + shares)
                for task in range(share * T * F // n_sums, (share + 1) * T * F // n_sums):
                    f = task // T
                    t = task % T
                    for half in range(1, halves):
                        add_rows(totals[t, half, f], totals[t, 0, f], False, zero, 0, N)
                    look_at_rows(totals[t, 0, f], zero, board, 0, N)
                    unpack_tile(totals[t, 0, f], 0, y, t, f, 0, N)
                finished(board)


@inner
def backward_recursions(
    indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi, grad_phi0,
    spare, spare0, grad_tiles, grad_x, blocks, stretch, pair, narrow, scratch, zero, board, slot,
):  # fmt: skip
    """Adjoint of forward_recursions. Phases: pack (f, t); an input feature g and one of `blocks` blocks of output
    features; sum over the blocks and unpack (t, g), unless grad_x is empty because nobody asks for it.

    A task of the second phase owns grad_phi[:, its f, g] and grad_tiles[:, task]. The middle one of an odd number goes
    by halves of the tiles, even work for two, if there is a spare place for the gradients of the second half, which are
    added in a phase of their own. scratch: see `adjoint_filter`.
    """
    K, F, G, _ = phi.shape
    T, _, N, _ = tiles.shape
    wanted = grad_x.shape[0] > 0
    mine = scratch[slot]
    packing_shares = min(SHARES, T * F)
    for turn in range(packing_shares):
        share = claim(board, turn, packing_shares, slot, 1)
        if share >= 0:
            for task in range(share * T * F // packing_shares, (share + 1) * T * F // packing_shares):
                pack_tile(grad_y, task % T, task // T, lams[task % T, task // T], 0, 0, N)
            finished(board)
    halved = blocks * G // 2 if spare.size > 0 else -1
    tasks = blocks * G + (halved >= 0)
    shares = min(SHARES, tasks)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 2, LEFT)  # its states are in its cache
        if share >= 0:
            await_finished(board, packing_shares)
            for half_task in range(share * tasks // shares, (share + 1) * tasks // shares):
                second_half = half_task == halved + 1 and halved >= 0
                task = half_task - (1 if half_task > halved >= 0 else 0)
                first_t = T // 2 if second_half else 0
                last_t = T // 2 if task == halved and not second_half else T
                into = spare if second_half else grad_phi
                into0 = spare0 if second_half else grad_phi0
                g = task % G
                # Of two blocks the larger is the first for half the g, the second for the others: even work, and in the
                # hands of the same thread as in the forward pass, which has the states in its cache.
                more = blocks - 1 if g < G // 2 or G == 1 else 0
                first_f = (task // G * F + more) // blocks
                last_f = ((task // G + 1) * F + more) // blocks
                for lead in range(first_f, last_f, pair):
                    shared = pair == 2 and lead + 1 < last_f
                    for tf in range((last_t - first_t) * (1 + shared)):  # tiles inside: phi is in the caches then
                        t = first_t + tf // (1 + shared)
                        f = lead + tf % (1 + shared)
                        if wanted and f == first_f:
                            ask_to_write(grad_tiles[t, task], 0, N)
                        if shared and f == lead:
                            first_states_of_two(indptr, indices, phi, tiles[t, g], f, g, mine, zero)
                        adjoint_filter(
                            indptr, indices, column_indptr, row_indices, transpose, phi, phi0, f, g, tiles[t, g],
                            states[t, f, g], lams[t, f], into, into0, t == first_t, grad_tiles[t, task], f == first_f,
                            wanted, stretch, shared, f > lead, narrow, mine, zero,
                        )  # fmt: skip
            finished(board)
    before = packing_shares + shares
    if halved >= 0 and claim(board, 0, 1, 0, 3) >= 0:
        await_finished(board, before)
        g = halved % G
        more = blocks - 1 if g < G // 2 or G == 1 else 0
        for f in range((halved // G * F + more) // blocks, ((halved // G + 1) * F + more) // blocks):
            for k in range(K):
                add_numbers(spare[k, f, g], grad_phi[k, f, g])
            if phi0.shape[0] > 0:
                add_numbers(spare0[f, g], grad_phi0[f, g])
        finished(board)
    if wanted:
        shares = min(SHARES, T * G)
        for turn in range(shares):
            share = claim(board, turn, shares, slot, 4)
            if share >= 0:
                await_finished(board, before)
                for task in range(share * T * G // shares, (share + 1) * T * G // shares):
                    t = task // G
                    g = task % G
                    for block in range(1, blocks):
                        ask_to_read(grad_tiles[t, block * G + g], 0, N)
                        add_rows(grad_tiles[t, block * G + g], grad_tiles[t, g], False, zero, 0, N)
                    look_at_rows(grad_tiles[t, g], zero, board, 0, N)
                    unpack_tile(grad_tiles[t, g], 0, grad_x, t, g, 0, N)
                finished(board)


@inner
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
    """The passes for rows of `width` samples. Closures hold numbers alone: more would defeat numba's cache.

    Forward and backward say whether they looked at the numbers of y, or grad_x, and found all finite."""

    narrow = width <= NARROW

    @jit
    def forward(indptr, indices, phi, phi0, x, tiles, states, y, totals, pair, scratch, board, n):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, phi, phi0, x, tiles, states, y, totals, pair, scratch, zero, board)
        together(forward_recursions, arguments, board, n)
        return nothing_strange(board)

    @jit
    def forward_by_steps(
        indptr, indices, starts, phi, phi0, x, tiles, states, y, places, few, pieces, scratch, board, n
    ):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, starts, phi, phi0, x, tiles, states, y, places, few, pieces, scratch, zero, board)
        together(forward_steps, arguments, board, n)
        return width >= LOOKED and nothing_strange(board)

    @jit
    def tangent(indptr, indices, phi, phi0, x, tiles, dphi, dphi0, dx, dtiles, dy, scratch, board, n):
        zero = zeros(x, width, source)
        arguments = (indptr, indices, phi, phi0, x, tiles, dphi, dphi0, dx, dtiles, dy, scratch, zero, board)
        together(tangent_recursions, arguments, board, n)

    @jit
    def backward(
        indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
        grad_phi0, spare, spare0, grad_tiles, grad_x, blocks, stretch, pair, scratch, board, n,
    ):  # fmt: skip
        arguments = (
            indptr, indices, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
            grad_phi0, spare, spare0, grad_tiles, grad_x, blocks, stretch, pair, narrow, scratch,
            zeros(tiles, width, source), board,
        )  # fmt: skip
        together(backward_recursions, arguments, board, n)
        return nothing_strange(board)

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
        return width >= LOOKED and nothing_strange(board)

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
