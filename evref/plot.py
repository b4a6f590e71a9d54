"""Pictures of graphs, parameters, states and trainings.

Every function takes `ax` (or `axes`) and gives it back, draws nothing else, and makes a figure of its own only where
none was given. matplotlib is imported on the first call: ``pip install "evref[plot]"``.

Colours are centred on zero, so that white is nothing, and the two colour maps (blue-red for signals, purple-orange for
parameters) are safe for colour-blind readers. One picture of a filter shows its parameters on the edges:

- each edge is drawn in two halves, and the half that touches node i shows φ_ij, the weight with which i hears j;
- the ring around node i shows φ_ii;
- a thicker line is a larger |φ|.

In a directed graph an arrow j → i shows φ_ij.

>>> import evref as ev
>>> from evref import plot
>>> network = ev.generators.cycle(6)
>>> ax = plot.graph(network, values=[1, 0, 0, 0, 0, -1])            # doctest: +SKIP
>>> ax = plot.support(network)                                      # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import checks
from .filters import EdgeVariant
from .graph import Graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

__all__ = ["cotangents", "graph", "history", "layout", "states", "support"]

NODE_MAP = "RdBu_r"  # signals
EDGE_MAP = "PuOr_r"  # parameters
INK, PLAIN, FAINT = "#303030", "#8f8f8f", "#cfcfcf"  # nodes' outlines, edges without and behind parameters
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito
MAX_LAYOUT = 2000  # nodes: the layout works on a dense matrix of distances
MAX_IMAGE = 4000  # nodes: the support is shown as a dense image
WIDTHS = 0.6, 2.8  # points, thinnest and thickest edge


# ---- where the nodes are ---------------------------------------------------------------------------------------------
def layout(graph: Graph, iterations: int = 150) -> np.ndarray:
    """Positions for a drawing in which distance on paper follows distance on the graph.

    Stress majorisation (Gansner, Koren and North, 2004): with d_ij the number of hops between i and j, directions and
    weights left aside, it lowers the sum of (‖p_i - p_j‖ / d_ij - 1)² from a start that classical scaling gives. No
    random numbers are involved: the same graph gives the same drawing.

    Returns
    -------
    ndarray, shape (N, 2)
        Centred at zero, the larger extent 2.

    Raises
    ------
    ValueError
        For more than 2000 nodes; the drawing functions then want `positions`.

    Examples
    --------
    >>> import evref as ev
    >>> positions = layout(ev.generators.path(4))
    >>> bool(np.all(np.diff(positions[:, 0]) > 0) or np.all(np.diff(positions[:, 0]) < 0))
    True
    """
    from scipy.sparse.csgraph import shortest_path

    N = graph.n_nodes
    if N > MAX_LAYOUT:
        raise ValueError(f"positions is None and the graph has {N} nodes; expected positions above {MAX_LAYOUT} nodes")
    if N == 1:
        return np.zeros((1, 2))
    d = shortest_path(abs(graph.S), directed=False, unweighted=True)  # (N, N)
    finite = np.isfinite(d)
    d[~finite] = d[finite].max() + 1  # components side by side

    # Classical scaling; the circle keeps apart what it puts on one spot, such as the leaves of a star.
    centred = d**2 - (d**2).mean(axis=0)
    _, vectors = np.linalg.eigh(-(centred - centred.mean(axis=1, keepdims=True)))
    start = vectors[:, [-1, -2]] if N > 2 else np.array([[-1.0, 0.0], [1.0, 0.0]])
    start = start * np.sign(start[np.abs(start).argmax(axis=0), np.arange(2)] + 1e-300)
    angle = 2 * np.pi * np.arange(N) / N
    p = d.mean() * (start * np.sqrt(N) + 0.1 * np.stack([np.cos(angle), np.sin(angle)], axis=1))

    np.fill_diagonal(d, 1.0)
    weight = d**-2.0
    np.fill_diagonal(weight, 0.0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.inv(laplacian + 1 / N) - 1 / N  # of a Laplacian: the constants are its null space
    for _ in range(checks.as_count("iterations", iterations)):
        distance = np.hypot(*(p[:, None] - p[None]).T)  # (N, N)
        pull = weight * d / np.maximum(distance, 1e-9)
        p = inverse @ (pull.sum(axis=1)[:, None] * p - pull @ p)
    p -= p.mean(axis=0)
    p = p @ np.linalg.svd(p, full_matrices=False)[2].T  # the long side across the page
    p -= (p.max(axis=0) + p.min(axis=0)) / 2
    return p / max(np.abs(p).max(), 1e-9)


# ---- one graph -------------------------------------------------------------------------------------------------------
def graph(
    graph: Graph,
    values: Any = None,
    positions: Any = None,
    edge_values: Any = None,
    ax: Axes | None = None,
    *,
    limit: float | None = None,
    edge_limit: float | None = None,
    node_size: float | None = None,
    arrows: bool | None = None,
    labels: bool | Sequence[Any] = False,
    title: str | None = None,
    colorbar: bool = False,
) -> Axes:
    """Draw a graph, with a signal on its nodes and parameters on its edges.

    Parameters
    ----------
    graph : Graph
    values : array_like, shape (N,), optional
        A signal, as the colour of the nodes.
    positions : array_like, shape (N, 2), optional
        By default :func:`layout`.
    edge_values : array_like, shape (nnz,), optional
        Numbers on the support of I + S, such as ``params["phi"][k, f, g]``: colour and width of the edges, colour of
        the rings around the nodes. See the top of this module for how to read them.
    ax : matplotlib Axes, optional
    limit, edge_limit : float, optional
        The colour scales go from -limit to limit; by default the largest absolute value.
    node_size : float, optional
        Area of a node in points², as in matplotlib's scatter.
    arrows : bool, optional
        Draw an arrow j → i for each entry instead of two halves for each edge; by default in directed graphs only. An
        entry that is zero has a thin line and no arrow.
    labels : bool or sequence, optional
        Write the numbers of the nodes, or these texts, into the nodes.
    title : str, optional
    colorbar : bool
        Add a scale for what is coloured.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError, TypeError
        For arrays that do not fit the graph.
    """
    plt = _pyplot()
    from matplotlib.colors import to_rgba

    network = _checked_graph(graph)
    N = network.n_nodes
    signal = None if values is None else _vector("values", values, N, "one per node")
    weight = None if edge_values is None else _vector("edge_values", edge_values, network.nnz, "one per entry of I + S")
    place = layout(network) if positions is None else _places(positions, N)
    size = float(np.clip(5000 / N, 12, 320)) if node_size is None else checks.as_number("node_size", node_size, 0)
    if ax is None:
        ax = plt.subplots(figsize=(5, 4.2), layout="constrained")[1]

    edge_map, edge_norm = _scale(plt, EDGE_MAP, "edge_limit", edge_limit, weight)
    edge_map = _outer(edge_map)
    node_map, node_norm = _scale(plt, NODE_MAP, "limit", limit, signal)
    if checks.as_flag("arrows", not _mirrored(network) if arrows is None else arrows):
        _arrows(ax, network, place, weight, edge_map, edge_norm, size)
    else:
        _halves(ax, network, place, weight, edge_map, edge_norm)
    own = None if weight is None else weight[network.diagonal]
    style: dict[str, Any] = {"edgecolors": INK, "linewidths": 0.8}
    if own is not None:
        ring = np.where(own[:, None] == 0, to_rgba(INK), edge_map(edge_norm(own)))
        style = {"edgecolors": ring, "linewidths": np.maximum(0.8, _widths(own, edge_norm))}
    colors = "white" if signal is None else node_map(node_norm(signal))
    ax.scatter(place[:, 0], place[:, 1], s=size, c=colors, zorder=3, **style)
    if labels is not False:
        dark = np.zeros(N, bool) if signal is None else np.abs(np.asarray(node_norm(signal)) - 0.5) > 0.3
        for i, text in enumerate(_texts(labels, N)):
            color = "white" if dark[i] else INK
            ax.text(place[i, 0], place[i, 1], text, ha="center", va="center", fontsize=8, color=color, zorder=4)
    margin = 0.12 * max(1e-9, float(np.ptp(place, axis=0).max())) if N > 1 else 1.0
    ax.set(
        xlim=(place[:, 0].min() - margin, place[:, 0].max() + margin),
        ylim=(place[:, 1].min() - margin, place[:, 1].max() + margin),
        aspect="equal",
    )
    ax.set_axis_off()
    if title is not None:
        ax.set_title(title)
    if checks.as_flag("colorbar", colorbar):
        if weight is not None:
            _bar([ax], edge_map, edge_norm, "parameter φ")
        if signal is not None:
            _bar([ax], node_map, node_norm, "signal")
    return ax


def _halves(ax: Axes, graph: Graph, place: np.ndarray, weight: Any, cmap: Colormap, norm: Normalize) -> None:
    """A line for each edge and, above it, one half per entry: from node i to the middle, for (i, j)."""
    from matplotlib.collections import LineCollection

    i, j, entry = _edges(graph)
    once = i < j
    _lines(ax, place[i[once]], place[j[once]], FAINT if weight is not None else PLAIN)
    if weight is not None:
        halves = np.stack([place[i], (place[i] + place[j]) / 2], axis=1)
        phi = weight[entry]
        order = np.argsort(np.abs(phi), kind="stable")  # the strongest on top
        colors, widths = cmap(norm(phi))[order], _widths(phi, norm)[order]
        ax.add_collection(LineCollection(list(halves[order]), colors=colors, linewidths=widths, zorder=2))


def _lines(ax: Axes, start: np.ndarray, end: np.ndarray, color: str) -> None:
    from matplotlib.collections import LineCollection

    lines = list(np.stack([start, end], axis=1))
    ax.add_collection(LineCollection(lines, colors=color, linewidths=WIDTHS[0], zorder=1))


def _arrows(
    ax: Axes, graph: Graph, place: np.ndarray, weight: Any, cmap: Colormap, norm: Normalize, size: float
) -> None:
    """An arrow j → i for each entry (i, j), bent where there is one the other way."""
    from matplotlib.patches import FancyArrowPatch

    i, j, entry = _edges(graph)
    if weight is not None:
        silent = weight[entry] == 0
        _lines(ax, place[j[silent]], place[i[silent]], FAINT)
        i, j, entry = i[~silent], j[~silent], entry[~silent]
        order = np.argsort(np.abs(weight[entry]), kind="stable")  # the strongest on top
        i, j, entry = i[order], j[order], entry[order]
    two_way = np.isin(j * graph.n_nodes + i, i * graph.n_nodes + j)
    colors: Any = [PLAIN] * len(i) if weight is None else cmap(norm(weight[entry]))
    widths = np.full(len(i), 1.0) if weight is None else _widths(weight[entry], norm)
    radius = np.sqrt(size / np.pi) + 1.5  # points
    for e in range(len(i)):
        ax.add_patch(
            FancyArrowPatch(
                tuple(place[j[e]]),
                tuple(place[i[e]]),
                arrowstyle="-|>",
                mutation_scale=7 + 2 * widths[e],
                connectionstyle="arc3,rad=0.18" if two_way[e] else "arc3,rad=0",
                shrinkA=radius,
                shrinkB=radius,
                color=colors[e],
                linewidth=widths[e],
                zorder=2,
            )
        )


# ---- the matrix ------------------------------------------------------------------------------------------------------
def support(
    graph: Graph, phi: Any = None, ax: Axes | None = None, *, limit: float | None = None, colorbar: bool = True
) -> Axes:
    """The matrix I + S as squares: where a parameter may be, and with `phi` what it is.

    Row i holds what node i hears, column j where node j is heard. Grey squares lie outside the support: always zero.

    Parameters
    ----------
    graph : Graph
    phi : array_like, shape (nnz,), optional
        Parameters on the support. Without them the picture shows the pattern alone, nodes' own entries in blue, edges
        in orange.
    ax : matplotlib Axes, optional
    limit : float, optional
        The colour scale goes from -limit to limit; by default the largest absolute value.
    colorbar : bool
        Add the scale; only with `phi`.

    Returns
    -------
    matplotlib Axes
    """
    plt = _pyplot()
    network = _checked_graph(graph)
    N = network.n_nodes
    if N > MAX_IMAGE:
        raise ValueError(f"the graph has {N} nodes; expected at most {MAX_IMAGE} (the picture is a dense image)")
    if ax is None:
        ax = plt.subplots(figsize=(5, 4.2), layout="constrained")[1]
    rows = np.repeat(np.arange(N), np.diff(network.indptr))
    image = np.full((N, N), np.nan)
    if phi is None:
        from matplotlib.colors import ListedColormap, Normalize

        image[rows, network.indices] = rows != network.indices
        cmap: Colormap = ListedColormap([LINES[0], LINES[4]])
        norm: Normalize = Normalize(0, 1)
    else:
        weight = _vector("phi", phi, network.nnz, "one per entry of I + S")
        image[rows, network.indices] = weight
        cmap, norm = _scale(plt, EDGE_MAP, "limit", limit, weight)
    cmap = cmap.with_extremes(bad="#e4e4e4")
    ax.imshow(np.ma.masked_invalid(image), cmap=cmap, norm=norm, interpolation="nearest")
    ax.set(xlabel="from node j", ylabel="to node i")
    if N <= 60:  # a white grid, while squares are large enough
        ax.set_xticks(np.arange(N + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(N + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=0.8)
        ax.tick_params(which="minor", length=0)
    ax.locator_params(integer=True)
    if phi is not None and checks.as_flag("colorbar", colorbar):
        _bar([ax], cmap, norm, "parameter φ")
    return ax


# ---- the recursion ---------------------------------------------------------------------------------------------------
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
    """The adjoint recursion of one edge-variant filter, panel by panel: λ⁽ᴷ⁾ = v, ..., λ⁽¹⁾, ∂L/∂x.

    The panel of λ⁽ᵏ⁾ has Φ⁽ᵏ⁺¹⁾ᵀ on its edges: they are turned round, so that the half at node j now shows φ_ij.

    Parameters
    ----------
    grad_y : array_like, shape (nodes,), (out_features, nodes) or (1, out_features, nodes)
        v, the cotangent of one output sample.
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
    panels: list[tuple[str, np.ndarray, np.ndarray | None]] = [(f"$\\lambda^{{({K})}} = v$", v, None)]
    for k in range(K - 1, -1, -1):
        seed = k > 0 or seeded
        phi = one.phi[k]
        shown = phi[filter.graph.transpose]  # in column order, that is, on the support of the turned graph
        if active:
            shown = np.where(lam[turned.indices] == 0, 0, shown)
        lam = filter.graph.to_csr(phi).T @ lam + (v if seed else 0)
        name = f"\\lambda^{{({k})}}" if k > 0 or filter.zeroth == "diagonal" else "\\partial L/\\partial x"
        text = f"${name} = {'v + ' if seed else ''}\\Phi^{{({k + 1})\\top}} \\lambda^{{({k + 1})}}$"
        panels.append((text, lam, shown))
    if filter.zeroth == "diagonal":
        panels.append(("$\\partial L/\\partial x = \\Phi^{(0)} \\lambda^{(0)}$", one.phi0 * lam, None))
    return _panels(turned, panels, axes, positions, limit, edge_limit, node_size, arrows, colorbar)


