"""The compiled twin of :mod:`evref.kernels.learning_reference`, for float32 and float64.

At the sizes people train (a batch of 100, 50 nodes) a call into NumPy costs as much as the work it does; each of these
functions is one call. One thread each: what a training step spends its time on is elsewhere.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, log, sqrt
from typing import Any

import numpy as np

from . import loops
from .compiled import _writable
from .layout import aligned_empty

Array = np.ndarray


def cross_entropy(z: Array, label: Array) -> tuple[float, Array]:
    """See :func:`evref.kernels.learning_reference.cross_entropy`. The value is summed in float64."""
    slope = np.empty(z.shape, z.dtype)
    return _cross_entropy(_writable(z), _writable(label.astype(np.int64, copy=False)), slope), slope


@loops.compiled
def _cross_entropy(z, label, slope):
    batch, classes = z.shape
    share = z.dtype.type(batch)
    value = 0.0
    for b in range(batch):
        top = z[b, 0]
        for c in range(1, classes):
            top = max(top, z[b, c])
        total = z.dtype.type(0)
        for c in range(classes):
            slope[b, c] = exp(z[b, c] - top)
            total += slope[b, c]
        value += log(total) - (z[b, label[b]] - top)
        for c in range(classes):
            slope[b, c] = (slope[b, c] / total - (c == label[b])) / share
    return value / batch


def relu(x: Array) -> tuple[Array, Array]:
    """See :func:`evref.kernels.learning_reference.relu`."""
    y, keep = aligned_empty(x.shape, x.dtype), np.empty(x.shape, np.bool_)
    _relu(_writable(x).reshape(-1), y.reshape(-1), keep.reshape(-1))
    return y, keep


@loops.compiled
def _relu(x, y, keep):
    for i in range(x.size):
        keep[i] = not x[i] <= 0  # not `x > 0`, which a NaN would fail
        y[i] = x[i] if keep[i] else 0


def relu_backward(keep: Array, grad_y: Array) -> Array:
    """See :func:`evref.kernels.learning_reference.relu_backward`."""
    grad_x = aligned_empty(grad_y.shape, grad_y.dtype)
    _relu_backward(_writable(keep).reshape(-1), _writable(grad_y).reshape(-1), grad_x.reshape(-1))
    return grad_x


@loops.compiled
def _relu_backward(keep, grad_y, grad_x):
    for i in range(keep.size):
        grad_x[i] = keep[i] * grad_y[i]


def adam_update(
    param: Array, grad: Array, m: Array, v: Array, rate: float, beta1: float, beta2: float, epsilon: float, step: int
) -> tuple[Array, Array, Array]:
    """See :func:`evref.kernels.learning_reference.adam_update`."""
    new = aligned_empty((3, *param.shape), param.dtype)  # one block for the three
    old = (_writable(a.astype(param.dtype, copy=False)).reshape(-1) for a in (param, grad, m, v))
    _adam_update(*old, new.reshape(3, -1), *_adam_constants(param.dtype, rate, beta1, beta2, epsilon, step))
    return new[0], new[1], new[2]


@lru_cache(maxsize=8)  # the same for all parameters of a step
def _adam_constants(dtype: np.dtype, rate: float, beta1: float, beta2: float, epsilon: float, step: int) -> Any:
    numbers = beta1, 1 - beta1, beta2, 1 - beta2, epsilon, rate / (1 - beta1**step), (1 - beta2**step) ** 0.5
    return tuple(dtype.type(number) for number in numbers)


@loops.compiled
def _adam_update(param, grad, m, v, new, beta1, rest1, beta2, rest2, epsilon, size, root):
    """new: parameters, m, v.  One pass over memory instead of NumPy's dozen; the order is the reference twin's."""
    for i in range(param.size):
        g = grad[i]
        new_m = beta1 * m[i] + rest1 * g
        new_v = beta2 * v[i] + rest2 * g * g
        new[0, i] = param[i] - size * new_m / (sqrt(new_v) / root + epsilon)
        new[1, i] = new_m
        new[2, i] = new_v
