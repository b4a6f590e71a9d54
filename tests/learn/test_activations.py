from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from strategies import first_example

from evref.contract import Module
from evref.graph import Graph
from evref.learn import (
    Identity,
    LeakyReLU,
    MaxActivation,
    MedianActivation,
    ReLU,
    Sigmoid,
    Tanh,
    layer_catalogue,
)
from evref.verify import gradcheck

POINTWISE = [Identity(), ReLU(), LeakyReLU(), LeakyReLU(slope=-0.5), Tanh(), Sigmoid()]
NEIGHBORHOOD = [MaxActivation, MedianActivation]


def directed_graph(n_nodes: int = 7, seed: int = 0) -> Graph:
    """Random and directed, with one isolated node, neighbourhoods of odd and even size."""
    rng = np.random.default_rng(seed)
    S = np.where(rng.random((n_nodes, n_nodes)) < 0.3, rng.standard_normal((n_nodes, n_nodes)), 0)
    S[-1] = S[:, -1] = 0
    return Graph(S)


# ---- the catalogue -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", layer_catalogue)
def test_catalogue_example_passes_dot_test_and_complex_step(name):
    layer = first_example(layer_catalogue[name], directed_graph(), np.random.default_rng(0))
    assert isinstance(layer, Module) and layer.name == name
    x = np.random.default_rng(1).standard_normal((3, *(layer.in_shape or (2, 5))))
    gradcheck.dot_test(layer, x=x).raise_if_failed()
    gradcheck.complex_step(layer, x=x).raise_if_failed()
    gradcheck.central_difference(layer, x=x).raise_if_failed()


@pytest.mark.parametrize("name", layer_catalogue)
def test_empty_batch_gives_empty_result_and_zero_gradients(name):
    layer = first_example(layer_catalogue[name], directed_graph(), 0)
    params = layer.init(rng=0)
    y, tape = layer.forward(params, np.zeros((0, *(layer.in_shape or (2, 5)))))
    assert len(y) == 0
    grads, grad_x = layer.backward(params, tape, y)
    assert len(grad_x) == 0
    assert all(not g.any() for g in grads.values())


@pytest.mark.parametrize("name", layer_catalogue)
def test_the_caller_may_reuse_x_before_backward(name):
    layer = first_example(layer_catalogue[name], directed_graph(), 0)
    params = layer.init(rng=0)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, *(layer.in_shape or (2, 5))))
    y, tape = layer.forward(params, x)
    kept, grad_y = y.copy(), rng.standard_normal(y.shape)
    expected = layer.backward(params, tape, grad_y)
    _, tape = layer.forward(params, x)
    x[...] = 99.0
    grads, grad_x = layer.backward(params, tape, grad_y)
    np.testing.assert_array_equal(y, kept)
    np.testing.assert_array_equal(grad_x, expected[1])
    for key in grads:
        np.testing.assert_array_equal(grads[key], expected[0][key])


@pytest.mark.parametrize("name", layer_catalogue)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(name, dtype):
    layer = first_example(layer_catalogue[name], directed_graph(), 0)
    params = layer.init(rng=0, dtype=dtype)
    x = np.random.default_rng(3).standard_normal((3, *(layer.in_shape or (2, 5)))).astype(dtype)
    y, tape = layer.forward(params, x)
    grads, grad_x = layer.backward(params, tape, y)
    assert y.dtype == grad_x.dtype == dtype
    assert all(g.dtype == dtype for g in grads.values())
    assert layer.jvp(params, x, params, x).dtype == dtype


@pytest.mark.parametrize("name", layer_catalogue)
def test_strides_do_not_matter(name):
    layer = first_example(layer_catalogue[name], directed_graph(), 0)
    params = layer.init(rng=0)
    x = np.random.default_rng(4).standard_normal((4, *(layer.in_shape or (2, 5))))
    y, tape = layer.forward(params, x)
    grads, grad_x = layer.backward(params, tape, y)
    foreign = np.asfortranarray(x)
    foreign.setflags(write=False)
    y2, tape = layer.forward(params, foreign)
    np.testing.assert_allclose(y2, y, rtol=1e-14)
    grads2, grad_x2 = layer.backward(params, tape, np.asfortranarray(y))
    np.testing.assert_allclose(grad_x2, grad_x, rtol=1e-13, atol=1e-15)
    for key in grads:
        np.testing.assert_allclose(grads2[key], grads[key], rtol=1e-12)


