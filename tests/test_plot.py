from __future__ import annotations

import builtins
import sys

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.patches import FancyArrowPatch

import evref as ev
from evref import plot
from evref.plot import style

RNG = np.random.default_rng(0)
GRID = ev.generators.grid(3, 4)
DIRECTED = ev.Graph.from_edges(4, source=[0, 1, 2, 1], target=[1, 0, 0, 3])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return plt.figure().add_subplot()


def nodes(ax) -> PathCollection:
    (found,) = (c for c in ax.collections if isinstance(c, PathCollection))
    return found


def lines(ax) -> list[LineCollection]:
    return [c for c in ax.collections if isinstance(c, LineCollection)]


def arrows(ax) -> list[FancyArrowPatch]:
    return [p for p in ax.patches if isinstance(p, FancyArrowPatch)]


# ---- layout --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "graph",
    [
        ev.generators.path(9),
        ev.generators.cycle(8),
        ev.generators.star(7),
        ev.generators.complete(6),
        GRID,
        DIRECTED,
        ev.Graph(np.zeros((5, 5))),
        ev.Graph([[0, -1], [1, 0]]),
        ev.Graph([[0]]),
    ],
)
def test_layout_is_deterministic_bounded_and_keeps_nodes_apart(graph):
    positions = plot.layout(graph)
    assert positions.shape == (graph.n_nodes, 2)
    assert np.array_equal(positions, plot.layout(graph))
    assert np.abs(positions).max() <= 1 + 1e-12
    gaps = np.hypot(*(positions[:, None] - positions[None]).T) + np.eye(graph.n_nodes)
    assert gaps.min() > 0.05


def test_layout_follows_distance_on_the_graph():
    positions = plot.layout(ev.generators.path(10))
    on_paper = np.hypot(*(positions - positions[0]).T)
    assert np.all(np.diff(on_paper) > 0)


def test_layout_refuses_large_graphs():
    with pytest.raises(ValueError, match=r"positions is None and the graph has 2001 nodes"):
        plot.graph(ev.generators.path(2001))


# ---- graph ---------------------------------------------------------------------------------------------------------
def test_graph_makes_a_figure_and_draws_every_node_and_edge():
    ax = plot.graph(GRID)
    assert len(plt.get_fignums()) == 1 and ax.figure.axes == [ax]
    assert len(nodes(ax).get_offsets()) == 12
    (edges,) = lines(ax)
    assert len(edges.get_segments()) == GRID.n_edges // 2
    assert not arrows(ax)


def test_graph_honours_ax_and_positions(ax):
    positions = RNG.uniform(-3, 5, (12, 2))
    figures = plt.get_fignums()
    assert plot.graph(GRID, positions=positions, ax=ax) is ax
    assert plt.get_fignums() == figures
    assert np.allclose(nodes(ax).get_offsets(), positions)
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    assert np.all(low < positions.min(axis=0)) and np.all(high > positions.max(axis=0))


def test_node_colours_follow_values(ax):
    values = np.linspace(-2, 2, 12)
    plot.graph(GRID, values, ax=ax)
    colors = nodes(ax).get_facecolors()
    assert np.allclose(colors, plt.get_cmap(style.NODE_MAP)((values + 2) / 4))
    assert colors[0, 2] > colors[0, 0] and colors[-1, 0] > colors[-1, 2]  # negative blue, positive red


def test_limit_sets_the_scale_and_zero_is_its_middle(ax):
    plot.graph(GRID, np.full(12, 1.0), ax=ax, limit=4)
    assert np.allclose(nodes(ax).get_facecolors(), plt.get_cmap(style.NODE_MAP)(5 / 8))
    middle = plt.get_cmap(style.NODE_MAP)(0.5)
    assert np.allclose(nodes(plot.graph(GRID, np.zeros(12))).get_facecolors(), middle)


def test_half_at_a_node_shows_how_it_hears_the_other(ax):
    pair = ev.generators.path(2)
    phi = np.zeros(pair.nnz)
    phi[pair.to_csr(np.arange(4.0)).toarray()[1, 0].astype(int)] = -1.0  # phi_10: node 1 hears node 0
    positions = np.array([[0.0, 0.0], [2.0, 0.0]])
    plot.graph(pair, positions=positions, edge_values=phi, ax=ax)
    halves = lines(ax)[1]
    widths, segments = halves.get_linewidths(), halves.get_segments()
    assert np.count_nonzero(widths) == 1
    assert np.array_equal(segments[int(np.argmax(widths))], [[2, 0], [1, 0]])
    color = halves.get_colors()[int(np.argmax(widths))]
    assert np.allclose(color, plt.get_cmap(style.EDGE_MAP)(0.0))


