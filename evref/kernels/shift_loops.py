"""The loops of the compiled shift kernels; the reference twin is :mod:`evref.kernels.shift_reference`.

Plain Python that numba compiles (:func:`kernels_for`) and that also runs uncompiled (:func:`plain_kernels`).

They work on one tile. Its signals are tables (rows, width), a row being one node of one feature for `width` samples;
the row of tap k, feature g and node i is (k G + g) N + i. Indexing one table costs an addition, slicing nested arrays
would count references in the middle of the loops.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

from . import loops, vectors
from .jit import compiled, inlined
from .packing import pack_rows, unpack_rows
from .vectors import fold, load, scale_add, store, zeros

# As in vectors.py: a change in a file that the drivers below take loops from must make numba's on-disk cache miss.
SOURCE = int.from_bytes(
    sha256(b"".join(Path(str(m.__file__)).read_bytes() for m in (loops, vectors))).digest()[:6], "little"
)


@inlined
def recursion_rows(
    indptr, indices, values, doubled, minus, states, zero, sizes, adjoint, chebyshev, first, last, lo, hi
):
    """Steps first..last-1 of K, the rows lo..hi-1 of every feature. Step s = 0, 1, ... computes

        w^(s+1)  = S w^(s),                 Chebyshev  2 S w^(s) - w^(s-1) from s = 1 on        (forward)
        b^(k)   += S^T b^(k+1),  k = K-1-s, Chebyshev  += 2 S^T b^(k+1) - b^(k+2), S^T for k = 0 (adjoint)

    with S, or S^T and b = states, in CSR form; `doubled` holds 2 S and minus is -1.
    """
    K, G, N = sizes
    tap = G * N  # rows from one tap to the next
    for g in range(G):  # all steps of one feature before the next: two of its states fit the second cache
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
def mix_nodes(weights, copied, order, states, y, zero, lo, hi):
    """y_f = sum_k sum_g c[k, f, g] w_g^(k) for the nodes order[lo..hi-1], node by node.

    All rows of a node that are needed, taps G of them, stay in the first cache while every f reads them.
    """
    taps, F, G, _ = weights.shape
    N = copied.size
    for n in range(lo, hi):
        i = order[n]
        c = copied[i]
        for f in range(F):
            row = zero
            for k in range(taps):
                for g in range(G):
                    row = scale_add(weights[k, f, g, c], load(states, (k * G + g) * N + i, zero), row)
            store(y, f * N + i, row)


@inlined
def mix_adjoint_pieces(weights, copied, order, pieces, states, v, u, totals, partial, zero, lane_zero, lanes, lo, hi):
    """u_g^(k) = sum_f c[k, f, g] v_f and partial[piece, k, f, g] += <v_f, w_g^(k)>, for the pieces lo..hi-1.

    Inner products are kept by lane (`totals`) and added across once per piece: a sum across a register is as dear as
    the products themselves. Pieces do not depend on the threads, so neither do the sums.
    """
    taps, F, G, _ = weights.shape
    N = copied.size
    for piece in range(lo, hi):
        for r in range(taps * F * G):
            store(totals, r, lane_zero)
        for n in range(pieces[piece], pieces[piece + 1]):
            i = order[n]
            c = copied[i]
            for f in range(F):
                vf = load(v, f * N + i, zero)
                for k in range(taps):
                    for g in range(G):
                        r = (k * F + f) * G + g
                        w = load(states, (k * G + g) * N + i, zero)
                        store(totals, r, fold(vf, w, load(totals, r, lane_zero)))
            for k in range(taps):
                for g in range(G):
                    row = zero
                    for f in range(F):
                        row = scale_add(weights[k, f, g, c], load(v, f * N + i, zero), row)
                    store(u, (k * G + g) * N + i, row)
        for r in range(taps * F * G):
            total = totals[r, 0]
            for lane in range(1, lanes):
                total += totals[r, lane]
            partial[piece, r] += total


def _build(width, lanes, source, jit):
    """The drivers for rows of `width` samples. Closures hold numbers alone: more would defeat numba's cache.

    `whole` ones do everything in one call, for one thread; the others are its parts, for threads to share.
    """

    @jit
    def forward_whole(
        indptr, indices, values, doubled, minus, weights, copied, order, x, states, y_tile, y, chebyshev, first
    ):
        zero = zeros(x, width, source)
        T, taps, G, N, _ = states.shape
        y_rows = y_tile.reshape(y_tile.shape[1] * N, width)
        for t in range(T):
            pack_rows(x[t * width : (t + 1) * width], states[t, :1], 0, N)
            recursion_rows(
                indptr, indices, values, doubled, minus, states[t].reshape(taps * G * N, width), zero,
                (taps - 1, G, N), False, chebyshev, 0, taps - 1, 0, N,
            )  # fmt: skip
            used = states[t, first:].reshape((taps - first) * G * N, width)
            mix_nodes(weights, copied, order, used, y_rows, zero, 0, N)
            unpack_rows(y_tile, y[t * width : (t + 1) * width], 0, N)

    @jit
    def backward_whole(
        indptr, indices, values, doubled, minus, weights, copied, order, pieces, states, grad_y, v_tile, u, totals,
        partial, grad_x, chebyshev, first,
    ):  # fmt: skip
        zero = zeros(states, width, source)
        lane_zero = zeros(states, lanes, source)
        T, taps, G, N, _ = states.shape
        v_rows = v_tile.reshape(v_tile.shape[1] * N, width)
        u_rows = u.reshape(taps * G * N, width)
        for t in range(T):
            pack_rows(grad_y[t * width : (t + 1) * width], v_tile, 0, N)
            for r in range(first * G * N):
                store(u_rows, r, zero)
            used = states[t, first:].reshape((taps - first) * G * N, width)
            mix_adjoint_pieces(
                weights, copied, order, pieces, used, v_rows, u_rows[first * G * N :], totals, partial,
                zero, lane_zero, lanes, 0, pieces.size - 1,
            )  # fmt: skip
            recursion_rows(
                indptr, indices, values, doubled, minus, u_rows, zero,
                (taps - 1, G, N), True, chebyshev, 0, taps - 1, 0, N,
            )  # fmt: skip
            unpack_rows(u[:1], grad_x[t * width : (t + 1) * width], 0, N)

    @jit
    def recursion(indptr, indices, values, doubled, minus, states, sizes, adjoint, chebyshev, first, last, lo, hi):
        recursion_rows(
            indptr, indices, values, doubled, minus, states, zeros(states, width, source),
            sizes, adjoint, chebyshev, first, last, lo, hi,
        )  # fmt: skip

    @jit
    def mix(weights, copied, order, states, y, lo, hi):
        mix_nodes(weights, copied, order, states, y, zeros(states, width, source), lo, hi)

    @jit
    def mix_adjoint(weights, copied, order, pieces, states, v, u, totals, partial, lo, hi):
        mix_adjoint_pieces(
            weights, copied, order, pieces, states, v, u, totals, partial,
            zeros(states, width, source), zeros(states, lanes, source), lanes, lo, hi,
        )  # fmt: skip

    return SimpleNamespace(
        forward_whole=forward_whole,
        backward_whole=backward_whole,
        recursion=recursion,
        mix=mix,
        mix_adjoint=mix_adjoint,
    )


@cache
def kernels_for(width: int, lanes: int) -> SimpleNamespace:
    """The compiled drivers for rows of `width` samples, `lanes` to a register; each compiles when first called."""
    return _build(width, lanes, SOURCE, compiled)


@cache
def plain_kernels(width: int, lanes: int) -> SimpleNamespace:
    """The same drivers as plain Python."""
    return _build(width, lanes, SOURCE, lambda function: function)
