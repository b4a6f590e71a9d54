"""Small wrong changes of a right layer, which `evref.compare` must see.

    "weight of S"          one weight of the shift is 0.1% too large
    "entry used twice"     one entry of a parameter is another one's number
    "gradient entry"       the output is right; one entry of a gradient is 1% too large

The same change is made in any base (`right_kinds.base_of`), and in the reference, to know how far it moves the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import evref as ev

Array = np.ndarray
WEIGHT, GRADIENT = 1.001, 1.01
CHANGES = ("weight of S", "entry used twice", "gradient entry")
WEIGHS_WITH_S = (
    "polynomial", "tagcn", "chebyshev", "gcn", "dcnn", "selection_gcnn", "node_variant", "hybrid_edge_variant",
    "critical_edge", "arma", "cayley", "spectral",
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """What is changed: the reference that the layer is built from, or what happens to its arguments."""

    name: str
    reference: Any  # of the changed layer
    block: str = ""  # a parameter, or "x"
    entry: tuple[int, ...] = ()
    other: tuple[int, ...] = ()  # whose number it is

    def of_base(self, framework: str, base: Any) -> Any:
        """`base`, already built from `self.reference`, with the change in its arguments."""
        if not self.block:
            return base
        if framework == "torch":
            return self._in_torch(base)
        return self._in_jax(base) if framework == "jax" else Object(self, base)

    def _in_torch(self, base: Any) -> Any:
        def layer(params: Any, x: Any) -> Any:
            array = x if self.block == "x" else params[self.block]
            if self.other:
                array = array.index_put(tuple(torch.tensor([i]) for i in self.entry), array[self.other])
            else:
                factor = torch.ones_like(array)
                factor[self.entry] = GRADIENT
                array = array.detach() + factor * (array - array.detach())
            return base(params, array) if self.block == "x" else base({**params, self.block: array}, x)

        return layer

    def _in_jax(self, base: Any) -> Any:
        import jax
        import jax.numpy as jnp

        def layer(params: Any, x: Any) -> Any:
            array = x if self.block == "x" else params[self.block]
            if self.other:
                array = array.at[self.entry].set(array[self.other])
            else:
                factor = jnp.ones_like(array).at[self.entry].set(GRADIENT)
                still = jax.lax.stop_gradient(array)
                array = still + factor * (array - still)
            return base(params, array) if self.block == "x" else base({**params, self.block: array}, x)

        return layer


class Object:
    """An object with forward and backward, with the change in its arguments and gradients."""

    def __init__(self, change: Change, base: Any) -> None:
        self.change, self.base = change, base

    def forward(self, params: Any, x: Any, **options: Any) -> Any:
        return self.base.forward(self._given(params), x, **options)

    def backward(self, params: Any, tape: Any, grad_y: Any, **options: Any) -> Any:
        grads, grad_x = self.base.backward(self._given(params), tape, grad_y, **options)
        change = self.change
        grads, grad_x = {name: grad.copy() for name, grad in grads.items()}, grad_x.copy()
        array = grad_x if change.block == "x" else grads[change.block]
        if change.other:
            array[change.other] += array[change.entry]
            array[change.entry] = 0
        else:
            array[change.entry] *= GRADIENT
        return grads, grad_x

    def _given(self, params: Any) -> Any:
        change = self.change
        if not change.other:
            return params
        array = params[change.block].copy()
        array[change.entry] = array[change.other]
        return {**params, change.block: array}


def draw_change(reference: Any, gradients: bool, rng: np.random.Generator) -> Change | None:
    """One of those that exist for the reference; None where there is none. `gradients`: whether the layer has any."""
    possible = [name for name in CHANGES if gradients or name != "gradient entry"]
    for name in rng.permutation(possible):
        change = _drawn(str(name), reference, rng)
        if change is not None:
            return change
    return None


def _drawn(name: str, reference: Any, rng: np.random.Generator) -> Change | None:
    if name == "weight of S":
        wrong = _reweighed(reference, rng)
        return None if wrong is None else Change(name, wrong)
    shapes = {block: shape for block, shape in reference.parameter_shapes().items() if 0 not in shape}
    if name == "gradient entry":
        shapes["x"] = (1, *reference.in_shape)  # of the first sample
        block = str(rng.choice(list(shapes)))
        return Change(name, reference, block, _entry(shapes[block], rng))
    shapes = {block: shape for block, shape in shapes.items() if max(shape) > 1}
    if not shapes:
        return None
    block = str(rng.choice(list(shapes)))
    entry, shape = _entry(shapes[block], rng), shapes[block]
    axis = int(rng.choice([a for a, size in enumerate(shape) if size > 1]))
    other = (entry[axis] + int(rng.integers(1, shape[axis]))) % shape[axis]
    return Change(name, reference, block, entry, (*entry[:axis], other, *entry[axis + 1 :]))


def _entry(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(rng.integers(size)) for size in shape)


def _reweighed(reference: Any, rng: np.random.Generator) -> Any:
    """The same filter, or network, on a graph with one other weight; None where no weight takes part."""
    if reference.name == "network":
        places = [i for i, layer in enumerate(reference.layers) if layer.name in WEIGHS_WITH_S]
        if not places:
            return None
        place = int(rng.choice(places))
        wrong = _reweighed(reference.layers[place], rng)
        layers = [*reference.layers[:place], wrong, *reference.layers[place + 1 :]]
        return None if wrong is None else Layers(layers)
    if reference.name not in WEIGHS_WITH_S or reference.graph.n_edges + reference.graph.n_self_loops == 0:
        return None
    S = reference.graph.S.toarray()
    S[tuple(rng.choice(np.argwhere(S)))] *= WEIGHT
    try:
        return type(reference)(ev.Graph(S), **reference.config())
    except (ev.NotDiagonalizable, ValueError):  # other eigenvalues: the kernel of a spectral filter does not fit
        return None


class Layers:
    """What a network is to who builds layers from it, where its layers are on different graphs."""

    name = "network"

    def __init__(self, layers: list[Any]) -> None:
        self.layers = layers

    def forward(self, params: Any, x: Any, **options: Any) -> Any:
        tapes = []
        for i, layer in enumerate(self.layers):
            x, tape = layer.forward(self._of(params, i), x, **options)
            tapes.append(tape)
        return x, tapes

    def backward(self, params: Any, tapes: Any, grad: Any, **options: Any) -> Any:
        grads: dict[str, Array] = {}
        for i in reversed(range(len(self.layers))):
            own, grad = self.layers[i].backward(self._of(params, i), tapes[i], grad, **options)
            grads |= {f"{i}.{name}": array for name, array in own.items()}
        return {name: grads[name] for name in params}, grad

    @staticmethod
    def _of(params: Any, i: int) -> dict[str, Array]:
        start = f"{i}."
        return {name.removeprefix(start): p for name, p in params.items() if name.startswith(start)}