def test_widths_grow_with_absolute_parameters_and_rings_show_the_diagonal(ax):
    phi = RNG.standard_normal(GRID.nnz)
    phi[GRID.diagonal[0]] = 0
    plot.graph(GRID, edge_values=phi, ax=ax)
    widths = lines(ax)[1].get_linewidths()
    assert np.all(np.diff(widths) >= 0) and widths[-1] <= style.WIDTHS[1]  # drawn from weak to strong
    rings = nodes(ax).get_linewidths()
    assert np.array_equal(np.argsort(rings[1:]), np.argsort(np.abs(phi[GRID.diagonal[1:]])))
    assert rings[0] == 0.8


def test_directed_graphs_get_arrows_from_source_to_target(ax):
    phi = np.arange(1.0, DIRECTED.nnz + 1)
    positions = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    plot.graph(DIRECTED, positions=positions, edge_values=phi, ax=ax)
    ends = {tuple(map(tuple, arrow._posA_posB)) for arrow in arrows(ax)}
    assert ends == {tuple(map(tuple, positions[[j, i]])) for i, j in zip(*DIRECTED.S.nonzero(), strict=True)}
    bent = [arrow.get_connectionstyle().rad for arrow in arrows(ax)]
    assert np.count_nonzero(bent) == 2  # 0 -> 1 and 1 -> 0


def test_arrows_can_be_forced_and_leave_out_zeros(ax):
    phi = np.ones(GRID.nnz)
    phi[: GRID.nnz // 2] = 0
    plot.graph(GRID, edge_values=phi, arrows=True, ax=ax)
    rows = np.repeat(np.arange(12), np.diff(GRID.indptr))
    off = rows != GRID.indices
    assert len(arrows(ax)) == np.count_nonzero(phi[off])
    assert len(lines(ax)[0].get_segments()) == np.count_nonzero(phi[off] == 0)


def test_labels_title_and_colorbars():
    ax = plot.graph(GRID, np.ones(12), edge_values=np.ones(GRID.nnz), labels=True, title="grid", colorbar=True)
    assert [text.get_text() for text in ax.texts] == [str(i) for i in range(12)]
    assert ax.get_title() == "grid"
    assert len(ax.figure.axes) == 3
    named = plot.graph(DIRECTED, labels="abcd")
    assert [text.get_text() for text in named.texts] == list("abcd")


def test_names_are_written_where_there_is_room_or_they_are_asked_for():
    def written(n_nodes, **options):
        graph = ev.Graph(ev.generators.path(n_nodes).S, nodes=[f"n{i}" for i in range(n_nodes)])
        drawn = [text.get_text() for text in plot.graph(graph, **options).texts]
        return drawn == list(graph.nodes) if drawn else False

    assert written(30) and not written(31) and written(31, labels=True) and not written(30, labels=False)
    assert not plot.graph(GRID).texts


def test_long_names_can_be_read_on_dark_nodes_and_on_paper():
    graph = ev.Graph(ev.generators.path(2).S, nodes=["a", "a long name"])
    short, long = plot.graph(graph, [1.0, 1.0]).texts
    assert short.get_color() == "white" and not short.get_path_effects()
    assert long.get_color() != "white" and long.get_path_effects()


def test_the_support_says_names():
    graph = ev.Graph(ev.generators.path(3).S, nodes=["ann", "bob", "cyd"])
    for chosen, expected in ((None, ["ann", "bob", "cyd"]), ([2, 0], ["cyd", "ann"])):
        ax = plot.support(graph, nodes=chosen)
        assert [label.get_text() for label in ax.get_xticklabels()] == expected
        assert [label.get_text() for label in ax.get_yticklabels()] == expected
    large = ev.Graph(ev.generators.path(61).S, nodes=[f"n{i}" for i in range(61)])
    assert "n0" not in [label.get_text() for label in plot.support(large).get_xticklabels()]


def test_single_node_and_no_edges():
    assert len(nodes(plot.graph(ev.Graph([[0]]), [3.0], edge_values=[1.0])).get_offsets()) == 1
    assert len(nodes(plot.graph(ev.Graph(np.zeros((4, 4))))).get_offsets()) == 4


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"values": np.ones(5)}, ValueError, r"values has shape \(5,\); expected \(12,\), one per node"),
        ({"edge_values": np.ones(5)}, ValueError, r"edge_values has shape \(5,\); expected \(46,\)"),
        ({"positions": np.ones((12, 3))}, ValueError, r"positions has shape \(12, 3\); expected \(12, 2\)"),
        ({"positions": np.full((12, 2), np.nan)}, ValueError, "positions has 24 value"),
        ({"values": np.full(12, np.inf)}, ValueError, "values has 12 value"),
        ({"labels": "ab"}, ValueError, "labels has 2 entries; expected 12"),
        ({"limit": 0}, ValueError, "limit is 0"),
        ({"edge_limit": -1.0}, ValueError, "edge_limit is -1"),
        ({"values": ["a"] * 12}, TypeError, "values has dtype"),
        ({"arrows": 1}, TypeError, "arrows is 1"),
    ],
)
def test_graph_names_what_is_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        plot.graph(GRID, **arguments)


