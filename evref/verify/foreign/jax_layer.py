"""Functions of JAX."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import numpy as np

from .problem import CAST, LayerProblem, not_of, require_same_entries, running

Arrays = dict[str, np.ndarray]


class JaxLayer:
    """`call(params, x)` on JAX arrays."""

    framework = "jax"
    has_gradients = True
    autodiff = True
    training = False
    certain = False  # whether nothing but this framework is meant

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def fresh(self) -> JaxLayer:
        """Itself: what a function keeps from call to call cannot be undone."""
        return self

    def dtypes(self) -> list[np.dtype]:
        return [np.dtype(np.float64), np.dtype(np.float32)]

    def output(self, params: Arrays, x: np.ndarray) -> np.ndarray:
        import jax.numpy as jnp

        with x64(x.dtype == np.float64), running("the layer"):
            arrays = {name: jnp.asarray(array, x.dtype) for name, array in params.items()}
            given = dict(arrays)
            y = self.call(given, jnp.asarray(x))
            require_same_entries(given, arrays)
            return _checked(y, x.dtype)

    def gradients(self, params: Arrays, x: np.ndarray, grad_y: Callable[[np.ndarray], np.ndarray]) -> Any:
        import jax
        import jax.numpy as jnp

        with x64(x.dtype == np.float64):
            arrays = {name: jnp.asarray(array, x.dtype) for name, array in params.items()}
            with running("jax.vjp of the layer"):
                y, pull = jax.vjp(self.call, arrays, jnp.asarray(x))
                value = _checked(y, x.dtype)
                grads, grad_x = pull(jnp.asarray(grad_y(value), x.dtype))
        return (
            value,
            {name: np.asarray(grad, np.float64) for name, grad in grads.items()},
            np.asarray(grad_x, np.float64),
        )


def x64(wanted: bool) -> AbstractContextManager[Any]:
    """float64 for a while, which JAX has to be told; an old JAX has it under another name."""
    import jax

    return (jax if hasattr(jax, "enable_x64") else import_module("jax.experimental")).enable_x64(wanted)


def _checked(y: Any, dtype: Any) -> np.ndarray:
    import jax

    if not isinstance(y, jax.Array):
        raise not_of("jax", y, "one jax.Array, the output")
    if y.dtype != dtype:
        hint = " (y.real is its real part)" if np.issubdtype(y.dtype, np.complexfloating) else ""
        raise LayerProblem("dtype", CAST.format(y.dtype, dtype) + hint)
    return np.asarray(y, np.float64)
