"""Broken batches, in every filter: only the first sample goes through the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from broken_base import CONFIGS, Registry, typical
from right_layers import Layer, chebyshev_states, edge_shift, plus_bias, powers, right, support, weights

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()


def zeros_for_the_others(reference: Any) -> Layer:
    layer = right(reference)

    def first_alone(params: Params, x: Tensor) -> Tensor:
        y = torch.zeros(len(x), *reference.out_shape, dtype=x.dtype)
        y[0] = layer(params, x[:1])[0]
        return y

    return first_alone


def first_for_all(reference: Any) -> Layer:
    layer = right(reference)
    return lambda params, x: layer(params, x[:1]).expand(len(x), -1, -1)


def bias_for_the_others(reference: Any) -> Layer:
    """The filter writes into the first sample of an array of zeros, the bias is added to all of it."""
    layer = right(reference, bias=lambda y, params: y)

    def run(params: Params, x: Tensor) -> Tensor:
        y = layer(params, x[:1])
        y = torch.cat([y, torch.zeros(len(x) - 1, *y.shape[1:], dtype=y.dtype)])
        return plus_bias(y, params)

    return run


for _name in CONFIGS:
    BROKEN.add("first-sample", _name, "zeros for the others", typical(_name), zeros_for_the_others)
    BROKEN.add("first-sample", _name, "the first for all", typical(_name), first_for_all)
for _name in ("gcn", "edge_variant", "cayley", "attention", "spectral"):
    BROKEN.add("first-sample", _name, "the bias for the others", typical(_name, bias=True), bias_for_the_others)


# ---- (batch * nodes, features) with an edge list of N nodes ----------------------------------------------------------
def flat(x: Tensor) -> Tensor:
    """(batch, features, nodes) -> (batch * nodes, features)."""
    return x.mT.reshape(-1, x.shape[1])


def unflat(y: Tensor, x: Tensor) -> Tensor:
    return y.reshape(len(x), -1, y.shape[-1]).mT


def flat_shift(S: Any) -> Any:
    """S x for (batch * nodes, features): the edges lead from and to the first N rows."""
    shift = edge_shift(S)
    return lambda rows: shift(rows.mT).mT


def flattened_polynomial(reference: Any) -> Layer:
    shift, states = flat_shift(weights(reference)), powers
    key = "phi"
    if reference.name == "chebyshev":
        states, key = chebyshev_states, "theta"

    def layer(params: Params, x: Tensor) -> Tensor:
        found = states(shift, flat(x), reference.order)
        y = sum(w @ phi.T for phi, w in zip(params[key], found, strict=True))
        return plus_bias(unflat(y, x), params)

    return layer


def flattened_gcn(reference: Any) -> Layer:
    shift = flat_shift(weights(reference))
    return lambda params, x: plus_bias(unflat(shift(flat(x)) @ params["theta"].T, x), params)


def flattened_gcn_with_loops(reference: Any) -> Layer:
    """The normalisation knows of batch * nodes rows, and gives each a self-loop; the edges end at row N."""
    weight = reference.__dict__["raw"].S.toarray()

    def layer(params: Params, x: Tensor) -> Tensor:
        n = len(x) * x.shape[-1]
        A = np.eye(n)
        A[: len(weight), : len(weight)] += weight
        A_hat = torch.tensor(A / np.sqrt(np.outer(A.sum(1), A.sum(1)))).to(x.dtype)
        return plus_bias(unflat(A_hat @ flat(x) @ params["theta"].T, x), params)

    return layer


def flattened_edge_variant(reference: Any) -> Layer:
    """phi gathers and adds along the entries of I + S, all of which lie among the first N rows."""
    target, source = (torch.as_tensor(ends) for ends in support(weights(reference)))

    def layer(params: Params, x: Tensor) -> Tensor:
        rows = flat(x).T  # (features, batch * nodes)
        phi = params["phi"]
        w = rows.expand(phi.shape[1], -1, -1)
        total = w if reference.zeroth == "identity" else torch.zeros_like(w)
        for phi_k in phi:
            w = torch.zeros_like(w).index_add(-1, target, phi_k * w[..., source])
            total = total + w
        return plus_bias(unflat(total.sum(1).T, x), params)

    return layer


def flattened_attention(reference: Any) -> Layer:
    """Each of the batch * nodes rows has a self-loop; all other edges lie among the first N."""
    S = weights(reference)
    np.fill_diagonal(S, 0)
    edges = np.nonzero(S)

    def layer(params: Params, x: Tensor) -> Tensor:
        from right_generated import attention

        rows = flat(x).T[None]
        own = np.arange(rows.shape[-1])
        target, source = (np.concatenate([ends, own]) for ends in edges)
        y = attention(params, rows, target, source, reference.slope)
        return plus_bias(unflat(y[0].T, x), params)

    return layer


def flattened_arma(reference: Any) -> Layer:
    from right_rational import arma_stack, stack_mean

    shift = edge_shift(weights(reference))

    def layer(params: Params, x: Tensor) -> Tensor:
        rows = flat(x).T[None]
        stacks = [
            arma_stack(shift, first, params["w"][:, p], params["v"][:, p], rows, reference.iterations)
            for p, first in enumerate(params["w0"])
        ]
        return plus_bias(unflat(stack_mean(torch.stack(stacks))[0].T, x), params)

    return layer


def flattened_monet(reference: Any) -> Layer:
    """The messages stay among the first N rows, the weight of the node itself goes to all."""
    kernels = right(reference, bias=lambda y, params: y)

    def layer(params: Params, x: Tensor) -> Tensor:
        zero = torch.zeros_like(params["root"])
        messages = kernels({**params, "root": zero}, x[:1])
        y = torch.cat([messages, torch.zeros(len(x) - 1, *messages.shape[1:], dtype=x.dtype)])
        return plus_bias(y + params["root"] @ x, params)

    return layer


for _name in ("polynomial", "tagcn", "chebyshev"):
    for _bias in (False, True):
        BROKEN.add("first-sample", _name, f"flattened, bias={_bias}", typical(_name, bias=_bias), flattened_polynomial)
BROKEN.add("first-sample", "gcn", "flattened", typical("gcn", bias=True), flattened_gcn)
BROKEN.add(
    "first-sample",
    "gcn",
    "flattened, every row with a self-loop",
    typical("gcn", "undirected", "gcn"),
    flattened_gcn_with_loops,
)
for _zeroth in ("none", "identity"):
    BROKEN.add(
        "first-sample",
        "edge_variant",
        f"flattened, zeroth={_zeroth}",
        typical("edge_variant", zeroth=_zeroth),
        flattened_edge_variant,
    )
BROKEN.add("first-sample", "attention", "flattened", typical("attention"), flattened_attention)
BROKEN.add("first-sample", "arma", "flattened", typical("arma"), flattened_arma)
for _name in ("ecc", "monet"):
    BROKEN.add("first-sample", _name, "flattened, with a root", typical(_name, root=True), flattened_monet)
