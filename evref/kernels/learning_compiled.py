"""The compiled twin of :mod:`evref.kernels.learning_reference`, for float32 and float64.

At the sizes people train (a batch of 100, 50 nodes) a call into NumPy costs as much as the work it does; each of these
functions is one call. One thread each: what a training step spends its time on is elsewhere.
"""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np

from .compiled import _writable
from .jit import compiled
from .layout import aligned_empty

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


def adam_update(
    param: Array, grad: Array, m: Array, v: Array, rate: float, beta1: float, beta2: float, epsilon: float, step: int
) -> tuple[Array, Array, Array]:
    """See :func:`evref.kernels.learning_reference.adam_update`."""
    _require_same_shape(param, grad)
    dtype = param.dtype
    new = aligned_empty((3, *param.shape), dtype)  # one block for the three
    _adam_update(
        _vector(param, dtype), _vector(grad, dtype), _vector(m, dtype), _vector(v, dtype), new.reshape(3, -1),
        rate, beta1, beta2, epsilon, float(step),
    )  # fmt: skip
    return new[0], new[1], new[2]


@compiled
def _adam_update(param, grad, m, v, new, rate, beta1, beta2, epsilon, step):
    """new: parameters, m, v.  One pass over memory instead of NumPy's dozen; the order is the reference twin's."""
    number = param.dtype.type  # constants are rounded once, as NumPy rounds them
    keep1, rest1, keep2, rest2 = number(beta1), number(1 - beta1), number(beta2), number(1 - beta2)
    size, root = number(rate / (1 - beta1**step)), number((1 - beta2**step) ** 0.5)
    least = number(epsilon)
    for i in range(param.size):
        g = grad[i]
        new_m = keep1 * m[i] + rest1 * g
        new_v = keep2 * v[i] + rest2 * g * g
        new[0, i] = param[i] - size * new_m / (sqrt(new_v) / root + least)
        new[1, i] = new_m
        new[2, i] = new_v


def _vector(array: Array, dtype: np.dtype) -> Array:
    return _writable(array if array.dtype is dtype else array.astype(dtype)).reshape(-1)


def _require_same_shape(one: Array, other: Array) -> None:
    """NumPy complains by itself; a compiled loop would read beyond the end."""
    if one.shape != other.shape:
        raise ValueError(f"shapes {one.shape} and {other.shape} are not the same")