def test_graph_wants_a_graph():
    with pytest.raises(TypeError, match=r"graph is numpy\.ndarray; expected an evref\.Graph"):
        plot.graph(np.eye(3))
    with pytest.raises(TypeError, match=r"graph is list; expected an evref\.Graph"):
        plot.support([[0]])


# ---- support -------------------------------------------------------------------------------------------------------
def test_support_shows_phi_where_it_may_be_and_nothing_elsewhere(ax):
    phi = RNG.standard_normal(DIRECTED.nnz)
    assert plot.support(DIRECTED, phi, ax) is ax
    (image,) = ax.images
    shown = image.get_array()
    assert np.array_equal(shown.filled(0), DIRECTED.to_csr(phi).toarray())
    assert np.array_equal(~shown.mask, DIRECTED.to_csr(np.ones(DIRECTED.nnz)).toarray() == 1)
    assert np.isclose(image.norm.vmax, np.abs(phi).max()) and image.norm.vmin == -image.norm.vmax
    assert len(ax.figure.axes) == 2  # with its scale


def test_support_without_phi_tells_nodes_from_edges():
    ax = plot.support(DIRECTED)
    shown = ax.images[0].get_array()
    assert np.array_equal(np.diag(shown), np.zeros(4))
    assert np.array_equal(shown.filled(0) == 1, DIRECTED.S.toarray() != 0)
    assert len(ax.figure.axes) == 1


def test_support_errors():
    with pytest.raises(ValueError, match=r"phi has shape \(3,\); expected \(8,\)"):
        plot.support(DIRECTED, np.ones(3))
    with pytest.raises(ValueError, match="expected at most 4000"):
        plot.support(ev.generators.path(4001))


# ---- states and cotangents -----------------------------------------------------------------------------------------
def shown(axes) -> list[np.ndarray]:
    """Signals, read back from the colours through the scale that is drawn beside them."""
    return [np.asarray(nodes(ax).get_facecolors()) for ax in axes]


def coloured(signals, limit) -> list[np.ndarray]:
    return [plt.get_cmap(style.NODE_MAP)((np.asarray(s) / limit + 1) / 2) for s in signals]


@pytest.mark.parametrize(("zeroth", "panels"), [("none", 4), ("identity", 4), ("diagonal", 5)])
def test_states_are_those_of_the_filter(zeroth, panels):
    filt = ev.EdgeVariant(DIRECTED, order=2, in_features=2, out_features=3, zeroth=zeroth)
    params, x = filt.init(rng=0), RNG.standard_normal((2, 4))
    axes = plot.states(filt, params, x, feature=(2, 1))
    assert axes.shape == (panels,)
    y = filt.matrix(params)[2, 1] @ x[1]
    w = x[1] if zeroth != "diagonal" else params["phi0"][2, 1] * x[1]
    states = [w]
    for k in range(2):
        states.append(DIRECTED.to_csr(params["phi"][k, 2, 1]) @ states[-1])
    expected = [x[1], *states[zeroth != "diagonal" :], y]
    limit = np.abs(expected).max()
    assert all(np.allclose(a, b) for a, b in zip(shown(axes), coloured(expected, limit), strict=True))


