"""Pictures of experiments: what is on them is what was measured."""

from __future__ import annotations

import itertools
import math

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.collections import PathCollection, PolyCollection
from toy_experiment import Toy, record

import evref as ev
from evref import plot
from evref.experiments.records import Task
from evref.experiments.source_localization import SourceLocalization
from evref.experiments.statistics import Row, rows
from evref.plot import report, style

GRID = ev.generators.grid(3, 4)
NAN = math.nan
ROWS = [
    Row("polynomial", "Polynomial", (74.55, 7.32), (80.0, 4.0), (70.0, 3.0), None, 10, 1, 1, 0.1),
    Row("ev", "Edge Variant (EV)", None, (90.0, NAN), (85.0, NAN), None, 1, 1, 1, 0.1),
    Row("spectral", "Spectral", None, (NAN, NAN), (NAN, NAN), None, 0, 0, 0, NAN),
]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return plt.figure().add_subplot()


# ---- accuracy ------------------------------------------------------------------------------------------------------
def bars(ax):
    """Means, places and ends of the bars, by label."""
    found = {}
    for container in ax.containers:
        line, _, (bar,) = container
        found[container.get_label()] = (*line.get_data(), [segment[:, 0].tolist() for segment in bar.get_segments()])
    return found


def test_accuracy_table_shows_every_figure_in_its_row(ax):
    assert plot.accuracy_table(ROWS, ax) is ax
    found = bars(ax)
    assert found["best on validation"][0].tolist() == [80, 90] and found["last weights"][0].tolist() == [70, 85]
    assert np.round(found["best on validation"][1]).tolist() == [2, 1], "the first row is on top"
    assert found["best on validation"][2] == [[76, 84], [90, 90]]
    assert found["paper"][0].tolist() == [74.55] and np.allclose(found["paper"][2], [[67.23, 81.87]])
    assert [text.get_text() for text in ax.get_yticklabels()] == [row.label for row in ROWS]
    low, high = ax.get_xlim()
    assert low < 67 and 100 < high < 105


def test_no_bar_is_cut_at_100_percent(ax):
    wide = ROWS[0]._replace(best=(93.0, 12.0), last=(4.0, 9.0))
    plot.accuracy_table([wide], ax)
    low, high = ax.get_xlim()
    assert bars(ax)["best on validation"][2] == [[81, 105]] and low < -5 and high > 105
    assert all(0 <= tick <= 100 for tick in ax.get_xticks())


def test_paired_differences_show_their_intervals(ax):
    rows = [
        ROWS[0],
        ROWS[1]._replace(difference=(5.0, 1.0, 9.0), difference_last=(7.0, NAN, NAN)),
        ROWS[2]._replace(difference=(NAN, NAN, NAN)),
    ]
    assert plot.paired_differences(rows, ax) is ax
    found = bars(ax)
    assert found["best on validation"][0].tolist() == [5] and found["best on validation"][2] == [[1, 9]]
    assert found["last weights"][2] == [[7, 7]], "no interval: the mean alone"
    assert np.round(found["last weights"][1]).tolist() == [1]
    assert any(list(line.get_xdata()) == [0, 0] for line in ax.get_lines()), "zero is marked"
    with pytest.raises(ValueError, match="rows is empty"):
        plot.paired_differences([])


def test_accuracy_table_with_nothing_yet_and_of_nothing():
    ax = plot.accuracy_table(ROWS[2:])
    assert not ax.containers and len(plt.get_fignums()) == 1
    with pytest.raises(ValueError, match="rows is empty; expected one Row per model"):
        plot.accuracy_table([])


# ---- confusion -----------------------------------------------------------------------------------------------------
def test_confusion_is_in_percent_of_the_true_class(ax):
    assert plot.confusion_matrix([[3, 1], [0, 0]], ["yes", "no"], ax) is ax
    (image,) = ax.get_images()
    assert np.array_equal(image.get_array(), [[75, 25], [0, 0]])
    assert {(t.get_position(), t.get_text()) for t in ax.texts} == {((0, 0), "75"), ((1, 0), "25")}
    assert [t.get_text() for t in ax.get_yticklabels()] == ["yes", "no"]


