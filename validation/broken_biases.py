"""Broken biases, in every filter: missing, twice, in every term, of the other sign, per node for per feature, inside.

And what else goes wrong within the iterations of ARMA: an activation in each, the input V x not in each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from broken_base import CONFIGS, Registry, base_states, made, typical
from right_generated import attention
from right_layers import Layer, dense_shift, right, support, weights

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


# ---- a bias that goes where W x goes ---------------------------------------------------------------------------------
def plus(y: Tensor, params: Params) -> Tensor:
    return y + params["bias"][:, None] if "bias" in params else y


def convolved_after(reference: Any) -> Layer:
    """A (X W + b): a torch.nn.Linear with its bias, then the product with the matrix."""
    shift = dense_shift(weights(reference))
    return lambda params, x: shift(torch.nn.functional.linear(x.mT, params["theta"], params["bias"]).mT)


def in_every_tap(reference: Any) -> Layer:
    """sum_k P_k(S) (W_k x + b), weights before shifts."""
    shift, own = dense_shift(weights(reference)), base_states(reference.name)

    def layer(params: Params, x: Tensor) -> Tensor:
        taps = params["theta" if reference.name == "chebyshev" else "phi"]
        return sum(own(shift, plus(tap @ x, params), k)[k] for k, tap in enumerate(taps))

    return layer


def identity(x: Tensor) -> Tensor:
    return x


def in_every_iteration(
    activation: Callable[[Tensor], Tensor] = identity,
    last: bool = True,
    within: bool = True,
    heard: Callable[[int], bool] = lambda t: True,
) -> Callable[[Any], Layer]:
    """X <- activation(W S X + V x + b) in every stack, then their mean.

    `last`: after the last iteration as well; `within`: the bias is there and not behind the mean; `heard`: in which
    iterations V x is added.
    """

    def build(reference: Any) -> Layer:
        shift = dense_shift(weights(reference))

        def layer(params: Params, x: Tensor) -> Tensor:
            stacks = []
            for p in range(reference.stacks):
                state = x
                for t in range(reference.iterations):
                    w = params["w0"][p] if t == 0 else params["w"][min(t, len(params["w"])) - 1, p]
                    state = w @ shift(state)
                    if heard(t):
                        state = state + params["v"][min(t, len(params["v"]) - 1), p] @ x
                    state = plus(state, params) if within else state
                    state = activation(state) if last or t < reference.iterations - 1 else state
                stacks.append(state)
            mean = torch.stack(stacks).mean(0)
            return mean if within else plus(mean, params)

        return layer

    return build


def attended(reference: Any) -> Layer:
    """Attention over z = W x + b: the bias is that of the linear layer, and is in the scores as well."""
    target, source = support(weights(reference))

    def layer(params: Params, x: Tensor) -> Tensor:
        own = params["bias"].reshape(reference.heads, -1, 1)
        weight = torch.cat([params["weight"], own], dim=2)
        return attention(
            {**params, "weight": weight}, torch.cat([x, torch.ones_like(x[:, :1])], 1), target, source, reference.slope
        )

    return layer


for _graph, _shift in (("directed", None), ("undirected", "gcn")):
    BROKEN.add("bias", "gcn", f"A (X W + b), {_graph}", typical("gcn", _graph, _shift, bias=True), convolved_after)
for _name in ("polynomial", "tagcn", "chebyshev"):
    BROKEN.add("bias", _name, "in every tap, before the shifts", typical(_name, bias=True), in_every_tap)
for _words, _function in (("ReLU", torch.relu), ("tanh", torch.tanh)):
    BROKEN.add(
        "activation",
        "arma",
        f"{_words} in every iteration, behind the bias",
        typical("arma", bias=True),
        in_every_iteration(_function),
    )
    for _config in ({"shared": False}, {"stacks": 1}):
        BROKEN.add(
            "activation",
            "arma",
            f"{_words} in every iteration, {_config}",
            typical("arma", **_config),
            in_every_iteration(_function),
        )
for _words, _last in (("in every iteration, then the bias", True), ("between the iterations", False)):
    BROKEN.add(
        "activation",
        "arma",
        f"ReLU {_words}",
        typical("arma", bias=True),
        in_every_iteration(torch.relu, last=_last, within=False),
    )
HEARD: dict[str, Callable[[int], bool]] = {
    "V x in the first iteration alone": lambda t: t == 0,
    "V x in all but the first": lambda t: t > 0,
    "no V x": lambda t: False,
}
for _words, _heard in HEARD.items():
    for _shared in (True, False):
        BROKEN.add(
            "taps",
            "arma",
            f"{_words}, shared={_shared}",
            typical("arma", bias=True, shared=_shared),
            in_every_iteration(within=False, heard=_heard),
        )
for _shared in (True, False):
    BROKEN.add(
        "bias",
        "arma",
        f"within every iteration, shared={_shared}",
        typical("arma", bias=True, shared=_shared),
        in_every_iteration(),
    )
for _heads in (1, 3):
    BROKEN.add(
        "bias", "attention", f"in W x + b, {_heads} heads", typical("attention", bias=True, heads=_heads), attended
    )
