"""The loops of the compiled classifier; the reference twin is :mod:`evref.kernels.classifier_reference`.

Signals stay in tiles from the first filter to the gradients, and a thread keeps the output features that it took: what
it computed forward it finds in its own cache on the way back. Only logits, a few rows, change hands.

Plain Python that numba compiles (:func:`kernels_for`) and that also runs uncompiled (:func:`plain_kernels`).
"""

from __future__ import annotations

from functools import cache
from math import exp, log
from types import SimpleNamespace

import numpy as np

from . import jit, learning_compiled, loops, packing, recursions, rows, vectors
from . import together as team
from .jit import compiled, inner
from .learning_compiled import SERIAL_BELOW, WORK, adam_part
from .packing import pack_tile
from .recursions import adjoint_filter, forward_filters, pack_phase
from .together import LEFT, SHARES, await_finished, claim, finished, together
from .vectors import add, dot, filled, load, positive, scale_add, store, where_positive, zeros

SHARED_PARTS = 1024  # numbers from which on a sum of gradients' parts is worth sharing

SOURCE = loops.source_of(jit, learning_compiled, packing, recursions, rows, team, vectors)


@inner
def logit_rows(weight, first, bias, h, z, zero):
    """h = relu(h + bias);  z_c = sum_i weight[c, first + i] h_i, two classes at a time: their sums stay in registers"""
    N = h.shape[0]
    C = z.shape[0]
    shift = filled(bias, zero)
    for i in range(N):
        store(h, i, positive(add(load(h, i, zero), shift)))
    for c in range(0, C - 1, 2):
        one = zero
        two = zero
        for i in range(N):
            row = load(h, i, zero)
            one = scale_add(weight[c, first + i], row, one)
            two = scale_add(weight[c + 1, first + i], row, two)
        store(z, c, one)
        store(z, c + 1, two)
    if C % 2:
        one = zero
        for i in range(N):
            one = scale_add(weight[C - 1, first + i], load(h, i, zero), one)
        store(z, C - 1, one)


@inner
def cross_entropy_rows(z, offset, label, first, slope, grad_offset, zero):
    """slope = (softmax(offset + sum_f z[f]) - onehot(label)) / batch, no slope past the batch;  its sums over samples;
    returns the sum of -log softmax at the labels, which begin at label[first]"""
    F, C, width = z.shape
    number = slope.dtype.type
    batch = label.size
    full = min(width, batch - first)
    for c in range(C):
        row = filled(offset[c] if offset.size > 0 else number(0), zero)
        for f in range(F):
            row = add(row, load(z[f], c, zero))
        store(slope, c, row)
    value = 0.0
    for s in range(full):
        top = slope[0, s]
        for c in range(1, C):
            top = max(top, slope[c, s])
        total = number(0)
        own = number(np.nan)  # of a label that is no class: a NaN can be noticed, memory of others could not
        for c in range(C):
            if c == label[first + s]:
                own = slope[c, s] - top
            slope[c, s] = exp(slope[c, s] - top)
            total += slope[c, s]
        value += log(total) - own
        for c in range(C):
            slope[c, s] = (slope[c, s] / total - (c == label[first + s])) / number(batch)
    for c in range(C):
        for s in range(full, width):
            slope[c, s] = 0
        if offset.size > 0:
            grad_offset[c] = dot(load(slope, c, zero), filled(number(1), zero))
    return value


@inner
def adjoint_logit_rows(weight, first, h, slope, grad_weight, fresh, zero):
    """grad_weight[c, first + i] += <slope_c, h_i>;  h_i = [h_i > 0] sum_c weight[c, first + i] slope_c, in the place of
    h; returns the sum of all these"""
    C = slope.shape[0]
    total = zero
    for i in range(h.shape[0]):
        row = load(h, i, zero)
        back = zero
        for c in range(C):
            s = load(slope, c, zero)
            back = scale_add(weight[c, first + i], s, back)
            product = dot(s, row)
            grad_weight[c, first + i] = product if fresh else grad_weight[c, first + i] + product
        back = where_positive(row, back)
        store(h, i, back)
        total = add(total, back)
    return dot(total, filled(weight.dtype.type(1), zero))


