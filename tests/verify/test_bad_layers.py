"""Layers that misbehave, in NumPy and on evref's contract: each is a verdict of its own, never a traceback from evref.

The same for PyTorch and JAX: validation/test_bad_layers.py. How layers are called: test_calls_of_layers.py.
"""

from __future__ import annotations

import json
import os
import random
import warnings

import numpy as np
import pytest
from polynomial_layer import FILT, Contract, right

import evref as ev


def said(report) -> str:
    """The sentence of a report that must be usable as text, as JSON and in a test."""
    assert not report.ok and report.problem == report.diagnosis and report.diagnosis in report.to_dict()["problem"]
    json.dumps(report.to_dict(), allow_nan=False)
    assert "NOT COMPARED" in str(report) and "evref" not in report.diagnosis
    with pytest.raises(AssertionError, match="NOT COMPARED"):
        report.raise_for_error()
    return report.diagnosis


# ---- what is returned ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spoil", "kind", "sentence"),
    [
        (lambda y: y.swapaxes(1, 2), "shape", "the output has shape (3, 5, 3); expected (3, 3, 5), (batch, features, "),
        (lambda y: y[0], "shape", "the output has shape (3, 5); expected (3, 3, 5)"),
        (lambda y: y[None], "shape", "the output has shape (1, 3, 3, 5); expected (3, 3, 5)"),
        (lambda y: y[:, :, :-1], "shape", "the output has shape (3, 3, 4); expected (3, 3, 5)"),
        (lambda y: np.array(y.sum()), "shape", "the output has shape (); expected (3, 3, 5)"),
        (lambda y: y.astype(np.float16), "dtype", "the output is float16 for parameters and x of float64; expected"),
        (lambda y: y.astype(int), "dtype", "the output is int64 for parameters and x of float64"),
        (lambda y: y > 0, "dtype", "the output is bool for"),
        (lambda y: y + 0j, "dtype", "the output is complex128 for parameters and x of float64; expected float64"),
        (lambda y: y.astype(object), "dtype", "the output is object for"),
        (lambda y: y.astype("U9"), "dtype", "the output is <U9 for"),
        (lambda y: None, "type", "the layer returned None; expected one numpy.ndarray, the output"),
        (lambda y: (y, 3), "type", "the layer returned a tuple of 2; expected one numpy.ndarray"),
        (lambda y: [y], "type", "the layer returned a list of 1"),
        (lambda y: {"y": y}, "type", "the layer returned a dict of 1"),
        (lambda y: "y", "type", "the layer returned a str"),
        (lambda y: float(y.sum()), "type", "the layer returned a float; expected"),
        (lambda y: np.ma.masked_array(y, mask=True), "type", "the layer returned a MaskedArray; expected"),
        (lambda y: (row for row in y), "type", "the layer returned a generator (there is a yield in it)"),
    ],
)
def test_what_is_returned(spoil, kind, sentence):
    report = ev.compare(lambda params, x: spoil(right(params, x)), FILT)
    assert sentence in said(report) and report.problem_kind == kind and report.rows == ()


def of_float64(params, x):
    y = np.zeros((len(x), 5))
    y += right(params, x).sum(1)
    return y


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(of_float64, "(3, 5)"), (lambda params, x: np.zeros((3, 1, 5, 2000)), "(3, 1, 5, 2000)")],
)
def test_a_wrong_shape_is_told_though_float32_would_be_refused(layer, shape):
    assert f"the output has shape {shape}; expected (3, 3, 5)" in said(ev.compare(layer, FILT))


def test_a_layer_of_float32_is_judged_as_one():
    def layer(params, x):
        return right(params, x).sum(1).astype(np.float32)

    assert "the output has shape (3, 5); expected (3, 3, 5)" in said(ev.compare(layer, FILT))
    report = ev.compare(layer, FILT, dtype="float64")
    assert "the output is float32 for parameters and x of float64; expected float64" in said(report)


def test_async_functions():
    async def layer(params, x):
        return right(params, x)

    report = ev.compare(layer, FILT)  # Python's warning that nobody awaited it would be an error here
    assert "the layer returned a coroutine (it is an async function); expected" in said(report)


