"""Functions on NumPy arrays, with a backward pass by hand or without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .problem import CAST, LayerProblem, described, not_of, require_same_entries, running

Arrays = dict[str, np.ndarray]


class NumpyLayer:
    """`call(params, x)` gives y, or y and a tape.

    `backward(params, x, grad_y)`, or `backward(params, tape, grad_y)` where there is one, gives (grads, grad_x).
    """

    framework = "numpy"
    autodiff = False
    training = False
    certain = False

    def __init__(self, call: Callable[..., Any], backward: Callable[..., Any] | None, name: str = "numpy") -> None:
        self.call, self.backward, self.framework = call, backward, name

    @property
    def has_gradients(self) -> bool:
        return self.backward is not None

    def fresh(self) -> NumpyLayer:
        """Itself: what a function keeps from call to call cannot be undone."""
        return self

    def dtypes(self) -> list[np.dtype]:
        return [np.dtype(np.float64), np.dtype(np.float32)]

    def output(self, params: Arrays, x: np.ndarray) -> np.ndarray:
        return self._forward(params, x)[0]

    def gradients(self, params: Arrays, x: np.ndarray, grad_y: Callable[[np.ndarray], np.ndarray]) -> Any:
        if self.backward is None:
            raise TypeError("backward is None; expected a function for the gradients")
        y, tape, given, signal = self._forward(params, x)
        upstream = grad_y(y).astype(x.dtype)
        cotangent = upstream.copy()
        entries = dict(given)
        with running("the backward pass"):
            result = self.backward(given, tape, cotangent)
        require_same_entries(given, entries)
        _require_untouched(given, params, signal, x, "backward")
        if not np.array_equal(cotangent, upstream, equal_nan=True):
            raise LayerProblem("mutates", "backward changes grad_y in place; expected it untouched (grad_y.copy())")
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Mapping)):
            raise LayerProblem(
                "type", f"backward returned {described(result)}; expected (grads, grad_x), grads a dict by name"
            )
        grads, grad_x = result
        if set(grads) != set(entries):
            raise LayerProblem(
                "type", f"backward returned gradients of {_listed(grads)}; expected those of {_listed(entries)}"
            )
        found = {
            name: _gradient(f"the gradient of {name}", grads[name], array.shape) for name, array in entries.items()
        }
        return y, found, _gradient("the gradient of x", grad_x, x.shape)

    def _forward(self, params: Arrays, x: np.ndarray) -> tuple[np.ndarray, Any, Arrays, np.ndarray]:
        given = {name: np.array(array, x.dtype) for name, array in params.items()}
        signal, entries = x.copy(), dict(given)
        with running("the layer"):
            y = self.call(given, signal)
        tape: Any = signal
        if isinstance(y, tuple) and len(y) == 2 and self.backward is not None:
            y, tape = y
        require_same_entries(given, entries)
        _require_untouched(given, params, signal, x, "the layer")
        return _checked(y, x.dtype, self.backward is not None), tape, given, signal


def _require_untouched(given: Arrays, params: Arrays, signal: np.ndarray, x: np.ndarray, who: str) -> None:
    if not np.array_equal(signal, x, equal_nan=True):
        raise LayerProblem("mutates", f"{who} changes its input x in place; expected it untouched (x.copy())")
    for name, array in params.items():
        if not np.array_equal(given[name], array.astype(x.dtype), equal_nan=True):
            raise LayerProblem("mutates", f"{who} changes the parameter {name} in place; expected it untouched")


def _listed(names: Mapping[Any, Any]) -> str:
    return ", ".join(sorted(str(name) for name in names)) or "nothing"


def _gradient(what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    if value is None:
        return np.zeros(shape)
    with running(f"reading {what}"):
        array = np.asarray(value)
    if array.dtype.kind not in "fiu" or isinstance(value, np.ma.MaskedArray):
        name = "a masked array" if isinstance(value, np.ma.MaskedArray) else str(array.dtype)
        raise LayerProblem("dtype", f"{what} is {name}; expected an array of real numbers")
    if array.shape != shape:
        raise LayerProblem("shape", f"{what} has shape {array.shape}; expected {shape}")
    return array.astype(np.float64)


def _checked(y: Any, dtype: np.dtype, taped: bool) -> np.ndarray:
    if not isinstance(y, np.ndarray) or isinstance(y, np.ma.MaskedArray):
        expected = "one numpy.ndarray, the output" + (", or (output, tape)" if taped else "")
        raise not_of("numpy", y, expected)
    if y.dtype.newbyteorder("=") != dtype:
        hint = " (y.real is its real part)" if y.dtype.kind == "c" else ""
        raise LayerProblem("dtype", CAST.format(y.dtype, dtype) + hint)
    return np.array(y, np.float64)