# ---- pointwise -----------------------------------------------------------------------------------------------------
def test_exact_values_and_slopes():
    x = np.array([-2.0, 0.0, 4.0])
    for layer, value, slope in [
        (Identity(), [-2, 0, 4], [1, 1, 1]),
        (ReLU(), [0, 0, 4], [0, 0, 1]),
        (LeakyReLU(slope=0.25), [-0.5, 0, 4], [0.25, 0.25, 1]),
    ]:
        y, tape = layer.forward({}, x)
        np.testing.assert_array_equal(y, value)
        np.testing.assert_array_equal(layer.backward({}, tape, np.ones(3))[1], slope)
        np.testing.assert_array_equal(layer.jvp({}, x, {}, np.ones(3)), slope)
    assert Tanh().forward({}, 0.0)[0] == 0
    assert Sigmoid().forward({}, 0.0)[0] == 0.5


@given(arrays(np.float64, array_shapes(max_dims=3), elements=st.floats(-1e3, 1e3)))
def test_pointwise_against_textbook_formulae(x):
    with np.errstate(over="ignore"):
        expected = {
            Tanh: (np.tanh(x), np.cosh(np.clip(x, -300, 300)) ** -2),
            Sigmoid: (1 / (1 + np.exp(-x)), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))) ** 2),
        }
    for cls, (value, slope) in expected.items():
        layer = cls()
        y, tape = layer.forward({}, x)
        np.testing.assert_allclose(y, value, rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(layer.backward({}, tape, np.ones_like(x))[1], slope, rtol=1e-9, atol=1e-15)


def test_sigmoid_neither_overflows_nor_loses_small_slopes():
    layer = Sigmoid()
    x = np.array([-1e4, -700.0, -40.0, 40.0, 700.0, 1e4])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        y, tape = layer.forward({}, x)
        slope = layer.backward({}, tape, np.ones(6))[1]
    np.testing.assert_array_equal(y[[0, -1]], [0, 1])
    np.testing.assert_allclose(slope, np.exp(-np.abs(x)), rtol=1e-15, atol=0)


@pytest.mark.parametrize("layer", POINTWISE, ids=repr)
def test_nan_comes_out_as_nan_when_let_in(layer):
    y, _ = layer.forward({}, [np.nan, 1.0], check_finite=False)
    assert np.isnan(y[0]) and np.isfinite(y[1])
    with pytest.raises(ValueError, match="x has 1 value"):
        layer.forward({}, [np.nan, 1.0])


@pytest.mark.parametrize("layer", POINTWISE, ids=repr)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (1, 2, 3, 4)])
def test_pointwise_takes_any_shape(layer, shape):
    x = np.full(shape, 0.3)
    y, tape = layer.forward({}, x)
    assert y.shape == layer.backward({}, tape, y)[1].shape == shape
    assert layer.in_shape is None and layer.n_parameters == 0


@pytest.mark.parametrize(("slope", "error"), [("steep", TypeError), (np.nan, ValueError), (True, TypeError)])
def test_leaky_relu_refuses_a_bad_slope(slope, error):
    with pytest.raises(error, match="slope is"):
        LeakyReLU(slope)


# ---- neighbourhoods ------------------------------------------------------------------------------------------------
def oracle(graph, hops, weight, x, kind):
    """Straight from the equation: loops over samples, features, nodes and radii."""
    reach = (graph.S.toarray() != 0) | np.eye(graph.n_nodes, dtype=bool)
    y = np.zeros(x.shape)
    for b, f, i in np.ndindex(x.shape):
        near = np.eye(graph.n_nodes, dtype=bool)
        for k in range(hops + 1):
            values = x[b, f, near[i]]
            y[b, f, i] += weight[k] * (np.max(values) if kind == "max" else np.median(values))
            near = (reach.astype(int) @ near.astype(int)) > 0
    return y


@pytest.mark.parametrize("cls", NEIGHBORHOOD)
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_neighborhoods_against_loops(cls, hops):
    graph = directed_graph()
    rng = np.random.default_rng(hops)
    layer = cls(graph, features=2, hops=hops)
    params = layer.init(rng)
    x = rng.standard_normal((3, 2, graph.n_nodes))
    expected = oracle(graph, hops, params["weight"], x, cls.kind)
    np.testing.assert_allclose(layer.forward(params, x)[0], expected, rtol=1e-13)
    assert layer.parameter_shapes() == {"weight": (hops + 1,)}
    assert np.abs(params["weight"]).max() <= (hops + 1) ** -0.5
    assert layer.n_operations(3) == (hops + 1) * 3 * 2 * graph.n_nodes