def test_arrays_that_are_as_good_as_any():
    buffer = {}

    def reused(params, x):
        return (
            np.copyto(buffer.setdefault((len(x), x.dtype), np.empty((len(x), 3, 5), x.dtype)), right(params, x))
            or (buffer[len(x), x.dtype])
        )

    for spoil in (
        lambda y: y.astype(">f8"),
        np.asfortranarray,
        lambda y: y[::-1][::-1],
        lambda y: np.broadcast_to(y, y.shape),
    ):
        assert ev.compare(lambda params, x, spoil=spoil: spoil(right(params, x)), FILT).ok
    assert ev.compare(reused, FILT).ok
    assert ev.compare(lambda params, x: x, ev.GCN(ev.Graph(np.eye(3)), 1, 1), params={"theta": np.eye(1)}).ok


# ---- what is raised --------------------------------------------------------------------------------------------------
class Unreadable(Exception):
    def __str__(self):
        raise ValueError("not even this")


def raising(error):
    def layer(params, x):
        raise error

    return layer


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KeyError("theta"), "the layer raised KeyError: 'theta' (test_bad_layers.py, line {0})"),
        (ValueError(), "the layer raised ValueError (test_bad_layers.py, line {0})"),
        (ValueError("two\n\n  lines"), "the layer raised ValueError: two lines (test"),
        (ValueError("\x1b[31mred\x07"), r"the layer raised ValueError: \x1b[31mred\x07 (test"),
        (ValueError("x" * 2000), "x" * 290 + "... (test_bad"),
        (Unreadable(), "the layer raised Unreadable: (its message cannot be read: __str__ raised ValueError) (test_"),
        (SystemExit(3), "the layer raised SystemExit: 3 (test_bad_layers.py"),
        (MemoryError("much"), "the layer raised MemoryError: much"),
        (StopIteration(), "the layer raised StopIteration"),
        (AssertionError("mine"), "the layer raised AssertionError: mine"),
        (ExceptionGroup("several", [ValueError("one")]), "the layer raised ExceptionGroup: several (1 sub-exception)"),
    ],
)
def test_exceptions(error, sentence):
    report = ev.compare(raising(error), FILT)
    line = raising.__code__.co_firstlineno + 2
    assert sentence.format(line) in said(report) and report.problem_kind == "raises"


def test_the_line_is_in_the_users_file():
    def in_python(params, x):
        return json.loads("{")

    def in_numpy(params, x):
        return np.ones(2) @ np.ones(3)

    def deep(params, x):
        return deep(params, x)

    for layer, kind in ((in_python, "JSONDecodeError"), (in_numpy, "ValueError"), (deep, "RecursionError")):
        text = said(ev.compare(layer, FILT))
        assert f"raised {kind}" in text and f"(test_bad_layers.py, line {layer.__code__.co_firstlineno + 1})" in text


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, pytest.skip.Exception])
def test_what_is_no_error_passes(error):
    with pytest.raises(error):
        ev.compare(raising(error()), FILT)


def test_of_several_orders_of_axes_the_one_that_got_furthest_is_told():
    def layer(params, x):  # of one sample, (nodes, features)
        y = x @ params["phi"][0].T
        return y + np.ones(17)

    text = said(ev.compare(layer, FILT))
    assert f"line {layer.__code__.co_firstlineno + 2}), called with (" in text and "nodes, features" in text


@pytest.mark.parametrize("calls", range(2, 14))
def test_a_layer_that_fails_late(calls):
    left = [calls]

    def layer(params, x):
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("no more")
        return 2 * right(params, x)

    report = ev.compare(layer, FILT)
    assert not report.ok and (report.rows or "the layer raised RuntimeError: no more (test_bad" in said(report))


# ---- no function -----------------------------------------------------------------------------------------------------
def counting():
    calls = []

    def layer(params, x):
        calls.append(1)
        return right(params, x) * len(calls)

    return layer


def counting_from(n):
    layer, calls = counting(), []

    def late(params, x):
        calls.append(1)
        return layer(params, x) if len(calls) > n else right(params, x)

    return late


