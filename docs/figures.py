"""Draws the pictures of the documentation again: ``python docs/figures.py`` writes docs/img/*.png.

Most show one filter on one graph: 18 nodes in three communities, and an edge-variant filter of order 2 whose
parameters are drawn at random, so that every node weighs every neighbour in its own way.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import evref as ev
from evref import plot
from evref.plot import style
from evref.verify.paper.spectral import nullspace_dimensions

FOLDER = Path(__file__).parent / "img"
NODE = 1  # where the delta sits; and whose output is asked about
LOOK = {"arrows": True, "active": True, "edge_limit": 0.8}


def example() -> tuple[ev.EdgeVariant, dict[str, np.ndarray], np.ndarray]:
    """Filter, parameters and positions of the nodes."""
    graph, _ = ev.generators.stochastic_block_model(18, 3, p_in=0.6, p_out=0.035, rng=14)
    filt = ev.EdgeVariant(graph, order=2)
    rng = np.random.default_rng(1)
    size = rng.uniform(0.3, 0.8, filt.parameter_shapes()["phi"])
    sign = rng.choice([-1.0, 1.0], size.shape, p=[0.3, 0.7])
    return filt, {"phi": sign * size}, plot.layout(graph)


def delta(filt: ev.EdgeVariant, node: int) -> np.ndarray:
    return np.eye(filt.graph.n_nodes)[node]


def row(panels: int, foot: float = 0.0) -> tuple[plt.Figure, np.ndarray]:
    """Panels side by side, with the share `foot` of the height kept free below them."""
    figure, axes = plt.subplots(1, panels, figsize=(14, 4.0), layout="constrained")
    figure.get_layout_engine().set(rect=(0, foot, 1, 1 - foot))
    return figure, axes


def save(figure: plt.Figure, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    # the version says how closely a picture drawn again must agree: others set letters a little differently
    figure.savefig(FOLDER / name, dpi=100, metadata={"Software": f"matplotlib {matplotlib.__version__}"})
    plt.close(figure)


def caption(axes: np.ndarray, *texts: str) -> None:
    for ax, text in zip(axes, texts, strict=True):
        at = ax.text(0.5, -0.04, text, transform=ax.transAxes, ha="center", va="top", color=style.INK, linespacing=1.3)
        at.set_in_layout(False)


def forward_picture() -> None:
    """edge_variant.png: x, w1, w2, y."""
    filt, params, positions = example()
    figure, axes = row(4, foot=0.03)
    plot.states(filt, params, delta(filt, NODE), axes, positions=positions, **LOOK)
    caption(
        axes,
        "a delta on one node",
        "its neighbours hear it,\neach with a weight of its own",
        "one hop further,\nwith new weights",
        "the output is the sum",
    )
    save(figure, "edge_variant.png")


def adjoint_picture() -> None:
    """adjoint.png: the cotangents of w2 and w1, dL/dx."""
    filt, params, positions = example()
    figure, axes = row(3, foot=0.15)
    plot.cotangents(filt, params, delta(filt, NODE), axes, positions=positions, **LOOK)
    caption(
        axes,
        "one entry of y is asked about",
        "back along the edges,\nwith the same weights",
        "how that entry depends\non every entry of x",
    )
    save(figure, "adjoint.png")


def support_picture() -> None:
    """support.png: the pattern of I + S, and the two parameter matrices on it."""
    filt, params, _ = example()
    figure, axes = row(3)
    plot.support(filt.graph, ax=axes[0]).set_title("support of $I + S$")
    for k, ax in enumerate(axes[1:]):
        plot.support(filt.graph, params["phi"][k, 0, 0], ax, limit=0.8, colorbar=k == 1)
        ax.set_title(f"$\\Phi^{{({k + 1})}}$")
    save(figure, "support.png")


def lattice_picture() -> None:
    """lattice.png: which class of filters contains which."""
    save(plot.lattice().get_figure(), "lattice.png")


def nullspace_picture() -> None:
    """nullspace.png: the dimension of the shift-invariant family over families of graphs (R8, R9)."""
    save(plot.nullspace_dimensions(nullspace_dimensions()).get_figure(), "nullspace.png")


def main() -> None:
    with plt.rc_context({"font.size": 13, "axes.titlesize": 18}):
        forward_picture()
        adjoint_picture()
        support_picture()
    lattice_picture()
    nullspace_picture()


if __name__ == "__main__":
    main()
