"""A filter of the catalogue as a sum of the few kinds of which mistakes are told: polynomials, recursions, and so on.

A GCN is a polynomial whose only coefficient is that of S; a hybrid is a polynomial and a recursion; the shift-invariant
filter is a recursion with phi = Q mu. A mistake is then written once, for the kind, and serves every filter that holds
one. What leads from the filter's parameters to those of the kind is linear, so that gradients go back by its adjoint.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...contract import Module
from ...filters import (
    DCNN,
    GCN,
    EdgeVariant,
    NodeVariant,
    ParallelEdgeVariant,
    Polynomial,
    SelectionGCNN,
    ShiftInvariantEdgeVariant,
)
from ...filters.base import Filter
from ...filters.hybrid import PolynomialAndEdges
from ...graph import Graph
from .models import Array, Arrays, Linear, Mapped, Model, Sum, WithBias, entrywise


class OneHop(Polynomial):
    """Theta S x as a polynomial of order 1 whose phi_0 is zero: it has no sum over k."""


class SideBySide(Polynomial):
    """A polynomial whose powers go to different output features: what it adds up over k and g is one number."""


class Commuting(EdgeVariant):
    """A recursion whose steps are polynomials of one S: a product of them is the same in every order."""


class Term(NamedTuple):
    """`core` between linear maps: one summand of a filter without its bias."""

    core: Filter
    params: Linear | None = None  # from the filter's parameters to the core's
    x: Linear | None = None
    y: Linear | None = None
    label: str = ""  # which part of the filter, where there are several

    def with_core(self, model: Model) -> Model:
        """The same summand with another model in the place of the core."""
        return Mapped(model, self.params, self.x, self.y)


def axes_of(filt: Filter) -> dict[str, str]:
    """Letters for the axes of the parameters that `filt` has, where they have a meaning."""
    shapes = filt.parameter_shapes()
    return {name: letters for name, letters in filt.axes.items() if name in shapes}


def plain(filt: Filter, **changes: Any) -> Filter:
    """The same filter without a bias, or with other arguments."""
    return type(filt)(filt.graph, **{**filt.config(), "bias": False, **changes})


def without_bias(filt: Filter) -> Filter:
    return plain(filt) if filt.bias else filt


def with_bias_of(filt: Filter, model: Model, factor: float = 1.0) -> Model:
    """`model`, which has none, with the bias of `filt` if there is one."""
    return WithBias(model, factor) if filt.bias else model


def terms_of(filt: Filter) -> list[Term]:
    """The summands of `filt` without its bias."""
    graph, F, G = filt.graph, filt.out_features, filt.in_features
    if isinstance(filt, GCN):
        into = Linear(
            lambda p: {"phi": np.stack([np.zeros_like(p["theta"]), p["theta"]])}, lambda g: {"theta": g["phi"][1]}
        )
        return [Term(OneHop(graph, 1, G, F), into)]
    if isinstance(filt, DCNN):
        return [Term(SideBySide(graph, filt.order, G, F), _monomials(filt))]
    if isinstance(filt, SelectionGCNN):
        masks = [filt._mask(nodes, np.dtype(np.float64)) for nodes in (filt.nodes_in, filt.nodes_out)]
        keep = [entrywise(mask) for mask in masks]
        return [Term(Polynomial(graph, filt.order, G, F), None, keep[0], keep[1])]
    if isinstance(filt, Polynomial):
        return [Term(Polynomial(graph, filt.order, G, F))]
    if isinstance(filt, ParallelEdgeVariant):
        P = filt.terms
        copies = Linear(
            lambda x: np.concatenate([x] * P, axis=1),
            lambda x: x.reshape(len(x), P, -1, x.shape[2]).sum(axis=1),
        )
        return [Term(EdgeVariant(graph, filt.order, P * G, F, zeroth=filt.zeroth), None, copies)]
    if isinstance(filt, ShiftInvariantEdgeVariant):
        Q = filt.basis.support_values
        into = Linear(lambda p: {"phi": p["mu"] @ Q.T}, lambda g: {"mu": g["phi"] @ Q})
        return [Term(Commuting(graph, filt.order, G, F, zeroth=filt.zeroth), into)]
    if isinstance(filt, PolynomialAndEdges):
        return _of_hybrid(filt)
    return [Term(without_bias(filt))]


def _monomials(filt: DCNN) -> Linear:
    hops, features = np.indices((filt.order + 1, filt.in_features))
    place = (hops, hops * filt.in_features + features, features)

    def into(params: Arrays) -> Arrays:
        phi = np.zeros((filt.order + 1, filt.out_features, filt.in_features), params["weight"].dtype)
        phi[place] = params["weight"]
        return {"phi": phi}

    return Linear(into, lambda grads: {"weight": grads["phi"][place]})


def _of_hybrid(filt: PolynomialAndEdges) -> list[Term]:
    """The polynomial, the recursion on the entries chosen, and the diagonal where it is a term of its own."""
    graph, K, F, G = filt.graph, filt.order, filt.out_features, filt.in_features
    names = filt._shapes()

    def others(grads: Arrays) -> Arrays:
        return {name: grads[name] if name in grads else np.zeros(shape) for name, shape in names.items()}

    polynomial = Linear(lambda p: {"phi": p["poly"]}, lambda g: others({"poly": g["phi"]}))
    terms = [Term(Polynomial(graph, K, G, F), polynomial, label="the polynomial part")]
    nodes = filt._diagonal_nodes
    if filt._part is not None:
        part, places = _with_weights_of(graph, filt._part), filt._places

        def back(grads: Arrays) -> Arrays:
            own = {"phi": grads["phi"][..., places]}
            if filt._chained:
                own["phi0"] = grads["phi0"][..., nodes]
            return others(own)

        terms.append(Term(part, Linear(lambda p: filt._on_the_part(p, part), back), label="the edge-variant part"))
    if nodes is not None and not filt._chained:
        diagonal = EdgeVariant(graph, 0, G, F, zeroth="diagonal")
        empty = np.zeros((0, F, G, graph.nnz))
        into = Linear(
            lambda p: {"phi": empty.astype(p["phi0"].dtype), "phi0": filt._diagonal(p)},
            lambda g: others({"phi0": g["phi0"][..., nodes]}),
        )
        terms.append(Term(diagonal, into, label="the diagonal"))
    return terms


def _with_weights_of(graph: Graph, part: EdgeVariant) -> EdgeVariant:
    """The recursion on the chosen entries, which carry the weights that S has there."""
    S = graph.S.tocsr()[part.graph.rows, part.graph.indices]
    own = part.graph.rows == part.graph.indices
    W = sparse.csr_array((np.asarray(S).ravel(), (part.graph.rows, part.graph.indices)), shape=graph.S.shape)
    return EdgeVariant(Graph(W), **part.config()) if (np.asarray(S).ravel()[~own] != 0).all() else part


def put_together(terms: list[Term], models: list[Model]) -> Model:
    """The sum of the terms with these models in the place of their cores."""
    wrapped: list[tuple[float, Model]] = [
        (1.0, term.with_core(model)) for term, model in zip(terms, models, strict=True)
    ]
    return wrapped[0][1] if len(wrapped) == 1 else Sum(wrapped)


def fixed_groups(filt: NodeVariant) -> Array:
    """C_B of a node-variant filter as a matrix, so that another graph does not change whom a node copies."""
    if filt.mapping is not None:
        return filt.mapping
    C = np.zeros((filt.graph.n_nodes, filt.nodes.size), np.int64)
    C[np.arange(filt.graph.n_nodes), filt._copied] = 1
    return C


def layers_of(module: Module) -> list[Module]:
    """The layers of a network; of any other module itself."""
    layers = getattr(module, "layers", None)
    return list(layers) if layers is not None else [module]
