"""Broken activations, in networks and in every filter; modules in train mode; one wrong layer in a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from broken_base import CONFIGS, Reference, Registry, after, typical
from right_layers import Layer, plus_bias, right, weights

import evref as ev

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()

# ---- an activation that the filter has not ---------------------------------------------------------------------------
BUILT_IN: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("ReLU built in", torch.relu),
    ("leaky ReLU built in", torch.nn.functional.leaky_relu),
    ("tanh built in", torch.tanh),
    ("sigmoid built in", torch.sigmoid),
]
for _i, _name in enumerate(CONFIGS):
    _words, _function = BUILT_IN[_i % 4]
    _reference = typical(_name, bias=_i % 2 == 0)
    BROKEN.add("activation", _name, _words, _reference, after(lambda y, reference, f=_function: f(y)))


def early_in_filter(reference: Any) -> Layer:
    """sigma(H x) + b: the activation is built in and the bias comes after it."""
    layer = right(reference, bias=lambda y, params: y)
    return lambda params, x: plus_bias(torch.relu(layer(params, x)), params)


BROKEN.add("activation", "gcn", "ReLU built in, then the bias", typical("gcn", bias=True), early_in_filter)

# ---- what belongs to the loss ----------------------------------------------------------------------------------------
for _name in ("gcn", "chebyshev"):
    for _words, _function in (("log_softmax", torch.log_softmax), ("softmax", torch.softmax)):
        BROKEN.add(
            "activation",
            _name,
            f"{_words} over features built in",
            typical(_name, bias=True),
            after(lambda y, reference, f=_function: f(y, 1)),
        )

# ---- networks --------------------------------------------------------------------------------------------------------
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, 0.01),
}
KINDS = {"relu": ev.ReLU, "tanh": ev.Tanh, "sigmoid": ev.Sigmoid, "leaky_relu": ev.LeakyReLU}


def network(name: str, kind: str, last: bool = True) -> Reference:
    """rng -> filter with bias, activation, filter with bias (and the activation again)."""

    def reference(rng: Any) -> Any:
        first = typical(name, in_features=2, out_features=3, bias=True)(rng)
        second = typical("gcn", in_features=3, out_features=2, bias=True)(rng)
        layers = [first, KINDS[kind](), second]
        return ev.Network([*layers, KINDS[kind]()] if last else layers)

    return reference


def of_layer(params: Params, i: int) -> Params:
    start = f"{i}."
    return {name.removeprefix(start): p for name, p in params.items() if name.startswith(start)}


def run(reference: Any, activations: Mapping[int, Callable[[Tensor], Tensor]], **changes: Any) -> Layer:
    """The network with functions of one's own in the place of its activations.

    `early`: the filter whose bias is added after the activation that follows; `layers`: other layers by number.
    """
    early, others = changes.get("early"), changes.get("layers", {})
    layers = {
        i: others[i](layer) if i in others else right(layer, **({"bias": lambda y, p: y} if i == early else {}))
        for i, layer in enumerate(reference.layers)
        if layer.name not in FUNCTIONS
    }

    def forward(params: Params, x: Tensor) -> Tensor:
        for i, layer in enumerate(reference.layers):
            if i in layers:
                x = layers[i](of_layer(params, i), x)
            else:
                x = activations.get(i, FUNCTIONS.get(layer.name))(x)
            if early is not None and i == early + 1:
                x = plus_bias(x, of_layer(params, early))
        return x

    return forward


def replaced(function: Callable[[Tensor], Tensor], at: int) -> Callable[[Any], Layer]:
    return lambda reference: run(reference, {at: function})


def twice(kind: str) -> Callable[[Tensor], Tensor]:
    return lambda x: FUNCTIONS[kind](FUNCTIONS[kind](x))


def nothing(x: Tensor) -> Tensor:
    return x


for _kind in ("relu", "tanh", "sigmoid", "leaky_relu"):
    for _at in (1, 3):
        _reference = network("polynomial", _kind)
        BROKEN.add("activation", "network", f"{_kind} missing, layer {_at}", _reference, replaced(nothing, _at))
        if _kind != "relu":  # a ReLU of a ReLU is a ReLU
            BROKEN.add("activation", "network", f"{_kind} twice, layer {_at}", _reference, replaced(twice(_kind), _at))
        BROKEN.add(
            "activation",
            "network",
            f"{_kind} before the bias, layer {_at}",
            _reference,
            lambda reference, at=_at: run(reference, {}, early=at - 1),
        )
for _kind, _other in (("relu", "tanh"), ("tanh", "sigmoid"), ("leaky_relu", "relu"), ("sigmoid", "leaky_relu")):
    BROKEN.add(
        "activation", "network", f"{_other} for {_kind}", network("edge_variant", _kind), replaced(FUNCTIONS[_other], 1)
    )
BROKEN.add(
    "activation",
    "network",
    "softmax's cousin at the end: a sigmoid more",
    network("chebyshev", "tanh", last=False),
    lambda reference: lambda params, x: torch.sigmoid(run(reference, {})(params, x)),
)


# ---- networks with a readout -----------------------------------------------------------------------------------------
def classifier(name: str, kind: str) -> Reference:
    """rng -> filter with bias, activation, readout of four classes."""

    def reference(rng: Any) -> Any:
        first = typical(name, in_features=2, out_features=3, bias=True)(rng)
        return ev.Network([first, KINDS[kind](), ev.Dense(first.out_shape, 4)])

    return reference


def by_nodes(readout: Any) -> Layer:
    """(batch, nodes, features) flattened, for a weight that was made for (batch, features, nodes)."""
    return lambda params, x: torch.nn.functional.linear(x.mT.flatten(1), params["weight"], params["bias"])


for _name, _kind in (("gcn", "relu"), ("edge_variant", "tanh"), ("chebyshev", "leaky_relu")):
    BROKEN.add(
        "copied-nodes",
        "network",
        f"{_name}, {_kind}, flattened as (nodes, features)",
        classifier(_name, _kind),
        lambda reference: run(reference, {}, layers={2: by_nodes}),
    )
ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "log_softmax": lambda y: torch.log_softmax(y, -1),
    "softmax": lambda y: torch.softmax(y, -1),
    "ReLU": torch.relu,
    "sigmoid": torch.sigmoid,
}
for _words, _function in ENDS.items():
    BROKEN.add(
        "activation",
        "network",
        f"{_words} behind the readout",
        classifier("gcn", "tanh"),
        lambda reference, f=_function: lambda params, x: f(run(reference, {})(params, x)),
    )
for _last in (True, False):
    BROKEN.add(
        "activation",
        "network",
        f"log_softmax over features at the end, behind {'an activation' if _last else 'a filter'}",
        network("polynomial", "tanh", last=_last),
        lambda reference: lambda params, x: torch.log_softmax(run(reference, {})(params, x), 1),
    )

# ---- one layer of a network ------------------------------------------------------------------------------------------
BROKEN.add(
    "shift-transposed",
    "network",
    "S^T in the first layer",
    network("polynomial", "tanh"),
    lambda reference: run(reference, {}, layers={0: lambda layer: right(layer, S=weights(layer).T)}),
)
BROKEN.add(
    "bias",
    "network",
    "no bias in the second filter",
    network("edge_variant", "tanh"),
    lambda reference: run(reference, {}, layers={2: lambda layer: right(layer, bias=lambda y, params: y)}),
)
BROKEN.add(
    "detached",
    "network",
    "detached behind the first filter",
    network("polynomial", "tanh"),
    lambda reference: run(reference, {1: lambda x: torch.tanh(x).detach()}),
)
BROKEN.add(
    "first-sample",
    "network",
    "the first for all",
    network("polynomial", "relu"),
    lambda reference: lambda params, x: run(reference, {})(params, x[:1]).expand(len(x), -1, -1),
)
BROKEN.add(
    "gradient-scaled",
    "network",
    "a mean over the batch",
    network("polynomial", "tanh"),
    lambda reference: lambda params, x: _divided(run(reference, {})(params, x), len(x)),
)


def _divided(y: Tensor, count: int) -> Tensor:
    """y, whose gradient is divided by a count."""
    return y / count + (y - y / count).detach()


# ---- train-mode ------------------------------------------------------------------------------------------------------
class Trained(torch.nn.Module):
    """A right filter whose parameters are the module's, with something that behaves differently in train mode.

    `noise` acts on x or, with `at="y"`, on the output.
    """

    def __init__(self, reference: Any, noise: torch.nn.Module, at: str) -> None:
        super().__init__()
        self.layer, self.noise, self.at = right(reference), noise, at
        for name, shape in reference.parameter_shapes().items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)))

    def forward(self, x: Tensor) -> Tensor:
        own = dict(self.named_parameters(recurse=False))
        x = self.noise(x) if self.at == "x" else x
        y = self.layer(own, x)
        return self.noise(y) if self.at == "y" else y


def in_train_mode(noise: Callable[[Any], torch.nn.Module], at: str) -> Callable[[Any], torch.nn.Module]:
    return lambda reference: Trained(reference, noise(reference), at)


NOISES: list[tuple[str, Callable[[Any], torch.nn.Module], str]] = [
    ("dropout of the output", lambda r: torch.nn.Dropout(0.5), "y"),
    ("dropout of x", lambda r: torch.nn.Dropout(0.3), "x"),
    ("whole features dropped", lambda r: torch.nn.Dropout1d(0.5), "y"),
    (
        "batch normalisation of the output",
        lambda r: torch.nn.BatchNorm1d(r.out_shape[0], affine=False, eps=1e-15),
        "y",
    ),
    ("batch normalisation of x", lambda r: torch.nn.BatchNorm1d(r.in_features, affine=False, eps=1e-15), "x"),
]
for _i, _name in enumerate(CONFIGS):
    _words, _noise, _at = NOISES[_i % len(NOISES)]
    BROKEN.add("train-mode", _name, _words, typical(_name), in_train_mode(_noise, _at))
