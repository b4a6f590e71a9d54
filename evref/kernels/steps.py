"""The passes of the compiled edge-variant kernels for large graphs: step by step, every step shared by nodes."""

from __future__ import annotations

from .jit import inner
from .packing import pack_nodes, unpack_nodes
from .rows import (
    add_rows,
    adjoint_columns,
    adjoint_scale_rows,
    gather_rows,
    gather_rows_quiet,
    look_at_rows,
    outer_rows,
    scale_rows,
    scale_rows_quiet,
    seed_rows,
    send_rows,
)
from .together import await_finished, claim, finished

LOOKED = 8  # samples in a row from which on a look at the results is shorter here than afterwards


@inner
def forward_steps(
    indptr, indices, starts, phi, phi0, x, tiles, states, y, places, few, pieces, scratch, zero, board, slot
):
    """forward_recursions for large graphs: each step is a phase, its shares the nodes pieces[p]..pieces[p + 1]-1.

    Where a graph has a layout of its own, node i of the user is row places[i] inside, row after row.
    """
    K, F, G, _ = phi.shape
    T = tiles.shape[0]
    P = pieces.size - 1
    has0 = phi0.shape[0] > 0
    kept = states.shape[3] > 0
    total = scratch[2]
    phase = 1
    for t in range(T):
        for turn in range(P):
            share = claim(board, turn, P, slot, phase)
            if share >= 0:
                for g in range(G):
                    pack_nodes(x, t, g, tiles[t, g], places, few[slot], zero, pieces[share], pieces[share + 1])
                finished(board)
        phase += 1
        for f in range(F):
            for g in range(G):
                w = tiles[t, g]
                for k in range(-has0, K):  # step -1 is Phi^(0)
                    out = states[t, f, g, k + has0] if kept and k + 1 < K else scratch[(k + 1) % 2]
                    fresh = g == 0 and k == -has0
                    for turn in range(P):
                        share = claim(board, turn, P, slot, phase)
                        if share >= 0:
                            await_finished(board, (phase - 1) * P)
                            lo = pieces[share]
                            hi = pieces[share + 1]
                            if k < 0:
                                scale_rows(phi0[f, g], w, out, total, fresh, zero, lo, hi)
                            else:
                                gather_rows(
                                    indptr, indices, starts, phi[k, f, g], w, out, total, fresh, zero, k + 1 < K, lo, hi
                                )
                            finished(board)
                    phase += 1
                    w = out
            for turn in range(P):
                share = claim(board, turn, P, slot, phase)
                if share >= 0:
                    await_finished(board, (phase - 1) * P)
                    if total.shape[1] >= LOOKED:
                        look_at_rows(total, zero, board, pieces[share], pieces[share + 1])
                    unpack_nodes(total, y, t, f, places, few[slot], zero, pieces[share], pieces[share + 1])
                    finished(board)
            phase += 1


@inner
def gather_phase(indptr, indices, starts, phi, w, out, pieces, zero, board, slot, phase, before):
    """out = Phi w, for the states that the backward pass computes again"""
    P = pieces.size - 1
    for turn in range(P):
        share = claim(board, turn, P, slot, phase)
        if share >= 0:
            await_finished(board, before)
            gather_rows_quiet(indptr, indices, starts, phi, w, out, zero, pieces[share], pieces[share + 1])
            finished(board)


