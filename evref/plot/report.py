"""The pictures that go with the table of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments.experiment import Experiment
from ..experiments.models import LABELS
from ..experiments.records import Record, Task
from ..experiments.statistics import Row
from ..graph import Graph
from .graphs import support
from .learned import edge_weights, responses, strongest_weights
from .results import accuracy_table, confusion_matrix, paired_differences, training_curves
from .style import EDGE_MAP, bar, outer, pyplot, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Runs = dict[str, list[list[Record]]]  # label of the model -> groups of its records
FEW_LINES = 400  # entries of S: up to here a drawing of the graph shows them all, beyond it matrices and the largest
MANY_NODES = 60  # up to here a matrix shows every node, beyond it those with the largest parameters
SHOWN_NODES = 30  # how many these are
DRAWN = 30  # how many parameters are the largest
WITH_RESPONSE = ("polynomial", "spectral")


def pictures(
    experiment: Experiment, rows: Sequence[Row], records: Mapping[Task, Record]
) -> Iterator[tuple[str, Figure]]:
    """Names and figures, one at a time; those for which there is nothing to draw are left out.

    "accuracy", "confusion" and "curves" come from the records. "weights" and "responses" show what was learned on the
    first cell: records hold no weights, so that its models are trained once more.
    """
    runs: Runs = {row.label: _grouped(records, row.model) for row in rows}
    everything = [record for groups in runs.values() for group in groups for record in group]
    yield "accuracy", _accuracies(rows)
    if any("confusion" in record for record in everything):
        yield "confusion", _confusions(runs, experiment.classes)
    cell = experiment.cells()[0]
    if any(record.get("train_loss") for record in everything):
        yield "curves", _curves(runs, next(iter(cell)))
    there = [model for model in experiment.models if "best" in records.get(Task.of(model, cell), {})]
    if "ev" in there:
        yield "weights", _weights(experiment, cell)
    with_response = [model for model in WITH_RESPONSE if model in there]
    if with_response:
        yield "responses", _responses(experiment, cell, with_response)


def _grouped(records: Mapping[Task, Record], model: str) -> list[list[Record]]:
    """The records of a model, those of one graph (or split) together."""
    groups: dict[int, list[Record]] = {}
    for task, record in records.items():
        if task.model == model and "error" not in record:
            groups.setdefault(task.cell[0][1], []).append(record)
    return list(groups.values())


def _accuracies(rows: Sequence[Row]) -> Figure:
    """Accuracies, and beside them the paired differences where there are some."""
    if not any(row.difference for row in rows):
        return accuracy_table(rows).figure  # type: ignore[return-value]
    figure, axes = pyplot().subplots(
        1, 2, figsize=(12, 0.46 * len(rows) + 1.7), layout="constrained", width_ratios=(1.25, 1)
    )
    accuracy_table(rows, axes[0])
    paired_differences(rows, axes[1], labels=False)
    return figure


def _confusions(runs: Runs, classes: tuple[str, ...]) -> Figure:
    """A matrix per model, added up over its runs."""
    sums = {
        label: np.sum([record["confusion"] for group in groups for record in group], axis=0)
        for label, groups in runs.items()
        if groups
    }
    columns = min(4, len(sums))
    lines = -(-len(sums) // columns)
    figure, axes = pyplot().subplots(
        lines, columns, figsize=(3.1 * columns, 3.3 * lines), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(sums) :]:
        ax.set_visible(False)
    for number, (ax, (label, matrix)) in enumerate(zip(axes.flat, sums.items(), strict=False)):
        confusion_matrix(matrix, classes or None, ax)
        ax.set_title(label, fontsize="medium")
        if number % columns:
            ax.set_ylabel("")
            ax.tick_params(labelleft=False)
        if number + columns < len(sums):  # another one below
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
    figure.get_layout_engine().set(h_pad=0.1, hspace=0.04)
    figure.supxlabel("percent of each true class, all runs together, weights best on validation", fontsize="small")
    return figure


def _curves(runs: Runs, unit: str) -> Figure:
    """Losses and accuracies; `unit` is what a group is, such as a graph."""
    figure, axes = pyplot().subplots(1, 2, figsize=(11.5, 4.2), layout="constrained")
    for ax, which in zip(axes, ("train_loss", "validation_accuracy"), strict=True):
        training_curves(runs, ax, which=which)
    _log_scale(axes[0])
    axes[0].get_legend().remove()
    handles, labels = axes[1].get_legend_handles_labels()
    axes[1].get_legend().remove()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")
    groups = max(len(some) for some in runs.values())
    draws = max(len(group) for some in runs.values() for group in some)
    averaged = f" (of their means over {draws} runs)" if draws > 1 else ""
    band = f"; band: ± one standard error over the {groups} {unit}s" if groups > 1 else ""
    figure.supxlabel(f"line: mean over {groups} {unit}{'s' * (groups > 1)}{averaged}{band}", fontsize="small")
    return figure


def _log_scale(ax: Axes) -> None:
    """Losses as plain numbers, those between the powers of ten too where there is hardly more than one power."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_formatter("{x:g}")
    if high < 30 * low:
        ax.yaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "12468" else "")