class _Single:
    """One filter H_fg of a bank, as arrays."""

    def __init__(self, filter: EdgeVariant, params: Mapping[str, Any], feature: tuple[int, int]) -> None:
        if not isinstance(filter, EdgeVariant):
            raise TypeError(f"filter is {type(filter).__name__}; expected an EdgeVariant (see to_edge_variant)")
        arrays = filter._checked_parameters(params)
        try:
            f, g = feature
        except (TypeError, ValueError):
            raise TypeError(f"feature is {feature!r}; expected a pair (f, g)") from None
        f, g = checks.as_count("feature[0]", f), checks.as_count("feature[1]", g)
        if f >= filter.out_features or g >= filter.in_features:
            bank = f"{filter.out_features} x {filter.in_features}"
            raise ValueError(f"feature is {feature!r}; expected less than the bank's {bank}")
        phi0 = filter._phi0(arrays)
        self.filter, self.f, self.g = filter, f, g
        self.phi: np.ndarray = arrays["phi"][:, f, g]  # (K, nnz)
        self.phi0: Any = None if phi0 is None else phi0[f, g]  # (nodes,)

    def sample(self, name: str, value: Any, features: int, feature: int) -> np.ndarray:
        array = checks.as_floating(name, value)
        checks.require_finite(name, array)
        N = self.filter.graph.n_nodes
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
    plt = _pyplot()
    place = layout(graph_) if positions is None else _places(positions, graph_.n_nodes)
    if axes is None:
        size = (3.2 * len(panels) + 1.2, 3.4)
        axes = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)[1]
    flat = np.asarray(axes, dtype=object).ravel()
    if len(flat) != len(panels):
        raise ValueError(f"axes has {len(flat)} axes; expected {len(panels)}, one per panel")
    weights = [phi for _, _, phi in panels if phi is not None]
    node_map, node_norm = _scale(plt, NODE_MAP, "limit", limit, np.array([signal for _, signal, _ in panels]))
    edge_map, edge_norm = _scale(plt, EDGE_MAP, "edge_limit", edge_limit, np.array(weights) if weights else None)
    for ax, (title, signal, phi) in zip(flat, panels, strict=True):
        graph(
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
            _bar(list(flat), _outer(edge_map), edge_norm, "parameter φ (edges, rings)")
        _bar(list(flat), node_map, node_norm, "signal (nodes)")
    return flat


# ---- a training ------------------------------------------------------------------------------------------------------
def history(
    result: Any,
    ax: Axes | None = None,
    *,
    keys: Sequence[str] = ("loss", "validation_loss"),
    against: str = "step",
    log: bool = False,
) -> Axes:
    """Curves of a training.

    Parameters
    ----------
    result : FitResult, or list of dict
        What :func:`evref.fit` gave, or its `history`.
    ax : matplotlib Axes, optional
    keys : sequence of str
        Which columns to draw; rows where one is missing, None or NaN are left out, and so is a column without rows.
    against : str
        Column of the horizontal axis, "step", "epoch" or "seconds".
    log : bool
        Logarithmic vertical axis.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        None of `keys` has anything to draw.
    """
    plt = _pyplot()
    rows = result if isinstance(result, list) else getattr(result, "history", None)
    if not isinstance(rows, Iterable) or isinstance(rows, (str, Mapping)):
        raise TypeError(f"result is {type(result).__name__}; expected a FitResult or its history, a list of dicts")
    rows = list(rows)
    curves = {key: np.array([(row[against], row[key]) for row in rows if _has(row, against, key)]) for key in keys}
    curves = {key: curve for key, curve in curves.items() if len(curve)}
    if not curves:
        known = sorted({str(name) for row in rows for name in row})
        raise ValueError(f"history has no values for {', '.join(keys)} against {against}; its columns are {known}")
    if ax is None:
        ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")[1]
    for number, (key, curve) in enumerate(curves.items()):
        marker = "o" if len(curve) <= 30 else None
        ax.plot(*curve.T, color=LINES[number % len(LINES)], marker=marker, markersize=3.5, label=key.replace("_", " "))
    best = getattr(result, "best_step", None)
    if best is not None and against == "step":
        ax.axvline(best, color=INK, linewidth=0.9, linestyle=":", label="best on validation")
    if checks.as_flag("log", log):
        ax.set_yscale("log")
    ax.set_xlabel(against)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False)
    return ax


