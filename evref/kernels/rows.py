"""One step of a recursion on the rows lo..hi-1 of tiles (nodes, width): what the compiled passes are made of.

Plain Python that numba compiles, and that also runs uncompiled. Names: `w` states, `lam` their cotangents, `phi[p]`
entry p of one Phi in CSR order; sums that are `fresh` are begun, others are added to.
"""

from __future__ import annotations

from .jit import inner
from .together import STRANGE, write
from .vectors import add, ask_for, dot, load, rolled, scale_add, store

AHEAD = 12  # rows


@inner
def row_place(indptr, starts, phi, i, writing):
    """Where the entries of row i begin in phi: at indptr[i], unless the graph has a layout of its own
    (:mod:`evref.kernels.walk`). Then no hardware guesses which lines come next: those of a later row are asked for."""
    if starts is None:
        return indptr[i]
    later = min(i + AHEAD, starts.size - 1)
    ask_for(phi, starts[later], writing)
    ask_for(phi, starts[later] + (indptr[later + 1] - indptr[later] - 1), writing)
    return starts[i]


@inner
def scale_rows(diagonal, x, out, y, fresh, zero, lo, hi):
    """out = diag(diagonal) x;  y += out"""
    for i in range(lo, hi):
        row = scale_add(diagonal[i], load(x, i, zero), zero)
        store(out, i, row)
        store(y, i, row if fresh else add(load(y, i, zero), row))


@inner
def gather_rows(indptr, indices, starts, phi, w, out, y, fresh, zero, keep, lo, hi):
    """out = Phi w;  y += out.  The last state of a recursion is not needed again: keep=False leaves `out` alone."""
    for i in range(lo, hi):
        row = zero
        begin, place = indptr[i], row_place(indptr, starts, phi, i, False)
        for p in range(begin, indptr[i + 1]):
            rolled()
            row = scale_add(phi[place + (p - begin)], load(w, indices[p], zero), row)
        if keep:
            store(out, i, row)
        store(y, i, row if fresh else add(load(y, i, zero), row))


@inner
def gather_rows_two(indptr, indices, phi, phi2, w, out, out2, y, y2, fresh, zero, keep, lo, hi):
    """gather_rows for two Phi and one w, whose rows are read once: on medium graphs these reads are what takes long."""
    for i in range(lo, hi):
        row = zero
        row2 = zero
        for p in range(indptr[i], indptr[i + 1]):
            rolled()
            neighbor = load(w, indices[p], zero)
            row = scale_add(phi[p], neighbor, row)
            row2 = scale_add(phi2[p], neighbor, row2)
        if keep:
            store(out, i, row)
            store(out2, i, row2)
        store(y, i, row if fresh else add(load(y, i, zero), row))
        store(y2, i, row2 if fresh else add(load(y2, i, zero), row2))


@inner
def gather_rows_quiet_two(indptr, indices, phi, phi2, w, out, out2, zero, lo, hi):
    """Likewise, for the states that the backward pass computes again"""
    for i in range(lo, hi):
        row = zero
        row2 = zero
        for p in range(indptr[i], indptr[i + 1]):
            rolled()
            neighbor = load(w, indices[p], zero)
            row = scale_add(phi[p], neighbor, row)
            row2 = scale_add(phi2[p], neighbor, row2)
        store(out, i, row)
        store(out2, i, row2)


@inner
def gather_rows_quiet(indptr, indices, starts, phi, w, out, zero, lo, hi):
    """out = Phi w, for the states that the backward pass computes again"""
    for i in range(lo, hi):
        row = zero
        begin, place = indptr[i], row_place(indptr, starts, phi, i, False)
        for p in range(begin, indptr[i + 1]):
            rolled()
            row = scale_add(phi[place + (p - begin)], load(w, indices[p], zero), row)
        store(out, i, row)


@inner
def scale_rows_quiet(diagonal, x, out, zero, lo, hi):
    """out = diag(diagonal) x, likewise"""
    for i in range(lo, hi):
        store(out, i, scale_add(diagonal[i], load(x, i, zero), zero))