def with_memory():
    kept = []

    def layer(params, x):
        kept.append(right(params, x))
        return kept[-1] + (kept[-2].mean() if len(kept) > 1 else 0)

    return layer


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (lambda params, x: right(params, x) + np.random.rand(), "it draws random numbers"),
        (lambda params, x: right(params, x) + random.random(), "it draws random numbers"),
        (lambda params, x: right(params, x) + np.random.default_rng().random(), "depends on earlier calls, or on rand"),
        (counting(), "depends on earlier calls"),
        (counting_from(5), "depends on earlier calls"),
        (with_memory(), "depends on earlier calls"),
    ],
)
def test_what_is_no_function(layer, reason):
    report = ev.compare(layer, FILT)
    assert "the layer gives different numbers for the same input; expected a function: " in said(report)
    assert reason in report.diagnosis and report.problem_kind == "random"


def test_random_numbers_of_the_size_of_rounding_are_rounding():
    def layer(params, x):  # as sums over several threads are
        return right(params, x) * (1 + 1e-15 * np.random.rand())

    assert ev.compare(layer, FILT).ok


# ---- arguments that are changed --------------------------------------------------------------------------------------
def changing(statement):
    def layer(params, x):
        y = right(params, x)
        exec(statement, {"params": params, "x": x, "np": np})
        return y

    return layer


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("x += 1", "the layer changes its input x in place; expected it untouched (x.copy())"),
        ("x[0, 0, 0] = np.nan", "the layer changes its input x in place"),
        ("x.shape = (-1,)", "the layer changes its input x in place"),
        ("params['phi'] *= 2", "the layer changes the parameter phi in place; expected it untouched"),
        ("params['bias'][0] = 0", "the layer changes the parameter bias in place"),
        ("params.pop('bias')", "the layer removes bias from the dict params that it is given; expected it untouched"),
        ("params['bias'] = 0", "the layer replaces bias in the dict params"),
        ("params['extra'] = 0", "the layer puts extra into the dict params"),
        ("params.clear()", "the layer removes bias, phi from the dict params"),
    ],
)
def test_arguments_that_are_changed(statement, sentence):
    report = ev.compare(changing(statement), FILT)
    assert sentence in said(report) and report.problem_kind == "mutates"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_not_taken_for_changes(value):
    params = {"phi": np.full((3, 3, 2), value), "bias": np.zeros(3)}
    report = ev.compare(right, FILT, params=params)
    assert report.problem == "" and "not a number" in report.diagnosis


# ---- objects on the contract -----------------------------------------------------------------------------------------
def taking(grads=None, grad_x=None):
    """A backward pass whose results go through these."""

    def backward(self, params, tape, grad_y):
        ours, ours_x = FILT.backward(params, tape, grad_y)
        return (grads or (lambda found: found))(ours), (grad_x or (lambda found: found))(ours_x)

    return backward


def doing(statement):
    def backward(self, params, tape, grad_y):
        found = FILT.backward(params, tape, grad_y)
        exec(statement, {"params": params, "grad_y": grad_y, "tape": tape, "np": np, "self": self})
        return found

    return backward


def random_backward(self, params, tape, grad_y):
    grads, grad_x = FILT.backward(params, tape, grad_y)
    return grads, grad_x * np.random.rand()


