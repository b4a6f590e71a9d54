"""What a filter has learned: parameters on the edges, the strongest of them by name, transfer functions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks
from ..contract import NotRepresentable
from ..graph import Graph, as_graph
from ..graph.fourier import fourier_basis
from .graphs import graph as draw_graph
from .spectra import transfer
from .style import EDGE_MAP, INK, MANY, bar, line_widths, new_axes, outer, pyplot, scale, texts, vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def edge_weights(
    graph: Graph,
    phi: Any,
    ax: Axes | None = None,
    *,
    positions: Any = None,
    strongest: int | None = None,
    limit: float | None = None,
    colorbar: bool = True,
) -> Axes:
    """Parameters on the edges of the drawn graph; :func:`support` shows the same as a matrix.

    Parameters
    ----------
    graph : Graph
    phi : array_like, shape (nnz,)
        Numbers on the support of I + S, such as ``params["phi"][k, f, g]``.
    ax : matplotlib Axes, optional
    positions : array_like, shape (N, 2), optional
    strongest : int, optional
        Only the so many largest |φ|; the others leave thin grey lines. For graphs whose lines would hide each other.
    limit : float, optional
        The colour scale goes from -limit to limit; by default the largest absolute value.
    colorbar : bool

    Returns
    -------
    matplotlib Axes
    """
    weight = vector("phi", phi, as_graph(graph).nnz, "one per entry of I + S")
    if strongest is not None and checks.as_count("strongest", strongest) < weight.size:
        rank = np.argsort(np.argsort(-np.abs(weight), kind="stable"), kind="stable")
        weight = np.where(rank < strongest, weight, 0.0)
    return draw_graph(graph, None, positions, weight, ax, edge_limit=limit, colorbar=colorbar)


def strongest_weights(
    graph: Graph,
    phi: Any,
    ax: Axes | None = None,
    *,
    count: int = 30,
    names: Sequence[Any] | None = None,
    limit: float | None = None,
    colorbar: bool = True,
) -> Axes:
    """The largest |φ| as arrows j → i between the nodes they join, these alone, on a circle and by name.

    For graphs so large or dense that a drawing of all edges hides them. A ring around node i is φ_ii.

    Parameters
    ----------
    graph : Graph
    phi : array_like, shape (nnz,)
        Numbers on the support of I + S, such as ``params["phi"][k, f, g]``.
    ax : matplotlib Axes, optional
    count : int
        How many entries are drawn; those that are zero never are.
    names : sequence, optional
        Texts for all nodes; by default their names, or where they have none their numbers.
    limit : float, optional
        The colour scale goes from -limit to limit; by default the largest absolute value.
    colorbar : bool

    Returns
    -------
    matplotlib Axes
    """
    from matplotlib.patches import FancyArrowPatch

    weight = vector("phi", phi, as_graph(graph).nnz, "one per entry of I + S")
    labels = texts(True if names is None else names, graph)
    order = np.argsort(-np.abs(weight), kind="stable")[: checks.as_count("count", count, minimum=1)]
    order = order[weight[order] != 0][::-1]  # the strongest last, on top
    target = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))[order]
    source = graph.indices[order]
    nodes = np.unique(np.concatenate([target, source]))
    if ax is None:
        ax = new_axes(figsize=(5, 5))
    cmap, norm = scale(pyplot(), EDGE_MAP, "limit", limit, weight)
    cmap = outer(cmap)
    angle = 2 * np.pi * np.arange(nodes.size) / max(1, nodes.size)
    place = {int(node): np.array([np.sin(a), np.cos(a)]) for node, a in zip(nodes, angle, strict=True)}
    widths = line_widths(weight[order], norm)
    for i, j, phi_ij, width in zip(target.tolist(), source.tolist(), weight[order], widths, strict=True):
        color = cmap(norm(phi_ij))
        if i == j:
            ax.plot(*place[i], "o", markersize=9, markerfacecolor="none", markeredgecolor=color, markeredgewidth=width)
            continue
        ax.add_patch(
            FancyArrowPatch(
                tuple(place[j]), tuple(place[i]), arrowstyle="-|>", mutation_scale=8 + 2 * width, shrinkA=3, shrinkB=3,
                connectionstyle="arc3,rad=0.15", color=color, linewidth=width, zorder=2,
            )
        )  # fmt: skip
    for node, a in zip(nodes.tolist(), angle, strict=True):
        x, y = place[node]
        ax.plot(x, y, "o", markersize=4, color=INK, zorder=3)
        turn = 90 - np.degrees(a)  # words along the radius, none upside down
        left = np.sin(a) < -1e-9
        ax.text(
            1.09 * x, 1.09 * y, labels[node], rotation=turn + 180 if left else turn, rotation_mode="anchor",
            ha="right" if left else "left", va="center", fontsize=9, color=INK,
        )  # fmt: skip
    reach = 1.15 + 0.045 * max((len(labels[node]) for node in nodes), default=0)  # room for the longest name
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set_axis_off()
    if checks.as_flag("colorbar", colorbar):
        bar([ax], cmap, norm, "parameter φ")
    return ax


def responses(filter: Any, params: Mapping[str, Any], ax: Axes | None = None, *, points: int = 400) -> Axes:
    """The transfer functions h_f1 of a filter with `response`, one per output feature.

    A marker at every graph frequency. The line between them is h(λ) itself, where the filter has one off the
    eigenvalues (polynomial, Chebyshev, ARMA, Cayley, splines) and these are real; else there are markers alone.

    Parameters
    ----------
    filter : Polynomial, SpectralGCNN or another filter with `response`
    params : dict of arrays
    ax : matplotlib Axes, optional
    points : int
        Of each line, from the smallest to the largest eigenvalue.

    Returns
    -------
    matplotlib Axes
    """
    eigenvalues = fourier_basis(filter.graph).eigenvalues
    values = filter.response(params)[:, 0]  # (F, N)
    grid = between = None
    if np.isrealobj(eigenvalues):
        grid = np.linspace(eigenvalues.min(), eigenvalues.max(), checks.as_count("points", points, minimum=2))
        with contextlib.suppress(NotRepresentable):
            between = filter.response(params, grid)[:, 0]
    if ax is None:
        ax = new_axes(figsize=(5, 3.6))
    ax.set_prop_cycle(color=MANY)
    for f, response in enumerate(values):
        curve = None if between is None else (grid, between[f])
        transfer(eigenvalues, response, ax, stems=False, curve=curve, label=f"feature {f + 1}")
    ax.legend(frameon=False, fontsize="small", ncols=2 if len(values) > 4 else 1)
    return ax
