"""Functions of JAX."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import numpy as np

from .problem import CAST, LayerProblem, running

Arrays = dict[str, np.ndarray]


class JaxLayer:
    """`call(params, x)` on JAX arrays."""

    framework = "jax"
    has_gradients = True
    autodiff = True
    training = False

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def dtypes(self) -> list[np.dtype]:
        return [np.dtype(np.float64), np.dtype(np.float32)]

    def output(self, params: Arrays, x: np.ndarray) -> np.ndarray:
        import jax.numpy as jnp

        with x64(x.dtype == np.float64), running("the layer"):
            y = self.call({name: jnp.asarray(array, x.dtype) for name, array in params.items()}, jnp.asarray(x))
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
        inside = f" of {len(y)}" if isinstance(y, (tuple, list)) else ""
        raise LayerProblem("type", f"the layer returned {type(y).__name__}{inside}; expected one jax.Array, the output")
    if y.dtype != dtype:
        raise LayerProblem("dtype", CAST.format(y.dtype, dtype))
    return np.asarray(y, np.float64)
