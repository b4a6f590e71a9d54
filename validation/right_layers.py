"""Right layers in PyTorch, as people write them: what `evref.compare` must be silent about.

    layer = right(filt, "edges")       # layer(params, x) -> y, differentiable by autograd
    layer = right(filt, S=filt.graph.S.T.toarray())

`right` takes a filter of the catalogue (or a network of filters and layers), reads its settings and its graph, and
returns a layer on the same parameters, by the same names. Styles: "dense" multiplies by N x N matrices, "edges" gathers
and adds along an edge list, others are named in `STYLES`.

A layer is put together from ingredients (the shift, its states, the mix of features, ...). Each can be replaced by
another one by name: a broken layer is then the right one with one ingredient wrong, as real mistakes are. The broken
ones are in `broken_layers.py`. Nothing of evref's mathematics is used.

    x, y   (batch, features, nodes)
    S      (nodes, nodes), S[i, j] weighs the edge j -> i
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import peers
import peers_privileged
import torch

Tensor = torch.Tensor
Array = np.ndarray
Params = Mapping[str, Tensor]
Layer = Callable[[Params, Tensor], Tensor]
Shift = Callable[[Tensor], Tensor]  # x -> S x

STYLES: dict[str, tuple[str, ...]] = {
    "polynomial": ("dense", "edges", "matrix"),
    "tagcn": ("dense", "edges", "matrix"),
    "chebyshev": ("dense", "edges", "matrix"),
    "gcn": ("dense", "edges"),
    "dcnn": ("dense", "edges"),
    "selection_gcnn": ("dense", "edges", "matrix"),
    "node_variant": ("dense", "edges"),
    "edge_variant": ("dense", "edges"),
    "parallel_edge_variant": ("dense", "edges"),
    "hybrid_edge_variant": ("dense", "edges"),
    "critical_edge": ("dense", "edges"),
    "arma": ("dense", "edges"),
    "cayley": ("dense", "inverse"),
    "ecc": ("edges", "dense"),
    "monet": ("edges", "dense"),
    "attention": ("edges", "dense"),
    "spectral": ("fourier", "matrix"),
    "shift_invariant_edge_variant": ("fourier", "dense"),
}


def right(reference: Any, style: str | None = None, **ingredients: Any) -> Layer:
    """The layer that computes what `reference` does, in a style of `STYLES` (the first unless told)."""
    import right_generated
    import right_rational
    import right_spectral

    if reference.name == "network":
        return _network([right(layer, style) for layer in reference.layers])
    if reference.name in ACTIVATIONS:
        return lambda params, x: ACTIVATIONS[reference.name](x)
    if reference.name in LAYERS:
        return LAYERS[reference.name](reference)
    builders = {
        **BUILDERS,
        **right_generated.BUILDERS,
        **right_rational.BUILDERS,
        **right_spectral.BUILDERS,
    }
    return builders[reference.name](reference, style or STYLES[reference.name][0], **ingredients)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}


def _leaky(reference: Any) -> Layer:
    return lambda params, x: torch.nn.functional.leaky_relu(x, reference.slope)


def _readout(reference: Any) -> Layer:
    return lambda params, x: torch.nn.functional.linear(x.flatten(1), params["weight"], params.get("bias"))


def _neighbourhoods(reference: Any) -> Layer:
    """Maxima or medians over all nodes within 1, 2, ... hops, the node itself among them."""
    hears = (weights(reference) != 0) | np.eye(reference.graph.n_nodes, dtype=bool)
    within = [np.linalg.matrix_power(hears.astype(int), k) > 0 for k in range(1, reference.hops + 1)]
    lists = [[np.flatnonzero(row).tolist() for row in mask] for mask in within]
    kind = reference.name.removesuffix("_activation")
    return lambda params, x: peers.torch_neighborhood(lists, params["weight"], x, kind)


LAYERS: dict[str, Callable[[Any], Layer]] = {
    "leaky_relu": _leaky,
    "dense": _readout,
    "max_activation": _neighbourhoods,
    "median_activation": _neighbourhoods,
}


def _network(layers: Sequence[Layer]) -> Layer:
    """One after the other; parameter p of layer i is called "i.p"."""

    def chain(params: Params, x: Tensor) -> Tensor:
        for i, layer in enumerate(layers):
            start = f"{i}."
            x = layer({name.removeprefix(start): p for name, p in params.items() if name.startswith(start)}, x)
        return x

    return chain


# ---- the graph -------------------------------------------------------------------------------------------------------
def weights(reference: Any) -> Array:
    """S as a dense matrix."""
    return reference.graph.S.toarray().astype(np.float64)


def support(S: Array, self_loops: bool = True) -> tuple[Array, Array]:
    """Target and source of every entry of I + S, row by row; without the entries (i, i) if asked."""
    target, source = np.nonzero(S)
    target, source = peers.support(len(S), source, target)
    kept = np.ones(len(target), bool) if self_loops else target != source
    return target[kept], source[kept]


def dense_shift(S: Array) -> Shift:
    matrix = torch.tensor(S, dtype=torch.float64)
    return lambda x: x @ matrix.to(x.dtype).T


def edge_shift(S: Array) -> Shift:
    """Messages along the edges, weighed on the way, added at their target."""
    edges = np.nonzero(S)
    target, source = (torch.as_tensor(ends) for ends in edges)
    weight = torch.tensor(S[edges], dtype=torch.float64)

    def shift(x: Tensor) -> Tensor:
        return torch.zeros_like(x).index_add(-1, target, weight.to(x.dtype) * x[..., source])

    return shift


def _shift(reference: Any, style: str, S: Array | None) -> Shift:
    S = weights(reference) if S is None else np.asarray(S)
    return edge_shift(S) if style == "edges" else dense_shift(S)


# ---- polynomials: states of the shift, then a mix of features ------------------------------------------------------
def powers(shift: Shift, x: Tensor, order: int) -> list[Tensor]:
    """x, S x, ..., S^K x."""
    states = [x]
    for _ in range(order):
        states.append(shift(states[-1]))
    return states


def chebyshev_states(shift: Shift, x: Tensor, order: int) -> list[Tensor]:
    """T_k(S) x for k = 0..K."""
    states = [x, shift(x)][: order + 1]
    for _ in range(2, order + 1):
        states.append(2 * shift(states[-1]) - states[-2])
    return states


def mixed(phi: Tensor, states: Sequence[Tensor]) -> Tensor:
    """y_f = sum_k sum_g phi[k, f, g] w_g^(k)."""
    return sum(torch.einsum("fg,bgn->bfn", p, w) for p, w in zip(phi, states, strict=True))


def polynomial(shift: Shift, phi: Tensor, x: Tensor, states: Any = powers, mix: Any = mixed) -> Tensor:
    return mix(phi, states(shift, x, len(phi) - 1))


def polynomial_matrix(shift: Shift, phi: Tensor, x: Tensor, states: Any = powers) -> Tensor:
    """H_fg = sum_k phi[k, f, g] S^k first, then H x; row j of a shifted identity is column j of the matrix."""
    columns = torch.stack(states(shift, torch.eye(x.shape[-1], dtype=x.dtype), len(phi) - 1))
    return torch.einsum("fgij,bgj->bfi", torch.einsum("kfg,kji->fgij", phi, columns), x)


def plus_bias(y: Tensor, params: Params) -> Tensor:
    return y + params["bias"][:, None] if "bias" in params else y


def _polynomial(reference: Any, style: str, S: Any = None, states: Any = None, mix: Any = mixed, bias: Any = plus_bias):
    shift = _shift(reference, style, S)
    own = reference.name == "chebyshev"
    key, states = ("theta" if own else "phi"), states or (chebyshev_states if own else powers)

    def layer(params: Params, x: Tensor) -> Tensor:
        if style == "matrix":
            y = polynomial_matrix(shift, params[key], x, states)
        else:
            y = polynomial(shift, params[key], x, states, mix)
        return bias(y, params)

    return layer


def _gcn(reference: Any, style: str, S: Any = None, bias: Any = plus_bias) -> Layer:
    shift = _shift(reference, style, S)
    return lambda params, x: bias(torch.nn.functional.linear(shift(x).mT, params["theta"]).mT, params)


def _dcnn(reference: Any, style: str, S: Any = None, states: Any = powers, bias: Any = plus_bias) -> Layer:
    """One weight per hop and feature, the outputs of all hops side by side."""
    shift = _shift(reference, style, S)

    def layer(params: Params, x: Tensor) -> Tensor:
        hops = states(shift, x, reference.order)
        y = torch.cat([w[:, None] * z for w, z in zip(params["weight"], hops, strict=True)], dim=1)
        return bias(y, params)

    return layer


def _selection(reference: Any, style: str, bias: Any = plus_bias, **ingredients: Any) -> Layer:
    inside, kept = (torch.zeros(reference.graph.n_nodes) for _ in range(2))
    inside[torch.tensor(reference.nodes_in)] = 1
    kept[torch.tensor(reference.nodes_out)] = 1
    filt = _polynomial(reference, style, **ingredients, bias=lambda y, params: y)
    return lambda params, x: bias(filt(params, x * inside.to(x.dtype)) * kept.to(x.dtype), params)


def node_mixed(coefficients: Tensor, states: Sequence[Tensor]) -> Tensor:
    """y_f = sum_k sum_g diag(c[k, f, g]) w_g^(k), coefficients (K + 1, F, G, N)."""
    return sum(torch.einsum("fgn,bgn->bfn", c, w) for c, w in zip(coefficients, states, strict=True))


def _node_variant(
    reference: Any, style: str, S: Any = None, states: Any = powers, mix: Any = node_mixed, bias: Any = plus_bias
) -> Layer:
    shift = _shift(reference, style, S)
    copies = torch.tensor(peers_privileged._copies(reference))

    def layer(params: Params, x: Tensor) -> Tensor:
        coefficients = params["phi"] @ copies.to(x.dtype).T
        return bias(mix(coefficients, states(shift, x, reference.order)), params)

    return layer


# ---- edge-variant recursions ---------------------------------------------------------------------------------------
def dense_phi(phi: Tensor, target: Array, source: Array, n_nodes: int) -> Tensor:
    """Phi (K, F, G, N, N) with phi (K, F, G, nnz) at (target, source)."""
    Phi = phi.new_zeros(*phi.shape[:-1], n_nodes, n_nodes)
    Phi[..., torch.as_tensor(target), torch.as_tensor(source)] = phi
    return Phi


def recursion(Phi: Tensor, w: Tensor) -> list[Tensor]:
    """The states w^(k) = Phi^(k) w^(k-1), k = 1..K, each (batch, F, G, N)."""
    states = []
    for Phi_k in Phi:
        w = torch.einsum("fgij,bfgj->bfgi", Phi_k, w)
        states.append(w)
    return states


def edge_recursion(phi: Tensor, target: Array, source: Array, w: Tensor) -> list[Tensor]:
    """The same with phi (K, F, G, nnz): gather at the source, weigh, add at the target."""
    heard, at = torch.as_tensor(source), torch.as_tensor(target)
    states = []
    for phi_k in phi:
        w = torch.zeros_like(w).index_add(-1, at, phi_k * w[..., heard])
        states.append(w)
    return states


def combined(w0: Tensor, states: Sequence[Tensor], zeroth: str) -> Tensor:
    """Sum over k from k_0 and over input features."""
    terms = list(states) if zeroth == "none" else [w0, *states]
    return sum(terms).sum(2)


def start(phi: Tensor, phi0: Tensor | None, x: Tensor) -> Tensor:
    """w^(0) = Phi^(0) x, for every output feature: (batch, F, G, N)."""
    w = x[:, None].expand(-1, phi.shape[1], -1, -1)
    return w if phi0 is None else phi0 * w


def edge_variant(
    Phi: Tensor, phi0: Tensor | None, zeroth: str, x: Tensor, steps: Any = recursion, combine: Any = combined
) -> Tensor:
    """y_f = sum_g sum_k Phi^(k) ... Phi^(0) x_g."""
    w = start(Phi, phi0, x)
    return combine(w, steps(Phi, w), zeroth)


def edge_list_edge_variant(
    phi: Tensor, target: Array, source: Array, phi0: Tensor | None, zeroth: str, x: Tensor, combine: Any = combined
) -> Tensor:
    w = start(phi, phi0, x)
    return combine(w, edge_recursion(phi, target, source, w), zeroth)


def _same(value: Any) -> Any:
    return value


def _edge_variant(
    reference: Any,
    style: str,
    Phi: Any = _same,
    steps: Any = recursion,
    combine: Any = combined,
    bias: Any = plus_bias,
) -> Layer:
    """`Phi` changes the dense matrices (K, F, G, N, N) before they are used."""
    target, source = support(weights(reference), getattr(reference, "self_loops", True))
    copies = getattr(reference, "terms", 1)

    def layer(params: Params, x: Tensor) -> Tensor:
        x = torch.cat([x] * copies, dim=1)
        phi, phi0 = params["phi"], params.get("phi0")
        if style == "edges":
            y = edge_list_edge_variant(phi, target, source, phi0, reference.zeroth, x, combine)
        else:
            y = edge_variant(
                Phi(dense_phi(phi, target, source, x.shape[-1])), phi0, reference.zeroth, x, steps, combine
            )
        return bias(y, params)

    return layer


def _hybrid(
    reference: Any,
    style: str,
    S: Any = None,
    states: Any = powers,
    poly: Any = _same,
    Phi: Any = _same,
    steps: Any = recursion,
    bias: Any = plus_bias,
) -> Layer:
    """A polynomial beside a recursion on chosen entries; `poly` changes the polynomial's coefficients."""
    shift = _shift(reference, style, S)
    target, source = peers_privileged._mask(reference)
    reading = getattr(reference, "reading", None)

    def layer(params: Params, x: Tensor) -> Tensor:
        y = polynomial(shift, poly(params["poly"]), x, states)
        w = start(params["phi"], None, x)
        if reading is not None:
            phi0 = x.new_zeros(*params["phi0"].shape[:2], x.shape[-1])
            phi0[..., torch.tensor(reference.nodes)] = params["phi0"]
            own = phi0 * w
            y = y + own.sum(2)
            w = w if reading == "text" else own
        if style == "edges":
            found = edge_recursion(params["phi"], target, source, w)
        else:
            found = steps(Phi(dense_phi(params["phi"], target, source, x.shape[-1])), w)
        for state in found:
            y = y + state.sum(2)
        return bias(y, params)

    return layer


BUILDERS: dict[str, Callable[..., Layer]] = {
    "polynomial": _polynomial,
    "tagcn": _polynomial,
    "chebyshev": _polynomial,
    "gcn": _gcn,
    "dcnn": _dcnn,
    "selection_gcnn": _selection,
    "node_variant": _node_variant,
    "edge_variant": _edge_variant,
    "parallel_edge_variant": _edge_variant,
    "hybrid_edge_variant": _hybrid,
    "critical_edge": _hybrid,
}
