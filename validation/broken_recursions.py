"""Broken edge-variant recursions: products in the wrong order, terms lost, entries that are not free or not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from broken_base import Registry, made, typical
from right_layers import Layer, combined, dense_phi, plus_bias, recursion, right, start, support, weights

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()
RECURSIONS = ("edge_variant", "parallel_edge_variant")
HYBRIDS = ("hybrid_edge_variant", "critical_edge")


def applied(Phi: Tensor, w: Tensor) -> Tensor:
    return torch.einsum("fgij,bfgj->bfgi", Phi, w)


# ---- taps and the zeroth term ----------------------------------------------------------------------------------------
def one_less(Phi: Tensor, w: Tensor) -> list[Tensor]:
    return recursion(Phi[:-1], w)


def last_alone(w0: Tensor, states: Sequence[Tensor], zeroth: str) -> Tensor:
    return states[-1].sum(2)


for _name in RECURSIONS:
    BROKEN.add("taps", _name, "no k = K", typical(_name), made(steps=one_less))
BROKEN.add("taps", "edge_variant", "only w^(K)", typical("edge_variant"), made(combine=last_alone))
BROKEN.add(
    "taps", "edge_variant", "only w^(K), diagonal", typical("edge_variant", zeroth="diagonal"), made(combine=last_alone)
)
for _zeroth in ("identity", "diagonal"):
    _reference = typical("edge_variant", zeroth=_zeroth)
    BROKEN.add(
        "zeroth-term",
        "edge_variant",
        f"no k = 0, {_zeroth}",
        _reference,
        made(combine=lambda w0, states, zeroth: combined(w0, states, "none")),
    )
    BROKEN.add(
        "zeroth-term",
        "edge_variant",
        f"k = 0 twice, {_zeroth}",
        _reference,
        made(combine=lambda w0, states, zeroth: combined(2 * w0, states, zeroth)),
    )
BROKEN.add(
    "zeroth-term",
    "edge_variant",
    "x added, none",
    typical("edge_variant"),
    made(combine=lambda w0, states, zeroth: combined(w0, states, "identity")),
)


def term_of_its_own(reference: Any) -> Layer:
    """Phi^(0) x + sum_k Phi^(k) ... Phi^(1) x: the products do not start at Phi^(0)."""
    ends = support(weights(reference))

    def layer(params: Params, x: Tensor) -> Tensor:
        Phi = dense_phi(params["phi"], *ends, x.shape[-1])
        w = start(Phi, None, x)
        return plus_bias(combined(params["phi0"] * w, recursion(Phi, w), "diagonal"), params)

    return layer


BROKEN.add(
    "zeroth-term",
    "edge_variant",
    "Phi^(0) is a term of its own",
    typical("edge_variant", zeroth="diagonal"),
    term_of_its_own,
)


# ---- product-order ---------------------------------------------------------------------------------------------------
def oldest_on_the_left(Phi: Tensor, w: Tensor) -> list[Tensor]:
    """Phi^(1) ... Phi^(k) w."""
    states = []
    for k in range(1, len(Phi) + 1):
        state = w
        for Phi_k in Phi[:k].flip(0):
            state = applied(Phi_k, state)
        states.append(state)
    return states


def newest_first(Phi: Tensor, w: Tensor) -> list[Tensor]:
    return recursion(Phi.flip(0), w)


def not_accumulated(Phi: Tensor, w: Tensor) -> list[Tensor]:
    return [applied(Phi_k, w) for Phi_k in Phi]


for _name in (*RECURSIONS, *HYBRIDS):
    BROKEN.add("product-order", _name, "Phi^(1) ... Phi^(k)", typical(_name), made(steps=oldest_on_the_left))
for _zeroth in ("none", "diagonal"):
    _reference = typical("edge_variant", zeroth=_zeroth)
    BROKEN.add("product-order", "edge_variant", f"steps K, ..., 1, {_zeroth}", _reference, made(steps=newest_first))
    BROKEN.add("product-order", "edge_variant", f"sum of Phi^(k) x, {_zeroth}", _reference, made(steps=not_accumulated))


# ---- entries ---------------------------------------------------------------------------------------------------------
def own_entries_times(factor: float) -> Callable[[Tensor], Tensor]:
    def change(Phi: Tensor) -> Tensor:
        return Phi * (1 + (factor - 1) * torch.eye(Phi.shape[-1], dtype=Phi.dtype))

    return change


BROKEN.add("self-loops", "edge_variant", "no Phi_ii", typical("edge_variant"), made(Phi=own_entries_times(0)))
BROKEN.add("self-loops", "edge_variant", "2 Phi_ii", typical("edge_variant"), made(Phi=own_entries_times(2)))


def times_S(reference: Any) -> Layer:
    """phi_ij S_ij, self entries as they are."""
    S = weights(reference)
    np.fill_diagonal(S, 1)
    matrix = torch.tensor(S)
    return right(reference, Phi=lambda Phi: Phi * matrix.to(Phi.dtype))


BROKEN.add("shift-weights", "edge_variant", "phi_ij S_ij", typical("edge_variant"), times_S)


def mask_of(reference: Any) -> Tensor:
    return torch.tensor((weights(reference) != 0) | np.eye(reference.graph.n_nodes, dtype=bool))


def product_masked(reference: Any, carried_on: bool) -> Layer:
    """H = sum_k M (Phi^(k) ... Phi^(1)), M the mask of I + S on the products; `carried_on`: on their factors too."""
    ends, mask = support(weights(reference)), mask_of(reference)

    def layer(params: Params, x: Tensor) -> Tensor:
        product = torch.eye(x.shape[-1], dtype=x.dtype)
        H = 0
        for Phi_k in dense_phi(params["phi"], *ends, x.shape[-1]):
            product = Phi_k @ product
            masked = product * mask
            H = H + masked
            product = masked if carried_on else product
        return plus_bias(torch.einsum("fgij,bgj->bfi", H, x), params)

    return layer


for _carried_on, _words in ((True, "products masked and carried on"), (False, "terms masked")):
    BROKEN.add(
        "outside-support",
        "edge_variant",
        _words,
        typical("edge_variant"),
        lambda reference, carried_on=_carried_on: product_masked(reference, carried_on),
    )


def never_masked(reference: Any) -> Layer:
    """The parameter is a dense Phi (K, F, G, N, N) and nothing keeps its gradient on the support."""

    def layer(params: Params, x: Tensor) -> Tensor:
        Phi = params["Phi"]
        w = start(Phi, None, x)
        return plus_bias(combined(w, recursion(Phi, w), reference.zeroth), params)

    return layer


BROKEN.add(
    "outside-support",
    "edge_variant",
    "dense Phi never masked",
    typical("edge_variant", order=2),
    never_masked,
    parameters={"Phi": ("phi", "dense")},
)
