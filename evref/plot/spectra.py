"""Transfer functions, and how large the shift-invariant family is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks
from ..contract import NotRepresentable
from ..graph import fourier_basis
from .style import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def transfer(
    eigenvalues: Any,
    response: Any,
    ax: Axes | None = None,
    *,
    label: str | None = None,
    kernel: Any = None,
    stems: bool = True,
    curve: Any = None,
) -> Axes:
    """A transfer function h at the graph frequencies, as markers; complex ones by real part of λ and modulus of h.

    `transfer(filt, params)` draws every h_fg of a filter, and a line between the eigenvalues where h is defined there.
    `transfer(eigenvalues, response)` draws one function; between the eigenvalues nothing unless `curve` says what h is.

    Parameters
    ----------
    eigenvalues : array_like, shape (N,), or Filter
    response : array_like, shape (N,), or dict of arrays
        What `filter.response(params)[f, g]` returns; for a filter its parameters.
    ax : Axes, optional
    label : str, optional
        For a legend.
    kernel : array_like, shape (N, b), optional
        Columns of B, drawn as small points behind.
    stems : bool
        False leaves the stems out, where several functions share the axes.
    curve : pair of array_like, each of shape (M,), optional
        Frequencies and h there, such as ``(grid, filter.response(params, grid)[f, g])``: drawn as a line.
    """
    if callable(getattr(eigenvalues, "response", None)):
        return _transfer_of_filter(eigenvalues, response, ax, label, kernel, stems, curve)
    plt = pyplot()
    lam, h = np.asarray(eigenvalues), np.asarray(response)
    if lam.ndim != 1 or lam.dtype.kind not in "fiuc":
        raise ValueError(
            f"eigenvalues is {type(eigenvalues).__name__} of shape {lam.shape}; expected (N,), or a filter"
        )
    if h.shape != lam.shape:
        raise ValueError(f"response has shape {h.shape}; expected {lam.shape}, one value per eigenvalue")
    checks.require_finite("response", h)
    ax = plt.subplots(figsize=(5, 3), layout="constrained")[1] if ax is None else ax
    order = np.argsort(lam.real, kind="stable")
    values = np.abs(h) if np.iscomplexobj(h) else h
    if kernel is not None:
        columns = checks.as_floating("kernel", kernel)
        if columns.ndim != 2 or len(columns) != lam.size:
            raise ValueError(f"kernel has shape {columns.shape}; expected ({lam.size}, b)")
        ax.plot(lam.real[order], columns[order], ".", color="#b0b0b0", markersize=3, zorder=1)
    if checks.as_flag("stems", stems):
        ax.vlines(lam.real, 0, values, color="#c8c8c8", linewidth=1, zorder=2)
    (markers,) = ax.plot(lam.real[order], values[order], "o", markersize=4, label=label, zorder=4)
    if curve is not None:
        at, between = (np.asarray(part) for part in curve)
        if at.ndim != 1 or between.shape != at.shape:
            raise ValueError(f"curve has shapes {at.shape} and {between.shape}; expected two equal ones, (M,)")
        checks.require_finite("curve", between)
        line = np.abs(between) if np.iscomplexobj(h) else between.real
        ax.plot(at.real, line, color=markers.get_color(), linewidth=1.2, zorder=3)
    ax.axhline(0, color="#909090", linewidth=0.8, zorder=0)
    ax.set_xlabel("eigenvalue λ" if np.isrealobj(lam) else "real part of the eigenvalue λ")
    ax.set_ylabel("|h(λ)|" if np.iscomplexobj(h) else "h(λ)")
    ax.spines[["top", "right"]].set_visible(False)
    if label is not None:
        ax.legend(frameon=False)
    return ax


def _transfer_of_filter(
    filt: Any, params: Any, ax: Axes | None, label: str | None, kernel: Any, stems: bool, curve: Any
) -> Axes:
    """One function per pair of features, in one picture."""
    if curve is not None:
        raise ValueError("curve is given with a filter, which knows its own; expected None")
    eigenvalues = fourier_basis(filt.graph).eigenvalues
    h = filt.response(params)  # (F, G, N)
    grid = between = None
    if np.isrealobj(eigenvalues):
        grid = np.linspace(eigenvalues.min(), eigenvalues.max(), 400)
        with contextlib.suppress(NotRepresentable):  # h is defined at the eigenvalues alone
            between = filt.response(params, grid)
    pairs = list(np.ndindex(h.shape[:2]))
    ax = pyplot().subplots(figsize=(5, 3), layout="constrained")[1] if ax is None else ax
    for f, g in pairs:
        name = label if len(pairs) == 1 else f"{'' if label is None else label + ', '}{f} ← {g}"
        line = None if between is None else (grid, between[f, g])
        transfer(eigenvalues, h[f, g], ax, label=name, kernel=kernel, stems=stems and len(pairs) == 1, curve=line)
        kernel = None  # drawn once
    if len(pairs) > 1:
        ax.legend(frameon=False, fontsize="small", title="output ← input", ncols=2 if len(pairs) > 4 else 1)
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
    plt = pyplot()
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
