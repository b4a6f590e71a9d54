"""How a training went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks
from .style import (
    INK,
    LINES,
    pyplot,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    plt = pyplot()
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