# ---- what is shared out ----------------------------------------------------------------------------------------------
@inner
def forward_task(walk, params, work, t, f, own, zero):
    """The filters of one output feature, ReLU, and what they add to the logits."""
    phi, phi0, bias, weight, _ = params
    tiles, states, hidden, logits, _, _ = work
    G, N = tiles.shape[1], tiles.shape[2]
    forward_filters(walk[0], walk[1], phi, phi0, tiles[t], states[t], (f, f + 1), (0, G), hidden[t, f:], own, zero)
    shift = bias[f] if bias.size > 0 else phi.dtype.type(0)
    logit_rows(weight, f * N, shift, hidden[t, f], logits[t, f], zero)


@inner
def loss_task(offset, label, work, grad_offset, t, zero):
    tiles, _, _, logits, slopes, values = work
    values[t] = cross_entropy_rows(logits[t], offset, label, t * tiles.shape[3], slopes[t], grad_offset[t], zero)


@inner
def hidden_task(params, work, grads, part, span, f, zero):
    """From the slopes back to the output of the filters of f, on the tiles of `span`."""
    _, _, bias, weight, _ = params
    _, _, hidden, _, slopes, _ = work
    _, _, grad_bias, grad_weight, _ = grads
    first = f * hidden.shape[2]
    total = weight.dtype.type(0)
    for t in range(span[0], span[1]):
        fresh = t == span[0]
        total += adjoint_logit_rows(weight, first, hidden[t, f], slopes[t], grad_weight[part], fresh, zero)
    if bias.size > 0:
        grad_bias[part, f] = total


@inner
def filter_task(walk, params, work, grads, part, span, f, g, stretch, own, zero):
    """The adjoint of the filter (f, g) on the tiles of `span`."""
    indptr, indices, column_indptr, row_indices, transpose = walk
    tiles, states, hidden, _, _, _ = work
    nobody = own[2]  # reads the gradient of x
    for t in range(span[0], span[1]):
        adjoint_filter(
            indptr, indices, column_indptr, row_indices, transpose, params[0], params[1], f, g, tiles[t, g],
            states[t, f, g], hidden[t, f], grads[0][part], grads[1][part], t == span[0], nobody, True,
            False, stretch, False, False, False, own, zero,
        )  # fmt: skip


