"""The compiled twin of :mod:`evref.kernels.learning_reference`, for float32 and float64.

At the sizes people train (a batch of 100, 50 nodes) a call into NumPy costs as much as the work it does; each of these
functions is one call. Only Adam is worth sharing: what reads a signal next is on one thread again, and memory that two
cores write and read in turn costs more than the work.
"""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np

from . import threads
from .compiled import SERIAL_BELOW, _useful_threads, _writable
from .jit import compiled, inner
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
    params: list[Array], grads: list[Array], ms: list[Array], vs: list[Array],
    rate: float, beta1: float, beta2: float, epsilon: float, step: int,
) -> list[tuple[Array, Array, Array]]:  # fmt: skip
    """See :func:`evref.kernels.learning_reference.adam_update`. One call for all arrays of a dtype: usually one."""
    new: dict[int, Array] = {}
    for dtype in dict.fromkeys([p.dtype for p in params]):
        chosen = [i for i, p in enumerate(params) if p.dtype == dtype]
        n = _useful_threads(WORK * max(params[i].size for i in chosen))
        blocks = []
        arrays: list[list[Array]] = [[], [], [], [], []]
        for i in chosen:
            _require_same_shape(params[i], grads[i])
            block = aligned_empty((3, *params[i].shape), dtype)  # one for the three
            blocks.append(block)
            rows = _rows(params[i], n)
            arrays[4].append(block.reshape(3, rows, -1))
            for k, values in enumerate((params, grads, ms, vs)):
                array = _writable(values[i] if values[i].dtype == dtype else values[i].astype(dtype))
                arrays[k].append(array.reshape(1, rows, -1) if k == 1 else array.reshape(rows, -1))  # one part
        threads.call(_adam_update, n, *map(tuple, arrays), rate, beta1, beta2, epsilon, float(step), n)
        new.update(zip(chosen, blocks, strict=True))
    return [(block[0], block[1], block[2]) for block in map(new.__getitem__, range(len(params)))]


def _rows(param: Array, n: int) -> int:
    """Threads share the columns of (first axis, rest), of arrays large enough. Parameters (K, F, G, nnz) have their
    output features there, which the filters share as well: everyone finds its own in its own cache."""
    return len(param) if n > 1 and param.ndim > 1 and WORK * param.size >= SERIAL_BELOW else 1


@inner
def _adam_entries(param, grad, m, v, new_param, new_m, new_v, keep1, rest1, keep2, rest2, size, root, small, shrink):
    """One pass over memory instead of NumPy's dozen; the order is the reference twin's."""
    for i in range(param.size):
        g = grad[i] + shrink * param[i] if shrink != 0 else grad[i]
        first = keep1 * m[i] + rest1 * g
        second = keep2 * v[i] + rest2 * g * g
        new_param[i] = param[i] - size * first / (sqrt(second) / root + small)
        new_m[i] = first
        new_v[i] = second


@inner
def _add_entries(total, other):
    for i in range(total.size):
        total[i] += other[i]


@inner
def adam_part(params, grads, ms, vs, news, rate, beta1, beta2, epsilon, decay, step, least, shares, board, slot):
    """For arrays of two axes; news: parameters, m, v. An array whose moments are empty is not learned. A gradient is
    the sum of its parts, and `decay` of the parameter. An array of fewer than `least` numbers is one thread's."""
    number = params[0].dtype.type  # constants are rounded once, as NumPy rounds them
    keep1, rest1, keep2, rest2 = number(beta1), number(1 - beta1), number(beta2), number(1 - beta2)
    size, root = number(rate / (1 - beta1**step)), number((1 - beta2**step) ** 0.5)
    small, shrink = number(epsilon), number(decay)
    for turn in range(shares):
        share = claim(board, turn, shares, slot, 1)
        if share >= 0:
            for i in range(len(params)):
                param, grad, m, v, new = params[i], grads[i], ms[i], vs[i], news[i]
                lo, hi = share * m.shape[1] // shares, (share + 1) * m.shape[1] // shares
                if m.size < least:
                    lo, hi = 0, m.shape[1] if share == 0 else 0
                for row in range(m.shape[0]):
                    for part in range(1, grad.shape[0]):
                        _add_entries(grad[0, row][lo:hi], grad[part, row][lo:hi])
                    _adam_entries(
                        param[row][lo:hi], grad[0, row][lo:hi], m[row][lo:hi], v[row][lo:hi],
                        new[0, row][lo:hi], new[1, row][lo:hi], new[2, row][lo:hi],
                        keep1, rest1, keep2, rest2, size, root, small, shrink,
                    )  # fmt: skip


@compiled
def _adam_update(params, grads, ms, vs, news, rate, beta1, beta2, epsilon, step, shares, board, n):
    least = SERIAL_BELOW // WORK
    arguments = (params, grads, ms, vs, news, rate, beta1, beta2, epsilon, 0.0, step, least, shares, board)
    together(adam_part, arguments, board, n)


def _require_same_shape(one: Array, other: Array) -> None:
    """NumPy complains by itself; a compiled loop would read beyond the end."""
    if one.shape != other.shape:
        raise ValueError(f"shapes {one.shape} and {other.shape} are not the same")