def _has(row: Mapping[str, Any], *keys: str) -> bool:
    return all(row.get(key) is not None and not np.isnan(row[key]) for key in keys)


# ---- the pieces ------------------------------------------------------------------------------------------------------
def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('evref.plot needs matplotlib: pip install "evref[plot]"') from None
    return plt


def _checked_graph(value: Any) -> Graph:
    if not isinstance(value, Graph):
        raise TypeError(f"graph is {type(value).__name__}; expected an evref.Graph")
    return value


def _vector(name: str, value: Any, size: int, what: str) -> np.ndarray:
    array = checks.as_floating(name, value)
    if array.shape != (size,):
        raise ValueError(f"{name} has shape {array.shape}; expected ({size},), {what}")
    checks.require_finite(name, array)
    return array


def _places(value: Any, n_nodes: int) -> np.ndarray:
    array = checks.as_floating("positions", value)
    if array.shape != (n_nodes, 2):
        raise ValueError(f"positions has shape {array.shape}; expected ({n_nodes}, 2)")
    checks.require_finite("positions", array)
    return array


def _texts(labels: Any, n_nodes: int) -> list[str]:
    texts = [str(i) for i in range(n_nodes)] if labels is True else [str(text) for text in labels]
    if len(texts) != n_nodes:
        raise ValueError(f"labels has {len(texts)} entries; expected {n_nodes}, one per node")
    return texts


