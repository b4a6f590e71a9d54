"""The recursions of a few filters on one tile, and the adjoint of one: what the passes over small graphs share out.

Plain Python that numba compiles, and that also runs uncompiled. Names as in :mod:`evref.kernels.loops`.
"""

from __future__ import annotations

from .jit import inner
from .packing import ask_to_read, pack_tile
from .rows import (
    add_rows,
    adjoint_columns,
    adjoint_rows,
    adjoint_scale_rows,
    gather_rows,
    gather_rows_quiet,
    gather_rows_quiet_two,
    gather_rows_two,
    outer_rows,
    scale_rows,
    scale_rows_quiet,
    seed_rows,
)
from .together import SHARES, claim, finished


@inner
def pack_phase(x, tiles, board, slot):
    """Phase 1 of a pass forward: tiles[t, g] from x. Returns the number of its shares."""
    T, G, N, _ = tiles.shape
    shares = min(SHARES, T * G)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 1)
        if share >= 0:
            for task in range(share * T * G // shares, (share + 1) * T * G // shares):
                pack_tile(x, task // G, task % G, tiles[task // G, task % G], 0, 0, N)
            finished(board)
    return shares


@inner
def forward_filters(indptr, indices, phi, phi0, x, states, features, inputs, sums, own, zero):
    """sums[f - first_f] = sum_g sum_k w^(k)_fg for `features` and `inputs`, each a range (first, last).

    x[g] is the packed input. states[f, g] receives what the adjoint needs, w^(1)..w^(K-1) and, if there is a Phi^(0),
    before them w^(0), unless it is empty. own: two states for each feature. Two features (only without Phi^(0) and
    kept states) share the first walk over x_g.
    """
    K = phi.shape[0]
    N = x.shape[1]
    has0 = phi0.shape[0] > 0
    kept = states.shape[2] > 0
    in_place = None  # rows of phi are where indptr says
    first_f, last_f = features
    first_g, last_g = inputs
    shared = last_f == first_f + 2
    for g in range(first_g, last_g):
        if g + 1 < x.shape[0]:
            ask_to_read(x[g + 1], 0, N)
        if shared:
            gather_rows_two(
                indptr, indices, phi[0, first_f, g], phi[0, first_f + 1, g], x[g],
                own[1], own[3], sums[0], sums[1], g == first_g, zero, K > 1, 0, N,
            )  # fmt: skip
        for f in range(first_f, last_f):
            mine = own[2 * (f - first_f) :]
            total = sums[f - first_f]
            w = x[g]
            if has0:
                w = states[f, g, 0] if kept else mine[0]
                scale_rows(phi0[f, g], x[g], w, total, g == first_g, zero, 0, N)
            for k in range(K):
                out = states[f, g, k + has0] if kept and k + 1 < K else mine[(k + 1) % 2]
                fresh = g == first_g and k == 0 and not has0
                if k > 0 or not shared:
                    gather_rows(indptr, indices, in_place, phi[k, f, g], w, out, total, fresh, zero, k + 1 < K, 0, N)
                w = out
    if K == 0 and not has0:
        for f in range(first_f, last_f):
            seed_rows(sums[f - first_f], False, sums[f - first_f], zero, 0, N)


@inner
def first_states_of_two(indptr, indices, phi, x, f, g, own, zero):
    """w^(1) of the filters (f, g) and (f + 1, g), from one walk, where `adjoint_filter` looks for them."""
    ahead = own[len(own) - 1]
    gather_rows_quiet_two(indptr, indices, phi[0, f, g], phi[0, f + 1, g], x, own[3], ahead, zero, 0, x.shape[0])


@inner
def adjoint_filter(
    indptr, indices, column_indptr, row_indices, transpose, phi, phi0, f, g, x, states, seed, grad_phi, grad_phi0,
    fresh, grad_x, fresh_x, wanted, stretch, shared, second, narrow, own, zero,
):  # fmt: skip
    """Adjoint of one filter: from seed, the cotangent of y_f, the gradients of its phi and, if `wanted`, of x.

    states: what forward kept, or nothing. own: two cotangents, then, where nothing was kept, room for the states of a
    stretch of steps and for the ones at which stretches begin: the states are computed once to find these, and once
    more stretch by stretch. A stretch as long as K needs no such walk. Of two features that share the walk to w^(1)
    (only if that is so and there is no Phi^(0)) the `second` has it in the last place.
    """
    K = phi.shape[0]
    N = x.shape[0]
    has0 = phi0.shape[0] > 0
    kept = states.shape[0] > 0
    in_place = None  # rows of phi are where indptr says
    ahead = own[len(own) - 1]
    if not kept:
        if has0:
            scale_rows_quiet(phi0[f, g], x, own[2], zero, 0, N)
        w = own[2] if has0 else x
        for k in range(1, (K - 1) // stretch * stretch + 1):
            out = own[k % 2] if k % stretch else own[1 + stretch + k // stretch]
            gather_rows_quiet(indptr, indices, in_place, phi[k - 1, f, g], w, out, zero, 0, N)
            w = out
    lam = seed
    for k in range(K - 1, -1, -1):
        w = x
        if kept:
            w = states[k - 1 + has0] if k > 0 or has0 else w
        else:
            if k >= stretch:
                w = own[1 + stretch + k // stretch]
            elif has0:
                w = own[2]
            if k == K - 1 or (k + 1) % stretch == 0:  # into the next stretch
                for j in range(k // stretch * stretch + 1, k + 1):
                    again = ahead if second and j == 1 else own[2 + j % stretch]
                    if j > 1 or not shared:
                        gather_rows_quiet(indptr, indices, in_place, phi[j - 1, f, g], w, again, zero, 0, N)
                    w = again
            if k % stretch:
                w = ahead if second and k == 1 else own[2 + k % stretch]
        out = own[k % 2]
        seeded = k > 0 or has0
        if not (wanted or seeded):
            outer_rows(indptr, indices, in_place, lam, w, grad_phi[k, f, g], fresh, zero, 0, N)
        elif narrow:
            seed_rows(seed, seeded, out, zero, 0, N)
            adjoint_rows(indptr, indices, phi[k, f, g], lam, w, out, grad_phi[k, f, g], fresh, zero, 0, N)
        else:
            adjoint_columns(
                column_indptr, row_indices, transpose, phi[k, f, g], lam, w,
                seed, seeded, out, grad_phi[k, f, g], fresh, zero, 0, N,
            )  # fmt: skip
        lam = out
    if has0:
        adjoint_scale_rows(phi0[f, g], lam, x, grad_phi0[f, g], fresh, grad_x, fresh_x, zero, 0, N)
    elif wanted:
        add_rows(lam, grad_x, fresh_x, zero, 0, N)