def test_confusion_of_many_classes_has_no_numbers():
    assert not plot.confusion_matrix(np.eye(13)).texts and len(plot.confusion_matrix(np.eye(12)).texts) == 12


@pytest.mark.parametrize(
    ("matrix", "labels", "message"),
    [
        (np.ones((2, 3)), None, r"matrix has shape \(2, 3\); expected \(C, C\)"),
        (-np.eye(2), None, "matrix has the entry -1; expected counts"),
        (np.eye(2), ["a"], "labels has 1 entries; expected 2"),
        ([[np.nan]], None, "matrix"),
    ],
)
def test_confusion_errors(matrix, labels, message):
    with pytest.raises(ValueError, match=message):
        plot.confusion_matrix(matrix, labels)


# ---- curves --------------------------------------------------------------------------------------------------------
def test_training_curves_are_means_with_their_standard_errors(ax):
    records = {
        "one": [{"epochs": 2, "validation_accuracy": [10.0, 30.0, 50.0, 70.0]}],
        "two": [{"epochs": 2, "validation_accuracy": [v, v]} for v in (40.0, 60.0)],
        "none": [{"epochs": 2}],
    }
    assert plot.training_curves(records, ax) is ax
    one, two = ax.get_lines()
    assert one.get_label() == "one" and one.get_xdata().tolist() == [1, 2] and one.get_ydata().tolist() == [20, 60]
    assert two.get_ydata().tolist() == [50, 50] and one.get_color() != two.get_color()
    (band,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    assert set(band.get_paths()[0].vertices[:, 1].round(6)) == {40, 60}
    assert ax.get_lines()[1].get_label() == "two"
    loss = plot.training_curves({"a": [{"epochs": 3, "train_loss": [3, 2, 1]}]}, which="train_loss")
    assert loss.get_ylabel() == "training loss"


def test_the_band_is_over_groups_not_over_runs(ax):
    """Ten runs on each of two graphs are two independent means, not twenty."""
    graphs = [[{"epochs": 1, "validation_accuracy": [v + d]} for d in (-5.0, 5.0) * 5] for v in (40.0, 60.0)]
    plot.training_curves({"ev": graphs}, ax)
    (band,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    assert set(band.get_paths()[0].vertices[:, 1].round(6)) == {40, 60}  # 50 ± 14.14 / √2


def test_a_curve_under_another_is_seen_between_its_dashes(ax):
    run = [{"epochs": 2, "train_loss": [2.0, 1.0]}]
    plot.training_curves({f"model {i}": run for i in range(len(style.MANY) + 2)}, ax, which="train_loss")
    looks = [(line.get_color(), line.get_linestyle()) for line in ax.get_lines()]
    assert len(set(looks)) == len(looks), "colour and dashes together tell every two apart"
    first = [line for _, line in looks[: len(style.MANY)]]
    assert all(one != other for one, other in itertools.pairwise(first)), "models of one kind are neighbours"


def test_losses_are_labelled_with_plain_numbers(ax):
    ax.plot([1, 2], [1.6, 0.4])
    report._log_scale(ax)
    ax.figure.canvas.draw()
    shown = {text.get_text() for text in (*ax.get_yticklabels(), *ax.get_yticklabels(minor=True))}
    assert {"1", "0.4", "0.6"} <= shown and not any("^" in text for text in shown)


def test_training_curves_errors(ax):
    with pytest.raises(ValueError, match="records has no train_loss"):
        plot.training_curves({"a": [{"epochs": 3}]}, ax, which="train_loss")
    with pytest.raises(ValueError, match="which is 'best'; expected one of"):
        plot.training_curves({}, ax, which="best")


# ---- what was learned ----------------------------------------------------------------------------------------------
def coloured(ax):
    """Widths of the drawn halves of edges, and of the rings."""
    rings = next(c for c in ax.collections if isinstance(c, PathCollection))
    return next(c for c in ax.collections if c.get_zorder() == 2).get_linewidths(), rings.get_linewidths()


def test_edge_weights_shows_all_or_the_strongest(ax):
    phi = np.random.default_rng(0).uniform(1, 2, GRID.nnz)
    phi[5] = -9
    assert plot.edge_weights(GRID, phi, ax, colorbar=False) is ax
    assert (np.array(coloured(ax)[0]) > 0).sum() == GRID.n_edges
    only = plot.edge_weights(GRID, phi, strongest=1, limit=9, colorbar=False)
    halves, rings = coloured(only)
    assert (np.array(halves) > 0).sum() + (np.array(rings) > 0.8).sum() == 1
    assert max(*halves, *rings) == style.WIDTHS[1], "the one is the largest, not some other"
    with pytest.raises(ValueError, match=r"phi has shape \(3,\)"):
        plot.edge_weights(GRID, np.ones(3))


def test_transfer_of_a_filter_names_output_and_input_and_draws_lines_where_h_is_real(ax):
    for filt in (
        ev.Polynomial(GRID, 2, in_features=2, out_features=2),
        ev.SpectralGCNN(GRID, 4, in_features=2, out_features=2),
    ):
        ax.clear()
        params = filt.init(rng=0)
        assert plot.transfer(filt, params, ax) is ax
        assert ax.get_legend().get_title().get_text() == "output ← input"
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["0 ← 0", "0 ← 1", "1 ← 0", "1 ← 1"]
        lines = [line for line in ax.get_lines() if len(line.get_xdata()) == 400]
        for line, h in zip(lines, filt.response(params, lines[0].get_xdata()).reshape(4, -1), strict=True):
            assert np.allclose(line.get_ydata(), h)
    arma = ev.ARMA(ev.generators.cycle(5, directed=True), iterations=20)
    ax.clear()
    plot.transfer(arma, arma.init(rng=0), ax)
    assert ax.get_ylabel() == "|h(λ)|" and not [line for line in ax.get_lines() if len(line.get_xdata()) == 400]


def test_responses_has_a_curve_per_feature_at_the_eigenvalues(ax):
    filt = ev.Polynomial(GRID, 1, out_features=3)
    params = {"phi": np.array([[1.0, 0, 2], [0, 1, 1]])[:, :, None]}  # 1, λ, 2 + λ
    assert plot.responses(filt, params, ax) is ax
    eigenvalues = np.sort(np.linalg.eigvalsh(GRID.S.toarray()))
    curves = [line for line in ax.get_lines() if len(line.get_xdata()) == 12]
    assert all(line.get_linestyle() == "None" and line.get_marker() == "o" for line in curves), "markers alone"
    assert len(curves) == 3 and len({line.get_color() for line in curves}) == 3
    for line, h in zip(curves, (1 + 0 * eigenvalues, eigenvalues, 2 + eigenvalues), strict=True):
        assert np.allclose(line.get_xdata(), eigenvalues) and np.allclose(line.get_ydata(), h)
    assert not [c for c in ax.collections if len(c.get_paths())], "no stems"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["feature 1", "feature 2", "feature 3"]


@pytest.mark.parametrize("cls", [ev.Polynomial, ev.Chebyshev, ev.ARMA, ev.CayleyNet, ev.SpectralGCNN])
def test_between_the_eigenvalues_the_line_is_h(ax, cls):
    graph = ev.generators.path(9).with_shift("normalized_adjacency")
    filt = cls(graph, 4)
    params = filt.init(rng=3)
    plot.responses(filt, params, ax, points=200)
    (line,) = (line for line in ax.get_lines() if len(line.get_xdata()) == 200)
    grid = line.get_xdata()
    assert np.allclose(line.get_ydata(), filt.response(params, grid)[0, 0]) and np.ptp(line.get_ydata()) > 0
    # an independent h: on a graph whose eigenvalues are the points of the line, where the filter does not know them
    if not isinstance(filt, ev.SpectralGCNN):  # (its spline belongs to the eigenvalues of its own graph)
        other = type(filt)(ev.Graph(np.diag(grid[1::50])), 4)
        assert np.allclose(np.sort(other.response(params)[0, 0]), np.sort(line.get_ydata()[1::50]))


def test_without_h_between_the_eigenvalues_there_are_markers_alone(ax):
    filt = ev.ShiftInvariantEdgeVariant(GRID, 2)
    plot.responses(filt, filt.init(rng=0), ax)
    drawn = [line for line in ax.get_lines() if len(line.get_xdata()) != 2]
    assert len(drawn) == 1 and drawn[0].get_linestyle() == "None"


def test_strongest_weights_names_the_nodes_they_join(ax):
    graph = ev.generators.erdos_renyi(60, 0.5, rng=0)
    phi = np.random.default_rng(0).uniform(-1, 1, graph.nnz)
    rows = np.repeat(np.arange(60), np.diff(graph.indptr))
    chosen = np.flatnonzero(rows != graph.indices)[[5, 100]]
    phi[chosen] = 7, -8
    names = [f"w{i}" for i in range(60)]
    assert plot.strongest_weights(graph, phi, ax, count=2, names=names, colorbar=False) is ax
    ends = {names[i] for i in (*rows[chosen], *graph.indices[chosen])}
    assert {text.get_text() for text in ax.texts} == ends and len(ax.patches) == 2
    ax.clear()
    plot.strongest_weights(ev.Graph(graph.S, nodes=names), phi, ax, count=2, colorbar=False)
    assert {text.get_text() for text in ax.texts} == ends
    with pytest.raises(ValueError, match="labels has 3 entries; expected 60"):
        plot.strongest_weights(graph, phi, ax, names=["a", "b", "c"])


def test_support_of_some_nodes_by_name(ax):
    phi = np.arange(1.0, GRID.nnz + 1)
    plot.support(GRID, phi, ax, nodes=[4, 0], labels=[f"n{i}" for i in range(12)], colorbar=False)
    expected = GRID.to_csr(phi).toarray()[np.ix_([4, 0], [4, 0])]
    assert np.array_equal(ax.get_images()[0].get_array().filled(0), expected)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["n4", "n0"]


# ---- all of a run --------------------------------------------------------------------------------------------------
def test_pictures_of_records_without_curves_and_networks():
    toy = Toy()
    records = {Task.of("ev", {"group": 3, "draw": 0}): record(80.0, 70.0)}
    assert [name for name, _ in report.pictures(toy, rows(toy, records), records)] == ["accuracy"]


def test_pictures_of_a_run_show_the_weights_that_it_tested():
    experiment = SourceLocalization(
        models=("polynomial", "ev"), graphs=1, data=1, epochs=3, train_samples=2000, learning_rate=0.02
    )
    cell = experiment.cells()[0]
    net, params = experiment.trained("ev", cell)
    made = {Task.of(model, cell): experiment.run(model, cell) for model in experiment.models}
    data = experiment.splits(cell)
    right = 100 * ev.accuracy(net.predict(params, data.x_test), data.y_test)
    assert math.isclose(right, made[Task.of("ev", cell)]["best"], abs_tol=1e-3)
    assert made[Task.of("ev", cell)]["best"] != made[Task.of("ev", cell)]["last"], "choose others: this sees nothing"
    figures = dict(report.pictures(experiment, rows(experiment, made), made))
    assert list(figures) == ["accuracy", "confusion", "curves", "weights", "responses"]
    assert [ax.get_title() for ax in figures["confusion"].axes] == ["Polynomial", "Edge Variant (EV)"]
    matrices = [ax for ax in figures["weights"].axes if ax.get_images()]
    phi = params["0.phi"][:, :, 0]
    strongest = phi[:, (phi**2).sum(axis=(0, 2)).argmax()]
    graph = net.layers[0].graph
    for ax, expected in zip(matrices, strongest, strict=True):
        assert np.allclose(ax.get_images()[0].get_array().filled(0), graph.to_csr(expected).toarray())
    failed = {Task.of("ev", cell): {"error": "out of luck"}}
    assert [name for name, _ in report.pictures(experiment, rows(experiment, failed), failed)] == ["accuracy"]