def _edges(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target i, source j and place in the support of every entry off the diagonal."""
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    entry = np.flatnonzero(rows != graph.indices)
    return rows[entry], graph.indices[entry].astype(np.int64), entry


def _mirrored(graph: Graph) -> bool:
    """Every edge has one the other way, whatever their weights: the support is symmetric."""
    same = np.array_equal(graph.indptr, graph.column_indptr)
    return same and np.array_equal(graph.indices, graph.row_indices)


def _scale(plt: Any, name: str, argument: str, limit: float | None, values: Any) -> tuple[Colormap, Normalize]:
    from matplotlib.colors import Normalize

    if limit is None:
        limit = float(np.abs(values).max(initial=0.0)) if values is not None else 1.0
        limit = limit or 1.0
    limit = checks.as_number(argument, limit, 0, open_low=True)
    return plt.get_cmap(name), Normalize(-limit, limit, clip=True)


def _outer(cmap: Colormap) -> Colormap:
    """A diverging map without its pale middle, where a line on white paper would not be seen."""
    from matplotlib.colors import ListedColormap

    share = np.linspace(0.35, 1, 128) / 2
    return ListedColormap(cmap(np.concatenate([0.5 - share[::-1], 0.5 + share])))


def _widths(phi: np.ndarray, norm: Normalize) -> np.ndarray:
    share = np.abs(2 * np.asarray(norm(phi)) - 1)
    return np.where(share > 0, WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * share, 0.0)


def _bar(axes: list[Axes], cmap: Colormap, norm: Normalize, label: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.ticker import MaxNLocator

    figure = axes[0].get_figure()
    bar = figure.colorbar(ScalarMappable(norm, cmap), ax=axes, shrink=0.8, aspect=22, pad=0.02, ticks=MaxNLocator(5))  # type: ignore[union-attr]
    bar.set_label(label)
    bar.outline.set_visible(False)  # type: ignore[operator]


# ---- transfer functions ----------------------------------------------------------------------------------------------
def transfer(
    eigenvalues: Any, response: Any, ax: Axes | None = None, *, label: str | None = None, kernel: Any = None
) -> Axes:
    """A transfer function h at the graph frequencies, as stems; complex ones by real part of λ and modulus of h.

    Parameters
    ----------
    eigenvalues : array_like, shape (N,)
    response : array_like, shape (N,)
        What `filter.response(params)[f, g]` returns.
    ax : Axes, optional
    label : str, optional
        For a legend.
    kernel : array_like, shape (N, b), optional
        Columns of B, drawn as thin lines behind.
    """
    plt = _pyplot()
    lam, h = np.asarray(eigenvalues), np.asarray(response)
    if lam.ndim != 1 or h.shape != lam.shape:
        raise ValueError(f"response has shape {h.shape}; expected {lam.shape}, one value per eigenvalue")
    checks.require_finite("response", h)
    ax = plt.subplots(figsize=(5, 3), layout="constrained")[1] if ax is None else ax
    order = np.argsort(lam.real, kind="stable")
    values = np.abs(h) if np.iscomplexobj(h) else h
    if kernel is not None:
        columns = checks.as_floating("kernel", kernel)
        if columns.ndim != 2 or len(columns) != lam.size:
            raise ValueError(f"kernel has shape {columns.shape}; expected ({lam.size}, b)")
        ax.plot(lam.real[order], columns[order], color="#b0b0b0", linewidth=0.8, zorder=1)
    ax.vlines(lam.real, 0, values, color="#c8c8c8", linewidth=1, zorder=2)
    ax.plot(lam.real[order], values[order], marker="o", markersize=4, linewidth=1, label=label, zorder=3)
    ax.axhline(0, color="#909090", linewidth=0.8)
    ax.set_xlabel("eigenvalue λ" if np.isrealobj(lam) else "real part of the eigenvalue λ")
    ax.set_ylabel("|h(λ)|" if np.iscomplexobj(h) else "h(λ)")
    ax.spines[["top", "right"]].set_visible(False)
    if label is not None:
        ax.legend(frameon=False)
    return ax


def nullspace_dimensions(rows: Any, ax: Axes | None = None) -> Axes:
    """Dimension of the shift-invariant family on each graph, next to the number of nodes it might have been.

    Parameters
    ----------
    rows : sequence of dict
        With the keys "family", "nodes", "free" and "tied"
        (:func:`evref.verify.paper.spectral.nullspace_dimensions`).
    ax : Axes, optional
    """
    plt = _pyplot()
    rows = list(rows)
    if not rows:
        raise ValueError("rows is empty; expected one dict per graph")
    ax = plt.subplots(figsize=(6, 0.32 * len(rows) + 1), layout="constrained")[1] if ax is None else ax
    place = np.arange(len(rows))[::-1]
    ax.scatter([row["nodes"] for row in rows], place, marker="|", s=90, color="#909090", label="nodes N")
    ax.barh(place + 0.18, [row["free"] for row in rows], height=0.34, color="#3b6fb6", label="a value per eigenvector")
    ax.barh(place - 0.18, [row["tied"] for row in rows], height=0.34, color="#e0a030", label="a value per eigenvalue")
    ax.axvline(2, color="#b04040", linewidth=0.8, linestyle="--", label="span{I, S}")
    ax.set_yticks(place, [row["family"] for row in rows])
    ax.set_xscale("log", base=2)
    ax.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    ax.set_xlim(left=1)
    ax.set_xlabel("dimension")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)
    return ax
