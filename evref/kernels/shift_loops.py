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
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

from . import loops, vectors
from .loops import BLOCK, compiled, inlined, pack_rows, turn_blocks, unpack_rows
from .vectors import (
    column,
    line,
    load,
    load_block,
    outer_add,
    outer_zero,
    scale_add,
    spread,
    store,
    store_block,
    sum_lanes,
    zeros,
)

NODES = 8  # whose inner products are taken together, while their rows are in the caches

# As in vectors.py: a change in a file that the drivers below take loops from must make numba's on-disk cache miss.
SOURCE = int.from_bytes(
    sha256(b"".join(Path(str(m.__file__)).read_bytes() for m in (loops, vectors))).digest()[:6], "little"
)


@inlined
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
                    row = scale_add(weight[p], load(states, origin + indices[p], zero), row)
                store(states, target + i, row)


@inlined
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


@inlined
def mixed_rows(numbers, first, strides, counts, across, rows, out, row, step, n_out, wide):
    """The same for r = 0, ..., n_out-1: three rows of seven registers at a time fill the machine's thirty-two."""
    for r in range(0, n_out - 2, 3):
        place, target = first + r * across, row + r * step
        mixed_block(numbers, place, strides, counts, across, rows, row, out, target, step, wide, column(3, wide))
    r = n_out - n_out % 3
    place, target = first + r * across, row + r * step
    if n_out - r == 2:
        mixed_block(numbers, place, strides, counts, across, rows, row, out, target, step, wide, column(2, wide))
    elif n_out - r == 1:
        mixed_block(numbers, place, strides, counts, across, rows, row, out, target, step, wide, column(1, wide))


@inlined
def mix_nodes(weights, copied, states, y, parts, wide, lo, hi):
    """y_f = sum_k sum_g c[k, f, g] w_g^(k) for the nodes lo..hi-1, node by node.

    All rows of a node that are needed, taps G of them, stay in the first cache while every f reads them.
    """
    taps, F, G, C = weights.shape
    strides, counts, step = (F * G * C, C), (taps, G), copied.size * parts
    for i in range(lo, hi):
        mixed_rows(weights, copied[i], strides, counts, G * C, states, y, i * parts, step, F, wide)


@inlined
def mix_adjoint_nodes(weights, copied, v, u, g, parts, wide, lo, hi):
    """u^(k) = sum_f c[k, f, g] v_f for one input feature g and the nodes lo..hi-1, node by node."""
    taps, F, G, C = weights.shape
    strides, counts, step = (G * C, 0), (F, 1), copied.size * parts
    for i in range(lo, hi):
        mixed_rows(weights, g * C + copied[i], strides, counts, F * G * C, v, u, i * parts, step, taps, wide)


@inlined
def product_block(order, start, stop, v, w, parts, step, totals, f, m, M, f_tall, m_tall):
    """totals[f, m] += v_f w_m for a block of pairs, lane by lane, over the nodes order[start..stop-1]."""
    total = load_block(totals, f * M + m, M, outer_zero(f_tall, m_tall))
    for n in range(start, stop):
        at = order[n] * parts
        for p in range(at, at + parts):
            v_part, w_part = load_block(v, f * step + p, step, f_tall), load_block(w, m * step + p, step, m_tall)
            total = outer_add(v_part, w_part, total)
    store_block(totals, f * M + m, M, total)


@inlined
def product_rows(order, start, stop, v, w, parts, step, totals, f, M, f_tall):
    """The same for a block of f and all m: four at a time, the rest one by one."""
    for m in range(0, M - 3, 4):
        product_block(order, start, stop, v, w, parts, step, totals, f, m, M, f_tall, column(4, f_tall))
    for m in range(M - M % 4, M):
        product_block(order, start, stop, v, w, parts, step, totals, f, m, M, f_tall, column(1, f_tall))


@inlined
def products(order, start, stop, v, w, F, M, parts, step, totals, wide):
    """The same for all pairs: f three at a time, so that twelve sums and what they need stay in registers."""
    for f in range(0, F - 2, 3):
        product_rows(order, start, stop, v, w, parts, step, totals, f, M, column(3, wide))
    f = F - F % 3
    if F - f == 2:
        product_rows(order, start, stop, v, w, parts, step, totals, f, M, column(2, wide))
    elif F - f == 1:
        product_rows(order, start, stop, v, w, parts, step, totals, f, M, column(1, wide))


@inlined
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


@inlined
def unpack_feature(rows, x, first, width, g, lo, hi):
    """The nodes lo..hi-1 of feature g back into x, samples from `first` on; `rows` are those of all nodes."""
    B, G, N = x.shape
    full = min(width, B - first)
    samples, nodes = full // BLOCK * BLOCK, (hi - lo) // BLOCK * BLOCK
    turn_blocks(rows, lo * width, width, x, (first * G + g) * N + lo, G * N, nodes, samples)
    for i in range(lo, hi):
        for s in range(samples if i < lo + nodes else 0, full):
            x[first + s, g, i] = rows[i, s]


