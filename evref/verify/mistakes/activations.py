"""Known mistakes with activations: one that is not asked for, missing, applied twice, or before the bias."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ...filters import ARMA
from ...filters.base import Filter
from ...learn import Dense, LeakyReLU, Network, ReLU, Sigmoid, Tanh
from .features import as_a_feature
from .models import Array, Arrays, Chain, Linear, Mapped, Model
from .rational import ActivatedIterations
from .terms import plain, with_bias_of
from .variants import Variant

ACTIVATIONS = (ReLU, LeakyReLU, Tanh, Sigmoid)


def activations(module: Any) -> Iterator[Variant]:
    """An activation that is not asked for, missing, applied twice, or before the bias."""
    if isinstance(module, Filter):
        for kind in ACTIVATIONS:
            says = f"{kind.__name__} is applied to the output, which the reference has not"
            yield Variant(says, _named_through(Chain([module, kind()]), "0."))
            if module.bias:
                model = with_bias_of(module, _named_through(Chain([plain(module), kind()]), "0."))
                yield Variant(f"{says}, before the bias", model)
        yield from _with_softmax(module, "the output")
        return
    if not isinstance(module, Network):
        return
    layers = list(module.layers)
    if not isinstance(layers[-1], Filter):  # of a filter it is told above
        yield from _with_softmax(module, "the output of the network")
    if isinstance(layers[-1], Dense):
        for kind in ACTIVATIONS:
            says = f"{kind.__name__} is applied to the output of the network, which the reference has not"
            yield Variant(says, Chain([*layers, kind()]))
    for i, layer in enumerate(layers):
        if layer.parameter_shapes() or layer.in_shape is not None:
            continue
        name = type(layer).__name__
        passing: list[Any] = [*layers[:i], _Pass(), *layers[i + 1 :]]
        yield Variant(f"the activation {name} (layer {i}) is missing", Chain(passing))
        twice: list[Any] = [*layers[:i], Chain([layer, layer]), *layers[i + 1 :]]
        yield Variant(f"the activation {name} (layer {i}) is applied twice", Chain(twice))
        for kind in ACTIVATIONS:
            if type(layer) is not kind:
                says = f"{kind.__name__} in the place of {name} (layer {i})"
                yield Variant(says, Chain([*layers[:i], kind(), *layers[i + 1 :]]))
        before = layers[i - 1] if i else None
        if isinstance(before, Filter) and before.bias:
            early = with_bias_of(before, _named_through(Chain([plain(before), layer]), "0."))
            model = Chain([*layers[: i - 1], early, _Pass(), *layers[i + 1 :]])
            yield Variant(f"the activation {name} (layer {i}) is applied before the bias", model)


def _with_softmax(module: Any, where: str) -> Iterator[Variant]:
    if module.out_shape[0] > 1:
        over = "features" if len(module.out_shape) == 2 else "outputs"
        for log, name in ((True, "log_softmax"), (False, "softmax")):
            says = f"{name} over {over} is applied to {where}, which the reference has not"
            yield Variant(says, _Behind(module, _Softmax(log)))


def within_iterations(filt: Any) -> Iterator[Variant]:
    """ARMA as published, X <- sigma(W S X + V x), where the reference is linear; with the bias behind or within it."""
    if not isinstance(filt, ARMA) or (filt.iterations == 1 and filt.stacks == 1):  # with one of each: see above
        return
    core: Any = plain(filt)
    for kind in ACTIVATIONS:
        says = f"{kind.__name__} is applied in every iteration, where the reference is linear"
        yield Variant(says, with_bias_of(filt, ActivatedIterations(core, kind())))
        if filt.bias:
            within = partial(ActivatedIterations, activation=kind())
            yield Variant(f"{says}, and the bias is within it", as_a_feature(filt, within))
        if filt.iterations > 1:
            model = with_bias_of(filt, ActivatedIterations(core, kind(), last=False))
            yield Variant(f"{kind.__name__} is applied between the iterations, where the reference is linear", model)


class _Behind:
    """y = last(first(x)) with a `last` that has no parameters."""

    def __init__(self, first: Model, last: Model) -> None:
        self.first, self.last = first, last

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        y, tape = self.first.forward(params, x)
        y, last = self.last.forward({}, y)
        return y, (tape, last)

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        tape, last = tape
        return self.first.backward(params, tape, self.last.backward({}, last, grad_y)[1])


class _Softmax:
    """p = exp(x) / sum of exp(x) over axis 1, the features or classes; or log p.

    Adjoint: grad_x = p (grad_y - sum of p grad_y), and of the logarithm grad_y - p (sum of grad_y).
    """

    def __init__(self, log: bool) -> None:
        self.log = log

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        x = x - x.max(axis=1, keepdims=True)
        logarithm = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        p = np.exp(logarithm)
        return (logarithm if self.log else p), p

    def backward(self, params: Arrays, p: Any, grad_y: Array) -> tuple[Arrays, Array]:
        if self.log:
            return {}, grad_y - p * grad_y.sum(axis=1, keepdims=True)
        return {}, p * (grad_y - (p * grad_y).sum(axis=1, keepdims=True))


class _Pass:
    """y = x."""

    def forward(self, params: Arrays, x: Array) -> tuple[Array, Any]:
        return x, None

    def backward(self, params: Arrays, tape: Any, grad_y: Array) -> tuple[Arrays, Array]:
        return {}, grad_y


def _named_through(model: Model, prefix: str) -> Model:
    """`model`, whose parameters are called prefix + name, under the names alone."""

    def add(arrays: Arrays) -> Arrays:
        return {prefix + name: array for name, array in arrays.items()}

    def drop(arrays: Arrays) -> Arrays:
        return {name.removeprefix(prefix): array for name, array in arrays.items()}

    return Mapped(model, Linear(add, drop))
