"""A graph with a signal on its nodes and parameters on its edges, and the pattern of I + S."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks
from ..graph import Graph, as_graph
from ..graph.convert import as_nodes
from .style import (
    EDGE_MAP,
    FAINT,
    INK,
    LINES,
    NODE_MAP,
    PLAIN,
    WIDTHS,
    bar,
    edges,
    line_widths,
    mirrored,
    named,
    outer,
    places,
    pyplot,
    scale,
    texts,
    vector,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

MAX_GRID = 60  # rows: up to here squares are large enough for a grid between them, and for names beside them
MAX_LAYOUT = 2000  # nodes: the layout works on a dense matrix of distances
MAX_NAMES = 30  # nodes: in larger drawings their names are written if asked for
MAX_IMAGE = 4000  # nodes: the support is shown as a dense image


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
    d = shortest_path(abs(graph.dense_shift()), directed=False, unweighted=True)  # (N, N)
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
    labels: bool | Sequence[Any] | None = None,
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
        Write the names of the nodes (their numbers, where they have none), or these texts, into the nodes. By default
        names are written in graphs of up to 30 nodes, numbers never.
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
    plt = pyplot()
    from matplotlib.colors import to_rgba
    from matplotlib.patheffects import withStroke

    network = as_graph(graph)
    N = network.n_nodes
    if checks.is_labelled(values):
        values = network.align(values, "values")
    signal = None if values is None else vector("values", values, N, "one per node")
    weight = None if edge_values is None else vector("edge_values", edge_values, network.nnz, "one per entry of I + S")
    place = layout(network) if positions is None else places(positions, N)
    size = float(np.clip(5000 / N, 12, 320)) if node_size is None else checks.as_number("node_size", node_size, 0)
    if ax is None:
        ax = plt.subplots(figsize=(5, 4.2), layout="constrained")[1]

    edge_map, edge_norm = scale(plt, EDGE_MAP, "edge_limit", edge_limit, weight)
    edge_map = outer(edge_map)
    node_map, node_norm = scale(plt, NODE_MAP, "limit", limit, signal)
    if checks.as_flag("arrows", not mirrored(network) if arrows is None else arrows):
        _arrows(ax, network, place, weight, edge_map, edge_norm, size)
    else:
        _halves(ax, network, place, weight, edge_map, edge_norm)
    own = None if weight is None else weight[network.diagonal]
    style: dict[str, Any] = {"edgecolors": INK, "linewidths": 0.8}
    if own is not None:
        ring = np.where(own[:, None] == 0, to_rgba(INK), edge_map(edge_norm(own)))
        style = {"edgecolors": ring, "linewidths": np.maximum(0.8, line_widths(own, edge_norm))}
    colors = "white" if signal is None else node_map(node_norm(signal))
    ax.scatter(place[:, 0], place[:, 1], s=size, c=colors, zorder=3, **style)
    if labels is None:
        labels = named(network, MAX_NAMES)
    if labels is not False:
        dark = np.zeros(N, bool) if signal is None else np.abs(np.asarray(node_norm(signal)) - 0.5) > 0.3
        for i, text in enumerate(texts(labels, network)):
            wide = len(text) > 3  # reaches over the node, onto the paper
            color = "white" if dark[i] and not wide else INK
            effects = [withStroke(linewidth=2, foreground="white")] if wide else None
            ax.text(
                place[i, 0], place[i, 1], text, ha="center", va="center", fontsize=8, color=color, zorder=4,
                path_effects=effects,
            )  # fmt: skip
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
            bar([ax], edge_map, edge_norm, "parameter φ")
        if signal is not None:
            bar([ax], node_map, node_norm, "signal")
    return ax


def _halves(ax: Axes, graph: Graph, place: np.ndarray, weight: Any, cmap: Colormap, norm: Normalize) -> None:
    """A line for each edge and, above it, one half per entry: from node i to the middle, for (i, j)."""
    from matplotlib.collections import LineCollection

    i, j, entry = edges(graph)
    once = i < j
    _lines(ax, place[i[once]], place[j[once]], FAINT if weight is not None else PLAIN)
    if weight is not None:
        halves = np.stack([place[i], (place[i] + place[j]) / 2], axis=1)
        phi = weight[entry]
        order = np.argsort(np.abs(phi), kind="stable")  # the strongest on top
        colors, widths = cmap(norm(phi))[order], line_widths(phi, norm)[order]
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

    i, j, entry = edges(graph)
    if weight is not None:
        silent = weight[entry] == 0
        _lines(ax, place[j[silent]], place[i[silent]], FAINT)
        i, j, entry = i[~silent], j[~silent], entry[~silent]
        order = np.argsort(np.abs(weight[entry]), kind="stable")  # the strongest on top
        i, j, entry = i[order], j[order], entry[order]
    two_way = np.isin(j * graph.n_nodes + i, i * graph.n_nodes + j)
    colors: Any = [PLAIN] * len(i) if weight is None else cmap(norm(weight[entry]))
    widths = np.full(len(i), 1.0) if weight is None else line_widths(weight[entry], norm)
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
    graph: Graph,
    phi: Any = None,
    ax: Axes | None = None,
    *,
    limit: float | None = None,
    colorbar: bool = True,
    nodes: Any = None,
    labels: Sequence[Any] | None = None,
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
    nodes : array_like of int, optional
        Only these rows and columns, in this order.
    labels : sequence, optional
        Texts for all nodes, written at the rows and columns. By default the names of the nodes where they have some and
        at most 60 are shown, else numbers.

    Returns
    -------
    matplotlib Axes
    """
    plt = pyplot()
    network = as_graph(graph)
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
        weight = vector("phi", phi, network.nnz, "one per entry of I + S")
        image[rows, network.indices] = weight
        cmap, norm = scale(plt, EDGE_MAP, "limit", limit, weight)
    cmap = cmap.with_extremes(bad="#e4e4e4")
    chosen = np.arange(N) if nodes is None else as_nodes("nodes", nodes, N)
    image = image[np.ix_(chosen, chosen)]
    ax.imshow(np.ma.masked_invalid(image), cmap=cmap, norm=norm, interpolation="nearest")
    ax.set(xlabel="from node j", ylabel="to node i")
    n = chosen.size
    if n <= MAX_GRID:  # a white grid, while squares are large enough
        ax.set_xticks(np.arange(n + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(n + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=min(0.8, 16 / n))
        ax.tick_params(which="minor", length=0)
    if labels is None and nodes is None and not named(network, MAX_GRID):
        ax.locator_params(integer=True)
    else:
        every = texts(True if labels is None else labels, network)
        written = [every[node] for node in chosen]
        size = min(9.0, 280 / n)
        ax.set_xticks(range(n), written, rotation=90, fontsize=size)
        ax.set_yticks(range(n), written, fontsize=size)
    if phi is not None and checks.as_flag("colorbar", colorbar):
        bar([ax], cmap, norm, "parameter φ")
    return ax
