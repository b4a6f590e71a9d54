"""Functions on NumPy arrays, with a backward pass by hand or without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .problem import CAST, LayerProblem, running

Arrays = dict[str, np.ndarray]


class NumpyLayer:
    """`call(params, x)` gives y, or y and a tape.

    `backward(params, x, grad_y)`, or `backward(params, tape, grad_y)` where there is one, gives (grads, grad_x).
    """

    framework = "numpy"
    autodiff = False
    training = False

    def __init__(self, call: Callable[..., Any], backward: Callable[..., Any] | None, name: str = "numpy") -> None:
        self.call, self.backward, self.framework = call, backward, name

    @property
    def has_gradients(self) -> bool:
        return self.backward is not None

    def dtypes(self) -> list[np.dtype]:
        return [np.dtype(np.float64), np.dtype(np.float32)]

    def output(self, params: Arrays, x: np.ndarray) -> np.ndarray:
        return self._forward(params, x)[0]

    def gradients(self, params: Arrays, x: np.ndarray, grad_y: Callable[[np.ndarray], np.ndarray]) -> Any:
        y, tape, given = self._forward(params, x)
        if self.backward is None:
            raise TypeError("backward is None; expected a function for the gradients")
        cotangent = grad_y(y).astype(x.dtype)
        kept = {name: array.copy() for name, array in given.items()}
        with running("the backward pass"), np.errstate(all="ignore"):
            result = self.backward(given, tape, cotangent)
        for name, array in given.items():
            if not np.array_equal(array, kept[name], equal_nan=True):
                raise LayerProblem("mutates", f"backward changes the parameter {name} in place; expected it untouched")
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Mapping)):
            raise LayerProblem(
                "type", f"backward returned {_described(result)}; expected (grads, grad_x), grads a dict by name"
            )
        grads, grad_x = result
        if grads.keys() != given.keys():
            raise LayerProblem("type", f"backward returned gradients {sorted(grads)}; expected {sorted(given)}")
        for name, array in given.items():
            grads = {**grads, name: _gradient(f"the gradient of {name}", grads[name], array.shape)}
        return y, grads, _gradient("the gradient of x", grad_x, x.shape)

    def _forward(self, params: Arrays, x: np.ndarray) -> tuple[np.ndarray, Any, Arrays]:
        given = {name: np.array(array, x.dtype) for name, array in params.items()}
        signal = x.copy()
        with running("the layer"), np.errstate(all="ignore"):
            y = self.call(given, signal)
        tape: Any = signal
        if isinstance(y, tuple) and len(y) == 2 and self.backward is not None:
            y, tape = y
        if not np.array_equal(signal, x, equal_nan=True):
            raise LayerProblem("mutates", "the layer changes its input x in place; expected it untouched (x.copy())")
        for name, array in params.items():
            if not np.array_equal(given[name], array.astype(x.dtype), equal_nan=True):
                raise LayerProblem("mutates", f"the layer changes its parameter {name} in place; expected it untouched")
        return _checked(y, x.dtype), tape, given


def _described(value: Any) -> str:
    return type(value).__name__ + (f" of {len(value)}" if isinstance(value, (tuple, list)) else "")


def _gradient(what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    if value is None:
        return np.zeros(shape)
    with running(f"reading {what}"):
        array = np.asarray(value, np.float64)
    if array.shape != shape:
        raise LayerProblem("shape", f"{what} has shape {array.shape}; expected {shape}")
    return array


def _checked(y: Any, dtype: np.dtype) -> np.ndarray:
    if not isinstance(y, np.ndarray):
        raise LayerProblem("type", f"the layer returned {_described(y)}; expected one array, the output")
    if y.dtype != dtype:
        raise LayerProblem("dtype", CAST.format(y.dtype, dtype))
    return y.astype(np.float64)
