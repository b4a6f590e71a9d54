"""Two JAX primitives, one set for all modules: a derivative of any order, and the gradient of one.

With f(z), z = (*parameters, x), a module as a function of one tuple (:mod:`evref.bridges.jax_host`), they are

    D_k(z; d_1, ..., d_k)        = D^k f(z)[d_1, ..., d_k]
    T_k(z; d_1, ..., d_(k-1); u) = gradient by z of <u, D_(k-1)(z; d_1, ..., d_(k-1))>
                                 = transpose of D_k(z; d_1, ..., d_(k-1), .), applied to u,

both symmetric in the directions and linear in each of them and in u. So the derivative of each is again one of the two,
by the product rule, with tangents marked by a prime,

    D_k' = D_(k+1)(z; d_1, ..., d_k, z') + sum_i D_k(z; ..., d_i', ...)
    T_k' = T_(k+1)(z; d_1, ..., d_(k-1), z'; u) + sum_i T_k(z; ..., d_i', ...; u) + T_k(z; d_1, ..., d_(k-1); u'),

and so is the transpose by any argument that they are linear in. Applied to the cotangent c, and all directions but d_i
where that is the argument, it is

    of D_k by d_i    T_k(z; all but d_i; c)
    of T_k by u      D_k(z; d_1, ..., d_(k-1), c)
    of T_k by d_i    T_k(z; all but d_i, c; u).

That is all that forward and reverse mode, in any nesting, ask for. A direction is a dict of the entries that are not
zero; terms whose tangent is zero are never written down, and T gives the entries of the gradient that somebody wants.
Under `vmap` operands get leading axes, of length 1 where nothing is mapped. The host loops over them or, where no
parameter changes, folds them into the batch.

The module is a static parameter, compared by identity. What JAX traced, under `jit` and in newer versions under `grad`
as well, stays in its caches, and the module with it; jax.clear_caches() lets go. Outside `jit` the host is called
directly: nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .jax_host import MAX_ORDER, FlatModule, over_leading_axes

Direction = dict[int, Any]  # by place in z: arrays, tracers or, in rules, ad.Zero and ad.UndefinedPrimal
Along = tuple[tuple[int, ...], ...]  # the places of each direction

derivative_p = Primitive("evref_derivative")
gradient_p = Primitive("evref_gradient")
gradient_p.multiple_results = True


# ---- the primitives as functions -------------------------------------------------------------------------------------
def derivative(f: FlatModule, n_leading: int, z: Sequence[Any], directions: Sequence[Direction]) -> Any:
    """D_k(z; d_1, ..., d_k)."""
    _require_order(f, len(directions))
    return derivative_p.bind(*_flat(z, directions), f=f, n_leading=n_leading, along=_along(directions))


def gradient(
    f: FlatModule, n_leading: int, z: Sequence[Any], directions: Sequence[Direction], u: Any, wrt: tuple[int, ...]
) -> list[Any]:
    """T_k(z; d_1, ..., d_(k-1); u), the entries with places in `wrt`."""
    _require_order(f, len(directions) + 1)
    return gradient_p.bind(*_flat(z, directions), u, f=f, n_leading=n_leading, along=_along(directions), wrt=wrt)


def _require_order(f: FlatModule, order: int) -> None:
    if order > MAX_ORDER:
        raise NotImplementedError(
            f"derivative of order {order} of {f}; expected order {MAX_ORDER} at most: evref has first derivatives by "
            "hand, second ones by a complex step through these, and no more"
        )
    if order == MAX_ORDER:
        f.require_analytic()


def _along(directions: Sequence[Direction]) -> Along:
    return tuple(tuple(d) for d in directions)


def _flat(z: Sequence[Any], directions: Sequence[Direction]) -> list[Any]:
    return [*z, *(entry for d in directions for entry in d.values())]


def _split(f: FlatModule, along: Along, operands: Sequence[Any]) -> tuple[Sequence[Any], list[Direction], list[Any]]:
    """z, the directions, and what is left: [u] for T."""
    rest = iter(operands[f.arity :])
    directions = [{i: next(rest) for i in places} for places in along]
    return operands[: f.arity], directions, list(rest)


# ---- shapes and values -----------------------------------------------------------------------------------------------
def _result_shapes(
    f: FlatModule, n_leading: int, operands: Sequence[Any], wrt: tuple[int, ...] | None
) -> list[tuple[int, ...]]:
    """Of the results, without leading axes; `wrt` is None for D."""
    cores = [operand.shape[n_leading:] for operand in operands[: f.arity]]
    return [f.y_shape(cores[f.x])] if wrt is None else [cores[i] for i in wrt]


def _abstract(
    *operands: Any, f: FlatModule, n_leading: int, along: Along, wrt: tuple[int, ...] | None = None
) -> list[ShapedArray]:
    _refuse_tracked(operands)
    leading = np.broadcast_shapes(*(operand.shape[:n_leading] for operand in operands))
    shapes = _result_shapes(f, n_leading, operands, wrt)
    return [ShapedArray(leading + shape, operands[0].dtype) for shape in shapes]


def _refuse_tracked(avals: Sequence[Any]) -> None:
    """`shard_map` writes into types along which axes of the mesh values vary, and decides by it what gradients sum.

    How a primitive says so of its results is not public and changes from version to version. Without it gradients of
    what is the same everywhere would be those of one device, without an error.
    """
    for aval in avals:
        varying = getattr(aval, "vma", None) or getattr(getattr(aval, "mat", None), "varying", None)
        if varying:
            axes = ", ".join(sorted(map(repr, varying)))
            raise NotImplementedError(
                f"evref inside jax.shard_map, on values that vary along {axes}; "
                "expected jax.shard_map(..., check_vma=False), with which values and gradients are right"
            )


def _on_host(
    *operands: np.ndarray, f: FlatModule, n_leading: int, along: Along, wrt: tuple[int, ...] | None = None
) -> list[np.ndarray]:
    def at_one_index(operands: list[np.ndarray]) -> list[np.ndarray]:
        z, directions, rest = _split(f, along, operands)
        return [f.derivative(z, directions)] if wrt is None else f.gradient(z, directions, rest[0], wrt)

    of_x = [i == f.x for i in (*range(f.arity), *(i for places in along for i in places))]
    signals = of_x if wrt is None else [*of_x, True]
    foldable = wrt is None or wrt == (f.x,)  # the gradient of a parameter is a sum over the batch
    shapes = _result_shapes(f, n_leading, operands, wrt)
    with np.errstate(all="ignore"):  # numbers that are not finite are passed on without a word, as in JAX
        return over_leading_axes(at_one_index, operands, n_leading, signals, shapes, foldable)


def _evaluate(*operands: Any, **params: Any) -> list[Any]:
    """Outside jit."""
    return [jax.device_put(result) for result in _on_host(*map(np.asarray, operands), **params)]


def _lower(ctx: Any, *operands: Any, **params: Any) -> Sequence[Any]:
    """Inside jit: a callback on arrays that are views of JAX's own.

    `jax.pure_callback` would make them JAX arrays first, with JAX called inside the callback, and take 118 µs a call
    where this takes 17 µs (jax 0.10.2, two arrays of 10 numbers).
    """

    def callback(*arrays: Any) -> tuple[np.ndarray, ...]:
        try:
            return tuple(_on_host(*map(np.asarray, arrays), **params))
        except (ValueError, ArithmeticError):  # shapes were checked: the numbers have no answer, a singular matrix, say
            return tuple(np.full(aval.shape, np.nan, aval.dtype) for aval in ctx.avals_out)

    results, *_ = mlir.emit_python_callback(
        ctx, callback, None, list(operands), ctx.avals_in, ctx.avals_out, has_side_effect=False
    )
    return results


# ---- forward mode: the product rule ----------------------------------------------------------------------------------
def _moving(direction: Direction) -> Direction:
    """Without the entries that are known to be zero."""
    return {i: entry for i, entry in direction.items() if not isinstance(entry, ad.Zero)}


def _moved_directions(
    directions: Sequence[Direction], dz: Sequence[Any], ddirections: Sequence[Direction]
) -> Iterator[list[Direction]]:
    """The directions of each term of the product rule that is not zero."""
    if moved := _moving(dict(enumerate(dz))):
        yield [*directions, moved]
    for i, d in enumerate(ddirections):
        if moved := _moving(d):
            yield [*directions[:i], moved, *directions[i + 1 :]]


def _derivative_jvp(
    operands: Sequence[Any], tangents: Sequence[Any], *, f: FlatModule, n_leading: int, along: Along
) -> tuple[Any, Any]:
    z, directions, _ = _split(f, along, operands)
    dz, ddirections, _ = _split(f, along, tangents)
    D = partial(derivative, f, n_leading, z)
    return D(directions), reduce(add, map(D, _moved_directions(directions, dz, ddirections)))


def _gradient_jvp(
    operands: Sequence[Any],
    tangents: Sequence[Any],
    *,
    f: FlatModule,
    n_leading: int,
    along: Along,
    wrt: tuple[int, ...],
) -> tuple[list[Any], list[Any]]:
    z, directions, (u,) = _split(f, along, operands)
    dz, ddirections, (du,) = _split(f, along, tangents)
    T = partial(gradient, f, n_leading, z, wrt=wrt)
    terms = [T(moved, u) for moved in _moved_directions(directions, dz, ddirections)]
    if not isinstance(du, ad.Zero):
        terms.append(T(directions, du))
    return T(directions, u), [reduce(add, entries) for entries in zip(*terms, strict=True)]


# ---- reverse mode: the transposes ------------------------------------------------------------------------------------
def _asked(entries: Iterable[Any]) -> bool:
    return any(map(ad.is_undefined_primal, entries))


def _linear(z: Sequence[Any], directions: Sequence[Direction], u: Sequence[Any] = ()) -> int:
    """Which argument is asked for: the place of a direction, or after these that of u. It must be linear in what is."""
    asked = [i for i, entries in enumerate([*(d.values() for d in directions), u]) if _asked(entries)]
    if _asked(z) or len(asked) != 1:
        raise ValueError("transpose of a derivative by more than one direction, or by z; expected a linear function")
    return asked[0]


def _asked_entries(d: Direction) -> Direction:
    """Those of the direction asked for. The rest are zeros that JAX wrote out: the map is linear in all of them."""
    return {j: entry for j, entry in d.items() if ad.is_undefined_primal(entry)}


def _unmapped(result: Any, like: Any) -> Any:
    """Sum over the leading axes along which the operand was repeated."""
    axes = tuple(i for i, (n, length) in enumerate(zip(result.shape, like.aval.shape, strict=True)) if n != length)
    return jnp.sum(result, axes, keepdims=True) if axes else result


def _by_direction(directions: Sequence[Direction], i: int, asked: Direction, grads: Sequence[Any]) -> list[Any]:
    """A cotangent for each entry of each direction, None where nobody asks."""
    found = {j: _unmapped(grad, like) for grad, (j, like) in zip(grads, asked.items(), strict=True)}
    return [found.get(j) if at == i else None for at, d in enumerate(directions) for j in d]


def _derivative_transpose(c: Any, *operands: Any, f: FlatModule, n_leading: int, along: Along) -> list[Any]:
    if isinstance(c, ad.Zero):
        return [None] * len(operands)
    z, directions, _ = _split(f, along, operands)
    i = _linear(z, directions)
    asked, others = _asked_entries(directions[i]), [*directions[:i], *directions[i + 1 :]]
    grads = gradient(f, n_leading, z, others, c, tuple(asked))
    return [*(None for _ in z), *_by_direction(directions, i, asked, grads)]


def _gradient_transpose(
    c: Sequence[Any], *operands: Any, f: FlatModule, n_leading: int, along: Along, wrt: tuple[int, ...]
) -> list[Any]:
    z, directions, (u,) = _split(f, along, operands)
    d = _moving(dict(zip(wrt, c, strict=True)))
    if not d:
        return [None] * len(operands)
    i = _linear(z, directions, [u])
    if i == len(directions):
        by_u = _unmapped(derivative(f, n_leading, z, [*directions, d]), u)
        return [*(None for _ in operands[:-1]), by_u]
    asked, others = _asked_entries(directions[i]), [*directions[:i], *directions[i + 1 :]]
    grads = gradient(f, n_leading, z, [*others, d], u, tuple(asked))
    return [*(None for _ in z), *_by_direction(directions, i, asked, grads), None]


# ---- vmap ------------------------------------------------------------------------------------------------------------
def _batch(
    primitive: Primitive, operands: Sequence[Any], axes: Sequence[int | None], *, n_leading: int, **params: Any
) -> tuple[Any, Any]:
    """One more leading axis, in front of those of an inner vmap."""
    moved = [
        jnp.expand_dims(operand, 0) if axis is None else jnp.moveaxis(operand, axis, 0)
        for operand, axis in zip(operands, axes, strict=True)
    ]
    results = primitive.bind(*moved, n_leading=n_leading + 1, **params)
    return results, [0] * len(results) if primitive.multiple_results else 0


# ---- registration ----------------------------------------------------------------------------------------------------
def _only(function: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """The one result, as JAX has it of primitives with a single one."""
    return lambda *operands, **params: function(*operands, **params)[0]


def _register() -> None:
    derivative_p.def_impl(_only(_evaluate))
    derivative_p.def_abstract_eval(_only(_abstract))
    gradient_p.def_impl(_evaluate)
    gradient_p.def_abstract_eval(_abstract)
    ad.primitive_jvps[derivative_p], ad.primitive_jvps[gradient_p] = _derivative_jvp, _gradient_jvp
    ad.primitive_transposes[derivative_p] = _derivative_transpose
    ad.primitive_transposes[gradient_p] = _gradient_transpose
    for primitive in (derivative_p, gradient_p):
        mlir.register_lowering(primitive, _lower)
        batching.primitive_batchers[primitive] = partial(_batch, primitive)


_register()
