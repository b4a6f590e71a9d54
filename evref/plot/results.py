"""What came out of an experiment: accuracies and their differences, confusions, trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks
from .style import FAINT, INK, LINES, MANY, PLAIN, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..experiments.statistics import Row

MAX_WRITTEN = 12  # classes: more leave no room for numbers in a confusion matrix


def accuracy_table(rows: Sequence[Row], ax: Axes | None = None) -> Axes:
    """Mean accuracies with their deviations over groups, a line per model, the paper's beside them.

    Parameters
    ----------
    rows : sequence of Row
        What :func:`evref.experiments.statistics.rows` gives; a model without results keeps an empty line.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    rows = list(rows)
    if not rows:
        raise ValueError("rows is empty; expected one Row per model")
    if ax is None:
        ax = new_axes(figsize=(7.2, 0.46 * len(rows) + 1.5))
    place = np.arange(len(rows), dtype=float)[::-1]
    looks: dict[str, dict[str, Any]] = {
        "best": {"fmt": "o", "color": LINES[0], "label": "best on validation"},
        "last": {"fmt": "s", "color": LINES[1], "mfc": "white", "label": "last weights"},
        "paper": {"fmt": "D", "color": PLAIN, "label": "paper"},
    }
    ends = []  # of every bar
    for which, offset in (("best", 0.22), ("last", 0.0), ("paper", -0.22)):
        figures = np.array([getattr(row, which) or (np.nan, np.nan) for row in rows], dtype=float)  # (rows, 2)
        mean, deviation = figures.T
        there = np.isfinite(mean)
        if there.any():
            deviation = np.where(np.isfinite(deviation), deviation, 0.0)[there]
            ends += [(mean[there] - deviation).min(), (mean[there] + deviation).max()]
            ax.errorbar(
                mean[there],
                place[there] + offset,
                xerr=deviation,
                markersize=5,
                linewidth=1.1,
                capsize=2.5,
                **looks[which],
            )
    for y in place[:-1] - 0.5:
        ax.axhline(y, color="#ececec", linewidth=0.8, zorder=0)
    ax.set_yticks(place, [row.label for row in rows])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.5, len(rows) - 0.5)
    low, high = min(ends, default=0.0), max([100.0, *ends])
    room = 0.03 * (high - low)
    ax.set_xlim(low - room, high + room)  # every bar in full: mean + deviation may lie beyond 100
    ax.axvspan(100, high + 2 * room, color="#f2f2f2", zorder=0, linewidth=0)
    ax.axvline(100, color=PLAIN, linewidth=0.9, zorder=1)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= 100 and low - room <= tick])
    ax.set_xlabel("test accuracy in percent, mean ± standard deviation over groups")
    _plain(ax, "x")
    if ends:
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles, labels, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return ax


