"""The compiled twin of :mod:`evref.kernels.learning_reference`, for float32 and float64.

At the sizes people train (a batch of 100, 50 nodes) a call into NumPy costs as much as the work it does; each of these
functions is one call. Only Adam is worth sharing: what reads a signal next is on one thread again, and memory that two
cores write and read in turn costs more than the work.
"""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
from numba.extending import register_jitable

from . import threads
from .compiled import _useful_threads, _writable
from .jit import compiled
from .layout import aligned_empty
from .together import claim, together

Array = np.ndarray


def cross_entropy(z: Array, label: Array) -> tuple[float, Array]:
    """See :func:`evref.kernels.learning_reference.cross_entropy`. The value is summed in float64."""
    _require_same_shape(label, z[:, 0])
    slope = np.empty(z.shape, z.dtype)
    return _cross_entropy(_writable(z), _writable(label.astype(np.int64, copy=False)), slope), slope


@compiled
def _cross_entropy(z, label, slope):
    batch, classes = z.shape
    number = z.dtype.type
    value = 0.0
    for b in range(batch):
        top = z[b, 0]
        for c in range(1, classes):
            top = max(top, z[b, c])
        total = number(0)
        own = number(np.nan)  # of a label that is no class: a NaN can be noticed, memory of others could not
        for c in range(classes):
            slope[b, c] = exp(z[b, c] - top)
            total += slope[b, c]
            if c == label[b]:
                own = z[b, c] - top
        value += log(total) - own
        for c in range(classes):
            slope[b, c] = (slope[b, c] / total - (c == label[b])) / number(batch)
    return value / batch


def relu(x: Array) -> tuple[Array, Array]:
    """See :func:`evref.kernels.learning_reference.relu`."""
    y, keep = aligned_empty(x.shape, x.dtype), np.empty(x.shape, np.bool_)
    _relu(_writable(x).reshape(-1), y.reshape(-1), keep.reshape(-1))
    return y, keep


@compiled
def _relu(x, y, keep):
    for i in range(x.size):
        keep[i] = not x[i] <= 0  # not `x > 0`, which a NaN would fail
        y[i] = x[i] if keep[i] else 0


def relu_backward(keep: Array, grad_y: Array) -> Array:
    """See :func:`evref.kernels.learning_reference.relu_backward`."""
    _require_same_shape(keep, grad_y)
    grad_x = aligned_empty(grad_y.shape, grad_y.dtype)
    _relu_backward(_writable(keep).reshape(-1), _writable(grad_y).reshape(-1), grad_x.reshape(-1))
    return grad_x


@compiled
def _relu_backward(keep, grad_y, grad_x):
    for i in range(keep.size):
        grad_x[i] = keep[i] * grad_y[i]


WORK = 32  # multiply-adds that take as long as an entry


def adam_update(
    param: Array, grad: Array, m: Array, v: Array, rate: float, beta1: float, beta2: float, epsilon: float, step: int
) -> tuple[Array, Array, Array]:
    """See :func:`evref.kernels.learning_reference.adam_update`."""
    _require_same_shape(param, grad)
    dtype = param.dtype
    new = aligned_empty((3, *param.shape), dtype)  # one block for the three
    # Threads share the columns of (first axis, rest). Parameters (K, F, G, nnz) have their output features there, which
    # the filters share as well: everyone finds its own in its own cache. One thread has one share and one row.
    n = _useful_threads(WORK * param.size)
    arrays = [_matrix(_writable(a if a.dtype == dtype else a.astype(dtype)), n) for a in (param, grad, m, v)]
    threads.call(
        _adam_update, n, *arrays, new.reshape(3, *arrays[0].shape), rate, beta1, beta2, epsilon, float(step), n
    )
    return new[0], new[1], new[2]


@register_jitable
def _adam_entries(param, grad, m, v, new_param, new_m, new_v, keep1, rest1, keep2, rest2, size, root, least):
    """One pass over memory instead of NumPy's dozen; the order is the reference twin's."""
    for i in range(param.size):
        g = grad[i]
        first = keep1 * m[i] + rest1 * g
        second = keep2 * v[i] + rest2 * g * g
        new_param[i] = param[i] - size * first / (sqrt(second) / root + least)
        new_m[i] = first
        new_v[i] = second


@register_jitable
def _adam_part(param, grad, m, v, new, rate, beta1, beta2, epsilon, step, shares, board, slot):
    """new: parameters, m, v."""
    number = param.dtype.type  # constants are rounded once, as NumPy rounds them
    keep1, rest1, keep2, rest2 = number(beta1), number(1 - beta1), number(beta2), number(1 - beta2)
    size, root = number(rate / (1 - beta1**step)), number((1 - beta2**step) ** 0.5)
    least = number(epsilon)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 1)
        if share >= 0:
            lo, hi = share * param.shape[1] // shares, (share + 1) * param.shape[1] // shares
            for row in range(param.shape[0]):
                _adam_entries(
                    param[row][lo:hi], grad[row][lo:hi], m[row][lo:hi], v[row][lo:hi],
                    new[0, row][lo:hi], new[1, row][lo:hi], new[2, row][lo:hi],
                    keep1, rest1, keep2, rest2, size, root, least,
                )  # fmt: skip


@compiled
def _adam_update(param, grad, m, v, new, rate, beta1, beta2, epsilon, step, shares, board, n):
    together(_adam_part, (param, grad, m, v, new, rate, beta1, beta2, epsilon, step, shares, board), board, n)


def _matrix(array: Array, n: int) -> Array:
    return array.reshape(len(array) if n > 1 and array.ndim > 1 else 1, -1)


def _require_same_shape(one: Array, other: Array) -> None:
    """NumPy complains by itself; a compiled loop would read beyond the end."""
    if one.shape != other.shape:
        raise ValueError(f"shapes {one.shape} and {other.shape} are not the same")
