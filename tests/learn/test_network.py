from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from evref.filters import EdgeVariant
from evref.graph import Graph
from evref.learn import (
    CrossEntropy,
    Dense,
    MaxActivation,
    MeanSquaredError,
    MedianActivation,
    Network,
    ReLU,
    Sigmoid,
    Tanh,
)
from evref.verify import gradcheck

PATH = np.array([[0.0, 1, 0, 0], [2, 0, 1, 0], [0, 1, 0, 3], [0, 0, 1, 0]])


def small_network(activation=None) -> Network:
    graph = Graph(PATH)
    return Network(
        [
            EdgeVariant(graph, order=2, in_features=1, out_features=2),
            activation or Tanh(),
            MedianActivation(graph, features=2),
            EdgeVariant(graph, order=1, in_features=2, out_features=1, zeroth="diagonal", bias=True),
            Sigmoid(),
            Dense((1, 4), outputs=3),
        ]
    )


@pytest.mark.parametrize("activation", [Tanh(), ReLU()], ids=repr)
def test_gradients_of_the_chain(activation):
    net = small_network(activation)
    gradcheck.dot_test(net).raise_if_failed()
    gradcheck.complex_step(net).raise_if_failed()
    gradcheck.central_difference(net).raise_if_failed()


def test_the_chain_is_its_layers_one_after_the_other():
    net = small_network()
    params = net.init(rng=0)
    x = np.random.default_rng(1).standard_normal((3, 1, 4))
    y = x
    for i, layer in enumerate(net.layers):
        y, _ = layer.forward({p: params[f"{i}.{p}"] for p in layer.parameter_shapes()}, y)
    np.testing.assert_array_equal(net.predict(params, x), y)
    np.testing.assert_array_equal(net.forward(params, x)[0], y)


def test_the_cotangent_stops_at_the_first_layer_that_learns():
    class Wall(Tanh):
        def _backward(self, *args):
            raise AssertionError("nobody wants to know")

    def network(first):
        return Network([first, Dense((1, 4), outputs=3), Tanh(), Dense((3,), outputs=2)])

    x, u = np.random.default_rng(1).standard_normal((3, 1, 4)), np.random.default_rng(2).standard_normal((3, 2))
    net = network(Tanh())
    params = net.init(rng=0)
    expected, _ = net.backward(params, net.forward(params, x)[1], u)
    walled = network(Wall())
    found = walled._parameter_gradients(params, walled.forward(params, x)[1].saved, u)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[key], expected[key]) for key in expected)
    nothing = Network([Wall()])
    assert nothing._parameter_gradients({}, nothing.forward({}, x)[1].saved, x) == {}


def test_shapes_names_and_counts():
    net = small_network()
    assert net.in_shape == (1, 4) and net.out_shape == (3,)
    names = {"0.phi", "2.weight", "3.phi", "3.phi0", "3.bias", "5.weight", "5.bias"}
    assert set(net.parameter_shapes()) == names
    assert net.n_parameters == sum(layer.n_parameters for layer in net.layers)
    assert net.n_operations(7) == sum(layer.n_operations(7) for layer in net.layers) > 0
    assert net.graph is net.layers[0].graph
    params = net.init(rng=0, dtype=np.float32)
    assert {k: v.shape for k, v in params.items()} == net.parameter_shapes()
    assert all(v.dtype == np.float32 for v in params.values())
    again = net.init(rng=0, dtype=np.float32)
    assert all(np.array_equal(params[k], again[k]) for k in params)


def test_init_draws_layer_by_layer_from_one_stream():
    net = small_network()
    rng = np.random.default_rng(5)
    expected = [layer.init(rng) for layer in net.layers]
    params = net.init(rng=5)
    for i, part in enumerate(expected):
        for p, array in part.items():
            np.testing.assert_array_equal(params[f"{i}.{p}"], array)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1, 1, 4)])
def test_samples_come_back_in_kind(shape):
    net = small_network()
    params = net.init(rng=0)
    y, tape = net.forward(params, np.ones(shape))
    assert y.shape == ((1, 3) if len(shape) == 3 else (3,))
    assert net.backward(params, tape, y)[1].shape == shape
    filters_only = Network([net.layers[0], net.layers[3]])
    params = filters_only.init(rng=0)
    y, tape = filters_only.forward(params, np.ones(shape))
    assert y.shape == shape == filters_only.backward(params, tape, y)[1].shape


def test_activations_before_any_shape_take_the_next_layers():
    net = Network([ReLU(), Tanh(), Dense((2, 3), outputs=2), ReLU()])
    assert net.in_shape == (2, 3) and net.out_shape == (2,)
    pointwise = Network([ReLU(), Tanh()])
    assert pointwise.in_shape is None and pointwise.out_shape is None
    assert pointwise.forward({}, np.ones((2, 3, 4, 5)))[0].shape == (2, 3, 4, 5)
    assert pointwise.to_vector({}).shape == (0,)