@inlined
def adjoint_features(
    indptr, indices, values, doubled, minus, weights, copied, v, u, grad_x, start, chebyshev, first, zero, width,
    parts, wide, lo, hi,
):  # fmt: skip
    """grad_x of the input features lo..hi-1 for the samples from `start` on.

    One feature at a time through all steps: its cotangents, `taps` states in u, stay in the caches; those of all
    features would go out to memory and come back, which takes longer than computing them.
    """
    N = copied.size
    taps = first + weights.shape[0]
    for g in range(lo, hi):
        for r in range(first * N):
            store(u, r, zero)
        mix_adjoint_nodes(weights, copied, v, u[first * N :], g, parts, wide, 0, N)
        recursion_rows(
            indptr, indices, values, doubled, minus, u, zero,
            (taps - 1, 1, N), (0, 1), True, chebyshev, 0, taps - 1, 0, N,
        )  # fmt: skip
        unpack_feature(u, grad_x, start, width, g, 0, N)


def _build(width, lanes, source, jit):
    """The drivers for rows of `width` samples. Closures hold numbers alone: more would defeat numba's cache.

    `whole` ones do everything in one call, for one thread; the others are its parts, for threads to share.
    """
    parts = width // lanes

    @jit
    def forward_whole(indptr, indices, values, doubled, minus, weights, copied, x, states, y_tile, y, chebyshev, first):
        zero, wide = zeros(x, width, source), line(x, parts, lanes, source)
        T, taps, G, N, _ = states.shape
        for t in range(T):
            pack_rows(x[t * width : (t + 1) * width], states[t, :1], 0, N)
            recursion_rows(
                indptr, indices, values, doubled, minus, states[t].reshape(taps * G * N, width), zero,
                (taps - 1, G, N), (0, G), False, chebyshev, 0, taps - 1, 0, N,
            )  # fmt: skip
            mix_nodes(weights, copied, states[t, first:], y_tile, parts, wide, 0, N)
            unpack_rows(y_tile, y[t * width : (t + 1) * width], 0, N)

    @jit
    def backward_whole(
        indptr, indices, values, doubled, minus, weights, copied, order, pieces, states, grad_y, scratch, partial,
        grad_x, chebyshev, first,
    ):  # fmt: skip
        T, taps, G, N, _ = states.shape
        F = weights.shape[1]
        v, u, totals = scratch[: F * N], scratch[F * N : (F + taps) * N], scratch[(F + taps) * N :]
        wide = line(states, parts, lanes, source)
        for t in range(T):
            pack_rows(grad_y[t * width : (t + 1) * width], v.reshape(1, F, N, width), 0, N)
            product_pieces(order, pieces, states[t, first:], v, totals, partial, parts, wide, 0, pieces.size - 1)
            adjoint_features(
                indptr, indices, values, doubled, minus, weights, copied, v, u, grad_x, t * width, chebyshev, first,
                zeros(states, width, source), width, parts, wide, 0, G,
            )  # fmt: skip

    @jit
    def recursion(
        indptr, indices, values, doubled, minus, states, sizes, features, adjoint, chebyshev, first, last, lo, hi
    ):
        recursion_rows(
            indptr, indices, values, doubled, minus, states, zeros(states, width, source),
            sizes, features, adjoint, chebyshev, first, last, lo, hi,
        )  # fmt: skip

    @jit
    def mix(weights, copied, states, y_tile, y, lo, hi):
        mix_nodes(weights, copied, states, y_tile, parts, line(states, parts, lanes, source), lo, hi)
        unpack_rows(y_tile, y, lo, hi)

    @jit
    def inner_products(order, pieces, states, v, totals, partial, lo, hi):
        wide = line(states, parts, lanes, source)
        product_pieces(order, pieces, states, v, totals, partial, parts, wide, lo, hi)

    @jit
    def mix_adjoint(weights, copied, v, u, g, lo, hi):
        mix_adjoint_nodes(weights, copied, v, u, g, parts, line(v, parts, lanes, source), lo, hi)

    @jit
    def unpack(u, grad_x, start, g, lo, hi):
        unpack_feature(u, grad_x, start, width, g, lo, hi)

    @jit
    def adjoint(
        indptr, indices, values, doubled, minus, weights, copied, v, u, grad_x, start, chebyshev, first, lo, hi
    ):  # fmt: skip
        adjoint_features(
            indptr, indices, values, doubled, minus, weights, copied, v, u, grad_x, start, chebyshev, first,
            zeros(v, width, source), width, parts, line(v, parts, lanes, source), lo, hi,
        )  # fmt: skip

    return SimpleNamespace(
        forward_whole=forward_whole,
        backward_whole=backward_whole,
        recursion=recursion,
        mix=mix,
        inner_products=inner_products,
        mix_adjoint=mix_adjoint,
        unpack=unpack,
        adjoint=adjoint,
    )


@cache
def kernels_for(width: int, lanes: int) -> SimpleNamespace:
    """The compiled drivers for rows of `width` samples, `lanes` to a register; each compiles when first called."""
    return _build(width, lanes, SOURCE, compiled)


@cache
def plain_kernels(width: int, lanes: int) -> SimpleNamespace:
    """The same drivers as plain Python."""
    return _build(width, lanes, SOURCE, lambda function: function)
