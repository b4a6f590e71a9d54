"""One wrong model with a sentence that says what is wrong, and linear maps on slices of parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .models import Array, Linear, Model


class Variant(NamedTuple):
    """A way to make a mistake."""

    says: str
    model: Model


def without_slice(index: int) -> Linear:
    """A slice along the first axis set to zero."""
    return scaled_slice(index, 0.0)


def scaled_slice(index: int, factor: float) -> Linear:
    def change(array: Array) -> Array:
        out = array.copy()
        out[index] *= factor
        return out

    return Linear(change, change)


def set_slice(index: int, source: int, axis: int = 0) -> Linear:
    """Slice `index` along `axis` replaced by slice `source`; the gradient of both goes to `source`."""

    def apply(array: Array) -> Array:
        out = np.moveaxis(array, axis, 0).copy()
        out[index] = out[source]
        return np.ascontiguousarray(np.moveaxis(out, 0, axis))

    def adjoint(grad: Array) -> Array:
        out = np.moveaxis(grad, axis, 0).copy()
        out[source] += out[index]
        out[index] = 0
        return np.moveaxis(out, 0, axis)

    return Linear(apply, adjoint)


def only_slice(source: int, axis: int) -> Linear:
    """Slice `source` along `axis` in the place of all slices."""

    def apply(array: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(np.take(array, [source], axis), array.shape))

    def adjoint(grad: Array) -> Array:
        out = np.zeros_like(np.moveaxis(grad, axis, 0))
        out[source] = grad.sum(axis=axis)
        return np.moveaxis(out, 0, axis)

    return Linear(apply, adjoint)


def swapped(a: int, b: int) -> Linear:
    """Two axes exchanged."""
    return Linear(lambda v: np.ascontiguousarray(np.swapaxes(v, a, b)), lambda v: np.swapaxes(v, a, b))
