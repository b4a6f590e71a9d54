from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evref import checks
from evref.learn import CrossEntropy, MeanSquaredError, accuracy, encode_labels

RNG = np.random.default_rng(0)
CASES = [
    (CrossEntropy(), RNG.standard_normal((4, 3)), np.array([0, 2, 1, 2])),
    (CrossEntropy(), RNG.standard_normal(3), 1),
    (MeanSquaredError(), RNG.standard_normal((4, 3)), RNG.standard_normal((4, 3))),
    (MeanSquaredError(), RNG.standard_normal((2, 3, 4)), RNG.standard_normal((2, 3, 4))),
]


@pytest.mark.parametrize(("loss", "prediction", "target"), CASES)
def test_gradient_by_complex_step_and_jvp(loss, prediction, target):
    _, tape = loss.forward(prediction, target)
    grad = loss.backward(tape)
    assert grad.shape == prediction.shape
    for index in np.ndindex(prediction.shape):
        moved = prediction.astype(complex)
        moved[index] += 1e-30j
        with checks.complex_allowed():
            assert loss.forward(moved, target)[0].imag / 1e-30 == pytest.approx(grad[index], rel=1e-12, abs=1e-16)
    d = RNG.standard_normal(prediction.shape)
    assert loss.jvp(prediction, target, d) == pytest.approx(np.sum(d * grad), rel=1e-13)
    np.testing.assert_array_equal(loss.backward(tape, grad=-4.0), -4 * grad)


def test_cross_entropy_against_loops():
    loss, z, labels = CASES[0]
    expected = 0.0
    for b in range(4):
        expected -= log(np.exp(z[b, labels[b]]) / sum(np.exp(z[b, c]) for c in range(3))) / 4
    assert loss.forward(z, labels)[0] == pytest.approx(expected, rel=1e-14)


def test_cross_entropy_exact_and_stable():
    loss = CrossEntropy()
    value, tape = loss.forward([[0.0, 0.0, 0.0, 0.0]], [2])
    assert value == pytest.approx(log(4), rel=1e-15)
    np.testing.assert_allclose(loss.backward(tape), [[0.25, 0.25, -0.75, 0.25]], rtol=1e-15)
    assert loss.forward([[1e4, -1e4]], [1])[0] == 2e4
    assert loss.forward([[1e4, -1e4]], [0])[0] == 0


@given(st.floats(-50, 50))
def test_cross_entropy_ignores_a_common_shift(shift):
    _, z, labels = CASES[0]
    value, tape = CrossEntropy().forward(z, labels)
    moved, moved_tape = CrossEntropy().forward(z + shift, labels)
    assert moved == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(CrossEntropy().backward(tape).sum(axis=1), 0, atol=1e-15)
    np.testing.assert_allclose(CrossEntropy().backward(moved_tape), CrossEntropy().backward(tape), atol=1e-13)


def test_mean_squared_error_exact():
    loss = MeanSquaredError()
    value, tape = loss.forward([[1, 2], [3, 4]], [[1, 0], [3, 8]])
    assert value == 5
    np.testing.assert_array_equal(loss.backward(tape), [[0, 1], [0, -2]])


@pytest.mark.parametrize("loss", [CrossEntropy(), MeanSquaredError()])
def test_float32_stays_float32(loss):
    z = np.ones((2, 3), np.float32)
    target = np.array([0, 1]) if isinstance(loss, CrossEntropy) else np.zeros((2, 3))
    value, tape = loss.forward(z, target)
    assert isinstance(value, float)
    assert loss.backward(tape).dtype == np.float32


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ([0, 3, -1], ValueError, "the label 3 at index 1; expected 0..2"),
        ([0, -1, 0], ValueError, "the label -1 at index 1"),
        ([0.0, 1.0, 2.0], TypeError, "dtype float64; expected integer labels"),
        (["a", "b", "c"], TypeError, "integer labels"),
        ([True, False, True], TypeError, "dtype bool"),
        ([0, 1], ValueError, r"shape \(2,\); expected \(3,\)"),
        ([[0], [1], [2]], ValueError, r"shape \(3, 1\)"),
    ],
)
def test_bad_labels(target, error, message):
    with pytest.raises(error, match=message):
        CrossEntropy().forward(np.zeros((3, 3)), target)


def test_bad_predictions():
    with pytest.raises(ValueError, match="mean over nothing"):
        CrossEntropy().forward(np.zeros((0, 3)), np.zeros(0, int))
    with pytest.raises(ValueError, match="mean over nothing"):
        MeanSquaredError().forward(np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(ValueError, match="CrossEntropy expects"):
        CrossEntropy().forward(np.zeros((2, 3, 4)), [0, 1])
    with pytest.raises(ValueError, match="prediction has 1 value"):
        CrossEntropy().forward([[np.nan, 0.0]], [0])
    with pytest.raises(ValueError, match="target has 1 value"):
        MeanSquaredError().forward([1.0], [np.inf])
    with pytest.raises(ValueError, match=r"target has shape \(3,\); expected \(2,\)"):
        MeanSquaredError().forward([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="prediction has dtype"):
        MeanSquaredError().forward([1j], [1.0])
    with pytest.raises(ValueError, match="dprediction has shape"):
        MeanSquaredError().jvp([1.0], [1.0], [1.0, 2.0])
    assert np.isnan(MeanSquaredError().forward([np.nan], [1.0], check_finite=False)[0])


def test_a_tape_of_another_loss_is_refused():
    _, tape = MeanSquaredError().forward([1.0], [2.0])
    with pytest.raises(TypeError, match="CrossEntropy"):
        CrossEntropy().backward(tape)


@given(st.lists(st.sampled_from(["poe", "twain", "austen"]), min_size=1))
def test_encode_labels_is_a_bijection(labels):
    codes, classes = encode_labels(labels)
    assert classes[codes].tolist() == labels
    assert sorted(set(codes.tolist())) == list(range(len(classes)))


def test_encode_labels_refuses_what_is_no_label():
    with pytest.raises(ValueError, match="labels has shape"):
        encode_labels([[1, 2]])
    with pytest.raises(TypeError, match="dtype object"):
        encode_labels(np.array([1, "a", None], dtype=object))
    with pytest.raises(ValueError, match="not finite"):
        encode_labels([1.0, np.nan])


def test_accuracy():
    assert accuracy([[1.0, 2.0], [5.0, 3.0], [1.0, 1.0], [0.0, 9.0]], [1, 0, 0, 0]) == 0.75
    assert accuracy([1.0, 2.0], 1) == 1.0
