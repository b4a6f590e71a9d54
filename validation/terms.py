"""Σ|terms|: beside every number that a JAX function computes, the sum of the absolute values of what it is a sum of.

Rounding errors are proportional to the terms of a sum, not to the sum, which may cancel to anything: this is the scale
by which an error can be called small. `with_terms` reads the steps of a function, its gradient among them, from its
jaxpr and carries a second number m beside each number v:

    given, or a constant     m = |v|
    a + b, a - b, sums       the sum of the m
    a b, products of arrays  m_a m_b, or |a| m_b + m_a |b| where that is less
    a / b                    m_a m_b / b²
    chosen, moved, max       the m of what was chosen
    a matrix inverse X       |X| m |X|
    any other f(a)           |f(a)| + |f'(a)| m_a

With m_a m_b alone, what is multilinear (a recursion and its gradients) gets Σ|terms| exactly, the same function with
every number replaced by its absolute value and every minus by a plus. Where both factors are sums that cancel, their
errors do so much only to second order: |a| m_b + m_a |b| is what one of them at a time can do. So m is at most
Σ|terms|, and an error relative to m is at least the one relative to Σ|terms|.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOVED = {
    "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "dynamic_slice", "dynamic_update_slice",
    "expand_dims", "gather", "pad", "reshape", "rev", "scatter", "select_n", "slice", "split", "squeeze", "stack",
    "stop_gradient", "transpose", "unstack",
}  # fmt: skip
LINEAR = MOVED | {"add", "add_any", "cumsum", "reduce_sum", "scatter-add"}  # of the m, as of the v
FUNCTIONS = {"exp", "log", "logistic", "sqrt", "tanh"}  # entry by entry, of one array


def with_terms(function: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """A function with the arguments of `function` that returns its result and Σ|terms| in the same form."""
    import jax

    def both(*arguments: Any) -> tuple[Any, Any]:
        closed, form = jax.make_jaxpr(function, return_shape=True)(*arguments)
        pairs = [_given(value) for value in (*closed.consts, *jax.tree.leaves(arguments))]
        values, terms = zip(*_steps(closed.jaxpr, pairs), strict=True)
        structure = jax.tree.structure(form)
        return jax.tree.unflatten(structure, values), jax.tree.unflatten(structure, terms)

    return both


def inverse(A: Any) -> Any:
    """The inverse of a matrix, for functions that `with_terms` reads: it knows this step as a whole, by its name."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def matrix_inverse(A: Any) -> Any:
        return jnp.linalg.inv(A)

    @jax.custom_vjp
    def differentiable(A: Any) -> Any:
        return matrix_inverse(A)

    def forward(A: Any) -> tuple[Any, Any]:
        X = matrix_inverse(A)
        return X, X

    def backward(X: Any, grad: Any) -> tuple[Any]:
        return (-X.T @ grad @ X.T,)

    differentiable.defvjp(forward, backward)
    return differentiable(A)


# ---- reading the steps -----------------------------------------------------------------------------------------------
def _given(value: Any) -> tuple[Any, Any]:
    import jax.numpy as jnp

    value = jnp.asarray(value)
    return value, value if value.dtype == bool else jnp.abs(value)


def _is_real(value: Any) -> bool:
    return value.dtype.kind == "f"


def _steps(jaxpr: Any, given: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The pairs (v, m) of the results of a jaxpr."""
    from jax.extend.core import Literal

    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))

    def read(variable: Any) -> tuple[Any, Any]:
        return _given(variable.val) if isinstance(variable, Literal) else known[variable]

    for step in jaxpr.eqns:
        known.update(zip(step.outvars, _step(step, [read(v) for v in step.invars]), strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _step(step: Any, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    import jax
    import jax.numpy as jnp

    name = step.primitive.name
    inner = step.params.get("jaxpr", step.params.get("call_jaxpr"))
    values = [v for v, _ in pairs]
    if inner is not None and step.params.get("name") != "matrix_inverse":
        return _steps(inner.jaxpr, [*map(_given, inner.consts), *pairs])

    def bound(arguments: list[Any]) -> list[Any]:
        result = step.primitive.bind(*arguments, **step.params)
        return list(result) if step.primitive.multiple_results else [result]

    results = bound(values)
    if not any(map(_is_real, results)) or not any(map(_is_real, values)):  # conditions, indices, what is made of them
        return [_given(v) for v in results]
    terms = [m if _is_real(v) else v for v, m in pairs]
    if name in ("mul", "dot_general"):
        (a, b), (m_a, m_b) = map(jnp.abs, values), terms
        return [(results[0], jnp.minimum(bound([m_a, m_b])[0], bound([a, m_b])[0] + bound([m_a, b])[0]))]
    if name in LINEAR:
        return list(zip(results, bound(terms), strict=True))
    if name == "sub":
        return [(results[0], terms[0] + terms[1])]
    if name == "neg":
        return [(results[0], terms[0])]
    if name == "div":
        return [(results[0], terms[0] * terms[1] / values[1] ** 2)]
    if name == "integer_pow":
        power = step.params["y"]
        factor = terms[0] if power > 0 else terms[0] / values[0] ** 2
        return [(results[0], factor ** abs(power))]
    if name in ("max", "min"):
        first = results[0] == values[0]
        return [(results[0], jnp.where(first, terms[0], terms[1]))]
    if name in ("reduce_max", "reduce_min"):
        axes = step.params["axes"]
        chosen = values[0] == jnp.expand_dims(results[0], axes)
        return [(results[0], jnp.where(chosen, terms[0], 0).max(axes))]
    if step.params.get("name") == "matrix_inverse":
        X = jnp.abs(results[0])
        return [(results[0], X @ terms[0] @ X)]
    if name in FUNCTIONS:
        _, slope = jax.jvp(lambda v: bound([v])[0], values, [jnp.ones_like(values[0])])
        return [(results[0], jnp.abs(results[0]) + jnp.abs(slope) * terms[0])]
    raise NotImplementedError(f"no rule for the terms of {name}")
