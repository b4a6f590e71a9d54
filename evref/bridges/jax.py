"""Filters, layers and networks as JAX functions: :func:`as_jax`.

The equations behind are in :mod:`evref.bridges.jax_primitives`, what runs on the host in :mod:`evref.bridges.jax_host`;
``docs/jax.md`` is the how-to. `import evref` does not import this module, and JAX only comes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..checks import what_is
from ..contract import Module
from .jax_host import FlatModule

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError("evref.bridges.jax needs JAX, which is not installed; the extra evref[jax] brings it") from error

from .jax_primitives import derivative

__all__ = ["as_jax"]


def as_jax(module: Module) -> Callable[[Mapping[str, Any], Any], jax.Array]:
    """The module as a JAX function f(params, x), differentiable twice, in both modes.

    It works under `grad`, `value_and_grad`, `jvp`, `vjp`, `linearize`, `jacfwd`, `jacrev`, `hessian`, `jit`, `vmap` and
    `lax.scan`, in any combination that takes no third derivative. Values and first derivatives are the module's own
    `forward`, `backward` and `jvp`, to the bit; second derivatives are complex steps through the latter two, exact to
    rounding. A pass runs on the host, in NumPy or numba; a tape does not survive it, so a gradient computes the forward
    pass a second time.

    Shapes
    ------
    params : dict of arrays, as `module.parameter_shapes()` says
    x : (batch, features, nodes); (features, nodes) and, for one feature, (nodes,) come back in kind

    Parameters
    ----------
    module : Module
        A filter, a layer or a network. Keep it unchanged: compiled programs hold on to it.

    Returns
    -------
    callable
        f(params, x). Names, shapes and dtypes are checked when it is called or traced, with the messages of `forward`.
        Numbers that are not finite are passed on, as everywhere in JAX, where `forward` would raise. Numbers that have
        no answer, such as a matrix that is singular, raise outside `jit` and give NaN inside.

    Raises
    ------
    TypeError
        If `module` is something else; by f, for what `forward` refuses; for second derivatives of a module whose `jvp`
        or `backward` is not analytic.
    ValueError
        By f, for names and shapes.
    NotImplementedError
        When a third derivative is traced.

    Notes
    -----
    JAX computes in float32 unless ``jax.config.update("jax_enable_x64", True)`` comes before its first array. Float64
    arrays are float32 without it, those of NumPy included.

    Where the module has kinks (ReLU, maxima, medians), both derivatives are those of the smooth piece that is there.

    Examples
    --------
    >>> import evref as ev, jax, numpy as np
    >>> from evref.bridges.jax import as_jax
    >>> graph = ev.generators.path(4)
    >>> filt = ev.EdgeVariant(graph, order=2)
    >>> f = as_jax(filt)
    >>> params, x = filt.init(rng=0, dtype=np.float32), np.ones(4, np.float32)
    >>> f(params, x).shape
    (4,)
    >>> grads = jax.jit(jax.grad(lambda params: (f(params, x) ** 2).sum()))(params)
    >>> grads["phi"].shape == params["phi"].shape
    True
    """
    if not isinstance(module, Module):
        raise TypeError(f"module is {what_is(module)}; expected a filter, a layer or a network")
    flat = FlatModule(module)

    def f(params: Mapping[str, Any], x: Any) -> jax.Array:
        """The module's output at `params` and `x`."""
        x = module._by_name("x", x, module.in_shape)
        x_shape, batch_shape, dtype = _checked(module, params, x)
        batch = jnp.asarray(x, dtype).reshape(batch_shape)
        y = derivative(flat, 0, [*(jnp.asarray(params[name], dtype) for name in flat.names), batch], [])
        return y.reshape(x_shape if module.in_shape is None else module._out_shape_for(x_shape, y))

    return f


def _checked(module: Module, params: Any, x: Any) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    """Shape of x, its shape with a batch axis and the dtype of the computation, or the error that `forward` raises.

    It must be raised here: what happens to an error inside a callback is undefined.
    """
    if isinstance(params, Mapping):
        params = {name: _stand_in(f"params[{name!r}]", value) for name, value in params.items()}
    arrays = module._checked_parameters(params, check_finite=False)
    x = _stand_in("x", x)
    batch = module._as_batch("x", x, check_finite=False)
    dtype = jax.dtypes.canonicalize_dtype(np.result_type(batch, *arrays.values()))
    return np.shape(x), batch.shape or (1,), dtype


def _stand_in(argument: str, value: Any) -> Any:
    """For JAX's arrays an empty one of the same shape and dtype: a tracer has no numbers that NumPy could look at."""
    if not isinstance(value, jax.Array):
        return value
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):  # keys of jax.random: nothing that NumPy has
        raise TypeError(f"{argument} has dtype {value.dtype}; supported are float32, float64, integers and bools")
    return np.empty(value.shape, value.dtype)