@pytest.mark.parametrize(("zeroth", "panels"), [("none", 3), ("identity", 3), ("diagonal", 4)])
def test_last_cotangent_is_grad_x(zeroth, panels):
    filt = ev.EdgeVariant(DIRECTED, order=2, zeroth=zeroth)
    params, v = filt.init(rng=0), RNG.standard_normal(4)
    axes = plot.cotangents(filt, params, v, limit=10.0, colorbar=False)
    assert axes[0].get_title() == rf"$\bar w^{{({filt.order})}} = \bar y$"  # the symbols of docs/edge_variant.md
    assert len(axes) == panels and len(axes[0].figure.axes) == panels
    _, tape = filt.forward(params, np.zeros(4))
    _, grad_x = filt.backward(params, tape, v)
    first, last = shown(axes)[0], shown(axes)[-1]
    assert np.allclose(first, coloured([v], 10.0)[0]) and np.allclose(last, coloured([grad_x], 10.0)[0])
    turned = {tuple(map(tuple, arrow._posA_posB)) for arrow in arrows(axes[1])}
    place = plot.layout(DIRECTED.transposed())
    assert turned == {tuple(map(tuple, place[[i, j]])) for i, j in zip(*DIRECTED.S.nonzero(), strict=True)}


def test_active_shows_only_what_carried_something():
    filt = ev.EdgeVariant(GRID, order=1)
    x = np.eye(12)[5]
    axes = plot.states(filt, {"phi": np.ones((1, 1, 1, GRID.nnz))}, x, arrows=True, active=True)
    assert len(arrows(axes[1])) == 4  # node 5 has four neighbours
    axes = plot.cotangents(filt, {"phi": np.ones((1, 1, 1, GRID.nnz))}, x, arrows=True, active=True)
    assert len(arrows(axes[1])) == 4


def test_states_honour_axes_and_positions():
    filt = ev.EdgeVariant(GRID, order=1)
    figure, given = plt.subplots(1, 3)
    place = RNG.standard_normal((12, 2))
    axes = plot.states(filt, filt.init(0), np.ones(12), given, positions=place, colorbar=False)
    assert all(a is b for a, b in zip(axes, given, strict=True)) and len(figure.axes) == 3
    assert np.allclose(nodes(axes[2]).get_offsets(), place)
    assert axes[2].get_title() == "$y = w^{(1)}$"


def test_order_zero_and_long_sums():
    filt = ev.EdgeVariant(GRID, order=0, zeroth="diagonal")
    assert len(plot.states(filt, filt.init(0), np.ones(12))) == 3
    titles = [ax.get_title() for ax in plot.cotangents(filt, filt.init(0), np.ones(12))]
    assert titles == ["$\\bar w^{(0)} = \\bar y$", "$\\partial L/\\partial x = \\Phi^{(0)} \\bar w^{(0)}$"]
    long = ev.EdgeVariant(GRID, order=4)
    assert plot.states(long, long.init(0), np.ones(12))[-1].get_title() == "$y = w^{(1)} + \\cdots + w^{(4)}$"


def test_states_name_what_is_wrong():
    filt = ev.EdgeVariant(GRID, order=1, in_features=2)
    params = filt.init(0)
    with pytest.raises(ValueError, match=r"x has shape \(12,\); expected one sample, \(2, 12\) or \(1, 2, 12\)"):
        plot.states(filt, params, np.ones(12))
    with pytest.raises(ValueError, match=r"feature is \(0, 2\); expected less than the bank's 1 x 2"):
        plot.states(filt, params, np.ones((2, 12)), feature=(0, 2))
    with pytest.raises(TypeError, match=r"feature is 1; expected a pair"):
        plot.states(filt, params, np.ones((2, 12)), feature=1)
    with pytest.raises(ValueError, match="axes has 1 axes; expected 3"):
        plot.states(filt, params, np.ones((2, 12)), plt.figure().add_subplot())
    with pytest.raises(TypeError, match="filter is Graph; expected an EdgeVariant"):
        plot.states(GRID, params, np.ones(12))
    with pytest.raises(ValueError, match="grad_y has shape"):
        plot.cotangents(filt, params, np.ones((2, 12)))


