"""`evref.compare` on layers in NumPy: verdicts, rows, places in words, diagnosis, smallest case. Torch: validation/."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evref as ev
from evref.verify.compare import Case, MismatchError, compare_cases
from evref.verify.examples import probe_graph
from evref.verify.foreign.parameters import ParameterMap

DIRECTED, UNDIRECTED = probe_graph(6, "directed"), probe_graph(6, "undirected")
FILT = ev.EdgeVariant(DIRECTED, order=3, in_features=2, out_features=4, bias=True)


class Dense:
    """An edge-variant filter with dense matrices, gradients by hand; `flip` transposes every matrix."""

    def __init__(self, filt: ev.EdgeVariant, flip: bool = False) -> None:
        self.filt, self.flip = filt, flip

    def _matrices(self, params):
        Phi = self.filt.graph.phi_to_dense(params["phi"])
        return Phi.swapaxes(-1, -2) if self.flip else Phi

    def forward(self, params, x):
        w = [np.repeat(x[:, None], self.filt.out_features, axis=1)]
        for Phi in self._matrices(params):
            w.append(np.einsum("fgij,bfgj->bfgi", Phi, w[-1]))
        return sum(w[1:]).sum(axis=2) + params["bias"][:, None], w

    def backward(self, params, w, grad_y):
        Phi = self._matrices(params)
        spread = np.repeat(grad_y[:, :, None], self.filt.in_features, axis=2)
        grad_phi, grad_w = [], spread
        for k in range(len(Phi), 0, -1):
            grad_Phi = np.einsum("bfgi,bfgj->fgij", grad_w, w[k - 1])
            grad_phi.append(self.filt.graph.dense_to_phi(grad_Phi.swapaxes(-1, -2) if self.flip else grad_Phi))
            grad_w = np.einsum("fgij,bfgi->bfgj", Phi[k - 1], grad_w) + (spread if k > 1 else 0)
        return {"phi": np.stack(grad_phi[::-1]), "bias": grad_y.sum(axis=(0, 2))}, grad_w.sum(axis=1)


class Spoilt(Dense):
    """One number of what backward or forward gives is off by one."""

    def __init__(self, filt, block, index):
        super().__init__(filt)
        self.block, self.index = block, index

    def forward(self, params, x):
        y, tape = super().forward(params, x)
        if self.block == "y" and len(y) == 3:
            y[self.index] += 1
        return y, tape

    def backward(self, params, w, grad_y):
        grads, grad_x = super().backward(params, w, grad_y)
        if self.block == "x" and len(grad_x) == 3:
            grad_x[self.index] += 100
        if self.block in grads:
            grads[self.block][self.index] += 100
        return grads, grad_x


# ---- right ones ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ev.catalogue)
def test_every_filter_is_what_it_is(name):
    for graph in (DIRECTED, UNDIRECTED):
        for filt in ev.catalogue[name].examples(graph, np.random.default_rng(0)):
            report = ev.compare(filt, filt)
            assert report.ok and report.diagnosis == "" and report.smallest == "", str(report)
            assert all(row.error == 0 for row in report.rows if row.name != "own differences")


def test_a_dense_layer_by_hand_is_right():
    report = ev.compare(Dense(FILT), FILT)
    assert report and [row.name for row in report.rows] == [
        "output", "grad x", "grad phi", "grad bias", "own differences",
    ]  # fmt: skip
    assert report.raise_for_error() is report
    assert str(report).startswith("Dense: ok")


def test_a_network_is_what_it_is():
    net = ev.Network([FILT, ev.LeakyReLU(), ev.Dense((4, 6), outputs=3)])
    assert ev.compare(net, net).ok


def test_float32_is_judged_by_its_rounding():
    def single(params, x):
        y, _ = Dense(FILT).forward({name: a.astype(np.float32) for name, a in params.items()}, x.astype(np.float32))
        return y.astype(x.dtype)

    report = ev.compare(single, FILT)
    assert report.ok and "float32" in report.notes[0]
    assert 1e-9 < report.rows[0].error < report.rows[0].tolerance < 1e-3
    strict = ev.compare(single, FILT, dtype=np.float64)
    assert not strict.ok and strict.rows[0].tolerance < 1e-9
    wrong = ev.compare(lambda params, x: 1.001 * single(params, x), FILT)
    assert not wrong.ok


# ---- wrong ones ------------------------------------------------------------------------------------------------------
def test_the_transpose_is_named():
    report = ev.compare(Dense(FILT, flip=True), FILT)
    assert not report.ok
    assert [cause.name for cause in report.causes] == ["shift-transposed"]
    assert report.diagnosis.startswith("S is transposed") and "all 4 rows agree to" in report.diagnosis
    assert {row.name: row.status for row in report.rows} == {
        "output": "off", "grad x": "off", "grad phi": "off", "grad bias": "ok", "own differences": "ok",
    }  # fmt: skip
    with pytest.raises(MismatchError, match="S is transposed") as caught:
        report.raise_for_error()
    assert caught.value.report is report


def test_on_a_symmetric_shift_a_transposed_one_is_no_mistake():
    """What a comparison on one graph cannot see."""
    S = UNDIRECTED.S.toarray()
    assert np.array_equal(S, S.T)
    filt = ev.Polynomial(UNDIRECTED, order=2)

    def layer(params, x):
        return sum(phi[0, 0] * x @ np.linalg.matrix_power(S, k) for k, phi in enumerate(params["phi"]))

    assert ev.compare(layer, filt).ok


def test_output_alone_where_there_is_no_backward():
    report = ev.compare(lambda params, x: Dense(FILT).forward(params, x)[0], FILT)
    assert report.ok
    assert [row.status for row in report.rows] == ["ok", "not compared", "not compared", "not compared"]
    flipped = ev.compare(lambda params, x: Dense(FILT, flip=True).forward(params, x)[0], FILT)
    assert "with that the output agrees to" in flipped.diagnosis


def test_what_no_known_mistake_explains_comes_with_its_smallest_case():
    def layer(params, x):
        y, _ = Dense(FILT).forward(params, x)
        y[:, 2, 3] += 0.25 * x[:, 1, 5] ** 3
        return y

    report = ev.compare(layer, FILT)
    assert report.causes == () and report.tried > 100
    assert f"none of {report.tried} known ways to go wrong explains it" in report.diagnosis
    assert report.smallest == (
        "x = 1 at node 5, feature 1, sample 0, all else 0: "
        "output at node 3, feature 2, sample 0 is 0.25, expected 0"
    )  # fmt: skip


def test_a_wrong_gradient_beside_a_right_output():
    class Doubled(Dense):
        def backward(self, params, w, grad_y):
            grads, grad_x = super().backward(params, w, grad_y)
            return {**grads, "phi": grads["phi"] * 1.7}, grad_x

    report = ev.compare(Doubled(FILT), FILT)
    assert {row.name for row in report.rows if row.status == "off"} == {"grad phi", "own differences"}
    assert report.causes == ()
    assert "the output is right, and the gradients do not belong to it" in report.patterns
    assert "grad phi: a constant factor, 1.7" in report.patterns


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        (lambda x: len(x), "3, equal to batch size here"),
        (lambda x: 3, "3, equal to out_features here"),  # for one sample too
        (lambda x: -1 / 6, "-0.166667, equal to -1/nodes here"),
        (lambda x: 1.7, "1.7"),
    ],
)
def test_a_factor_is_named_by_what_it_is_on_every_batch(factor, says):
    filt = ev.GCN(DIRECTED, in_features=2, out_features=3)

    def layer(params, x):
        return factor(x) * filt(params, x)

    assert f"output: a constant factor, {says}" in ev.compare(layer, filt).patterns


def test_patterns_name_factors_and_slices():
    class ByBatch(Dense):
        def backward(self, params, w, grad_y):
            grads, grad_x = super().backward(params, w, grad_y)
            grads["phi"][1:] = 0
            return {**grads, "bias": grads["bias"] / len(grad_y)}, grad_x

    report = ev.compare(ByBatch(FILT), FILT)
    assert any("zero from index 1 of the first axis on" in text for text in report.patterns)
    assert any("1/batch size" in text for text in report.patterns)


# ---- places in words -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("block", "index", "row", "words"),
    [
        ("y", (2, 3, 4), "output", "node 4, feature 3, sample 2"),
        ("x", (1, 0, 5), "grad x", "node 5, feature 0, sample 1"),
        ("phi", (1, 3, 0, 0), "grad phi", "self-loop of node 0, step 2, filter 3 ← 0"),
        ("bias", (2,), "grad bias", "feature 2"),
    ],
)
def test_the_worst_place_is_the_one_that_was_spoilt(block, index, row, words):
    report = ev.compare(Spoilt(FILT, block, index), FILT)
    assert {r.name: r.where for r in report.rows if r.status == "off"}[row] == words


def test_edges_are_told_by_their_ends_and_names():
    graph = ev.Graph(DIRECTED.S, nodes=list("abcdef"))
    filt = ev.EdgeVariant(graph, **FILT.config())
    entry = next(i for i in range(graph.nnz) if graph.rows[i] != graph.indices[i])
    report = ev.compare(Spoilt(filt, "phi", (2, 1, 1, entry)), filt)
    source, target = "abcdef"[graph.indices[entry]], "abcdef"[graph.rows[entry]]
    where = {row.name: row.where for row in report.rows}["grad phi"]
    assert where == f"edge {source} → {target}, step 3, filter 1 ← 1"
    assert graph.S[graph.rows[entry], graph.indices[entry]] != 0  # node `target` hears node `source`


# ---- the report ------------------------------------------------------------------------------------------------------
def test_the_report_is_json_and_text():
    report = ev.compare(Dense(FILT, flip=True), FILT)
    read = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert read["ok"] is False and read["diagnosis"] == report.diagnosis
    assert read["causes"][0]["name"] == "shift-transposed"
    assert [row["name"] for row in read["rows"]] == [row.name for row in report.rows]
    text = str(report)
    assert max(map(len, text.splitlines())) <= 110
    for part in ("Dense: DIFFERENT", "OFF", "worst place", "diagnosis: S is transposed", "smallest:", "edge"):
        assert part in text


def test_nan_on_both_sides_is_its_own_verdict():
    filt = ev.Polynomial(DIRECTED, order=1)
    params = {"phi": np.array([1.0, np.nan]).reshape(2, 1, 1)}
    report = ev.compare(filt_without_checks(filt), filt, params=params)
    assert not report.ok and report.rows[0].status == "nan"
    assert "not a number" in report.diagnosis
    one_sided = ev.compare(lambda params, x: x, filt, params=params)
    assert one_sided.rows[0].status == "off"


def filt_without_checks(filt):
    return lambda params, x: filt.forward(params, x, check_finite=False)[0]


def test_kinks_are_said():
    """ReLU at 0: some take 0 for its derivative, some 1, some a half; none is wrong."""

    class OtherSide:
        def forward(self, params, x):
            return np.maximum(x, 0), x

        def backward(self, params, x, grad_y):
            return {}, grad_y * (x >= 0)

    x = np.array([[1.0, 0.0, -1.0]])
    report = ev.compare(OtherSide(), ev.ReLU(), x=x)
    assert {row.name: row.status for row in report.rows}["grad x"] == "kink"
    assert "kink" in report.diagnosis and not report.ok
    assert ev.compare(OtherSide(), ev.ReLU(), x=x + 0.5).ok


# ---- many cases ------------------------------------------------------------------------------------------------------
def cases(flip):
    for kind in ("directed", "undirected"):
        for seed in (0, 1):
            filt = ev.EdgeVariant(probe_graph(5, kind, seed), order=1 + seed, in_features=2, out_features=3, bias=True)
            yield Case(f"{kind} {seed}", Dense(filt, flip), filt, batch=1 + seed)


def test_many_cases_make_one_report():
    assert compare_cases(cases(flip=False)).ok
    report = compare_cases(cases(flip=True))
    assert [cause.says for cause in report.causes] == ["S is transposed (every Phi is)"]
    assert len(report.cases) == 4 and not any(case.ok for case in report.cases)
    assert report.reference == "EdgeVariant"


def test_a_mistake_that_explains_some_cases_only_is_not_named():
    first, second, *_ = cases(flip=True)
    other = ev.EdgeVariant(second.reference.graph, **second.reference.config())

    class Halved(Dense):
        def forward(self, params, x):
            y, tape = super().forward(params, x)
            return y / 2, tape

    report = compare_cases([first, Case("halved", Halved(other), other)])
    assert report.causes == ()


def test_a_mistake_that_would_show_where_the_layer_is_right_is_not_named():
    first, second, *_ = cases(flip=True)
    report = compare_cases([first, Case("right", Dense(second.reference), second.reference)])
    assert report.causes == () and [case.ok for case in report.cases] == [False, True]


def test_no_cases():
    with pytest.raises(ValueError, match="cases is empty"):
        compare_cases([])


# ---- parameters under other names ------------------------------------------------------------------------------------
def test_parameters_go_through_and_gradients_come_back():
    filt = ev.Chebyshev(DIRECTED, order=2, in_features=2, out_features=3, bias=True)
    names = {"W0": ("theta", 0, "T"), "rest": ("theta", slice(1, None)), "b": "bias"}
    params = filt.init(0)
    mapped = ParameterMap(filt, names)
    theirs = mapped.theirs(params)
    assert theirs["W0"].shape == (2, 3) and theirs["rest"].shape == (2, 3, 2)
    back, outside = mapped.ours(theirs)
    assert outside == {} and all(np.array_equal(back[name], params[name]) for name in params)

    def layer(params, x):
        theta = np.concatenate([params["W0"].T[None], params["rest"]])
        return filt({"theta": theta, "bias": params["b"]}, x)

    def backward(params, x, grad_y):
        theta = np.concatenate([params["W0"].T[None], params["rest"]])
        ours = {"theta": theta, "bias": params["b"]}
        grads, grad_x = filt.backward(ours, filt.forward(ours, x)[1], grad_y)
        return {"W0": grads["theta"][0].T, "rest": grads["theta"][1:], "b": grads["bias"]}, grad_x

    report = ev.compare(layer, filt, parameters=names, backward=backward)
    assert report.ok and len(report.rows) == 5


def test_dense_matrices_are_adjoint_to_entries():
    filt = ev.EdgeVariant(DIRECTED, order=2, in_features=2, out_features=3)
    mapped = ParameterMap(filt, {"Phi": ("phi", "dense")})
    rng = np.random.default_rng(0)
    phi, G = rng.standard_normal(filt.init(0)["phi"].shape), rng.standard_normal((2, 3, 2, 6, 6))
    Phi = mapped.theirs({"phi": phi})["Phi"]
    assert np.array_equal(Phi, DIRECTED.phi_to_dense(phi))
    back, outside = mapped.ours({"Phi": G})
    assert np.vdot(Phi, G) == pytest.approx(np.vdot(phi, back["phi"]), rel=1e-12)
    assert np.vdot(Phi, outside["Phi"]) == 0 and np.array_equal(outside["Phi"] != 0, Phi == 0)


def test_a_function_moves_entries():
    """Heads side by side in one matrix, an order of its own, an entry used twice."""
    filt = ev.GraphAttention(DIRECTED, in_features=3, out_features=4, heads=2)

    def together(weight):
        return weight.transpose(1, 0, 2).reshape(-1, 3)[::-1]

    mapped = ParameterMap(filt, {"W": ("weight", together), "s": ("source", lambda s: s[:, [0, 1, 1]]), "t": "target"})
    params, rng = filt.init(0), np.random.default_rng(0)
    theirs = mapped.theirs(params)
    assert np.array_equal(theirs["W"], together(params["weight"])) and theirs["s"].shape == (2, 3)
    grads = {name: rng.standard_normal(array.shape) for name, array in theirs.items()}
    back, _ = mapped.ours(grads)
    for ours, name in (("weight", "W"), ("source", "s")):
        assert np.vdot(params[ours], back[ours]) == pytest.approx(np.vdot(theirs[name], grads[name]), rel=1e-12)


def test_a_layer_whose_parameters_are_moved():
    filt = ev.Polynomial(DIRECTED, order=2, in_features=2, out_features=3)

    def layer(params, x):  # one matrix over the features of all powers
        S = DIRECTED.S.toarray()
        powers = [x, x @ S.T, x @ S.T @ S.T]
        return params["W"] @ np.concatenate(powers, axis=1)

    names = {"W": ("phi", lambda phi: phi.transpose(1, 0, 2).reshape(3, -1))}
    assert ev.compare(layer, filt, parameters=names).ok
    assert not ev.compare(layer, filt, parameters={"W": ("phi", lambda phi: phi.reshape(3, -1))}).ok


SQUARE = "there are as many features as nodes: the order of axes is a guess; layout= says which is meant"


def test_as_many_features_as_nodes():
    """Shapes do not say which axis is which; what explains the numbers does."""
    filt = ev.Polynomial(DIRECTED, order=2, in_features=6, out_features=6)
    S = DIRECTED.S.toarray()

    def transposed(params, x):  # (nodes, features), and S.T for S
        w, y = x, 0
        for phi in params["phi"]:
            y, w = y + w @ phi.T, S.T @ w
        return y

    report = ev.compare(transposed, filt)
    assert "S is transposed" in report.diagnosis and "called with (batch, nodes, features)" in report.setting
    assert report.notes == (SQUARE,)
    report = ev.compare(lambda params, x: transposed(params, x) + x[:, :1], filt)
    assert report.causes == () and report.notes == (SQUARE,)
    assert ev.compare(lambda params, x: 1 / 0, filt).notes == ()
    right = ev.compare(filt, ev.Polynomial(DIRECTED, order=2, in_features=6, out_features=6))
    assert right.ok and right.notes == ()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"a": "phy", "b": "bias"}, "did you mean 'phi'"),
        ({"a": "phi"}, "does not say where bias, of shape"),
        ({"a": ("phi", 0), "b": "bias"}, "does not say where phi.*entries"),
        ({"a": ("phi", 9), "b": "bias"}, "does not fit phi of shape"),
        ({"a": ("phi", "transposed"), "b": "bias"}, "has the step 'transposed'"),
        ({"a": ("phi", lambda phi: 2 * phi), "b": "bias"}, "the function changes the entries"),
        ({"a": ("phi", lambda phi: phi.astype(float)), "b": "bias"}, "the function changes the entries"),
        ({"a": ("phi", lambda phi: np.abs(phi)), "b": "bias"}, "the function changes the entries"),
        ({"a": ("phi", lambda phi: phi[0]), "b": "bias"}, "does not say where phi.*entries"),
        ({"a": ("phi", lambda phi: phi.nothing), "b": "bias"}, "does not fit phi of shape"),
        ({"a": "phi", "b": ("bias", "dense")}, "one entry per edge"),
    ],
)
def test_parameters_that_do_not_fit(parameters, message):
    with pytest.raises(ValueError, match=message):
        ev.compare(Dense(FILT), FILT, parameters=parameters, framework="contract")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"reference": DIRECTED}, TypeError, "reference is Graph; expected a filter, layer or network"),
        ({"reference": FILT.forward}, TypeError, "reference is method; expected"),
        ({"reference": ev.GCN}, TypeError, "reference is the class GCN; expected"),
        ({"layer": 3}, TypeError, "layer is int; expected a function"),
        ({"layer": Dense}, TypeError, "layer is the class Dense.*pass an instance"),
        ({"framework": "keras"}, ValueError, "framework is 'keras'; expected one of torch, jax, numpy"),
        ({"layout": "nodes"}, ValueError, "layout is 'nodes'; expected 'features, nodes'"),
        ({"dtype": np.float16}, TypeError, "dtype is float16; supported are float32 and float64"),
        ({"x": np.zeros((2, 2, 5))}, ValueError, "x has shape"),
        ({"params": {"phi": np.zeros(3)}}, ValueError, "params has the names"),
        ({"call": 3}, TypeError, "call is int; expected a function"),
        ({"parameters": 3}, TypeError, "parameters is int; expected a dict"),
    ],
)
def test_bad_arguments(arguments, error, message):
    arguments = {"layer": Dense(FILT), "reference": FILT, **arguments}
    with pytest.raises(error, match=message):
        ev.compare(**arguments)