@inner
def backward_steps(
    indptr, indices, starts, column_indptr, row_indices, transpose, phi, phi0, tiles, states, grad_y, lams, grad_phi,
    grad_phi0, grad_x, places, few, pieces, column_pieces, blocks, stretch, narrow, scratch, zero, board, slot,
):  # fmt: skip
    """Adjoint of forward_steps.

    Narrow rows send to their neighbours, so that two tasks would write the same sums: each block of rows has sums of
    its own, added afterwards. The blocks do not depend on the threads. Gradients of phi, whose phase follows without a
    wait, take a walk of their own. scratch: the gradient of x, two cotangents, the sums of all blocks but the first,
    then states, if they were not kept, stretch by stretch as in backward_recursions.
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
            share = claim(board, turn, P, slot, phase)
            if share >= 0:
                await_finished(board, before)  # the last tile's cotangents are in use until then
                for f in range(F):
                    pack_nodes(grad_y, t, f, lams[f], places, few[slot], zero, pieces[share], pieces[share + 1])
                finished(board)
        phase += 1
        before += P
        for g in range(G):
            for f in range(F):
                if not kept:
                    w = tiles[t, g]
                    if has0:
                        for turn in range(P):
                            share = claim(board, turn, P, slot, phase)
                            if share >= 0:
                                await_finished(board, before)
                                scale_rows_quiet(phi0[f, g], w, own[0], zero, pieces[share], pieces[share + 1])
                                finished(board)
                        phase += 1
                        before += P
                        w = own[0]
                    for k in range(1, (K - 1) // stretch * stretch + 1):
                        out = scratch[1 + k % 2] if k % stretch else own[stretch - 1 + k // stretch]
                        gather_phase(
                            indptr, indices, starts, phi[k - 1, f, g], w, out, pieces, zero, board, slot, phase, before
                        )
                        phase += 1
                        before += P
                        w = out
                lam = lams[f]
                for k in range(K - 1, -1, -1):
                    w = tiles[t, g]
                    if kept:
                        w = states[t, f, g, k - 1 + has0] if k > 0 or has0 else w
                    else:
                        if k >= stretch:
                            w = own[stretch - 1 + k // stretch]
                        elif has0:
                            w = own[0]
                        if k == K - 1 or (k + 1) % stretch == 0:  # into the next stretch
                            for j in range(k // stretch * stretch + 1, k + 1):
                                again = own[j % stretch]
                                gather_phase(
                                    indptr, indices, starts, phi[j - 1, f, g], w, again, pieces, zero,
                                    board, slot, phase, before,
                                )  # fmt: skip
                                phase += 1
                                before += P
                                w = again
                        if k % stretch:
                            w = own[k % stretch]
                    out = scratch[1 + k % 2]
                    seeded = k > 0 or has0
                    sent = wanted or seeded
                    if narrow and sent:
                        for turn in range(n_blocks):
                            share = claim(board, turn, n_blocks, slot, phase)
                            if share >= 0:
                                await_finished(board, before)
                                mine = out if share == 0 else sums[share - 1]
                                seed_rows(lams[f], seeded and share == 0, mine, zero, 0, N)
                                send_rows(
                                    indptr,
                                    indices,
                                    starts,
                                    phi[k, f, g],
                                    lam,
                                    mine,
                                    zero,
                                    blocks[share],
                                    blocks[share + 1],
                                )
                                finished(board)
                        phase += 1
                    for turn in range(P):
                        share = claim(board, turn, P, slot, phase)
                        if share >= 0:
                            await_finished(board, before)
                            if narrow or not sent:
                                outer_rows(
                                    indptr, indices, starts, lam, w, grad_phi[k, f, g], t == 0, zero,
                                    pieces[share], pieces[share + 1],
                                )  # fmt: skip
                            else:
                                adjoint_columns(
                                    column_indptr, row_indices, transpose, phi[k, f, g], lam, w, lams[f], seeded, out,
                                    grad_phi[k, f, g], t == 0, zero, column_pieces[share], column_pieces[share + 1],
                                )  # fmt: skip
                            finished(board)
                    phase += 1
                    before += P + (n_blocks if narrow and sent else 0)
                    if narrow and sent:
                        for turn in range(P):
                            share = claim(board, turn, P, slot, phase)
                            if share >= 0:
                                await_finished(board, before)
                                for block in range(1, n_blocks):
                                    add_rows(sums[block - 1], out, False, zero, pieces[share], pieces[share + 1])
                                finished(board)
                        phase += 1
                        before += P
                    lam = out
                for turn in range(P):
                    share = claim(board, turn, P, slot, phase)
                    if share >= 0:
                        await_finished(board, before)
                        lo = pieces[share]
                        hi = pieces[share + 1]
                        if has0:
                            adjoint_scale_rows(
                                phi0[f, g], lam, tiles[t, g], grad_phi0[f, g], t == 0, total, f == 0, zero, lo, hi
                            )
                        elif wanted:
                            add_rows(lam, total, f == 0, zero, lo, hi)
                        finished(board)
                phase += 1
                before += P
            if wanted:
                for turn in range(P):
                    share = claim(board, turn, P, slot, phase)
                    if share >= 0:
                        await_finished(board, before)
                        if total.shape[1] >= LOOKED:
                            look_at_rows(total, zero, board, pieces[share], pieces[share + 1])
                        unpack_nodes(total, grad_x, t, g, places, few[slot], zero, pieces[share], pieces[share + 1])
                        finished(board)
                phase += 1
                before += P