def test_networks_nest():
    graph = Graph(PATH)
    inner = Network([MaxActivation(graph), Tanh()])
    outer = Network([inner, Dense((1, 4), outputs=2)])
    assert list(outer.parameter_shapes()) == ["0.0.weight", "1.weight", "1.bias"]
    gradcheck.dot_test(outer).raise_if_failed()
    assert inner.signature in outer.signature


def test_backward_can_be_repeated_and_wants_its_own_tape():
    net = small_network()
    params = net.init(rng=0)
    y, tape = net.forward(params, np.ones((2, 1, 4)))
    first = net.backward(params, tape, y)
    second = net.backward(params, tape, y)
    np.testing.assert_array_equal(first[1], second[1])
    assert all(np.array_equal(first[0][k], second[0][k]) for k in params)
    other = Network([*net.layers[:4], ReLU(), net.layers[5]])
    with pytest.raises(ValueError, match="tape was written by"):
        other.backward(params, tape, y)


def test_parameters_are_left_alone():
    net = small_network()
    params = net.init(rng=0)
    before = {k: v.copy() for k, v in params.items()}
    for v in params.values():
        v.setflags(write=False)
    y, tape = net.forward(params, np.ones((2, 1, 4)))
    net.backward(params, tape, y)
    assert all(np.array_equal(params[k], before[k]) for k in params)


def test_layers_that_do_not_fit_are_named():
    graph = Graph(PATH)
    message = r"layer 0 \(MaxActivation\) gives shape \(2, 4\); layer 2 \(Dense\) expects \(3, 4\)"
    with pytest.raises(ValueError, match=message):
        Network([MaxActivation(graph, features=2), ReLU(), Dense((3, 4), outputs=2)])
    other = PATH.copy()
    other[0, 3] = 1
    message = r"layer 0 \(MaxActivation\) lives on graph .* layer 2 \(MedianActivation\) on graph"
    with pytest.raises(ValueError, match=message):
        Network([MaxActivation(graph), ReLU(), MedianActivation(Graph(other))])
    Network([MaxActivation(graph), MedianActivation(Graph(2 * PATH))])  # the same support will do
    with pytest.raises(ValueError, match="layers is empty"):
        Network([])
    with pytest.raises(TypeError, match=r"layers\[1\] is function"):
        Network([ReLU(), lambda x: x])


def test_bad_input_is_found_at_the_door():
    net = small_network()
    params = net.init(rng=0)
    with pytest.raises(ValueError, match="x has 1 value"):
        net.forward(params, [[[1.0, np.nan, 0.0, 0.0]]])
    with pytest.raises(ValueError, match=r"expects \(batch, 1, 4\)"):
        net.forward(params, np.ones((2, 1, 5)))
    with pytest.raises(ValueError, match="params has the names"):
        net.forward({"phi": 1.0}, np.ones((2, 1, 4)))
    broken = {**params, "2.weight": np.array([np.inf, 0.0])}
    with pytest.raises(ValueError, match=r"params\['2.weight'\]"):
        net.predict(broken, np.ones((2, 1, 4)))


def test_signature_and_repr_show_every_layer():
    net = small_network()
    for text in (net.signature, repr(net)):
        for name in ("EdgeVariant", "Tanh", "MedianActivation", "Sigmoid", "Dense"):
            assert name in text
    assert net.graph.fingerprint in net.signature
    assert str(net.n_parameters) in repr(net)
    assert small_network().signature == net.signature != small_network(ReLU()).signature


def test_vector_and_back():
    net = small_network()
    params = net.init(rng=0)
    vector = net.to_vector(params)
    assert vector.shape == (net.n_parameters,)
    views = net.from_vector(vector)
    assert list(views) == list(net.parameter_shapes())
    for name in params:
        np.testing.assert_array_equal(views[name], params[name])
    vector[...] = 3.0
    assert all((v == 3).all() for v in views.values())
    assert net.to_vector(net.init(rng=0, dtype=np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="vector has shape"):
        net.from_vector(vector[:-1])


def test_objective_gradient_and_lbfgs():
    net = small_network()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 1, 4)), rng.integers(0, 3, 20)
    objective = net.objective(x, y, CrossEntropy())
    start = net.to_vector(net.init(rng=1))
    value, gradient = objective(start)
    for i in range(0, start.size, 7):
        h = np.zeros(start.size)
        h[i] = 1e-6
        slope = (objective(start + h)[0] - objective(start - h)[0]) / 2e-6
        assert slope == pytest.approx(gradient[i], rel=1e-5, abs=1e-8)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    assert found.fun < 0.6 * value


def test_objective_solves_least_squares_exactly():
    net = Network([Dense((3,), outputs=1)])
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 3)), rng.standard_normal((30, 1))
    found = minimize(net.objective(x, y, MeanSquaredError()), np.zeros(4), jac=True, method="BFGS", tol=1e-10)
    expected = np.linalg.lstsq(np.hstack([x, np.ones((30, 1))]), y, rcond=None)[0].ravel()
    np.testing.assert_allclose(found.x, expected, rtol=1e-6)
