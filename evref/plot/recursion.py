"""The states of an edge-variant recursion, forwards and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks
from ..filters import EdgeVariant
from ..graph import Graph
from .graphs import graph as draw_graph
from .graphs import layout
from .style import (
    EDGE_MAP,
    NODE_MAP,
    bar,
    outer,
    places,
    pyplot,
    scale,
)

if TYPE_CHECKING:
    pass


def states(
    filter: EdgeVariant,
    params: Mapping[str, Any],
    x: Any,
    axes: Any = None,
    *,
    positions: Any = None,
    feature: tuple[int, int] = (0, 0),
    limit: float | None = None,
    edge_limit: float | None = None,
    node_size: float | None = None,
    arrows: bool | None = None,
    active: bool = False,
    colorbar: bool = True,
) -> np.ndarray:
    """The recursion of one edge-variant filter on one signal, panel by panel: x, w⁽¹⁾, ..., w⁽ᴷ⁾, y.

    The panel of w⁽ᵏ⁾ has Φ⁽ᵏ⁾ on its edges; all panels share their colour scales. With ``zeroth="diagonal"`` there is
    a panel for w⁽⁰⁾ too. y is the sum that this filter H_fg contributes, without the bias.

    Parameters
    ----------
    filter : EdgeVariant
    params : dict of arrays
    x : array_like, shape (nodes,), (in_features, nodes) or (1, in_features, nodes)
        One sample.
    axes : sequence of matplotlib Axes, optional
        One per panel.
    positions, limit, edge_limit, node_size, arrows
        As in :func:`graph`.
    feature : (int, int)
        f and g: which filter of the bank.
    active : bool
        Show only the parameters that had something to carry, those at whose other end the signal before was not zero.
    colorbar : bool
        Add the two scales.

    Returns
    -------
    ndarray of Axes
    """
    one = _Single(filter, params, feature)
    active = checks.as_flag("active", active)
    w = one.sample("x", x, filter.in_features, one.g)
    panels: list[tuple[str, np.ndarray, np.ndarray | None]] = [("$x$", w, None)]
    terms = []
    if one.phi0 is not None:
        w = one.phi0 * w
        terms.append(w)
        if filter.zeroth == "diagonal":
            panels.append(("$w^{(0)} = \\Phi^{(0)} x$", w, None))
    for k, phi in enumerate(one.phi, start=1):
        shown = np.where(w[filter.graph.indices] == 0, 0, phi) if active else phi
        w = filter.graph.to_csr(phi) @ w
        terms.append(w)
        before = "x" if k == 1 and filter.zeroth != "diagonal" else f"w^{{({k - 1})}}"
        panels.append((f"$w^{{({k})}} = \\Phi^{{({k})}} {before}$", w, shown))
    names = [f"w^{{({k})}}" for k in range(filter.order - len(terms) + 1, filter.order + 1)]
    names = [names[0], "\\cdots", names[-1]] if len(names) > 3 else names
    panels.append((f"$y = {' + '.join(names)}$", np.sum(terms, axis=0), None))
    return _panels(filter.graph, panels, axes, positions, limit, edge_limit, node_size, arrows, colorbar)


def cotangents(
    filter: EdgeVariant,
    params: Mapping[str, Any],
    grad_y: Any,
    axes: Any = None,
    *,
    positions: Any = None,
    feature: tuple[int, int] = (0, 0),
    limit: float | None = None,
    edge_limit: float | None = None,
    node_size: float | None = None,
    arrows: bool | None = None,
    active: bool = False,
    colorbar: bool = True,
) -> np.ndarray:
    """The adjoint recursion of one edge-variant filter, panel by panel: w̄⁽ᴷ⁾ = ȳ, ..., w̄⁽¹⁾, ∂L/∂x.

    The panel of w̄⁽ᵏ⁾ has Φ⁽ᵏ⁺¹⁾ᵀ on its edges: they are turned round, so that the half at node j now shows φ_ij.

    Parameters
    ----------
    grad_y : array_like, shape (nodes,), (out_features, nodes) or (1, out_features, nodes)
        ȳ, the cotangent of one output sample.
    filter, params, axes, positions, feature, limit, edge_limit, node_size, arrows, active, colorbar
        As in :func:`states`.

    Returns
    -------
    ndarray of Axes
    """
    one = _Single(filter, params, feature)
    active = checks.as_flag("active", active)
    v = one.sample("grad_y", grad_y, filter.out_features, one.f)
    K = filter.order
    lam, seeded = v, one.phi0 is not None
    turned = filter.graph.transposed()
    panels: list[tuple[str, np.ndarray, np.ndarray | None]] = [(f"${_cotangent(K)} = \\bar y$", v, None)]
    for k in range(K - 1, -1, -1):
        seed = k > 0 or seeded
        phi = one.phi[k]
        shown = phi[filter.graph.transpose]  # in column order, that is, on the support of the turned graph
        if active:
            shown = np.where(lam[turned.indices] == 0, 0, shown)
        lam = filter.graph.to_csr(phi).T @ lam + (v if seed else 0)
        name = _cotangent(k) if k > 0 or filter.zeroth == "diagonal" else "\\partial L/\\partial x"
        begin = "\\bar y + " if seed else ""
        text = f"${name} = {begin}\\Phi^{{({k + 1})\\top}} {_cotangent(k + 1)}$"
        panels.append((text, lam, shown))
    if filter.zeroth == "diagonal":
        panels.append((f"$\\partial L/\\partial x = \\Phi^{{(0)}} {_cotangent(0)}$", one.phi0 * lam, None))
    return _panels(turned, panels, axes, positions, limit, edge_limit, node_size, arrows, colorbar)


def _cotangent(k: int) -> str:
    """∂L/∂w⁽ᵏ⁾ as docs/edge_variant.md writes it."""
    return f"\\bar w^{{({k})}}"


class _Single:
    """One filter H_fg of a bank, as arrays."""

    def __init__(self, filter: EdgeVariant, params: Mapping[str, Any], feature: tuple[int, int]) -> None:
        if not isinstance(filter, EdgeVariant):
            raise TypeError(f"filter is {type(filter).__name__}; expected an EdgeVariant (see to_edge_variant)")
        whole, arrays = filter.to_edge_variant(params)  # on the support of I + S, with or without self-loops
        try:
            f, g = feature
        except (TypeError, ValueError):
            raise TypeError(f"feature is {feature!r}; expected a pair (f, g)") from None
        f, g = checks.as_count("feature[0]", f), checks.as_count("feature[1]", g)
        if f >= filter.out_features or g >= filter.in_features:
            bank = f"{filter.out_features} x {filter.in_features}"
            raise ValueError(f"feature is {feature!r}; expected less than the bank's {bank}")
        phi0 = whole._phi0(arrays)
        self.filter, self.f, self.g = filter, f, g
        self.phi: np.ndarray = arrays["phi"][:, f, g]  # (K, nnz)
        self.phi0: Any = None if phi0 is None else phi0[f, g]  # (nodes,)

    def sample(self, name: str, value: Any, features: int, feature: int) -> np.ndarray:
        N = self.filter.graph.n_nodes
        array = checks.as_floating(name, self.filter._by_name(name, value, (features, N)))
        checks.require_finite(name, array)
        allowed = [(features, N), (1, features, N), *([(N,)] if features == 1 else [])]
        if array.shape not in allowed:
            shapes = " or ".join(map(str, allowed))
            raise ValueError(f"{name} has shape {array.shape}; expected one sample, {shapes}")
        return array.reshape(features, N)[feature]


def _panels(
    graph_: Graph,
    panels: list[tuple[str, np.ndarray, np.ndarray | None]],
    axes: Any,
    positions: Any,
    limit: float | None,
    edge_limit: float | None,
    node_size: float | None,
    arrows: bool | None,
    colorbar: bool,
) -> np.ndarray:
    plt = pyplot()
    place = layout(graph_) if positions is None else places(positions, graph_.n_nodes)
    if axes is None:
        size = (3.2 * len(panels) + 1.2, 3.4)
        axes = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)[1]
    flat = np.asarray(axes, dtype=object).ravel()
    if len(flat) != len(panels):
        raise ValueError(f"axes has {len(flat)} axes; expected {len(panels)}, one per panel")
    weights = [phi for _, _, phi in panels if phi is not None]
    node_map, node_norm = scale(plt, NODE_MAP, "limit", limit, np.array([signal for _, signal, _ in panels]))
    edge_map, edge_norm = scale(plt, EDGE_MAP, "edge_limit", edge_limit, np.array(weights) if weights else None)
    for ax, (title, signal, phi) in zip(flat, panels, strict=True):
        draw_graph(
            graph_,
            signal,
            place,
            phi,
            ax,
            limit=node_norm.vmax,
            edge_limit=edge_norm.vmax,
            node_size=node_size,
            arrows=None if phi is None else arrows,
            title=title,
        )
    if checks.as_flag("colorbar", colorbar):
        if weights:
            bar(list(flat), outer(edge_map), edge_norm, "parameter φ (edges, rings)")
        bar(list(flat), node_map, node_norm, "signal (nodes)")
    return flat
