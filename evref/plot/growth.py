"""Time and memory against size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import INK, LINES, PLAIN, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def growth(results: Mapping[str, Any], axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """How time (left) and peak memory (right) of a forward and backward pass grow with nnz, K, F·G and B.

    Each quantity in units of its smallest value, with the exponent of a fit in the legend; dotted, linear growth.
    Dashed lines on the right are the bounds (`evref/bench/growth.py`).

    Parameters
    ----------
    results : mapping
        What ``evref bench --growth --json`` prints.
    axes : two matplotlib Axes, optional

    Returns
    -------
    sequence of two matplotlib Axes

    Raises
    ------
    ValueError
        There is nothing in `results` to draw.
    """
    plt = pyplot()
    curves = {name: points for name, points in results["growth"].items() if len(points) > 1}
    if not curves:
        raise ValueError("results has no quantity with two sizes or more; expected at least one")
    if axes is None:
        axes = plt.subplots(1, 2, figsize=(9.6, 4), layout="constrained")[1]
    left, right = axes
    longest = 1.0
    for number, (name, points) in enumerate(curves.items()):
        color = LINES[number % len(LINES)]
        size, seconds, held, bound = (
            np.array([p[key] for p in points]) for key in ("size", "seconds", "bytes", "bound")
        )
        size = size / size[0]
        longest = max(longest, float(size[-1]))
        exponent = np.polyfit(np.log(size), np.log(seconds), 1)[0]
        start = f"{points[0]['size']:.3g}"
        left.plot(size, 1e3 * seconds, "o-", color=color, markersize=4, label=f"{name}, from {start}: {exponent:.2f}")
        right.plot(size, held / 2**20, "o-", color=color, markersize=4, label=name)
        right.plot(size, bound / 2**20, "--", color=color, linewidth=1)
    low = min(1e3 * points[0]["seconds"] for points in curves.values())
    left.plot([1, longest], [low, low * longest], ":", color=PLAIN, linewidth=1, label="linear")
    right.plot([], [], "--", color=PLAIN, linewidth=1, label="bound")
    for ax, label in ((left, "time in ms"), (right, "peak memory in MB")):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("size, in units of the smallest")
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#e4e4e4", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.legend(frameon=False, fontsize=8, labelcolor=INK)
    return axes
