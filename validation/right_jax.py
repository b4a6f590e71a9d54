"""Right layers in JAX: every filter of the catalogue, and networks of them, from the peers of `peers_*.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import family
import jax
import jax.numpy as jnp
import numpy as np
import peers

Layer = Callable[[Mapping[str, Any], Any], Any]


def right(reference: Any) -> Layer:
    """The layer(params, x) that computes what `reference` does."""
    if reference.name == "network":
        return _network([right(layer) for layer in reference.layers])
    if reference.name in LAYERS:
        return LAYERS[reference.name](reference)
    run = family.collected("JAX")[reference.name]
    return lambda params, x: run(reference, params, jnp.asarray(x))


def _network(layers: list[Layer]) -> Layer:
    def chain(params: Mapping[str, Any], x: Any) -> Any:
        for i, layer in enumerate(layers):
            start = f"{i}."
            x = layer({name.removeprefix(start): p for name, p in params.items() if name.startswith(start)}, x)
        return x

    return chain


def _pointwise(function: Callable[[Any], Any]) -> Callable[[Any], Layer]:
    return lambda reference: lambda params, x: function(x)


def _leaky(reference: Any) -> Layer:
    return lambda params, x: jax.nn.leaky_relu(x, reference.slope)


def _readout(reference: Any) -> Layer:
    def layer(params: Mapping[str, Any], x: Any) -> Any:
        y = x.reshape(len(x), -1) @ params["weight"].T
        return y + params["bias"] if "bias" in params else y

    return layer


def _neighbourhoods(reference: Any) -> Layer:
    hears = (reference.graph.S.toarray() != 0) | np.eye(reference.graph.n_nodes, dtype=bool)
    within = [np.linalg.matrix_power(hears.astype(int), k) > 0 for k in range(1, reference.hops + 1)]
    lists = [[np.flatnonzero(row).tolist() for row in mask] for mask in within]
    kind = reference.name.removesuffix("_activation")
    return lambda params, x: peers.jax_neighborhood(lists, params["weight"], x, kind)


LAYERS: dict[str, Callable[[Any], Layer]] = {
    "relu": _pointwise(jax.nn.relu),
    "tanh": _pointwise(jnp.tanh),
    "sigmoid": _pointwise(jax.nn.sigmoid),
    "identity": _pointwise(lambda x: x),
    "leaky_relu": _leaky,
    "dense": _readout,
    "max_activation": _neighbourhoods,
    "median_activation": _neighbourhoods,
}
