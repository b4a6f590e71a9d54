"""How a layer may be written for `evref.compare`, and what is said of a call that makes no sense."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from polynomial_layer import FILT, GRAPH, Contract, S, right

import evref as ev


def by_name(x, phi, bias):
    return right({"phi": phi, "bias": bias}, x)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Callable:
    __name__ = 3  # as it happens

    def __call__(self, params, x):
        return right(params, x)

    def method(self, x, params):
        return right(params, x)

    @staticmethod
    def static(params, x):
        return right(params, x)

    @classmethod
    def of_class(cls, x, **parameters):
        return right(parameters, x)


class Silent:
    """Asked for anything it raises."""

    def __getattr__(self, name):
        raise RuntimeError(f"no {name} today")

    def __call__(self, params, x):
        return right(params, x)


@pytest.mark.parametrize(
    "layer",
    [
        by_name,
        decorated(by_name),
        lambda phi, bias, x: by_name(x, phi, bias),
        lambda phi, x, /, bias: by_name(x, phi, bias),
        lambda x, /, phi, *, bias: by_name(x, phi, bias),
        lambda x, **parameters: by_name(x, **parameters),
        lambda x, phi, **rest: by_name(x, phi, **rest),
        lambda h, phi, bias, slope=0.2: by_name(h, phi, bias),
        lambda x, params: right(params, x),
        lambda x, p: right(p, x),
        lambda x, w: right(w, x),
        lambda x, w, scale=1: scale * right(w, x),
        lambda signal, params: right(params, signal),
        lambda *args: right(*args),
        lambda *args, **kwargs: right(*args, **kwargs),
        lambda parameters, signal, scale=1: scale * right(parameters, signal),
        functools.partial(lambda S, params, x: right(params, x), S),
        functools.partial(by_name),
        Callable(),
        Callable().method,
        Callable.static,
        Callable.__dict__["static"],
        Callable.of_class,
        functools.partial(functools.partial(decorated(decorated(right)))),
    ],
)
def test_ways_to_write_a_right_function(layer):
    report = ev.compare(layer, FILT)
    assert report.ok and isinstance(report.layer, str), str(report)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda x: x, r"layer takes \(x\); expected \(params, x\), or x and phi, bias by name"),
        (lambda: 1, r"layer takes \(\); expected"),
        (lambda x, phi: x, r"layer has no argument bias and takes \(x, phi\); expected"),
        (lambda x, phi, bias, edges: x, r"layer takes \(x, phi, bias, edges\); expected .* say call="),
        (lambda *, x: x, r"layer takes \(x\); expected"),
        (Contract, "layer is the class Contract.*pass an instance"),
        (Contract(), None),
        ("right", "layer is str; expected a function"),
        (None, "layer is NoneType; expected"),
        (GRAPH, "layer is Graph; expected"),
        (np, "layer is module; expected"),
    ],
)
def test_what_is_no_layer(layer, message):
    if message is None:
        assert ev.compare(layer, FILT).ok
        return
    with pytest.raises(TypeError, match=message):
        ev.compare(layer, FILT)


EXPECTED = "; expected (params, x), or x and phi, bias by name; for another call say call=lambda layer, params, x: ..."


@pytest.mark.parametrize(
    ("layer", "how"),
    [
        (lambda x, w: w @ x @ S.T, "(x, w) and was called with x and params, a dict"),
        (lambda w, x: w @ x @ S.T, "(w, x) and was called with params, a dict, and x"),
        (lambda x, w, scale=2: x @ w["w"], "(x, w, scale) and was called with x and params, a dict"),
    ],
)
def test_an_argument_that_is_no_dict_in_the_layer(layer, how):
    report = ev.compare(layer, FILT)
    assert report.problem_kind == "raises" and report.problem.startswith("the layer raised ")
    assert report.problem.endswith(f"; layer takes {how}{EXPECTED}")


@pytest.mark.parametrize(
    "layer",
    [
        lambda params, x: x @ x,
        lambda x, params: x @ x,
        lambda p, x: x @ x,
        lambda x, w: x @ x + w["phi"],  # it knows that w is a dict
        lambda *args: args[1] @ args[1],
    ],
)
def test_a_layer_that_knows_of_the_dict_is_not_told(layer):
    report = ev.compare(layer, FILT)
    assert report.problem_kind == "raises" and "layer takes" not in report.problem


def test_a_function_without_parameters_takes_x_alone():
    relu = ev.ReLU()
    for layer in (lambda x: np.maximum(x, 0), lambda x, slope=0.0: np.maximum(x, slope * x)):
        assert ev.compare(layer, relu).ok


def test_objects_that_answer_to_nothing_and_to_everything():
    assert ev.compare(Silent(), FILT).ok

    class Endless:
        def __getattr__(self, name):
            return self

        def __call__(self, *args):
            return self

    report = ev.compare(Endless(), FILT)
    assert "the layer returned an Endless; expected one numpy.ndarray" in report.problem


# ---- what the caller does wrong --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"call": lambda layer: 1}, TypeError, r"call takes \(layer\); expected \(layer, params, x\)"),
        ({"backward": lambda p, x: 1}, TypeError, r"backward takes \(p, x\); expected \(params, x, grad_y\)"),
        ({"parameters": {"a": 3, "bias": "bias"}}, ValueError, r"parameters\['a'\] is 3; expected one of phi, bias"),
        ({"parameters": {"a": (), "bias": "bias"}}, ValueError, r"parameters\['a'\] is \(\); expected one of"),
        ({"parameters": {"a": None, "bias": "bias"}}, ValueError, r"parameters\['a'\] is None; expected one of"),
        ({"parameters": {"a": ([1],), "bias": "bias"}}, ValueError, r"parameters\['a'\] is .* expected one of"),
        ({"parameters": {"a": ("phi", 1.5), "bias": "bias"}}, ValueError, "does not fit phi of shape"),
        ({"parameters": {"a": ("phi", [True, False, True]), "bias": "bias"}}, ValueError, "6 of 18 entries"),
        ({"parameters": {3: "phi", "bias": "bias"}}, TypeError, "parameters has the key 3; expected names"),
        ({"dtype": "float7"}, TypeError, "dtype is 'float7'; supported are float32 and float64"),
        ({"dtype": int}, TypeError, "dtype is int64; supported"),
        ({"seed": -1}, ValueError, "seed is -1; expected at least 0"),
        ({"seed": "a"}, TypeError, r"seed is 'a' \(str\); expected an integer"),
        ({"x": "abc"}, TypeError, "x has dtype <U3; supported"),
        ({"x": np.ones((2, 2, 5)) + 0j}, TypeError, "x has dtype complex128"),
        ({"x": np.zeros((0, 2, 5))}, ValueError, r"x has shape \(0, 2, 5\), which has no numbers; expected at least"),
        ({"x": np.zeros((2, 3, 5))}, ValueError, "x has shape"),
        ({"x": [[1, 2], [3]]}, ValueError, "x is not a rectangular array"),
        ({"params": [1]}, TypeError, "params is list; expected a dict"),
        ({"params": {"phi": 1}}, ValueError, "params has the names"),
        ({"params": {1: 1, "phi": 1}}, ValueError, "params has the names"),
        ({"params": {"phi": np.zeros((3, 3, 2)), "bias": "b"}}, TypeError, r"params\['bias'\] has dtype <U1"),
        ({"params": {"phi": np.zeros((3, 3)), "bias": np.zeros(3)}}, ValueError, "phi"),
    ],
)
def test_what_the_caller_does_wrong(arguments, error, message):
    with pytest.raises(error, match=message):
        ev.compare(right, FILT, **arguments)
