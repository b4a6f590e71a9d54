"""Wrong models, put together from right ones: the arithmetic of :mod:`evref.verify.mistakes`.

A known mistake is told by what it computes: output and every gradient. Most mistakes are the right filter behind a
linear map. S transposed is the same filter on another graph; a missing k = 0 term is a coefficient set to zero; a mean
for a sum divides. The adjoint of a linear map is known, so that the wrong gradients are as exact as the right ones.

A *model* is any object with ::

    forward(params, x)             -> (y, tape)
    backward(params, tape, grad_y) -> (grads, grad_x)

on a dict of named arrays, as in :mod:`evref.contract`; every filter, layer and network is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = np.ndarray
Arrays = dict[str, Array]


class Model(Protocol):
    """What a mistake is predicted by."""

    def forward(self, params: Any, x: Any) -> tuple[Array, Any]: ...

    def backward(self, params: Any, tape: Any, grad_y: Any) -> tuple[Arrays, Array]: ...


class Linear(NamedTuple):
    """A linear map and its adjoint (the transpose), on arrays or on dicts of arrays."""

    apply: Callable[[Any], Any]
    adjoint: Callable[[Any], Any]


def scaled(factor: float) -> Linear:
    """Multiplication by a number, which is its own adjoint."""
    return Linear(lambda a: factor * a, lambda a: factor * a)


def entrywise(values: Array) -> Linear:
    """Multiplication entry by entry, its own adjoint."""
    return Linear(lambda a: a * values, lambda a: a * values)


def on_entry(name: str, linear: Linear) -> Linear:
    """`linear` on the array `name` of a dict; the others pass."""

    def at(function: Callable[[Array], Array]) -> Callable[[Arrays], Arrays]:
        return lambda arrays: {**arrays, name: function(arrays[name])} if name in arrays else dict(arrays)

    return Linear(at(linear.apply), at(linear.adjoint))


def in_turn(*maps: Linear) -> Linear:
    """The first map, then the second, and so on; the adjoint goes the other way."""

    def apply(value: Any) -> Any:
        for linear in maps:
            value = linear.apply(value)
        return value

    def adjoint(value: Any) -> Any:
        for linear in reversed(maps):
            value = linear.adjoint(value)
        return value

    return Linear(apply, adjoint)


class Mapped:
    """y = out(model(params=through(params), x=into(x))): a model between linear maps."""

    def __init__(
        self, model: Model, params: Linear | None = None, x: Linear | None = None, y: Linear | None = None
    ) -> None:
        self.model, self.params, self.x, self.y = model, params, x, y

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        inner = params if self.params is None else self.params.apply(params)
        y, tape = self.model.forward(inner, x if self.x is None else self.x.apply(x))
        return (y if self.y is None else self.y.apply(y)), (inner, tape)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        inner, tape = tape
        grads, grad_x = self.model.backward(inner, tape, grad_y if self.y is None else self.y.adjoint(grad_y))
        return (
            grads if self.params is None else self.params.adjoint(grads),
            grad_x if self.x is None else self.x.adjoint(grad_x),
        )


class Sum:
    """y = sum_i c_i model_i(x), every model with the same parameters."""

    def __init__(self, terms: Sequence[tuple[float, Model]]) -> None:
        self.terms = terms

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        results = [model.forward(params, x) for _, model in self.terms]
        y = sum(c * y for (c, _), (y, _) in zip(self.terms, results, strict=True))
        return np.asarray(y), [tape for _, tape in results]

    def backward(self, params: Arrays, tapes: Any, grad_y: Array) -> tuple[Arrays, Array]:
        total: Arrays = {name: np.zeros_like(array) for name, array in params.items()}
        total_x: Any = 0
        for (c, model), tape in zip(self.terms, tapes, strict=True):
            grads, grad_x = model.backward(params, tape, c * grad_y)
            total_x = total_x + grad_x
            for name, grad in grads.items():
                total[name] = total[name] + grad
        return total, total_x


class Chain:
    """A network with other models in the place of its layers; parameter p of layer i is called "i.p"."""

    def __init__(self, layers: Sequence[Model]) -> None:
        self.layers = layers

    def _own(self, params: Arrays, i: int) -> Arrays:
        prefix = f"{i}."
        return {name.removeprefix(prefix): array for name, array in params.items() if name.startswith(prefix)}

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        tapes = []
        for i, layer in enumerate(self.layers):
            x, tape = layer.forward(self._own(params, i), x)
            tapes.append(tape)
        return x, tapes

    def backward(self, params: Arrays, tapes: Any, grad_y: Array) -> tuple[Arrays, Array]:
        grads: Arrays = {}
        for i in reversed(range(len(self.layers))):
            own, grad_y = self.layers[i].backward(self._own(params, i), tapes[i], grad_y)
            grads |= {f"{i}.{name}": grad for name, grad in own.items()}
        return {name: grads[name] for name in params}, grad_y


class Sizes(NamedTuple):
    """What a gradient may have been divided by."""

    batch: int
    grad_y: Array  # as the caller gave it


class Regraded:
    """Output right, gradients wrong: `change(grads, grad_x, sizes)` says what is returned for the right ones."""

    def __init__(self, model: Model, change: Callable[[Arrays, Array, Sizes], tuple[Arrays, Array]]) -> None:
        self.model, self.change = model, change

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        y, tape = self.model.forward(params, x)
        return y, (tape, len(x))

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        tape, batch = tape
        grads, grad_x = self.model.backward(params, tape, grad_y)
        return self.change(dict(grads), grad_x, Sizes(batch, grad_y))


class Transposed:
    """y_f = sum_g H_fg^T x_g for a filter H that is linear in x; `swapped` is the filter from F to G features.

    With <u, H^T x> = <H u, x> the gradients are those of H at the input u with the cotangent x.
    """

    def __init__(self, swapped: Model, axes: Mapping[str, str]) -> None:
        self.swapped, self.axes = swapped, axes

    def _swap(self, params: Arrays) -> Arrays:
        swapped = {}
        for name, array in params.items():
            letters = self.axes[name]
            swapped[name] = np.ascontiguousarray(np.swapaxes(array, letters.index("f"), letters.index("g")))
        return swapped

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        inner = self._swap(params)
        n_out = next(iter(params.values())).shape[next(iter(self.axes.values())).index("f")]
        _, tape = self.swapped.forward(inner, np.zeros((len(x), n_out, x.shape[2]), x.dtype))
        return self.swapped.backward(inner, tape, x)[1], x

    def backward(self, params: Arrays, x: Array, grad_y: Array) -> tuple[Arrays, Array]:
        inner = self._swap(params)
        grad_x, tape = self.swapped.forward(inner, grad_y)
        return self._swap(self.swapped.backward(inner, tape, x)[0]), grad_x


class WithBias:
    """y_f = model(x)_f + c bias_f, for a model without a bias."""

    def __init__(self, model: Model, factor: float = 1.0) -> None:
        self.model, self.factor = model, factor

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        params = dict(params)
        bias = params.pop("bias")
        y, tape = self.model.forward(params, x)
        return y + self.factor * bias[:, None], tape

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        grads, grad_x = self.model.backward({n: p for n, p in params.items() if n != "bias"}, tape, grad_y)
        return {**grads, "bias": self.factor * grad_y.sum(axis=(0, 2))}, grad_x
