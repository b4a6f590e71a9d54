"""The loops of the compiled shift kernels; the reference twin is :mod:`evref.kernels.shift_reference`.

Plain Python that numba compiles (:func:`kernels_for`) and that also runs uncompiled (:func:`plain_kernels`).

They work on one tile. Its signals are tables (rows, width), a row being one node of one feature for `width` samples;
the row of tap k, feature g and node i is (k G + g) N + i. Indexing one table costs an addition, slicing nested arrays
would count references in the middle of the loops.

Products with S go row by row. The mixing of taps and features and the inner products of its adjoint are small matrix
products; they go by blocks of registers, and places in a table are then counted in registers, `parts` to a row.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from . import blocks, jit, loops, packing, rows, vectors
from . import together as team
from .blocks import column, line, load_block, outer_add, outer_zero, spread, store_block, sum_lanes
from .jit import compiled, inner
from .packing import pack_tile, unpack_tile
from .rows import look_at_rows
from .together import SHARES, await_finished, claim, finished, nothing_strange, together
from .vectors import load, rolled, scale_add, store, zeros

NODES = 8  # whose inner products are taken together, while their rows are in the caches

SOURCE = loops.source_of(blocks, jit, packing, rows, team, vectors)


@inner
def recursion_rows(
    indptr, indices, values, doubled, minus, states, zero, sizes, features, adjoint, chebyshev, first, last, lo, hi
):
    """Steps first..last-1 of K, the rows lo..hi-1 of a range of features. Step s = 0, 1, ... computes

        w^(s+1)  = S w^(s),                 Chebyshev  2 S w^(s) - w^(s-1) from s = 1 on        (forward)
        b^(k)   += S^T b^(k+1),  k = K-1-s, Chebyshev  += 2 S^T b^(k+1) - b^(k+2), S^T for k = 0 (adjoint)

    with S, or S^T and b = states, in CSR form; `doubled` holds 2 S and minus is -1.
    """
    K, G, N = sizes
    tap = G * N  # rows from one tap to the next
    for g in range(features[0], features[1]):  # one feature through all steps: two of its states fit the second cache
        for step in range(first, last):
            k = K - 1 - step if adjoint else step + 1
            back = -tap if adjoint else tap
            target = k * tap + g * N
            origin = target - back
            twice = chebyshev and (k > 0 if adjoint else k > 1)
            weight = doubled if twice else values
            for i in range(lo, hi):
                row = load(states, target + i, zero) if adjoint else zero
                if chebyshev and step > 0:
                    row = scale_add(minus, load(states, origin - back + i, zero), row)
                for p in range(indptr[i], indptr[i + 1]):
                    rolled()
                    row = scale_add(weight[p], load(states, origin + indices[p], zero), row)
                store(states, target + i, row)


@inner
def mixed_block(numbers, first, strides, counts, across, rows, row, out, target, step, wide, tall):
    """out_r = sum_s sum_t numbers[first + s strides[0] + t strides[1] + r across] rows_st for a block of r, one node.

    `row` is the place of rows_00, `target` that of out_0, `step` leads to the next in both; `tall` says how many r,
    `wide` how wide a row is. The sums stay in registers.
    """
    total = outer_zero(tall, wide)
    for s in range(counts[0]):
        for t in range(counts[1]):
            coefficients = spread(numbers, first + s * strides[0] + t * strides[1], across, tall)
            total = outer_add(coefficients, load_block(rows, row + (s * counts[1] + t) * step, 0, wide), total)
    store_block(out, target, step, total)


@inner
def mixed_rows(numbers, first, strides, counts, across, rows, out, row, step, n_out, wide):
    """The same for r = 0, ..., n_out-1, two at a time: fourteen sums, and nine loads for as many multiply-adds."""
    for r in range(0, n_out - 1, 2):
        place, target = first + r * across, row + r * step
        mixed_block(numbers, place, strides, counts, across, rows, row, out, target, step, wide, column(2, wide))
    if n_out % 2:
        r = n_out - 1
        place, target = first + r * across, row + r * step
        mixed_block(numbers, place, strides, counts, across, rows, row, out, target, step, wide, column(1, wide))


@inner
def mix_nodes(weights, copied, states, y, parts, wide, lo, hi):
    """y_f = sum_k sum_g c[k, f, g] w_g^(k) for the nodes lo..hi-1, node by node.

    All rows of a node that are needed, taps G of them, stay in the first cache while every f reads them.
    """
    taps, F, G, C = weights.shape
    strides, counts, step = (F * G * C, C), (taps, G), copied.size * parts
    for i in range(lo, hi):
        mixed_rows(weights, copied[i], strides, counts, G * C, states, y, i * parts, step, F, wide)


@inner
def mix_adjoint_nodes(weights, copied, v, u, g, parts, wide, lo, hi):
    """u^(k) = sum_f c[k, f, g] v_f for one input feature g and the nodes lo..hi-1, node by node."""
    taps, F, G, C = weights.shape
    strides, counts, step = (0, G * C), (1, F), copied.size * parts
    for i in range(lo, hi):
        mixed_rows(weights, g * C + copied[i], strides, counts, F * G * C, v, u, i * parts, step, taps, wide)


@inner
def product_block(order, start, stop, v, w, parts, step, totals, f, m, M, f_tall, m_tall):
    """totals[f, m] += v_f w_m for a block of pairs, lane by lane, over the nodes order[start..stop-1]."""
    total = load_block(totals, f * M + m, M, outer_zero(f_tall, m_tall))
    for n in range(start, stop):
        at = order[n] * parts
        for p in range(at, at + parts):
            v_part, w_part = load_block(v, f * step + p, step, f_tall), load_block(w, m * step + p, step, m_tall)
            total = outer_add(v_part, w_part, total)
    store_block(totals, f * M + m, M, total)


@inner
def product_rows(order, start, stop, v, w, parts, step, totals, f, M, f_tall):
    """The same for a block of f and all m: four at a time, the rest one by one."""
    for m in range(0, M - 3, 4):
        product_block(order, start, stop, v, w, parts, step, totals, f, m, M, f_tall, column(4, f_tall))
    for m in range(M - M % 4, M):
        product_block(order, start, stop, v, w, parts, step, totals, f, m, M, f_tall, column(1, f_tall))


@inner
def products(order, start, stop, v, w, F, M, parts, step, totals, wide):
    """The same for all pairs: f two at a time, so that eight sums and what they need stay in registers."""
    for f in range(0, F - 1, 2):
        product_rows(order, start, stop, v, w, parts, step, totals, f, M, column(2, wide))
    if F % 2:
        product_rows(order, start, stop, v, w, parts, step, totals, F - 1, M, column(1, wide))


@inner
def product_pieces(order, pieces, states, v, totals, partial, parts, wide, lo, hi):
    """partial[k, f, g, piece] += <v_f, w_g^(k)> for the pieces lo..hi-1.

    Inner products are kept by lane (`totals`) and added across once per piece: a sum across a register is as dear as
    the products themselves. A few nodes at a time: their rows stay in the second cache while every block of pairs reads
    them, and sums leave the registers less often. Pieces do not depend on the threads, so neither do the sums.
    """
    taps, F, G, n_pieces = partial.shape
    M, step, one = taps * G, order.size * parts, column(1, wide)
    for piece in range(lo, hi):
        for r in range(F * M):
            store_block(totals, r, 0, one)
        for start in range(pieces[piece], pieces[piece + 1], NODES):
            stop = min(start + NODES, pieces[piece + 1])
            products(order, start, stop, v, states, F, M, parts, step, totals, wide)
        for f in range(F):
            for k in range(taps):
                for g in range(G):
                    place = ((k * F + f) * G + g) * n_pieces + piece
                    sum_lanes(load_block(totals, f * M + k * G + g, 0, one), partial, place)


# ---- passes, which several threads walk through together -------------------------------------------------------------
@inner
def forward_part(
    matrix, weights, copied, x, states, y, y_tile, nodes, chebyshev, first, by_rows, parts, zero, wide, board, slot
):  # fmt: skip
    """y and all states, tile by tile. Phases: the states, by features or by rows, step after step; then the mixing, by
    nodes. `nodes` are the bounds of their shares."""
    indptr, indices, values, doubled, minus = matrix
    T, taps, G, N, width = states.shape
    F = y.shape[1]
    P = nodes.size - 1
    shares = P if by_rows else min(SHARES, G)
    phase = 1
    before = 0
    for t in range(T):
        rows = states[t].reshape(taps * G * N, width)
        for step in range(-1, taps - 1 if by_rows else 0):  # step -1 packs
            for turn in range(shares):
                share = claim(board, turn, shares, slot, phase)
                if share >= 0:
                    await_finished(board, before)
                    g_lo = 0 if by_rows else share * G // shares
                    g_hi = G if by_rows else (share + 1) * G // shares
                    lo = nodes[share] if by_rows else 0
                    hi = nodes[share + 1] if by_rows else N
                    if step < 0:
                        for g in range(g_lo, g_hi):
                            pack_tile(x, t, g, states[t, 0, g], lo, lo, hi)
                    if step >= 0 or not by_rows:
                        recursion_rows(
                            indptr, indices, values, doubled, minus, rows, zero, (taps - 1, G, N), (g_lo, g_hi),
                            False, chebyshev, max(step, 0), step + 1 if by_rows else taps - 1, lo, hi,
                        )  # fmt: skip
                    finished(board)
            phase += 1
            before += shares
        for turn in range(P):
            share = claim(board, turn, P, slot, phase)
            if share >= 0:
                await_finished(board, before)
                mix_nodes(weights, copied, states[t, first:], y_tile, parts, wide, nodes[share], nodes[share + 1])
                for f in range(F):
                    look_at_rows(y_tile[f], zero, board, nodes[share], nodes[share + 1])
                    unpack_tile(y_tile[f], nodes[share], y, t, f, nodes[share], nodes[share + 1])
                finished(board)
        phase += 1
        before += P


@inner
def backward_part(
    matrix, weights, copied, order, pieces, states, grad_y, v, totals, partial, us, grad_x, nodes, chebyshev, first,
    by_rows, parts, zero, wide, board, slot,
):  # fmt: skip
    """Adjoint of forward_part with the transposed matrix, tile by tile. Phases: pack by nodes; inner products by
    pieces; then grad_x, one input feature at a time through all steps: its cotangents, `taps` states in u, stay in the
    caches; those of all features would go out to memory and come back, which takes longer than computing them. Threads
    take whole features, each with a u of its own, or, `by_rows`, share the nodes of one."""
    indptr, indices, values, doubled, minus = matrix
    T, taps, G, N, width = states.shape
    F = grad_y.shape[1]
    P = nodes.size - 1
    n_pieces = pieces.size - 1
    piece_shares = min(SHARES, n_pieces)
    feature_shares = min(SHARES, G)
    rows = v.reshape(F * N, width)
    sizes = (taps - 1, 1, N)
    phase = 1
    before = 0
    for t in range(T - 1, -1, -1):  # what forward wrote last is still in the caches
        for turn in range(P):
            share = claim(board, turn, P, slot, phase)
            if share >= 0:
                await_finished(board, before)  # the last tile's v is in use until then
                for f in range(F):
                    pack_tile(grad_y, t, f, v[f], nodes[share], nodes[share], nodes[share + 1])
                finished(board)
        phase += 1
        before += P
        for turn in range(piece_shares):
            share = claim(board, turn, piece_shares, slot, phase)
            if share >= 0:
                await_finished(board, before)
                product_pieces(
                    order, pieces, states[t, first:], rows, totals[slot], partial, parts, wide,
                    share * n_pieces // piece_shares, (share + 1) * n_pieces // piece_shares,
                )  # fmt: skip
                finished(board)
        phase += 1  # the next one needs v alone
        waiting = piece_shares
        if not by_rows:
            u = us[slot]
            for turn in range(feature_shares):
                share = claim(board, turn, feature_shares, slot, phase)
                if share >= 0:
                    await_finished(board, before)
                    for g in range(share * G // feature_shares, (share + 1) * G // feature_shares):
                        for r in range(first * N):
                            store(u, r, zero)
                        mix_adjoint_nodes(weights, copied, rows, u[first * N :], g, parts, wide, 0, N)
                        recursion_rows(
                            indptr, indices, values, doubled, minus, u, zero, sizes, (0, 1), True, chebyshev,
                            0, taps - 1, 0, N,
                        )  # fmt: skip
                        look_at_rows(u, zero, board, 0, N)
                        unpack_tile(u[:N], 0, grad_x, t, g, 0, N)
                    finished(board)
            phase += 1
            before += waiting + feature_shares
        else:
            u = us[0]
            for g in range(G):
                for step in range(-1, taps):  # step -1 mixes, the last one unpacks
                    for turn in range(P):
                        share = claim(board, turn, P, slot, phase)
                        if share >= 0:
                            await_finished(board, before)
                            lo = nodes[share]
                            hi = nodes[share + 1]
                            if step < 0:
                                for r in range(first):
                                    for i in range(lo, hi):
                                        store(u, r * N + i, zero)
                                mix_adjoint_nodes(weights, copied, rows, u[first * N :], g, parts, wide, lo, hi)
                            elif step < taps - 1:
                                recursion_rows(
                                    indptr, indices, values, doubled, minus, u, zero, sizes, (0, 1), True, chebyshev,
                                    step, step + 1, lo, hi,
                                )  # fmt: skip
                            else:
                                look_at_rows(u, zero, board, lo, hi)
                                unpack_tile(u[:N], lo, grad_x, t, g, lo, hi)
                            finished(board)
                    phase += 1
                    before += waiting + P
                    waiting = 0


def _build(width, lanes, source, jit):
    """The passes for rows of `width` samples. Closures hold numbers alone: more would defeat numba's cache."""
    parts = width // lanes

    @jit
    def forward(
        indptr, indices, values, doubled, minus, weights, copied, x, states, y, y_tile, nodes, chebyshev, first,
        by_rows, board, n,
    ):  # fmt: skip
        zero, wide = zeros(x, width, source), line(x, parts, lanes, source)
        matrix = (indptr, indices, values, doubled, minus)
        arguments = (
            matrix, weights, copied, x, states, y, y_tile, nodes, chebyshev, first, by_rows, parts, zero, wide, board
        )  # fmt: skip
        together(forward_part, arguments, board, n)
        return nothing_strange(board)

    @jit
    def backward(
        indptr, indices, values, doubled, minus, weights, copied, order, pieces, states, grad_y, v, totals, partial, us,
        grad_x, nodes, chebyshev, first, by_rows, board, n,
    ):  # fmt: skip
        zero, wide = zeros(states, width, source), line(states, parts, lanes, source)
        matrix = (indptr, indices, values, doubled, minus)
        arguments = (
            matrix, weights, copied, order, pieces, states, grad_y, v, totals, partial, us, grad_x, nodes, chebyshev,
            first, by_rows, parts, zero, wide, board,
        )  # fmt: skip
        together(backward_part, arguments, board, n)
        return nothing_strange(board)

    return SimpleNamespace(forward=forward, backward=backward)


@cache
def kernels_for(width: int, lanes: int) -> SimpleNamespace:
    """The compiled drivers for rows of `width` samples, `lanes` to a register; each compiles when first called."""
    return _build(width, lanes, SOURCE, compiled)


@cache
def plain_kernels(width: int, lanes: int) -> SimpleNamespace:
    """The same drivers as plain Python."""
    return _build(width, lanes, SOURCE, lambda function: function)