# ---- history -------------------------------------------------------------------------------------------------------
def test_history_of_a_training():
    filt = ev.EdgeVariant(GRID, order=1)
    x = RNG.standard_normal((20, 1, 12))
    result = ev.fit(
        filt, filt.init(0), (x, 2 * x), loss=ev.MeanSquaredError(), optimizer=ev.Adam(0.1), epochs=6, rng=0,
        validation=(x, 2 * x), progress=False,
    )  # fmt: skip
    ax = plot.history(result)
    loss, validation, best = ax.get_lines()
    assert np.array_equal(loss.get_xdata(), [row["step"] for row in result.history])
    assert np.array_equal(loss.get_ydata(), [row["loss"] for row in result.history])
    assert validation.get_label() == "validation loss" and best.get_xdata()[0] == result.best_step
    by_epoch = plot.history(result.history, keys=["validation_metric"], against="epoch")
    assert len(by_epoch.get_lines()) == 1
    assert by_epoch.get_xlabel() == "epoch" and by_epoch.get_yscale() == "linear"


def test_history_is_tolerant_of_holes(ax):
    rows = [
        {"step": 1, "loss": 2.0},
        {"step": 2, "loss": None, "validation_loss": 1.0},
        {"step": 3, "loss": float("nan"), "validation_loss": 0.5},
        {"step": 4, "loss": 1.0},
    ]
    assert plot.history(rows, ax, log=True) is ax
    loss, validation = ax.get_lines()
    assert loss.get_xdata().tolist() == [1, 4] and validation.get_xdata().tolist() == [2, 3]
    assert ax.get_yscale() == "log"


def test_history_errors():
    with pytest.raises(ValueError, match=r"history has no values for accuracy against step; its columns are \['loss'"):
        plot.history([{"step": 1, "loss": 2.0}], keys=["accuracy"])
    with pytest.raises(ValueError, match="history has no values"):
        plot.history([])
    for wrong in (None, 3, {"loss": 1}, "text"):
        with pytest.raises(TypeError, match="expected a FitResult or its history"):
            plot.history(wrong)


# ---- without matplotlib --------------------------------------------------------------------------------------------
def test_absent_matplotlib_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **options):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **options)

    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    for draw in (lambda: plot.graph(GRID), lambda: plot.support(GRID), lambda: plot.history([{"step": 1, "loss": 1}])):
        with pytest.raises(ImportError, match=r'pip install "evref\[plot\]"'):
            draw()
    assert plot.layout(GRID).shape == (12, 2)  # needs no matplotlib


def test_lattice_has_a_box_per_class_and_an_arrow_per_inclusion():
    from evref.verify.inclusions import at_a_fixed_signal
    from evref.verify.inclusions import lattice as with_maps

    lattice = (*with_maps, *at_a_fixed_signal)
    ax = plot.lattice()
    names = {name for inclusion in lattice for name in (inclusion.small, inclusion.large)}
    boxes = [text.get_text().replace("\n", " ") for text in ax.texts]
    assert {name.replace("_", " ") for name in names} <= set(boxes)
    assert set(ev.catalogue) <= names, "every filter is in it, attention too"
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(arrows) == len(lattice)
    dashed = sum(arrow.arrow_patch.get_linestyle() in ("--", "dashed") for arrow in arrows)
    assert dashed == sum(not inclusion.condition.startswith("always") for inclusion in lattice)
    own = plt.figure().add_subplot()
    assert plot.lattice(lattice[:2], ax=own) is own


def test_no_arrow_of_the_lattice_runs_through_a_box_and_nothing_overlaps():
    ax = plot.lattice()
    ax.figure.canvas.draw()
    boxes = {
        t: t.get_bbox_patch().get_window_extent() for t in ax.texts if t.get_bbox_patch() and len(t.get_text()) > 2
    }
    numbers = [t.get_window_extent() for t in ax.texts if t.get_text().isdigit()]
    arrows = [t.arrow_patch for t in ax.texts if getattr(t, "arrow_patch", None) is not None]
    assert len(boxes) == len(ev.catalogue) and len(arrows) > 20
    for arrow in arrows:
        (path, *_), _ = arrow._get_path_in_displaycoord()
        line = path.interpolated(60).vertices if len(path.vertices) == 2 else path.cleaned(curves=False).vertices
        ends = (arrow.patchA, arrow.patchB)
        for text, box in boxes.items():
            if text.get_bbox_patch() not in ends:
                assert not any(box.contains(*point) for point in line), text.get_text()
    shown = [*boxes.values(), *numbers]
    for i, one in enumerate(shown):
        assert not any(one.overlaps(other) for other in shown[:i])