def paired_differences(rows: Sequence[Row], ax: Axes | None = None, *, labels: bool = True) -> Axes:
    """Differences to the reference model with their 95% intervals over groups, a line per model.

    Parameters
    ----------
    rows : sequence of Row
        What :func:`evref.experiments.statistics.rows` gives; the reference, and a model without results, keep an empty
        line.
    ax : matplotlib Axes, optional
    labels : bool
        Write the models' names beside the lines.

    Returns
    -------
    matplotlib Axes
    """
    rows = list(rows)
    if not rows:
        raise ValueError("rows is empty; expected one Row per model")
    if ax is None:
        ax = new_axes(figsize=(7.2, 0.46 * len(rows) + 1.5))
    place = np.arange(len(rows), dtype=float)[::-1]
    looks: dict[str, dict[str, Any]] = {
        "difference": {"fmt": "o", "color": LINES[0], "label": "best on validation"},
        "difference_last": {"fmt": "s", "color": LINES[1], "mfc": "white", "label": "last weights"},
    }
    for which, offset in (("difference", 0.12), ("difference_last", -0.12)):
        figures = np.array([getattr(row, which) or (np.nan,) * 3 for row in rows], dtype=float)  # (rows, 3)
        there = np.isfinite(figures[:, 0])
        mean, low, high = figures[there].T
        if there.any():
            errors = np.nan_to_num([mean - low, high - mean])  # without an interval a marker alone
            ax.errorbar(
                mean, place[there] + offset, xerr=errors, markersize=5, linewidth=1.1, capsize=2.5, **looks[which]
            )
    for y in place[:-1] - 0.5:
        ax.axhline(y, color="#ececec", linewidth=0.8, zorder=0)
    ax.axvline(0, color=INK, linewidth=0.9, zorder=1)
    ax.set_yticks(place, [row.label for row in rows] if checks.as_flag("labels", labels) else [""] * len(rows))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.5, len(rows) - 0.5)
    ax.set_xlabel("points above the polynomial, same graphs and data:\nmean and 95% interval (t over groups)")
    _plain(ax, "x")
    if ax.containers:
        handles, names = ax.get_legend_handles_labels()
        ax.legend(handles, names, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return ax


def confusion_matrix(
    matrix: Any, labels: Sequence[Any] | None = None, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """How many samples of each class (rows) were taken for each class (columns), in percent of the row.

    Parameters
    ----------
    matrix : array_like, shape (C, C)
        Counts. Shares below half a percent are not written, and none are for more than 12 classes.
    labels : sequence, optional
        Names of the classes; by default their numbers.
    ax : matplotlib Axes, optional
    title : str, optional

    Returns
    -------
    matplotlib Axes
    """
    counts = checks.as_floating("matrix", matrix)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or counts.size == 0:
        raise ValueError(f"matrix has shape {counts.shape}; expected (C, C), true by predicted classes")
    checks.require_finite("matrix", counts)
    if (counts < 0).any():
        raise ValueError(f"matrix has the entry {counts.min():g}; expected counts")
    C = len(counts)
    names = [str(c) for c in (range(C) if labels is None else labels)]
    if len(names) != C:
        raise ValueError(f"labels has {len(names)} entries; expected {C}, one per class")
    if ax is None:
        ax = new_axes(figsize=(4.2, 4.2))
    total = counts.sum(axis=1, keepdims=True)
    share = 100 * np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=100, interpolation="nearest")
    if C <= MAX_WRITTEN:
        size = min(10.0, 60.0 / C)
        for i, j in zip(*np.nonzero(share >= 0.5), strict=True):
            color = "white" if share[i, j] > 55 else INK
            ax.text(j, i, f"{share[i, j]:.0f}", ha="center", va="center", fontsize=size, color=color)
        ax.set_xticks(range(C), names)
        ax.set_yticks(range(C), names)
    ax.set(xlabel="taken for", ylabel="true class")
    ax.tick_params(length=0)
    ax.spines[:].set_color(FAINT)
    if title is not None:
        ax.set_title(title)
    return ax


def training_curves(
    records: Mapping[str, Sequence[Any]], ax: Axes | None = None, *, which: str = "validation_accuracy"
) -> Axes:
    """How trainings went: for each model the mean over groups, in a band of one standard error over the groups' means.

    Runs of one group, such as the draws on one graph, are averaged first: they are not independent, and to divide by
    the root of their number would make the band too narrow. Several validations in an epoch are averaged, too: late in
    a training they jump between a few values.

    Parameters
    ----------
    records : dict of label -> groups
        Each group a list of records of :func:`evref.experiments.train.train`; a record in place of a list is a group of
        its own. Records without the curve are left out.
    ax : matplotlib Axes, optional
    which : {"validation_accuracy", "train_loss"}

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        No record has the curve.
    """
    names = {"validation_accuracy": "validation accuracy in percent", "train_loss": "training loss"}
    checks.as_choice("which", which, tuple(names))
    if ax is None:
        ax = new_axes(figsize=(6.4, 4.0))
    for number, (label, groups) in enumerate(records.items()):
        at, curves = _group_means(groups, which)
        if not len(curves):
            continue
        mean = curves.mean(axis=0)
        color = MANY[number % len(MANY)]
        dashed = (number + number // len(MANY)) % 2  # every other one: a curve below another shows between its dashes
        ax.plot(at, mean, color=color, linestyle="--" if dashed else "-", linewidth=1.6, label=label)
        if len(curves) > 1:
            error = curves.std(axis=0, ddof=1) / np.sqrt(len(curves))
            ax.fill_between(at, mean - error, mean + error, color=color, alpha=0.10, linewidth=0)
    if not ax.get_lines():
        raise ValueError(f"records has no {which}; expected records of trainings")
    ax.set(xlabel="epoch", ylabel=names[which])
    ax.locator_params(axis="x", integer=True)
    _plain(ax, "y")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _group_means(groups: Sequence[Any], which: str) -> tuple[np.ndarray, np.ndarray]:
    """Epochs, and the mean curve of each group that has one, (groups, points)."""
    at, means = np.zeros(0), []
    for group in groups:
        runs = [group] if isinstance(group, Mapping) else group
        some = [_by_epoch(record[which], record["epochs"]) for record in runs if record.get(which)]
        if some:
            at = some[0][0]
            means.append(np.mean([curve for _, curve in some], axis=0))
    return at, np.array(means)


def _by_epoch(curve: Sequence[float], epochs: int) -> tuple[np.ndarray, np.ndarray]:
    """Epochs and the means over their values; a curve with fewer values than epochs stays as it is.

    >>> _by_epoch([1.0, 3.0, 5.0, 7.0], 2)
    (array([1., 2.]), array([2., 6.]))
    >>> _by_epoch([1.0, 3.0], 5)
    (array([2.5, 5. ]), array([1., 3.]))
    """
    at = np.arange(1, len(curve) + 1) * epochs / len(curve)  # epochs that were done
    if len(curve) < epochs:
        return at, np.array(curve)
    epoch = np.ceil(at - 1e-9).astype(np.int64) - 1
    return np.arange(1.0, epochs + 1), np.bincount(epoch, curve) / np.bincount(epoch)


def _plain(ax: Axes, axis: str) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=axis, color="#e4e4e4", linewidth=0.8)  # type: ignore[arg-type]
    ax.set_axisbelow(True)