def _weights(experiment: Experiment, cell: dict[str, int]) -> Figure:
    """Φ⁽¹⁾, …, Φ⁽ᴷ⁾ of the edge-variant filter with the largest parameters.

    On the graph if it is sparse. Else, for each Φ, as a matrix and the largest entries as arrows between named nodes.
    """
    net, params = experiment.trained("ev", cell)
    graph = net.layers[0].graph  # type: ignore[attr-defined]
    bank = params["0.phi"][:, :, 0]  # (K, F, nnz)
    f = int((bank**2).sum(axis=(0, 2)).argmax())
    phi = bank[:, f]
    limit = float(np.quantile(np.abs(phi), 0.995)) or 1.0  # a few outliers would leave the rest pale
    dense = graph.n_edges > FEW_LINES
    drawn = _matrices_and_arrows if dense else _on_the_graph
    figure = drawn(experiment, cell, graph, phi, limit)
    plt = pyplot()
    cmap, norm = scale(plt, EDGE_MAP, "limit", limit, None)
    bar(list(figure.axes), cmap if dense else outer(cmap), norm, "parameter φ")
    where = ", ".join(f"{key} {value}" for key, value in cell.items())
    figure.suptitle(f"Edge variant, {where}, feature {f + 1} of {bank.shape[1]}", fontsize="medium")
    return figure


def _on_the_graph(experiment: Experiment, cell: dict[str, int], graph: Graph, phi: np.ndarray, limit: float) -> Figure:
    columns = min(2, len(phi))
    lines = -(-len(phi) // columns)
    figure, axes = pyplot().subplots(
        lines, columns, figsize=(4.4 * columns + 1, 4.4 * lines), layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(phi) :]:
        ax.set_visible(False)
    positions = experiment.positions(cell)
    for k, ax in enumerate(axes.flat[: len(phi)]):
        edge_weights(graph, phi[k], ax, positions=positions, limit=limit, colorbar=False)
        ax.set_title(f"$\\Phi^{{({k + 1})}}$")
    reading = "an edge's half at a node is how that node weighs the other, a node's ring how it weighs itself"
    figure.supxlabel(reading, fontsize="small")
    return figure


def _matrices_and_arrows(
    experiment: Experiment, cell: dict[str, int], graph: Graph, phi: np.ndarray, limit: float
) -> Figure:
    few = graph.n_nodes <= MANY_NODES
    shape = (2, len(phi)) if len(phi) > 1 else (1, 2)  # a matrix above its arrows, or beside them
    figure, axes = pyplot().subplots(
        *shape, figsize=(4.6 * shape[1] + 1, 4.7 * shape[0] + 0.3), layout="constrained", squeeze=False
    )
    for k, (matrix, arrows) in enumerate(axes.T if len(phi) > 1 else [axes[0]]):
        matrix.set_title(f"$\\Phi^{{({k + 1})}}$")
        chosen = None if few else _loudest(graph, phi[k])
        support(graph, phi[k], matrix, limit=limit, colorbar=False, nodes=chosen)
        strongest_weights(graph, phi[k], arrows, count=DRAWN, limit=limit, colorbar=False)
    which = "" if few else f"matrix: the {SHOWN_NODES} nodes with the largest sums of squares; "
    figure.supxlabel(f"{which}arrows: the {DRAWN} largest entries, j → i is φ_ij, a ring φ_ii", fontsize="small")
    return figure


def _loudest(graph: Graph, phi: np.ndarray) -> np.ndarray:
    """The nodes whose rows and columns of Φ hold the most, in the order of the graph."""
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    power = np.bincount(rows, phi**2, graph.n_nodes) + np.bincount(graph.indices, phi**2, graph.n_nodes)
    return np.sort(np.argsort(-power, kind="stable")[:SHOWN_NODES])


def _responses(experiment: Experiment, cell: dict[str, int], models: list[str]) -> Figure:
    figure, axes = pyplot().subplots(
        1, len(models), figsize=(5.2 * len(models) + 1.2, 4.0), layout="constrained", squeeze=False
    )
    for ax, model in zip(axes.flat, models, strict=True):
        net, params = experiment.trained(model, cell)
        filt: Any = net.layers[0]
        responses(filt, {name.removeprefix("0."): a for name, a in params.items() if name.startswith("0.")}, ax)
        ax.set_title(LABELS[model])
        ax.get_legend().remove()
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.supxlabel("line: h(λ); markers: the eigenvalues of S", fontsize="small")
    return figure
