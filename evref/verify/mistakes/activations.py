"""Known mistakes with activations: one that is not asked for, missing, applied twice, or before the bias."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...filters.base import Filter
from ...learn import LeakyReLU, Network, ReLU, Sigmoid, Tanh
from .models import Array, Arrays, Chain, Linear, Mapped, Model
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
        return
    if not isinstance(module, Network):
        return
    layers = list(module.layers)
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