@inner
def gather_tangent_rows(indptr, indices, phi, dphi, w, dw, out, dout, dy, zero, lo, hi):
    """out = Phi w;  dout = Phi dw + dPhi w;  dy += dout"""
    for i in range(lo, hi):
        row = zero
        drow = zero
        for p in range(indptr[i], indptr[i + 1]):
            rolled()
            neighbor = load(w, indices[p], zero)
            row = scale_add(phi[p], neighbor, row)
            drow = scale_add(phi[p], load(dw, indices[p], zero), drow)
            drow = scale_add(dphi[p], neighbor, drow)
        store(out, i, row)
        store(dout, i, drow)
        store(dy, i, add(load(dy, i, zero), drow))


@inner
def scale_tangent_rows(diagonal, d_diagonal, x, dx, out, dout, dy, zero, lo, hi):
    """out = diag(diagonal) x;  dout = diag(diagonal) dx + diag(d_diagonal) x;  dy += dout"""
    for i in range(lo, hi):
        xi = load(x, i, zero)
        drow = scale_add(d_diagonal[i], xi, scale_add(diagonal[i], load(dx, i, zero), zero))
        store(out, i, scale_add(diagonal[i], xi, zero))
        store(dout, i, drow)
        store(dy, i, add(load(dy, i, zero), drow))


@inner
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


@inner
def adjoint_rows(indptr, indices, phi, lam, w, out, grad_phi, fresh, zero, lo, hi):
    """out += Phi^T lam;  grad_phi_ij += <lam_i, w_j>, for the rows i = lo..hi-1: they send to their neighbours.

    For short rows: phi and grad_phi are then walked in order, and only states, which are small, at random.
    """
    for i in range(lo, hi):
        li = load(lam, i, zero)
        for p in range(indptr[i], indptr[i + 1]):
            rolled()
            j = indices[p]
            store(out, j, scale_add(phi[p], li, load(out, j, zero)))
            product = dot(li, load(w, j, zero))
            grad_phi[p] = product if fresh else grad_phi[p] + product


@inner
def send_rows(indptr, indices, starts, phi, lam, out, zero, lo, hi):
    """out += Phi^T lam alone: on large graphs states do not fit the caches side by side, and two walks are faster."""
    for i in range(lo, hi):
        li = load(lam, i, zero)
        begin, place = indptr[i], row_place(indptr, starts, phi, i, False)
        for p in range(begin, indptr[i + 1]):
            rolled()
            store(out, indices[p], scale_add(phi[place + (p - begin)], li, load(out, indices[p], zero)))


@inner
def outer_rows(indptr, indices, starts, lam, w, grad_phi, fresh, zero, lo, hi):
    """grad_phi_ij += <lam_i, w_j> alone"""
    for i in range(lo, hi):
        li = load(lam, i, zero)
        begin, place = indptr[i], row_place(indptr, starts, grad_phi, i, True)
        for p in range(begin, indptr[i + 1]):
            rolled()
            product = dot(li, load(w, indices[p], zero))
            grad_phi[place + (p - begin)] = product if fresh else grad_phi[place + (p - begin)] + product


@inner
def look_at_rows(x, zero, board, lo, hi):
    """Say so on the board if there is a number among them that is not finite: 0 times it is not 0.

    Whoever has just computed them has them in its cache; a look from elsewhere would fetch every line.
    """
    nought = x.dtype.type(0)
    total = zero
    for i in range(lo, hi):
        total = scale_add(nought, load(x, i, zero), total)
    if not dot(total, total) == nought:  # noqa: SIM201 - a NaN is neither equal nor unequal
        write(board, STRANGE, 1)


@inner
def seed_rows(seed, seeded, out, zero, lo, hi):
    """out = seed or 0"""
    for i in range(lo, hi):
        store(out, i, load(seed, i, zero) if seeded else zero)


@inner
def add_rows(x, y, fresh, zero, lo, hi):
    """y += x"""
    for i in range(lo, hi):
        store(y, i, load(x, i, zero) if fresh else add(load(y, i, zero), load(x, i, zero)))


@inner
def add_numbers(x, y):
    """y += x, two vectors"""
    for i in range(y.size):
        y[i] += x[i]


@inner
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
