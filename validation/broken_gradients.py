"""Broken gradients beside a right output, in every filter: .detach() left in, means in a backward pass by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from broken_base import CONFIGS, Registry, made, typical, with_params
from right_layers import Layer, Shift, combined, dense_shift, plus_bias, right, weights

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()


def cut(value: Tensor) -> Tensor:
    return value.detach()


# ---- detached --------------------------------------------------------------------------------------------------------
PARAMETER = {
    "polynomial": "phi",
    "tagcn": "phi",
    "chebyshev": "theta",
    "gcn": "theta",
    "dcnn": "weight",
    "selection_gcnn": "phi",
    "node_variant": "phi",
    "edge_variant": "phi",
    "parallel_edge_variant": "phi",
    "hybrid_edge_variant": "phi",
    "critical_edge": "poly",
    "arma": "v",
    "cayley": "h",
    "ecc": "w0",
    "monet": "sigma",
    "attention": "target",
    "spectral": "b",
    "shift_invariant_edge_variant": "mu",
}


def x_detached(reference: Any) -> Layer:
    layer = right(reference)
    return lambda params, x: layer(params, x.detach())


def under_no_grad(reference: Any) -> Layer:
    layer = right(reference)
    return lambda params, x: layer(params, x).detach()


def all_data(reference: Any) -> Layer:
    """.data of every parameter."""
    layer = right(reference)
    return lambda params, x: layer({name: p.data for name, p in params.items()}, x)


def bias_alone_learns(reference: Any) -> Layer:
    """The filter runs under no_grad, the bias is added outside."""
    layer = right(reference, bias=lambda y, params: y)
    return lambda params, x: plus_bias(layer(params, x).detach(), params)


for _i, (_name, _parameter) in enumerate(PARAMETER.items()):
    BROKEN.add("detached", _name, f"{_parameter}.detach()", typical(_name), with_params(**{_parameter: cut}))
    BROKEN.add("detached", _name, "x.detach()", typical(_name), x_detached)
    if _i % 3 == 0:
        BROKEN.add("detached", _name, "no_grad around all of it", typical(_name), under_no_grad)
    if _i % 3 == 1:
        BROKEN.add("detached", _name, ".data of every parameter", typical(_name), all_data)
    if _i % 3 == 2:
        BROKEN.add("detached", _name, "the bias alone learns", typical(_name, bias=True), bias_alone_learns)


def detached_recursion(Phi: Tensor, w: Tensor) -> list[Tensor]:
    states = []
    for Phi_k in Phi:
        w = torch.einsum("fgij,bfgj->bfgi", Phi_k, w.detach())
        states.append(w)
    return states


for _zeroth in ("none", "identity", "diagonal"):
    for _name in ("edge_variant", "parallel_edge_variant"):
        BROKEN.add(
            "detached",
            _name,
            f"every state, zeroth={_zeroth}",
            typical(_name, zeroth=_zeroth),
            made(steps=detached_recursion),
        )


def detached_powers(shift: Shift, x: Tensor, order: int) -> list[Tensor]:
    """Powers that were prepared beforehand: nothing leads back to x but k = 0."""
    states = [x]
    for _ in range(order):
        states.append(shift(states[-1]).detach())
    return states


def detached_chebyshev(shift: Shift, x: Tensor, order: int) -> list[Tensor]:
    states = [x, shift(x).detach()]
    for _ in range(2, order + 1):
        states.append((2 * shift(states[-1]) - states[-2]).detach())
    return states[: order + 1]


for _name in ("polynomial", "tagcn", "node_variant", "selection_gcnn", "dcnn"):
    BROKEN.add("detached", _name, "every state", typical(_name), made(states=detached_powers))
BROKEN.add("detached", "chebyshev", "every state", typical("chebyshev"), made(states=detached_chebyshev))


def truncated_arma(reference: Any) -> Layer:
    """Backpropagation through the last iteration alone."""
    shift = dense_shift(weights(reference))

    def layer(params: Params, x: Tensor) -> Tensor:
        stacks = []
        for p, first in enumerate(params["w0"]):
            state = x
            for t in range(reference.iterations):
                weight = first if t == 0 else params["w"][0, p]
                carried = shift(state if t == 0 else state.detach())
                state = weight @ carried + params["v"][0, p] @ x
            stacks.append(state)
        return plus_bias(torch.stack(stacks).mean(0), params)

    return layer


BROKEN.add("detached", "arma", "every state", typical("arma"), truncated_arma)


# ---- gradient-scaled -------------------------------------------------------------------------------------------------
class Scaled(torch.autograd.Function):
    """The identity with a backward pass by hand: gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