@inner
def classifier_part(walk, params, x, label, work, grads, stretch, scratch, zero, board, slot):
    """Phases: pack (t, g); the filters of (f, t); the loss of t; back to the filters' outputs, f; their adjoints,
    (f, g). hidden[t, f] holds the filters' outputs, then their cotangents."""
    tiles = work[0]
    _, F, G, _ = params[0].shape
    T = tiles.shape[0]
    mine = scratch[slot]
    before = pack_phase(x, tiles, board, slot)
    shares = min(SHARES, F * T)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 2, LEFT)  # its signals are in its cache
        if share >= 0:
            await_finished(board, before)
            for task in range(share * F * T // shares, (share + 1) * F * T // shares):
                forward_task(walk, params, work, task % T, task // T, mine, zero)
            finished(board)
    before += shares
    shares = min(SHARES, T)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 3)
        if share >= 0:
            await_finished(board, before)
            for t in range(share * T // shares, (share + 1) * T // shares):
                loss_task(params[4], label, work, grads[4], t, zero)
            finished(board)
    before += shares
    shares = min(SHARES, F)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 4, LEFT)
        if share >= 0:
            await_finished(board, before)
            for f in range(share * F // shares, (share + 1) * F // shares):
                hidden_task(params, work, grads, 0, (0, T), f, zero)
            finished(board)
    before += shares
    shares = min(SHARES, F * G)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 5, LEFT)
        if share >= 0:
            await_finished(board, before)
            for task in range(share * F * G // shares, (share + 1) * F * G // shares):
                filter_task(walk, params, work, grads, 0, (0, T), task // G, task % G, stretch, mine, zero)
            finished(board)


@inner
def lone_filter_part(walk, params, x, label, work, grads, stretch, scratch, zero, board, slot):
    """The same for one filter alone: a tile needs nothing of another, and nobody waits. Each has its own gradients."""
    tiles = work[0]
    T, _, N, _ = tiles.shape
    mine = scratch[slot]
    shares = min(SHARES, T)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 1, LEFT)
        if share >= 0:
            for t in range(share * T // shares, (share + 1) * T // shares):
                pack_tile(x, t, 0, tiles[t, 0], 0, 0, N)
                forward_task(walk, params, work, t, 0, mine, zero)
                loss_task(params[4], label, work, grads[4], t, zero)
                hidden_task(params, work, grads, t, (t, t + 1), 0, zero)
                filter_task(walk, params, work, grads, t, (t, t + 1), 0, 0, stretch, mine, zero)


# ---- afterwards ------------------------------------------------------------------------------------------------------
@inner
def fold(parts):
    """parts[0] += parts[1] + ..."""
    flat = parts.reshape(parts.shape[0], parts.size // parts.shape[0])
    for part in range(1, flat.shape[0]):
        for i in range(flat.shape[1]):
            flat[0, i] += flat[part, i]


@inner
def as_tables(five):
    """Arrays of two axes, output features in the second: threads share it as they share the filters."""
    phi, phi0, bias, weight, offset = five
    return (
        phi.reshape(phi.shape[0], phi.size // max(1, phi.shape[0])),
        phi0.reshape(1, phi0.size),
        bias.reshape(1, bias.size),
        weight,
        offset.reshape(1, offset.size),
    )


@inner
def as_stacks(five):
    """The same for several of each behind one another: parts of a gradient, or parameters, m and v."""
    phi, phi0, bias, weight, offset = five
    return (
        phi.reshape(phi.shape[0], phi.shape[1], phi.size // max(1, phi.shape[0] * phi.shape[1])),
        phi0.reshape(phi0.shape[0], 1, phi0.size // phi0.shape[0]),
        bias.reshape(bias.shape[0], 1, bias.size // bias.shape[0]),
        weight,
        offset.reshape(offset.shape[0], 1, offset.size // offset.shape[0]),
    )


@inner
def finish(params, work, grads, adam, moments, news, batch, board, n):
    """The loss goes to values[0], each gradient to the first of its parts and, if steps are counted, what Adam makes of
    it to `news`."""
    values = work[5]
    fold(values)
    values[0] /= batch
    rate, beta1, beta2, epsilon, decay, count = adam
    if count > 0:
        # What a thread needs of the parts of others it fetches itself; without parts small arrays stay with one.
        least = SHARED_PARTS if grads[0].shape[0] > 1 else SERIAL_BELOW // WORK
        arguments = (
            as_tables(params), as_stacks(grads), as_tables(moments[0]), as_tables(moments[1]), as_stacks(news),
            rate, beta1, beta2, epsilon, decay, count, least, n, board,
        )  # fmt: skip
        together(adam_part, arguments, board, n)
    else:
        grad_phi, grad_phi0, grad_bias, grad_weight, grad_offset = grads
        fold(grad_phi)
        fold(grad_phi0)
        fold(grad_bias)
        fold(grad_weight)
        fold(grad_offset)


def _build(width, source, jit):
    """The passes for rows of `width` samples. Closures hold numbers alone: more would defeat numba's cache."""

    @jit
    def step(walk, params, x, label, work, grads, adam, moments, news, stretch, scratch, board, n):
        arguments = (walk, params, x, label, work, grads, stretch, scratch, zeros(x, width, source), board)
        together(classifier_part, arguments, board, n)
        finish(params, work, grads, adam, moments, news, x.shape[0], board, n)

    @jit
    def lone_step(walk, params, x, label, work, grads, adam, moments, news, stretch, scratch, board, n):
        arguments = (walk, params, x, label, work, grads, stretch, scratch, zeros(x, width, source), board)
        together(lone_filter_part, arguments, board, n)
        finish(params, work, grads, adam, moments, news, x.shape[0], board, n)

    return SimpleNamespace(step=step, lone_step=lone_step)


@cache
def kernels_for(width: int) -> SimpleNamespace:
    """The compiled drivers for rows of `width` samples; each compiles when it is first called."""
    return _build(width, SOURCE, compiled)


@cache
def plain_kernels(width: int) -> SimpleNamespace:
    """The same drivers as plain Python."""
    return _build(width, SOURCE, lambda function: function)
