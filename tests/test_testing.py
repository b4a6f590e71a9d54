"""`evref.testing`: layers in NumPy on many graphs, gradients, strategies; right ones, wrong ones, and bad arguments."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import evref as ev
from evref import testing
from evref.verify.built import Builder
from evref.verify.compare import _points
from evref.verify.mistakes import variants_of
from evref.verify.revealing import in_words
from evref.verify.trials import blocks, reference_at

GRAPHS = testing.revealing_graphs()
FEW = {name: GRAPHS[name] for name in ("directed", "self-loop", "one node")}


def polynomial(S_T):
    def layer(params, x):
        w, y = x, 0
        for phi in params["phi"]:
            y, w = y + np.einsum("fg,bgn->bfn", phi, w), w @ S_T
        return y + params["bias"][:, None] if "bias" in params else y

    return layer


def build(graph, order, in_features, out_features, bias):
    return polynomial(graph.S.toarray().T)


def build_transposed(graph, order, in_features, out_features, bias):
    return polynomial(graph.S.toarray())


def by_class(filt):
    """What makes the reference itself, with all arguments that it has."""
    return lambda graph, **config: filt(graph, **config)


def mismatch(*args, **options):
    with pytest.raises(testing.MismatchError) as caught:
        testing.assert_matches(*args, **options)
    return caught.value.report


# ---- the graphs ------------------------------------------------------------------------------------------------------
def test_each_graph_is_what_its_name_says():
    S = {name: graph.S.toarray() for name, graph in GRAPHS.items()}
    for name in ("directed", "asymmetric weights", "negative weights", "source and sink"):
        weights = S[name][S[name] != 0]
        assert not np.array_equal(S[name], S[name].T) and len(np.unique(np.abs(weights))) == weights.size
        assert not np.isin(weights, [0, 1]).any()
    assert not S["directed"].diagonal().any() and not ((S["directed"] != 0) & (S["directed"].T != 0)).any()
    pattern = S["asymmetric weights"] != 0
    assert np.array_equal(pattern, pattern.T) and S["asymmetric weights"].diagonal().any()
    assert (S["negative weights"] < 0).any() and (S["negative weights"] > 0).any()
    hears, heard = (S["source and sink"] != 0).any(axis=1), (S["source and sink"] != 0).any(axis=0)
    assert (~hears & heard).any() and (hears & ~heard).any()
    assert (S["self-loop"].diagonal() != 0).sum() == 1
    assert (~S["isolated node"].any(axis=0)).sum() == 1
    assert GRAPHS["no edges"].n_edges == 0 and GRAPHS["one node"].n_nodes == 1
    ring = S["regular"]
    assert np.array_equal(ring, ring.T) and set(ring.sum(axis=0)) == {2.0} and set(np.unique(ring)) == {0.0, 1.0}


def test_the_components_and_the_spectrum():
    from scipy.sparse.csgraph import connected_components

    count = {name: connected_components(graph.S, directed=False)[0] for name, graph in GRAPHS.items()}
    assert count["two components"] == 2 and count["undirected"] == 1
    assert sorted(np.bincount(connected_components(GRAPHS["two components"].S)[1])) == [2, 3]
    laplacian = GRAPHS["undirected"].with_shift("normalized_laplacian").S.toarray()
    assert np.linalg.eigvalsh(laplacian)[-1] < 1.95
    assert len(set(GRAPHS["undirected"].S.sum(axis=1).round(6))) == 6


def test_they_are_new_at_every_call():
    again = testing.revealing_graphs()
    assert again == GRAPHS and not any(again[name] is GRAPHS[name] for name in GRAPHS)


def test_a_small_graph_in_words():
    assert in_words(GRAPHS["one node"]) == "1 node with the edge 0 → 0 (0.7)"
    assert in_words(ev.generators.path(3)) == "3 nodes with the edges 0 — 1 (1), 1 — 2 (1)"
    assert in_words(GRAPHS["no edges"]) == "3 nodes without edges"
    assert in_words(ev.generators.complete(5)) == "5 nodes with 10 edges"


# ---- right layers ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ev.catalogue)
def test_every_filter_matches_itself(name):
    report = testing.assert_matches(by_class(ev.catalogue[name]), name)
    assert report.ok and len(report.cases) >= 40
    assert {row.status for row in report.rows} == {"ok"}


def test_configurations_are_varied():
    report = testing.assert_matches(build, "polynomial")
    text = "\n".join(case.name for case in report.cases)
    for order in range(4):
        assert f"order={order}, " in text
    for part in ("in_features=2, out_features=4", "in_features=2, out_features=2", "bias=True", "batch 1", "batch 3"):
        assert part in text
    for name in GRAPHS:
        assert f"\n{name}, " in f"\n{text}"
    assert "normalized_adjacency of one node" in text and "normalized_adjacency of no edges" not in text
    assert report.notes == ("left out 4 cases, on normalized_adjacency of no edges: " + _reason("no edges"),)


def test_what_was_left_out_is_named():
    empty = {f"empty {n}": ev.Graph(np.zeros((n, n))) for n in range(1, 7)}
    report = testing.assert_matches(build, "polynomial", graphs={**FEW, "empty 1": empty["empty 1"]})
    assert [note.partition(":")[0] for note in report.notes] == ["left out 4 cases, on normalized_adjacency of empty 1"]
    report = testing.assert_matches(build, "polynomial", graphs={**FEW, **empty})
    (note,) = report.notes
    shift = "normalized_adjacency of"
    assert note.startswith(
        f"left out 24 cases, on {shift} empty 1, {shift} empty 2, {shift} empty 3 and 3 more graphs: "
    )


def _reason(name):
    with pytest.raises(ValueError, match="lambda_max") as caught:
        GRAPHS[name].with_shift("normalized_adjacency")
    return str(caught.value)


def test_what_is_fixed_is_not_varied():
    report = testing.assert_matches(build, "polynomial", order=2, bias=False, in_features=1, graphs=FEW)
    assert not any("order" in case.name or "bias" in case.name for case in report.cases)
    assert any("out_features=4" in case.name for case in report.cases)


def test_what_build_does_not_take_is_at_the_default_or_at_the_settings():
    seen = []

    def of_order(graph, order):
        def layer(params, x):
            seen.append(params["phi"].shape[1:])
            return polynomial(graph.S.toarray().T)(params, x)

        return layer

    testing.assert_matches(of_order, "polynomial", graphs=FEW)
    assert set(seen) == {(1, 1)}
    testing.assert_matches(of_order, "polynomial", graphs=FEW, in_features=3, out_features=2)
    assert set(seen[-4:]) == {(2, 3)}


def test_a_setting_that_the_layer_alone_takes():
    def scaled(graph, order, factor):
        return lambda params, x: factor * polynomial(graph.S.toarray().T)(params, x)

    assert testing.assert_matches(scaled, "polynomial", factor=1.0, graphs=FEW).ok
    assert not mismatch(scaled, "polynomial", factor=1.1, graphs=FEW).ok


def test_a_setting_may_be_a_function_of_the_graph():
    chosen = []

    def on_nodes(graph, order, nodes):
        chosen.append((graph.n_nodes, list(nodes)))
        return ev.NodeVariant(graph, order, nodes=nodes)

    testing.assert_matches(on_nodes, "node_variant", nodes=lambda graph: [graph.n_nodes - 1], graphs=FEW)
    assert all(nodes == [n - 1] for n, nodes in chosen) and {n for n, _ in chosen} == {6, 4, 1}


def test_a_layer_that_normalises_the_weights_itself():
    def build_gcn(graph, in_features, out_features):
        A = graph.S.toarray() + np.eye(graph.n_nodes)
        d = A.sum(axis=1) ** -0.5
        return lambda params, x: params["theta"] @ x @ (d[:, None] * A * d).T

    report = testing.assert_matches(build_gcn, ev.GCN.on)
    assert any("directed" in note for note in report.notes)
    assert not any("gcn of" in case.name for case in report.cases)

    def of_origin(graph, in_features, out_features):
        return build_gcn(graph.origin[0], in_features, out_features)

    assert all("gcn of" in case.name for case in testing.assert_matches(of_origin, "gcn", shift="gcn").cases)


def test_a_function_may_make_the_reference():
    def network(graph, order):
        return ev.Network([ev.Polynomial(graph, order, 2, 3), ev.Tanh(), ev.Dense((3, graph.n_nodes), outputs=2)])

    assert testing.assert_matches(network, network, graphs=FEW).ok
    report = testing.assert_matches(build, lambda graph, **sizes: ev.Polynomial(graph, **sizes), graphs=FEW)
    assert any("order=3" in case.name for case in report.cases)


def test_parameters_may_depend_on_the_reference():
    def own_names(graph, order):
        layer = polynomial(graph.S.toarray().T)
        return lambda params, x: layer({"phi": np.stack([params[f"lins.{k}"] for k in range(order + 1)])}, x)

    def names(reference):
        return {f"lins.{k}": ("phi", k) for k in range(reference.order + 1)}

    assert testing.assert_matches(own_names, "polynomial", parameters=names, graphs=FEW).ok

    def up_to_2(reference):
        return {name: value for name, value in names(reference).items() if name != "lins.3"}

    with pytest.raises(ValueError, match=r"does not say where phi.*\(directed, order=3"):
        testing.assert_matches(own_names, "polynomial", parameters=up_to_2, graphs=FEW)


def test_one_shift_alone():
    report = testing.assert_matches(build, "polynomial", shift="laplacian", graphs=FEW)
    assert report.cases and all(case.name.startswith("laplacian of") for case in report.cases)
    plain = testing.assert_matches(build, "polynomial", shift="adjacency", graphs=FEW)
    assert plain.cases and not any(" of " in case.name for case in plain.cases)


# ---- wrong layers ----------------------------------------------------------------------------------------------------
def test_one_report_with_the_cause_and_the_smallest_case():
    report = mismatch(build_transposed, "polynomial")
    assert [cause.name for cause in report.causes] == ["shift-transposed"]
    assert report.smallest.startswith("2 nodes with the edge 0 → 1 (1), order=1, in_features=1, out_features=1")
    text = str(report)
    assert text.startswith("build_transposed: DIFFERENT") and "more, in report.cases" in text
    wrong = {case.name for case in report.cases if not case.ok}
    assert not any("regular" in name or "order=0" in name or "one node" in name for name in wrong)


def test_the_regular_graph_hides_it():
    assert testing.assert_matches(build_transposed, "polynomial", graphs={"regular": GRAPHS["regular"]}).ok


def test_no_known_mistake_then_the_smallest_case_alone():
    def odd(graph, order, in_features, out_features):
        layer = polynomial(graph.S.toarray().T)
        return lambda params, x: layer(params, x) + (0.1 if order > 1 else 0)

    report = mismatch(odd, "polynomial")
    assert not report.causes and "none of" in report.diagnosis
    assert report.smallest.startswith("1 node without edges, order=2, in_features=1, out_features=1, batch 1")


# What cannot show on any graph, and why.
NEVER = {
    ("hybrid_edge_variant", "shift-transposed", "in the diagonal"): "a diagonal matrix is its own transpose",
    ("shift_invariant_edge_variant", "product-order", "the products run"): "all Phi(k) commute",
    ("gcn", "zeroth-term", "the term k = 0"): "its coefficient is zero, and no parameter",
    ("hybrid_edge_variant", "shift-weights", "in the edge-variant part"): "that part has weights of 1",
    ("critical_edge", "shift-weights", "in the edge-variant part"): "that part has weights of 1",
}


@pytest.mark.filterwarnings("ignore::evref.RepeatedEigenvaluesWarning")
@pytest.mark.parametrize("name", ev.catalogue)
def test_every_wrong_reading_differs_somewhere(name):
    """Output or gradients, by much more than rounding."""
    filt = ev.catalogue[name]
    shows = {}
    for i, case in enumerate(Builder(by_class(filt), filt, {}, {}).cases(GRAPHS)):
        (point,) = _points(case.reference, None, None, i, (case.batch,))
        right = dict(blocks(reference_at(case.reference, point)))
        largest = max(np.abs(numbers).max(initial=0) for numbers in right.values())
        for mistake, says, model in variants_of(case.reference):
            if not shows.get((mistake, says)):
                shows[mistake, says] = differ(model, point, right, largest)
    hidden = {key for key, differs in shows.items() if not differs}
    excused = {key for key in hidden if any((name, key[0]) == n[:2] and key[1].startswith(n[2]) for n in NEVER)}
    assert len(shows) > 50 and hidden == excused


def differ(model, point, right, largest):
    try:
        wrong = dict(blocks(reference_at(model, point)))
    except (ValueError, ArithmeticError):  # no such numbers here
        return False
    assert wrong.keys() == right.keys()
    scales = {key: max(np.abs(numbers).max(initial=0), 1e-3 * largest) for key, numbers in right.items()}
    return any(not np.abs(wrong[key] - right[key]).max(initial=0) <= 1e-6 * scales[key] for key in right)


WRONG = [
    ("edge_variant", "product-order", "the products run"),
    ("node_variant", "taps", "the last term k = K is missing"),
    ("chebyshev", "spectrum-scale", "lambda_max is taken as 2 (L - I)"),
    ("gcn", "self-loops", "self-loops count twice: W + 2I"),
    ("tagcn", "degree", "A D^-1 by columns"),
    ("attention", "softmax-direction", "outgoing instead of incoming"),
    ("monet", "exponent", ""),
    ("cayley", "sign", "the sign of i"),
    ("spectral", "weights-transposed", ""),
    ("polynomial", "gradient-scaled", "all gradients are divided by the batch size"),
]


@pytest.mark.parametrize(("name", "mistake", "words"), WRONG)
def test_a_wrong_layer_is_named(name, mistake, words):
    filt = ev.catalogue[name]

    def wrong(graph, **config):
        reference = filt(graph, **config)
        found = (model for n, says, model in variants_of(reference) if n == mistake and words in says)
        return next(found, reference)

    assert mistake in [cause.name for cause in mismatch(wrong, name).causes]


def test_a_layer_that_does_not_run_on_one_of_the_graphs():
    def of_several_nodes(graph, order):
        layer = polynomial(graph.S.toarray().T)
        return lambda params, x: layer(params, x + 0 * graph.S.toarray()[1, 0])

    report = mismatch(of_several_nodes, "polynomial")
    assert report.problem_kind == "raises" and "(one node, order=" in report.problem
    assert "IndexError" in str(report)


# ---- what build does -------------------------------------------------------------------------------------------------
def test_what_build_raises_names_graph_and_configuration():
    def refuses(graph, order, bias):
        if graph.n_nodes == 1:
            raise KeyError("no luck")
        return polynomial(graph.S.toarray().T)

    with pytest.raises(testing.BuildError, match=r"build raised KeyError: 'no luck' \(test_testing.py, line \d+\) on "):
        testing.assert_matches(refuses, "polynomial", graphs=FEW)
    with pytest.raises(testing.BuildError, match=r"on one node, order=\d, bias=(True|False), batch \d$"):
        testing.assert_matches(refuses, "polynomial", graphs=FEW)


def test_a_build_without_return():
    with pytest.raises(testing.BuildError, match="build returned None on directed, order="):
        testing.assert_matches(lambda graph, order: None, "polynomial")


def test_what_parameters_raises():
    with pytest.raises(testing.BuildError, match="parameters raised ZeroDivisionError"):
        testing.assert_matches(build, "polynomial", parameters=lambda reference: 1 / 0)


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        ((3, "gcn"), {}, TypeError, "build is int; expected a function build"),
        ((build, "polinomial"), {}, ValueError, "filt is 'polinomial'.*did you mean 'polynomial'"),
        ((build, ev.Tanh), {}, TypeError, "filt is the class Tanh; expected a filter's name"),
        ((build, 3), {}, TypeError, "filt is int; expected a filter's name, its class or a function"),
        ((build, ev.filters.Filter), {}, TypeError, "filt is the class Filter; expected a filter's name, its class or"),
        (
            (lambda graph: None, ev.Polynomial(GRAPHS["directed"], order=2)),
            {},
            TypeError,
            "filt is Polynomial; expected a filter's name, .*; it is a filter on one graph: evref.compare is for that",
        ),
        (
            (lambda x: None, ev.Tanh()),
            {},
            TypeError,
            "filt is Tanh; .* it is a layer or network already: evref.compare",
        ),
        ((build, lambda graph, **sizes: ev.GCN), {}, TypeError, "returned the class GCN; expected a filter or network"),
        ((build, lambda graph, **sizes: 3), {}, TypeError, "returned int; expected a filter or network of evref"),
        ((build, "gcn"), {}, TypeError, "build needs order, and gcn has no such argument; expected order=... among"),
        ((lambda graph: 3, "polynomial"), {}, TypeError, "polynomial needs order, and build does not take it"),
        ((build, "polynomial"), {"ordr": 2}, TypeError, "ordr is no argument of polynomial or of build.*'order'"),
        ((build, "polynomial"), {"order": -2}, ValueError, "no polynomial on any of the graphs: order is -2"),
        ((build, "polynomial"), {"graphs": []}, TypeError, "graphs is list; expected a dict: name -> Graph"),
        ((build, "polynomial"), {"graphs": {}}, ValueError, "graphs is empty"),
        ((build, "polynomial"), {"graphs": {"a": 3}}, TypeError, r"graphs\['a'\] is int; expected an evref.Graph"),
        ((build, "polynomial"), {"shift": "gnc"}, ValueError, "shift is 'gnc'; expected one of .*did you mean 'gcn'"),
        ((build, "polynomial"), {"shift": 3}, ValueError, "shift is 3; expected one of"),
        ((build, "polynomial"), {"parameters": 3}, TypeError, "parameters is int; expected a dict"),
        ((build, "polynomial"), {"call": 3}, TypeError, "call is int; expected a function"),
        ((build, "polynomial"), {"framework": "tf"}, ValueError, "framework is 'tf'; expected one of"),
        ((build, "polynomial"), {"seed": -1}, ValueError, "seed is -1"),
        ((build, "polynomial"), {"dtype": "int8"}, TypeError, "dtype"),
    ],
)
def test_bad_arguments(args, options, error, message):
    with pytest.raises(error, match=message):
        testing.assert_matches(*args, **options)


# ---- gradients -------------------------------------------------------------------------------------------------------
class Gain:
    in_shape = (2, 3)

    def __init__(self, factor=1.0):
        self.factor = factor

    def init(self, rng):
        return {"a": np.array(2.0)}

    def forward(self, params, x):
        return params["a"] * x, x.copy()

    def backward(self, params, x, grad_y):
        return {"a": self.factor * np.sum(grad_y * x)}, params["a"] * grad_y

    def jvp(self, params, x, dparams, dx):
        return dparams["a"] * x + params["a"] * dx


def test_gradients_of_an_object():
    names = [report.check for report in testing.assert_gradients(Gain())]
    assert names == ["complex_step", "central_difference", "second_order", "dot_test", "tape_test"]
    with pytest.raises(testing.GradientError, match=r"(?s)complex_step of Gain: FAILED.*a .*FAILED.*dot_test"):
        testing.assert_gradients(Gain(1.001))


def test_gradients_of_a_filter():
    reports = testing.assert_gradients(ev.GCN(GRAPHS["directed"], 2, 3))
    assert "training_test" in [report.check for report in reports]


def cube(params, x):
    return params["a"] * x**3


def cube_backward(params, x, grad_y, power=2):
    return {"a": (grad_y * x**3).sum()}, 3 * params["a"] * x**power * grad_y


def test_gradients_of_a_function():
    point = {"a": 2.0}, [0.5, 1.5]
    assert len(testing.assert_gradients(cube, *point, backward=cube_backward)) == 2
    with pytest.raises(testing.GradientError, match=r"(?s)central_difference of cube: FAILED.*x .*\(0,\).*FAILED"):
        testing.assert_gradients(cube, *point, backward=lambda p, x, g: cube_backward(p, x, g, power=1))


def test_gradients_where_nothing_is_to_be_checked():
    with pytest.raises(TypeError, match="a NumPy function without a gradient; expected backward="):
        testing.assert_gradients(cube, {"a": 2.0}, [0.5], framework="numpy")
    with pytest.raises(TypeError, match="x is None; expected an array"):
        testing.assert_gradients(cube, {"a": 2.0}, backward=cube_backward)
    with pytest.raises(TypeError, match="params is NoneType; expected a dict"):
        testing.assert_gradients(cube, None, [0.5], backward=cube_backward)
    with pytest.raises(TypeError, match="layer is int; expected a function"):
        testing.assert_gradients(3, {}, [0.5])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((cube, {"a": 2.0}, "b"), "^x has dtype <U1; supported are"),
        ((cube, {"a": "b"}, [0.5]), r"^params\['a'\] has dtype <U1; supported are"),
        ((cube, {3: 2.0}, [0.5]), "^params has the key 3; expected names"),
        ((Gain, None, [0.5]), "^layer is the class Gain; .*it is a class: pass an instance"),
    ],
)
def test_gradients_of_bad_arguments(args, message):
    with pytest.raises(TypeError, match=message):
        testing.assert_gradients(*args, backward=cube_backward if args[0] is cube else None)


class Kinked(Gain):
    """Its gradient at the kink is that of the left, as everywhere; or one that is wrong beside the kink as well."""

    def forward(self, params, x):
        y = params["a"] * x
        return np.where(y.real > 0, y, 0) + x**3, x.copy()

    def backward(self, params, x, grad_y):
        alive = (params["a"] * x > 0) * grad_y
        return {"a": self.factor * np.sum(alive * x)}, params["a"] * alive + 3 * x**2 * grad_y

    jvp = None


@pytest.mark.parametrize(
    ("a", "x", "block"), [(2.0, [0.0, 1.0], "x"), (2.0, [1e-7, 1.0], "x"), (0.0, [-1.0, 1.0], "a")]
)
def test_gradients_at_a_kink(a, x, block):
    """There is no Hessian, so that is not what is wrong; what is, the differences see."""
    point = {"a": a}, x
    reports = {report.check: report for report in testing.assert_gradients(Kinked(), *point)}
    assert reports["second_order"].skipped and f"the function has a kink here, seen along {block}" in str(
        reports["second_order"]
    )
    if a:
        with pytest.raises(testing.GradientError, match=r"central_difference of Kinked: FAILED"):
            testing.assert_gradients(Kinked(1.001), *point)


def test_gradients_beside_a_kink_are_judged_by_the_hessian():
    class Rotated(Kinked):
        def backward(self, params, x, grad_y):
            grads, grad_x = super().backward(params, x, grad_y)
            return grads, grad_x[::-1]

    with pytest.raises(testing.GradientError, match="second_order of Rotated: FAILED"):
        testing.assert_gradients(Rotated(), {"a": 2.0}, [0.5, 1.0])


def test_gradients_of_what_is_no_function():
    rng = np.random.default_rng(0)
    with pytest.raises(testing.GradientError, match="different numbers for the same input"):
        testing.assert_gradients(
            lambda p, x: cube(p, x) + rng.normal(), {"a": 2.0}, [0.5], backward=cube_backward, framework="numpy"
        )
    with pytest.raises(testing.GradientError, match="the layer raised ZeroDivisionError"):
        testing.assert_gradients(lambda p, x: 1 / 0, {"a": 2.0}, [0.5], backward=cube_backward)


# ---- strategies ------------------------------------------------------------------------------------------------------
@given(st.data(), st.sampled_from([True, False, None]), st.sampled_from(["any", "positive", "unit"]), st.booleans())
def test_graphs_are_what_was_asked_for(data, directed, weights, loops):
    drawn = testing.graphs(2, 5, directed=directed, weights=weights, self_loops=loops, isolated_nodes=False)
    S = data.draw(drawn).S.toarray()
    sizes = np.abs(S[S != 0])
    assert 2 <= len(S) <= 5 and (loops or not S.diagonal().any())
    assert directed is not False or np.array_equal(S, S.T)
    assert weights == "any" or (S >= 0).all()
    assert (sizes == 1).all() if weights == "unit" else ((sizes >= 0.125) & (sizes <= 8)).all()
    between = (S != 0) & ~np.eye(len(S), dtype=bool)
    assert (between.any(axis=0) | between.any(axis=1)).all()


def test_every_kind_of_graph_occurs():
    def some(condition, **options):
        return find(testing.graphs(**options), condition, settings=settings(max_examples=500, database=None))

    assert some(lambda g: not g.is_symmetric, directed=True).n_nodes == 2
    assert some(lambda g: not g.is_symmetric).n_nodes == 2
    assert some(lambda g: g.n_self_loops and g.n_edges, directed=False).n_nodes == 2
    assert some(lambda g: (g.S.data < 0).any()).n_nodes == 1
    assert some(lambda g: g.n_nodes > 1 and not g.n_edges).n_nodes == 2


def test_graphs_shrink_to_few_nodes_and_weights_of_1():
    found = find(testing.graphs(), lambda graph: graph.n_edges > 0, settings=settings(database=None))
    assert found.n_nodes == 2 and set(found.S.data) == {1.0} and found.n_self_loops == 0


@given(st.data())
def test_signals_fit_and_are_finite(data):
    filt = ev.GCN(GRAPHS["self-loop"], 2, 3)
    x = data.draw(testing.signals(filt))
    assert x.shape[1:] == (2, 4) and 1 <= len(x) <= 3 and np.abs(x).max() <= 4
    assert data.draw(testing.signals((5,), batch=2)).shape == (2, 5)


def test_signals_shrink_to_one_sample_and_whole_numbers():
    x = find(testing.signals((2, 3)), lambda x: x.sum() > 1.5, settings=settings(database=None))
    assert len(x) == 1 and sorted(x.ravel())[:-1] == [0] * 5 and x.max() == 2


@pytest.mark.parametrize("name", ev.catalogue)
@settings(max_examples=5)
@given(data=st.data())
def test_parameters_are_taken(name, data):
    filt = next(iter(ev.catalogue[name].examples(GRAPHS["undirected"])))
    params = data.draw(testing.parameters_of(filt))
    assert {key: array.shape for key, array in params.items()} == filt.parameter_shapes()
    assert np.isfinite(filt(params, data.draw(testing.signals(filt)))).all()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: testing.graphs(0), ValueError, "min_nodes is 0"),
        (lambda: testing.graphs(4, 3), ValueError, "max_nodes is 3"),
        (lambda: testing.graphs(directed="yes"), TypeError, "directed is"),
        (lambda: testing.graphs(weights="negative"), ValueError, "weights is 'negative'"),
        (lambda: testing.graphs(isolated_nodes=False), ValueError, "min_nodes is 1 with isolated_nodes=False"),
        (lambda: testing.signals(ev.Tanh()), ValueError, "shape is Tanh, which takes any shape; expected a tuple"),
        (lambda: testing.signals([2, 3]), TypeError, "shape is list; expected a tuple"),
        (lambda: testing.signals((2, -1)), ValueError, "shape is -1"),
        (lambda: testing.parameters_of({}), TypeError, "module is dict; expected a filter, layer or network"),
    ],
)
def test_strategies_refuse_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_without_hypothesis_the_strategies_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    for make in (testing.graphs, lambda: testing.signals((2,)), lambda: testing.parameters_of(ev.Tanh())):
        with pytest.raises(ImportError, match="need Hypothesis: pip install hypothesis"):
            make()