@pytest.mark.parametrize(
    ("methods", "kind", "sentence"),
    [
        ({"forward": lambda s, p, x: (*FILT.forward(p, x), 3)}, "type", "a tuple of 3; expected one numpy.ndarray, th"),
        ({"forward": lambda s, p, x: ([1], None)}, "type", "a list of 1; expected one numpy.ndarray, the output, or ("),
        ({"backward": lambda s, p, t, g: None}, "type", "backward returned None; expected (grads, grad_x), grads a d"),
        ({"backward": lambda s, p, t, g: g}, "type", "backward returned a ndarray; expected (grads, grad_x)"),
        ({"backward": taking(lambda g: [g])}, "type", "backward returned a tuple of 2; expected (grads, grad_x), gra"),
        ({"backward": taking(lambda g: {"phi": g["phi"]})}, "type", "gradients of phi; expected those of bias, phi"),
        ({"backward": taking(lambda g: {**g, 3: 1})}, "type", "backward returned gradients of 3, bias, phi; expected"),
        ({"backward": taking(lambda g: {})}, "type", "backward returned gradients of nothing; expected those of bias"),
        ({"backward": taking(None, lambda g: g[0])}, "shape", "the gradient of x has shape (2, 5); expected (3, 2, 5)"),
        ({"backward": taking(lambda g: {**g, "phi": 0.0})}, "shape", "the gradient of phi has shape (); expected (3, "),
        ({"backward": taking(None, lambda g: g + 0j)}, "dtype", "the gradient of x is complex128; expected an array o"),
        ({"backward": taking(None, lambda g: "x")}, "dtype", "the gradient of x is <U1; expected an array of real num"),
        ({"backward": taking(None, lambda g: [[1], [1, 2]])}, "raises", "reading the gradient of x raised ValueError"),
        ({"backward": taking(None, np.ma.masked_array)}, "dtype", "the gradient of x is a masked array; expected"),
        ({"backward": doing("params['phi'] *= 2")}, "mutates", "backward changes the parameter phi in place; expected"),
        ({"backward": doing("params.clear()")}, "mutates", "removes bias, phi from the dict params"),
        ({"backward": doing("grad_y *= 2")}, "mutates", "backward changes grad_y in place; expected it untouched"),
        ({"backward": doing("raise OSError('full')")}, "raises", "the backward pass raised OSError: full (test_bad_la"),
        ({"backward": doing("raise SystemExit('bye')")}, "raises", "the backward pass raised SystemExit: bye"),
        ({"backward": lambda s, p: 3}, "raises", "the backward pass raised TypeError: <lambda>() takes 2 positional"),
        ({"backward": random_backward}, "random", "grad x is another one at the second call; expected the same num"),
    ],
)
def test_objects_on_the_contract(methods, kind, sentence):
    report = ev.compare(type("Mine", (Contract,), methods)(), FILT)
    assert sentence in said(report) and report.problem_kind == kind
    assert report.layer == "Mine"


def test_the_input_is_changed_by_backward():
    kept = []

    def forward(params, x):
        kept[:] = [x]
        return right(params, x)

    def backward(params, x, grad_y):
        _, tape = FILT.forward(params, x)
        kept[0][:] = 0
        return FILT.backward(params, tape, grad_y)

    report = ev.compare(forward, FILT, backward=backward)
    assert "backward changes its input x in place" in said(report)


@pytest.mark.parametrize(
    ("grads", "grad_x", "says"),
    [
        (lambda g: dict.fromkeys(g), lambda g: None, "no gradient reaches anything: the output is detached"),
        (lambda g: {**g, "phi": None}, None, "no gradient reaches phi: it is detached"),
        (lambda g: {**g, "bias": 0 * g["bias"]}, None, "no gradient reaches bias: it is detached"),
        (None, lambda g: None, "no gradient reaches x: it is detached"),
    ],
)
def test_gradients_that_are_cut_are_named(grads, grad_x, says):
    report = ev.compare(type("Cut", (Contract,), {"backward": taking(grads, grad_x)})(), FILT)
    assert report.diagnosis.startswith(says) and [cause.name for cause in report.causes] == ["detached"]
    assert {row.name: row.status for row in report.rows}["output"] == "ok"


# ---- numbers ---------------------------------------------------------------------------------------------------------
def one_entry(value):
    def layer(params, x):
        y = right(params, x)
        y[0, 1, 2] = value
        return y

    return layer


@pytest.mark.parametrize(
    "layer",
    [
        one_entry(np.nan),
        one_entry(np.inf),
        one_entry(-np.inf),
        lambda params, x: right(params, x) * np.nan,
        lambda params, x: right(params, x) * 1e308 * 1e10,
        lambda params, x: right(params, x) * 1e-310,
        lambda params, x: np.float32(1e30) * (right(params, x).astype(np.float32) * np.float32(1e30)).astype(x.dtype),
        lambda params, x: np.zeros_like(right(params, x)),
    ],
)
@pytest.mark.parametrize("dtype", [None, np.float64, np.float32])
def test_numbers_that_cannot_be(layer, dtype):
    report = ev.compare(layer, FILT, dtype=dtype)
    assert not report.ok and report.rows[0].status == "off" and "smallest failing case" in report.diagnosis
    json.dumps(report.to_dict(), allow_nan=False)
    assert "NOT COMPARED" not in str(report)


