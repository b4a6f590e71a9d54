"""What the pictures share: colours, scales, and the checks of what is to be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks, files
from ..graph import Graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

NODE_MAP = "RdBu_r"  # signals
EDGE_MAP = "PuOr_r"  # parameters
INK, PLAIN, FAINT = "#303030", "#8f8f8f", "#cfcfcf"  # nodes' outlines, edges without and behind parameters
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito
MANY = (*LINES, INK, "#a89a00")  # for up to eight curves
WIDTHS = 0.6, 2.8  # points, thinnest and thickest edge


def pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('evref.plot needs matplotlib: pip install "evref[plot]"') from None
    return plt


def vector(name: str, value: Any, size: int, what: str) -> np.ndarray:
    array = checks.as_floating(name, value)
    if array.shape != (size,):
        raise ValueError(f"{name} has shape {array.shape}; expected ({size},), {what}")
    checks.require_finite(name, array)
    return array


def places(value: Any, n_nodes: int) -> np.ndarray:
    array = checks.as_floating("positions", value)
    if array.shape != (n_nodes, 2):
        raise ValueError(f"positions has shape {array.shape}; expected ({n_nodes}, 2)")
    checks.require_finite("positions", array)
    return array


def texts(labels: Any, graph: Graph) -> list[str]:
    """One per node; True stands for their names."""
    texts = [str(text) for text in (graph.nodes if labels is True else labels)]
    if len(texts) != graph.n_nodes:
        raise ValueError(f"labels has {len(texts)} entries; expected {graph.n_nodes}, one per node")
    return texts


def named(graph: Graph, at_most: int) -> bool:
    """Whether a drawing says the names of nodes unasked: they have some, and there is room for so many."""
    return graph.n_nodes <= at_most and not isinstance(graph.nodes, range)


def edges(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target i, source j and place in the support of every entry off the diagonal."""
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    entry = np.flatnonzero(rows != graph.indices)
    return rows[entry], graph.indices[entry].astype(np.int64), entry


def mirrored(graph: Graph) -> bool:
    """Every edge has one the other way, whatever their weights: the support is symmetric."""
    same = np.array_equal(graph.indptr, graph.column_indptr)
    return same and np.array_equal(graph.indices, graph.row_indices)


def scale(plt: Any, name: str, argument: str, limit: float | None, values: Any) -> tuple[Colormap, Normalize]:
    from matplotlib.colors import Normalize

    if limit is None:
        limit = float(np.abs(values).max(initial=0.0)) if values is not None else 1.0
        limit = limit or 1.0
    limit = checks.as_number(argument, limit, 0, open_low=True)
    return plt.get_cmap(name), Normalize(-limit, limit, clip=True)


def outer(cmap: Colormap) -> Colormap:
    """A diverging map without its pale middle, where a line on white paper would not be seen."""
    from matplotlib.colors import ListedColormap

    share = np.linspace(0.35, 1, 128) / 2
    return ListedColormap(cmap(np.concatenate([0.5 - share[::-1], 0.5 + share])))


def line_widths(phi: np.ndarray, norm: Normalize) -> np.ndarray:
    share = np.abs(2 * np.asarray(norm(phi)) - 1)
    return np.where(share > 0, WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * share, 0.0)


def bar(axes: list[Axes], cmap: Colormap, norm: Normalize, label: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.ticker import MaxNLocator

    figure = axes[0].get_figure()
    bar = figure.colorbar(ScalarMappable(norm, cmap), ax=axes, shrink=0.8, aspect=22, pad=0.02, ticks=MaxNLocator(5))  # type: ignore[union-attr]
    bar.set_label(label)
    bar.outline.set_visible(False)  # type: ignore[operator]


def require_format(name: str, path: Path) -> None:
    """ValueError unless `path` ends like a kind of picture that matplotlib writes."""
    pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"{name} is {str(path)!r}; expected a name that ends in .{', .'.join(known)}")


def save(figure: Figure, path: Path) -> None:
    """The picture as a file of the kind that its name says, whole or not at all."""
    with files.replacing(path) as handle:
        figure.savefig(handle, format=path.suffix[1:].lower(), dpi=120)


def new_axes(**options: Any) -> Axes:
    """Axes in a figure of their own."""
    return pyplot().subplots(layout="constrained", **options)[1]