Factor = Callable[[Any, Tensor], float]


def scaled_gradients(factor: Factor, of: Sequence[str] | None = None, of_x: bool = True) -> Callable[[Any], Layer]:
    """The gradients of the parameters in `of` (all if None), and of x, times a factor."""

    def build(reference: Any) -> Layer:
        layer = right(reference)

        def run(params: Params, x: Tensor) -> Tensor:
            c = factor(reference, x)
            params = {n: Scaled.apply(p, c) if of is None or n in of else p for n, p in params.items()}
            return layer(params, Scaled.apply(x, c) if of_x else x)

        return run

    return build


def of_output(factor: Factor) -> Callable[[Any], Layer]:
    """What arrives at the output is scaled, and so is all that follows."""

    def build(reference: Any) -> Layer:
        layer = right(reference)
        return lambda params, x: Scaled.apply(layer(params, x), factor(reference, x))

    return build


WAYS: list[tuple[str, Callable[[Any], Layer]]] = [
    ("a mean over the batch", of_output(lambda r, x: 1 / len(x))),
    ("a mean over the outputs", of_output(lambda r, x: 1 / (len(x) * r.out_shape[0] * r.out_shape[1]))),
    ("parameters: a mean over the batch", scaled_gradients(lambda r, x: 1 / len(x), of_x=False)),
    ("x: reversed", scaled_gradients(lambda r, x: -1.0, of=())),
    ("parameters: a mean over nodes", scaled_gradients(lambda r, x: 1 / r.graph.n_nodes, of_x=False)),
    ("all: a mean over edges", of_output(lambda r, x: 1 / r.graph.n_edges)),
    ("parameters: twice", scaled_gradients(lambda r, x: 2.0, of_x=False)),
    ("x: summed over edges", scaled_gradients(lambda r, x: float(r.graph.n_edges), of=())),
    ("parameters: a mean over nodes and samples", scaled_gradients(lambda r, x: 1 / x[:, 0].numel(), of_x=False)),
]
for _i, _name in enumerate(CONFIGS):
    for _words, _build in (WAYS[_i % len(WAYS)], WAYS[(_i + 4) % len(WAYS)]):
        BROKEN.add("gradient-scaled", _name, _words, typical(_name), _build)
BROKEN.add(
    "gradient-scaled",
    "gcn",
    "bias: a mean over nodes",
    typical("gcn", bias=True),
    scaled_gradients(lambda r, x: 1 / r.graph.n_nodes, of=("bias",), of_x=False),
)


# ---- a backward pass by hand -----------------------------------------------------------------------------------------
class HandWritten(torch.autograd.Function):
    """y = Theta x S^T with its derivatives; that of Theta takes the mean over samples and the loss had their sum."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, x: Tensor, S: Tensor) -> Tensor:
        ctx.save_for_backward(theta, x, S)
        return theta @ x @ S.T

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor, Tensor, None]:
        theta, x, S = ctx.saved_tensors
        back = grad_y @ S
        return (back @ x.mT).mean(0), theta.T @ back, None


def gcn_by_hand(reference: Any) -> Layer:
    S = torch.tensor(weights(reference))
    return lambda params, x: HandWritten.apply(params["theta"], x, S.to(x.dtype))


BROKEN.add("gradient-scaled", "gcn", "backward by hand, a mean over the batch", typical("gcn"), gcn_by_hand)


def doubled_recursion(w0: Tensor, states: Sequence[Tensor], zeroth: str) -> Tensor:
    return Scaled.apply(combined(w0, states, zeroth), 2.0)


BROKEN.add(
    "gradient-scaled", "edge_variant", "twice accumulated", typical("edge_variant"), made(combine=doubled_recursion)
)
