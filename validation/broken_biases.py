"""Broken biases, in every filter: missing, twice, in every term, of the other sign, per node for per feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from broken_base import CONFIGS, Registry, made, typical
from right_layers import Layer, right

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()


def no_bias(y: Tensor, params: Params) -> Tensor:
    return y


def subtracted(y: Tensor, params: Params) -> Tensor:
    return y - params["bias"][:, None]


def per_node(y: Tensor, params: Params) -> Tensor:
    """(features,) broadcasts over the last axis, the nodes."""
    return y + params["bias"]


def in_both_parts(y: Tensor, params: Params) -> Tensor:
    """As the two halves of a hybrid, each handed the bias."""
    return (0.5 * y + params["bias"][:, None]) + (0.5 * y + params["bias"][:, None])


def in_every_term(count: Callable[[Any], int]) -> Callable[[Any], Layer]:
    def build(reference: Any) -> Layer:
        def add(y: Tensor, params: Params) -> Tensor:
            for _ in range(count(reference)):
                y = y + params["bias"][:, None]
            return y

        return right(reference, bias=add)

    return build


for _name in CONFIGS:
    _reference = typical(_name, bias=True)
    BROKEN.add("bias", _name, "made and not used", _reference, made(bias=no_bias))
    BROKEN.add("bias", _name, "in both of two parts", _reference, made(bias=in_both_parts))
    _sizes = {"out_features": 6} if _name != "dcnn" else {"order": 2}
    BROKEN.add("bias", _name, "per node", typical(_name, bias=True, **_sizes), made(bias=per_node))
for _name in ("polynomial", "spectral", "attention"):
    BROKEN.add("bias", _name, "subtracted", typical(_name, bias=True), made(bias=subtracted))
for _name in ("polynomial", "tagcn", "chebyshev", "node_variant", "edge_variant"):
    BROKEN.add("bias", _name, "in every term", typical(_name, bias=True), in_every_term(lambda r: r.order + 1))
BROKEN.add(
    "bias", "edge_variant", "in every step", typical("edge_variant", bias=True), in_every_term(lambda r: r.order)
)
BROKEN.add("bias", "arma", "in every iteration", typical("arma", bias=True), in_every_term(lambda r: r.iterations))
BROKEN.add(
    "bias",
    "gcn",
    "once per input feature",
    typical("gcn", bias=True, in_features=3),
    in_every_term(lambda r: r.in_features),
)
