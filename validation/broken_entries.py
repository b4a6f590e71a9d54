"""Broken entries in the filters that hold a recursion: shift-invariant, parallel, hybrid, critical edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from broken_base import Registry, made, typical
from broken_recursions import (
    applied,
    last_alone,
    never_masked,
    newest_first,
    not_accumulated,
    one_less,
    own_entries_times,
    times_S,
)
from peers_privileged import _mask
from right_layers import (
    Layer,
    combined,
    dense_phi,
    dense_shift,
    plus_bias,
    polynomial,
    recursion,
    right,
    start,
    weights,
)

Tensor = torch.Tensor
Params = Mapping[str, Tensor]
BROKEN = Registry()
HYBRIDS = ("hybrid_edge_variant", "critical_edge")
DENSE = {"Phi": ("phi", "dense")}


# ---- shift-invariant: Phi^(k) = sum_d mu_d^(k) family_d --------------------------------------------------------------
def shift_invariant(
    reference: Any,
    Phi: Callable[[Tensor], Tensor] = lambda Phi: Phi,
    steps: Any = recursion,
    combine: Any = combined,
) -> Layer:
    """The recursion with dense Phi; the basis of the family is a choice and is read off the filter."""
    U, B = (np.array(a, np.complex128) for a in (reference.basis.fourier.U, reference.basis.B))
    family = torch.tensor(np.einsum("in,nd,nj->dij", U, B, np.linalg.inv(U)).real)
    outside = (weights(reference) == 0) & ~np.eye(len(U), dtype=bool)
    family[:, torch.tensor(outside)] = 0  # rounding

    def layer(params: Params, x: Tensor) -> Tensor:
        matrices = Phi(torch.einsum("kfgd,dij->kfgij", params["mu"], family.to(x.dtype)))
        w = start(matrices, None, x)
        return plus_bias(combine(w, steps(matrices, w), reference.zeroth), params)

    return layer


def invariant(**ingredients: Any) -> Callable[[Any], Layer]:
    return lambda reference: shift_invariant(reference, **ingredients)


def masked_products(reference: Any) -> Layer:
    return shift_invariant(reference, steps=products_masked(support_of(reference), True))


def support_of(reference: Any) -> Tensor:
    return torch.tensor((weights(reference) != 0) | np.eye(reference.graph.n_nodes, dtype=bool))


def products_masked(mask: Tensor, carried_on: bool) -> Any:
    """States (M * (Phi^(k) ... Phi^(1))) w with the mask M of the support in the wrong place."""

    def steps(Phi: Tensor, w: Tensor) -> list[Tensor]:
        states, product = [], torch.eye(Phi.shape[-1], dtype=Phi.dtype)
        for Phi_k in Phi:
            product = Phi_k @ product
            masked = product * mask
            states.append(applied(masked, w))
            product = masked if carried_on else product
        return states

    return steps


def invariant_times_S(reference: Any) -> Layer:
    S = weights(reference)
    np.fill_diagonal(S, 1)
    matrix = torch.tensor(S)
    return shift_invariant(reference, Phi=lambda Phi: Phi * matrix.to(Phi.dtype))


_NAME = "shift_invariant_edge_variant"
_DIRECTED = typical(_NAME, order=3)
_IDENTITY = typical(_NAME, order=3, zeroth="identity")
BROKEN.add("taps", _NAME, "no k = K", _DIRECTED, invariant(steps=one_less))
BROKEN.add("taps", _NAME, "only w^(K)", _DIRECTED, invariant(combine=last_alone))
BROKEN.add("zeroth-term", _NAME, "x added", _DIRECTED, invariant(combine=lambda w, s, z: combined(w, s, "identity")))
BROKEN.add("zeroth-term", _NAME, "no k = 0", _IDENTITY, invariant(combine=lambda w, s, z: combined(w, s, "none")))
BROKEN.add("zeroth-term", _NAME, "k = 0 twice", _IDENTITY, invariant(combine=lambda w, s, z: combined(2 * w, s, z)))
BROKEN.add("product-order", _NAME, "steps K, ..., 1", _DIRECTED, invariant(steps=newest_first))
BROKEN.add("product-order", _NAME, "sum of Phi^(k) x", _DIRECTED, invariant(steps=not_accumulated))
for _factor in (0, 2):
    BROKEN.add("self-loops", _NAME, f"{_factor} Phi_ii", _DIRECTED, invariant(Phi=own_entries_times(_factor)))
BROKEN.add("outside-support", _NAME, "products masked and carried on", _DIRECTED, masked_products)
BROKEN.add("shift-weights", _NAME, "phi_ij S_ij", _DIRECTED, invariant_times_S)


# ---- parallel --------------------------------------------------------------------------------------------------------
_NAME = "parallel_edge_variant"
for _zeroth in ("identity", "diagonal"):
    _reference = typical(_NAME, zeroth=_zeroth)
    BROKEN.add(
        "zeroth-term", _NAME, f"no k = 0, {_zeroth}", _reference, made(combine=lambda w, s, z: combined(w, s, "none"))
    )
for _factor in (0, 2):
    BROKEN.add("self-loops", _NAME, f"{_factor} Phi_ii", typical(_NAME), made(Phi=own_entries_times(_factor)))
BROKEN.add("shift-weights", _NAME, "phi_ij S_ij", typical(_NAME), times_S)
for _carried_on, _words in ((True, "products masked and carried on"), (False, "terms masked")):
    BROKEN.add(
        "outside-support",
        _NAME,
        _words,
        typical(_NAME),
        lambda r, on=_carried_on: right(r, steps=products_masked(support_of(r), on)),
    )


def parallel_never_masked(reference: Any) -> Layer:
    layer = never_masked(reference)
    return lambda params, x: layer(params, torch.cat([x] * reference.terms, dim=1))


BROKEN.add("outside-support", _NAME, "dense Phi never masked", typical(_NAME), parallel_never_masked, parameters=DENSE)


# ---- hybrids: the entries that are chosen ----------------------------------------------------------------------------
def chosen(reference: Any) -> Tensor:
    mask = torch.zeros(reference.graph.n_nodes, reference.graph.n_nodes, dtype=torch.bool)
    mask[_mask(reference)] = True
    return mask


def hybrid_never_masked(reference: Any) -> Layer:
    shift = dense_shift(weights(reference))

    def layer(params: Params, x: Tensor) -> Tensor:
        y = polynomial(shift, params["poly"], x)
        w = start(params["Phi"], None, x)
        if "phi0" in params:
            phi0 = x.new_zeros(*params["phi0"].shape[:2], x.shape[-1])
            phi0[..., torch.tensor(reference.nodes)] = params["phi0"]
            y = y + (phi0 * w).sum(2)
            w = w if reference.reading == "text" else phi0 * w
        for state in recursion(params["Phi"], w):
            y = y + state.sum(2)
        return plus_bias(y, params)

    return layer


for _name in HYBRIDS:
    for _factor in (0, 2):
        BROKEN.add("self-loops", _name, f"{_factor} Phi_ii", typical(_name), made(Phi=own_entries_times(_factor)))
    BROKEN.add("shift-weights", _name, "phi_ij S_ij", typical(_name), times_S)
    for _carried_on, _words in ((True, "products masked and carried on"), (False, "terms masked")):
        BROKEN.add(
            "outside-support",
            _name,
            _words,
            typical(_name, order=3),
            lambda r, on=_carried_on: right(r, steps=products_masked(chosen(r), on)),
        )
BROKEN.add(
    "outside-support",
    "critical_edge",
    "dense Phi never masked",
    typical("critical_edge"),
    hybrid_never_masked,
    parameters={**DENSE, "poly": "poly"},
)
for _reading in ("text", "equation"):
    BROKEN.add(
        "outside-support",
        "hybrid_edge_variant",
        f"dense Phi never masked, {_reading}",
        typical("hybrid_edge_variant", reading=_reading),
        hybrid_never_masked,
        parameters={**DENSE, "poly": "poly", "phi0": "phi0"},
    )


def of_another_reading(chained: bool, rows_alone: bool = False) -> Callable[[Any], Layer]:
    """The hybrid by dense matrices; `chained`: the products start at Phi^(0); `rows_alone`: entries in rows of B."""

    def build(reference: Any) -> Layer:
        shift, (rows, columns) = dense_shift(weights(reference)), _mask(reference)
        used = torch.tensor(np.isin(rows, reference.nodes) | (not rows_alone))

        def layer(params: Params, x: Tensor) -> Tensor:
            phi0 = x.new_zeros(*params["phi0"].shape[:2], x.shape[-1])
            phi0[..., torch.tensor(reference.nodes)] = params["phi0"]
            w = start(params["phi"], None, x)
            own = phi0 * w
            Phi = dense_phi(params["phi"] * used, rows, columns, x.shape[-1])
            y = polynomial(shift, params["poly"], x) + own.sum(2)
            for state in recursion(Phi, own if chained else w):
                y = y + state.sum(2)
            return plus_bias(y, params)

        return layer

    return build


for _order in (1, 2, 3):
    for _words, _config, _build in (
        ("eq. (HEV, 18) as printed", {}, of_another_reading(True)),
        ("eq. (HEV, 18) as printed, all nodes", {"nodes": None}, of_another_reading(True)),
        ("the text for the equation", {"reading": "equation"}, of_another_reading(False)),
        ("the equation for the authors' program", {"reading": "authors_code"}, of_another_reading(True, True)),
        ("the text for the authors' program", {"reading": "authors_code"}, of_another_reading(False, True)),
    ):
        BROKEN.add(
            "zeroth-term",
            "hybrid_edge_variant",
            f"{_words}, order {_order}",
            typical("hybrid_edge_variant", **{"order": _order, "bias": _order == 2, **_config}),
            _build,
        )


# ---- node-variant: whose coefficients a node copies ------------------------------------------------------------------
def nearest(S: np.ndarray, nodes: Any) -> np.ndarray:
    """(N, |B|): 1 at the first of the nearest privileged nodes, by hops from it along S[target, source]."""
    hops = np.where((S != 0) & ~np.eye(len(S), dtype=bool), 1.0, np.inf)
    np.fill_diagonal(hops, 0)
    for m in range(len(S)):
        hops = np.minimum(hops, hops[:, m : m + 1] + hops[m])
    copies = np.zeros((len(S), len(nodes)))
    copies[np.arange(len(S)), hops[:, nodes].argmin(axis=1)] = 1
    return copies


def copies_along_rows(reference: Any) -> Layer:
    """A node copies a privileged node that it reaches, instead of one that reaches it."""
    S = weights(reference)
    shift, own = dense_shift(S), torch.tensor(nearest(S.T, list(reference.nodes)))

    def layer(params: Params, x: Tensor) -> Tensor:
        coefficients = params["phi"] @ own.to(x.dtype).T
        w, y = x, 0
        for c in coefficients:
            y = y + torch.einsum("fgn,bgn->bfn", c, w)
            w = shift(w)
        return plus_bias(y, params)

    return layer


BROKEN.add("copied-nodes", "node_variant", "along rows of S", typical("node_variant"), copies_along_rows)
BROKEN.add(
    "copied-nodes",
    "node_variant",
    "along rows of S, two nodes",
    typical("node_variant", nodes=[0, 3]),
    copies_along_rows,
)
