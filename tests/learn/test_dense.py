from __future__ import annotations

import numpy as np
import pytest

from evref.learn import Dense
from evref.verify import gradcheck


def test_exact_small_integers():
    layer = Dense((2, 2), outputs=2)
    params = {"weight": np.array([[1, 2, 3, 4], [0, 1, 0, -1]]), "bias": np.array([10, 20])}
    x = np.array([[[1, 2], [3, 4]], [[0, 0], [0, 1]]])
    y, tape = layer.forward(params, x)
    np.testing.assert_array_equal(y, [[40, 18], [14, 19]])
    grads, grad_x = layer.backward(params, tape, np.array([[1, 0], [2, 1]]))
    np.testing.assert_array_equal(grads["weight"], [[1, 2, 3, 6], [0, 0, 0, 1]])
    np.testing.assert_array_equal(grads["bias"], [3, 1])
    np.testing.assert_array_equal(grad_x, [[[1, 2], [3, 4]], [[2, 5], [6, 7]]])
    dy = layer.jvp(params, x, {"weight": np.ones((2, 4)), "bias": np.ones(2)}, np.zeros_like(x))
    np.testing.assert_array_equal(dy, [[11, 11], [2, 2]])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("in_shape", [(4,), (2, 5), (2, 3, 2)])
def test_against_loops_and_gradients(in_shape, bias):
    layer = Dense(in_shape, outputs=3, bias=bias)
    params = layer.init(rng=0)
    x = np.random.default_rng(1).standard_normal((4, *in_shape))
    y, _ = layer.forward(params, x)
    for b in range(4):
        for c in range(3):
            value = params["bias"][c] if bias else 0.0
            for w, v in zip(params["weight"][c], x[b].ravel(), strict=True):
                value += w * v
            assert y[b, c] == pytest.approx(value, rel=1e-12)
    gradcheck.dot_test(layer, params, x).raise_if_failed()
    gradcheck.complex_step(layer, params, x).raise_if_failed()
    assert layer.out_shape == (3,)
    assert set(params) == ({"weight", "bias"} if bias else {"weight"})


def test_initialisation_and_counts():
    layer = Dense((4, 25), outputs=7)
    params = layer.init(rng=0)
    assert {k: v.shape for k, v in params.items()} == {"weight": (7, 100), "bias": (7,)}
    for array in params.values():
        assert 0.05 < np.abs(array).max() <= 0.1
    assert layer.n_parameters == 707
    assert layer.n_operations(batch=3) == 2100


def test_one_sample_comes_back_in_kind():
    layer = Dense((1, 3), outputs=2)
    params = layer.init(rng=0)
    batch, _ = layer.forward(params, np.ones((1, 1, 3)))
    for x in (np.ones((1, 3)), np.ones(3)):
        y, tape = layer.forward(params, x)
        np.testing.assert_array_equal(y, batch[0])
        assert layer.backward(params, tape, y)[1].shape == x.shape


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"in_shape": 3, "outputs": 2}, TypeError, "in_shape is 3"),
        ({"in_shape": "ab", "outputs": 2}, TypeError, "in_shape is 'ab'"),
        ({"in_shape": (), "outputs": 2}, ValueError, "at least one axis"),
        ({"in_shape": (2, 0), "outputs": 2}, ValueError, r"in_shape\[1\] is 0"),
        ({"in_shape": (2, 1.5), "outputs": 2}, TypeError, r"in_shape\[1\] is 1.5"),
        ({"in_shape": (2, 3), "outputs": 0}, ValueError, "outputs is 0"),
        ({"in_shape": (2, 3), "outputs": 2, "bias": 1}, TypeError, "bias is 1"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        Dense(**arguments)
