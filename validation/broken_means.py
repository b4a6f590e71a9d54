"""Broken sums, in every filter: a mean over neighbours, features, terms, kernels; or a sum over stacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from broken_base import Registry, made, typical, with_S
from right_layers import Layer, node_mixed, plus_bias, right, weights

Tensor = torch.Tensor
Array = np.ndarray
Params = Mapping[str, Tensor]
BROKEN = Registry()


# ---- over neighbours: aggr="mean" ------------------------------------------------------------------------------------
def over_neighbours(reference: Any) -> Array:
    S = weights(reference)
    return S / np.maximum((S != 0).sum(axis=1, keepdims=True), 1)


for _name in (
    "polynomial",
    "tagcn",
    "chebyshev",
    "gcn",
    "dcnn",
    "selection_gcnn",
    "node_variant",
    "hybrid_edge_variant",
    "critical_edge",
    "arma",
    "cayley",
):
    BROKEN.add("mean-for-sum", _name, "over neighbours", typical(_name), with_S(over_neighbours))


def phi_over_entries(Phi: Tensor) -> Tensor:
    """Every row divided by its number of entries."""
    return Phi / (Phi != 0).sum(-1, keepdim=True).clamp(min=1)


for _name in ("edge_variant", "parallel_edge_variant"):
    BROKEN.add("mean-for-sum", _name, "over the entries of a row", typical(_name), made(Phi=phi_over_entries))
for _name in ("ecc", "monet"):
    BROKEN.add("mean-for-sum", _name, "over neighbours", typical(_name), made(aggregation="mean"))
    BROKEN.add("mean-for-sum", _name, "a sum for the mean", typical(_name, aggregation="mean"), made(aggregation="sum"))


def mean_of_messages(reference: Any) -> Layer:
    """alpha_ij z_j averaged at node i, as if alpha did not sum to one already."""
    S = weights(reference)
    degrees = torch.tensor(((S != 0) | np.eye(len(S), dtype=bool)).sum(axis=1))
    layer = right(reference, bias=lambda y, params: y)
    return lambda params, x: plus_bias(layer(params, x) / degrees.to(x.dtype), params)


BROKEN.add("mean-for-sum", "attention", "over neighbours", typical("attention"), mean_of_messages)


# ---- over input features ---------------------------------------------------------------------------------------------
def mean_of_features(phi: Tensor, states: Sequence[Tensor]) -> Tensor:
    products = (p[None, :, :, None] * w[:, None] for p, w in zip(phi, states, strict=True))  # (batch, F, G, N)
    return sum(product.mean(2) for product in products)


def mean_of_node_features(coefficients: Tensor, states: Sequence[Tensor]) -> Tensor:
    return sum((c * w[:, None]).mean(2) for c, w in zip(coefficients, states, strict=True))


for _name in ("polynomial", "tagcn", "chebyshev", "selection_gcnn"):
    BROKEN.add("mean-for-sum", _name, "over input features", typical(_name), made(mix=mean_of_features))
BROKEN.add("mean-for-sum", "node_variant", "over features", typical("node_variant"), made(mix=mean_of_node_features))


def mean_of_states(w0: Tensor, states: Sequence[Tensor], zeroth: str) -> Tensor:
    terms = list(states) if zeroth == "none" else [w0, *states]
    return sum(terms).mean(2)


for _name in ("edge_variant", "parallel_edge_variant"):
    for _zeroth in ("none", "diagonal"):
        BROKEN.add(
            "mean-for-sum",
            _name,
            ("over input features" if _name == "edge_variant" else "over features and terms") + f", {_zeroth}",
            typical(_name, zeroth=_zeroth),
            made(combine=mean_of_states),
        )


def mean_of_terms(reference: Any) -> Layer:
    """The mean over the parallel filters."""
    layer = right(reference, bias=lambda y, params: y)
    return lambda params, x: plus_bias(layer(params, x) / reference.terms, params)


BROKEN.add("mean-for-sum", "parallel_edge_variant", "over the filters", typical("parallel_edge_variant"), mean_of_terms)


def spectral_mean(reference: Any) -> Layer:
    """y_f = mean_g U diag(h_fg) U^-1 x_g."""
    from right_spectral import eigenbasis, kernel_of

    lam, U, U_inverse = eigenbasis(weights(reference))
    B, left, right_ = (torch.tensor(np.asarray(a, np.complex128)) for a in (kernel_of(reference, lam), U, U_inverse))

    def layer(params: Params, x: Tensor) -> Tensor:
        h = torch.einsum("nm,mfg->nfg", B, params["b"].to(B.dtype))
        x_hat = right_ @ x.to(B.dtype).mT
        y_hat = (h * x_hat[:, :, None, :]).mean(-1)  # (batch, N, F)
        return plus_bias((left @ y_hat).mT.real.to(x.dtype), params)

    return layer


BROKEN.add("mean-for-sum", "spectral", "over input features", typical("spectral"), spectral_mean)


def divided(by: Callable[[Any], int]) -> Callable[[Any], Layer]:
    def build(reference: Any) -> Layer:
        layer = right(reference, bias=lambda y, params: y)
        return lambda params, x: plus_bias(layer(params, x) / by(reference), params)

    return build


for _name in ("gcn", "cayley", "shift_invariant_edge_variant"):
    BROKEN.add("mean-for-sum", _name, "over input features", typical(_name), divided(lambda r: r.in_features))
BROKEN.add(
    "mean-for-sum",
    "attention",
    "over input features, in the projection",
    typical("attention"),
    lambda reference: lambda params, x: right(reference)({**params, "weight": params["weight"] / x.shape[1]}, x),
)
for _name in ("ecc", "monet"):
    BROKEN.add(
        "mean-for-sum",
        _name,
        "over input features, in the messages alone",
        typical(_name, root=True),
        made(kernel=lambda kernel: kernel / kernel.shape[2])
        if _name == "ecc"
        else made(total=lambda theta, psi: torch.einsum("rfg,re->efg", theta, psi) / theta.shape[2]),
    )


# ---- over terms, kernels and stacks ----------------------------------------------------------------------------------
def mean_of_powers(phi: Tensor, states: Sequence[Tensor]) -> Tensor:
    return torch.stack([torch.einsum("fg,bgn->bfn", p, w) for p, w in zip(phi, states, strict=True)]).mean(0)


for _name in ("polynomial", "chebyshev", "tagcn"):
    BROKEN.add("mean-for-sum", _name, "over the terms k", typical(_name), made(mix=mean_of_powers))
BROKEN.add(
    "mean-for-sum",
    "node_variant",
    "over the terms k",
    typical("node_variant"),
    made(mix=lambda c, w: node_mixed(c, w) / len(w)),
)
BROKEN.add(
    "mean-for-sum",
    "monet",
    "over kernels",
    typical("monet"),
    made(total=lambda theta, psi: (theta[:, None] * psi[..., None, None]).mean(0)),
)
BROKEN.add("mean-for-sum", "arma", "a sum over stacks", typical("arma"), made(reduce=lambda stacks: stacks.sum(0)))
