"""Measured speed under what the machine can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import INK, LINES, PLAIN, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "D", "^", "v", "P", "X")


def roofline(results: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Speed against intensity: no kernel that moves the bytes it must can be above the roof.

    The slope is the measured bandwidth of memory, the flat part the measured matrix product, each at its best number
    of threads. Edge-variant cases have a place: useful flops over compulsory bytes (`evref/bench/cases.py`). A case
    above the slope lives in the caches.

    Parameters
    ----------
    results : mapping
        What ``evref bench --json`` prints.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        There is no edge-variant case among the results.
    """
    plt = pyplot()
    lines = [line for line in results["lines"] if line["traffic"] and "evref" in line["seconds"]]
    if not lines:
        raise ValueError("results has no edge-variant case; expected at least one for a roofline")
    if ax is None:
        ax = plt.subplots(figsize=(6.8, 4.4), layout="constrained")[1]
    names = list(dict.fromkeys(line["case"] for line in lines))
    intensity = [line["flops"] / line["traffic"] for line in lines]
    reach = np.geomspace(min(intensity) / 4, max(intensity) * 4, 200)
    for number, dtype in enumerate(dict.fromkeys(line["dtype"] for line in lines)):
        color = LINES[number % len(LINES)]
        own = [line for line in lines if line["dtype"] == dtype]
        bandwidth, gemm = _limit(own, ("copy", "triad")), _limit(own, ("GEMM",))
        if bandwidth and gemm:
            roof = np.minimum(bandwidth * reach, gemm)
            ax.plot(reach, 1e-9 * roof, color=color, linewidth=1.2, label=f"{dtype}: {_text(bandwidth, gemm)}")
        for line in own:
            place = line["flops"] / line["traffic"]
            best = min(t["median"] for t in line["seconds"]["evref"].values())
            marker = MARKERS[names.index(line["case"]) % len(MARKERS)]
            ax.plot(place, 1e-9 * line["flops"] / best, marker, color=color, markersize=7, markeredgecolor="white")
    for number, name in enumerate(names):  # one entry per case, whatever its colour
        ax.plot([], [], MARKERS[number % len(MARKERS)], color=PLAIN, markersize=6, label=name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("useful flops per compulsory byte")
    ax.set_ylabel("GF/s, forward and backward")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#e4e4e4", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize=8, labelcolor=INK, loc="lower right")
    return ax


def _limit(lines: list[dict[str, Any]], names: tuple[str, ...]) -> float:
    return max((rate for line in lines for name in names for rate in line["limits"].get(name, {}).values()), default=0)


def _text(bandwidth: float, gemm: float) -> str:
    return f"memory {1e-9 * bandwidth:.0f} GB/s, matrix product {1e-9 * gemm:.0f} GF/s"