# ---- what the caller gives -------------------------------------------------------------------------------------------
def test_an_index_that_is_there_twice_collects_its_gradients():
    """[0, 0, 1, 2]: the adjoint of a copy is a sum."""

    def layer(params, x):
        twice = params["twice"]
        return right({"phi": np.stack([(twice[0] + twice[1]) / 2, *twice[2:]]), "bias": params["bias"]}, x)

    def backward(params, x, grad_y):
        twice = params["twice"]
        ours = {"phi": np.stack([(twice[0] + twice[1]) / 2, *twice[2:]]), "bias": params["bias"]}
        grads, grad_x = FILT.backward(ours, FILT.forward(ours, x)[1], grad_y)
        first, *rest = grads["phi"]
        return {"twice": np.stack([first / 2, first / 2, *rest]), "bias": grads["bias"]}, grad_x

    names = {"twice": ("phi", [0, 0, 1, 2]), "bias": "bias"}
    assert ev.compare(layer, FILT, parameters=names, backward=backward).ok


def test_arrays_of_the_caller_stay_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    x, params = rng.standard_normal((2, 2, 5)), FILT.init(0)
    on_disk = np.memmap(tmp_path / "x.bin", dtype=float, mode="w+", shape=x.shape)
    on_disk[:] = x
    read_only = {name: array.copy() for name, array in params.items()}
    for array in (*read_only.values(), on_disk):
        array.flags.writeable = False
    layers = (Contract(), right, changing("x += 1"), changing("params.clear()"), changing("params['phi'] *= 2"))
    for layer in layers:
        report = ev.compare(layer, FILT, params=read_only, x=on_disk)
        assert report.ok == (layer in layers[:2])
        assert str(report) == str(ev.compare(layer, FILT, params=params, x=x[:, :, ::-1][:, :, ::-1]))
    assert np.array_equal(on_disk, x) and all(np.array_equal(read_only[n], params[n]) for n in params)
    assert ev.compare(right, FILT, x=np.arange(10).reshape(2, 5)).ok  # integers, one sample


# ---- what is outside of the layer ------------------------------------------------------------------------------------
def test_random_generators_and_settings_are_afterwards_what_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()

    def layer(params, x):
        np.random.seed(3)
        random.seed(3)
        np.seterr(all="raise")
        warnings.simplefilter("error")
        os.chdir(tmp_path / "elsewhere")
        return right(params, x)

    before = (np.random.get_state()[1].tolist(), random.getstate(), np.geterr(), list(warnings.filters), os.getcwd())
    report = ev.compare(layer, FILT)
    after = (np.random.get_state()[1].tolist(), random.getstate(), np.geterr(), list(warnings.filters), os.getcwd())
    assert report.ok and before == after
    (note,) = report.notes
    assert note.startswith("the layer changes the current folder from ") and note.endswith("it was set back")


def test_drawing_does_not_go_on_where_a_layer_stopped():
    random.seed(0)
    np.random.seed(0)
    expected = random.random(), np.random.rand()
    random.seed(0)
    np.random.seed(0)
    for layer in (right, lambda params, x: right(params, x) + np.random.rand(), raising(KeyError())):
        ev.compare(layer, FILT)
    assert (random.random(), np.random.rand()) == expected


def test_warnings_of_a_layer_are_no_errors_and_its_prints_are_its_own(capsys):
    def layer(params, x):
        print("running")
        warnings.warn("careful", stacklevel=1)
        np.array([1.0]) / 0
        return right(params, x)

    assert ev.compare(layer, FILT).ok
    assert set(capsys.readouterr().out.split()) == {"running"}


def test_nothing_grows_with_the_number_of_comparisons():
    import gc
    import tracemalloc

    def compare():
        for layer in (right, Contract(), raising(KeyError("no")), lambda params, x: None):
            ev.compare(layer, FILT)

    for _ in range(5):
        compare()
    gc.collect()
    tracemalloc.start()
    try:
        compare()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(25):
            compare()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()