def test_max_and_median_exact_on_a_path():
    path = Graph([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    x = np.array([8.0, 2.0, 4.0, 6.0])
    weight = {"weight": np.array([10.0, 2.0])}
    y, tape = MaxActivation(path).forward(weight, x)
    np.testing.assert_array_equal(y, [80 + 16, 20 + 16, 40 + 12, 60 + 12])
    grads, grad_x = MaxActivation(path).backward(weight, tape, [1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(grad_x, [10 + 4, 10, 10, 10 + 4])  # node 0 won twice, node 3 twice
    np.testing.assert_array_equal(grads["weight"], [20, 8 + 8 + 6 + 6])

    y, tape = MedianActivation(path).forward(weight, x)
    np.testing.assert_array_equal(y, [80 + 10, 20 + 8, 40 + 8, 60 + 10])  # medians 5, 4, 4, 5
    grads, grad_x = MedianActivation(path).backward(weight, tape, [1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(grad_x, [10 + 1, 10 + 1, 10 + 1 + 2 + 2, 10 + 1])
    np.testing.assert_array_equal(grads["weight"], [20, 5 + 4 + 4 + 5])


@pytest.mark.parametrize("cls", NEIGHBORHOOD)
def test_neighborhood_looks_upstream(cls):
    """S[i, j] weighs j -> i: node 1 hears node 0, not the other way round."""
    layer = cls(Graph([[0, 0], [1, 0]]))
    y, _ = layer.forward({"weight": [0.0, 1.0]}, [[[4.0, 2.0]]])
    np.testing.assert_array_equal(y, [[[4.0, 4.0 if cls is MaxActivation else 3.0]]])


@pytest.mark.parametrize("cls", NEIGHBORHOOD)
def test_ties_go_to_one_node(cls):
    layer = cls(Graph(np.ones((3, 3)) - np.eye(3)))
    params = {"weight": np.array([0.0, 1.0])}
    y, tape = layer.forward(params, [7.0, 7.0, 7.0])
    np.testing.assert_array_equal(y, [7, 7, 7])
    _, grad_x = layer.backward(params, tape, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(np.sort(grad_x), [0, 0, 3])


@pytest.mark.parametrize("cls", NEIGHBORHOOD)
def test_single_node_and_no_edges(cls):
    for n_nodes in (1, 3):
        layer = cls(Graph(np.zeros((n_nodes, n_nodes))), hops=2)
        x = np.arange(1.0, n_nodes + 1)
        np.testing.assert_array_equal(layer.forward({"weight": [1.0, 2.0, 4.0]}, x)[0], 7 * x)


@pytest.mark.parametrize("cls", NEIGHBORHOOD)
def test_bad_arguments_are_named(cls):
    graph = directed_graph()
    with pytest.raises(TypeError, match="graph is list"):
        cls([[0]])
    with pytest.raises(ValueError, match="hops is 0"):
        cls(graph, hops=0)
    with pytest.raises(ValueError, match="features is 0"):
        cls(graph, features=0)
    with pytest.raises(ValueError, match="nodes come last"):
        cls(graph, features=2).forward({"weight": [1.0, 1.0]}, np.zeros((7, 2)))


@pytest.mark.parametrize("cls", NEIGHBORHOOD)
def test_hops_beyond_the_diameter_are_the_last_neighbourhood_again(cls):
    for graph in (Graph(np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])), Graph(np.zeros((1, 1)))):
        x = np.array([1.0, 5.0, 3.0])[: graph.n_nodes]
        many, last = cls(graph, hops=9), cls(graph, hops=2)
        weight = np.arange(1.0, 11)
        expected = last.forward({"weight": [*weight[:2], weight[2:].sum()]}, x)[0]
        np.testing.assert_array_equal(many.forward({"weight": weight}, x)[0], expected)


@pytest.mark.parametrize("cls", NEIGHBORHOOD)
def test_too_many_hops_are_refused_with_their_size(cls):
    with pytest.raises(ValueError, match="the weight of 1000000000 hops is a dense array of 1000000001 numbers, 8 GB"):
        cls(Graph(np.zeros((1, 1))), hops=10**9)
