"""The pictures that go with the table of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments.experiment import Experiment
from ..experiments.models import LABELS
from ..experiments.records import Record, Task
from ..experiments.statistics import Row
from .graphs import support
from .results import accuracy_table, confusion_matrix, edge_weights, responses, training_curves
from .style import EDGE_MAP, bar, outer, pyplot, scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = dict[str, list[Record]]  # label of the model -> its records
FEW_LINES = 400  # entries of S: up to here a drawing of the graph shows them all
MANY_LINES = 2000  # up to here it shows the largest, and the rest in grey
DRAWN = 80  # how many are the largest
WITH_RESPONSE = ("polynomial", "spectral")


def pictures(
    experiment: Experiment, rows: Sequence[Row], records: Mapping[Task, Record]
) -> Iterator[tuple[str, Figure]]:
    """Names and figures, one at a time; those for which there is nothing to draw are left out.

    "accuracy", "confusion" and "curves" come from the records. "weights" and "responses" show what was learned on the
    first cell: records hold no weights, so that its models are trained once more.
    """
    runs: Runs = {
        row.label: [r for t, r in records.items() if t.model == row.model and "error" not in r] for row in rows
    }
    yield "accuracy", accuracy_table(rows).figure  # type: ignore[misc]
    if any("confusion" in record for some in runs.values() for record in some):
        yield "confusion", _confusions(runs, experiment.classes)
    if any(record.get("train_loss") for some in runs.values() for record in some):
        yield "curves", _curves(runs)
    cell = experiment.cells()[0]
    there = [model for model in experiment.models if "best" in records.get(Task.of(model, cell), {})]
    if "ev" in there:
        yield "weights", _weights(experiment, cell)
    with_response = [model for model in WITH_RESPONSE if model in there]
    if with_response:
        yield "responses", _responses(experiment, cell, with_response)


def _confusions(runs: Runs, classes: tuple[str, ...]) -> Figure:
    """A matrix per model, added up over its runs."""
    sums = {label: np.sum([r["confusion"] for r in some], axis=0) for label, some in runs.items() if some}
    columns = min(4, len(sums))
    lines = -(-len(sums) // columns)
    figure, axes = pyplot().subplots(
        lines, columns, figsize=(3.1 * columns, 3.3 * lines), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(sums) :]:
        ax.set_visible(False)
    for ax, (label, matrix) in zip(axes.flat, sums.items(), strict=False):
        confusion_matrix(matrix, classes or None, ax)
        ax.set_title(label, fontsize="medium")
        ax.label_outer()
    figure.get_layout_engine().set(h_pad=0.1, hspace=0.04)
    figure.supxlabel("percent of each true class, all runs together, weights best on validation", fontsize="small")
    return figure


def _curves(runs: Runs) -> Figure:
    figure, axes = pyplot().subplots(1, 2, figsize=(11.5, 4.2), layout="constrained")
    for ax, which in zip(axes, ("train_loss", "validation_accuracy"), strict=True):
        training_curves(runs, ax, which=which)
    axes[0].set_yscale("log")
    axes[0].get_legend().remove()
    handles, labels = axes[1].get_legend_handles_labels()
    axes[1].get_legend().remove()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")
    figure.supxlabel("mean over the runs ± standard error", fontsize="small")
    return figure


def _weights(experiment: Experiment, cell: dict[str, int]) -> Figure:
    """Φ⁽¹⁾, …, Φ⁽ᴷ⁾ of the edge-variant filter with the largest parameters.

    On the graph if it is sparse, as matrices if it is dense; in between as matrices, and the largest on the graph.
    """
    net, params = experiment.trained("ev", cell)
    graph = net.layers[0].graph  # type: ignore[attr-defined]
    bank = params["0.phi"][:, :, 0]  # (K, F, nnz)
    f = int((bank**2).sum(axis=(0, 2)).argmax())
    phi = bank[:, f]
    matrices, drawn = graph.n_edges > FEW_LINES, graph.n_edges <= MANY_LINES
    plt = pyplot()
    size = (3.4 * len(phi) + 1.2, 3.5 * (matrices + drawn) + 0.6)
    figure, axes = plt.subplots(matrices + drawn, len(phi), figsize=size, layout="constrained", squeeze=False)
    limit = float(np.quantile(np.abs(phi), 0.995)) or 1.0  # a few outliers would leave the rest pale
    positions = experiment.positions(cell)
    for k, column in enumerate(axes.T):
        column[0].set_title(f"$\\Phi^{{({k + 1})}}$")
        if matrices:
            support(graph, phi[k], column[0], limit=limit, colorbar=False)
            if k > 0:
                column[0].set(ylabel="", yticklabels=[])
        if drawn:
            strongest = DRAWN if matrices else None
            edge_weights(
                graph, phi[k], column[-1], positions=positions, strongest=strongest, limit=limit, colorbar=False
            )
    cmap, norm = scale(plt, EDGE_MAP, "limit", limit, None)
    bar(list(axes.flat), cmap if matrices else outer(cmap), norm, "parameter φ")
    where = ", ".join(f"{key} {value}" for key, value in cell.items())
    figure.suptitle(f"Edge variant, {where}, feature {f + 1} of {bank.shape[1]}", fontsize="medium")
    if drawn:
        which = f"the {DRAWN} largest on the graph; " if matrices else ""
        reading = "an edge's half at a node is how that node hears the other, a node's ring how it hears itself"
        figure.supxlabel(which + reading, fontsize="small")
    return figure


def _responses(experiment: Experiment, cell: dict[str, int], models: list[str]) -> Figure:
    figure, axes = pyplot().subplots(
        1, len(models), figsize=(5.2 * len(models), 3.8), layout="constrained", squeeze=False
    )
    for ax, model in zip(axes.flat, models, strict=True):
        net, params = experiment.trained(model, cell)
        filt: Any = net.layers[0]
        responses(filt, {name.removeprefix("0."): a for name, a in params.items() if name.startswith("0.")}, ax)
        ax.set_title(LABELS[model])
    return figure
