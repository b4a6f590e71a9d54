"""What the JAX primitives compute, in NumPy: derivatives of a module as a function of one tuple of arrays.

A module is a function f(z) of z = (*parameters, x), entries by place. Its derivatives along directions d_1, ..., d_k,

    D^k f(z)[d_1, ..., d_k] = d/dt_1 ... d/dt_k f(z + t_1 d_1 + ... + t_k d_k) at t = 0,

are what :meth:`FlatModule.derivative` gives, and what :meth:`FlatModule.gradient` gives is the gradient of one of them,

    the gradient by z of <u, D^(k-1) f(z)[d_1, ..., d_(k-1)]>.

The first derivatives are the module's own, written by hand: `jvp` and `backward`. One more direction is a complex step,
exact to rounding: d/dt g(z + t d) = Im g(z + ihd) / h for every analytic g. Steps cannot be nested, so the second order
is the last.

Nothing here imports JAX: a callback that calls JAX can wait for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .. import checks
from ..contract import Module, Parameters
from ..kernels import use_backend

Array = np.ndarray
Direction = Mapping[int, Array]  # by place in z; an entry that is missing is zero
MAX_ORDER = 2
STEP = 1e-30


class FlatModule:
    """A module as the function f(z) of z = (*parameters, x), x with a batch axis; equal if the module is the same one.

    Numbers that are not finite are passed on, without errors or warnings, as JAX does.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names = tuple(module.parameter_shapes())
        self.x = len(self.names)  # place of x in z
        self._analytic = False  # known to be

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlatModule) and other.module is self.module

    def __hash__(self) -> int:
        return id(self.module)

    def __repr__(self) -> str:
        return type(self.module).__name__

    @property
    def arity(self) -> int:
        """Entries of z."""
        return len(self.names) + 1

    def y_shape(self, x_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of f(z), with a batch axis, from that of x."""
        core = self.module.out_shape
        return x_shape if core is None else (x_shape[0], *core)

    # ---- derivatives -----------------------------------------------------------------------------------------------
    def derivative(self, z: Sequence[Array], directions: Sequence[Direction]) -> Array:
        """D^k f(z)[d_1, ..., d_k], shape of y; f(z) itself for k = 0."""
        if not directions:
            return self.module.forward(*self._named(z), check_finite=False)[0]
        *others, d = directions
        if not others:
            full = [d[i] if i in d else np.zeros_like(z[i]) for i in range(self.arity)]
            return self.module.jvp(*self._named(z), *self._named(full), check_finite=False)
        return complex_step(lambda z: [self.derivative(z, others)], z, d)[0]

    def gradient(
        self, z: Sequence[Array], directions: Sequence[Direction], u: Array, wrt: Sequence[int]
    ) -> list[Array]:
        """Gradient of <u, D^(k-1) f(z)[d_1, ..., d_(k-1)]> by those entries of z whose places are in `wrt`."""
        if directions:
            *others, d = directions
            return complex_step(lambda z: self.gradient(z, others, u, wrt), z, d)
        params, x = self._named(z)
        _, tape = self.module.forward(params, x, check_finite=False)
        if self.x in wrt:
            grads, grad_x = self.module.backward(params, tape, u, check_finite=False)
            return [grad_x if i == self.x else grads[self.names[i]] for i in wrt]
        # Without grad_x, which costs a filter up to half of its backward pass.
        grads = self.module._parameter_gradients(params, tape.saved, u.astype(tape.dtype, copy=False))
        return [grads[self.names[i]] for i in wrt]

    def _named(self, z: Sequence[Array]) -> tuple[Parameters, Array]:
        return dict(zip(self.names, z[:-1], strict=True)), z[-1]

    # ---- the complex step ------------------------------------------------------------------------------------------
    def require_analytic(self) -> None:
        """TypeError unless complex steps through `jvp` and `backward` agree with differences, at one random point.

        A complex step through what is not analytic, such as np.abs of something complex, need not fail: it can give
        wrong numbers. A kink beside the point spoils a difference; of three lengths one is enough.
        """
        if self._analytic:
            return
        rng = np.random.default_rng(0)
        shape = (1, *(self.module.in_shape or (4,)))
        z = [*self.module.init(rng).values(), rng.standard_normal(shape)]
        d = {i: rng.standard_normal(entry.shape) for i, entry in enumerate(z)}
        u = rng.standard_normal(self.y_shape(shape))

        def first(z: Sequence[Array]) -> list[Array]:
            return [self.derivative(z, [d]), *self.gradient(z, [], u, range(self.arity))]

        with np.errstate(all="ignore"):
            try:
                second = complex_step(first, z, d)
            except Exception as error:
                raise self._not_analytic(f"did not take complex128 ({error})") from error
            noise = 1e-6 * _size(first(z))  # more than rounding puts into a difference
            for length in (1e-5, 1e-6, 1e-7):
                near = difference(first, z, d, length)
                apart = _size([a - b for a, b in zip(second, near, strict=True)])
                if not apart > 1e-3 * _size(near) + noise:  # numbers that are not finite are no evidence
                    break
            else:
                raise self._not_analytic("gave for complex128 something else than differences do")
        self._analytic = True

    def _not_analytic(self, fault: str) -> TypeError:
        return TypeError(
            f"{type(self.module).__name__} has no second derivatives here: they are complex steps through jvp and "
            f"backward, which {fault}; expected analytic functions of params and x"
        )


def complex_step(g: Callable[[list[Array]], list[Array]], z: Sequence[Array], d: Direction) -> list[Array]:
    """d/dt g(z + t d) at t = 0, which is Im g(z + ihd) / h; in complex128, on the reference kernels.

    The step is h = 1e-30 along d / max|d|: no d is so long that it disturbs z, none so short that the step vanishes.
    """
    dtype = np.result_type(*z)
    size = _size([*d.values()])
    size = size if size > 0 else 1.0  # d is zero, or not a number
    moved = [entry.astype(np.complex128) for entry in z]
    for i, entry in d.items():
        moved[i].imag = STEP * (entry / size)
    with checks.complex_allowed(), use_backend("numpy"):
        results = g(moved)
    for result in results:
        if result.dtype.kind != "c":
            raise TypeError(f"a result has dtype {result.dtype}")
    return [(result.imag / STEP * size).astype(dtype) for result in results]


def difference(g: Callable[[list[Array]], list[Array]], z: Sequence[Array], d: Direction, length: float) -> list[Array]:
    """The same by central differences, which only near the exact value; a check on it."""
    ahead, behind = (
        g([entry + sign * length * d[i] if i in d else entry for i, entry in enumerate(z)]) for sign in (1, -1)
    )
    return [(a - b) / (2 * length) for a, b in zip(ahead, behind, strict=True)]


def _size(arrays: Sequence[Array]) -> float:
    return max((float(np.abs(a).max(initial=0.0)) for a in arrays), default=0.0)


# ---- leading axes ----------------------------------------------------------------------------------------------------
def over_leading_axes(
    function: Callable[[list[Array]], list[Array]],
    operands: Sequence[Array],
    n_leading: int,
    signals: Sequence[bool],
    result_shapes: Sequence[tuple[int, ...]],
    foldable: bool,
) -> list[Array]:
    """`function` at every index of the first `n_leading` axes, along which operands of length 1 are repeated.

    Signals have their batch axis next. Where the results are signals, too (`foldable`), the last of the leading axes
    along which no parameter changes are folded into the batch: one pass over all instead of a pass for each.

    Parameters
    ----------
    function : callable
        Of operands without leading axes.
    operands : sequence of ndarray
    n_leading : int
    signals : sequence of bool
        Which operands have a batch axis.
    result_shapes : sequence of tuple of int
        Of `function`.
    foldable : bool
    """
    if n_leading == 0:
        return function(list(operands))
    leading = np.broadcast_shapes(*(a.shape[:n_leading] for a in operands))
    looped = n_leading
    parameters = [a for a, signal in zip(operands, signals, strict=True) if not signal]
    while foldable and looped and all(a.shape[looped - 1] == 1 for a in parameters):
        looped -= 1
    folded, rest = leading[looped:], n_leading - looped

    def fold(operand: Array, signal: bool) -> Array:
        core = operand.shape[rest:]
        if not signal:
            return operand.reshape(core)
        return np.broadcast_to(operand, folded + core).reshape(-1, *core[1:]) if rest else operand

    dtype = np.result_type(*operands)
    results = [np.empty(leading + shape, dtype) for shape in result_shapes]
    for index in np.ndindex(*leading[:looped]):
        here = [a[tuple(min(i, n - 1) for i, n in zip(index, a.shape, strict=False))] for a in operands]
        found = function([fold(a, signal) for a, signal in zip(here, signals, strict=True)])
        for result, value in zip(results, found, strict=True):
            result[index] = value.reshape(result[index].shape)
    return results
