"""One wrong model with a sentence that says what is wrong, and linear maps on slices of parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .models import Array, Linear, Model


class Variant(NamedTuple):
    """A way to make a mistake.

    `alike`: the words under which the same thing may be wrong in another summand of the filter, `says` by default.
    """

    says: str
    model: Model
    alike: str = ""


def without_slice(index: int) -> Linear:
    """A slice along the first axis set to zero."""
    return scaled_slice(index, 0.0)


def scaled_slice(index: int, factor: float) -> Linear:
    def change(array: Array) -> Array:
        out = array.copy()
        out[index] *= factor
        return out

    return Linear(change, change)


def only_first() -> Linear:
    """All but slice 0 of the first axis set to zero."""

    def change(array: Array) -> Array:
        out = np.zeros_like(array)
        out[:1] = array[:1]
        return out

    return Linear(change, change)


def set_slice(index: int | slice, source: int) -> Linear:
    """Slices `index` of the first axis replaced by slice `source`, to which the gradient of all of them goes."""
    place = slice(index, index + 1) if isinstance(index, int) else index

    def apply(array: Array) -> Array:
        out = array.copy()
        out[place] = array[source]
        return out

    def adjoint(grad: Array) -> Array:
        out = grad.copy()
        out[place] = 0
        out[source] += grad[place].sum(axis=0)
        return out

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
